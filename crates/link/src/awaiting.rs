use layercast_core::FlowId;
use layercast_wire::Signal;

/// Most joins of a neighbour that are remembered.
const MAX_JOINS: usize = 64;

/// The joins of a neighbour that have no answer yet. Others on its port must not take a refusal for theirs.
#[derive(Clone, Default, Debug)]
pub struct Awaiting {
    joins: Vec<FlowId>,
}

impl Awaiting {
    /// The neighbour says something.
    pub fn heard(&mut self, signal: &Signal) {
        if let Signal::Join { flow, .. } = signal
            && self.joins.len() < MAX_JOINS
        {
            self.joins.push(*flow);
        }
    }

    /// Whether a signal to all neighbours on its port is for it, too: all are, but answers to joins of others. It awaits the
    /// answer no longer then.
    pub fn takes(&mut self, signal: &Signal) -> bool {
        let (Signal::JoinAck { flow, .. } | Signal::JoinNak { flow, .. }) = signal else {
            return true;
        };
        let before = self.joins.len();
        self.joins.retain(|other| other != flow);
        self.joins.len() < before
    }
}
