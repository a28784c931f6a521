//! ADUs through chains of stages: any input gives one outcome by all executors, and a value that is accepted is sent as the
//! octets that it was received as.

use layercast_ilp::adu::{Adu, Sink, Source};
use layercast_ilp::stages::LIBRARY;
use layercast_ilp::{Chain, Channel, Executor, IlpError, Keys, Verified, recv_adu, send_adu};
use layercast_ilp_macros::Adu;

const EXECUTORS: [Executor; 4] = [
    Executor::Sequential,
    Executor::Ilp,
    Executor::Strip(64),
    Executor::Strip(1_024),
];

/// A list of lists of everything that XDR has.
#[derive(Adu, Clone, PartialEq, Debug)]
pub struct Record {
    pub number: u64,
    #[xdr(max = 40)]
    pub name: String,
    pub is_last: bool,
    #[xdr(max = 1_073_741_824)]
    pub parts: Vec<Part>,
    pub kind: Kind,
    pub next: Option<Box<Record>>,
}

#[derive(Adu, Clone, PartialEq, Debug)]
pub enum Part {
    Nothing,
    Octets(#[xdr(max = 2_000)] Vec<u8>),
    Place { x: i32, y: i32, exact: [u8; 3] },
}

#[derive(Adu, Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    I = 1,
    P,
    B = 7,
}

/// Octets that a sender marshals, whatever they are.
struct Raw<'a>(&'a [u8]);

impl Adu for Raw<'_> {
    const MIN: usize = 0;

    fn encode<S: Sink>(&self, to: &mut S) -> Result<(), IlpError> {
        to.octets(self.0)
    }

    fn decode<S: Source>(from: &mut S) -> Result<Self, IlpError> {
        let _ = from;
        Ok(Raw(&[]))
    }
}

/// A channel of the stages that the first octets choose: how many, one to five, and which.
fn channel(picks: &[u8], executor: Executor) -> Channel<Chain> {
    let names = picks
        .iter()
        .map(|pick| LIBRARY[usize::from(*pick) % LIBRARY.len()].shape.name);
    let keys = Keys {
        key: std::array::from_fn(|at| 3 * at as u8),
        nonce: [7; 12],
    };
    Channel::new(
        Chain::of_names(names, &keys).expect("names of the library"),
        executor,
    )
}

fn send<T: Adu>(picks: &[u8], executor: Executor, adu: &T, room: usize) -> Vec<u8> {
    let mut out = vec![0; room];
    let len = send_adu(&mut channel(picks, executor), adu, &mut out).expect("there is room");
    out.truncate(len);
    out
}

/// What all executors say of an ADU.
fn receive(picks: &[u8], wire: &[u8]) -> Result<Record, IlpError> {
    let [first, others @ ..] = EXECUTORS.map(|executor| {
        let received = recv_adu::<_, Record>(&mut channel(picks, executor), wire);
        received.map(Verified::into_inner)
    });
    assert!(others.iter().all(|it| *it == first));
    first
}

/// Splits what a target gets: the stages, and the octets.
fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, rest) = data.split_first()?;
    rest.split_at_checked(1 + usize::from(*count) % 5)
}

/// Octets as an ADU from the network, and as the words that a sender puts through its stages.
pub fn ilp(data: &[u8]) {
    let Some((picks, octets)) = split(data) else {
        return;
    };
    // A unit and the results of five stages are less.
    let room = octets.len() + 1_024;
    if let Ok(record) = receive(picks, octets) {
        for executor in EXECUTORS {
            assert_eq!(send(picks, executor, &record, room), octets);
        }
    }
    // All checks of the chain hold, and the words within are as hostile.
    let wire = send(picks, Executor::Sequential, &Raw(octets), room);
    if let Ok(record) = receive(picks, &wire) {
        assert_eq!(send(picks, Executor::Ilp, &record, room), wire);
    }
}
