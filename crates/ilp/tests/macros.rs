//! Types and pipelines by macros: the golden octets of the paper, the octets of RFC 4506, and the octets of a chain that is
//! put together at run time.

use layercast_ilp::stages::{ChaCha20, Checksum, Crc32c, Poly1305, Safer};
use layercast_ilp::{
    Adu, Chain, Channel, Executor, IlpError, Keys, Pipeline, Verified, recv_adu, send_adu,
};
use layercast_ilp_macros::{Adu, ilp_pipeline, include_cfg};
use proptest::prelude::*;

ilp_pipeline!(pub Example = Safer -> Checksum);
ilp_pipeline!(Sealed = Crc32c -> ChaCha20 -> Poly1305);
include_cfg!("tests/paper.cfg");

const EXECUTORS: [Executor; 3] = [Executor::Sequential, Executor::Ilp, Executor::Strip(512)];

#[derive(Adu, Clone, PartialEq, Debug)]
struct Picture {
    #[xdr(max = 64)]
    name: String,
    kind: Kind,
    #[xdr(max = 65_536)]
    data: Vec<u8>,
    #[xdr(max = 16)]
    parts: Vec<Part>,
    before: Option<Box<Picture>>,
    exact: f64,
}

#[derive(Adu, Clone, Copy, PartialEq, Debug)]
enum Kind {
    I = 1,
    P,
    B = 7,
}

#[derive(Adu, Clone, PartialEq, Debug)]
enum Part {
    Nothing,
    Place { x: i32, y: i32 },
    Octets(#[xdr(max = 9)] Vec<u8>, bool),
}

#[derive(Adu, Clone, Copy, PartialEq, Debug)]
struct Pair(u32, u32);

#[derive(Adu, Clone, Copy, PartialEq, Debug)]
struct Empty;

fn keys() -> Keys {
    Keys {
        key: std::array::from_fn(|at| at as u8),
        nonce: [1; 12],
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn wire<P: Pipeline, T: Adu>(pipeline: P, executor: Executor, adu: &T) -> Vec<u8> {
    let mut out = vec![0; 200_000];
    let mut channel = Channel::new(pipeline, executor);
    let len = send_adu(&mut channel, adu, &mut out).expect("there is room");
    out.truncate(len);
    out
}

#[test]
fn golden_octets_by_macro_and_by_configuration() {
    let key = [8, 7, 6, 5, 4, 3, 2, 1];
    let mut keys = keys();
    keys.key[..8].copy_from_slice(&key);
    for executor in EXECUTORS {
        let by_macro = Example::new(Safer::new(key, 6), Checksum::default());
        let sent = wire(by_macro, executor, &Pair(1, 2));
        assert_eq!(hex(&sent), "a6ac11c325b3a8900000794c");
        assert_eq!(wire(Paper::keyed(&keys), executor, &Pair(1, 2)), sent);
    }
    assert_eq!(Example::WORDS, 2);
}

#[test]
fn octets_of_xdr() {
    let plain = |adu: &Part| {
        let chain = Chain::of_names(["copy"], &keys()).expect("a chain");
        hex(&wire(chain, Executor::Ilp, adu))
    };
    assert_eq!(plain(&Part::Nothing), "00000000");
    assert_eq!(
        plain(&Part::Place { x: -2, y: 3 }),
        "00000001fffffffe00000003"
    );
    let octets = Part::Octets(vec![1, 2, 3, 4, 5], true);
    assert_eq!(plain(&octets), "0000000200000005010203040500000000000001");
}

#[test]
fn a_value_above_its_bound_is_not_sent_and_not_received() {
    let chain = || Chain::of_names(["checksum"], &keys()).expect("a chain");
    let long = Part::Octets(vec![0; 10], false);
    let mut channel = Channel::new(chain(), Executor::Ilp);
    let refused = send_adu(&mut channel, &long, &mut [0; 64]);
    assert_eq!(refused, Err(IlpError::TooLong { len: 10, max: 9 }));
    let told = recv_adu::<_, Kind>(
        &mut Channel::new(
            Chain::of_names(["copy"], &keys()).expect("a chain"),
            Executor::Ilp,
        ),
        &[0, 0, 0, 3],
    );
    assert_eq!(told, Err(IlpError::UnknownAdu(3)));
    assert_eq!(<Empty as Adu>::MIN + <Pair as Adu>::MIN, 8);
}

fn picture() -> impl Strategy<Value = Picture> {
    let part = prop_oneof![
        Just(Part::Nothing),
        any::<(i32, i32)>().prop_map(|(x, y)| Part::Place { x, y }),
        (prop::collection::vec(any::<u8>(), 0..=9), any::<bool>())
            .prop_map(|(octets, last)| Part::Octets(octets, last)),
    ];
    let kind = prop_oneof![Just(Kind::I), Just(Kind::P), Just(Kind::B)];
    let one = (
        "[a-z]{0,20}",
        kind,
        prop::collection::vec(any::<u8>(), 0..400),
        prop::collection::vec(part, 0..6),
        -1e9..1e9,
    );
    let one = one.prop_map(|(name, kind, data, parts, exact)| Picture {
        name,
        kind,
        data,
        parts,
        before: None,
        exact,
    });
    (one.clone(), prop::option::of(one)).prop_map(|(mut picture, before)| {
        picture.before = before.map(Box::new);
        picture
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn a_compiled_pipeline_sends_what_a_chain_sends(picture in picture(), flip in any::<prop::sample::Index>()) {
        let compiled = || Sealed::new(Crc32c::default(), ChaCha20::new(&keys()), Poly1305::new(&keys()));
        let chain = Chain::of_names(["crc32c", "chacha20", "poly1305"], &keys()).expect("a chain");
        let sent = wire(chain, Executor::Sequential, &picture);
        for executor in EXECUTORS {
            prop_assert_eq!(&wire(compiled(), executor, &picture), &sent);
            let mut channel = Channel::new(compiled(), executor);
            let received: Verified<Picture> = recv_adu(&mut channel, &sent).expect("it was sent");
            prop_assert_eq!(&*received, &picture);
            let mut other = sent.clone();
            other[flip.index(sent.len())] ^= 0x10;
            channel.seek(0);
            let refused = recv_adu::<_, Picture>(&mut channel, &other);
            let told = matches!(refused, Err(IlpError::Integrity { .. }));
            prop_assert!(told, "{refused:?}");
        }
    }
}
