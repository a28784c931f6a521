//! Signalling, simplified from the Tenet suite's RCAP: one round trip sets up a circuit (specs/insane-simulator.md
//! 2.5).
//!
//! ```text
//!  host          switch        switch          host
//!   | SETUP ------> | SETUP ------> | SETUP ------> |   circuit numbers and reservations on the way
//!   | <---- CONNECT | <---- CONNECT | <---- CONNECT |   tables
//!   |               |               |               |
//!   | RELEASE ----> | RELEASE ----> | RELEASE ----> |   given back as it passes
//! ```
//!
//! Neighbours communicate through a [`GoBackN`] channel, so that no message is lost or duplicated. Other failures end
//! with the watchdog, which undoes both directions. Circuits are simplex.

mod api;
mod codec;
mod controller;
mod gates;
mod go_back_n;
mod message;
#[cfg(test)]
mod tests;
mod vcids;

pub use api::{
    Connection, ControllerConfig, ControllerEvent, ControllerInput, ControllerStats, PortAdmission,
};
pub use codec::SignalCellError;
pub use controller::Controller;
pub use gates::Gates;
pub use go_back_n::{ChannelFull, GoBackN, GoBackNConfig, GoBackNStats};
pub use message::{Body, CallId, Message, Setup, SignalCell};
