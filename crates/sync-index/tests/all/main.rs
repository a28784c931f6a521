//! Tests of the synchronicity index.

mod edges;
mod index;
mod machines;
mod properties;
mod replay;
mod services;
mod studies;
