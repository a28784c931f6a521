use proptest::prelude::*;

use super::*;
use crate::policy::ConversationType;

/// A controller with three neighbours that send anything; host 1 is behind port 1, and so on.
struct Alone {
    controller: Controller<Limit>,
    seqs: [u8; 3],
    now: Time,
}

impl Alone {
    fn new(address: Option<AtmAddress>, processing: Span) -> Alone {
        let mut config = ControllerConfig {
            address,
            processing,
            max_vcs: 4,
            backlog: 3,
            ..ControllerConfig::default()
        };
        config.channel.queue = 5;
        let admission = Limit {
            guaranteed: 2,
            held: BTreeMap::new(),
        };
        let mut controller = Controller::new(config, admission);
        for port in 0..3 {
            controller.add_port(PortId(port));
            controller.add_route(AtmAddress(port), PortId(port));
        }
        Alone {
            controller,
            seqs: [0; 3],
            now: Time::ZERO,
        }
    }

    fn say(&mut self, port: u16, call: u32, body: Body) {
        let call = CallId {
            origin: AtmAddress(7),
            number: call,
        };
        let seq = &mut self.seqs[usize::from(port)];
        let message = Message { call, body };
        let cell = SignalCell::Data { seq: *seq, message };
        *seq = seq.wrapping_add(1);
        let port = PortId(port);
        self.handle(ControllerInput::Cell { port, cell });
    }

    fn handle(&mut self, input: ControllerInput) {
        self.controller.handle(self.now, input, &mut Off);
    }

    fn setup(to: u16, vc: u16) -> Body {
        Body::Setup(Setup {
            to: AtmAddress(to),
            service: Service::BestEffort,
            tag: Tag::Any,
            vc: Vcid(vc),
        })
    }
}

#[test]
fn nonsense_is_counted_and_changes_nothing() {
    let mut alone = Alone::new(None, Span::ZERO);
    alone.say(0, 1, Alone::setup(2, 1));
    let held = |alone: &Alone| {
        let stats = alone.controller.stats();
        (stats.calls, stats.vcids)
    };
    assert_eq!(held(&alone), (1, 1));
    // About an unknown call.
    for body in [
        Body::Connect,
        Body::Release,
        Body::Reject(RejectCause::NoVcid),
    ] {
        alone.say(2, 5, body);
    }
    // From a neighbour that is not on the path, or in the wrong direction.
    alone.say(1, 1, Body::Release);
    alone.say(2, 1, Body::Release);
    alone.say(0, 1, Body::Connect);
    alone.say(1, 1, Body::Reject(RejectCause::NoVcid));
    // Repeated, and from another neighbour.
    alone.say(0, 1, Alone::setup(2, 2));
    alone.say(1, 1, Alone::setup(2, 2));
    // Invalid circuit numbers, and one in use.
    for vc in [0, 5, 1] {
        alone.say(0, 2, Alone::setup(2, vc));
    }
    let cell = SignalCell::Ack { seq: 0 };
    for port in [PortId(9), PortId::LOCAL] {
        alone.handle(ControllerInput::Cell { port, cell });
    }
    let release = |vc| ControllerInput::Release {
        port: PortId(2),
        vc: Vcid(vc),
    };
    // The circuit exists, but does not belong to the host.
    alone.handle(release(1));
    alone.handle(release(0));
    let stats = alone.controller.stats();
    assert_eq!((stats.unknown_call, stats.wrong_port), (3, 4));
    assert_eq!((stats.duplicate, stats.bad_vcid), (2, 3));
    assert_eq!((stats.unknown_port, stats.bad_request), (2, 2));
    assert_eq!(held(&alone), (1, 1));
    // A repeated answer.
    alone.say(2, 1, Body::Connect);
    alone.say(2, 1, Body::Connect);
    assert_eq!(alone.controller.stats().duplicate, 3);
    alone.say(0, 1, Body::Release);
    assert_eq!(held(&alone), (0, 0));
}

#[test]
fn a_call_does_not_go_back_where_it_came_from() {
    let mut alone = Alone::new(None, Span::ZERO);
    alone.say(0, 1, Alone::setup(0, 1));
    let stats = alone.controller.stats();
    assert_eq!((stats.refused, stats.calls), (1, 0));
}

#[test]
fn messages_that_are_too_many_to_be_understood_come_again() {
    let processing = Span::from_secs(1);
    let mut alone = Alone::new(None, processing);
    for n in 0..5 {
        alone.say(0, n, Alone::setup(2, 1 + n as u16));
    }
    assert_eq!(alone.controller.stats().backlog_full, 2);
    let acks: Vec<_> =
        std::iter::from_fn(|| alone.controller.poll_transmit(alone.now, &mut Off)).collect();
    assert_eq!(acks, [(PortId(0), SignalCell::Ack { seq: 3 })]);
    assert_eq!(
        alone.controller.next_timeout(),
        Some(alone.now + processing)
    );
    alone.now += processing;
    alone.controller.on_timeout(alone.now, &mut Off);
    assert_eq!(alone.controller.stats().calls, 3);
    alone.seqs[0] = 3;
    alone.say(0, 3, Alone::setup(2, 4));
    alone.now += processing;
    alone.controller.on_timeout(alone.now, &mut Off);
    assert_eq!(alone.controller.stats().calls, 4);
}

#[test]
fn a_host_releases_only_its_own_circuits() {
    let mut alone = Alone::new(Some(AtmAddress(7)), Span::ZERO);
    alone.handle(ControllerInput::Setup {
        request: RequestId(1),
        to: AtmAddress(2),
        service: Service::BestEffort,
        tag: Tag::Any,
    });
    let port = PortId(2);
    let vc = Vcid(1);
    alone.handle(ControllerInput::Release { port, vc });
    assert_eq!(alone.controller.stats().bad_request, 1);
    assert_eq!(
        alone.controller.stats().calls,
        1,
        "the answer is still to come"
    );
    while alone
        .controller
        .poll_transmit(alone.now, &mut Off)
        .is_some()
    {}
    alone.say(2, 0, Body::Connect);
    alone.handle(ControllerInput::Release { port, vc });
    alone.handle(ControllerInput::Release { port, vc });
    assert_eq!(alone.controller.stats().bad_request, 2);
    assert_eq!(alone.controller.stats().calls, 0);
}

#[test]
fn a_neighbour_cannot_take_the_name_of_our_own_calls() {
    let mut alone = Alone::new(Some(AtmAddress(7)), Span::ZERO);
    alone.say(0, 0, Alone::setup(7, 1));
    assert_eq!(alone.controller.stats().duplicate, 1);
    assert_eq!(alone.controller.stats().calls, 0);
}

#[test]
fn a_silent_neighbour_causes_bounded_memory() {
    let mut alone = Alone::new(None, Span::ZERO);
    // Answers to port 0 are never acknowledged; circuits through port 2 are all allocated first.
    for n in 0..1_000 {
        alone.say(0, n, Alone::setup(2, 1 + n as u16 % 4));
        alone.say(0, n, Body::Release);
        alone.say(0, n, Alone::setup(99, 1));
    }
    let stats = alone.controller.stats();
    assert!(stats.unanswered > 900, "{stats:?}");
    assert_eq!(stats.calls, 0);
    let waiting = |port| alone.controller.channel_len(PortId(port));
    assert!(waiting(0) <= 5, "{}", waiting(0));
    assert!(waiting(2) <= 5 + 4, "{}", waiting(2));
}

#[derive(Clone, Debug)]
enum Move {
    Say(u16, u32, Body),
    Ack(u16, u8),
    Want(u16),
    GiveBack(u16, u16),
    Pass(u64),
}

fn moves() -> impl Strategy<Value = Move> {
    let contract = ConversationType::Audio.contract().unwrap();
    let service = prop::sample::select(vec![Service::BestEffort, Service::Guaranteed(contract)]);
    let setup = (0..5u16, service, 0..6u16).prop_map(|(to, service, vc)| {
        Body::Setup(Setup {
            to: AtmAddress(to),
            service,
            tag: Tag::Fallback,
            vc: Vcid(vc),
        })
    });
    let body = prop_oneof![
        3 => setup,
        1 => Just(Body::Connect),
        1 => Just(Body::Reject(RejectCause::Timeout)),
        1 => Just(Body::Release),
    ];
    prop_oneof![
        8 => (0..3u16, 0..6u32, body).prop_map(|(port, call, body)| Move::Say(port, call, body)),
        2 => (0..3u16, any::<u8>()).prop_map(|(port, seq)| Move::Ack(port, seq % 16)),
        1 => (0..5u16).prop_map(Move::Want),
        1 => (0..3u16, 0..6u16).prop_map(|(port, vc)| Move::GiveBack(port, vc)),
        1 => (0..40u64).prop_map(Move::Pass),
    ]
}

proptest! {
    #[test]
    fn whatever_neighbours_say_the_books_agree(
        moves in prop::collection::vec(moves(), 0..200),
        host: bool,
        processing in 0..2u64,
    ) {
        let processing = Span::from_secs(processing);
        let mut alone = Alone::new(host.then_some(AtmAddress(4)), processing);
        let mut wanted = 0;
        let mut answered = 0;
        for a_move in moves {
            match a_move {
                Move::Say(port, call, body) => alone.say(port, call, body),
                Move::Ack(port, seq) => {
                    let cell = SignalCell::Ack { seq };
                    alone.handle(ControllerInput::Cell { port: PortId(port), cell });
                }
                Move::Want(to) => {
                    wanted += 1;
                    alone.handle(ControllerInput::Setup {
                        request: RequestId(wanted),
                        to: AtmAddress(to),
                        service: Service::BestEffort,
                        tag: Tag::Any,
                    });
                }
                Move::GiveBack(port, vc) => {
                    alone.handle(ControllerInput::Release { port: PortId(port), vc: Vcid(vc) });
                }
                Move::Pass(seconds) => {
                    alone.now += Span::from_secs(seconds);
                    alone.controller.on_timeout(alone.now, &mut Off);
                }
            }
            while alone.controller.poll_transmit(alone.now, &mut Off).is_some() {}
            while let Some(event) = alone.controller.poll_event() {
                let answer = matches!(
                    event,
                    ControllerEvent::Ready { .. } | ControllerEvent::Rejected { .. }
                );
                answered += u32::from(answer);
            }
            let stats = alone.controller.stats();
            // Every number has a reservation and a call; other calls end here.
            prop_assert_eq!(alone.controller.admission().held.len(), stats.vcids);
            prop_assert!(stats.vcids <= stats.calls);
            prop_assert!(host || stats.vcids == stats.calls);
            prop_assert!(stats.calls <= 2 * 3 * 4);
            prop_assert!(answered <= wanted);
        }
        // Every waiting call is answered, by the watchdog at the latest.
        alone.now += Span::from_secs(61);
        alone.controller.on_timeout(alone.now, &mut Off);
        while let Some(event) = alone.controller.poll_event() {
            let rejected = matches!(event, ControllerEvent::Rejected { .. });
            answered += u32::from(rejected);
        }
        prop_assert_eq!(answered, wanted);
    }
}
