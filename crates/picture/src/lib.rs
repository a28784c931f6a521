//! Picture quality on ATM (specs/mpeg-picture-quality.md): a transport stream in cells that say what they are to its
//! pictures, so that a switch discards those first that a picture can do without.
//!
//! - [`ExclpMapping`]: where the two bits of the class are in a cell (2.2).
//! - [`Aal5Plus`] and [`Aal5PlusReceiver`]: AAL5 with a convergence sublayer that separates headers from picture data (2.4).
//!   [`ParityConfig`] protects its headers by parities (2.7).
//! - [`BlockOrder`], [`Raster`] and [`SliceInterleaver`]: pictures over cells so that a lost one damages pixels that are apart
//!   (2.8).
//! - [`TsDatagrams`] and [`FrameMarking`]: the same in datagrams of one class each, with the marking of RFC 9626 (8).
//! - [`study`]: what a shared buffer loses of many videos, and how many pictures can be decoded (2.5).
//!
//! Both ends are sans-I/O.
//!
//! ```
//! use layercast_core::Time;
//! use layercast_picture::{Aal5Plus, Aal5PlusConfig, Aal5PlusReceiver, ReceiverConfig};
//!
//! let mut sender = Aal5Plus::new(Aal5PlusConfig::default()).unwrap();
//! let mut receiver = Aal5PlusReceiver::new(ReceiverConfig::default());
//! let mut null = [0xFF; 188];
//! null[..4].copy_from_slice(&[0x47, 0x1F, 0xFF, 0x10]);
//! sender.push(Time::ZERO, &null).unwrap();
//! sender.flush();
//! while let Some(cell) = sender.poll_cell() {
//!     receiver.on_cell(Time::ZERO, &cell);
//! }
//! receiver.finish();
//! assert_eq!(receiver.poll_packet(), Some(null));
//! ```

mod carried;
mod config;
mod datagrams;
mod exclp;
mod group;
mod interleave;
mod marking;
mod parity;
mod prepared;
mod receiver;
mod sender;
mod smoother;
pub mod study;
#[cfg(test)]
mod tests;

pub use carried::{
    CellBurst, CellDatagram, CellDatagramError, CellWriter, MOST_CELLS, cell_bursts,
};
pub use config::{Aal5PlusConfig, Aal5PlusError, Mode};
pub use datagrams::{MOST_PACKETS, TsDatagram, TsDatagrams, TsDatagramsError};
pub use exclp::{ExclpMapping, MarkedCell};
pub use interleave::{
    BLOCK_PIXELS, BlockOrder, GROUP_BLOCKS, GROUP_CELLS, GROUP_OCTETS, PIXEL, Raster, SAFE_BURST,
    SliceInterleaver,
};
pub use marking::{FrameMarking, class_of_dscp, dscp_of};
pub use parity::{
    FecControl, FecControlError, FecController, FecControllerConfig, ParityConfig, ParityError,
    ParityStats,
};
pub use prepared::{
    CELL_FILE_HEADER, CELL_RECORD, CellFileError, CellFileHeader, CellPace, Prepared, PreparedError,
};
pub use receiver::{Aal5PlusReceiver, OnLoss, ReceiverConfig, ReceiverStats};
pub use sender::{Aal5Plus, SenderStats};
pub use smoother::{Smoother, Smoothing, VodFastStart, VodFastStartError};
