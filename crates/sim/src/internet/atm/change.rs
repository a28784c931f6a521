use layercast_atm::signal::{Connection, ControllerEvent};
use layercast_atm::{Class, TrafficSpec, Vcid};
use layercast_core::PortId;

use super::port::{Line, traffic};

/// What a controller changes at its node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// By which port, among all, cells of the circuit go out, and its number there.
    pub to: Line,
    /// How the queue of that port treats them from now on; none if there are no more.
    pub opens: Option<(Class, Option<TrafficSpec>)>,
    /// By which port, among all, they come in, and under which number, if they do not begin here.
    pub from: Option<(u32, Vcid)>,
}

impl Change {
    /// What an event changes at the node with this first port.
    pub fn of(first: u32, event: &ControllerEvent) -> Option<Change> {
        let (connection, opens) = match event {
            ControllerEvent::Install(it) => (it, Some((it.class, traffic(it.service)))),
            ControllerEvent::Remove(it) => (it, None),
            _ => return None,
        };
        let port = |id: PortId| first + u32::from(id.0);
        let &Connection {
            in_port,
            in_vc,
            out_port,
            out_vc,
            ..
        } = connection;
        Some(Change {
            to: Line {
                port: port(out_port),
                vc: out_vc,
            },
            opens,
            from: (in_port != PortId::LOCAL).then(|| (port(in_port), in_vc)),
        })
    }

    /// Where cells that come in by this port go now. A circuit does not go back where it came from.
    pub fn line(&self, from: u32) -> Option<Line> {
        let goes = self.opens.is_some() && self.to.port != from;
        goes.then_some(self.to)
    }
}
