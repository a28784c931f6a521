//! The 14 edge cases of specs/network-interface-framework.md 7; those of the processor are in `cpu`.

use layercast_nif::{
    Action, DropReason, EtherType, Memory, Order, Policy, RegError, Ring, RingDriver, TxResult,
    Type, Warning, classify,
};

use crate::common::{ARP, IP, Probe, Then, dropped, frame, ms};

pub const SLOT: usize = 1_518;
pub const OF_IP: Type<EtherType> = Type::Of(EtherType(IP));

pub fn ring(memory: &Memory) -> RingDriver<Probe> {
    RingDriver::new(memory.clone(), (4, SLOT), Ring::CONFIG).unwrap()
}

pub fn swap(memory: &Memory, count: usize) -> Probe {
    Probe::new(Policy::SwapOrReturn).with(memory, count, SLOT)
}

/// 1.
#[test]
fn a_type_has_one_owner_and_a_driver_one_default() {
    let memory = Memory::new(1 << 20);
    let mut driver = ring(&memory);
    for ty in [OF_IP, Type::Default] {
        let first = driver.register(ms(0), ty, swap(&memory, 1)).unwrap();
        let (error, back) = driver.register(ms(0), ty, swap(&memory, 2)).unwrap_err();
        assert_eq!((error, back.held()), (RegError::Taken { by: first.id }, 2));
        driver.on_frame(ms(0), &frame(if ty == OF_IP { IP } else { ARP }, b"x"));
        assert_eq!(driver.client(first.id).unwrap().seen.len(), 1);
    }
}

/// 2.
#[test]
fn pools_that_make_no_sense_are_reported_and_accepted() {
    let memory = Memory::new(1 << 20);
    let mut driver = ring(&memory);
    let peek = Probe::new(Policy::PeekOnly).with(&memory, 1, SLOT);
    let useless = driver
        .register(ms(0), Type::Of(EtherType(ARP)), peek)
        .unwrap();
    assert_eq!(useless.warning, Some(Warning::UselessPool));
    for (ty, policy) in [
        (OF_IP, Policy::SwapOrReturn),
        (Type::Default, Policy::MustReturn),
    ] {
        let empty = driver.register(ms(0), ty, Probe::new(policy)).unwrap();
        assert_eq!(empty.warning, Some(Warning::EmptyPool));
    }
    assert_eq!(
        dropped(driver.on_frame(ms(0), &frame(IP, b"x"))),
        DropReason::NoBuffer
    );
    assert_eq!(
        dropped(driver.on_frame(ms(0), &frame(0x9999, b"x"))),
        DropReason::NoBuffer
    );
    assert_eq!(driver.stats().drops.no_buffer, 2);
    let sound = driver
        .register(ms(0), Type::Of(EtherType(7_777)), swap(&memory, 1))
        .unwrap();
    assert_eq!(sound.warning, None);
}

/// 3.
#[test]
fn each_reason_is_counted_for_its_client_and_all_packets_add_up() {
    let memory = Memory::new(1 << 20);
    let mut driver = ring(&memory);
    let small = Probe::new(Policy::MustReturn).with(&memory, 1, 64);
    let ip = driver.register(ms(0), OF_IP, small).unwrap().id;
    let tiny = Probe::new(Policy::SwapOrReturn).with(&memory, 1, 64);
    let arp = driver
        .register(ms(0), Type::Of(EtherType(ARP)), tiny)
        .unwrap()
        .id;
    assert_eq!(
        dropped(driver.on_frame(ms(0), &frame(IP, &[0; 80]))),
        DropReason::TooSmall
    );
    assert_eq!(
        dropped(driver.on_frame(ms(0), &frame(ARP, &[0; 10]))),
        DropReason::TooSmall
    );
    assert_eq!(
        dropped(driver.on_frame(ms(0), &frame(0x9999, b""))),
        DropReason::NoClient
    );
    assert_eq!(
        dropped(driver.on_frame(ms(0), &[0; SLOT + 1])),
        DropReason::BadFrame
    );
    driver.on_frame(ms(0), &frame(IP, &[0; 50]));
    assert_eq!(
        dropped(driver.on_frame(ms(0), &frame(IP, &[0; 50]))),
        DropReason::NoBuffer
    );
    for _ in 0..4 {
        driver.on_wire(&frame(IP, b"")).unwrap();
    }
    assert_eq!(
        driver.on_wire(&frame(IP, b"")),
        Err(DropReason::RingOverrun)
    );
    assert_eq!(driver.filled(), 4);
    let (stats, waiting) = (*driver.stats(), driver.waiting().count() as u64);
    assert_eq!(
        stats.received,
        stats.delivered + stats.drops.total() + waiting
    );
    let drops = |id| driver.client_stats(id).unwrap().drops;
    assert_eq!(
        (drops(ip).too_small, drops(ip).no_buffer, drops(ip).total()),
        (1, 1, 2)
    );
    assert_eq!((drops(arp).too_small, drops(arp).total()), (1, 1));
    // Its buffer was given back each time.
    assert_eq!(driver.client(arp).unwrap().empty.len(), 1);
}

/// 8.
#[test]
fn a_client_can_give_and_send_while_it_receives_and_cannot_wait() {
    let memory = Memory::new(1 << 20);
    for then in [Then::Give, Then::Echo, Then::Wait] {
        let mut driver = ring(&memory);
        let id = driver
            .register(ms(0), OF_IP, swap(&memory, 1).and(then))
            .unwrap()
            .id;
        driver.on_frame(ms(0), &frame(IP, b"ping"));
        let (held, holds) = (driver.client(id).unwrap().full.len(), driver.holdings(id));
        match then {
            Then::Give => assert_eq!((held, holds.posted, holds.queued), (0, 1, 0)),
            Then::Echo => {
                assert_eq!((held, holds.posted, holds.queued), (0, 0, 1));
                let (client, packet) = driver.poll_transmit().unwrap();
                assert_eq!((client, &packet.data().unwrap()[14..]), (id, &b"ping"[..]));
                driver.on_tx_complete(TxResult::Sent);
                assert_eq!(driver.client(id).unwrap().sent.len(), 1);
            }
            _ => assert_eq!((held, holds.posted, holds.queued), (1, 0, 0)),
        }
    }
}

/// 10.
#[test]
fn short_frames_are_bad_and_lengths_are_no_types() {
    let memory = Memory::new(1 << 20);
    let mut driver = ring(&memory);
    let default = driver
        .register(ms(0), Type::Default, swap(&memory, 4))
        .unwrap()
        .id;
    for octets in [0, 1, 13] {
        assert_eq!(
            dropped(driver.on_frame(ms(0), &vec![0xff; octets])),
            DropReason::BadFrame
        );
    }
    driver.on_frame(ms(0), &frame(0x05ff, b"802.3"));
    assert_eq!(driver.client(default).unwrap().seen.len(), 1);
    assert_eq!(classify(&frame(0x05ff, b"")), Some(Type::Default));
    assert_eq!(
        classify(&frame(0x0600, b"")),
        Some(Type::Of(EtherType(0x0600)))
    );
    // A length is no type that could be taken.
    let of_length = driver
        .register(ms(0), Type::Of(EtherType(0x05ff)), swap(&memory, 1))
        .unwrap()
        .id;
    driver.on_frame(ms(0), &frame(0x05ff, b"802.3"));
    assert_eq!(driver.client(of_length).unwrap().seen.len(), 0);
}

/// 12.
#[test]
fn a_pool_without_threads_is_no_pool() {
    let memory = Memory::new(1 << 20);
    let mut driver = ring(&memory);
    let mut client = swap(&memory, 1);
    client.threads = Some(0);
    let (error, mut client) = driver.register(ms(0), OF_IP, client).unwrap_err();
    assert_eq!(error, RegError::NoThreads);
    client.threads = Some(1);
    let id = driver.register(ms(0), OF_IP, client).unwrap().id;
    // The queue is bounded by the buffers of the client.
    for _ in 0..10 {
        driver.on_frame(ms(0), &frame(IP, &[0; 400]));
    }
    assert_eq!(driver.client(id).unwrap().full.len(), 1);
}

/// 14.
#[test]
fn a_bad_priority_is_the_least() {
    let memory = Memory::new(1 << 20);
    let config = layercast_nif::Config {
        order: Order::Priority,
        ..Ring::CONFIG
    };
    let mut driver = RingDriver::new(memory.clone(), (4, SLOT), config).unwrap();
    let mut client = |ty, priority| {
        let mut probe = swap(&memory, 1);
        probe.priority = priority;
        driver
            .register(ms(0), Type::Of(EtherType(ty)), probe)
            .unwrap()
            .id
    };
    let (low, high, none) = (
        client(0x1000, -5.0),
        client(0x1001, 5.0),
        client(0x1002, f64::NAN),
    );
    let mut send = |id, len| {
        let mut buf = memory.linear(100).unwrap();
        buf.set_len(len).unwrap();
        driver.transmit_async(id, buf).unwrap();
    };
    // The priority of 13 octets panics.
    for (id, len) in [
        (none, 1),
        (high, 13),
        (low, 2),
        (high, 3),
        (low, 4),
        (high, 5),
    ] {
        send(id, len);
    }
    let mut order = Vec::new();
    while let Some((_, buf)) = driver.poll_transmit() {
        order.push(buf.cur_len());
        driver.on_tx_complete(TxResult::Sent);
    }
    assert_eq!(order, [3, 5, 2, 4, 1, 13]);
    let bad = |id| driver.client_stats(id).unwrap().bad_priorities;
    assert_eq!((bad(none), bad(high), bad(low)), (1, 1, 0));
    assert!(!driver.client_stats(high).unwrap().is_failed);
}

/// Waiting for a packet: the action names its ticket.
#[test]
fn who_waits_for_a_packet_learns_when_it_is_sent() {
    let memory = Memory::new(1 << 20);
    let mut driver = ring(&memory);
    let id = driver.register(ms(0), OF_IP, swap(&memory, 1)).unwrap().id;
    driver
        .transmit_async(id, memory.linear(1).unwrap())
        .unwrap();
    let ticket = driver.transmit_sync(id, memory.linear(2).unwrap()).unwrap();
    driver.poll_transmit();
    driver.on_tx_complete(TxResult::Sent);
    assert!(!driver.actions().any(|it| it == Action::Sent(ticket)));
    driver.poll_transmit();
    driver.on_tx_complete(TxResult::Failed);
    assert!(driver.actions().any(|it| it == Action::Sent(ticket)));
    assert_eq!(driver.stats().sent, 1);
}
