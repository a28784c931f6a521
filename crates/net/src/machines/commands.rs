//! What the user asks of a running node.

use layercast_core::{Observer, Time};
use layercast_mets::Source;
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
                if let Some((running, source)) = self.running(&flow) {
                    running.close(source, now, grace, reply);
                }
            }
            NodeCommand::Register { flow } => {
                if let Some((running, source)) = self.running(&flow) {
                    source.register();
                    running.feed(source, now);
                }
            }
            NodeCommand::Request {
                flow,
                option,
                reply,
            } => {
                if let Some((running, source)) = self.running(&flow) {
                    let id = running.requests.ask(reply);
                    source.request(now, id, option);
                }
            }
            NodeCommand::Input {
                flow,
                media_ms_per_s,
                damaged,
            } => {
                if let Some((_, source)) = self.running(&flow) {
                    source.set_input(media_ms_per_s, damaged);
                }
            }
            NodeCommand::InputFailed { flow, done } => {
                if let Some((_, source)) = self.running(&flow) {
                    source.fail_input();
                }
                // The input may not wait for it any more.
                let _ = done.send(());
            }
            NodeCommand::Control {
                flow,
                member,
                message,
                reply,
            } => {
                if let Some((_, source)) = self.running(&flow) {
                    let sent = source.send_control(now, &member, message);
                    let _ = reply.send(sent);
                }
            }
            NodeCommand::Info { flow, reply } => {
                if let Some((_, source)) = self.running(&flow) {
                    let _ = reply.send(FlowState {
                        info: source.group_info(),
                        stats: source.stats(),
                        members: source.member_stats(now),
                    });
                }
            }
        }
        self.settle(now, obs);
    }

    fn open(&mut self, now: Time, source: LocalSource) -> Result<FlowInfo, NetError> {
        let (running, source) = Running::new(now, source)?;
        let taken = |other: &Running| other.name == running.name || other.flow == running.flow;
        if self.flows.iter().any(|it| taken(it) && !it.finished) {
            return Err(NetError::FlowExists { flow: running.name });
        }
        for place in (0..self.flows.len()).rev() {
            if taken(&self.flows[place]) {
                self.flows.remove(place);
                self.station.remove_source(place);
            }
        }
        let info = source.flow().clone();
        self.add(now, running, source);
        Ok(info)
    }

    /// The flow of that name that has not ended.
    fn running(&mut self, flow: &str) -> Option<(&mut Running, &mut Source)> {
        let mut flows = self.flows.iter();
        let place = flows.position(|running| running.name == flow && !running.finished)?;
        let source = self.station.source_mut(place)?;
        Some((&mut self.flows[place], source))
    }
}
