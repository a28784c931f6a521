//! The policy space of IP over ATM: the 103 policies of the study with types of conversation and their services
//! (specs/insane-study.md 2.1, 2.4, 3.1, 3.2), and 64 policies with modern disciplines.

mod conversation;
mod name;
mod service;

pub use conversation::{ConversationType, FlowKey, MediaKind};
pub use name::{NameProblem, PolicyNameError};
pub use service::Service;

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Discipline;

/// The scheduler of a QoS policy (specs/insane-study.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scheduler {
    /// Static priority: levels without contracts.
    Sp,
    /// Work-conserving RCSP.
    Wc,
    /// RCSP with rate-jitter control, not work-conserving.
    Nwc,
    /// Deficit round robin with weights; not in the study.
    Drr,
    /// Earliest deadline first without contracts; not in the study.
    Edf,
}

/// The applications that a QoS policy elevates (Table 4-6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AppSet {
    /// Telnet.
    Telnet,
    /// FTP, control and data.
    Ftp,
    /// HTTP.
    Http,
    /// Audio.
    Audio,
    /// Video.
    Video,
    /// Telnet and HTTP.
    Isp,
    /// Audio and video.
    Av,
    /// All five.
    Qos1,
}

/// Which packets share a circuit (specs/insane-study.md 2.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mux {
    /// Packets of one direction of a conversation.
    Conv,
    /// Packets of one type between one pair of hosts.
    App,
    /// All packets to the same router.
    Router,
}

/// When a circuit is opened, cached and closed (specs/insane-study.md 2.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum VcManagement {
    /// Opened by the first packet, never closed.
    Pvc,
    /// Closed when idle.
    Svc,
    /// Cached for other conversations when idle, closed if not reused.
    SvcCache,
}

/// A policy of IP over ATM, written `<qos>-<mux>-<vc>`.
///
/// Only valid policies can be constructed; [`Policy::all`] returns the 103 of the study, [`Policy::later`] the
/// others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Policy {
    qos: Option<(Scheduler, AppSet)>,
    mux: Mux,
    management: VcManagement,
}

/// Reason why a combination of choices is invalid (specs/insane-study.md 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Rule {
    /// An aggregate has no meaningful contract.
    #[error("R1: router multiplexing mixes all conversations, so that it allows no QoS but noqos")]
    R1,
    /// A mesh of permanent circuits between all hosts is not feasible.
    #[error("R2: permanent circuits (pvc) need router multiplexing")]
    R2,
}

impl Policy {
    /// The policy of three choices; `None` elevates no application.
    pub fn new(
        qos: Option<(Scheduler, AppSet)>,
        mux: Mux,
        management: VcManagement,
    ) -> Result<Policy, Rule> {
        if mux == Mux::Router && qos.is_some() {
            return Err(Rule::R1);
        }
        if management == VcManagement::Pvc && mux != Mux::Router {
            return Err(Rule::R2);
        }
        Ok(Policy {
            qos,
            mux,
            management,
        })
    }

    /// All policies of the study, those without QoS first.
    pub fn all() -> impl Iterator<Item = Policy> {
        std::iter::once(None)
            .chain(sets(|scheduler| !scheduler.is_later()))
            .flat_map(points)
    }

    /// The policies with modern schedulers.
    pub fn later() -> impl Iterator<Item = Policy> {
        sets(Scheduler::is_later).flat_map(points)
    }

    /// The scheduler and the elevated applications; `None` is `noqos`.
    pub fn qos(self) -> Option<(Scheduler, AppSet)> {
        self.qos
    }

    /// The discipline of the network's output ports.
    pub fn discipline(self) -> Discipline {
        match self.qos {
            None => Discipline::Fcfs,
            Some((Scheduler::Sp, _)) => Discipline::Sp,
            Some((Scheduler::Wc, _)) => Discipline::RcspWc,
            Some((Scheduler::Nwc, _)) => Discipline::RcspNwc,
            Some((Scheduler::Drr, _)) => Discipline::Drr,
            Some((Scheduler::Edf, _)) => Discipline::Edf,
        }
    }

    /// Which packets share a circuit.
    pub fn mux(self) -> Mux {
        self.mux
    }

    /// The management of circuits.
    pub fn management(self) -> VcManagement {
        self.management
    }
}

impl Scheduler {
    /// Whether the policy is not in the study.
    fn is_later(self) -> bool {
        matches!(self, Scheduler::Drr | Scheduler::Edf)
    }
}

type Qos = Option<(Scheduler, AppSet)>;

/// Combinations of matching schedulers and application sets.
fn sets(which: fn(Scheduler) -> bool) -> impl Iterator<Item = Qos> {
    let schedulers = Scheduler::ALL.iter().copied().filter(move |&it| which(it));
    schedulers.flat_map(|scheduler| AppSet::ALL.iter().map(move |&apps| Some((scheduler, apps))))
}

/// The policies of a QoS choice.
fn points(qos: Qos) -> impl Iterator<Item = Policy> {
    Mux::ALL.iter().flat_map(move |&mux| {
        VcManagement::ALL
            .iter()
            .filter_map(move |&management| Policy::new(qos, mux, management).ok())
    })
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.qos {
            None => write!(f, "noqos")?,
            Some((scheduler, apps)) => write!(f, "{}-{}", scheduler.name(), apps.name())?,
        }
        write!(f, "-{}-{}", self.mux.name(), self.management.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_space_has_103_points_in_five_blocks() {
        let names: BTreeSet<String> = Policy::all().map(|policy| policy.to_string()).collect();
        assert_eq!(Policy::all().count(), 103);
        assert_eq!(names.len(), 103);
        let count = |start: &str| names.iter().filter(|name| name.starts_with(start)).count();
        assert_eq!(count("noqos-conv-") + count("noqos-app-"), 4);
        assert_eq!(count("noqos-router-"), 3);
        for scheduler in ["sp-", "wc-", "nwc-"] {
            assert_eq!(count(scheduler), 32, "{scheduler}");
        }
        let later: BTreeSet<String> = Policy::later().map(|policy| policy.to_string()).collect();
        assert_eq!(later.len(), 64);
        assert!(
            later
                .iter()
                .all(|name| name.starts_with("drr-") || name.starts_with("edf-"))
        );
    }

    #[test]
    fn ports_send_in_the_order_the_name_says() {
        let discipline = |name: &str| name.parse::<Policy>().unwrap().discipline();
        assert_eq!(discipline("noqos-router-pvc"), Discipline::Fcfs);
        assert_eq!(discipline("sp-av-conv-svc"), Discipline::Sp);
        assert_eq!(discipline("wc-av-conv-svc"), Discipline::RcspWc);
        assert_eq!(discipline("nwc-av-conv-svc"), Discipline::RcspNwc);
        assert_eq!(discipline("drr-av-conv-svc"), Discipline::Drr);
        assert_eq!(discipline("edf-av-conv-svc"), Discipline::Edf);
    }

    #[test]
    fn invalid_policies_break_a_rule() {
        let qos = Some((Scheduler::Sp, AppSet::Av));
        let new = Policy::new;
        assert_eq!(new(qos, Mux::Router, VcManagement::Pvc), Err(Rule::R1));
        assert_eq!(new(None, Mux::Conv, VcManagement::Pvc), Err(Rule::R2));
        assert_eq!(new(qos, Mux::App, VcManagement::Pvc), Err(Rule::R2));
    }
}
