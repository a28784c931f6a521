//! Packets that no encoder produces: counted, dropped, bounded, without a panic.

use bytes::Bytes;
use layercast_core::{Serial, Span, Stream, Time};
use layercast_fec::{Decoder, DecoderConfig, DecoderEvent, Header, HeaderError, Scheme, Shape};
use proptest::prelude::*;

fn packet(block: u32, index: u8, shape: Option<(u8, u8)>, octets: usize) -> Bytes {
    let shape = shape.map(|(n, m)| Shape {
        n,
        m,
        scheme: (m > 0).then_some(Scheme::XorShift),
    });
    let header = Header {
        block: Serial(block),
        index,
        shape,
    };
    [&header.encode()[..], &vec![0; octets]].concat().into()
}

#[test]
fn headers_that_contradict_themselves_are_refused() {
    let decode = |index, n, m, scheme| Header::decode(&[0, 0, 0, 1, index, n, m, scheme]);
    assert_eq!(Header::decode(&[0; 7]), Err(HeaderError::Short(7)));
    assert_eq!(decode(0, 5, 2, 2), Err(HeaderError::Scheme(2)));
    for (index, n, m, scheme) in [
        (7, 5, 2, 1),
        (0, 200, 56, 1),
        (0, 5, 2, 0),
        (0, 5, 0, 1),
        (0, 0, 1, 1),
        (0, 0, 0, 1),
        (255, 0, 0, 0),
    ] {
        assert_eq!(
            decode(index, n, m, scheme),
            Err(HeaderError::Shape { index, n, m })
        );
    }
    assert!(decode(254, 250, 5, 4).is_ok());
}

#[test]
fn a_block_has_the_shape_of_its_first_packet() {
    let mut decoder = Decoder::new(DecoderConfig::default());
    decoder.handle(Time::ZERO, &packet(0, 4, Some((4, 2)), 12));
    decoder.handle(Time::ZERO, &packet(0, 3, Some((3, 2)), 12));
    decoder.handle(Time::ZERO, &packet(0, 4, None, 5));
    assert_eq!(decoder.stats().conflicting, 2);
    // Longer than the unit that the parity implies.
    decoder.handle(Time::ZERO, &packet(0, 1, None, 11));
    assert_eq!(decoder.stats().malformed, 1);
    // A parity that is too short for the packets present.
    decoder.handle(Time::ZERO, &packet(1, 0, None, 50));
    decoder.handle(Time::ZERO, &packet(1, 4, Some((4, 2)), 51));
    assert_eq!(decoder.stats().malformed, 2);
}

#[test]
fn one_packet_from_nowhere_does_not_move_the_window() {
    let mut decoder = Decoder::new(DecoderConfig::default());
    decoder.handle(Time::ZERO, &packet(5, 0, None, 1));
    decoder.handle(Time::ZERO, &packet(1 << 20, 0, None, 1));
    decoder.handle(Time::ZERO, &packet(1 << 20, 0, None, 1));
    decoder.handle(Time::ZERO, &packet(9 << 20, 0, None, 1));
    assert_eq!((decoder.stats().strange, decoder.stats().restarts), (3, 0));
    decoder.handle(Time::ZERO, &packet(5, 1, None, 1));
    // A restarted sender is accepted at its second packet.
    decoder.handle(Time::ZERO, &packet(7 << 20, 0, None, 1));
    decoder.handle(Time::ZERO, &packet(7 << 20, 1, None, 1));
    assert_eq!((decoder.stats().strange, decoder.stats().restarts), (4, 1));
}

#[test]
fn memory_is_bounded_by_octets() {
    let config = DecoderConfig {
        octets: 10_000,
        ..DecoderConfig::default()
    };
    let mut decoder = Decoder::new(config);
    for block in 0..40 {
        for index in 0..3 {
            decoder.handle(Time::ZERO, &packet(block, index, None, 1_000));
        }
        decoder.handle(Time::ZERO, &packet(block, 4, Some((4, 1)), 1_002));
    }
    let gone = std::iter::from_fn(|| decoder.poll_event());
    let gone = gone
        .filter(|it| matches!(it, DecoderEvent::Unrecoverable { .. }))
        .count();
    // Every block had four of five packets and was repaired immediately.
    assert_eq!((gone, decoder.stats().recovered), (0, 40));
    for block in 40..80 {
        for index in 0..3 {
            decoder.handle(Time::ZERO, &packet(block, index, None, 1_000));
        }
        decoder.handle(Time::ZERO, &packet(block, 7, Some((5, 3)), 1_010));
    }
    // 4 008 octets per block: three do not fit.
    assert_eq!(decoder.stats().unrecoverable, 38);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The parser never panics, and what it accepts is encoded identically.
    #[test]
    fn any_octets_give_a_header_or_an_error(octets in prop::collection::vec(any::<u8>(), 0..12)) {
        if let Ok(header) = Header::decode(&octets) {
            prop_assert_eq!(&header.encode()[..], &octets[..8]);
        }
    }

    /// Thousands of packets with random and half-valid headers.
    #[test]
    fn a_decoder_survives_anything(seed: u64, wild: bool) {
        let mut stream = Stream::new(seed, "hostile");
        let config = DecoderConfig { blocks: 16, octets: 20_000, hold: Span::from_ms(50) };
        let mut decoder = Decoder::new(config);
        let mut events = 0;
        for at in 0..3_000_u64 {
            let now = Time::ZERO + Span::from_ms(at / 10);
            let mut octets: Vec<u8> = (0..stream.below(60)).map(|_| stream.below(256) as u8).collect();
            if !wild && octets.len() >= 8 {
                let n = stream.below(6) as u8;
                let m = if n == 0 { 0 } else { stream.below(4) as u8 };
                let index = stream.below(u64::from(n + m).max(1)) as u8;
                let scheme = if m == 0 { 0 } else { [1, 3, 4][stream.below(3) as usize] };
                octets[..8].copy_from_slice(&[0, 0, 0, stream.below(40) as u8, index, n, m, scheme]);
            }
            decoder.handle(now, &octets.into());
            if decoder.next_timeout().is_some_and(|it| it <= now) {
                decoder.on_timeout(now);
                prop_assert!(decoder.next_timeout().is_none_or(|it| it > now));
            }
            events += std::iter::from_fn(|| decoder.poll_event()).count();
        }
        decoder.on_timeout(Time::MAX);
        prop_assert!(decoder.next_timeout().is_none());
        prop_assert!(decoder.loss().received <= decoder.loss().expected);
        prop_assert!(wild || events > 0);
    }
}
