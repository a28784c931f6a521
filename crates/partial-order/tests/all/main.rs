//! Tests of partial order connections.

mod closing;
mod edges;
mod extensions;
mod monitored;
mod order;
mod pdu;
mod properties;
mod receiving;
mod replay;
mod sending;
mod studies;
mod tolerances;
mod wire;
