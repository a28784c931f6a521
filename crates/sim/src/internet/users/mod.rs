//! What uses the hosts: flows, and the conversations of applications.

pub(super) mod apps;
pub(super) mod flows;
pub(super) mod group;
