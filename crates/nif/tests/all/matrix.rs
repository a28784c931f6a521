//! X2: each policy with each driver: copies of a packet, owners of buffers.

use layercast_nif::{
    Circuits, EtherType, Memory, Outcome, Policy, Refill, Ring, RingDriver, Type, Vc, VcDriver,
};

use crate::common::{IP, Probe, frame, ms};

const PACKETS: u64 = 20;

/// Copies of a packet and calls of the client, with a ring.
fn ring(policy: Policy, refill: Refill, memory: &Memory) -> (u64, u64) {
    let config = layercast_nif::Config {
        refill,
        copy_break: 0,
        ..Ring::CONFIG
    };
    let mut driver = RingDriver::new(memory.clone(), (4, 1_518), config).unwrap();
    let buffers = if policy == Policy::PeekOnly { 0 } else { 3 };
    let client = Probe::new(policy).with(memory, buffers, 1_518);
    let id = driver
        .register(ms(0), Type::Of(EtherType(IP)), client)
        .unwrap()
        .id;
    for n in 0..PACKETS {
        let outcome = driver.on_frame(ms(n), &frame(IP, &[n as u8; 100]));
        assert!(matches!(outcome, Outcome::Delivered { .. }), "{outcome:?}");
        return_all(&mut driver, id, refill, ms(n));
        let here = driver.client(id).unwrap().held() + driver.holdings(id).posted;
        assert_eq!((here, driver.slots()), (buffers, 4));
    }
    let client = driver.client(id).unwrap();
    assert_eq!(client.seen.last().unwrap()[14..], [19; 100]);
    (driver.stats().copied, client.seen.len() as u64)
}

fn return_all<H: layercast_nif::Hardware>(
    driver: &mut layercast_nif::Driver<H, Probe>,
    id: layercast_nif::ClientId,
    refill: Refill,
    now: layercast_core::Time,
) {
    while let Some(buf) = driver.client_mut(id).unwrap().full.take() {
        match refill {
            Refill::Eager => driver.give_rx(now, id, buf).unwrap(),
            Refill::Lazy => driver.client_mut(id).unwrap().empty.put(buf),
        }
    }
}

/// The same with circuits.
fn circuit(policy: Policy, refill: Refill, memory: &Memory) -> (u64, u64) {
    let config = layercast_nif::Config {
        refill,
        copy_break: 0,
        ..Circuits::CONFIG
    };
    let mut driver = VcDriver::new(memory.clone(), 9_180, config).unwrap();
    let buffers = if policy == Policy::PeekOnly { 0 } else { 3 };
    let client = Probe::new(policy).with(memory, buffers, 9_180);
    let id = driver.register(ms(0), Type::Of(Vc(33)), client).unwrap().id;
    for n in 0..PACKETS {
        let outcome = driver.on_pdu(ms(n), Vc(33), &[n as u8; 1_000]);
        assert!(matches!(outcome, Outcome::Delivered { .. }), "{outcome:?}");
        return_all(&mut driver, id, refill, ms(n));
        let here = driver.client(id).unwrap().held() + driver.holdings(id).posted;
        assert_eq!(here, buffers);
    }
    (
        driver.stats().copied,
        driver.client(id).unwrap().seen.len() as u64,
    )
}

#[test]
fn only_a_ring_copies_and_only_for_clients_that_must_have_their_own_buffers() {
    for refill in [Refill::Lazy, Refill::Eager] {
        for (policy, copies) in [
            (Policy::SwapOrReturn, 0),
            (Policy::MustReturn, PACKETS),
            (Policy::PeekOnly, 0),
        ] {
            let memory = Memory::new(1 << 20);
            assert_eq!(
                ring(policy, refill, &memory),
                (copies, PACKETS),
                "{policy:?}"
            );
            assert_eq!(circuit(policy, refill, &memory), (0, PACKETS), "{policy:?}");
            assert_eq!((memory.alive(), memory.leaked()), (0, 0));
        }
    }
}

/// X1: of two clients with the same traffic, the one that gives no buffers back loses packets, whatever the pools.
#[test]
fn a_client_that_returns_nothing_loses_its_own_packets_alone() {
    for pool in [1, 4, 16, 64] {
        let memory = Memory::new(1 << 24);
        let mut driver = RingDriver::new(memory.clone(), (8, 1_518), Ring::CONFIG).unwrap();
        let mut client = |ty| {
            let probe = Probe::new(Policy::SwapOrReturn).with(&memory, pool, 1_518);
            driver
                .register(ms(0), Type::Of(EtherType(ty)), probe)
                .unwrap()
                .id
        };
        let (good, hog) = (client(IP), client(0x86DD));
        for n in 0..200 {
            driver.on_frame(ms(n), &frame(IP, &[1; 400]));
            driver.on_frame(ms(n), &frame(0x86DD, &[2; 400]));
            assert!(driver.client_mut(good).unwrap().recycle(ms(n)));
        }
        let of = |id| *driver.client_stats(id).unwrap();
        assert_eq!((of(good).delivered, of(good).drops.total()), (200, 0));
        assert_eq!(
            (of(hog).delivered, of(hog).drops.no_buffer),
            (pool as u64, 200 - pool as u64)
        );
    }
}
