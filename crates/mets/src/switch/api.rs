use layercast_core::{FlowId, Level, PortId, Rate, Span, Time};
use layercast_media::FilterRule;
use layercast_wire::{LinkPdu, Member, Refusal, Signal};
use serde::Serialize;

/// An input of a switch.
#[derive(Clone, PartialEq, Debug)]
pub enum SwitchInput {
    /// A PDU on a link.
    Pdu {
        /// From where.
        port: PortId,
        /// What.
        pdu: LinkPdu,
    },
    /// A message on the reliable channel of a link.
    Signal {
        /// From where.
        port: PortId,
        /// What.
        signal: Signal,
    },
    /// The reliable channel of a link stands.
    PortUp {
        /// Which.
        port: PortId,
    },
    /// The reliable channel of a link is lost.
    PortDown {
        /// Which.
        port: PortId,
    },
    /// The line of a link has another rate from now on: a radio link in the rain, a modem that
    /// trains again. Reservations stand, enhancement layers are divided again immediately.
    PortRate {
        /// Which.
        port: PortId,
        /// Its rate.
        rate: Rate,
    },
    /// The node is about to end. Flows that begin at other nodes are left there and withdrawn from those that have them from here;
    /// the sources of this node end their own flows.
    Stop,
}

/// An output of a switch.
#[derive(Clone, PartialEq, Debug)]
pub enum SwitchTransmit {
    /// A PDU on a link.
    Pdu {
        /// Where to.
        port: PortId,
        /// What.
        pdu: LinkPdu,
        /// When its first bit leaves, not later than the poll that gives it, and how long the line is busy with it.
        at: (Time, Span),
    },
    /// A message on the reliable channel of a link.
    Signal {
        /// Where to.
        port: PortId,
        /// What.
        signal: Signal,
    },
}

/// What a switch tells its user.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum SwitchEvent {
    /// A branch is committed: its base layer is reserved.
    Admitted {
        /// Of which flow.
        flow: FlowId,
        /// On which port.
        port: PortId,
        /// The member.
        member: Member,
    },
    /// A join failed, here or further upstream.
    Refused {
        /// Of which flow.
        flow: FlowId,
        /// From which port.
        port: PortId,
        /// Why.
        refusal: Refusal,
    },
    /// The last member of a branch left.
    Released {
        /// Of which flow.
        flow: FlowId,
        /// On which port.
        port: PortId,
    },
    /// The level of a branch changes at the next GOP.
    Granted {
        /// Of which flow.
        flow: FlowId,
        /// On which port.
        port: PortId,
        /// Level before.
        from: Level,
        /// Level after.
        to: Level,
        /// Why.
        reason: &'static str,
    },
    /// A filter was put on a branch, or taken away.
    FilterChanged {
        /// Of which flow.
        flow: FlowId,
        /// On which port.
        port: PortId,
        /// What was there.
        from: Option<FilterRule>,
        /// What is there now.
        to: Option<FilterRule>,
    },
    /// A filter cannot be put on a branch: what is sealed can only lose whole layers on the way.
    FilterRefused {
        /// Of which flow.
        flow: FlowId,
        /// On which port.
        port: PortId,
        /// The filter.
        rule: FilterRule,
    },
    /// A branch was silent for three eras after the channel of its port was lost.
    BranchExpired {
        /// Of which flow.
        flow: FlowId,
        /// On which port.
        port: PortId,
    },
    /// A period ended for whose base layers a port promised a share of late bits.
    PromiseEnded {
        /// Which port.
        port: PortId,
        /// Bits late or lost, parts in a million.
        late_ppm: u32,
        /// Those that were promised at most.
        target_ppm: u32,
        /// Whether the promise was kept.
        kept: bool,
    },
    /// A port that admits by measurement cannot carry what it admitted, as its line has another rate; flows in
    /// progress continue.
    Overcommitted {
        /// Which port.
        port: PortId,
        /// What is too much.
        excess: Rate,
    },
    /// A flow is no more.
    FlowGone {
        /// Which.
        flow: FlowId,
    },
}

impl SwitchEvent {
    /// The port it is about, if it is about one.
    pub fn port(&self) -> Option<PortId> {
        match *self {
            SwitchEvent::Admitted { port, .. }
            | SwitchEvent::Refused { port, .. }
            | SwitchEvent::Released { port, .. }
            | SwitchEvent::Granted { port, .. }
            | SwitchEvent::FilterChanged { port, .. }
            | SwitchEvent::FilterRefused { port, .. }
            | SwitchEvent::BranchExpired { port, .. }
            | SwitchEvent::PromiseEnded { port, .. }
            | SwitchEvent::Overcommitted { port, .. } => Some(port),
            SwitchEvent::FlowGone { .. } => None,
        }
    }

    /// The flow, and the port whose neighbour takes it no more, if it tells of one.
    pub fn unwanted(&self) -> Option<(FlowId, PortId)> {
        match *self {
            SwitchEvent::Released { flow, port } | SwitchEvent::BranchExpired { flow, port } => {
                Some((flow, port)).filter(|_| port != PortId::LOCAL)
            }
            _ => None,
        }
    }
}

// Each packet is moved with these enums several times at a node: what only signals need is boxed in `Signal`.
const _: () = assert!(size_of::<SwitchTransmit>() <= 136 && size_of::<SwitchInput>() <= 136);
