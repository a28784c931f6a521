use thiserror::Error;

/// The packets of `layercast policer-probe`, each in a UDP datagram; numbers are big-endian.
///
/// A request is as long as its answer, so the responder cannot be used for amplification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PolicerMsg {
    /// A packet of a train.
    Probe {
        /// Which measurement.
        run: u64,
        /// Its number, from zero.
        index: u32,
        /// Zeros behind the header.
        padding: usize,
    },
    /// Which of [`ASKED`] packets arrived?
    Ask {
        /// Which measurement.
        run: u64,
        /// The first of them.
        from: u32,
    },
    /// Those that did.
    Answer {
        /// Which measurement.
        run: u64,
        /// The first of them.
        from: u32,
        /// A bit for each, the first in the lowest bit of the first byte.
        arrived: [u8; ASKED as usize / 8],
    },
}

/// Packets that an answer tells of.
pub const ASKED: u32 = 1_024;
/// Bytes of the header: magic, kind, run, index.
pub const POLICER_HEADER: usize = 17;
const ANSWER: usize = POLICER_HEADER + ASKED as usize / 8;
const MAGIC: [u8; 4] = *b"LCP1";

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PolicerMsgError {
    /// It has another length than its kind.
    #[error("{0} bytes are no message of a policer probe")]
    Length(usize),
    /// It begins with something else.
    #[error("no message of a policer probe")]
    Magic,
    /// There is no such kind.
    #[error("kind {0} of a policer probe is unknown")]
    Kind(u8),
    /// What should be zeros is none.
    #[error("the padding of a policer probe is not zero")]
    Padding,
}

impl PolicerMsg {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (kind, run, number) = match self {
            PolicerMsg::Probe { run, index, .. } => (0, run, index),
            PolicerMsg::Ask { run, from } => (1, run, from),
            PolicerMsg::Answer { run, from, .. } => (2, run, from),
        };
        out.extend_from_slice(&MAGIC);
        out.push(kind);
        out.extend_from_slice(&run.to_be_bytes());
        out.extend_from_slice(&number.to_be_bytes());
        match self {
            PolicerMsg::Probe { padding, .. } => out.resize(out.len() + padding, 0),
            PolicerMsg::Ask { .. } => out.resize(out.len() + ANSWER - POLICER_HEADER, 0),
            PolicerMsg::Answer { arrived, .. } => out.extend_from_slice(arrived),
        }
    }

    /// A message from all bytes of a datagram.
    pub fn decode(bytes: &[u8]) -> Result<PolicerMsg, PolicerMsgError> {
        let length = PolicerMsgError::Length(bytes.len());
        let (header, rest) = bytes.split_first_chunk::<POLICER_HEADER>().ok_or(length)?;
        let [
            a,
            b,
            c,
            d,
            kind,
            r0,
            r1,
            r2,
            r3,
            r4,
            r5,
            r6,
            r7,
            n0,
            n1,
            n2,
            n3,
        ] = *header;
        if [a, b, c, d] != MAGIC {
            return Err(PolicerMsgError::Magic);
        }
        let run = u64::from_be_bytes([r0, r1, r2, r3, r4, r5, r6, r7]);
        let number = u32::from_be_bytes([n0, n1, n2, n3]);
        let zeros = || match rest.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(PolicerMsgError::Padding),
        };
        match kind {
            0 => {
                zeros()?;
                let (index, padding) = (number, rest.len());
                Ok(PolicerMsg::Probe {
                    run,
                    index,
                    padding,
                })
            }
            1 if bytes.len() == ANSWER => {
                zeros()?;
                Ok(PolicerMsg::Ask { run, from: number })
            }
            2 => {
                let arrived = rest.try_into().map_err(|_| length)?;
                let from = number;
                Ok(PolicerMsg::Answer { run, from, arrived })
            }
            1 => Err(length),
            kind => Err(PolicerMsgError::Kind(kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message() -> impl Strategy<Value = PolicerMsg> {
        let numbers = (any::<u64>(), any::<u32>());
        prop_oneof![
            (numbers, 0usize..2_000).prop_map(|((run, index), padding)| {
                PolicerMsg::Probe {
                    run,
                    index,
                    padding,
                }
            }),
            numbers.prop_map(|(run, from)| PolicerMsg::Ask { run, from }),
            (numbers, any::<u8>()).prop_map(|((run, from), bits)| PolicerMsg::Answer {
                run,
                from,
                arrived: [bits; ASKED as usize / 8],
            }),
        ]
    }

    proptest! {
        #[test]
        fn messages_come_back(message in message(), cut in any::<u16>()) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            prop_assert_eq!(PolicerMsg::decode(&bytes), Ok(message.clone()));
            let cut = usize::from(cut) % bytes.len();
            let part = PolicerMsg::decode(&bytes[..cut]);
            let is_probe = matches!(message, PolicerMsg::Probe { .. });
            prop_assert!(part.is_err() || is_probe);
        }

        #[test]
        fn whatever_is_decoded_encodes_to_its_bytes(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..4, zeros: bool,
        ) {
            if bytes.len() > 4 {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4] = kind;
            }
            if zeros && bytes.len() > POLICER_HEADER {
                bytes[POLICER_HEADER..].fill(0);
            }
            if let Ok(message) = PolicerMsg::decode(&bytes) {
                let mut again = Vec::new();
                message.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn a_question_is_as_long_as_its_answer() {
        let mut ask = Vec::new();
        PolicerMsg::Ask { run: 1, from: 2 }.encode(&mut ask);
        assert_eq!(ask.len(), ANSWER);
        assert_eq!(PolicerMsg::decode(&ask[1..]), Err(PolicerMsgError::Magic));
        assert_eq!(
            PolicerMsg::decode(&ask[..ANSWER - 1]),
            Err(PolicerMsgError::Length(ANSWER - 1))
        );
        ask[20] = 1;
        assert_eq!(PolicerMsg::decode(&ask), Err(PolicerMsgError::Padding));
        ask[4] = 9;
        assert_eq!(PolicerMsg::decode(&ask), Err(PolicerMsgError::Kind(9)));
    }
}
