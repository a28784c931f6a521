//! What is encoded decodes to itself; what decodes encodes to its bytes.

use bytes::Bytes;
use layercast_core::{CellRate, FlowId, GroupId, Level, LevelSet, NodeId, Serial, Span};
use layercast_wire::{
    ADAPTER_VCI, AdapterError, AdapterKind, AdapterMsg, Carriage, Cell, DecodeError, Flags,
    FrameType, LinkPdu, METS_HEADER, MetsError, MetsHeader, MetsPacket, Passing, Payload, Pti,
    Sound, Waited, decode_datagram,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::samples::pdus as samples;
use crate::wire_checks as checks;

fn payloads() -> impl Strategy<Value = Payload> {
    prop_oneof![
        (1..2_000u32).prop_map(Payload::Zeros),
        vec(any::<u8>(), 1..2_000).prop_map(|bytes| Payload::Bytes(bytes.into())),
    ]
}

fn packets() -> impl Strategy<Value = MetsPacket> {
    let kinds = prop_oneof![
        Just(FrameType::BL),
        Just(FrameType::E1),
        Just(FrameType::E2),
        Just(FrameType::PROBE),
        Just(FrameType(0xffff)),
    ];
    let place = prop_oneof![Just((0, 0)), (0..70_000u32, 0..70_000u32)];
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>());
    let waited = prop_oneof![
        Just(Waited::default()),
        (any::<u32>(), any::<u32>(), 0..400u64).prop_map(|(arrived, due, ms)| {
            let ps = |us: u32| u64::from(us) * 1_000_000;
            Waited::new(ps(arrived), ps(due)).left_after(Span::from_ms(ms))
        }),
    ];
    let level = || (0..=2_u8).prop_map(|level| Level::new(level).unwrap());
    let passing = prop_oneof![
        Just(Passing::default()),
        (level(), level()).prop_map(|(source, here)| Passing::of(source).limited_to(here)),
        level().prop_map(|level| Passing::of(level).again()),
        (1..=7_u8).prop_map(|bits| Passing::carrying(LevelSet::from_bits(bits).unwrap())),
    ];
    let beside = (
        waited,
        any::<(bool, u8)>().prop_map(|(is_sound, count)| Sound::new(is_sound, count)),
    );
    let rest = (
        any::<(u8, u8)>(),
        any::<(bool, bool)>(),
        any::<bool>(),
        beside,
        passing,
    );
    (kinds, place, numbers, rest, payloads()).prop_map(
        |(
            kind,
            (before, after),
            (flow, seq, time),
            (counts, marks, congestion, beside, passing),
            payload,
        )| {
            let mut packet =
                samples::fragment(kind, before + payload.len() as u32 + after, before, payload);
            let (waited, sound) = match before {
                0 => beside,
                _ => Default::default(),
            };
            let places = packet.header.flags.0 & (Flags::FIRST | Flags::LAST).0;
            packet.header = MetsHeader {
                flags: Flags(places | u8::from(marks.0) | u8::from(marks.1) << 3),
                flow: FlowId(flow),
                seq: Serial(seq),
                timestamp_us: time,
                e1_count: counts.0,
                e2_count: counts.1,
                waited,
                sound,
                passing,
                ..packet.header
            };
            packet.congestion = congestion;
            packet
        },
    )
}

fn adapters() -> impl Strategy<Value = AdapterMsg> {
    let levels = (0..=2u8).prop_flat_map(|max| (0..=max, Just(max)));
    let set = (any::<bool>(), 0..=7u8);
    (any::<bool>(), (levels, set), any::<[u32; 8]>(), any::<u8>()).prop_map(
        |(res, ((min, max), (sets, below)), n, hops)| AdapterMsg {
            kind: if res {
                AdapterKind::Res
            } else {
                AdapterKind::Adapt
            },
            group: GroupId(n[0]),
            flow: FlowId(n[1]),
            era: Serial(n[2]),
            origin: NodeId(n[3]),
            min: Level::new(min).unwrap(),
            max: Level::new(max).unwrap(),
            hops,
            levels: match sets {
                true => LevelSet::from_bits(1 << max | below & ((1 << max) - 1)).unwrap(),
                false => LevelSet::EMPTY,
            },
            rate_min: CellRate(n[4]),
            rate_max: CellRate(n[5]),
            residual: CellRate(n[6]),
            drain: CellRate(if res { n[7] } else { 0 }),
        },
    )
}

fn cells() -> impl Strategy<Value = Cell> {
    (
        any::<u8>(),
        any::<u16>(),
        0..8u8,
        any::<bool>(),
        vec(any::<u8>(), 48),
    )
        .prop_map(|(vpi, vci, pti, clp, payload)| Cell {
            vpi,
            vci,
            pti: Pti::new(pti),
            clp,
            payload: payload.try_into().unwrap(),
        })
}

fn datagram(carriage: Carriage, pdus: &[LinkPdu], congestion: bool) -> Vec<LinkPdu> {
    let mut bytes = Vec::new();
    for pdu in pdus {
        pdu.encode_into(&mut bytes);
    }
    let mut out = Vec::new();
    decode_datagram(carriage, bytes.into(), congestion, &mut |pdu| out.push(pdu)).unwrap();
    out
}

proptest! {
    #[test]
    fn mets_packets_come_back_from_a_datagram(packet in packets()) {
        let congestion = packet.congestion;
        let pdu = LinkPdu::Mets(packet);
        prop_assert_eq!(datagram(Carriage::Datagrams, std::slice::from_ref(&pdu), congestion), [pdu]);
    }

    #[test]
    fn mets_packets_come_back_from_cells(packet in packets()) {
        let mut bytes = Vec::new();
        packet.encode_into(&mut bytes);
        checks::mets(&bytes);
    }

    #[test]
    fn adapter_messages_come_back_from_datagrams_and_cells(message in adapters()) {
        let pdu = LinkPdu::Adapter(message);
        prop_assert_eq!(datagram(Carriage::Datagrams, std::slice::from_ref(&pdu), false), [pdu]);
        let cell = message.to_cell();
        prop_assert_eq!((cell.vci, cell.pti), (ADAPTER_VCI, Pti::data(false, true)));
        prop_assert_eq!(AdapterMsg::from_cell(&cell), Ok(message));
    }

    #[test]
    fn cells_come_back_from_a_datagram(cells in vec(cells(), 1..=22)) {
        let pdus: Vec<_> = cells.into_iter().map(LinkPdu::Cell).collect();
        prop_assert_eq!(datagram(Carriage::Cells, &pdus, false), pdus);
    }

    #[test]
    fn any_bytes_decode_without_harm(data in vec(any::<u8>(), 0..200)) {
        checks::mets(&data);
        checks::adapter(&data);
        checks::cell(&data);
        checks::aal5(&data);
        checks::datagram(&data);
        checks::signal(&data);
    }

    // Few random bytes pass the first check of a decoder; these pass all but one.
    #[test]
    fn damaged_packets_decode_without_harm(
        packet in packets(), message in adapters(), at in 0..40usize, flip in 1..=255u8,
    ) {
        let mut bytes = vec![1];
        packet.encode_into(&mut bytes);
        bytes[1 + at % METS_HEADER] ^= flip;
        checks::mets(&bytes[1..]);
        checks::datagram(&bytes);
        let mut bytes = message.encode();
        bytes[at] ^= flip;
        checks::adapter(&bytes);
    }
}

#[test]
fn the_time_that_a_live_frame_waited_is_in_its_first_packet() {
    let ms = |ms: u64| ms * 1_000_000_000;
    let mut packet = samples::packet(FrameType::BL, Payload::Zeros(9));
    packet.header.waited = Waited::new(ms(1_000), ms(1_060)).left_after(Span::from_us(6_900));
    let header = MetsHeader::decode(&packet.header.encode()).unwrap();
    assert_eq!(header, packet.header);
    assert_eq!(header.waited.early_ps(), 60_000_000_000);
    assert_eq!(header.waited.queued(), Span::from_ms(6));
    assert!(header.waited.is_live() && header.fixed().waited.queued() == Span::ZERO);
    // Later than it was due, and more than fits.
    let late = Waited::new(ms(1_000), ms(980));
    assert_eq!(late.early_ps(), -20_000_000_000);
    let most = Waited::new(ms(0), ms(60_000)).left_after(Span::from_secs(60));
    assert_eq!(most.early_ps(), 4_095_000_000_000);
    assert_eq!(most.queued(), Span::from_ms(254));
    let early = Waited::new(ms(60_000), ms(0));
    assert!(early.is_live() && early.early_ps() == -4_095_000_000_000);
    let file = Waited::default();
    assert!(!file.is_live() && file.early_ps() == 0 && file.left_after(Span::from_ms(9)) == file);
}

#[test]
fn sound_is_marked_and_counted_in_the_first_packet_of_each_frame() {
    let mut packet = samples::packet(FrameType::BL, Payload::Zeros(9));
    for count in 0..20_u8 {
        for is_sound in [false, true] {
            for waited in [Waited::default(), Waited::new(1, u64::MAX / 2)] {
                packet.header.sound = Sound::new(is_sound, count);
                packet.header.waited = waited;
                let header = MetsHeader::decode(&packet.header.encode()).unwrap();
                assert_eq!(header, packet.header);
                assert_eq!(header.sound.is_sound(), is_sound);
                assert_eq!(header.sound.count(), count % 8);
                assert_eq!(header.fixed().sound, header.sound, "sealing covers it");
            }
        }
    }
    let whole = MetsPacket::fragments(packet.header, &Payload::Zeros(30), 10);
    let marks: Vec<bool> = whole
        .map(|it| it.header.sound == Sound::default())
        .collect();
    assert_eq!(marks, [false, true, true]);
}

#[test]
fn the_mets_header_has_the_octets_of_the_specification() {
    let packet = samples::fragment(FrameType::E2, 0x01_02_03, 0x00_0a_0b, Payload::Zeros(1));
    let header = packet.header.encode();
    let expected = [
        0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xfe, 0, 0x12, 0xd6, 0x87, 3, 1, 2, 3, 8, 0,
        0x0a, 0x0b,
    ];
    assert_eq!(header, expected);
}

#[test]
fn a_header_that_contradicts_itself_is_refused() {
    let good = samples::fragment(FrameType::BL, 100, 0, Payload::Zeros(60)).header;
    let check = |change: fn(&mut MetsHeader), len| {
        let mut header = good;
        change(&mut header);
        header.check(len)
    };
    assert_eq!(check(|_| (), 60), Ok(()));
    assert_eq!(check(|_| (), 0), Err(MetsError::Empty));
    assert!(matches!(check(|_| (), 101), Err(MetsError::Beyond { .. })));
    assert!(matches!(
        check(|_| (), 100),
        Err(MetsError::FragmentFlags(_))
    ));
    assert!(matches!(
        check(|h| h.flags = Flags(0), 60),
        Err(MetsError::FragmentFlags(_))
    ));
    assert!(matches!(
        check(|h| h.offset = 1, 60),
        Err(MetsError::FragmentFlags(_))
    ));
    // The mark of a life says nothing about fragments.
    assert_eq!(check(|h| h.flags = h.flags.with_life(8), 60), Ok(()));
    assert_eq!(check(|h| h.alf_len = 0, 60), Err(MetsError::FrameLength(0)));
    assert_eq!(
        check(|h| h.alf_len = 1 << 24, 60),
        Err(MetsError::FrameLength(1 << 24))
    );
    assert_eq!(
        check(|h| h.kind = FrameType::RES, 60),
        Err(MetsError::Control(FrameType::RES))
    );
    assert_eq!(MetsHeader::decode(&[0; 23]), Err(MetsError::Short(23)));
    assert_eq!(MetsHeader::decode(&[0; 24]), Err(MetsError::Version(0)));
    for octet in [0x02, 0x70, 0xf2] {
        let version = Err(MetsError::Version(octet));
        assert_eq!(MetsHeader::decode(&[octet; 24]), version);
    }
}

#[test]
fn a_broken_adapter_message_is_refused() {
    let good = samples::adapter(AdapterKind::Res, Level::FULL).encode();
    let decode = |at: usize, value: u8| {
        let mut bytes = good;
        bytes[at] = value;
        AdapterMsg::decode(&bytes)
    };
    assert!(decode(0, 0).is_ok());
    assert_eq!(decode(1, 1), Err(AdapterError::Type(FrameType::BL)));
    assert_eq!(decode(2, 2), Err(AdapterError::Version(2)));
    assert_eq!(decode(3, 1), Err(AdapterError::Reserved));
    for bits in 0..=255 {
        // Level 2 is the highest of the message.
        match bits {
            0 | 4..=7 => assert_eq!(decode(23, bits).map(|it| it.levels.bits()), Ok(bits)),
            _ => assert_eq!(decode(23, bits), Err(AdapterError::Set(bits, 2))),
        }
    }
    assert_eq!(decode(39, 1).map(|message| message.drain.0 & 1), Ok(1));
    let mut adapt = samples::adapter(AdapterKind::Adapt, Level::FULL).encode();
    adapt[39] = 1;
    assert_eq!(AdapterMsg::decode(&adapt), Err(AdapterError::Reserved));
    assert_eq!(decode(21, 3), Err(AdapterError::Level(3)));
    assert_eq!(decode(21, 0), Err(AdapterError::Inverted(1, 0)));
    assert_eq!(
        AdapterMsg::decode(&good[..39]),
        Err(AdapterError::Length(39))
    );
    let mut cell = samples::adapter(AdapterKind::Res, Level::FULL).to_cell();
    cell.payload[30] ^= 1;
    assert_eq!(AdapterMsg::from_cell(&cell), Err(AdapterError::Crc));
}

#[test]
fn a_datagram_of_cells_is_taken_whole_or_not_at_all() {
    let cell = samples::adapter(AdapterKind::Adapt, Level::E1).to_cell();
    let decode = |bytes: Vec<u8>| {
        let mut taken = 0;
        let result = decode_datagram(Carriage::Cells, bytes.into(), true, &mut |pdu| {
            assert!(pdu.congestion());
            taken += 1;
        });
        (result, taken)
    };
    assert_eq!(decode(cell.encode().repeat(22)), (Ok(()), 22));
    assert_eq!(
        decode(cell.encode().repeat(23)),
        (Err(DecodeError::CellDatagram(1_219)), 0)
    );
    assert_eq!(decode(vec![]), (Err(DecodeError::CellDatagram(0)), 0));
    let mut bad = cell.encode().repeat(2);
    bad[53] ^= 1;
    assert!(matches!(decode(bad), (Err(DecodeError::Cell(_)), 0)));
}

#[test]
fn lengths_and_credits_are_those_of_the_link() {
    let mets = LinkPdu::Mets(samples::packet(FrameType::BL, Payload::Zeros(1_176)));
    assert_eq!((mets.wire_len(), mets.cells()), (1_228, 25));
    let adapter = LinkPdu::Adapter(samples::adapter(AdapterKind::Res, Level::E1));
    assert_eq!((adapter.wire_len(), adapter.cells()), (68, 1));
    let cell = LinkPdu::Cell(samples::adapter(AdapterKind::Res, Level::E1).to_cell());
    assert_eq!((cell.wire_len(), cell.cells()), (53, 1));
}

#[test]
fn a_decoded_payload_shares_the_memory_of_its_datagram() {
    let mut bytes = Vec::new();
    samples::packet(FrameType::BL, Payload::Zeros(100)).encode_into(&mut bytes);
    let datagram = Bytes::from(bytes);
    let packet = MetsPacket::decode(datagram.clone(), false).unwrap();
    let Payload::Bytes(payload) = packet.payload else {
        panic!("decoded payloads are bytes");
    };
    assert_eq!(payload.as_ptr(), datagram[METS_HEADER..].as_ptr());
}
