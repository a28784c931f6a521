//! The engine's packets as FRM and back: what is kept, and what is refused.

use bytes::Bytes;
use layercast_wire::Payload;
use layercast_wire::multicast::frm::{FrmIntegrity, FrmLink, FrmLinkError, FrmSetup};
use layercast_wire::multicast::{
    Accept, Ask, Body, Content, Data, DataFlags, Eject, MemberId, Needs, Open, Packet, Poll,
    Reason, Report, Spans, State, Symbol, Terms,
};

const SESSION: u64 = 0x1_0000_0007;
const WHO: MemberId = MemberId(9);

fn open() -> Open {
    Open {
        stamp: 5,
        packet_size: 2_000,
        min_release: 180_000,
        terms: Terms {
            content: Content::Levels,
            in_order: true,
            unasked: false,
            goodbye: false,
            spread_us: 20,
            data_wait_ms: 0,
            sender_wait_ms: 10_000,
            counters: 0,
        },
        object: None,
        proof: None,
    }
}

fn ends() -> (FrmLink, FrmLink) {
    let setup = FrmSetup {
        name: Bytes::from_static(b"chuff"),
        address: ([10, 0, 0, 1], 7_000).into(),
        contingency: 384,
        wait_ms: 500,
        integrity: FrmIntegrity::default(),
    };
    let mut ends = (FrmLink::sender(SESSION, setup), FrmLink::receiver());
    let body = Body::Open(Box::new(open()));
    assert_eq!(pass(&mut ends.0, &mut ends.1, body.clone()), Ok(body));
    ends
}

fn packet(body: Body) -> Packet {
    Packet {
        session: SESSION,
        body,
    }
}

fn pass(from: &mut FrmLink, to: &mut FrmLink, body: Body) -> Result<Body, FrmLinkError> {
    let mut bytes = Vec::new();
    from.encode(&packet(body), &mut bytes)?;
    let heard = to.decode(bytes.into())?;
    assert_eq!(heard.session, SESSION);
    Ok(heard.body)
}

fn data(number: u64) -> Body {
    Body::Data(Data {
        round: 0,
        flags: DataFlags::AGAIN,
        symbol: Symbol::Source(number),
        payload: Payload::Bytes(Bytes::from_static(b"data")),
    })
}

fn poll(upto: u64) -> Poll {
    Poll {
        sync: 3,
        round: 0,
        stamp: 77,
        upto,
        sent: 40,
        ask: Ask::Everyone,
        spread_us: 9,
        group: 0,
        handshake: true,
        separate: false,
        closing: true,
        ejected: vec![MemberId(4)],
        heard: Needs::new(),
    }
}

fn echo(received: u64, state: impl Fn(Spans) -> State) -> Body {
    let gaps = Spans::of([(received, received + 2), (received + 5, received + 6)]).0;
    Body::Report(Box::new(Report {
        sync: 3,
        stamp: 77,
        loss: 5,
        buffer: 30,
        ..Report::alone(WHO, state(gaps))
    }))
}

#[test]
fn what_both_can_say_is_kept() {
    let (mut sender, mut receiver) = ends();
    let (sender, receiver) = (&mut sender, &mut receiver);
    let abort = Body::Abort {
        reason: Reason::Integrity,
    };
    for body in [Body::Release { round: 0 }, abort] {
        assert_eq!(pass(sender, receiver, body.clone()), Ok(body));
    }
    let accept = Accept {
        incarnation: 2,
        buffer: 32,
        stamp: 5,
        ..Accept::alone(WHO)
    };
    let leave = Body::Leave {
        member: WHO,
        reason: Reason::User,
    };
    for body in [Body::Accept(accept), leave] {
        assert_eq!(pass(receiver, sender, body.clone()), Ok(body));
    }
    // Numbers beyond 32 bits, in steps that 32 bits can tell.
    for number in [
        0,
        1 << 30,
        2 << 30,
        3 << 30,
        (4 << 30) - 1,
        1 << 32,
        5 << 30,
    ] {
        assert_eq!(pass(sender, receiver, data(number)), Ok(data(number)));
        let asked = Body::Poll(Box::new(poll(number + 9)));
        assert_eq!(pass(sender, receiver, asked.clone()), Ok(asked));
        let delivered = number.saturating_sub(3);
        let body = echo(number, |gaps| State::Levels {
            received: number,
            delivered,
            gaps,
        });
        assert_eq!(pass(receiver, sender, body.clone()), Ok(body));
        let eject = Body::Eject(Eject {
            member: WHO,
            reason: Reason::Slow,
            upto: number,
        });
        assert_eq!(pass(sender, receiver, eject.clone()), Ok(eject));
    }
}

#[test]
fn strangers_are_not_heard() {
    let (mut sender, mut receiver) = ends();
    let mut bytes = Vec::new();
    sender.encode(&packet(data(0)), &mut bytes).unwrap();
    // What the network loops back is the sender's own.
    let own = sender.decode(bytes.clone().into());
    assert_eq!(own, Err(FrmLinkError::Stranger));
    let early = FrmLink::receiver().decode(bytes.clone().into());
    assert_eq!(early, Err(FrmLinkError::Stranger));
    bytes[11] ^= 1;
    assert_eq!(receiver.decode(bytes.into()), Err(FrmLinkError::Stranger));
    // One before the first packet.
    let mut bytes = Vec::new();
    sender.encode(&packet(data(0)), &mut bytes).unwrap();
    bytes[12..16].fill(0xff);
    assert_eq!(receiver.decode(bytes.into()), Err(FrmLinkError::Before));
}

#[test]
fn what_frm_cannot_say_is_not_said() {
    let (mut sender, mut receiver) = ends();
    let mut out = Vec::new();
    let mut say = |link: &mut FrmLink, body| link.encode(&packet(body), &mut out).unwrap_err();
    let mut needy = poll(0);
    needy.ask = Ask::Needy;
    let needy = say(&mut sender, Body::Poll(Box::new(needy)));
    assert_eq!(needy, FrmLinkError::Unsaid("which members it polls"));
    let missing = say(&mut receiver, echo(0, State::Missing));
    assert_eq!(missing, FrmLinkError::Unsaid("what an object lacks"));
    let opened = say(&mut receiver, Body::Open(Box::new(open())));
    assert_eq!(opened, FrmLinkError::Stranger);
    let mut terms = open();
    terms.terms.goodbye = true;
    let terms = say(&mut sender, Body::Open(Box::new(terms)));
    assert_eq!(terms, FrmLinkError::Unsaid("terms other than FRM's"));
    let goodbye = say(&mut receiver, Body::Released { member: WHO });
    assert_eq!(goodbye, FrmLinkError::Unsaid("a good-bye"));
    assert!(out.is_empty());
}
