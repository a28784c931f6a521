use layercast_core::{Layer, Serial};
use layercast_repair::{
    Arrival, Beacon, CONTENT_HEAD, Feedback, Head, HeadError, MAX_ARRIVALS, MAX_HEAD, MAX_PARTS,
    MAX_RANGES, Missing, PARITY_HEAD, PART_HEAD, Parity, SHARED_HEAD, SPREAD, expand,
};
use proptest::prelude::*;

fn layer() -> impl Strategy<Value = Layer> {
    (0..3_usize).prop_map(|index| Layer::ALL[index])
}

fn feedback() -> impl Strategy<Value = Feedback> {
    let gaps = prop::collection::vec((0..200_u16, 1..100_u16, any::<bool>()), 0..=MAX_RANGES);
    let arrivals = prop::collection::vec((any::<u16>(), 0..1_u32 << 24), 0..=MAX_ARRIVALS);
    let fixed = (any::<u16>(), any::<u32>(), any::<u32>(), any::<u32>());
    let budget = prop::option::of(0..u16::MAX);
    (fixed, budget, gaps, arrivals, 0..100_u16).prop_map(
        |((session, tx, hi, window_us), budget_ms, gaps, arrivals, more)| {
            // From the newest gap backwards.
            let mut back = 0_u16;
            let mut missing = Vec::new();
            for (apart, len, requested) in gaps {
                back += apart + len;
                missing.push(Missing {
                    back: back - 1,
                    len,
                    requested,
                });
            }
            missing.reverse();
            Feedback {
                session,
                tx_us: Serial(tx),
                hi: Serial(hi),
                known: back + more,
                window_us,
                budget_ms,
                next_ms: window_us as u8,
                missing,
                arrivals: arrivals
                    .into_iter()
                    .map(|(back, ago_us)| Arrival { back, ago_us })
                    .collect(),
            }
        },
    )
}

fn parity() -> impl Strategy<Value = Parity> {
    let numbers = (1..=u16::MAX, 0..u8::MAX, any::<u8>());
    let counters = (any::<u16>(), any::<u32>(), any::<u8>());
    let contents = any::<u128>().prop_map(|mask| mask >> (128 - SPREAD) | 1);
    (counters, layer(), numbers, contents).prop_map(
        |((session, counter, parities), layer, (back, index, until), contents)| Parity {
            session,
            counter: Serial(counter),
            layer,
            parities,
            back,
            index,
            until: until.max(index + 1),
            contents,
        },
    )
}

fn head() -> impl Strategy<Value = Head> {
    prop_oneof![
        (any::<u16>(), any::<u32>(), layer()).prop_map(|(session, counter, layer)| Head::Data {
            session,
            counter: Serial(counter),
            layer,
        }),
        (any::<u8>(), 0..1_u32 << 24, layer(), 1..=u16::MAX).prop_map(
            |(session, counter, layer, back)| Head::Repair {
                session,
                counter,
                layer,
                back,
            }
        ),
        (any::<(u16, u32, u8, bool)>(), 0..1_u32 << 24).prop_map(
            |((session, hi, every_ms, asks), rtt_us)| Head::Marker {
                session,
                hi: Serial(hi),
                every_ms,
                rtt_us,
                asks,
            }
        ),
        feedback().prop_map(Head::Feedback),
        (any::<(u16, u16)>(), 2..=MAX_PARTS).prop_map(|((session, number), count)| Head::Part {
            session,
            number,
            index: (number % u16::from(count)) as u8,
            count,
        }),
        (any::<u16>(), any::<u32>(), layer(), any::<u8>()).prop_map(
            |(session, counter, layer, parities)| Head::Shared {
                session,
                counter: Serial(counter),
                layer,
                parities,
            }
        ),
        parity().prop_map(Head::Parity),
        (any::<(u16, u32, u8, u32)>(), 1..=u16::MAX, 1..=u8::MAX).prop_map(
            |((session, hi, parities, rtt_us), members, deficit)| Head::Beacon(Beacon {
                session,
                hi: Serial(hi),
                parities,
                members,
                deficit,
                rtt_us,
            })
        ),
    ]
}

proptest! {
    #[test]
    fn what_is_encoded_decodes(head in head(), content in prop::collection::vec(any::<u8>(), 0..50)) {
        let most = match head {
            Head::Data { .. } | Head::Repair { .. } => CONTENT_HEAD,
            Head::Part { .. } => PART_HEAD,
            Head::Shared { .. } => SHARED_HEAD,
            Head::Parity(_) => PARITY_HEAD,
            _ => MAX_HEAD,
        };
        let carries = most < MAX_HEAD;
        let mut bytes = Vec::new();
        head.encode_into(&mut bytes);
        prop_assert_eq!(bytes.len(), head.encoded_len());
        prop_assert!(bytes.len() <= most);
        for len in 0..bytes.len() {
            prop_assert!(Head::decode(&bytes[..len]).is_err(), "cut at {}", len);
        }
        let len = bytes.len();
        bytes.extend_from_slice(&content);
        match Head::decode(&bytes) {
            Ok((decoded, rest)) => {
                prop_assert_eq!(decoded, head);
                prop_assert_eq!(rest, &bytes[len..]);
                prop_assert!(carries || content.is_empty());
            }
            Err(error) => prop_assert!(!carries && error == HeadError::Trailing(content.len())),
        }
    }

    /// Any octets give a header that encodes to the same octets, or an error.
    #[test]
    fn any_octets_decode_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0_u8..8) {
        if let Some(first) = bytes.first_mut() {
            *first = 0xE0 | kind << 2 | *first & 1;
        }
        if let Ok((head, rest)) = Head::decode(&bytes) {
            let mut again = Vec::new();
            head.encode_into(&mut again);
            again.extend_from_slice(rest);
            prop_assert_eq!(again, bytes);
        }
    }

    #[test]
    fn counters_survive_the_wrap(near in 0..u64::from(u32::MAX) * 3, ahead in -(1_i64 << 31) + 1..1_i64 << 31) {
        match near.checked_add_signed(ahead) {
            Some(counter) => prop_assert_eq!(expand(Serial(counter as u32), near), Some(counter)),
            None => prop_assert_eq!(expand(Serial(near.wrapping_add_signed(ahead) as u32), near), None),
        }
    }
}

#[test]
fn a_feedback_that_contradicts_itself_is_refused() {
    let range = |back, len| Missing {
        back,
        len,
        requested: true,
    };
    let bytes = |known, missing| {
        let feedback = Feedback {
            session: 1,
            tx_us: Serial(0),
            hi: Serial(100),
            known,
            window_us: 0,
            budget_ms: None,
            next_ms: 15,
            missing,
            arrivals: Vec::new(),
        };
        let mut out = Vec::new();
        Head::Feedback(feedback).encode_into(&mut out);
        out
    };
    let refused = Err(HeadError::Field("range"));
    let decode = |bytes: &[u8]| Head::decode(bytes).map(|_| ());
    assert_eq!(decode(&bytes(10, vec![range(9, 10)])), Ok(()));
    assert_eq!(
        decode(&bytes(10, vec![range(10, 1)])),
        refused,
        "below what is known"
    );
    assert_eq!(
        decode(&bytes(10, vec![range(3, 5)])),
        refused,
        "beyond the newest"
    );
    assert_eq!(
        decode(&bytes(10, vec![range(5, 2), range(5, 1)])),
        refused,
        "overlap"
    );
    assert_eq!(
        decode(&bytes(10, vec![range(3, 1), range(5, 1)])),
        refused,
        "order"
    );
}
