//! TCP end to end: two hosts in virtual time.

mod adversary;
mod hostile;
mod matrix;
mod net;
