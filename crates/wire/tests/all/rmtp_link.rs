//! The engine's packets as RMTP and back: what is kept, and what is refused.

use bytes::Bytes;
use layercast_wire::Payload;
use layercast_wire::multicast::rmtp::{RmtpError, RmtpForm, RmtpLink, RmtpLinkError, RmtpList};
use layercast_wire::multicast::{
    Accept, Body, Count, Data, DataFlags, MAX_LIST, MemberId, Packet, Reason, Report, Spans, State,
    Symbol,
};

use crate::multicast_checks::rmtp_open;
use crate::samples::hex;

const SESSION: u64 = 0xaaaa_0007;
const WHO: MemberId = MemberId(9);

/// Both ends of a connection: 1000 blocks of 4 octets, the last of 2.
fn ends(form: RmtpForm) -> (RmtpLink, RmtpLink) {
    let mut ends = (RmtpLink::server(form, SESSION), RmtpLink::receiver(form));
    let open = packet(rmtp_open(3_998, 4));
    let heard = pass(&mut ends.0, &mut ends.1, &open).unwrap();
    let (Body::Open(said), [Packet { session, body }]) = (&open.body, &heard[..]) else {
        panic!("{heard:?}");
    };
    let paper = form == RmtpForm::Paper96;
    assert_eq!(*session, if paper { 0 } else { SESSION & 0xffff });
    // Milliseconds are what RMTP has.
    let mut said = said.clone();
    said.terms.spread_us = 2_000;
    said.stamp = 0;
    assert_eq!(*body, Body::Open(said));
    ends
}

fn packet(body: Body) -> Packet {
    Packet {
        session: SESSION,
        body,
    }
}

fn pass(
    from: &mut RmtpLink,
    to: &mut RmtpLink,
    packet: &Packet,
) -> Result<Vec<Packet>, RmtpLinkError> {
    let mut bytes = Vec::new();
    from.encode(packet, &mut bytes)?;
    to.decode(WHO, bytes.into())
}

fn one(from: &mut RmtpLink, to: &mut RmtpLink, body: Body) -> Body {
    let mut heard = pass(from, to, &packet(body)).unwrap();
    assert_eq!(heard.len(), 1);
    heard.remove(0).body
}

fn data(number: u64, flags: DataFlags, payload: &'static [u8]) -> Body {
    Body::Data(Data {
        round: 0,
        flags,
        symbol: Symbol::Source(number),
        payload: Payload::Bytes(Bytes::from_static(payload)),
    })
}

fn report(round: u16, more: bool, state: State) -> Body {
    Body::Report(Box::new(Report {
        round,
        more,
        ..Report::alone(WHO, state)
    }))
}

#[test]
fn what_both_can_say_is_kept() {
    for form in RmtpForm::ALL {
        let (mut server, mut receiver) = ends(form);
        let (server, receiver) = (&mut server, &mut receiver);
        // The last block is padded on the wire, and cut again.
        for (number, payload) in [(0, &b"news"[..]), (999, b"ws")] {
            let body = data(number, DataFlags::LAST, payload);
            assert_eq!(one(server, receiver, body.clone()), body, "{form:?}");
        }
        let spans = Spans::of([(0, 1), (3, 5), (999, 1_000)]).0;
        for state in [
            State::Complete { receipt: [0; 16] },
            State::Missing(spans.clone()),
            State::Busy,
            State::Ready(spans),
        ] {
            let body = report(0, false, state);
            assert_eq!(one(receiver, server, body.clone()), body, "{form:?}");
        }
        let accept = Accept {
            refuses: Some(Reason::Unsupported),
            ..Accept::alone(WHO)
        };
        for body in [Body::Accept(accept), Body::Released { member: WHO }] {
            assert_eq!(one(receiver, server, body.clone()), body, "{form:?}");
        }
        for body in [
            Body::Release { round: 0 },
            Body::Abort {
                reason: Reason::User,
            },
        ] {
            assert_eq!(one(server, receiver, body.clone()), body, "{form:?}");
        }
        let leave = Body::Leave {
            member: WHO,
            reason: Reason::User,
        };
        assert_eq!(one(receiver, server, leave.clone()), leave);
    }
}

#[test]
fn what_only_v2_can_say() {
    let count = Body::Count(Count {
        member: WHO,
        round: 0,
        start: Symbol::Source(0),
        stop: Symbol::Source(99),
        received: 98,
    });
    let suspend = Body::Suspend { member: WHO };
    for form in RmtpForm::ALL {
        let (mut server, mut receiver) = ends(form);
        let counted = pass(&mut receiver, &mut server, &packet(count.clone()));
        let suspended = pass(&mut server, &mut receiver, &packet(suspend.clone()));
        if form.is_v2() {
            assert_eq!(counted.unwrap()[0].body, count);
            assert_eq!(suspended.unwrap()[0].body, suspend);
        } else {
            assert_eq!(counted, Err(RmtpError::Kind(12).into()));
            assert_eq!(suspended, Err(RmtpError::Kind(14).into()));
        }
    }
}

#[test]
fn long_lists_become_several_of_the_engine() {
    let (mut server, _) = ends(RmtpForm::V1);
    let ranges = (0..2 * MAX_LIST as u16 + 1).map(|n| (4 * n + 1, 4 * n + 2));
    let list = RmtpList::of(ranges).unwrap();
    let mut bytes = hex("0003 0000 0007 01 00");
    for (first, last) in list.iter() {
        bytes.extend([first, last].iter().flat_map(|it| it.to_be_bytes()));
    }
    let len = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    let heard = server.decode(WHO, bytes.into()).unwrap();
    let parts = heard.iter().map(|it| match &it.body {
        Body::Report(report) => match &report.state {
            State::Missing(spans) => (spans.len(), report.more),
            state => panic!("{state:?}"),
        },
        body => panic!("{body:?}"),
    });
    let wanted = [(MAX_LIST, true), (MAX_LIST, true), (1, false)];
    assert_eq!(parts.collect::<Vec<_>>(), wanted);
}

#[test]
fn strangers_and_what_is_beyond_the_object_are_refused() {
    let (mut server, mut receiver) = ends(RmtpForm::V1);
    let mut hear = |text: &str| server.decode(WHO, hex(text).into()).unwrap_err();
    assert_eq!(hear("0002 0007 0008 00"), RmtpLinkError::Stranger);
    assert_eq!(hear("000a 0006 0007"), RmtpLinkError::Stranger);
    assert_eq!(hear("0003 000a 0007 00 00 03e9"), RmtpLinkError::Beyond);
    assert_eq!(hear("0005 000c 0007 03e8 ffff 03e9"), RmtpLinkError::Beyond);
    assert_eq!(hear("0002"), RmtpError::Short(2).into());
    let mut hear = |text: &str| receiver.decode(WHO, hex(text).into()).unwrap_err();
    assert_eq!(hear("0002 0007 0007 00"), RmtpLinkError::Stranger);
    assert_eq!(
        hear("0001 000e 0007 03e9 00 00 00000000"),
        RmtpLinkError::Beyond
    );
    assert_eq!(
        hear("0001 000d 0007 0001 00 00 000000"),
        RmtpLinkError::Beyond
    );
    let mut unconnected = RmtpLink::receiver(RmtpForm::V1);
    let early = unconnected.decode(WHO, hex("0001 000e 0007 0001 00 00 00000000").into());
    assert_eq!(early, Err(RmtpLinkError::Stranger));
}

#[test]
fn what_rmtp_cannot_say_is_not_said() {
    let (mut server, mut receiver) = ends(RmtpForm::V2);
    let mut out = Vec::new();
    let mut say = |link: &mut RmtpLink, body| link.encode(&packet(body), &mut out).unwrap_err();
    let parity = Body::Data(Data {
        round: 0,
        flags: DataFlags(0),
        symbol: Symbol::Parity { block: 0, index: 0 },
        payload: Payload::Zeros(4),
    });
    assert_eq!(say(&mut server, parity), RmtpLinkError::Unsaid("a parity"));
    let long = data(0, DataFlags(0), b"longer");
    assert_eq!(say(&mut server, long), RmtpLinkError::Beyond);
    let late = report(256, false, State::Busy);
    assert_eq!(
        say(&mut receiver, late),
        RmtpLinkError::Unsaid("a pass number above 255")
    );
    let levels = State::Levels {
        received: 0,
        delivered: 0,
        gaps: Spans::new(),
    };
    let levels = report(0, false, levels);
    assert_eq!(say(&mut receiver, levels), RmtpLinkError::Unsaid("levels"));
    let Body::Open(open) = rmtp_open(4, 4) else {
        panic!("it opens");
    };
    let mut stream = open.clone();
    stream.object = None;
    let stream = Body::Open(stream);
    assert_eq!(say(&mut server, stream), RmtpLinkError::Unsaid("a stream"));
    let mut quiet = open.clone();
    quiet.terms.unasked = false;
    let quiet = say(&mut server, Body::Open(quiet));
    assert_eq!(quiet, RmtpLinkError::Unsaid("terms other than RMTP's"));
    let large = say(&mut server, rmtp_open(1 << 32, 4));
    assert_eq!(large, RmtpLinkError::Unsaid("such a size"));
    assert!(out.is_empty());
}
