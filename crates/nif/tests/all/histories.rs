//! Any history of packets, parts of slots, returns, transmissions, failures and departures: no buffer is lost, and no packet uncounted.

use std::collections::BTreeMap;

use layercast_core::Time;
use layercast_nif::{
    Circuits, ClientId, Config, Driver, EtherType, Hardware, Memory, Order, Policy, Refill, Ring,
    RingDriver, SlotDriver, TxResult, Type, Vc, VcDriver,
};
use proptest::prelude::*;

use crate::common::{Probe, Then, frame, ms};

#[derive(Clone, Debug)]
enum Step {
    /// A packet of a type, and its octets.
    Packet(u8, usize),
    /// A client is done with a packet, and gives the buffer to its pool or to the driver.
    Return(u8, bool),
    Send(u8, usize),
    Transmit,
    Complete(bool),
    Behave(u8, u8),
    Register(u8, u8, u8),
    Unregister(u8),
    StopDma(u8),
    Service,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..4_u8, 0..400_usize).prop_map(|(ty, octets)| Step::Packet(ty, octets)),
        4 => (0..4_u8, any::<bool>()).prop_map(|(client, gives)| Step::Return(client, gives)),
        2 => (0..4_u8, 0..64_usize).prop_map(|(client, octets)| Step::Send(client, octets)),
        2 => Just(Step::Transmit),
        2 => any::<bool>().prop_map(Step::Complete),
        1 => (0..4_u8, 0..12_u8).prop_map(|(client, then)| Step::Behave(client, then)),
        2 => (0..4_u8, 0..3_u8, 0..5_u8).prop_map(|(ty, policy, pool)| Step::Register(ty, policy, pool)),
        1 => (0..4_u8).prop_map(Step::Unregister),
        1 => (0..4_u8).prop_map(Step::StopDma),
        3 => Just(Step::Service),
    ]
}

const LEN: usize = 300;

/// What differs between the drivers.
trait Wire: Hardware + Sized {
    fn ty(n: u8) -> Type<Self::Type>;
    fn packet(driver: &mut Driver<Self, Probe>, now: Time, ty: u8, octets: usize);
    fn service(driver: &mut Driver<Self, Probe>, now: Time);
    fn stop(driver: &mut Driver<Self, Probe>, ty: u8);
    /// Buffers of its own, and packets that wait.
    fn own(driver: &Driver<Self, Probe>) -> (usize, usize);
}

impl Wire for Ring {
    fn ty(n: u8) -> Type<EtherType> {
        match n {
            0 => Type::Default,
            n => Type::Of(EtherType(0x0800 + u16::from(n))),
        }
    }
    fn packet(driver: &mut RingDriver<Probe>, _: Time, ty: u8, octets: usize) {
        let whole = frame(0x0800 + u16::from(ty), &vec![ty; octets]);
        let _ = driver.on_wire(&whole[octets % 3..]);
    }
    fn service(driver: &mut RingDriver<Probe>, now: Time) {
        driver.service(now);
    }
    fn stop(_: &mut RingDriver<Probe>, _: u8) {}
    fn own(driver: &RingDriver<Probe>) -> (usize, usize) {
        (driver.slots(), driver.filled())
    }
}

/// Slots that something else fills, with packets of several clients in one.
impl Wire for Ring<u8> {
    fn ty(n: u8) -> Type<u8> {
        match n {
            0 => Type::Default,
            n => Type::Of(n),
        }
    }
    fn packet(driver: &mut SlotDriver<u8, Probe>, now: Time, ty: u8, octets: usize) {
        let at = octets % (driver.slots() + 1);
        let part = octets / 4..octets;
        driver.on_part(now, at, part, Type::Of(ty), octets.is_multiple_of(2));
    }
    fn service(_: &mut SlotDriver<u8, Probe>, _: Time) {}
    fn stop(_: &mut SlotDriver<u8, Probe>, _: u8) {}
    fn own(driver: &SlotDriver<u8, Probe>) -> (usize, usize) {
        (driver.slots(), 0)
    }
}

impl Wire for Circuits {
    fn ty(n: u8) -> Type<Vc> {
        Type::Of(Vc(n.into()))
    }
    fn packet(driver: &mut VcDriver<Probe>, now: Time, ty: u8, octets: usize) {
        driver.on_pdu(now, Vc(ty.into()), &vec![ty; octets]);
    }
    fn service(_: &mut VcDriver<Probe>, _: Time) {}
    fn stop(driver: &mut VcDriver<Probe>, ty: u8) {
        driver.on_dma_stopped(Vc(ty.into()));
    }
    fn own(_: &VcDriver<Probe>) -> (usize, usize) {
        (1, 0)
    }
}

/// Buffers that each client began with or added.
type Books = BTreeMap<ClientId, usize>;

fn check<H: Wire>(driver: &Driver<H, Probe>, books: &Books, memory: &Memory, slots: usize) {
    let (own, waiting) = H::own(driver);
    assert_eq!(own, slots);
    let mut sum = own;
    for (id, count) in books {
        let holds = driver.holdings(*id);
        let held = driver.client(*id).map_or(0, Probe::held);
        let all = held + holds.posted + holds.kept + holds.queued + holds.on_wire;
        assert_eq!(all, *count, "{id:?}: {held}, {holds:?}");
        sum += all;
        let stats = driver.client_stats(*id).unwrap();
        assert_eq!(stats.received, stats.delivered + stats.drops.total());
    }
    assert_eq!((memory.alive(), memory.leaked()), (sum as u64, 0));
    let stats = driver.stats();
    assert_eq!(
        stats.received,
        stats.delivered + stats.drops.total() + waiting as u64
    );
}

fn run<H: Wire>(mut driver: Driver<H, Probe>, memory: &Memory, steps: &[Step]) {
    let slots = H::own(&driver).0;
    let mut ids: [Option<ClientId>; 4] = [None; 4];
    let mut books = Books::new();
    for (at, step) in steps.iter().enumerate() {
        let now = ms(at as u64);
        match *step {
            Step::Packet(ty, octets) => H::packet(&mut driver, now, ty, octets),
            Step::Service => H::service(&mut driver, now),
            Step::Transmit => drop(driver.poll_transmit().map(|_| ())),
            Step::Complete(is_sent) => {
                driver.on_tx_complete(if is_sent {
                    TxResult::Sent
                } else {
                    TxResult::Failed
                });
            }
            Step::StopDma(ty) => H::stop(&mut driver, ty),
            Step::Register(ty, policy, pool) => {
                let policy = [Policy::SwapOrReturn, Policy::MustReturn, Policy::PeekOnly]
                    [usize::from(policy)];
                // One buffer in pieces, one that is shorter.
                let mut probe = Probe::new(policy).with(memory, pool.into(), LEN);
                probe.priority = [0.0, 1.0, f64::NAN, -1.0][usize::from(ty)];
                if pool > 2 {
                    probe.empty.put(memory.scattered(&[100, 150]).unwrap());
                    probe.small.put(memory.linear(30).unwrap());
                }
                let count = probe.held();
                match driver.register(now, H::ty(ty), probe) {
                    Ok(registration) => {
                        ids[usize::from(ty)] = Some(registration.id);
                        books.insert(registration.id, count);
                    }
                    Err((_, probe)) => assert_eq!(probe.held(), count),
                }
            }
            Step::Return(client, gives) => {
                let Some(id) = ids[usize::from(client)] else {
                    continue;
                };
                let Some(probe) = driver.client_mut(id) else {
                    continue;
                };
                let Some(mut buf) = probe.full.take().or_else(|| probe.sent.take()) else {
                    continue;
                };
                buf.empty(now);
                let back = match gives {
                    true => driver.give_rx(now, id, buf).err(),
                    false => Some(buf),
                };
                if let Some(buf) = back {
                    driver.client_mut(id).unwrap().empty.put(buf);
                }
            }
            Step::Send(client, octets) => {
                let Some(id) = ids[usize::from(client)] else {
                    continue;
                };
                let Some(probe) = driver.client_mut(id) else {
                    continue;
                };
                let Some(mut buf) = probe.sent.take().or_else(|| probe.empty.take()) else {
                    continue;
                };
                buf.set_len(octets.min(buf.max_len())).unwrap();
                if let Err(buf) = driver.transmit_async(id, buf) {
                    driver.client_mut(id).unwrap().sent.put(buf);
                }
            }
            Step::Behave(client, then) => {
                let thens = [Then::Give, Then::Echo, Then::Wait, Then::Panic];
                let then = *thens.get(usize::from(then)).unwrap_or(&Then::Keep);
                if let Some(probe) = ids[usize::from(client)].and_then(|id| driver.client_mut(id)) {
                    probe.then = then;
                }
            }
            Step::Unregister(client) => {
                if let Some(id) = ids[usize::from(client)] {
                    driver.unregister(id);
                }
            }
        }
        while let Some(closed) = driver.poll_closed() {
            assert_eq!(
                Some(closed.buffers.len() + closed.client.held()),
                books.remove(&closed.id)
            );
        }
        driver.actions().for_each(drop);
        check(&driver, &books, memory, slots);
    }
    for closed in driver.shut_down() {
        assert_eq!(
            Some(closed.buffers.len() + closed.client.held()),
            books.remove(&closed.id)
        );
    }
    assert!(books.is_empty());
    assert_eq!((memory.alive(), memory.leaked()), (0, 0));
}

proptest! {
    /// `PROPTEST_CASES=100000` runs the 10^5 histories of the specification.
    #[test]
    fn nothing_is_lost(
        steps in prop::collection::vec(step(), 1..120),
        hardware in 0..3,
        is_eager in any::<bool>(),
        by_priority in any::<bool>(),
        copy_break in prop_oneof![Just(0_u32), Just(2), Just(8)],
    ) {
        let memory = Memory::new(1 << 16);
        let config = Config {
            refill: if is_eager { Refill::Eager } else { Refill::Lazy },
            order: if by_priority { Order::Priority } else { Order::Fcfs },
            copy_break,
        };
        match hardware {
            0 => run(RingDriver::new(memory.clone(), (3, LEN), config).unwrap(), &memory, &steps),
            1 => run(SlotDriver::<u8, _>::new(memory.clone(), (3, LEN), config).unwrap(), &memory, &steps),
            _ => run(VcDriver::new(memory.clone(), LEN, config).unwrap(), &memory, &steps),
        }
    }
}
