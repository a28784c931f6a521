//! Random chains over random ADUs: one loop for each stage, one fused loop and strips give the same octets, what is sent is
//! received, and hostile octets give an error.

use layercast_ilp::adu::{Adu, Bounded, Sink, Source, nested};
use layercast_ilp::stages::LIBRARY;
use layercast_ilp::{
    Chain, ChainError, Channel, Executor, IlpError, Keys, Verified, recv_adu, send_adu,
};
use proptest::prelude::*;

const EXECUTORS: [Executor; 4] = [
    Executor::Sequential,
    Executor::Ilp,
    Executor::Strip(64),
    Executor::Strip(1_000),
];

/// A list of lists, as hostile as XDR has them.
#[derive(Clone, PartialEq, Debug)]
struct Record {
    number: u64,
    name: String,
    parts: Vec<Part>,
    next: Option<Box<Record>>,
}

#[derive(Clone, PartialEq, Debug)]
enum Part {
    Octets(Vec<u8>),
    Position([u8; 3]),
}

impl Adu for Part {
    const MIN: usize = 8;

    fn encode<S: Sink>(&self, to: &mut S) -> Result<(), IlpError> {
        match self {
            Part::Octets(octets) => {
                to.word(0)?;
                octets.encode_within(2_000, to)
            }
            Part::Position(octets) => {
                to.word(1)?;
                octets.encode(to)
            }
        }
    }
    fn decode<S: Source>(from: &mut S) -> Result<Part, IlpError> {
        match from.word()? {
            0 => Vec::decode_within(2_000, from).map(Part::Octets),
            1 => Adu::decode(from).map(Part::Position),
            other => Err(IlpError::UnknownAdu(other)),
        }
    }
}

impl Adu for Record {
    const MIN: usize = 20;

    fn encode<S: Sink>(&self, to: &mut S) -> Result<(), IlpError> {
        self.number.encode(to)?;
        self.name.encode_within(40, to)?;
        self.parts.encode_within(1 << 30, to)?;
        self.next.encode(to)
    }
    fn decode<S: Source>(from: &mut S) -> Result<Record, IlpError> {
        nested(from, |from| {
            Ok(Record {
                number: Adu::decode(from)?,
                name: Bounded::decode_within(40, from)?,
                parts: Bounded::decode_within(1 << 30, from)?,
                next: Adu::decode(from)?,
            })
        })
    }
}

fn record() -> impl Strategy<Value = Record> {
    let part = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..90).prop_map(Part::Octets),
        any::<[u8; 3]>().prop_map(Part::Position),
    ];
    let leaf = (
        any::<u64>(),
        "[a-zé]{0,12}",
        prop::collection::vec(part, 0..4),
    )
        .prop_map(|(number, name, parts)| Record {
            number,
            name,
            parts,
            next: None,
        });
    prop::collection::vec(leaf, 1..4).prop_map(|records| {
        let chained = records.into_iter().reduce(|next, mut record| {
            record.next = Some(Box::new(next));
            record
        });
        chained.expect("one at least")
    })
}

fn names() -> impl Strategy<Value = Vec<&'static str>> {
    let name = (0..LIBRARY.len()).prop_map(|at| LIBRARY[at].shape.name);
    prop::collection::vec(name, 1..=5)
}

fn keys() -> Keys {
    Keys {
        key: std::array::from_fn(|at| 3 * at as u8),
        nonce: [7; 12],
    }
}

fn channel(names: &[&str], executor: Executor) -> Channel<Chain> {
    let chain = Chain::of_names(names.iter().copied(), &keys()).expect("a chain");
    Channel::new(chain, executor)
}

fn sent(names: &[&str], executor: Executor, adu: u64, record: &Record) -> Vec<u8> {
    let mut out = vec![0; 20_000];
    let mut channel = channel(names, executor);
    channel.seek(adu);
    let len = send_adu(&mut channel, record, &mut out).expect("there is room");
    out.truncate(len);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(10_000) })]

    #[test]
    fn executors_agree_and_what_is_sent_is_received(names in names(), record in record(), adu in any::<u32>()) {
        let adu = u64::from(adu);
        let wire = sent(&names, Executor::Sequential, adu, &record);
        for executor in EXECUTORS {
            prop_assert_eq!(&sent(&names, executor, adu, &record), &wire);
            let mut channel = channel(&names, executor);
            channel.seek(adu);
            let received: Verified<Record> = recv_adu(&mut channel, &wire).expect("it was sent");
            prop_assert_eq!(&*received, &record);
            // Too little room for it, whatever is missing.
            let mut short = vec![0; wire.len() - 1];
            channel.seek(adu);
            let refused = send_adu(&mut channel, &record, &mut short);
            let is_short = matches!(refused, Err(IlpError::NoRoom { .. }));
            prop_assert!(is_short, "{refused:?}");
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn hostile_octets_give_one_error_in_all_executors(
        names in names(),
        record in record(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 0..3),
        cut in 0..40_usize,
        more in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut wire = sent(&names, Executor::Ilp, 0, &record);
        let whole = wire.clone();
        for (at, bit) in flips {
            let at = at.index(wire.len());
            wire[at] ^= 1 << bit;
        }
        wire.truncate(wire.len().saturating_sub(cut));
        wire.extend(more);
        let outcomes = EXECUTORS.map(|executor| {
            let mut channel = channel(&names, executor);
            let mut outcome = None;
            let used = allocation_counter::measure(|| {
                outcome = Some(recv_adu::<_, Record>(&mut channel, &wire));
            });
            // A part of 8 octets takes 32 in memory, and a vector of them doubles.
            assert!(used.bytes_max <= 16 * wire.len() as u64 + 512, "{used:?} for {} octets", wire.len());
            // The next ADU is as if nothing had been.
            channel.seek(0);
            let next: Verified<Record> = recv_adu(&mut channel, &whole).expect("it is whole");
            assert_eq!(*next, record);
            outcome.expect("it ran")
        });
        for outcome in &outcomes {
            prop_assert_eq!(outcome, &outcomes[0]);
        }
    }

    #[test]
    fn noise_is_no_record(noise in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..400)) {
        // With no check, every octet is read as the sender's word.
        for executor in EXECUTORS {
            let _ = recv_adu::<_, Record>(&mut channel(&["copy"], executor), &noise);
        }
    }
}

#[test]
fn the_lowest_stage_that_differs_is_told() {
    let record = Record {
        number: 1,
        name: String::new(),
        parts: Vec::new(),
        next: None,
    };
    let names = ["parity", "pes", "crc32c"];
    let wire = sent(&names, Executor::Ilp, 0, &record);
    let told = |at: usize| {
        let mut wire = wire.clone();
        wire[at] ^= 1;
        let outcomes = EXECUTORS.map(|executor| {
            let mut channel = channel(&names, executor);
            recv_adu::<_, Record>(&mut channel, &wire)
                .expect_err("it differs")
                .code()
        });
        assert!(outcomes.iter().all(|it| *it == outcomes[0]));
        outcomes[0]
    };
    let end = wire.len();
    // Results stand from top to bottom: the parity is of level 3, the CRC of level 1.
    assert_eq!([told(0), told(end - 1), told(end - 5)], [1, 1, 3]);
}

#[test]
fn a_deep_list_is_refused() {
    let leaf = Record {
        number: 0,
        name: String::new(),
        parts: Vec::new(),
        next: None,
    };
    let deep = (0..40).fold(leaf, |next, number| Record {
        number,
        next: Some(Box::new(next)),
        ..Record {
            number: 0,
            name: String::new(),
            parts: Vec::new(),
            next: None,
        }
    });
    let wire = sent(&["checksum"], Executor::Ilp, 0, &deep);
    for executor in EXECUTORS {
        let mut channel = channel(&["checksum"], executor);
        let outcome = recv_adu::<_, Record>(&mut channel, &wire);
        assert_eq!(outcome, Err(IlpError::TooDeep));
    }
}

#[test]
fn an_empty_adu_has_the_results_of_nothing() {
    struct Nothing;
    impl Adu for Nothing {
        const MIN: usize = 0;
        fn encode<S: Sink>(&self, _: &mut S) -> Result<(), IlpError> {
            Ok(())
        }
        fn decode<S: Source>(_: &mut S) -> Result<Nothing, IlpError> {
            Ok(Nothing)
        }
    }
    let mut out = [0; 8];
    // The sum of ffff and of nothing is one sum, so that what is too much shows as such.
    for executor in EXECUTORS {
        let mut channel = channel(&["checksum"], executor);
        assert_eq!(send_adu(&mut channel, &Nothing, &mut out), Ok(4));
        assert_eq!(out[..4], [0, 0, 0xff, 0xff]);
        channel.seek(0);
        assert!(recv_adu::<_, Nothing>(&mut channel, &out[..4]).is_ok());
        channel.seek(0);
        let outcome = recv_adu::<_, Nothing>(&mut channel, &out).map(|_| ());
        assert_eq!(outcome, Err(IlpError::TrailingBytes(4)));
    }
}

#[test]
fn a_chain_of_nothing_or_of_too_long_units_is_refused() {
    let chain = |names: &[&str]| Chain::of_names(names.iter().copied(), &keys()).err();
    assert_eq!(chain(&[]), Some(ChainError::Empty));
    assert_eq!(
        chain(&["copy", "rot13"]),
        Some(ChainError::Unknown("rot13".to_owned()))
    );
}
