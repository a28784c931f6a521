//! Rate control and failure of the path.

use layercast_core::{Rate, Span};
use layercast_multicast::{RateControl, SenderConfig, SenderEvent};
use layercast_wire::multicast::{Body, DataFlags};

use crate::policy::{delivered, net, rmtp, when};
#[test]
fn the_rate_follows_the_monitor_bits() {
    let start = Rate::from_bps(800_000);
    let (least, most) = (Rate::from_bps(100_000), Rate::from_bps(1_200_000));
    let monitor = layercast_multicast::Monitor {
        packets: 5,
        wait: Span::from_ms(110),
        ..SenderConfig::monitor(start, least, most)
    };
    for (rate, loss, wanted) in [
        (RateControl::Monitor(monitor), 0.0, most),
        (RateControl::Monitor(monitor), 0.2, least),
        (RateControl::Friendly(monitor), 0.0, most),
        (RateControl::Friendly(monitor), 0.3, least),
    ] {
        let mut net = net(SenderConfig { rate, ..rmtp() }, 5);
        let mut random = layercast_core::Stream::new(1, "loss");
        net.fate = Box::new(move |_, _, packet| {
            matches!(packet.body, Body::Data(_)) && random.chance(loss)
        });
        net.start();
        net.run();
        assert!(delivered(&net));
        let rates = net.sender_events.iter().filter_map(|(_, it)| match it {
            SenderEvent::Rate(rate) => Some(*rate),
            _ => None,
        });
        let reached = if wanted == most {
            rates.max()
        } else {
            rates.min()
        };
        assert_eq!(reached, Some(wanted), "{rate:?} at {loss}");
    }
}

#[test]
fn most_silent_at_once_is_the_path() {
    let mut net = net(rmtp(), 6);
    let mut cut = false;
    net.fate = Box::new(move |from, _, packet| {
        cut |= matches!(packet.body, Body::Poll(_));
        from > 2 && !cut && matches!(packet.body, Body::Report(_))
    });
    net.start();
    net.run();
    let half = SenderEvent::Rate(Rate::from_bps(400_000));
    let halved = when(&net, &half).unwrap();
    assert!(delivered(&net));
    // The path recovered: the next pass has the full rate again.
    let full = SenderEvent::Rate(Rate::from_bps(800_000));
    assert!(when(&net, &full).is_none_or(|again| again > halved));
}

#[test]
fn a_short_silence_costs_no_rate_and_a_long_one_only_until_all_answer() {
    let rate = Rate::from_bps(8_000_000);
    let (half, full) = (Rate::from_bps(4_000_000), rate);
    for (lost, wanted) in [(12, vec![]), (60, vec![half, full])] {
        let mut net = net(SenderConfig::layercast(rate), 6);
        let (mut first, mut reports) = (true, 0);
        net.fate = Box::new(move |from, to, packet| match &packet.body {
            // All receivers lack something after two passes.
            Body::Data(data) if data.round < 2 && to > 0 => {
                core::mem::take(&mut first) || data.flags.has(DataFlags::LAST)
            }
            Body::Report(report) if from > 0 && report.round == 0 => {
                reports += 1;
                reports <= lost
            }
            _ => false,
        });
        net.start();
        net.run();
        assert!(delivered(&net));
        let rates = net.sender_events.iter().filter_map(|(_, it)| match it {
            SenderEvent::Rate(rate) => Some(*rate),
            _ => None,
        });
        assert_eq!(rates.collect::<Vec<_>>(), wanted, "{lost} reports lost");
    }
}
