use bytes::Bytes;
use layercast_core::{Rate, Span};
use layercast_multicast::{
    Members, Memory, MemoryStore, Outcome, Sender, SenderConfig, Virtual, VirtualStore,
};
use layercast_wire::multicast::MemberId;

use crate::net::{Faults, Net, PERFECT};

pub fn content(octets: usize) -> Bytes {
    let octet = |at: usize| (at as u32).wrapping_mul(2_654_435_761) as u8 ^ (at >> 8) as u8;
    (0..octets).map(octet).collect::<Vec<u8>>().into()
}

pub fn listed(count: u32) -> Members {
    Members::Listed((1..=count).map(|n| (MemberId(n.into()), None)).collect())
}

pub fn stores(count: u32) -> Vec<MemoryStore> {
    (0..count).map(|_| MemoryStore::new(1 << 20)).collect()
}

fn rmtp(octets: usize, receivers: u32, faults: Faults, seed: u64) -> Net<Memory, MemoryStore> {
    let source = Memory::new("paper", content(octets), None);
    let sender = Sender::object(7, SenderConfig::rmtp(), listed(receivers), source).unwrap();
    let stores = stores(receivers);
    Net::new(sender, stores, faults, seed)
}

#[test]
fn everybody_gets_the_object() {
    for loss in [0.0, 0.1] {
        let faults = Faults { loss, ..PERFECT };
        let mut net = rmtp(20_000, 5, faults, 1);
        net.start();
        net.run();
        assert_eq!(net.result(), Some(Ok(())));
        for receiver in net.receivers.iter().flatten() {
            assert!(receiver.is_complete());
            assert_eq!(receiver.store().bytes(), &content(20_000)[..]);
        }
        let all = net.sender.deliveries();
        assert!({ all }.all(|it| it.outcome == Outcome::Delivered));
        assert_eq!(net.sender.stats().data > 20, loss > 0.0);
    }
}

#[test]
fn parities_repair_what_many_lost_differently() {
    let config = SenderConfig::layercast(Rate::from_bps(10_000_000));
    let members = Members::Anyone {
        expect: Some(200),
        most: 1_000,
        late: true,
    };
    let source = Virtual::new(500 * 1_400, 2);
    let sender = Sender::object(7, config, members, source).unwrap();
    let faults = Faults {
        loss: 0.01,
        jitter: Span::from_ms(5),
        ..PERFECT
    };
    let mut net = Net::new(sender, vec![VirtualStore; 200], faults, 2);
    net.start();
    net.run();
    assert_eq!(net.result(), Some(Ok(())));
    assert!(net.receivers.iter().flatten().all(|it| it.is_complete()));
    let stats = net.sender.stats();
    assert!(stats.data < 560, "{stats:?}");
    assert!(stats.reports < 500, "{stats:?}");
}

#[test]
fn a_restarted_receiver_resumes() {
    let config = SenderConfig {
        rate: layercast_multicast::RateControl::Fixed(Rate::from_bps(400_000)),
        ..SenderConfig::rmtp()
    };
    let config = SenderConfig {
        opening: layercast_multicast::Opening {
            tries: 1,
            ..config.opening
        },
        ..config
    };
    let members = Members::Anyone {
        expect: Some(3),
        most: 10,
        late: true,
    };
    let source = Memory::new("paper", content(60_000), None);
    let sender = Sender::object(7, config, members, source).unwrap();
    let mut net = Net::new(sender, stores(3), PERFECT, 3);
    net.start();
    net.run_until(net.now + Span::from_ms(700));
    let store = net.crash(2);
    net.run_until(net.now + Span::from_ms(300));
    net.restart(2, 2, store);
    net.run();
    assert!(net.receivers.iter().flatten().all(|it| it.is_complete()));
    let again = net.data().filter(|(_, data)| data.round > 0).count();
    assert!((1..40).contains(&again), "{again} packets sent again");
    assert_eq!(net.result(), Some(Ok(())));
}

/// Integrated parities at G = 1000, 1 %, k = 100: the model says 1.056 transmissions per packet, without FEC 2.10
/// (specs/packet-level-fec.md 8). Suppression keeps answers far below one per receiver and round.
#[test]
fn a_thousand_receivers_take_few_packets_and_few_answers() {
    const RECEIVERS: u32 = 1_000;
    let config = SenderConfig::layercast(Rate::from_bps(20_000_000));
    let members = Members::Anyone {
        expect: Some(RECEIVERS),
        most: RECEIVERS,
        late: false,
    };
    let source = Virtual::new(2_000 * 1_400, 3);
    let sender = Sender::object(7, config, members, source).unwrap();
    let faults = Faults {
        loss: 0.01,
        ..PERFECT
    };
    let mut net = Net::new(sender, vec![VirtualStore; RECEIVERS as usize], faults, 4);
    net.start();
    net.run();
    assert_eq!(net.result(), Some(Ok(())));
    assert!(net.receivers.iter().flatten().all(|it| it.is_complete()));
    let stats = *net.sender.stats();
    let sent = stats.data as f64 / 2_000.0;
    println!("{stats:?} {:?}", net.now);
    assert!(sent <= 1.10, "{sent} transmissions for each packet");
    assert!(stats.reports < 3 * u64::from(RECEIVERS), "{stats:?}");
}
