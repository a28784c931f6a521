use layercast_core::{PortId, RequestId, Span};

use super::{CallId, GoBackNConfig, GoBackNStats, SignalCell};
use crate::policy::Service;
use crate::{AtmAddress, Class, RejectCause, Tag, Vcid};

/// The admission tests of the output queues of a node.
pub trait PortAdmission {
    /// Reserves at `port` what the call asks for and gives the class of its cells there, or refuses and
    /// reserves nothing.
    fn reserve(
        &mut self,
        port: PortId,
        call: CallId,
        service: Service,
    ) -> Result<Class, RejectCause>;

    /// Gives back what [`reserve`](PortAdmission::reserve) gave this call.
    fn release(&mut self, port: PortId, call: CallId);
}

/// How a [`Controller`](crate::Controller) behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControllerConfig {
    /// The address of a host adapter, where calls begin and end; a switch has none.
    pub address: Option<AtmAddress>,
    /// Circuits in each direction of a link (8,192).
    pub max_vcs: u16,
    /// How long a circuit number is not used again (5 s: longer than a cell stays in a queue).
    pub vcid_rest: Span,
    /// How long an answer is waited for (60 s).
    pub watchdog: Span,
    /// How long each message takes to be understood (0); messages do not wait for each other.
    pub processing: Span,
    /// Messages that may be in the process of being understood (4,096).
    pub backlog: usize,
    /// The channels to the neighbours.
    pub channel: GoBackNConfig,
}

impl Default for ControllerConfig {
    /// A switch with the values of specs/insane-simulator.md 3.
    fn default() -> ControllerConfig {
        ControllerConfig {
            address: None,
            max_vcs: 8_192,
            vcid_rest: Span::from_secs(5),
            watchdog: Span::from_secs(60),
            processing: Span::ZERO,
            backlog: 4_096,
            channel: GoBackNConfig::default(),
        }
    }
}

/// What a controller takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerInput {
    /// A cell of the signalling circuit of a link.
    Cell {
        /// Which link.
        port: PortId,
        /// The cell.
        cell: SignalCell,
    },
    /// The host wants a circuit.
    Setup {
        /// To be told in the answer.
        request: RequestId,
        /// Where it ends.
        to: AtmAddress,
        /// What it asks for.
        service: Service,
        /// Who may use it.
        tag: Tag,
    },
    /// The host gives a circuit back.
    Release {
        /// Its link.
        port: PortId,
        /// Its number there.
        vc: Vcid,
    },
}

/// A line of the table of a node, or of the adapter of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Where its cells come in; [`PortId::LOCAL`] if they begin here.
    pub in_port: PortId,
    /// Its number there; that of the output if they begin here.
    pub in_vc: Vcid,
    /// Where its cells go out.
    pub out_port: PortId,
    /// Its number there.
    pub out_vc: Vcid,
    /// The class of its cells in the output queue.
    pub class: Class,
    /// What it asked for: with a contract, its cells may have to be held to it.
    pub service: Service,
}

/// What a controller tells the node it sits on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerEvent {
    /// Cells of this circuit are to be sent on.
    Install(Connection),
    /// And no longer.
    Remove(Connection),
    /// A circuit the host asked for is there.
    Ready {
        /// The request.
        request: RequestId,
        /// Its link.
        port: PortId,
        /// Its number there.
        vc: Vcid,
    },
    /// A circuit the host asked for is refused.
    Rejected {
        /// The request.
        request: RequestId,
        /// Why.
        cause: RejectCause,
    },
    /// A circuit of the host is no more.
    Lost {
        /// Its link.
        port: PortId,
        /// Its number there.
        vc: Vcid,
    },
    /// A circuit ends here: what comes by it is for the host.
    Incoming {
        /// Its link.
        port: PortId,
        /// Its number there.
        vc: Vcid,
        /// Where it begins.
        from: AtmAddress,
        /// Who uses it.
        tag: Tag,
    },
    /// A circuit that ends here was given back.
    Released {
        /// Its link.
        port: PortId,
        /// Its number there.
        vc: Vcid,
    },
}

/// What a controller counted, and what it holds now.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ControllerStats {
    /// Calls begun here or arrived.
    pub setups: u64,
    /// Calls that got their circuit.
    pub connects: u64,
    /// Calls refused here, timeouts included.
    pub refused: u64,
    /// Calls refused farther on.
    pub rejects: u64,
    /// Calls given back.
    pub releases: u64,
    /// Calls nobody answered in time.
    pub timeouts: u64,
    /// Messages about calls that are not, as happens when messages cross.
    pub unknown_call: u64,
    /// Messages about a call from a neighbour who has no say in it.
    pub wrong_port: u64,
    /// Set-ups of calls that are, and answers given twice.
    pub duplicate: u64,
    /// Set-ups with a circuit number that is in use or cannot be.
    pub bad_vcid: u64,
    /// Cells of a link that is not.
    pub unknown_port: u64,
    /// Requests of the host that are none: releases of what it does not have.
    pub bad_request: u64,
    /// Answers not given because the channel is full; the watchdog of the neighbour sees to it.
    pub unanswered: u64,
    /// Messages not taken because too many are being understood; they come again.
    pub backlog_full: u64,
    /// All channels together.
    pub channels: GoBackNStats,
    /// Calls that have or wait for a circuit here, now.
    pub calls: usize,
    /// Circuit numbers of outgoing links in use, now.
    pub vcids: usize,
    /// Most calls at one time.
    pub max_calls: usize,
}
