//! What the user asks of a running node.

use layercast_core::{Observer, Time};
use layercast_wire::FlowInfo;

use super::Machines;
use crate::command::{FlowState, NodeCommand};
use crate::config::LocalSource;
use crate::error::NetError;
use crate::local::Running;

impl Machines {
    /// Does what the user asks.
    pub fn on_command<O: Observer>(&mut self, now: Time, command: NodeCommand, obs: &mut O) {
        match command {
            NodeCommand::Open { source, reply } => drop(reply.send(self.open(now, *source))),
            NodeCommand::Close { flow, grace, reply } => {
                if let Some(running) = self.running(&flow) {
                    running.close(now, grace, reply);
                }
            }
            NodeCommand::Register { flow } => {
                if let Some(running) = self.running(&flow) {
                    running.source.register();
                    running.feed(now);
                }
            }
            NodeCommand::Request {
                flow,
                option,
                reply,
            } => {
                if let Some(running) = self.running(&flow) {
                    let id = running.requests.ask(reply);
                    running.source.request(now, id, option);
                }
            }
            NodeCommand::Control {
                flow,
                member,
                message,
                reply,
            } => {
                if let Some(running) = self.running(&flow) {
                    let sent = running.source.send_control(now, &member, message);
                    let _ = reply.send(sent);
                }
            }
            NodeCommand::Info { flow, reply } => {
                if let Some(running) = self.running(&flow) {
                    let source = &running.source;
                    let _ = reply.send(FlowState {
                        info: source.group_info(),
                        stats: source.stats(),
                        members: source.member_stats(now),
                    });
                }
            }
        }
        self.drain_all(now, obs);
    }

    fn open(&mut self, now: Time, source: LocalSource) -> Result<FlowInfo, NetError> {
        let mut running = Running::new(source)?;
        let taken = |other: &Running| other.name == running.name || other.flow == running.flow;
        if self.sources.iter().any(|it| taken(it) && !it.finished) {
            return Err(NetError::FlowExists { flow: running.name });
        }
        self.sources.retain(|other| !taken(other));
        running.feed(now);
        let info = running.source.flow().clone();
        self.sources.push(running);
        Ok(info)
    }

    /// The flow of that name that has not ended.
    fn running(&mut self, flow: &str) -> Option<&mut Running> {
        let mut sources = self.sources.iter_mut();
        sources.find(|running| running.name == flow && !running.finished)
    }
}
