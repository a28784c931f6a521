//! Files to many receivers: the machines of `layercast-multicast` on sockets, by IP multicast or from host to host.
//!
//! A sender opens one session for each file; its packets are made once, however many addresses they go to, and
//! leave in batches. A receiver puts them into a partial file, which gets its name once its BLAKE3 digest is right;
//! what is there survives the process. Neither holds a file in memory.

mod digest;
mod emulate;
mod feed;
mod identity;
mod intake;
mod keys;
mod link;
mod name;
mod outgoing;
mod partial;
mod peers;
mod receive;
mod roll;
mod send;
mod session;
mod source;
mod store;
mod tokens;
mod transfer;
mod tree;

pub use emulate::{EmulateConfig, Emulated, Emulation, emulate_receivers};
pub use identity::{IDENTITY_FILE, receiver_identity};
pub use name::{FileName, printable};
pub use receive::{
    BUFFER as RECEIVE_BUFFER, Ended, FileReceiver, ReceiveConfig, ReceiveEvent, ReceivedFile,
    Reception,
};
pub use send::{
    Destination, ReceiverReport, SendConfig, SendEvent, SendProgress, SendReport, SentFile,
    WithheldFile,
};
pub use store::Folder;
pub(crate) use tokens::Tokens;
pub use transfer::{send_files, send_plan};
pub use tree::{InputFault, SendPlan, TreeOptions};
