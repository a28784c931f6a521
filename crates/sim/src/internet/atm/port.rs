use std::collections::{BTreeMap, VecDeque};

use layercast_atm::policy::Service;
use layercast_atm::signal::{CallId, PortAdmission};
use layercast_atm::{
    Admission, AdmissionError, Cell, Class, OutputQueue, RejectCause, Reservation, TrafficSpec,
};
use layercast_core::{PortId, Span, Time};

use crate::kernel::SourceId;

/// One end of a link: the queue before it, and the cells on their way to the other end.
#[derive(Debug)]
pub(super) struct Port {
    pub node: u32,
    /// Its number at the node.
    pub id: u16,
    /// The port at the other end, among all.
    pub peer: u32,
    pub queue: OutputQueue,
    pub cell_time: Span,
    pub delay: Span,
    /// When the cell being sent has left.
    pub busy_until: Time,
    pub wire: VecDeque<(Time, Cell)>,
    /// Due when the first cell on the wire arrives.
    pub arrives: SourceId,
    /// Due when the next cell may leave.
    pub leaves: SourceId,
}

/// The admission tests of the ports of a node.
#[derive(Debug)]
pub(crate) struct Gates {
    ports: Vec<Admission>,
    reservations: BTreeMap<(PortId, CallId), Reservation>,
}

impl Gates {
    pub fn new(cell_times: impl Iterator<Item = Span>) -> Gates {
        Gates {
            ports: cell_times.map(Admission::new).collect(),
            reservations: BTreeMap::new(),
        }
    }
}

impl PortAdmission for Gates {
    fn reserve(
        &mut self,
        port: PortId,
        call: CallId,
        service: Service,
    ) -> Result<Class, RejectCause> {
        match service {
            Service::BestEffort => Ok(Class::BestEffort),
            Service::Priority(level) => Ok(Class::Level(level)),
            Service::Guaranteed(contract) => {
                let Some(gate) = self.ports.get_mut(usize::from(port.0)) else {
                    return Err(RejectCause::UnknownDestination);
                };
                let level = gate.level_for(contract.delay).unwrap_or(0);
                let reservation = gate.admit(&contract).map_err(|error| match error {
                    AdmissionError::Contract(_) | AdmissionError::Delay { .. } => {
                        RejectCause::Contract
                    }
                    _ => RejectCause::Capacity(level),
                })?;
                let class = reservation.class();
                self.reservations.insert((port, call), reservation);
                Ok(class)
            }
        }
    }

    fn release(&mut self, port: PortId, call: CallId) {
        if let Some(reservation) = self.reservations.remove(&(port, call)) {
            self.ports[usize::from(port.0)].release(reservation);
        }
    }
}

/// What cells of a circuit are held to.
pub(super) fn traffic(service: Service) -> Option<TrafficSpec> {
    match service {
        Service::Guaranteed(contract) => Some(contract.traffic),
        Service::BestEffort | Service::Priority(_) => None,
    }
}
