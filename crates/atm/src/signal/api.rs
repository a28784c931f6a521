use layercast_core::{PortId, RequestId, Span};

use super::{CallId, GoBackNConfig, GoBackNStats, SignalCell};
use crate::policy::Service;
use crate::{AtmAddress, Class, RejectCause, Tag, Vcid};

/// The admission tests of the output queues of a node.
pub trait PortAdmission {
    /// Reserves the resources of a call at `port` and returns the class of its cells there; a refusal reserves
    /// nothing.
    fn reserve(
        &mut self,
        port: PortId,
        call: CallId,
        service: Service,
    ) -> Result<Class, RejectCause>;

    /// Releases the resources of this call.
    fn release(&mut self, port: PortId, call: CallId);
}

/// Configuration of a [`Controller`](crate::Controller).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControllerConfig {
    /// The address of a host adapter, where calls begin and end; `None` for a switch.
    pub address: Option<AtmAddress>,
    /// Number of circuits in each direction of a link (8,192).
    pub max_vcs: u16,
    /// Time before a circuit number is reused (5 s, longer than a cell stays in a queue).
    pub vcid_rest: Span,
    /// Time to wait for an answer (60 s).
    pub watchdog: Span,
    /// Processing time of a message (0); messages are processed in parallel.
    pub processing: Span,
    /// Largest number of messages being processed (4,096).
    pub backlog: usize,
    /// Configuration of the channels to the neighbours.
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

/// Input of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerInput {
    /// A cell of a link's signalling circuit.
    Cell {
        /// The link.
        port: PortId,
        /// The cell.
        cell: SignalCell,
    },
    /// The host requests a circuit.
    Setup {
        /// Number of the request, repeated in the answer.
        request: RequestId,
        /// Its destination.
        to: AtmAddress,
        /// Its service.
        service: Service,
        /// Its tag: which conversations may use it.
        tag: Tag,
    },
    /// The host releases a circuit.
    Release {
        /// Its link.
        port: PortId,
        /// The number of the circuit there.
        vc: Vcid,
    },
}

/// An entry of the switching table of a node, or of a host adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Input port; [`PortId::LOCAL`] if the circuit begins here.
    pub in_port: PortId,
    /// Circuit number at the input; that of the output if the circuit begins here.
    pub in_vc: Vcid,
    /// Output port.
    pub out_port: PortId,
    /// Circuit number at the output.
    pub out_vc: Vcid,
    /// Class of its cells in the output queue.
    pub class: Class,
    /// Requested service; cells under a contract may have to be regulated.
    pub service: Service,
}

/// Output of a controller to its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerEvent {
    /// Add this circuit to the switching table.
    Install(Connection),
    /// Remove this circuit from the switching table.
    Remove(Connection),
    /// A circuit requested by the host was set up.
    Ready {
        /// The request.
        request: RequestId,
        /// Its link.
        port: PortId,
        /// The number of the circuit there.
        vc: Vcid,
    },
    /// A circuit requested by the host was refused.
    Rejected {
        /// The request.
        request: RequestId,
        /// The cause.
        cause: RejectCause,
    },
    /// A circuit of the host failed.
    Lost {
        /// Its link.
        port: PortId,
        /// The number of the circuit there.
        vc: Vcid,
    },
    /// A circuit ends here: its cells are for the host.
    Incoming {
        /// Its link.
        port: PortId,
        /// The number of the circuit there.
        vc: Vcid,
        /// Address where it begins.
        from: AtmAddress,
        /// Its tag.
        tag: Tag,
    },
    /// A circuit that ends here was released.
    Released {
        /// Its link.
        port: PortId,
        /// The number of the circuit there.
        vc: Vcid,
    },
}

/// Counters of a controller, and its current state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ControllerStats {
    /// Calls that began or arrived here.
    pub setups: u64,
    /// Calls whose circuit was set up.
    pub connects: u64,
    /// Calls refused here, timeouts included.
    pub refused: u64,
    /// Calls refused further on.
    pub rejects: u64,
    /// Calls released.
    pub releases: u64,
    /// Calls without an answer in time.
    pub timeouts: u64,
    /// Messages about unknown calls, as happens when messages cross.
    pub unknown_call: u64,
    /// Messages about a call from a neighbour that is not on its path.
    pub wrong_port: u64,
    /// Repeated set-ups and answers.
    pub duplicate: u64,
    /// Set-ups with a circuit number that is in use or invalid.
    pub bad_vcid: u64,
    /// Cells of an unknown link.
    pub unknown_port: u64,
    /// Invalid requests of the host: releases of circuits that it does not have.
    pub bad_request: u64,
    /// Answers not sent because the channel is full; the neighbour's watchdog handles that.
    pub unanswered: u64,
    /// Messages refused because too many are being processed; the channel repeats them.
    pub backlog_full: u64,
    /// Counters of all channels.
    pub channels: GoBackNStats,
    /// Calls with or waiting for a circuit here at present.
    pub calls: usize,
    /// Circuit numbers of outgoing links in use at present.
    pub vcids: usize,
    /// Largest number of calls at one time.
    pub max_calls: usize,
}
