//! XTP end to end: two hosts in virtual time.

mod golden;
mod hostile;
mod net;
mod schedules;
mod services;
mod streams;
