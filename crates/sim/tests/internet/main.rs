//! Internetworks: TCP, queues and applications over links, routers and shared media.

mod common;
mod queues;
mod tcp;
mod workload;
