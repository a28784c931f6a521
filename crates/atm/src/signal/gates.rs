use std::collections::BTreeMap;

use layercast_core::{PortId, Span};

use super::{CallId, PortAdmission};
use crate::policy::Service;
use crate::{Admission, AdmissionError, Class, RejectCause, Reservation};

/// Admission to delay levels for all ports of a node; best effort and priorities are always admitted.
#[derive(Debug)]
pub struct Gates {
    ports: Vec<Admission>,
    reservations: BTreeMap<(PortId, CallId), Reservation>,
}

impl Gates {
    /// Creates unused ports; `cell_times` lists their transmission times of a cell.
    pub fn new(cell_times: impl IntoIterator<Item = Span>) -> Gates {
        Gates {
            ports: cell_times.into_iter().map(Admission::new).collect(),
            reservations: BTreeMap::new(),
        }
    }

    /// Number of contracts admitted on all ports.
    pub fn reservations(&self) -> usize {
        self.reservations.len()
    }
}

impl PortAdmission for Gates {
    fn reserve(
        &mut self,
        port: PortId,
        call: CallId,
        service: Service,
    ) -> Result<Class, RejectCause> {
        let contract = match service {
            Service::BestEffort => return Ok(Class::BestEffort),
            Service::Priority(level) => return Ok(Class::Level(level)),
            Service::Guaranteed(contract) => contract,
        };
        let gate = self.ports.get_mut(usize::from(port.0));
        let gate = gate.ok_or(RejectCause::UnknownDestination)?;
        let level = gate.level_for(contract.delay);
        let reservation = gate
            .admit(&contract)
            .map_err(|error| match (error, level) {
                (AdmissionError::Level { level, .. }, _) => RejectCause::Capacity(level),
                (AdmissionError::Rate { .. }, Some(level)) => RejectCause::Capacity(level),
                _ => RejectCause::Contract,
            })?;
        let class = reservation.class();
        self.reservations.insert((port, call), reservation);
        Ok(class)
    }

    fn release(&mut self, port: PortId, call: CallId) {
        let gate = self.ports.get_mut(usize::from(port.0));
        if let (Some(gate), Some(held)) = (gate, self.reservations.remove(&(port, call))) {
            gate.release(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Rate;

    use super::*;
    use crate::policy::ConversationType::{self, *};
    use crate::{AtmAddress, Contract};

    const PORT: PortId = PortId(1);

    fn gates() -> Gates {
        Gates::new([Rate::from_bps(1_536_000).time_for(53); 2])
    }

    fn call(number: u32) -> CallId {
        CallId {
            origin: AtmAddress(1),
            number,
        }
    }

    fn service(kind: ConversationType) -> Service {
        Service::Guaranteed(kind.contract().unwrap())
    }

    #[test]
    fn fourteen_web_servers_fill_a_link_until_one_leaves() {
        let mut gates = gates();
        for n in 0..14 {
            let class = gates.reserve(PORT, call(n), service(HttpDown));
            assert_eq!(class, Ok(Class::Level(3)));
        }
        let full = Err(RejectCause::Capacity(3));
        assert_eq!(gates.reserve(PORT, call(14), service(HttpDown)), full);
        // Other ports, and requests without a guarantee, are not affected.
        let elsewhere = gates.reserve(PortId(0), call(14), service(HttpDown));
        assert_eq!(elsewhere, Ok(Class::Level(3)));
        let no_contract = [
            (Service::Priority(1), Class::Level(1)),
            (Service::BestEffort, Class::BestEffort),
        ];
        for (n, (service, class)) in (20..).zip(no_contract) {
            assert_eq!(gates.reserve(PORT, call(n), service), Ok(class));
            gates.release(PORT, call(n));
        }
        assert_eq!(gates.reservations(), 15);
        gates.release(PORT, call(3));
        gates.release(PORT, call(3));
        assert!(gates.reserve(PORT, call(14), service(HttpDown)).is_ok());
        assert_eq!(gates.reserve(PORT, call(15), service(HttpDown)), full);
    }

    #[test]
    fn contracts_that_no_port_can_keep_are_refused_as_such() {
        let video = Video.contract().unwrap();
        let hasty = Service::Guaranteed(Contract {
            delay: Span::from_ms(4),
            ..video
        });
        let mut broken = video;
        broken.traffic.x_ave = Span::ZERO;
        let mut gates = gates();
        for service in [hasty, Service::Guaranteed(broken)] {
            let refused = gates.reserve(PORT, call(0), service);
            assert_eq!(refused, Err(RejectCause::Contract));
        }
        let nowhere = gates.reserve(PortId(2), call(0), service(Audio));
        assert_eq!(nowhere, Err(RejectCause::UnknownDestination));
        assert_eq!(gates.reservations(), 0);
    }
}
