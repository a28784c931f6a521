//! Multimedia partial order connections: several flows in one transport connection, with an order over all their
//! SDUs and a tolerated loss for each flow.
//!
//! The receiver delivers an SDU as soon as the order permits. If predecessors are missing it declares them lost while
//! every flow stays within its tolerance, and requests them otherwise (M. Fournier, C. Chassot, A. Lozes, M. Diaz,
//! Multimedia Partial Order Transport Architecture, PfHSN 1996; specs/partial-order-transport.md).
//!
//! ```text
//! one flow in total order, no loss            as TCP
//! no order, any loss                          as UDP
//! blocks of pictures and sound, 10 % loss     what lies between
//! ```
//!
//! # Driving a machine
//!
//! [`Sender`] and [`Receiver`] are sans-I/O. After each [`submit`](Sender::submit), `handle` and `on_timeout` drain
//! `poll_transmit` and `poll_event` until both give `None`, then ask `next_timeout`. Both implement
//! [`Machine`](layercast_core::Machine).
//!
//! ```
//! use bytes::Bytes;
//! use layercast_core::{Span, Time};
//! use layercast_partial_order::{
//!     Config, FlowConfig, Order, Policy, Receiver, ReceiverEvent, ReceiverOptions, Sender, SenderOptions, Tolerance,
//! };
//!
//! // Two pictures and one block of sound each 80 ms; sound tolerates no loss.
//! let flows = vec![
//!     FlowConfig::new(Span::from_ms(40), Tolerance::rate(0.1)),
//!     FlowConfig::new(Span::from_ms(80), Tolerance::Full),
//! ];
//! let config = Config::new(7, flows, Order::blocks(&[2, 1])?, Policy::PerGroup);
//! let mut sender = Sender::new(config, SenderOptions::default(), Time::ZERO)?;
//! let mut receiver = Receiver::new(ReceiverOptions::default());
//! let exchange = |sender: &mut Sender, receiver: &mut Receiver| {
//!     loop {
//!         if let Some(datagram) = sender.poll_transmit() {
//!             receiver.handle(Time::ZERO, datagram);
//!         } else if let Some(datagram) = receiver.poll_transmit() {
//!             sender.handle(Time::ZERO, datagram);
//!         } else {
//!             break;
//!         }
//!     }
//! };
//! exchange(&mut sender, &mut receiver);
//! sender.submit(0, Bytes::from_static(b"picture"), Time::ZERO)?;
//! exchange(&mut sender, &mut receiver);
//! assert_eq!(receiver.poll_event(), Some(ReceiverEvent::Opened { flows: 2 }));
//! assert!(matches!(receiver.poll_event(), Some(ReceiverEvent::Deliver { flow: 0, number: 0, .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod event;
mod explain;
mod measure;
mod order;
pub mod pdu;
mod receiver;
mod sender;
pub mod study;
mod tolerance;
mod watch;

pub use config::{
    Config, ConfigError, DEFAULT_WINDOW, FlowConfig, MAX_PDU, MAX_SDU, MAX_WINDOW, Policy,
};
pub use event::{LossCause, ReceiverEvent, ReceiverStats, SenderEvent, SenderStats};
pub use explain::{Explanation, Held, Hold};
pub use order::{
    Arc, MAX_BLOCK, MAX_CHAINS, MAX_FLOWS, MAX_NODES, Order, OrderError, Place, Sdu, Transition,
    Tspn, TspnError,
};
pub use receiver::{Receiver, ReceiverOptions};
pub use sender::{KEEP_ALIVE, PEER_TIMEOUT, Sender, SenderOptions, SubmitError, WindowRule};
pub use tolerance::{MAX_RATE_WINDOW, RATE_WINDOW, Tolerance};
