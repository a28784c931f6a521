use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Serial, Time};
use thiserror::Error;

use crate::unit::PREFIX;
use crate::{Code, ConfigError, EncoderConfig, Header, Shape};

/// Why an encoder cannot do what it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum EncodeError {
    /// Its parities would be longer than a packet may be.
    #[error("a payload of {octets} octets: at most {most} leave room for the parities in a packet")]
    Payload {
        /// Octets of the payload.
        octets: usize,
        /// What fits.
        most: usize,
    },
    /// The block is not kept any more, or was never closed.
    #[error("block {0} is not among those kept")]
    NotKept(u32),
    /// Of so small a block there are no more packets.
    #[error("block {block} can have {left} more parities")]
    Exhausted {
        /// Serial number of the block.
        block: u32,
        /// Parities that are left.
        left: usize,
    },
}

/// Buffers that are kept for parities to come.
const MOST_SPARE: usize = 255;

/// A block that fills up.
#[derive(Debug, Default)]
struct Lane {
    block: Serial,
    payloads: Vec<Bytes>,
    /// When it is closed, full or not.
    due: Time,
}

/// A closed block that may be asked for more.
#[derive(Debug)]
struct Kept {
    block: Serial,
    payloads: Vec<Bytes>,
    made: u8,
}

/// Puts packets into blocks and makes their parities (specs/packet-level-fec.md 2.2, 2.8); sans-I/O.
///
/// Source packets go out as they come, behind the header that [`push`](Encoder::push) returns. A block is closed when it
/// is full or its flush timer expires, and its parities are there to be [polled](Encoder::poll_parity). In steady state
/// nothing is allocated: buffers go round.
#[derive(Debug)]
pub struct Encoder {
    config: EncoderConfig,
    code: Box<dyn Code>,
    most_payload: usize,
    next: Serial,
    lanes: Vec<Lane>,
    turn: usize,
    kept: VecDeque<Kept>,
    /// Parities of blocks that are closed, while others that are filled in turn with them are not.
    closed: VecDeque<Vec<u8>>,
    ready: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Encoder {
    /// An encoder whose first block has the number 0.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], which names the limit.
    pub fn new(config: EncoderConfig) -> Result<Encoder, ConfigError> {
        let code = config.scheme.code();
        let most_payload = config.most_payload(&*code)?;
        let lanes = (0..config.interleave).map(|_| Lane::default()).collect();
        Ok(Encoder {
            config,
            code,
            most_payload,
            next: Serial(0),
            lanes,
            turn: 0,
            kept: VecDeque::new(),
            closed: VecDeque::new(),
            ready: VecDeque::new(),
            spare: Vec::new(),
        })
    }

    /// How it works now.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Longest payload that it takes, in octets.
    pub fn most_payload(&self) -> usize {
        self.most_payload
    }

    /// Closes open blocks and goes on with others of `n` + `m` packets.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]; then all stays as it is.
    pub fn set_redundancy(&mut self, n: u8, m: u8) -> Result<(), ConfigError> {
        let config = EncoderConfig {
            n,
            m,
            ..self.config
        };
        if config == self.config {
            return Ok(());
        }
        let most_payload = config.most_payload(&*self.code)?;
        self.close();
        (self.config, self.most_payload) = (config, most_payload);
        Ok(())
    }

    /// Takes the next source packet and gives the header to send in front of it.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Payload`] if it is too long.
    pub fn push(&mut self, now: Time, payload: Bytes) -> Result<Header, EncodeError> {
        let (octets, most) = (payload.len(), self.most_payload);
        if octets > most {
            return Err(EncodeError::Payload { octets, most });
        }
        let depth = self.lanes.len();
        let lane = &mut self.lanes[self.turn];
        if lane.payloads.is_empty() {
            lane.block = self.next;
            lane.due = now.saturating_add(self.config.flush);
            self.next = self.next.plus(1);
        }
        lane.payloads.push(payload);
        let full = lane.payloads.len() == usize::from(self.config.n);
        let header = Header {
            block: lane.block,
            index: (lane.payloads.len() - 1) as u8,
            shape: full.then_some(self.config.shape(self.config.n)),
        };
        if full {
            self.close_lane(self.turn);
        }
        self.turn = (self.turn + 1) % depth;
        if full && self.turn == 0 {
            self.release();
        }
        Ok(header)
    }

    /// Closes all open blocks and makes their parities.
    pub fn close(&mut self) {
        (0..self.lanes.len()).for_each(|lane| self.close_lane(lane));
        self.turn = 0;
        self.release();
    }

    /// Puts the next parity, header and all, into `out` in place of what is there; `false` if there is none.
    pub fn poll_parity(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(packet) = self.ready.pop_front() else {
            return false;
        };
        let used = std::mem::replace(out, packet);
        if self.spare.len() < MOST_SPARE {
            self.spare.push(used);
        }
        true
    }

    /// When a block has to be closed, full or not.
    pub fn next_timeout(&self) -> Option<Time> {
        let open = self.lanes.iter().filter(|it| !it.payloads.is_empty());
        open.map(|it| it.due).min()
    }

    /// Closes the open blocks if one has been open for too long; those filled in turn with it are hardly younger.
    pub fn on_timeout(&mut self, now: Time) {
        if self.next_timeout().is_some_and(|due| due <= now) {
            self.close();
        }
    }

    /// Makes `count` more parities of a closed block, other than all before: the repair for whoever lost so many more.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NotKept`] or [`EncodeError::Exhausted`].
    pub fn further(&mut self, block: Serial, count: u8) -> Result<(), EncodeError> {
        let kept = self.kept.iter().position(|it| it.block == block);
        let kept = &mut self.kept[kept.ok_or(EncodeError::NotKept(block.0))?];
        let n = kept.payloads.len();
        let longest = kept.payloads.iter().map(Bytes::len).max().unwrap_or(0);
        let fits = |index: usize| {
            let len = self.code.parity_len(n, index, longest + PREFIX);
            n + index < usize::from(u8::MAX) && Header::SIZE + len <= self.config.mtu
        };
        let first = usize::from(kept.made);
        let left = (first..usize::from(u8::MAX))
            .take_while(|it| fits(*it))
            .count();
        if usize::from(count) > left {
            let block = block.0;
            return Err(EncodeError::Exhausted { block, left });
        }
        kept.made += count;
        let shape = Shape {
            n: n as u8,
            m: kept.made,
            scheme: Some(self.config.scheme),
        };
        let put = Ready {
            ready: &mut self.ready,
            spare: &mut self.spare,
        };
        put.make(&mut *self.code, block, shape, first, &kept.payloads);
        Ok(())
    }

    /// Hands out the parities of the blocks that were filled in turn, in turn as well: side by side, a burst would take
    /// those of one block together.
    fn release(&mut self) {
        let each = usize::from(self.config.m);
        for parity in 0..each {
            for packet in self.closed.iter_mut().skip(parity).step_by(each) {
                self.ready.push_back(std::mem::take(packet));
            }
        }
        self.closed.clear();
    }

    fn close_lane(&mut self, lane: usize) {
        let Lane {
            block, payloads, ..
        } = &mut self.lanes[lane];
        if payloads.is_empty() {
            return;
        }
        let shape = self.config.shape(payloads.len() as u8);
        let put = Ready {
            ready: &mut self.closed,
            spare: &mut self.spare,
        };
        put.make(&mut *self.code, *block, shape, 0, payloads);
        if self.config.keep == 0 {
            payloads.clear();
            return;
        }
        let oldest = match self.kept.len() >= self.config.keep {
            true => self.kept.pop_front(),
            false => None,
        };
        let mut empty = oldest.map(|it| it.payloads).unwrap_or_default();
        empty.clear();
        let kept = Kept {
            block: *block,
            payloads: std::mem::replace(payloads, empty),
            made: self.config.m,
        };
        self.kept.push_back(kept);
    }
}

/// Where parities go.
struct Ready<'a> {
    ready: &'a mut VecDeque<Vec<u8>>,
    spare: &'a mut Vec<Vec<u8>>,
}

impl Ready<'_> {
    /// Makes the parities of a block from `first` on.
    fn make(
        self,
        code: &mut dyn Code,
        block: Serial,
        shape: Shape,
        first: usize,
        payloads: &[Bytes],
    ) {
        let mut index = shape.n + first as u8;
        let mut put = |octets: &[u8]| {
            let header = Header {
                block,
                index,
                shape: Some(shape),
            };
            let mut packet = self.spare.pop().unwrap_or_default();
            packet.clear();
            packet.extend_from_slice(&header.encode());
            packet.extend_from_slice(octets);
            self.ready.push_back(packet);
            index += 1;
        };
        let made = code.encode(payloads, first..usize::from(shape.m), &mut put);
        debug_assert!(made.is_ok(), "the limits were checked: {made:?}");
    }
}
