//! What the fuzz targets check, apart from them so that plain tests replay the corpus.

pub mod atm;
pub mod edge;
pub mod ilp;
pub mod internet;
pub mod link;
pub mod media;
pub mod multicast;
pub mod partial_order;
pub mod picture;
pub mod protect;
pub mod receive;
pub mod repair;
pub mod shared_line;
pub mod scenario;
pub mod smpte;
pub mod snmp;
pub mod sync_index;
pub mod wire;
pub mod workload;
pub mod xtp;
pub mod xtpd;
