//! One to many (specs/xtp.md 2.13): services, random schedules, hostile receivers.

mod capture;
mod hostile;
mod net;
mod schedules;
mod services;
