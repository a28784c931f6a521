//! Packet-level forward error correction: M parities for every N source packets, so that any N of the N + M packets
//! recover all sources (Huitema, "The case for packet level FEC", PfHSN'96; `specs/packet-level-fec.md`).
//!
//! From the lowest layer up:
//!
//! - [`Code`] is a systematic erasure code on a block of payloads. [`Scheme`] names the available codes, and
//!   [`Scheme::code`] creates one. A code keeps no block, only working memory; one serves all blocks of a session.
//! - [`BlockEncoder`] is the sender's side of a block. It makes *any* parity on request, also long after the first
//!   ones were sent, which repair by fresh parities needs. [`BlockDecoder`] is the receiver's side: it collects
//!   sources and parities in any order, reports how many more it [needs](BlockDecoder::needed), and recovers missing
//!   sources.
//!
//! - [`Encoder`] and [`Decoder`] protect a stream of packets: each gets an FEC [`Header`]; blocks are closed when
//!   they are full or by a timer, may be interleaved, and are abandoned after a while. Both are sans-I/O and bounded
//!   in memory. A decoder counts the loss before decoding ([`LossCount`]); [`LossReporter`] reports it.
//! - [`Matrix`] and [`MatrixBlock`] protect cells of equal length by rows and columns of XOR parities, as MPEG video on ATM does.
//! - [`SmpteSender`] and [`SmpteReceiver`] protect RTP packets by SMPTE 2022-1, as FFmpeg and GStreamer do.
//! - [`FecEdge`] is one end of a tunnel that protects the datagrams of any program between two hosts.
//!
//! ```
//! use bytes::Bytes;
//! use layercast_fec::{BlockDecoder, BlockEncoder, Scheme};
//!
//! let mut code = Scheme::ReedSolomon.code();
//! let payloads: Vec<Bytes> = (0..100u8).map(|i| vec![i; 1_000 + usize::from(i)].into()).collect();
//! let mut sender = BlockEncoder::new(payloads.clone())?;
//! let mut receiver = BlockDecoder::new(100);
//! for (index, payload) in payloads.iter().enumerate().skip(3) {
//!     receiver.put_source(index, payload.clone());
//! }
//! assert_eq!(receiver.needed(), 3);
//! for index in [0, 7, 99] {
//!     let parity = sender.parity(&mut *code, index)?;
//!     receiver.put_parity(&*code, index, parity);
//! }
//! assert_eq!(receiver.decode(&mut *code)?.recovered, [0, 1, 2]);
//! assert_eq!(receiver.payload(1), Some(&payloads[1]));
//! # Ok::<(), layercast_fec::CodeError>(())
//! ```
//!
//! A code protects *units*: a unit is a payload after its length in two octets, padded to the longest of its block.
//! So payloads of any lengths up to [`MAX_PAYLOAD`] may share a block and are recovered with their lengths.

mod block;
mod code;
mod controller;
mod decoder;
mod edge;
mod encoder;
mod encoder_config;
mod header;
mod loss;
mod matrix;
pub mod model;
mod raptor;
mod reed_solomon;
mod smpte;
mod steering;
pub mod study;
mod unit;
mod window;
mod xor;
mod xorshift;

pub use block::{BlockDecoder, BlockEncoder, Put};
pub use code::{Code, CodeError, Codes, Decoded, Scheme};
pub use controller::{Choice, Controller, ControllerConfig, Objective};
pub use decoder::{Arrival, Decoder, DecoderConfig, DecoderEvent, DecoderStats};
pub use edge::{EdgeReceived, EdgeSent, EdgeStats, FecEdge, FecEdgeConfig, longest_packet};
pub use encoder::{EncodeError, Encoder};
pub use encoder_config::{ConfigError, EncoderConfig};
pub use header::{Header, HeaderError, Shape};
pub use loss::{LEAST_EXPECTED, LossCount, LossReport, LossReporter};
pub use matrix::{MAX_NUMBERED, Matrix, MatrixBlock, MatrixCode, MatrixError, MatrixShape};
pub use raptor::RaptorQ;
pub use reed_solomon::ReedSolomon;
pub use smpte::{
    SmpteConfig, SmpteConfigError, SmpteHeader, SmpteHeaderError, SmptePacket, SmpteReceiver,
    SmpteReceiverConfig, SmpteReceiverStats, SmpteSender, SmpteStream,
};
pub use steering::Steering;
pub use unit::MAX_PAYLOAD;
pub use xorshift::XorShift;
