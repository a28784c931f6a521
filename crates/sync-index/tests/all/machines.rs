//! Sender and receiver together: handshake, train, reports, ends.

use layercast_core::{Rate, Span, Time};
use layercast_sync_index::pdu::{CONTROL, Control, FullPart, Pdu, Probe, Reason};
use layercast_sync_index::{
    CloseCause, EstimatorConfig, Event, Format, MOST_SENDERS, Outcome, ProbeConfig, ProbeError,
    ProbeReceiver, ProbeSender, ReceiverEvent, SILENCE, SenderEvent, TRIES,
};

const TOKEN: u64 = 0x7357;

struct Pair {
    sender: ProbeSender,
    receiver: ProbeReceiver<u32>,
    now: Time,
    said: Vec<SenderEvent>,
    told: Vec<ReceiverEvent>,
    /// Datagrams of the sender and of the receiver.
    moved: (u32, u32),
}

impl Pair {
    fn new(config: ProbeConfig) -> Pair {
        let now = Time::ZERO + Span::from_secs(1);
        Pair {
            sender: ProbeSender::new(config, now).unwrap(),
            receiver: ProbeReceiver::new(EstimatorConfig::default(), None).unwrap(),
            now,
            said: Vec::new(),
            told: Vec::new(),
            moved: (0, 0),
        }
    }

    /// Runs until `until`; the path loses what `lose` says, by direction and delay of the probes in ms.
    fn run(&mut self, until: Time, passes: impl Fn(Time, bool) -> bool) {
        loop {
            while let Some(datagram) = self.sender.poll_transmit(self.now) {
                self.moved.0 += 1;
                if passes(self.now, true) {
                    let _ = self.receiver.handle(self.now, 1, TOKEN, &datagram);
                }
                self.exchange(&passes);
            }
            self.exchange(&passes);
            let next =
                layercast_core::earliest(self.sender.next_timeout(), self.receiver.next_timeout());
            match next.map(|it| it.max(self.now)).filter(|it| *it <= until) {
                Some(next) if next > self.now => self.now = next,
                Some(_) => self.now += Span::from_us(1),
                None => {
                    self.now = until;
                    return;
                }
            }
            self.sender.on_timeout(self.now);
            self.receiver.on_timeout(self.now);
        }
    }

    fn exchange(&mut self, passes: &impl Fn(Time, bool) -> bool) {
        while let Some((to, datagram)) = self.receiver.poll_transmit() {
            assert_eq!(to, 1);
            self.moved.1 += 1;
            if passes(self.now, false) {
                self.sender.handle_datagram(self.now, &datagram).unwrap();
            }
        }
        self.said
            .extend(std::iter::from_fn(|| self.sender.poll_event()));
        self.told
            .extend(std::iter::from_fn(|| self.receiver.poll_event()).map(|it| it.1));
    }
}

fn closed(told: &[ReceiverEvent]) -> Vec<Option<CloseCause>> {
    let of = |it: &ReceiverEvent| match it {
        ReceiverEvent::Closed { why, .. } => Some(*why),
        _ => None,
    };
    told.iter().filter_map(of).collect()
}

#[test]
fn a_train_gives_reports_to_the_sender() {
    for format in [Format::Full, Format::Compact] {
        let mut config = ProbeConfig::new(0x1234_5678, 99);
        (config.format, config.count) = (format, Some(901));
        let mut pair = Pair::new(config);
        pair.run(Time::ZERO + Span::from_secs(20), |_, _| true);
        assert_eq!(pair.said.first(), Some(&SenderEvent::Started));
        assert_eq!(pair.said.last(), Some(&SenderEvent::Finished));
        let reports: Vec<_> = (pair.said.iter())
            .filter_map(|it| match it {
                SenderEvent::Report {
                    number,
                    outcome: Outcome::Estimate(it),
                    ..
                } => Some((*number, it.xi_ms)),
                _ => None,
            })
            .collect();
        assert_eq!(reports, [(1, 0.0), (2, 0.0), (3, 0.0)]);
        assert_eq!(closed(&pair.told), [None]);
        assert_eq!(pair.sender.stats().sent, 901);
        let lags = pair
            .told
            .iter()
            .filter(|it| matches!(it, ReceiverEvent::Of(Event::Lag { .. })));
        assert_eq!(lags.count(), 900);
        assert_eq!(pair.receiver.ignored().bad, 0);
    }
}

/// The report of the last block is lost: its sender hears the result in the answer to the end of the train.
#[test]
fn the_last_result_reaches_the_sender_though_its_report_is_lost() {
    let mut config = ProbeConfig::new(0x1234_5678, 99);
    config.count = Some(901);
    let begun = Time::ZERO + Span::from_secs(1);
    let lost = (begun + Span::from_ms(9_000))..(begun + Span::from_ms(9_490));
    let mut pair = Pair::new(config);
    pair.run(Time::ZERO + Span::from_secs(20), |now, there| {
        there || !lost.contains(&now)
    });
    let numbers: Vec<u32> = (pair.said.iter())
        .filter_map(|it| match it {
            SenderEvent::Report { number, .. } => Some(*number),
            _ => None,
        })
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(pair.said.last(), Some(&SenderEvent::Finished));
    assert_eq!(closed(&pair.told), [None]);
    assert!(pair.sender.is_over());
}

#[test]
fn a_host_that_does_not_answer_gets_three_calls() {
    let mut pair = Pair::new(ProbeConfig::new(1, 2));
    pair.run(Time::ZERO + Span::from_secs(60), |_, there| !there);
    assert_eq!(pair.said, [SenderEvent::NoAnswer]);
    assert_eq!(pair.moved, (TRIES, 0));
}

#[test]
fn silence_of_the_receiver_stops_the_train_and_silence_of_the_sender_the_session() {
    let cut = Time::ZERO + Span::from_secs(5);
    let mut pair = Pair::new(ProbeConfig::new(1, 2));
    pair.run(Time::ZERO + Span::from_secs(30), |now, _| now < cut);
    assert_eq!(pair.said.last(), Some(&SenderEvent::Silent));
    assert_eq!(closed(&pair.told), [Some(CloseCause::Silent)]);
    // Four seconds before the cut, ten after it.
    let sent = pair.sender.stats().sent;
    assert!((1_300..=1_401).contains(&sent), "{sent}");
    let no_signal = ReceiverEvent::Of(Event::Outcome(Outcome::NoSignal {
        loss_ppm: 1_000_000,
    }));
    assert!(pair.told.contains(&no_signal));
    assert!(pair.receiver.next_timeout().is_none() && SILENCE == Span::from_secs(10));
}

#[test]
fn answers_that_do_not_know_the_key_change_nothing() {
    let now = Time::ZERO;
    let mut sender = ProbeSender::new(ProbeConfig::new(1, 2), now).unwrap();
    while sender.poll_transmit(now).is_some() {}
    for key in [0, 3] {
        let forged = Control::Ok {
            session: 1,
            key,
            token: 0,
            accepted: true,
        }
        .encode();
        assert_eq!(
            sender.handle_datagram(now, &forged),
            Err(ProbeError::Session)
        );
        let forged = Control::Stop {
            session: 1,
            key,
            reason: Reason::Busy,
        }
        .encode();
        assert_eq!(
            sender.handle_datagram(now, &forged),
            Err(ProbeError::Session)
        );
    }
    assert_eq!((sender.poll_event(), sender.stats().bad_pdu), (None, 4));
    assert_eq!(sender.poll_transmit(now + Span::from_ms(999)), None);
}

#[test]
fn a_late_sender_keeps_the_grid_and_sends_no_burst() {
    let now = Time::ZERO + Span::from_secs(1);
    let mut sender = ProbeSender::new(ProbeConfig::new(1, 2), now).unwrap();
    let ok = Control::Ok {
        session: 1,
        key: 2,
        token: 0,
        accepted: true,
    }
    .encode();
    sender.handle_datagram(now, &ok).unwrap();
    let mut probe = |us: u64| {
        let datagram = sender.poll_transmit(now + Span::from_us(us))?;
        let Ok(Pdu::Probe(Probe {
            seq,
            full: Some(FullPart { late, skipped, .. }),
            ..
        })) = Pdu::decode(&datagram)
        else {
            panic!("no full probe");
        };
        Some((seq, late, skipped))
    };
    assert_eq!(probe(0), Some((0, false, 0)));
    assert_eq!(probe(9_999), None);
    assert_eq!(probe(10_900), Some((1, false, 0)));
    assert_eq!(probe(21_100), Some((2, true, 0)));
    // Slots 3, 4 and 5 are due: only the last one is used.
    assert_eq!(probe(55_000), Some((5, true, 2)));
    assert_eq!(probe(55_000), None);
    assert_eq!(probe(60_000), Some((6, false, 0)));
    let stats = sender.stats();
    assert_eq!((stats.sent, stats.skipped, stats.late), (5, 2, 2));
}

#[test]
fn a_stranger_gets_no_more_than_it_sent_and_no_session() {
    let mut receiver = ProbeReceiver::new(EstimatorConfig::default(), None).unwrap();
    let hello = |token| {
        let (session, key, period_us, format) = (1, 2, 10_000, Format::Full);
        Control::Hello {
            session,
            key,
            token,
            period_us,
            format,
        }
        .encode()
    };
    let mut sent = 0;
    let mut came = 0;
    for k in 0..10_000_u32 {
        let call = hello(u64::from(k % 2) * 5);
        came += call.len();
        let _ = receiver.handle(Time::ZERO, k, TOKEN, &call);
        while let Some((to, answer)) = receiver.poll_transmit() {
            assert_eq!(to, k);
            sent += answer.len();
        }
    }
    assert_eq!((sent, came), (10_000 * CONTROL, 10_000 * CONTROL));
    assert_eq!(receiver.ignored().unproved, 5_000);
    assert_eq!(receiver.poll_event(), None);
    assert!(receiver.next_timeout().is_none());
    // A probe of a stranger is not answered.
    let probe = Probe {
        session: 1,
        seq: 1,
        full: None,
    }
    .encode();
    assert_eq!(
        receiver.handle(Time::ZERO, 3, TOKEN, &probe),
        Err(ProbeError::Session)
    );
    assert_eq!(receiver.poll_transmit(), None);
}

#[test]
fn refusals_have_a_reason() {
    let capacity = Some(Rate::from_bps(400_000));
    let mut receiver = ProbeReceiver::new(EstimatorConfig::default(), capacity).unwrap();
    let mut call = |from: u32, session: u32, period_us: u32, format: Format| {
        let (key, token) = (2, TOKEN);
        let hello = Control::Hello {
            session,
            key,
            token,
            period_us,
            format,
        }
        .encode();
        receiver.handle(Time::ZERO, from, TOKEN, &hello).unwrap();
        let (_, answer) = receiver.poll_transmit().unwrap();
        match Pdu::decode(&answer) {
            Ok(Pdu::Control(Control::Ok { accepted: true, .. })) => None,
            Ok(Pdu::Control(Control::Stop { reason, .. })) => Some(reason),
            other => panic!("{other:?}"),
        }
    };
    // 5 % of 400 kbit/s: a train of 41.6 kbit/s is too much, one of 20.8 is not.
    assert_eq!(
        call(0, 1, 10_000, Format::Full),
        Some(Reason::SelfCongestion)
    );
    assert_eq!(call(0, 1, 0, Format::Full), Some(Reason::Period));
    assert_eq!(call(0, 1, u32::MAX, Format::Full), Some(Reason::Period));
    for from in 0..MOST_SENDERS as u32 {
        assert_eq!(call(from, 1, 100_000, Format::Full), None);
    }
    assert_eq!(call(99, 1, 100_000, Format::Full), Some(Reason::Busy));
    // A sender that starts again takes its own place.
    assert_eq!(call(3, 2, 100_000, Format::Full), None);
    let told: Vec<_> = std::iter::from_fn(|| receiver.poll_event())
        .map(|it| it.1)
        .collect();
    assert_eq!(closed(&told), [Some(CloseCause::Restarted)]);
    receiver.stop();
    let stopped = std::iter::from_fn(|| receiver.poll_transmit()).count();
    assert_eq!(stopped, MOST_SENDERS);
}

#[test]
fn a_train_that_loads_its_path_is_stopped() {
    let mut receiver = ProbeReceiver::new(EstimatorConfig::default(), None).unwrap();
    let (session, key, token, period_us, format) = (1, 2, TOKEN, 10_000, Format::Full);
    let hello = Control::Hello {
        session,
        key,
        token,
        period_us,
        format,
    }
    .encode();
    receiver.handle(Time::ZERO, 1, TOKEN, &hello).unwrap();
    let mut stopped = false;
    for seq in 0..=300_u32 {
        let full = FullPart {
            late: false,
            fin: false,
            skipped: 0,
            period_us,
            sent_ns: u64::from(seq) * 10_000_000,
        };
        let probe = Probe {
            session,
            seq,
            full: Some(full),
        }
        .encode();
        let at = Time::ZERO + Span::from_ms(12).times(seq.into());
        let _ = receiver.handle(at, 1, TOKEN, &probe);
        while let Some((_, answer)) = receiver.poll_transmit() {
            let reason = Reason::SelfCongestion;
            stopped |= Pdu::decode(&answer)
                == Ok(Pdu::Control(Control::Stop {
                    session,
                    key,
                    reason,
                }));
        }
    }
    assert!(stopped && receiver.estimator(&1).is_none());
}
