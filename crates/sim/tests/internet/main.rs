//! Internetworks: TCP, queues and applications over links, routers and shared media.

mod atm;
mod atm_hosts;
mod capture;
mod capture_cells;
mod common;
mod contract;
mod discipline;
mod ecmp;
mod ecn;
mod external;
mod generate;
mod monitor;
mod queues;
mod recovery;
mod series;
mod starts;
mod tcp;
mod told;
mod trace;
#[path = "../../../wire/tests/common/tshark.rs"]
mod tshark;
mod workload;
mod xtp;
mod xtp_group;
