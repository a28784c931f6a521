use layercast_core::{Span, Stream, Time};
use proptest::prelude::*;

use super::*;

/// RTP packets of a transport stream; `lens`: numbers of TS packets in them, in turn.
fn media(count: usize, first: u16, lens: &[usize]) -> Vec<Vec<u8>> {
    let mut random = Stream::new(3, "media");
    let packet = |number: usize| {
        let mut packet = vec![0x80, 33];
        packet.extend_from_slice(&first.wrapping_add(number as u16).to_be_bytes());
        packet.extend_from_slice(&(number as u32 * 3_000).to_be_bytes());
        packet.extend_from_slice(&77_u32.to_be_bytes());
        for _ in 0..lens[number % lens.len()] {
            packet.push(0x47);
            packet.extend((1..188).map(|_| random.below(256) as u8));
        }
        packet
    };
    (0..count).map(packet).collect()
}

/// A datagram on one of the three ports.
#[derive(Clone, Debug)]
enum Sent {
    Media(Vec<u8>),
    Parity(SmptePacket),
}

fn protect(config: SmpteConfig, media: &[Vec<u8>]) -> Vec<Sent> {
    let mut sender = SmpteSender::new(config, 9).expect("a block");
    let mut sent = Vec::new();
    for packet in media {
        sent.push(Sent::Media(packet.clone()));
        sender.push(packet);
        sent.extend(std::iter::from_fn(|| sender.poll()).map(Sent::Parity));
    }
    sender.finish();
    sent.extend(std::iter::from_fn(|| sender.poll()).map(Sent::Parity));
    sent
}

fn receive(sent: &[Sent]) -> (Vec<Vec<u8>>, SmpteReceiverStats) {
    let mut receiver = SmpteReceiver::new(SmpteReceiverConfig::default());
    let mut out = Vec::new();
    for (number, datagram) in sent.iter().enumerate() {
        let now = Time::ZERO + Span::from_us(number as u64 * 100);
        match datagram {
            Sent::Media(packet) => {
                if !receiver.on_media(now, packet) {
                    out.push(packet.clone());
                }
            }
            Sent::Parity(packet) => receiver.on_parity(now, &packet.octets).expect("a parity"),
        }
        while let Some(packet) = receiver.poll(now) {
            out.push(packet.to_vec());
        }
    }
    receiver.finish();
    while let Some(packet) = receiver.poll(Time::ZERO) {
        out.push(packet.to_vec());
    }
    (out, receiver.stats())
}

/// Loses media packets by their place.
fn lose(sent: &[Sent], lost: impl Fn(usize) -> bool) -> Vec<Sent> {
    let mut at = 0;
    let keep = |datagram: &&Sent| match datagram {
        Sent::Media(_) => {
            at += 1;
            !lost(at - 1)
        }
        Sent::Parity(_) => true,
    };
    sent.iter().filter(keep).cloned().collect()
}

const CONFIGS: [SmpteConfig; 4] = [
    SmpteConfig {
        columns: 5,
        rows: 5,
        with_rows: true,
    },
    SmpteConfig {
        columns: 10,
        rows: 4,
        with_rows: false,
    },
    SmpteConfig {
        columns: 1,
        rows: 4,
        with_rows: false,
    },
    SmpteConfig {
        columns: 20,
        rows: 20,
        with_rows: true,
    },
];

#[test]
fn parities_cost_what_the_block_says_and_media_are_the_same() {
    for config in CONFIGS {
        let (columns, rows) = (usize::from(config.columns), usize::from(config.rows));
        let media = media(3 * columns * rows, 65_500, &[7]);
        let sent = protect(config, &media);
        let parities = sent.len() - media.len();
        let of_rows = if config.with_rows { 3 * rows } else { 0 };
        assert_eq!(parities, 3 * columns + of_rows);
        let (found, stats) = receive(&sent);
        assert!(found == media);
        assert_eq!((stats.recovered, stats.lost, stats.dropped), (0, 0, 0));
    }
}

#[test]
fn octets_of_a_parity_packet_are_those_of_the_standard() {
    let config = CONFIGS[0];
    let media = media(50, 100, &[7]);
    let sent = protect(config, &media);
    let parities: Vec<&SmptePacket> = sent
        .iter()
        .filter_map(|it| match it {
            Sent::Parity(packet) => Some(packet),
            Sent::Media(_) => None,
        })
        .collect();
    // The first row: V = 2, payload type 96, SSRC 0; base 100, length 7 x 188 five times, E = 1, D = 1, offset 1, NA 5.
    let row = &parities[0].octets;
    assert_eq!((row[0], row[1]), (0x80, 96));
    assert_eq!(row[8..12], [0; 4]);
    let len = (7_u16 * 188).to_be_bytes();
    assert_eq!(row[12..20], [0, 100, len[0], len[1], 0x80 | 33, 0, 0, 0]);
    let stamps = (0..5).fold(0, |sum, it| sum ^ (it * 3_000_u32));
    assert_eq!(row[20..24], stamps.to_be_bytes());
    assert_eq!(row[24..28], [0x40, 1, 5, 0]);
    assert_eq!(row.len(), 28 + 7 * 188);
    // The first column: D = 0, offset 5, NA 5.
    let column = parities.iter().find(|it| it.stream == SmpteStream::Columns);
    let column = &column.expect("a column").octets;
    assert_eq!(column[12..14], [0, 100]);
    assert_eq!(column[24..28], [0, 5, 5, 0]);
}

#[test]
fn bursts_of_a_row_come_back_at_every_place() {
    for config in CONFIGS {
        let (columns, rows) = (usize::from(config.columns), usize::from(config.rows));
        let media = media(4 * columns * rows, 65_000, &[7, 7, 3, 7, 1]);
        let sent = protect(config, &media);
        let block = columns * rows;
        // Parities came before, so that nothing passes by.
        for at in 2 * block..3 * block - columns {
            let found = receive(&lose(&sent, |it| (at..at + columns).contains(&it)));
            assert!(found.0 == media, "{config:?} at {at}");
            assert_eq!((found.1.recovered, found.1.lost), (columns as u64, 0));
        }
    }
}

#[test]
fn rows_and_columns_help_each_other() {
    let config = CONFIGS[0];
    let media = media(150, 7, &[7]);
    let sent = protect(config, &media);
    // Two of a row and two of a column, which share a packet: neither alone recovers it.
    let lost = [50, 51, 55];
    let found = receive(&lose(&sent, |it| lost.contains(&it)));
    assert!(found.0 == media);
    // Four corners of a rectangle do not come back, and all others do.
    let lost = [50, 52, 60, 62];
    let (found, stats) = receive(&lose(&sent, |it| lost.contains(&it)));
    assert_eq!((found.len(), stats.lost), (146, 4));
    let one = [50, 52, 60];
    assert!(receive(&lose(&sent, |it| one.contains(&it))).0 == media);
}

#[test]
fn extension_padding_and_sources_come_back_too() {
    let config = CONFIGS[0];
    let mut media = media(100, 7, &[2]);
    for packet in &mut media {
        // X, two sources, an extension of one word, two octets of padding; other payload type, and the marker.
        packet[0] = 0x80 | 0x20 | 0x10 | 2;
        packet[1] = 0x80 | 96;
        packet.extend_from_slice(&[0, 2]);
    }
    let sent = protect(config, &media);
    let found = receive(&lose(&sent, |it| (60..64).contains(&it)));
    assert!(found.0 == media);
}

#[test]
fn without_parities_media_pass_by_and_after_them_too() {
    let media = media(2_000, 60_000, &[7]);
    let mut sent = protect(CONFIGS[0], &media[..100]);
    sent.extend(media[100..].iter().cloned().map(Sent::Media));
    let all: Vec<Sent> = media.iter().cloned().map(Sent::Media).collect();
    assert!(receive(&all).0 == media);
    let without = lose(&sent, |it| it == 1_000);
    let (found, stats) = receive(&without);
    assert_eq!((found.len(), stats.recovered), (1_999, 0));
}

#[test]
fn packets_out_of_order_are_put_in_order_and_duplicates_go() {
    let media = media(200, 9, &[7]);
    let mut sent = protect(CONFIGS[0], &media);
    let at = sent.len() / 2;
    let places: Vec<usize> = (at..sent.len())
        .filter(|&it| matches!(sent[it], Sent::Media(_)))
        .collect();
    sent.swap(places[0], places[3]);
    let again = sent[places[1]].clone();
    sent.insert(places[2], again);
    let (found, stats) = receive(&sent);
    assert!(found == media);
    assert_eq!((stats.dropped, stats.lost), (1, 0));
}

#[test]
fn nothing_is_missing_before_the_first_packet() {
    let mut receiver = SmpteReceiver::new(SmpteReceiverConfig::default());
    assert_eq!(receiver.poll(Time::ZERO), None);
    assert_eq!(receiver.next_timeout(), None);
    assert_eq!(receiver.stats(), SmpteReceiverStats::default());
}

#[test]
fn a_missing_packet_is_given_up_in_time() {
    let media = media(300, 9, &[7]);
    let config = SmpteReceiverConfig {
        max_hold: Span::from_ms(80),
        steady: false,
    };
    let mut receiver = SmpteReceiver::new(config);
    let sent = protect(CONFIGS[1], &media);
    // A whole block is missing but for its last packet: nothing brings it back.
    let mut now = Time::ZERO;
    let mut out = 0;
    for datagram in lose(&sent, |it| (160..190).contains(&it)) {
        now += Span::from_ms(1);
        match datagram {
            Sent::Media(packet) => out += usize::from(!receiver.on_media(now, &packet)),
            Sent::Parity(packet) => receiver.on_parity(now, &packet.octets).expect("a parity"),
        }
        out += std::iter::from_fn(|| receiver.poll(now).map(|_| ())).count();
        if let Some(due) = receiver.next_timeout() {
            assert!(
                due > now && due <= now + Span::from_ms(80),
                "{due:?} at {now:?}"
            );
        }
    }
    assert_eq!((out, receiver.stats().lost), (270, 30));
}

#[test]
fn the_delay_is_steady_if_that_is_wanted() {
    let media = media(600, 9, &[7]);
    let mut receiver = SmpteReceiver::new(SmpteReceiverConfig {
        steady: true,
        ..SmpteReceiverConfig::default()
    });
    let mut delays = Vec::new();
    let sent = protect(CONFIGS[0], &media);
    let mut came = std::collections::HashMap::new();
    let mut now = Time::ZERO;
    let mut number = 0;
    for datagram in lose(&sent, |it| it > 300 && it % 9 == 0) {
        match datagram {
            Sent::Media(packet) => {
                now = Time::ZERO
                    + Span::from_ms(u64::from(u16::from_be_bytes([packet[2], packet[3]])));
                came.insert(packet.clone(), now);
                receiver.on_media(now, &packet);
                number += 1;
            }
            Sent::Parity(packet) => receiver.on_parity(now, &packet.octets).expect("a parity"),
        }
        while let Some(packet) = receiver.poll(now) {
            let sent_at = came.get(packet).copied();
            if number > 200 {
                delays.extend(sent_at.map(|at| now.since(at)));
            }
        }
    }
    let (least, most) = (delays.iter().min(), delays.iter().max());
    assert!(delays.len() > 200);
    let spread = most.expect("some").as_ms() - least.expect("some").as_ms();
    // Packets are 1 ms apart, and two blocks take 50.
    assert!(spread <= 2, "{least:?} to {most:?}");
    assert!((49..=52).contains(&most.expect("some").as_ms()), "{most:?}");
    assert_eq!(receiver.stats().lost, 0);
}

#[test]
fn a_packet_that_comes_behind_its_parity_was_not_lost() {
    let media = media(400, 9, &[7]);
    // Of each run of parities and the packet before it, the packet is the last.
    let mut sent = protect(CONFIGS[0], &media);
    for at in 1..sent.len() {
        if matches!(
            (&sent[at - 1], &sent[at]),
            (Sent::Media(_), Sent::Parity(_))
        ) {
            sent.swap(at - 1, at);
        }
    }
    let mut receiver = SmpteReceiver::new(SmpteReceiverConfig {
        steady: true,
        ..SmpteReceiverConfig::default()
    });
    let mut out = Vec::new();
    let (mut lost, mut before) = (0, SmpteReceiverStats::default());
    for (number, datagram) in sent.iter().enumerate() {
        if number == 150 {
            // Until the delay is known, packets leave when they can.
            before = receiver.stats();
        }
        let now = Time::ZERO + Span::from_ms(number as u64);
        match datagram {
            // Some are lost besides, once all wait.
            Sent::Media(_) if number > 300 && number % 40 == 0 => lost += 1,
            Sent::Media(packet) if !receiver.on_media(now, packet) => out.push(packet.clone()),
            Sent::Media(_) => {}
            Sent::Parity(packet) => receiver.on_parity(now, &packet.octets).expect("a parity"),
        }
        out.extend(std::iter::from_fn(|| {
            receiver.poll(now).map(<[u8]>::to_vec)
        }));
    }
    receiver.finish();
    out.extend(std::iter::from_fn(|| {
        receiver.poll(Time::ZERO).map(<[u8]>::to_vec)
    }));
    let stats = receiver.stats();
    assert!(lost > 2 && out == media, "{lost} {stats:?}");
    assert_eq!(stats.recovered - before.recovered, lost, "{stats:?}");
    assert_eq!(
        (stats.lost, stats.dropped - before.dropped),
        (0, 0),
        "{stats:?}"
    );
}

#[test]
fn a_new_source_and_a_new_sequence_begin_again() {
    let first = media(200, 9, &[7]);
    let mut second = media(200, 40_000, &[7]);
    for same in [true, false] {
        if !same {
            second.iter_mut().for_each(|packet| packet[8] = 0xEE);
        }
        let mut sent = protect(CONFIGS[0], &first);
        sent.extend(protect(CONFIGS[0], &second));
        let (found, stats) = receive(&lose(&sent, |it| it == 150 || it == 350));
        assert_eq!(stats.restarts, 1);
        assert_eq!((stats.recovered, stats.lost), (2, 0));
        assert!(found.len() >= 398, "{}", found.len());
        assert!(found.ends_with(&second[10..]));
    }
}

#[test]
fn datagrams_that_are_no_parities_are_counted_with_a_reason() {
    let mut receiver = SmpteReceiver::new(SmpteReceiverConfig::default());
    let media = media(1, 9, &[7]);
    receiver.on_media(Time::ZERO, &media[0]);
    let mut refused = |packet: &[u8]| receiver.on_parity(Time::ZERO, packet).expect_err("refused");
    assert_eq!(refused(&[]), SmpteHeaderError::NoRtp(0));
    assert_eq!(refused(&[0x80, 96, 0, 0]), SmpteHeaderError::NoRtp(4));
    assert_eq!(refused(&[0x40; 60]), SmpteHeaderError::NoRtp(60));
    let mut short = vec![0x80, 96];
    short.resize(27, 0);
    assert_eq!(refused(&short), SmpteHeaderError::Short(27));
    let mut packet = short.clone();
    packet.resize(28, 0);
    assert_eq!(
        refused(&packet),
        SmpteHeaderError::Nothing {
            offset: 0,
            count: 0
        }
    );
    packet[24] = 3 << 3;
    assert_eq!(refused(&packet), SmpteHeaderError::Type(3));
    assert_eq!(receiver.stats().malformed, 6);
    packet[24..27].copy_from_slice(&[0, 255, 255]);
    assert_eq!(receiver.on_parity(Time::ZERO, &packet), Ok(()));
    assert_eq!(receiver.stats().malformed, 7);
    assert!(!receiver.is_active());
}

#[test]
fn blocks_that_cannot_be_are_refused() {
    let refused = |columns, rows, with_rows| {
        let config = SmpteConfig {
            columns,
            rows,
            with_rows,
        };
        SmpteSender::new(config, 0)
            .map(|_| ())
            .expect_err("refused")
    };
    for (columns, rows) in [(0, 5), (21, 5), (5, 3), (5, 21)] {
        assert_eq!(
            refused(columns, rows, false),
            SmpteConfigError::Size { columns, rows }
        );
    }
    assert_eq!(refused(3, 5, true), SmpteConfigError::Rows(3));
}

proptest! {
    /// Whatever is lost, the output is packets that were sent, in order, and each once.
    #[test]
    fn what_comes_out_was_sent(
        config in 0..CONFIGS.len() - 1,
        seed in any::<u64>(),
        rate in 0.0..0.4_f64,
        first in any::<u16>(),
    ) {
        let media = media(400, first, &[7, 2, 7]);
        let sent = protect(CONFIGS[config], &media);
        let mut random = Stream::new(seed, "losses");
        let kept: Vec<Sent> = sent.into_iter().filter(|_| !random.chance(rate)).collect();
        let came = kept.iter().filter(|it| matches!(it, Sent::Media(_))).count();
        let (found, stats) = receive(&kept);
        let mut rest = media.iter();
        for packet in &found {
            prop_assert!(rest.any(|it| it == packet));
        }
        prop_assert_eq!(found.len() as u64, came as u64 + stats.recovered - stats.dropped, "{:?}", stats);
        prop_assert_eq!((stats.bad, stats.restarts), (0, 0));
    }

    #[test]
    fn any_datagrams_are_safe(
        datagrams in prop::collection::vec((0..3_u8, prop::collection::vec(any::<u8>(), 0..60)), 0..60),
    ) {
        let mut receiver = SmpteReceiver::new(SmpteReceiverConfig::default());
        for (number, (port, mut octets)) in datagrams.into_iter().enumerate() {
            let now = Time::ZERO + Span::from_ms(number as u64);
            if octets.len() > 12 {
                octets[0] = 0x80 | octets[0] & 0x3F;
                octets[1] &= 0x7F;
                octets[2] = 0;
                octets[8..12].fill(0);
            }
            if port == 0 {
                receiver.on_media(now, &octets);
            } else {
                let _ = receiver.on_parity(now, &octets);
            }
            while receiver.poll(now).is_some() {}
        }
    }
}
