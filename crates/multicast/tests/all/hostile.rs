//! What one stranger can do without a key: an address that answers in the name of invented members delays the others no
//! longer than a host that dies, and one forged packet costs no receiver its file.

use core::ops::Range;

use layercast_core::{Rate, Span, Stream, Time};
use layercast_fec::Scheme;
use layercast_multicast::{
    Members, Memory, MemoryStore, Opening, Outcome, Peer, ReceiverEvent, Sender, SenderConfig,
    SenderEvent,
};
use layercast_wire::multicast::{
    Accept, Body, MemberId, Needs, Packet, Poll, Reason, Report, Spans, State, Symbol,
};

use crate::net::{Faults, Net, PERFECT};
use crate::object::{content, listed, stores};

const SESSION: u64 = 9;
/// Number of the hostile peer; the receivers before it are honest.
const HOSTILE: u32 = 2;
const OCTETS: usize = 150_000;
const ATTACK: Span = Span::from_secs(25);
/// Of a session with forged packets: 358 of the sender.
const FORGED_OCTETS: usize = 500_000;

type Hostile = Net<Memory, MemoryStore>;

/// A session with two receivers, over paths of 1 ms.
fn session(octets: usize) -> Hostile {
    let config = SenderConfig::layercast(Rate::from_bps(10_000_000));
    let source = Memory::new("film", content(octets), Scheme::from_number(config.scheme));
    let members = Members::Anyone {
        expect: Some(2),
        most: 100,
        late: true,
    };
    let sender = Sender::object(SESSION, config, members, source).unwrap();
    let mut net = Net::new(sender, stores(2), PERFECT, 1);
    net.delay = Span::from_ms(1);
    net
}

fn net() -> Hostile {
    let mut net = session(OCTETS);
    net.crash(HOSTILE);
    net
}

/// The last poll of the sender.
fn poll(net: &Hostile) -> Option<Poll> {
    let mut log = net.log.iter().rev();
    log.find_map(|(_, _, transmit)| match &transmit.packet.body {
        Body::Poll(poll) => Some(Poll::clone(poll)),
        _ => None,
    })
}

fn say(net: &mut Hostile, body: Body) {
    let packet = Packet {
        session: SESSION,
        body,
    };
    net.fly(HOSTILE, 0, &packet);
}

fn accept(member: u64, incarnation: u32) -> Body {
    Body::Accept(Accept {
        incarnation,
        ..Accept::alone(MemberId(100 + member))
    })
}

fn report(poll: &Poll, member: u64, state: State) -> Body {
    Body::Report(Box::new(Report {
        sync: poll.sync,
        round: poll.round,
        stamp: poll.stamp,
        ..Report::alone(MemberId(100 + member), state)
    }))
}

/// Everything again, of the first block.
fn need() -> State {
    let mut needs = Needs::new();
    needs.push(0, 50);
    State::Need(needs)
}

/// Runs an attack; gives how long the session took.
fn attacked(case: &str, before: u32, mut attack: impl FnMut(&mut Hostile, u64)) -> Span {
    let mut net = net();
    net.sender.used_up(Peer(HOSTILE), before);
    let began = net.now;
    net.start();
    for member in 0..4 {
        say(&mut net, accept(member, 1));
    }
    let mut turn = 0;
    while net.now < began + ATTACK && !net.sender.is_closed() {
        net.run_until(net.now + Span::from_ms(10));
        attack(&mut net, turn);
        turn += 1;
    }
    net.run();
    let honest = net.sender.delivery(MemberId(1)).unwrap();
    assert_eq!(honest.outcome, Outcome::Delivered, "{case}");
    let closed = |(_, event): &&(Time, SenderEvent)| matches!(event, SenderEvent::Closed(_));
    let (ended, _) = net.sender_events.iter().find(closed).unwrap();
    ended.since(began)
}

#[test]
fn an_address_of_invented_members_delays_the_others_no_longer_than_one_that_dies() {
    let dead = attacked("dead", 0, |_, _| {});
    assert!(dead > Span::from_secs(20), "{dead:?}");
    // In the next session of the same transfer it gets less.
    let again = attacked("dead again", 1, |_, _| {});
    assert!(again < Span::from_secs(4), "{again:?}");
    let mut random = Stream::new(1, "hostile");
    let mut took = Vec::new();
    let mut run = |case, attack: &mut dyn FnMut(&mut Hostile, u64)| {
        took.push((case, attacked(case, 0, attack)));
    };
    run("new lives", &mut |net, turn| {
        say(net, accept(turn % 4, turn as u32));
    });
    run("complete, then another life", &mut |net, turn| {
        let receipt = [0; 16];
        if let Some(poll) = poll(net) {
            say(net, report(&poll, turn % 4, State::Complete { receipt }));
        }
        say(net, accept(turn % 4, 2 + turn as u32));
    });
    run("everything again", &mut |net, turn| {
        if let Some(poll) = poll(net) {
            say(net, report(&poll, turn % 4, need()));
        }
    });
    run("busy and ready", &mut |net, turn| {
        let Some(poll) = poll(net) else { return };
        let state = match turn % 8 {
            0..4 => State::Busy,
            _ => State::Ready(Spans::new()),
        };
        say(net, report(&poll, turn % 4, state));
    });
    run("verifies forever", &mut |net, _| {
        let Some(poll) = poll(net) else { return };
        for member in 0..4 {
            say(net, report(&poll, member, State::Need(Needs::new())));
        }
    });
    run("answers late", &mut |net, turn| {
        if turn % 100 == 0
            && let Some(poll) = poll(net)
        {
            for member in 0..4 {
                say(net, report(&poll, member, need()));
            }
        }
    });
    run("a flood of all", &mut |net, turn| {
        let Some(poll) = poll(net) else { return };
        say(net, accept(turn % 4, turn as u32));
        let state = match random.below(4) {
            0 => State::Busy,
            1 => State::Complete { receipt: [0; 16] },
            2 => need(),
            _ => State::Need(Needs::new()),
        };
        say(net, report(&poll, random.below(4), state));
    });
    for (case, took) in took {
        assert!(took <= dead, "{case}: {took:?}");
    }
}

#[test]
fn a_mute_host_delays_a_session_that_can_be_missed_by_seconds() {
    let mut net = net();
    net.sender.be_brief();
    let began = net.now;
    net.start();
    say(&mut net, accept(0, 1));
    net.run();
    let took = net.now.since(began);
    let honest = net.sender.delivery(MemberId(1)).unwrap();
    assert_eq!(honest.outcome, Outcome::Delivered);
    let mute = net.sender.delivery(MemberId(100)).unwrap();
    assert_eq!(mute.outcome, Outcome::Failed(Reason::Silent));
    // Not before it was asked for seconds, either.
    assert!(
        took > Span::from_secs(4) && took < Span::from_secs(5),
        "{took:?}"
    );
    assert_eq!(net.sender.spent().collect::<Vec<_>>(), [Peer(HOSTILE)]);
}

#[test]
fn half_loss_each_way_is_no_silence_in_such_a_session() {
    let faults = Faults {
        loss: 0.5,
        ..PERFECT
    };
    for seed in 0..400 {
        let config = SenderConfig::layercast(Rate::from_bps(10_000_000));
        let scheme = Scheme::from_number(config.scheme);
        let config = SenderConfig {
            opening: Opening {
                tries: 20,
                ..config.opening
            },
            ..config
        };
        let source = Memory::new("list", content(3_000), scheme);
        let mut sender = Sender::object(SESSION, config, listed(2), source).unwrap();
        sender.be_brief();
        let mut net = Net::new(sender, stores(2), faults, seed);
        net.delay = Span::from_ms(1);
        net.start();
        net.run();
        let mut outcomes = net.sender.deliveries().map(|it| it.outcome);
        assert!(outcomes.all(|it| it == Outcome::Delivered), "{seed}");
    }
}

/// Changes a packet, if it is one that this forger changes.
type Forge = fn(&mut Body) -> bool;

/// A session with two receivers, of which the first gets some packets changed: `forge` changes a packet, if it is one of
/// those, and the `times` count those.
fn forged(times: Range<u32>, forge: Forge) -> Hostile {
    let mut net = session(FORGED_OCTETS);
    let mut seen = 0;
    net.form = Box::new(move |_, to, packet| {
        let mut changed = packet.clone();
        if to != 1 || !forge(&mut changed.body) {
            return vec![packet.clone()];
        }
        seen += 1;
        match times.contains(&seen) {
            true => vec![changed],
            false => vec![packet.clone()],
        }
    });
    net.start();
    net.run();
    net
}

fn pass_of_data(body: &mut Body) -> bool {
    let Body::Data(data) = body else { return false };
    data.round = u16::MAX;
    true
}

fn pass_of_poll(body: &mut Body) -> bool {
    let Body::Poll(poll) = body else { return false };
    poll.round = u16::MAX;
    true
}

fn number(body: &mut Body) -> bool {
    let Body::Data(data) = body else { return false };
    data.symbol = Symbol::Source(255);
    true
}

/// The content of packet 254 always comes as that of 255.
fn number_of_254(body: &mut Body) -> bool {
    matches!(body, Body::Data(data) if data.symbol == Symbol::Source(254)) && number(body)
}

#[test]
fn one_forged_packet_costs_no_receiver_its_file() {
    let forgeries: [(&str, Forge, u32); 4] = [
        ("the pass of a data packet", pass_of_data, 50),
        ("the pass of the last data packet", pass_of_data, 358),
        ("the pass of a poll", pass_of_poll, 1),
        ("a wrong packet, in a block that lacks one", number, 255),
    ];
    for (case, forge, nth) in forgeries {
        // Two forged packets move a receiver, and two of the sender move it back.
        for times in 1..=2 {
            let net = forged(nth..nth + times, forge);
            let took = net.now.since(Time::ZERO + Span::from_secs(1));
            assert!(took < Span::from_secs(2), "{case}, {times}: {took:?}");
            for member in [MemberId(1), MemberId(2)] {
                let it = net.sender.delivery(member).unwrap();
                assert_eq!(it.outcome, Outcome::Delivered, "{case}, {times}");
            }
            let bytes = net.receivers[0].as_ref().unwrap().store().bytes();
            assert_eq!(bytes, &content(FORGED_OCTETS)[..], "{case}, {times}");
        }
    }
}

#[test]
fn wrong_content_is_requested_once_more_and_then_named() {
    let net = forged(1..u32::MAX, number_of_254);
    let failed = net.sender.delivery(MemberId(1)).unwrap().outcome;
    assert_eq!(failed, Outcome::Failed(Reason::Corrupt));
    let events = &net.receiver_events[0];
    let wrong = events.iter().filter(|it| **it == ReceiverEvent::Corrupt);
    assert_eq!(wrong.count(), 2, "{events:?}");
    let closed = ReceiverEvent::Closed {
        complete: false,
        reason: Reason::Corrupt,
    };
    assert_eq!(events.last(), Some(&closed));
}
