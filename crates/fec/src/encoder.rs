use std::collections::VecDeque;

use bytes::Bytes;
use layercast_core::{Serial, Time};
use thiserror::Error;

use crate::unit::PREFIX;
use crate::{Code, ConfigError, EncoderConfig, Header, Shape};

/// Reason why an encoder refuses a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum EncodeError {
    /// The parities would exceed the longest packet.
    #[error("a payload of {octets} octets: at most {most} leave room for the parities in a packet")]
    Payload {
        /// Octets of the payload.
        octets: usize,
        /// Largest payload that fits.
        most: usize,
    },
    /// The block is no longer kept, or was never closed.
    #[error("block {0} is no longer kept, or was never closed")]
    NotKept(u32),
    /// The block cannot have that many further parities.
    #[error("block {block} can have only {left} further parities")]
    Exhausted {
        /// Serial number of the block.
        block: u32,
        /// Parities that are left.
        left: usize,
    },
}

/// Largest number of spare buffers for parities.
const MOST_SPARE: usize = 255;

/// A block that is being filled.
#[derive(Debug, Default)]
struct Lane {
    block: Serial,
    payloads: Vec<Bytes>,
    /// When the block is closed, full or not.
    due: Time,
}

/// A closed block for which further parities may be requested.
#[derive(Debug)]
struct Kept {
    block: Serial,
    payloads: Vec<Bytes>,
    made: u8,
}

/// Groups packets into blocks and makes their parities (specs/packet-level-fec.md 2.2, 2.8); sans-I/O.
///
/// Source packets are sent immediately, after the header that [`push`](Encoder::push) returns. A block is closed when
/// it is full or its flush timer expires; then its parities can be [polled](Encoder::poll_parity). Buffers are
/// reused: no allocation in steady state.
///
/// ```
/// use bytes::Bytes;
/// use layercast_core::{Span, Time};
/// use layercast_fec::{Decoder, DecoderConfig, DecoderEvent, Encoder, EncoderConfig, Scheme};
///
/// let config = EncoderConfig {
///     scheme: Scheme::XorShift,
///     n: 4,
///     m: 1,
///     mtu: 1_400,
///     flush: Span::from_ms(50),
///     interleave: 1,
///     keep: 0,
/// };
/// let (mut encoder, mut decoder) = (Encoder::new(config)?, Decoder::new(DecoderConfig::default()));
/// for n in 0..4u8 {
///     let payload = vec![n; 100];
///     let header = encoder.push(Time::ZERO, payload.clone().into()).unwrap();
///     // The second packet is lost.
///     if n != 1 {
///         decoder.handle(Time::ZERO, &Bytes::from([&header.encode()[..], &payload].concat()));
///     }
/// }
/// let mut parity = Vec::new();
/// while encoder.poll_parity(&mut parity) {
///     decoder.handle(Time::ZERO, &Bytes::from(parity.clone()));
/// }
/// let mut recovered = Vec::new();
/// while let Some(event) = decoder.poll_event() {
///     if let DecoderEvent::Source { index, .. } = event {
///         recovered.push(index);
///     }
/// }
/// recovered.sort();
/// assert_eq!(recovered, [0, 1, 2, 3]);
/// assert_eq!(decoder.stats().recovered, 1);
/// # Ok::<(), layercast_fec::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Encoder {
    config: EncoderConfig,
    code: Box<dyn Code>,
    most_payload: usize,
    next: Serial,
    lanes: Vec<Lane>,
    turn: usize,
    kept: VecDeque<Kept>,
    /// Parities of closed blocks whose interleaved neighbours are still open.
    closed: VecDeque<Vec<u8>>,
    /// When they are released whatever comes: a block of one packet leaves no neighbour open.
    release_by: Option<Time>,
    ready: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Encoder {
    /// Creates an encoder whose first block has number 0.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the violated limit.
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
            release_by: None,
            ready: VecDeque::new(),
            spare: Vec::new(),
        })
    }

    /// The current configuration.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Largest payload, in octets, that it accepts.
    pub fn most_payload(&self) -> usize {
        self.most_payload
    }

    /// Closes the open blocks; further blocks have `n` + `m` packets.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]; the configuration is then unchanged.
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

    /// Adds the next source packet and returns the header to send in front of it.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Payload`] if the payload is too long.
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
        debug_assert!(lane.payloads.len() <= usize::from(self.config.n));
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

    /// Replaces the content of `out` by the next parity including its header; `false` if there is none.
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

    /// When the next block must be closed, full or not, or the parities of closed ones are released.
    pub fn next_timeout(&self) -> Option<Time> {
        let open = self.lanes.iter().filter(|it| !it.payloads.is_empty());
        open.map(|it| it.due).chain(self.release_by).min()
    }

    /// Closes the open blocks if one has been open for too long; blocks interleaved with it are hardly younger.
    pub fn on_timeout(&mut self, now: Time) {
        if self.next_timeout().is_some_and(|due| due <= now) {
            self.close();
        }
    }

    /// Makes `count` further parities of a closed block, as a repair for receivers that lost more than the block's
    /// parities cover.
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

    /// Releases the parities of interleaved blocks in turn as well; otherwise a burst would hit those of one block
    /// together.
    fn release(&mut self) {
        let each = usize::from(self.config.m);
        for parity in 0..each {
            for packet in self.closed.iter_mut().skip(parity).step_by(each) {
                self.ready.push_back(std::mem::take(packet));
            }
        }
        self.closed.clear();
        self.release_by = None;
    }

    fn close_lane(&mut self, lane: usize) {
        let Lane {
            block,
            payloads,
            due,
        } = &mut self.lanes[lane];
        if payloads.is_empty() {
            return;
        }
        self.release_by.get_or_insert(*due);
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

/// Destination of parities.
struct Ready<'a> {
    ready: &'a mut VecDeque<Vec<u8>>,
    spare: &'a mut Vec<Vec<u8>>,
}

impl Ready<'_> {
    /// Makes the parities of a block from number `first` on.
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
