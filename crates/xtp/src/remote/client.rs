use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::Frames;
use crate::{ContextId, XtpConfig};

/// A port that a user takes associations to.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) config: XtpConfig,
    /// Of the memory of its user, for those that are not accepted.
    pub(super) charge: u64,
    /// The name that the user wants the next association to have.
    pub(super) wants: Option<ContextId>,
}

/// A user of a server.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) process: Option<u32>,
    pub(super) greeted: bool,
    /// It asked for more than the figures of the server.
    pub(super) counts: bool,
    /// Contexts of the endpoint by the names that the user gave them.
    pub(super) names: HashMap<ContextId, ContextId>,
    pub(super) doors: BTreeMap<u16, Door>,
    /// Contexts, also those that it said good-bye to and are not over.
    pub(super) contexts: usize,
    /// Bytes that all of them can take.
    pub(super) memory: u64,
    pub(super) frames: Frames,
    /// Contexts with something to tell.
    pub(super) listed: VecDeque<ContextId>,
}

/// The view of a server's client for an observer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClientStats {
    /// Number of its process, if known.
    pub process: Option<u32>,
    /// Its contexts.
    pub contexts: usize,
    /// XTP ports on which it accepts associations.
    pub ports: Vec<u16>,
    /// Largest memory of its contexts in the daemon, in bytes.
    pub memory: u64,
    /// Unread data, in bytes.
    pub waiting: usize,
}

impl Client {
    pub(super) fn stats(&self) -> ClientStats {
        ClientStats {
            process: self.process,
            contexts: self.contexts,
            // As many as a report of all users has place for.
            ports: self.doors.keys().copied().take(16).collect(),
            memory: self.memory,
            waiting: self.frames.len(),
        }
    }
}
