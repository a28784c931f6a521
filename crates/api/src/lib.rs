//! Live layered media to many unequal receivers, with the three sockets of METS (specs/mets.md 2.2).
//!
//! A source, in five lines:
//!
//! ```
//! # use layercast::{Frame, Group, Server, Span, join};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> layercast::Result<()> {
//! let server = Server::bind("127.0.0.1:0").await?;
//! let group = server.open_group(Group::new("film")).await?;
//! println!("join {}", group.url());
//! # let url = group.url(); let sink = tokio::spawn(async move {
//! #     let (mut media, _control, _management) = join(&url).await?;
//! #     let mut played = 0;
//! #     while media.recv().await.is_some() { played += 1; }
//! #     Ok::<_, layercast::Error>(played)
//! # });
//! for n in 0..240 { group.send(if n % 12 == 0 { Frame::base(vec![n; 900]) } else { Frame::e1(vec![n; 300]) }).await?; }
//! group.close(Span::from_secs(5)).await?;
//! # assert!(sink.await.unwrap()? > 0);
//! # Ok(())
//! # }
//! ```
//!
//! A sink, in five lines:
//!
//! ```
//! # use layercast::{Frame, Group, Server, Span, join};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> layercast::Result<()> {
//! # let server = Server::bind("127.0.0.1:0").await?;
//! # let group = server.open_group(Group::new("film")).await?;
//! # let url = group.url();
//! # let source = tokio::spawn(async move {
//! #     group.send(Frame::base(vec![1; 99])).await?;
//! #     group.send(Frame::base(vec![2; 99])).await?;
//! #     group.wait_for_members(1).await;
//! #     for n in 3..24 { group.send(Frame::base(vec![n; 99])).await?; }
//! #     group.close(Span::from_secs(5)).await
//! # });
//! let (mut media, _control, _management) = join(&url).await?;
//! while let Some(frame) = media.recv().await {
//!     println!("{} of {} bytes", frame.layer, frame.data.len());
//! }
//! # source.await.unwrap()?;
//! # Ok(())
//! # }
//! ```
//!
//! | socket | source | sink |
//! |---|---|---|
//! | media | [`OpenGroup::send`] | [`MediaSocket::recv`] |
//! | control | [`OpenGroup::control`] | [`ControlSocket`] |
//! | management | [`OpenGroup::management`] | [`ManagementSocket`] |
//!
//! Those that want the machines themselves, without sockets and clocks, find them in
//! [`mets`] and [`link`]; the loops that drive them are in [`net`].

mod control;
mod error;
mod frame;
mod group;
mod inbox;
mod join;
mod learn;
mod management;
mod media;
mod name;
mod server;
mod stream;
mod upcall;

pub use bytes::Bytes;
pub use control::{ControlSocket, GroupControl};
pub use error::{Error, Result};
pub use frame::{Frame, Played};
pub use group::{Group, OpenGroup};
pub use join::{Join, join};
pub use layercast_core::{
    AdaptMode, Alarm, AlarmOp, CellRate, Composition, FilterKind, FlowSpec, FrameRate, GroupInfo,
    GroupState, Layer, LayerRate, LeaveReason, Level, MaintMode, Metric, NodeId, Off, OnPlenty,
    OnScarce, PerLayer, QosOption, QosPolicy, Rate, Refusal, Resource, Span, Status,
};
pub use layercast_media::{Clip, Map};
pub use layercast_net::{Identity, LiveEvent, LiveOptions};
pub use layercast_qos::QosMetric;
pub use layercast_wire::{Member, MemberStats};
pub use management::{ManagementSocket, Signals};
pub use media::{MediaHandle, MediaSocket};
pub use server::Server;
pub use stream::OpenStream;
pub use upcall::{QosEvent, QosSignal};

/// Links as machines: queues, impairments, paths.
pub use layercast_link as link;
/// The machines of sources and sinks, and of a node that holds them.
pub use layercast_mets as mets;
/// The machine that sends media on.
pub use layercast_mets::switch;
/// The machines of reliable multicast: files to many receivers.
pub use layercast_multicast as multicast;
/// The loops that drive the machines over sockets.
pub use layercast_net as net;
/// Partial order connections: orders, tolerances and machines; over sockets
/// [`PartialOrderSender`](net::PartialOrderSender) and [`PartialOrderReceiver`](net::PartialOrderReceiver).
pub use layercast_partial_order as partial_order;
/// Machines that measure a path by a synchronous train; [`net::PathSender`] and [`net::PathReceiver`] run them on sockets.
pub use layercast_sync_index as sync_index;
/// TCP as a machine.
pub use layercast_tcp as tcp;
/// The packets of all protocols.
pub use layercast_wire as wire;
/// XTP 4.0 as a machine.
pub use layercast_xtp as xtp;
