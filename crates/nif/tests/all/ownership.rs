//! The edge cases of specs/network-interface-framework.md 7 that are about the owner of a buffer: 5, 7 and 9.

use layercast_nif::{Circuits, DropReason, Memory, Policy, Refill, TxResult, Type, Vc, VcDriver};

use crate::common::{ARP, IP, Probe, Then, dropped, frame, ms};
use crate::edges::{OF_IP, SLOT, ring, swap};

/// 5, for a circuit.
#[test]
fn a_circuit_is_closed_when_the_adapter_writes_no_more() {
    let memory = Memory::new(1 << 20);
    let mut driver = VcDriver::new(memory.clone(), 9_180, Circuits::CONFIG).unwrap();
    let id = driver
        .register(ms(0), Type::Of(Vc(5)), swap(&memory, 3))
        .unwrap()
        .id;
    driver.on_dma_stopped(Vc(5));
    driver.on_pdu(ms(0), Vc(5), &[0; 600]);
    driver.unregister(id);
    assert!(driver.poll_closed().is_none());
    assert_eq!(
        dropped(driver.on_pdu(ms(1), Vc(5), &[0; 600])),
        DropReason::Closed
    );
    assert_eq!(driver.holdings(id).posted, 2);
    driver.on_dma_stopped(Vc(5));
    let closed = driver.poll_closed().unwrap();
    assert_eq!(
        (
            closed.buffers.len(),
            closed.client.held(),
            closed.stats.drops.closed
        ),
        (2, 1, 1)
    );
    assert_eq!(
        dropped(driver.on_pdu(ms(2), Vc(5), &[0; 600])),
        DropReason::NoClient
    );
    assert!(
        driver
            .register(ms(3), Type::Of(Vc(5)), closed.client)
            .is_ok()
    );
}

/// 5, for packets on their way out.
#[test]
fn a_client_is_closed_when_its_last_packet_is_sent() {
    let memory = Memory::new(1 << 20);
    let mut driver = ring(&memory);
    let id = driver.register(ms(0), OF_IP, swap(&memory, 1)).unwrap().id;
    for _ in 0..3 {
        driver
            .transmit_async(id, memory.linear(100).unwrap())
            .unwrap();
    }
    assert!(driver.poll_transmit().is_some());
    driver.unregister(id);
    assert!(driver.poll_closed().is_none());
    let buf = driver
        .transmit_async(id, memory.linear(9).unwrap())
        .unwrap_err();
    buf.free();
    driver.on_tx_complete(TxResult::Sent);
    let closed = driver.poll_closed().unwrap();
    assert_eq!(
        closed.client.results,
        [TxResult::Cancelled, TxResult::Cancelled, TxResult::Sent]
    );
    assert_eq!((closed.client.sent.len(), closed.stats.sent), (3, 1));
    assert!(driver.poll_transmit().is_none());
}

/// 7.
#[test]
fn a_buffer_for_a_packet_is_made_contiguous_and_empty() {
    let memory = Memory::new(4 * SLOT as u64 + 2_000);
    let mut driver = ring(&memory);
    let mut must = Probe::new(Policy::MustReturn);
    let mut pieces = memory.scattered(&[500, 500]).unwrap();
    pieces.copy_in(&[7; 900]).unwrap();
    must.empty.put(pieces);
    let id = driver.register(ms(0), OF_IP, must).unwrap().id;
    driver.on_frame(ms(0), &frame(IP, b"abc"));
    let client = driver.client_mut(id).unwrap();
    assert_eq!(client.full.get(0).unwrap().data().unwrap()[14..], *b"abc");
    // Where there is no memory for that, the buffer remains the client's.
    let mut pieces = memory.scattered(&[500, 490]).unwrap();
    pieces.copy_in(b"old").unwrap();
    client.empty.put(pieces);
    let rest = memory.linear(9).unwrap();
    assert_eq!(
        dropped(driver.on_frame(ms(0), &frame(IP, b"abc"))),
        DropReason::NoBuffer
    );
    let client = driver.client(id).unwrap();
    assert_eq!((client.empty.len(), client.held()), (1, 2));
    rest.free();
}

/// 9.
#[test]
fn a_driver_survives_a_client_that_panics_and_keeps_its_buffers() {
    let memory = Memory::new(1 << 20);
    let mut driver = ring(&memory);
    let bad = driver
        .register(ms(0), OF_IP, swap(&memory, 3).and(Then::Panic))
        .unwrap()
        .id;
    let good = driver
        .register(ms(0), Type::Default, swap(&memory, 3))
        .unwrap()
        .id;
    let alive = memory.alive();
    driver
        .transmit_async(bad, memory.linear(10).unwrap())
        .unwrap();
    driver.on_frame(ms(0), &frame(IP, b"x"));
    assert_eq!(
        dropped(driver.on_frame(ms(1), &frame(IP, b"x"))),
        DropReason::Failed
    );
    driver.on_frame(ms(1), &frame(ARP, b"x"));
    assert_eq!(driver.client(good).unwrap().full.len(), 1);
    assert!(driver.client_stats(bad).unwrap().is_failed);
    driver.poll_transmit();
    driver.on_tx_complete(TxResult::Sent);
    assert_eq!(
        (
            driver.holdings(bad).kept,
            driver.client(bad).unwrap().held()
        ),
        (2, 2)
    );
    driver.unregister(bad);
    let closed = driver.poll_closed().unwrap();
    assert_eq!(
        (
            closed.buffers.len(),
            closed.client.held(),
            closed.stats.drops.failed
        ),
        (2, 2, 1)
    );
    assert_eq!((memory.alive(), memory.leaked()), (alive + 1, 0));
}

/// A packet that a client drops is counted; in a debug build the client fails.
#[test]
fn a_buffer_that_is_dropped_is_counted() {
    let memory = Memory::new(1 << 20);
    let mut driver = ring(&memory);
    let id = driver
        .register(ms(0), OF_IP, swap(&memory, 3).and(Then::Leak))
        .unwrap()
        .id;
    driver.on_frame(ms(0), &frame(IP, b"x"));
    assert_eq!(memory.leaked(), 1);
    assert_eq!(
        driver.client_stats(id).unwrap().is_failed,
        cfg!(debug_assertions)
    );
}

/// 7, for buffers that are posted.
#[test]
fn a_posted_buffer_that_cannot_be_made_contiguous_comes_back() {
    let memory = Memory::new(9_180 + 1_500);
    let config = layercast_nif::Config {
        refill: Refill::Eager,
        ..Circuits::CONFIG
    };
    let mut driver = VcDriver::new(memory.clone(), 9_180, config).unwrap();
    let mut client = Probe::new(Policy::MustReturn);
    client.empty.put(memory.scattered(&[500, 500]).unwrap());
    let id = driver.register(ms(0), Type::Of(Vc(1)), client).unwrap().id;
    assert_eq!(
        (
            driver.holdings(id).posted,
            driver.client(id).unwrap().empty.len()
        ),
        (0, 1)
    );
    let buf = driver.client_mut(id).unwrap().empty.take().unwrap();
    let buf = driver.give_rx(ms(0), id, buf).unwrap_err();
    buf.free();
    driver
        .give_rx(ms(0), id, memory.scattered(&[5, 5]).unwrap())
        .unwrap();
    assert_eq!(driver.holdings(id).posted, 1);
}
