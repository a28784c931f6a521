//! Taps, copies, small packets, shares of buffers, and what a packet costs the driver.

use layercast_core::Span;
use layercast_nif::{
    Circuits, Client, DropReason, EtherType, Memory, Outcome, Policy, RegError, Ring, RingDriver,
    Shepherd, SlotDriver, Type, Vc, VcDriver, cpu,
};

use crate::common::{ARP, IP, Probe, Then, frame, ms};

const SLOT: usize = 1_518;
const OF_IP: Type<EtherType> = Type::Of(EtherType(IP));

#[test]
fn taps_see_a_packet_before_its_owner_and_cost_no_copy() {
    let memory = Memory::new(1 << 20);
    let mut driver = RingDriver::new(memory.clone(), (4, SLOT), Ring::CONFIG).unwrap();
    let peek = || Probe::new(Policy::PeekOnly);
    let (error, back) = driver
        .tap(ms(0), OF_IP, Probe::new(Policy::MustReturn))
        .unwrap_err();
    assert_eq!(
        (error, back.policy),
        (RegError::TapOwns, Policy::MustReturn)
    );
    let bad = driver
        .tap(ms(0), OF_IP, peek().and(Then::Panic))
        .unwrap()
        .id;
    let tap = driver.tap(ms(0), OF_IP, peek()).unwrap().id;
    let other = driver.tap(ms(0), Type::Default, peek()).unwrap().id;
    // Without an owner it is dropped, and seen.
    let outcome = driver.on_frame(ms(0), &frame(IP, b"1"));
    assert_eq!(
        outcome,
        Outcome::Dropped {
            client: None,
            reason: DropReason::NoClient
        }
    );
    let owner = Probe::new(Policy::SwapOrReturn).with(&memory, 2, SLOT);
    let owner = driver.register(ms(0), OF_IP, owner).unwrap().id;
    driver.on_frame(ms(0), &frame(IP, b"2"));
    driver.on_frame(ms(0), &frame(ARP, b"3"));
    let seen = |id| driver.client(id).unwrap().seen.len();
    assert_eq!((seen(tap), seen(other), seen(owner)), (2, 1, 1));
    assert_eq!((driver.stats().copied, driver.stats().delivered), (0, 1));
    assert_eq!(driver.client_stats(bad).unwrap().drops.failed, 1);
    driver.unregister(tap);
    assert_eq!(driver.poll_closed().unwrap().id, tap);
    driver.on_frame(ms(0), &frame(IP, b"4"));
    assert_eq!(driver.client(owner).unwrap().seen.len(), 2);
}

#[test]
fn a_buffer_that_the_adapter_cannot_reach_gets_a_copy() {
    let memory = Memory::new(1 << 20);
    let mut driver = RingDriver::new(memory.clone(), (4, SLOT), Ring::CONFIG).unwrap();
    let mut client = Probe::new(Policy::SwapOrReturn);
    client.empty.put(memory.linear(600).unwrap());
    let id = driver.register(ms(0), OF_IP, client).unwrap().id;
    let outcome = driver.on_frame(ms(0), &frame(IP, &[1; 500]));
    assert_eq!(
        outcome,
        Outcome::Delivered {
            client: id,
            is_copied: true
        }
    );
    assert_eq!(
        driver.client(id).unwrap().full.get(0).unwrap().max_len(),
        600
    );
}

/// 8.3: small packets do not hold large buffers.
#[test]
fn small_packets_are_copied_to_small_buffers_and_large_ones_are_not() {
    let memory = Memory::new(1 << 22);
    for has_small in [false, true] {
        let mut ring = RingDriver::new(memory.clone(), (4, SLOT), Ring::CONFIG).unwrap();
        let mut circuits = VcDriver::new(memory.clone(), 9_180, Circuits::CONFIG).unwrap();
        let client = |len| {
            let threads = vec![
                cpu::Cpu::<()>::new(cpu::CpuConfig::default())
                    .add_thread(cpu::ThreadSpec::default()),
            ];
            let policy = Policy::SwapOrReturn;
            let mut client = Shepherd::new(&memory, policy, threads, (8, len)).unwrap();
            if has_small {
                (0..8).for_each(|_| client.add(memory.linear(160).unwrap()));
            }
            client
        };
        let id = ring.register(ms(0), OF_IP, client(SLOT)).unwrap().id;
        let vc = circuits
            .register(ms(0), Type::Of(Vc(1)), client(9_180))
            .unwrap()
            .id;
        for n in 0..8 {
            ring.on_frame(ms(n), &frame(IP, &[n as u8; 100]));
            circuits.on_pdu(ms(n), Vc(1), &[n as u8; 120]);
        }
        let of = |stats: &layercast_nif::ClientStats| {
            (
                stats.delivered,
                stats.copied,
                stats.octets,
                stats.true_octets,
            )
        };
        let (copied, ring_true, vc_true) = if has_small {
            (8, 160, 160)
        } else {
            (0, SLOT as u64, 9_180)
        };
        assert_eq!(
            of(ring.client_stats(id).unwrap()),
            (8, copied, 8 * 114, 8 * ring_true)
        );
        assert_eq!(
            of(circuits.client_stats(vc).unwrap()),
            (8, copied, 8 * 120, 8 * vc_true)
        );
        // The next packet is not small, and a large buffer is there for it only where the small ones saved one.
        let outcome = ring.on_frame(ms(9), &frame(IP, &[9; 1_000]));
        assert_eq!(
            matches!(
                outcome,
                Outcome::Delivered {
                    is_copied: false,
                    ..
                }
            ),
            has_small
        );
        let packet = ring.client_mut(id).unwrap().next_packet().unwrap();
        assert_eq!(packet.data().unwrap()[14..], [0; 100]);
        ring.client_mut(id).unwrap().put(ms(10), packet);
    }
    assert_eq!((memory.alive(), memory.leaked()), (0, 0));
}

/// 8.2: a client gets the buffers that it needs, and a slow one no more than its share.
#[test]
fn buffers_follow_the_need() {
    let memory = Memory::new(1 << 22);
    let mut driver = VcDriver::new(memory.clone(), 2_000, Circuits::CONFIG).unwrap();
    let mut client = |vc| {
        let probe = Probe::new(Policy::MustReturn).with(&memory, 20, 2_000);
        driver.register(ms(0), Type::Of(Vc(vc)), probe).unwrap().id
    };
    let (quick, slow, hog) = (client(1), client(2), client(3));
    let mut away = std::collections::VecDeque::new();
    for n in 0..1_000 {
        for vc in 1..=3 {
            driver.on_pdu(ms(n), Vc(vc), &[0; 1_000]);
        }
        // One returns buffers after 2 ms, the other one after 50 ms, as long as it has any, the third one never.
        away.push_back(n);
        for (id, hold) in [(quick, 2), (slow, 15)] {
            let client = driver.client_mut(id).unwrap();
            if client.full.len() > hold {
                let buf = client.full.take().unwrap();
                driver.give_rx(ms(n), id, buf).unwrap();
            }
        }
    }
    assert_eq!(driver.client_stats(hog).unwrap().drops.no_buffer, 980);
    assert_eq!(
        driver.client_stats(slow).unwrap().longest_held,
        Span::from_ms(15)
    );
    // 2 ms of 1000 packets/s are 2 buffers, twice that, and one; 15 ms of them 31.
    assert_eq!(
        driver.divide(ms(1_000), 1_000),
        [(quick, 5), (slow, 31), (hog, 20)]
    );
    // What is scarce is divided.
    assert_eq!(
        driver.divide(ms(1_000), 30),
        [(quick, 5), (slow, 12), (hog, 13)]
    );
}

#[test]
fn a_packet_takes_no_memory() {
    let memory = Memory::new(1 << 22);
    let mut driver = RingDriver::new(memory.clone(), (8, SLOT), Ring::CONFIG).unwrap();
    let mut cpu = cpu::Cpu::new(cpu::CpuConfig::default());
    let thread = cpu.add_thread(cpu::ThreadSpec::default());
    let client = Shepherd::new(&memory, Policy::SwapOrReturn, vec![thread], (16, SLOT)).unwrap();
    let id = driver.register(ms(0), OF_IP, client).unwrap().id;
    driver
        .client_mut(id)
        .unwrap()
        .add_tx(memory.linear(100).unwrap());
    let data = frame(IP, &[0; 1_000]);
    let mut pass = |n| {
        driver.on_frame(ms(n), &data);
        for action in driver.actions() {
            if let layercast_nif::Action::Wake(thread) = action {
                cpu.push(ms(n), cpu::Level::Thread(thread), Span::from_us(100), ());
            }
        }
        assert!(cpu.pop_done(ms(n + 1)).is_some());
        let client = driver.client_mut(id).unwrap();
        let packet = client.next_packet().unwrap();
        client.put(ms(n), packet);
        let answer = client.take_tx().unwrap();
        driver.transmit_async(id, answer).unwrap();
        driver.poll_transmit().unwrap();
        driver.on_tx_complete(layercast_nif::TxResult::Sent);
        driver.actions().for_each(drop);
    };
    (0..20).for_each(&mut pass);
    let info = allocation_counter::measure(|| (20..1_020).for_each(&mut pass));
    assert_eq!(info.count_total, 0, "{info:?}");
    assert_eq!(driver.client(id).unwrap().empties(), 16);
}

#[test]
fn slots_that_something_else_fills_are_exchanged() {
    let memory = Memory::new(1 << 20);
    let mut driver =
        SlotDriver::<u8, Shepherd>::new(memory.clone(), (2, SLOT), Ring::CONFIG).unwrap();
    let thread =
        cpu::Cpu::<()>::new(cpu::CpuConfig::default()).add_thread(cpu::ThreadSpec::default());
    let client = |buffers| {
        let pool = (buffers, SLOT);
        Shepherd::new(&memory, Policy::SwapOrReturn, vec![thread], pool).unwrap()
    };
    let ids = [1, 3].map(|it| {
        let registered = driver.register(ms(0), Type::Of(it as u8), client(it));
        registered.unwrap().id
    });
    for round in 0..3_u8 {
        for (at, slot) in driver.slots_mut().enumerate() {
            assert_eq!(slot.len(), SLOT);
            slot[..1_000].fill(10 * round + at as u8);
        }
        // Any slot, in any order.
        for (at, ty) in [(1, 3), (0, 1)] {
            let outcome = driver.on_slot(ms(0), at, 1_000, Type::Of(ty));
            let is_delivered = matches!(outcome, Outcome::Delivered { .. });
            assert_eq!(is_delivered, ty == 3 || round == 0, "{outcome:?}");
        }
    }
    for (at, len, reason) in [
        (2, 9, DropReason::RingOverrun),
        (0, SLOT + 1, DropReason::BadFrame),
    ] {
        let client = None;
        let outcome = driver.on_slot(ms(0), at, len, Type::Of(3));
        assert_eq!(outcome, Outcome::Dropped { client, reason });
    }
    let drops = driver.client_stats(ids[0]).unwrap().drops;
    assert_eq!((drops.no_buffer, drops.total()), (2, 2));
    let stats = *driver.stats();
    assert_eq!(stats.received, stats.delivered + stats.drops.total());
    assert_eq!(stats.copied, 0);
    let shepherd = driver.client_mut(ids[1]).unwrap();
    for round in 0..3 {
        let mut packet = shepherd.next_packet().unwrap();
        assert_eq!(packet.data_mut().unwrap(), [10 * round + 1; 1_000]);
        packet.free();
    }
    driver.shut_down();
    assert_eq!((memory.alive(), memory.leaked()), (0, 0));
}

/// Packets of several clients in one slot: what is not last is copied, and each sees its own octets only.
#[test]
fn a_slot_has_packets_of_several_clients() {
    for policy in [Policy::SwapOrReturn, Policy::MustReturn, Policy::PeekOnly] {
        let memory = Memory::new(1 << 20);
        let config = Ring::CONFIG;
        let mut driver = SlotDriver::<u8, Probe>::new(memory.clone(), (1, SLOT), config).unwrap();
        let client = || match policy {
            Policy::PeekOnly => Probe::new(policy),
            _ => Probe::new(policy).with(&memory, 2, SLOT),
        };
        let ids = [1, 2].map(|ty| {
            let registered = driver.register(ms(0), Type::Of(ty), client());
            registered.unwrap().id
        });
        let tap = driver.tap(ms(0), Type::Of(1), Probe::new(Policy::PeekOnly));
        let tap = tap.unwrap().id;
        let slot = driver.slot_mut(0).unwrap();
        for (at, octet) in slot.iter_mut().enumerate() {
            *octet = (at / 100) as u8;
        }
        for (part, ty, is_last) in [
            (0..100, 1, false),
            (100..300, 2, false),
            (300..350, 1, true),
        ] {
            let outcome = driver.on_part(ms(0), 0, part, Type::Of(ty), is_last);
            assert!(matches!(outcome, Outcome::Delivered { .. }), "{outcome:?}");
        }
        let first = [vec![0; 100], vec![3; 50]];
        let second = [[[1; 100], [2; 100]].concat()];
        assert_eq!(driver.client(ids[0]).unwrap().seen, first);
        assert_eq!(driver.client(ids[1]).unwrap().seen, second);
        assert_eq!(driver.client(tap).unwrap().seen, first);
        if policy != Policy::PeekOnly {
            // The buffers have the packets still, whichever way they came.
            let client = driver.client_mut(ids[0]).unwrap();
            let kept = [client.full.take(), client.full.take()].map(Option::unwrap);
            assert_eq!(kept.each_ref().map(|it| it.data().unwrap().to_vec()), first);
            for mut buf in kept {
                let segments = buf
                    .segments()
                    .map(<[u8]>::to_vec)
                    .collect::<Vec<_>>()
                    .concat();
                assert_eq!(buf.data_mut().unwrap(), segments);
                buf.empty(ms(1));
                assert_eq!(buf.data(), Some(&[][..]));
                client.empty.put(buf);
            }
        }
        let copied = driver.stats().copied;
        let told = match policy {
            Policy::SwapOrReturn => 2,
            Policy::MustReturn => 3,
            Policy::PeekOnly => 0,
        };
        assert_eq!(copied, told, "{policy:?}");
        // A part that ends beyond the slot, or before it begins.
        #[expect(clippy::reversed_empty_ranges, reason = "it is what is refused")]
        for part in [0..SLOT + 1, 9..8] {
            let outcome = driver.on_part(ms(0), 0, part, Type::Of(1), true);
            let (client, reason) = (None, DropReason::BadFrame);
            assert_eq!(outcome, Outcome::Dropped { client, reason });
        }
        assert_eq!(driver.slots(), 1);
    }
}
