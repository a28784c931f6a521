use bytes::Bytes;
use layercast_core::Stream;
use layercast_fec::{BlockDecoder, BlockEncoder, Code, CodeError, MAX_PAYLOAD, Put, Scheme};
use proptest::prelude::*;

/// Payloads of lengths up to `longest`, drawn from a stream.
fn payloads(n: usize, longest: usize, stream: &mut Stream) -> Vec<Bytes> {
    let mut payload = || {
        let len = stream.below(longest as u64 + 1);
        (0..len).map(|_| stream.below(256) as u8).collect()
    };
    (0..n).map(|_| payload()).collect()
}

/// Sends the packets of a block except those in `lost` (parities from n on); returns the receiver, decoded as far as
/// possible.
fn through(code: &mut dyn Code, payloads: &[Bytes], m: usize, lost: &[usize]) -> BlockDecoder {
    let n = payloads.len();
    let mut sender = BlockEncoder::new(payloads.to_vec()).expect("payloads");
    let mut receiver = BlockDecoder::new(n);
    // Parities first and in reverse order: the order must not matter.
    for index in (0..n + m).rev().filter(|it| !lost.contains(it)) {
        let put = match index.checked_sub(n) {
            None => receiver.put_source(index, payloads[index].clone()),
            Some(j) => {
                let parity = sender.parity(code, j).expect("a parity");
                receiver.put_parity(code, j, parity)
            }
        };
        assert_ne!(put, Put::Refused);
    }
    if receiver.needed() == 0 {
        let decoded = receiver.decode(code).expect("decodes");
        assert_eq!(decoded.corrupt, 0);
    }
    receiver
}

fn assert_all(receiver: &BlockDecoder, payloads: &[Bytes], case: &str) {
    for (index, payload) in payloads.iter().enumerate() {
        assert_eq!(
            receiver.payload(index),
            Some(payload),
            "{case}, source {index}"
        );
    }
}

#[test]
fn every_pattern_of_small_blocks_decodes() {
    let mut stream = Stream::new(1, "patterns");
    for scheme in [Scheme::XorShift, Scheme::ReedSolomon] {
        let mut code = scheme.code();
        for (n, m) in [(1, 1), (1, 3), (7, 1), (6, 2), (5, 3), (4, 4), (2, 6)] {
            let sources = payloads(n, 20, &mut stream);
            for pattern in 0_u32..1 << (n + m) {
                if pattern.count_ones() as usize > m {
                    continue;
                }
                let lost: Vec<usize> = (0..n + m).filter(|it| pattern >> it & 1 == 1).collect();
                let receiver = through(&mut *code, &sources, m, &lost);
                assert_all(
                    &receiver,
                    &sources,
                    &format!("{scheme:?} {n}+{m} without {lost:?}"),
                );
            }
        }
    }
}

#[test]
fn three_thousand_random_patterns_peel() {
    let mut stream = Stream::new(2, "patterns");
    let mut code = Scheme::XorShift.code();
    for round in 0..3_000 {
        let (n, m) = [(10, 3), (10, 4), (6, 5), (8, 4), (20, 4), (3, 12)][round % 6];
        let sources = payloads(n, 40, &mut stream);
        let mut order: Vec<usize> = (0..n + m).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, stream.below(at as u64 + 1) as usize);
        }
        let lost = &order[..stream.below(m as u64 + 1) as usize];
        let receiver = through(&mut *code, &sources, m, lost);
        assert_all(&receiver, &sources, &format!("{n}+{m} without {lost:?}"));
    }
}

/// The definition itself, octet by octet (specs/packet-level-fec.md 2.1).
#[test]
fn parities_are_those_of_the_formula() {
    let mut stream = Stream::new(3, "formula");
    let sources = payloads(9, 30, &mut stream);
    let longest = sources.iter().map(Bytes::len).max().expect("sources");
    let unit = |i: usize| {
        let mut unit = (sources[i].len() as u16).to_be_bytes().to_vec();
        unit.extend_from_slice(&sources[i]);
        unit.resize(longest + 2, 0);
        unit
    };
    let mut sender = BlockEncoder::new(sources.clone()).expect("payloads");
    let mut code = Scheme::XorShift.code();
    for j in 0..4 {
        let parity = sender.parity(&mut *code, j).expect("a parity");
        assert_eq!(parity.len(), longest + 2 + 8 * j);
        for at in 0..parity.len() {
            let octet = |i: usize| {
                at.checked_sub(i * j)
                    .and_then(|at| unit(i).get(at).copied())
            };
            let sum = (0..9).filter_map(octet).fold(0, |sum, octet| sum ^ octet);
            assert_eq!(parity[at], sum, "parity {j}, octet {at}");
        }
    }
}

#[test]
fn a_hundred_fresh_parities_repair_a_hundred_sources() {
    let mut stream = Stream::new(4, "fresh");
    for scheme in Scheme::ALL {
        let mut code = scheme.code();
        let sources = payloads(100, 60, &mut stream);
        let mut sender = BlockEncoder::new(sources.clone()).expect("payloads");
        let mut receiver = BlockDecoder::new(100);
        let mut next = 37;
        while !receiver.is_complete() {
            for _ in 0..receiver.needed() {
                let parity = sender.parity(&mut *code, next).expect("a parity");
                // A much later request returns the same parity.
                assert_eq!(sender.parity(&mut *code, 3), sender.parity(&mut *code, 3));
                assert_eq!(sender.parity(&mut *code, next).as_ref(), Ok(&parity));
                assert_eq!(receiver.put_parity(&*code, next, parity), Put::New);
                next += 1;
            }
            assert!(next < 37 + 104, "{scheme:?} needs too many");
            match receiver.decode(&mut *code) {
                Ok(decoded) => assert_eq!(decoded.recovered.len(), 100),
                Err(error) => assert!(matches!(error, CodeError::TooFew { .. }), "{error}"),
            }
        }
        assert_all(&receiver, &sources, &format!("{scheme:?}"));
    }
}

#[test]
fn too_few_packets_and_impossible_blocks_are_reported() {
    for scheme in Scheme::ALL {
        let mut code = scheme.code();
        let mut receiver = BlockDecoder::new(3);
        assert_eq!(receiver.put_source(0, Bytes::from_static(b"a")), Put::New);
        assert_eq!(receiver.put_source(0, Bytes::from_static(b"b")), Put::Known);
        assert_eq!(
            receiver.put_source(3, Bytes::from_static(b"c")),
            Put::Refused
        );
        let decoded = receiver.decode(&mut *code);
        assert_eq!(decoded, Err(CodeError::TooFew { have: 1, needed: 3 }));
        assert_eq!(receiver.needed(), 2);
        let long = Bytes::from(vec![0; MAX_PAYLOAD + 1]);
        assert_eq!(receiver.put_source(1, long.clone()), Put::Refused);
        let octets = MAX_PAYLOAD + 1;
        assert_eq!(
            BlockEncoder::new(vec![long]).err(),
            Some(CodeError::Payload { octets })
        );
        let none = code.encode(&[], 0..1, &mut |_| ());
        assert!(
            matches!(none, Err(CodeError::Sources { n: 0, .. })),
            "{none:?}"
        );
        let one = [Bytes::from_static(b"a")];
        let most = scheme.most_parities(1);
        let beyond = code.encode(&one, most..most + 1, &mut |_| ());
        assert!(
            matches!(beyond, Err(CodeError::Parity { .. })),
            "{beyond:?}"
        );
        assert_eq!(Scheme::from_number(scheme.number()), Some(scheme));
    }
    assert_eq!([0, 2, 5, 255].map(Scheme::from_number), [None; 4]);
}

#[test]
fn contradictory_packets_are_refused() {
    let code = Scheme::XorShift.code();
    let mut receiver = BlockDecoder::new(4);
    receiver.put_source(0, vec![1; 10].into());
    // Parity 2 of four is six octets longer than a unit, which has at least twelve.
    assert_eq!(
        receiver.put_parity(&*code, 2, vec![0; 17].into()),
        Put::Refused
    );
    assert_eq!(
        receiver.put_parity(&*code, 2, vec![0; 3].into()),
        Put::Refused
    );
    assert_eq!(receiver.put_parity(&*code, 2, vec![0; 20].into()), Put::New);
    assert_eq!(
        receiver.put_parity(&*code, 2, vec![0; 20].into()),
        Put::Known
    );
    assert_eq!(
        receiver.put_parity(&*code, 1, vec![0; 18].into()),
        Put::Refused
    );
    assert_eq!(receiver.put_source(1, vec![1; 13].into()), Put::Refused);
    assert_eq!(receiver.put_source(1, vec![1; 12].into()), Put::New);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_loss_that_leaves_enough_is_repaired(
        scheme in prop::sample::select(Scheme::ALL.to_vec()),
        seed: u64, n in 1_usize..40, m in 0_usize..12, longest in 0_usize..300,
    ) {
        let mut stream = Stream::new(seed, "any");
        let sources = payloads(n, longest, &mut stream);
        let mut order: Vec<usize> = (0..n + m).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, stream.below(at as u64 + 1) as usize);
        }
        // RaptorQ may need two further packets.
        let spare = if scheme == Scheme::RaptorQ { 2 } else { 0 };
        let lost = &order[..stream.below((m.saturating_sub(spare) + 1) as u64) as usize];
        let receiver = through(&mut *scheme.code(), &sources, m, lost);
        for (index, payload) in sources.iter().enumerate() {
            prop_assert_eq!(receiver.payload(index), Some(payload));
        }
    }

    #[test]
    fn garbage_neither_panics_nor_decodes(
        scheme in prop::sample::select(Scheme::ALL.to_vec()),
        seed: u64, n in 1_usize..12, packets in prop::collection::vec((any::<u8>(), 0_usize..40), 0..40),
    ) {
        let mut stream = Stream::new(seed, "garbage");
        let mut code = scheme.code();
        let mut receiver = BlockDecoder::new(n);
        for (index, len) in packets {
            let octets: Bytes = (0..len).map(|_| stream.below(256) as u8).collect();
            let index = usize::from(index);
            if index < n {
                receiver.put_source(index, octets);
            } else {
                receiver.put_parity(&*code, index - n, octets);
            }
            if receiver.needed() == 0 {
                let before: Vec<usize> = receiver.missing().collect();
                if let Ok(decoded) = receiver.decode(&mut *code) {
                    prop_assert!(decoded.recovered.is_empty() || decoded.recovered == before);
                    prop_assert!(decoded.recovered.is_empty() || decoded.corrupt == 0);
                }
            }
        }
    }
}
