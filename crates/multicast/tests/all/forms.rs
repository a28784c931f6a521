//! The engine with the octets of RMTP and of FRM: sender and receivers exchange encoded datagrams.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use layercast_core::Span;
use layercast_multicast::{
    Memory, MemoryStore, Outcome, ReceiverEvent, Sender, SenderConfig, SenderEvent, Weak,
};
use layercast_wire::multicast::frm::{FrmIntegrity, FrmLink, FrmSetup};
use layercast_wire::multicast::rmtp::{RmtpBody, RmtpForm, RmtpLink, RmtpPacket};
use layercast_wire::multicast::{MemberId, Packet, Reason};

use crate::net::{Faults, Net, PERFECT};
use crate::object::{content, listed, stores};
use crate::stream::{Users, stream};

const RECEIVERS: u32 = 6;

/// Packets on the wire, each with its source (0: the sender).
type Log = Rc<RefCell<Vec<(u32, RmtpPacket)>>>;

/// Encodes and decodes all packets of a network in one form, as a treatment of packets between nodes.
fn wired(form: RmtpForm, log: Log) -> impl FnMut(u32, u32, &Packet) -> Vec<Packet> {
    let link = |node| match node {
        0 => RmtpLink::server(form, SESSION),
        _ => RmtpLink::receiver(form),
    };
    let mut links: Vec<RmtpLink> = (0..=RECEIVERS).map(link).collect();
    move |from, to, packet| {
        let mut bytes = Vec::new();
        let member = MemberId(from.max(to).into());
        match links[from as usize].encode(packet, &mut bytes) {
            Ok(()) => {}
            // Only V2 can tell a receiver to wait.
            Err(error) => {
                assert!(!form.is_v2(), "{packet:?}: {error}");
                return Vec::new();
            }
        }
        let bytes = Bytes::from(bytes);
        let said = RmtpPacket::decode(form, bytes.clone()).expect("it was encoded");
        log.borrow_mut().push((from, said));
        links[to as usize].decode(member, bytes).unwrap_or_default()
    }
}

/// More than 16 bits, as sessions of drivers.
const SESSION: u64 = 0x1_2345_6789;

fn network(form: RmtpForm, faults: Faults, seed: u64) -> (Net<Memory, MemoryStore>, Log) {
    let source = Memory::new("paper", content(OCTETS), None);
    let config = SenderConfig::rmtp();
    let sender = Sender::object(SESSION, config, listed(RECEIVERS), source).unwrap();
    let stores = stores(RECEIVERS);
    let mut net = Net::new(sender, stores, faults, seed);
    let log = Log::default();
    net.form = Box::new(wired(form, log.clone()));
    (net, log)
}

/// Not a whole number of blocks: the last is padded on the wire.
const OCTETS: usize = 100_000;

fn assert_delivered(net: &Net<Memory, MemoryStore>) {
    assert_eq!(net.result(), Some(Ok(())));
    for receiver in net.receivers.iter().flatten() {
        assert!(receiver.is_complete(), "{:?}", net.sender_events);
        assert_eq!(receiver.store().bytes(), &content(OCTETS)[..]);
    }
    for it in net.sender.deliveries() {
        assert_eq!(it.outcome, Outcome::Delivered, "{:?}", net.sender_events);
    }
}

#[test]
fn an_object_is_delivered_in_every_form_of_rmtp() {
    for form in RmtpForm::ALL {
        for (loss, seed) in [(0.0, 1), (0.02, 2), (0.1, 3)] {
            let faults = Faults {
                loss,
                twice: 0.05,
                jitter: Span::from_ms(3),
                ..PERFECT
            };
            let (mut net, _) = network(form, faults, seed);
            net.start();
            net.run();
            assert_delivered(&net);
        }
    }
}

/// The worked trace of specs/rmtp-large-scale.md 8.1: one receiver loses packets 2 to 4, the ACK of another is lost,
/// which costs a POLL and no multicast.
#[test]
fn the_worked_trace() {
    for form in RmtpForm::ALL {
        let (mut net, log) = network(form, PERFECT, 1);
        let mut acks = 0;
        net.fate = Box::new(move |from, to, packet| {
            use layercast_wire::multicast::{Body, State, Symbol};
            match &packet.body {
                Body::Data(data) => match data.symbol {
                    Symbol::Source(n) => to == 2 && data.round == 0 && (1..4).contains(&n),
                    Symbol::Parity { .. } => false,
                },
                Body::Report(report) => {
                    let ack = from == 3 && matches!(report.state, State::Complete { .. });
                    acks += u32::from(ack);
                    ack && acks == 1
                }
                _ => false,
            }
        });
        net.start();
        net.run();
        assert_delivered(&net);
        let log = log.borrow();
        let nacks: Vec<_> = log
            .iter()
            .filter_map(|(from, packet)| match &packet.body {
                RmtpBody::Nack { round, missing, .. } => {
                    Some((*from, *round, missing.iter().collect::<Vec<_>>()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(nacks, [(2, 0, vec![(2, 4)])]);
        let polls = log.iter().filter(|it| it.1.body == RmtpBody::Poll).count();
        assert_eq!(polls, 1);
        let again = net.data().filter(|(_, data)| data.round == 1).count();
        assert_eq!((again, net.sender.stats().data as usize), (3, 98 + 3));
    }
}

#[test]
fn busy_receivers_are_served_after_the_others() {
    for form in [RmtpForm::V1, RmtpForm::V2] {
        let (mut net, log) = network(form, PERFECT, 1);
        net.start();
        net.run_until(net.now + Span::from_ms(600));
        net.receivers[0].as_mut().unwrap().busy();
        net.drain(1);
        net.run_until(net.now + Span::from_secs(4));
        net.receivers[0].as_mut().unwrap().ready(net.now);
        net.drain(1);
        net.run();
        assert_delivered(&net);
        let said = |body: fn(&RmtpBody) -> bool| log.borrow().iter().any(|it| body(&it.1.body));
        assert!(said(|it| *it == RmtpBody::Busy));
        assert!(said(|it| matches!(it, RmtpBody::Ready(_))));
        assert!(said(
            |it| matches!(it, RmtpBody::Data(data) if data.flags.0 & 0x80 != 0)
        ));
    }
}

/// A receiver that missed a whole pass does not know its number, which RMTP's POLL does not contain.
#[test]
fn a_receiver_that_missed_a_whole_pass_recovers() {
    let (mut net, _) = network(RmtpForm::V2, PERFECT, 1);
    net.fate = Box::new(|_, to, packet| match &packet.body {
        layercast_wire::multicast::Body::Data(data) => match data.round {
            0 => to == 4 && data.symbol == layercast_wire::multicast::Symbol::Source(7),
            round => round == 1,
        },
        _ => false,
    });
    net.start();
    net.run();
    assert_delivered(&net);
    let failed = |(_, event): &(_, SenderEvent)| matches!(event, SenderEvent::Failed { .. });
    assert!(!net.sender_events.iter().any(failed));
    assert!(net.receiver_events[3].contains(&ReceiverEvent::Complete));
}

/// All packets of a network, encoded as FRM.
fn in_frm(receivers: u32) -> impl FnMut(u32, u32, &Packet) -> Vec<Packet> {
    let setup = FrmSetup {
        name: Bytes::from_static(b"chuff"),
        address: ([10, 0, 0, 1], 7_000).into(),
        contingency: 384,
        wait_ms: 500,
        integrity: FrmIntegrity::default(),
    };
    let link = |node| match node {
        0 => FrmLink::sender(9, setup.clone()),
        _ => FrmLink::receiver(),
    };
    let mut links: Vec<FrmLink> = (0..=receivers).map(link).collect();
    move |from, to, packet| {
        let mut bytes = Vec::new();
        let said = links[from as usize].encode(packet, &mut bytes);
        said.unwrap_or_else(|error| panic!("{packet:?}: {error}"));
        let heard = links[to as usize].decode(bytes.into());
        // A late receiver gets data before INIT.
        heard.into_iter().collect()
    }
}

#[test]
fn a_stream_is_delivered_in_frm() {
    for (loss, seed) in [(0.0, 1), (0.02, 2)] {
        let faults = Faults {
            loss,
            twice: 0.02,
            jitter: Span::from_ms(3),
            ..PERFECT
        };
        let config = SenderConfig {
            weak: Weak::Keep,
            ..SenderConfig::frm()
        };
        let mut net = stream(config, 5, faults, seed);
        net.form = Box::new(in_frm(5));
        net.start();
        let mut users = Users::new(5, 300);
        users.run(&mut net, 30_000);
        assert_eq!(net.result(), Some(Ok(())), "{:?}", net.sender_events);
        assert_eq!(users.taken, [300; 5]);
    }
}

/// The slowest receiver of a group is expelled, and informed by EJECT and CNTL.
#[test]
fn slow_receivers_are_expelled_in_frm() {
    let mut net = stream(SenderConfig::frm(), 4, PERFECT, 1);
    net.form = Box::new(in_frm(4));
    net.start();
    let mut users = Users::new(4, 1_000);
    users.every[3] = 20;
    users.run(&mut net, 15_000);
    assert_eq!(users.taken[..3], [1_000; 3]);
    let expelled = |event: &ReceiverEvent| {
        matches!(
            event,
            ReceiverEvent::Closed {
                reason: Reason::Slow,
                ..
            }
        )
    };
    assert!(
        net.receiver_events[3].iter().any(expelled),
        "{:?}",
        net.sender_events
    );
}
