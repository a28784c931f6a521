use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use layercast_core::{FlowId, FrameRate, NodeId, Off};
use layercast_media::{Clip, Synthetic};
use layercast_mets::switch::PortConfig;
use layercast_mets::{AppFrame, SourceConfig, SourceStats};
use layercast_wire::{Carriage, FlowInfo, Payload};

use super::*;
use crate::clock::wall_clock;
use crate::config::NodeConfig;
use crate::frames::Frames;

const LASTS: Span = Span::from_secs(5);

/// A node that serves a clip and has no neighbour.
fn alone() -> Machines {
    let rate = FrameRate { num: 48, den: 1 };
    let clip = Clip::synthetic(Synthetic::Lougher, rate, 48 * 4, 1);
    let mut spec = clip.flow_spec();
    (spec.flow_id, spec.delay_max_ms) = (FlowId(1), 800);
    let info = FlowInfo {
        spec,
        ..FlowInfo::new(FlowId(1), "film", "server")
    };
    let mut config = SourceConfig::new("server", NodeId(1), info, Carriage::Datagrams);
    config.start = Time::ZERO;
    let frames = clip.frames.into_iter().map(|frame| AppFrame {
        layer: frame.layer(),
        gop_start: frame.gop_start,
        sound: frame.sound,
        time: frame.time,
        payload: Payload::Zeros(frame.size),
    });
    let source = LocalSource {
        config,
        frames: Frames::of(frames),
        start_when_joined: 0,
    };
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let config = NodeConfig::new(SwitchConfig::default(), listen, PortConfig::default());
    let ports = Ports::new(
        "server".into(),
        1,
        BTreeMap::new(),
        Vec::new(),
        BTreeMap::new(),
        config.default_port,
        8,
    );
    let rates = Rates::new(Time::ZERO, &ports, BTreeMap::new());
    let (events, _) = mpsc::channel(8);
    Machines::new(
        config.switch,
        vec![source],
        config.host,
        (ports, rates),
        events,
        (Time::ZERO, wall_clock),
        &mut Off,
    )
    .expect("it starts")
}

/// What wakes a node, and how often.
#[derive(PartialEq, Eq, Default, Debug)]
struct Wakes {
    timers: u32,
    /// Something else, such as a call.
    others: u32,
}

/// Runs it for [`LASTS`]. With `batches` as the event loop does while no neighbour is connected; something else wakes it every `other`.
fn run(batches: bool, other: Span) -> (Wakes, SourceStats) {
    let (mut machines, mut wakes) = (alone(), Wakes::default());
    let end = Time::ZERO + LASTS;
    let (mut now, mut next_other) = (Time::ZERO, Time::ZERO + other);
    assert!(machines.is_alone());
    loop {
        let due = machines.next_timeout().expect("a flow has timers");
        let due = match batches {
            true => Machines::put_off(due),
            false => due,
        };
        now = due.min(next_other).max(now);
        if now > end {
            break;
        }
        if now == next_other {
            (next_other, wakes.others) = (next_other + other, wakes.others + 1);
        } else {
            wakes.timers += 1;
        }
        if batches {
            machines.make_up(now, &mut Off);
        }
        machines.on_timeout(now, &mut Off);
    }
    let source = machines.station.sources()[0].stats();
    (wakes, source)
}

/// A node without a neighbour wakes ten times a second. Its timers run at their own times: the source does what it does when each timer
/// wakes the node.
#[test]
fn a_node_without_a_neighbour_seldom_wakes_and_no_timer_is_late() {
    let never = LASTS + Span::from_secs(1);
    let (each, exact) = run(false, never);
    assert_eq!((exact.submitted, exact.missed_deadlines), (192, 0));
    assert!(each.timers > 300, "{each:?}");
    for (other, timers, others) in [(never, 50, 0), (Span::from_ms(130), 50, 38)] {
        let (wakes, stats) = run(true, other);
        assert_eq!(stats, exact, "{other:?}");
        assert!(
            wakes.timers <= timers && wakes.others == others,
            "{wakes:?}"
        );
    }
}

/// After a stop of the host, timers are late as they were: they are not made up for.
#[test]
fn what_a_host_that_stopped_missed_is_not_made_up() {
    let mut machines = alone();
    let second = Time::ZERO + Span::from_secs(1);
    machines.make_up(second, &mut Off);
    machines.on_timeout(second, &mut Off);
    assert_eq!(machines.station.sources()[0].stats().missed_deadlines, 0);
    let later = second + ALONE_MOST + Span::from_ms(1);
    machines.make_up(later, &mut Off);
    machines.on_timeout(later, &mut Off);
    assert!(machines.station.sources()[0].stats().missed_deadlines > 0);
}
