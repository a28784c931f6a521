//! Packets of RMTP for tests and for the fuzz corpus: those of the worked trace of specs/rmtp-large-scale.md 8.1, and
//! the kinds it leaves out.

use bytes::Bytes;
use layercast_wire::Payload;
use layercast_wire::multicast::rmtp::{
    RmtpBody, RmtpConnect, RmtpData, RmtpFlags, RmtpForm, RmtpList, RmtpOption, RmtpPacket,
};

/// A packet with its name and what it looks like in V2 (the form with the fewest exceptions).
pub type Golden = (&'static str, &'static str, RmtpPacket);

fn packet(body: RmtpBody) -> RmtpPacket {
    RmtpPacket {
        connection: 7,
        body,
    }
}

fn list(ranges: &[(u16, u16)]) -> RmtpList {
    RmtpList::of(ranges.iter().copied()).expect("ranges of a test")
}

fn data(seq: u16, flags: u8, round: u8) -> RmtpBody {
    RmtpBody::Data(RmtpData {
        seq,
        flags: RmtpFlags(flags),
        round,
        part: 0,
        payload: Payload::Bytes(Bytes::from_static(b"news")),
    })
}

fn connect(options: Vec<RmtpOption>) -> RmtpBody {
    let connect = RmtpConnect::new(18, 4).expect("sizes of a test");
    RmtpBody::Connect(RmtpConnect { options, ..connect })
}

/// The packets of the trace, of connection 7: five blocks of four octets, of which the last two are padding.
pub fn trace() -> Vec<Golden> {
    let yes = RmtpBody::Accept {
        yes: true,
        options: Vec::new(),
    };
    let nack = |ranges: &[(u16, u16)]| RmtpBody::Nack {
        round: 0,
        more: false,
        missing: list(ranges),
    };
    vec![
        (
            "conn",
            "0008 0010 0007 02 00 00000012 0005 0004",
            packet(connect(Vec::new())),
        ),
        ("cack", "0009 0008 0007 0000", packet(yes)),
        (
            "dt-first",
            "0001 000e 0007 0001 00 00 6e657773",
            packet(data(1, 0, 0)),
        ),
        (
            "dt-last",
            "0001 000e 0007 0005 40 00 6e657773",
            packet(data(5, RmtpFlags::LAST.0, 0)),
        ),
        (
            "ack",
            "0002 0007 0007 00",
            packet(RmtpBody::Ack { round: 0 }),
        ),
        (
            "nack",
            "0003 000e 0007 00 00 0002 ffff 0004",
            packet(nack(&[(2, 4)])),
        ),
        ("poll", "0007 0006 0007", packet(RmtpBody::Poll)),
        ("rel", "000a 0006 0007", packet(RmtpBody::Release)),
        ("rack", "000b 0006 0007", packet(RmtpBody::Released)),
        (
            "dt-again",
            "0001 000e 0007 0004 40 01 6e657773",
            packet(data(4, RmtpFlags::LAST.0, 1)),
        ),
    ]
}

/// What the trace has not.
pub fn others() -> Vec<Golden> {
    let text = |text: &'static [u8]| Bytes::from_static(text);
    vec![
        (
            "dt-flags",
            "0001 000e 0007 fffe c3 ff 6e657773",
            packet(data(65_534, 0xc3, 255)),
        ),
        (
            "nack-mixed",
            "0003 0014 0007 02 80 0001 0003 0004 0009 ffff fffe",
            packet(RmtpBody::Nack {
                round: 2,
                more: true,
                missing: list(&[(1, 1), (3, 4), (9, 65_534)]),
            }),
        ),
        ("busy", "0004 0006 0007", packet(RmtpBody::Busy)),
        (
            "rrdy",
            "0005 0008 0007 0003",
            packet(RmtpBody::Ready(list(&[(3, 3)]))),
        ),
        (
            "rrdy-complete",
            "0005 0006 0007",
            packet(RmtpBody::Ready(RmtpList::default())),
        ),
        ("abort", "0006 0006 0007", packet(RmtpBody::Abort)),
        (
            "conn-options",
            "0008 0060 0007 02 00 00000012 0005 0004 \
             0000 0003 617070 0001 0004 6e657773 0002 0001 74 0003 0004 00003a98 \
             0010 0008 0000000100000000 0011 0004 00000012 0012 0002 0001 \
             0020 0002 0000 0021 0004 00000011 0022 0008 0102030405060708",
            packet(connect(vec![
                RmtpOption::Application(text(b"app")),
                RmtpOption::DataName(text(b"news")),
                RmtpOption::DataType(text(b"t")),
                RmtpOption::BackOff(15_000),
                RmtpOption::Undivided(1 << 32),
                RmtpOption::PartSize(18),
                RmtpOption::Part(1),
                RmtpOption::Scramble(0),
                RmtpOption::TrueSize(17),
                RmtpOption::AskIdentity([1, 2, 3, 4, 5, 6, 7, 8]),
            ])),
        ),
        (
            "conn-user",
            "0008 0016 0007 02 00 00000012 0005 0004 0100 0002 6869",
            packet(connect(vec![RmtpOption::Other {
                code: RmtpOption::USER,
                value: text(b"hi"),
            }])),
        ),
        (
            "cack-no",
            "0009 0017 0007 0001 0030 0005 6368756666 0031 0002 aabb",
            packet(RmtpBody::Accept {
                yes: false,
                options: vec![
                    RmtpOption::Receiver(text(b"chuff")),
                    RmtpOption::Identity(text(&[0xaa, 0xbb])),
                ],
            }),
        ),
        (
            "frepo",
            "000c 000e 0007 0001 0064 00000062",
            packet(RmtpBody::Count {
                start: 1,
                stop: 100,
                received: 98,
            }),
        ),
        ("susp", "000e 0006 0007", packet(RmtpBody::Suspend)),
    ]
}

/// All of them.
pub fn golden() -> Vec<Golden> {
    trace().into_iter().chain(others()).collect()
}

/// The octets of a packet; none if the form does not know its kind.
pub fn bytes(form: RmtpForm, packet: &RmtpPacket) -> Vec<u8> {
    let mut out = Vec::new();
    let _ = packet.encode_into(form, &mut out);
    out
}

/// Every packet in V2 and those that look different in another form also in that, behind the octet by which the fuzz
/// target chooses the form.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (choice, form) in RmtpForm::ALL.into_iter().enumerate() {
        for (name, _, packet) in golden() {
            let differs = matches!(name, "conn" | "dt-flags" | "nack-mixed" | "cack-no");
            if form == RmtpForm::V2 || differs {
                let name = format!("{name}-{form:?}").to_lowercase();
                let bytes = bytes(form, &packet);
                seeds.push((name, [&[choice as u8], &bytes[..]].concat()));
            }
        }
    }
    seeds
}
