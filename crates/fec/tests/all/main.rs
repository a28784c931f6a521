//! Tests of the codes and of the layers above them.

mod codes;
mod controller;
mod edge;
mod hostile;
mod models;
mod placements;
mod replay;
mod smpte;
mod stream;
mod studies;
mod trees;
