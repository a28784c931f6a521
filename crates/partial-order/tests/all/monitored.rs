//! What a QoS monitor hears of a connection.

use bytes::Bytes;
use layercast_core::{Machine, Observer, QosAction, QosEvent, Record, Span, Subject, Time};
use layercast_partial_order::{
    Order, Policy, Receiver, ReceiverOptions, Sender, SenderOptions, Tolerance,
};

use crate::wire::config;

const DELAY: Span = Span::from_ms(20);
const SDUS: u64 = 200;

/// The events of the sender and of the receiver.
#[derive(Default)]
struct Told([Vec<QosEvent>; 2]);

impl Observer for Told {
    fn record(&mut self, _: &Record<'_>) {}

    fn enabled(&self) -> bool {
        false
    }

    fn measure(&mut self, subject: Subject<'_>, event: &QosEvent) {
        self.0[usize::from(subject.machine == "receiver")].push(*event);
    }

    fn measures(&self) -> bool {
        true
    }
}

/// Two machines 20 ms apart; every tenth datagram of the sender is lost.
fn run(told: &mut Told) -> (Sender, Receiver) {
    let order = Order::blocks(&[1]).expect("an order");
    let config = config(order, Policy::PerGroup, &[Tolerance::rate(0.5)]);
    let mut sender = Sender::new(config, SenderOptions::default(), Time::ZERO).expect("a sender");
    let mut receiver = Receiver::new(ReceiverOptions::default());
    let mut flying: Vec<(Time, bool, Bytes)> = Vec::new();
    let (mut now, mut sent) = (Time::ZERO, 0);
    let mut submitted = 0;
    let end = Time::ZERO + Span::from_secs(30);
    while now < end {
        if sender.is_open() && now >= Time::ZERO + Span::from_ms(40 * submitted + 100) {
            match submitted < SDUS {
                true if sender.submit(0, Bytes::from_static(&[1; 100]), now).is_ok() => {
                    submitted += 1
                }
                true => {}
                false => sender.close(now),
            }
        }
        flying.sort_by_key(|it| it.0);
        while flying.first().is_some_and(|it| it.0 <= now) {
            let (_, down, datagram) = flying.remove(0);
            match down {
                true => Machine::handle(&mut receiver, now, datagram, told),
                false => Machine::handle(&mut sender, now, datagram, told),
            }
        }
        Machine::on_timeout(&mut sender, now, told);
        Machine::on_timeout(&mut receiver, now, told);
        while let Some(datagram) = Machine::poll_transmit(&mut sender, now, told) {
            sent += 1;
            if sent % 10 != 0 {
                flying.push((now + DELAY, true, datagram));
            }
        }
        while let Some(datagram) = Machine::poll_transmit(&mut receiver, now, told) {
            flying.push((now + DELAY, false, datagram));
        }
        while Machine::poll_event(&mut receiver).is_some()
            || Machine::poll_event(&mut sender).is_some()
        {}
        now += Span::from_ms(1);
    }
    (sender, receiver)
}

#[test]
fn a_monitor_hears_of_the_connection_its_pdus_round_trips_and_losses() {
    let mut told = Told::default();
    let (sender, receiver) = run(&mut told);
    for events in &told.0 {
        let (first, last) = (events[0], events[events.len() - 1]);
        assert_eq!((first.action, first.aux), (QosAction::Open as u8, 4));
        assert_eq!(last.action, QosAction::Close as u8);
        assert!(events.iter().all(|it| it.conn == 1));
        let ends = [QosAction::Open, QosAction::Close];
        let ends = ends.map(|end| events.iter().filter(|it| it.action == end as u8).count());
        assert_eq!(ends, [1, 1]);
    }
    let of = |end: usize, action: QosAction| {
        let events = told.0[end].iter();
        events.filter(move |it| it.action == action as u8)
    };
    // New data only: each SDU once at the sender, and each that arrived once at the receiver.
    let user = |end, action| -> u64 {
        let new = of(end, action).filter(|it| it.flags & QosEvent::AGAIN == 0);
        new.map(|it| u64::from(it.aux) / 8).sum()
    };
    let stats = receiver.stats(0);
    assert!(
        stats.lost > 0 && stats.delivered + stats.lost == SDUS,
        "{stats:?}"
    );
    assert_eq!(user(0, QosAction::Sent), 100 * SDUS);
    assert_eq!(
        user(1, QosAction::Received),
        100 * (stats.delivered + stats.late)
    );
    let lost: u32 = of(1, QosAction::Dropped).map(|it| it.aux).sum();
    assert_eq!(u64::from(lost), stats.lost);
    let trips: Vec<u64> = of(0, QosAction::ProbeEnd).map(|it| it.a).collect();
    assert!(trips.len() as u64 > SDUS / 10, "{}", trips.len());
    let near = 40_000_000..45_000_000;
    assert!(trips.iter().all(|ns| near.contains(ns)), "{trips:?}");
    assert_eq!(sender.stats(0).submitted, SDUS);
}
