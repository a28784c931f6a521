//! Internetworks: TCP, queues and applications over links, routers and shared media.

mod atm;
mod atm_hosts;
mod capture;
mod common;
mod contract;
mod external;
mod queues;
mod tcp;
mod workload;
mod xtp;
