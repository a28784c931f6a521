//! What a scenario means where it says nothing.

use layercast_core::{Level, Span};
use layercast_wire::{Carriage, Mark};

use super::units::QueueSize;

pub fn seed() -> u64 {
    1
}
pub fn carriage() -> Carriage {
    Carriage::Datagrams
}
pub fn era() -> Span {
    Span::from_secs(1)
}
pub fn res_interval() -> Span {
    Span::from_ms(250)
}
pub fn aal5_mark() -> Mark {
    Mark::Last
}
pub fn detection() -> Span {
    Span::from_ms(10)
}
pub fn queue() -> QueueSize {
    QueueSize::Cells(256)
}
pub fn efci() -> f64 {
    0.25
}
pub fn bl_share() -> f64 {
    0.9
}
pub fn one() -> f64 {
    1.0
}
pub fn yes() -> bool {
    true
}
pub fn full() -> Level {
    Level::FULL
}
