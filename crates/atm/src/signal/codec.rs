//! Encoding of a signalling cell in 48 octets. The simulator passes values; the encoding is for captures of cells.
//!
//! ```text
//!  0  channel: 0 data, 1 acknowledgement    1  sequence number    the rest only of data:
//!  2  message: 1 SETUP, 2 CONNECT, 3 REJECT, 4 RELEASE
//!  3  origin of the call (2)                5  its number (4)
//!  9  of REJECT: cause, then the level of cause 1
//!  9  of SETUP: destination (2)            11  number of the circuit (2)
//! 13  tag: 0 any conversation, 1 fallback, 2 and up a type of conversation
//! 14  service: 0 best effort, 1 delay level (at 15), 2 contract: X_min, X_ave, I, delay (8 each, picoseconds)
//! ```
//!
//! Numbers are big-endian, all other octets zero. There is no check and no AAL: a set-up with a contract takes 47 octets.

use layercast_core::{CELL_PAYLOAD, Span};
use thiserror::Error;

use super::{Body, CallId, Message, Setup, SignalCell};
use crate::policy::{ConversationType, Service};
use crate::{AtmAddress, Contract, RejectCause, Tag, TrafficSpec, Vcid};

const DATA: u8 = 0;
const ACK: u8 = 1;

const SETUP: u8 = 1;
const CONNECT: u8 = 2;
const REJECT: u8 = 3;
const RELEASE: u8 = 4;

const BEST_EFFORT: u8 = 0;
const LEVEL: u8 = 1;
const CONTRACT: u8 = 2;

const ANY: u8 = 0;
const FALLBACK: u8 = 1;
/// The tag number of the first type of conversation.
const FIRST_TYPE: u8 = 2;

/// Reason why octets are not a signalling cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SignalCellError {
    /// Neither data nor an acknowledgement.
    #[error("signalling cell of unknown kind {0}")]
    Kind(u8),
    /// Unknown message number.
    #[error("unknown signalling message {0}")]
    Message(u8),
    /// Unknown tag.
    #[error("set-up with unknown tag {0}")]
    Tag(u8),
    /// Unknown service.
    #[error("set-up with unknown service {0}")]
    Service(u8),
    /// Unknown cause.
    #[error("reject with unknown cause {0}")]
    Cause(u8),
    /// Unused octets are not zero.
    #[error("signalling cell with unused octets that are not zero")]
    Padding,
}

impl SignalCell {
    /// Encodes the cell.
    pub fn encode(&self) -> [u8; CELL_PAYLOAD] {
        let mut out = [0; CELL_PAYLOAD];
        match *self {
            SignalCell::Ack { seq } => out[..2].copy_from_slice(&[ACK, seq]),
            SignalCell::Data { seq, message } => {
                out[..2].copy_from_slice(&[DATA, seq]);
                message.put(&mut out);
            }
        }
        out
    }

    /// Decodes a cell; unused octets must be zero.
    pub fn decode(octets: &[u8; CELL_PAYLOAD]) -> Result<SignalCell, SignalCellError> {
        let seq = octets[1];
        let cell = match octets[0] {
            DATA => {
                let message = Message::get(octets)?;
                SignalCell::Data { seq, message }
            }
            ACK => SignalCell::Ack { seq },
            kind => return Err(SignalCellError::Kind(kind)),
        };
        match cell.encode() == *octets {
            true => Ok(cell),
            false => Err(SignalCellError::Padding),
        }
    }
}

impl Message {
    fn put(&self, out: &mut [u8; CELL_PAYLOAD]) {
        out[3..5].copy_from_slice(&self.call.origin.0.to_be_bytes());
        out[5..9].copy_from_slice(&self.call.number.to_be_bytes());
        out[2] = match self.body {
            Body::Setup(setup) => {
                setup.put(out);
                SETUP
            }
            Body::Connect => CONNECT,
            Body::Reject(cause) => {
                out[9..11].copy_from_slice(&cause_code(cause));
                REJECT
            }
            Body::Release => RELEASE,
        };
    }

    fn get(octets: &[u8; CELL_PAYLOAD]) -> Result<Message, SignalCellError> {
        let o = octets;
        let call = CallId {
            origin: AtmAddress(u16::from_be_bytes([o[3], o[4]])),
            number: u32::from_be_bytes([o[5], o[6], o[7], o[8]]),
        };
        let body = match o[2] {
            SETUP => Body::Setup(Setup::get(o)?),
            CONNECT => Body::Connect,
            REJECT => Body::Reject(cause_of([o[9], o[10]])?),
            RELEASE => Body::Release,
            message => return Err(SignalCellError::Message(message)),
        };
        Ok(Message { call, body })
    }
}

impl Setup {
    fn put(&self, out: &mut [u8; CELL_PAYLOAD]) {
        out[9..11].copy_from_slice(&self.to.0.to_be_bytes());
        out[11..13].copy_from_slice(&self.vc.0.to_be_bytes());
        out[13] = match self.tag {
            Tag::Any => ANY,
            Tag::Fallback => FALLBACK,
            // In the order of `ConversationType::ALL`; the round trip in the tests checks this.
            Tag::Type(kind) => FIRST_TYPE + kind as u8,
        };
        match self.service {
            Service::BestEffort => out[14] = BEST_EFFORT,
            Service::Priority(level) => out[14..16].copy_from_slice(&[LEVEL, level]),
            Service::Guaranteed(Contract { traffic, delay }) => {
                out[14] = CONTRACT;
                let spans = [traffic.x_min, traffic.x_ave, traffic.interval, delay];
                for (place, span) in out[15..47].as_chunks_mut::<8>().0.iter_mut().zip(spans) {
                    *place = span.as_ps().to_be_bytes();
                }
            }
        }
    }

    fn get(octets: &[u8; CELL_PAYLOAD]) -> Result<Setup, SignalCellError> {
        let o = octets;
        let tag = match o[13] {
            ANY => Tag::Any,
            FALLBACK => Tag::Fallback,
            code => {
                let kind = ConversationType::ALL.get(usize::from(code - FIRST_TYPE));
                Tag::Type(*kind.ok_or(SignalCellError::Tag(code))?)
            }
        };
        let span = |from: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&o[from..from + 8]);
            Span::from_ps(u64::from_be_bytes(bytes))
        };
        let service = match o[14] {
            BEST_EFFORT => Service::BestEffort,
            LEVEL => Service::Priority(o[15]),
            CONTRACT => Service::Guaranteed(Contract {
                traffic: TrafficSpec {
                    x_min: span(15),
                    x_ave: span(23),
                    interval: span(31),
                },
                delay: span(39),
            }),
            service => return Err(SignalCellError::Service(service)),
        };
        Ok(Setup {
            to: AtmAddress(u16::from_be_bytes([o[9], o[10]])),
            service,
            tag,
            vc: Vcid(u16::from_be_bytes([o[11], o[12]])),
        })
    }
}

/// The code of a cause, and its level.
fn cause_code(cause: RejectCause) -> [u8; 2] {
    match cause {
        RejectCause::Capacity(level) => [1, level],
        RejectCause::Contract => [2, 0],
        RejectCause::NoVcid => [3, 0],
        RejectCause::UnknownDestination => [4, 0],
        RejectCause::Congested => [5, 0],
        RejectCause::Timeout => [6, 0],
    }
}

fn cause_of([code, level]: [u8; 2]) -> Result<RejectCause, SignalCellError> {
    Ok(match code {
        1 => RejectCause::Capacity(level),
        2 => RejectCause::Contract,
        3 => RejectCause::NoVcid,
        4 => RejectCause::UnknownDestination,
        5 => RejectCause::Congested,
        6 => RejectCause::Timeout,
        code => return Err(SignalCellError::Cause(code)),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tag() -> impl Strategy<Value = Tag> {
        let kind = prop::sample::select(ConversationType::ALL.to_vec());
        prop_oneof![
            Just(Tag::Any),
            Just(Tag::Fallback),
            kind.prop_map(Tag::Type)
        ]
    }

    fn service() -> impl Strategy<Value = Service> {
        let contract = any::<[u64; 4]>().prop_map(|spans| {
            let [x_min, x_ave, interval, delay] = spans.map(Span::from_ps);
            let traffic = TrafficSpec {
                x_min,
                x_ave,
                interval,
            };
            Service::Guaranteed(Contract { traffic, delay })
        });
        prop_oneof![
            Just(Service::BestEffort),
            any::<u8>().prop_map(Service::Priority),
            contract,
        ]
    }

    fn body() -> impl Strategy<Value = Body> {
        let setup = (any::<u16>(), service(), tag(), any::<u16>());
        let setup = setup.prop_map(|(to, service, tag, vc)| {
            let (to, vc) = (AtmAddress(to), Vcid(vc));
            Body::Setup(Setup {
                to,
                service,
                tag,
                vc,
            })
        });
        let cause = prop_oneof![
            any::<u8>().prop_map(RejectCause::Capacity),
            prop::sample::select(vec![
                RejectCause::Contract,
                RejectCause::NoVcid,
                RejectCause::UnknownDestination,
                RejectCause::Congested,
                RejectCause::Timeout,
            ]),
        ];
        prop_oneof![
            3 => setup,
            1 => Just(Body::Connect),
            2 => cause.prop_map(Body::Reject),
            1 => Just(Body::Release),
        ]
    }

    fn cell() -> impl Strategy<Value = SignalCell> {
        let data = (any::<u8>(), any::<u16>(), any::<u32>(), body());
        let data = data.prop_map(|(seq, origin, number, body)| {
            let origin = AtmAddress(origin);
            let call = CallId { origin, number };
            let message = Message { call, body };
            SignalCell::Data { seq, message }
        });
        prop_oneof![5 => data, 1 => any::<u8>().prop_map(|seq| SignalCell::Ack { seq })]
    }

    proptest! {
        #[test]
        fn encoding_round_trips(cell in cell()) {
            prop_assert_eq!(SignalCell::decode(&cell.encode()), Ok(cell));
        }

        #[test]
        fn decoding_round_trips(cell in cell(), at in 0usize..48, octet: u8) {
            let mut octets = cell.encode();
            octets[at] = octet;
            if let Ok(cell) = SignalCell::decode(&octets) {
                prop_assert_eq!(cell.encode(), octets);
            }
        }
    }

    #[test]
    fn octets_stand_where_the_page_says() {
        let call = CallId {
            origin: AtmAddress(0x0102),
            number: 0x0304_0506,
        };
        let traffic = TrafficSpec {
            x_min: Span::from_ps(1),
            x_ave: Span::from_ps(2),
            interval: Span::from_ps(3),
        };
        let delay = Span::from_ps(4);
        let body = Body::Setup(Setup {
            to: AtmAddress(0x0708),
            service: Service::Guaranteed(Contract { traffic, delay }),
            tag: Tag::Type(ConversationType::TelnetUp),
            vc: Vcid(0x090a),
        });
        let message = Message { call, body };
        let octets = SignalCell::Data { seq: 9, message }.encode();
        assert_eq!(octets[..15], [0, 9, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 2, 2]);
        let last = [22, 30, 38, 46].map(|at| octets[at]);
        assert_eq!((last, octets[47]), ([1, 2, 3, 4], 0));
    }

    #[test]
    fn unknown_values_are_refused() {
        let octets = |some: &[(usize, u8)]| {
            let mut octets = [0; 48];
            for &(at, octet) in some {
                octets[at] = octet;
            }
            SignalCell::decode(&octets)
        };
        assert_eq!(octets(&[(0, 2)]), Err(SignalCellError::Kind(2)));
        assert_eq!(octets(&[(2, 0)]), Err(SignalCellError::Message(0)));
        assert_eq!(octets(&[(2, 1), (13, 17)]), Err(SignalCellError::Tag(17)));
        assert_eq!(octets(&[(2, 1), (14, 3)]), Err(SignalCellError::Service(3)));
        assert_eq!(octets(&[(2, 3), (9, 7)]), Err(SignalCellError::Cause(7)));
        assert_eq!(octets(&[(0, 1), (47, 1)]), Err(SignalCellError::Padding));
        assert!(octets(&[(2, 1), (13, 16)]).is_ok());
    }
}
