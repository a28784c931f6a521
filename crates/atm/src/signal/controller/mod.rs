mod ports;
mod setup;
mod waiting;

use std::collections::{BTreeMap, VecDeque};

use layercast_core::{Machine, Observer, PortId, RequestId, Time, earliest};
use rustc_hash::FxHashMap;

use self::ports::Ports;
use self::waiting::Waiting;
use super::{
    Body, CallId, Connection, ControllerConfig, ControllerEvent, ControllerInput, ControllerStats,
    Message, PortAdmission, Setup, SignalCell,
};
use crate::{AtmAddress, RejectCause, Vcid};

/// The signalling process of a switch or of a host adapter, as a machine.
///
/// Neighbours can make it store only as much as the circuit numbers of its links and the queues of its channels
/// allow. An adapter serves one host: all its links lead to the same local port.
#[derive(Debug)]
pub struct Controller<A> {
    config: ControllerConfig,
    admission: A,
    ports: Ports,
    routes: BTreeMap<AtmAddress, PortId>,
    calls: FxHashMap<CallId, Call>,
    waiting: Waiting,
    /// Messages being processed, with the time of completion.
    backlog: VecDeque<(Time, PortId, Message)>,
    next_number: u32,
    events: VecDeque<ControllerEvent>,
    stats: ControllerStats,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    line: Connection,
    /// The request of the host, if it begins here.
    request: RequestId,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Waits for an answer until this time.
    Waiting(Time),
    Connected,
}

impl<A: PortAdmission> Controller<A> {
    /// Creates a controller without links and routes.
    pub fn new(config: ControllerConfig, admission: A) -> Controller<A> {
        Controller {
            config,
            admission,
            ports: Ports::default(),
            routes: BTreeMap::new(),
            calls: FxHashMap::default(),
            waiting: Waiting::default(),
            backlog: VecDeque::new(),
            next_number: 0,
            events: VecDeque::new(),
            stats: ControllerStats::default(),
        }
    }

    /// Adds a link to a neighbour; an existing id is unchanged, [`PortId::LOCAL`] is ignored.
    pub fn add_port(&mut self, id: PortId) {
        if id != PortId::LOCAL {
            self.ports.add(id, &self.config);
        }
    }

    /// Sets the route to `to`: later circuits leave by `port`.
    pub fn add_route(&mut self, to: AtmAddress, port: PortId) {
        self.routes.insert(to, port);
    }

    /// Counters and current state.
    pub fn stats(&self) -> ControllerStats {
        let mut stats = self.stats;
        stats.calls = self.calls.len();
        for port in self.ports.iter() {
            stats.vcids += port.vcids.used();
            stats.channels.add(port.channel.stats());
        }
        stats
    }

    /// Messages of a link that wait or are not yet acknowledged.
    pub fn channel_len(&self, port: PortId) -> usize {
        self.ports.get(port).map_or(0, |port| port.channel.len())
    }

    /// The admission tests of its output queues.
    pub fn admission(&self) -> &A {
        &self.admission
    }

    fn cell(&mut self, now: Time, id: PortId, cell: SignalCell) {
        let Some(port) = self.ports.get_mut(id) else {
            self.stats.unknown_port += 1;
            return;
        };
        let is_data = matches!(cell, SignalCell::Data { .. });
        if is_data && self.backlog.len() >= self.config.backlog {
            self.stats.backlog_full += 1;
            return;
        }
        let Some(message) = port.channel.receive(now, cell) else {
            return;
        };
        let due = now.saturating_add(self.config.processing);
        self.backlog.push_back((due, id, message));
        self.understand(now);
    }

    /// Acts on messages whose processing is complete.
    fn understand(&mut self, now: Time) {
        while let Some(&(due, port, message)) = self.backlog.front() {
            if due > now {
                break;
            }
            self.backlog.pop_front();
            self.message(now, port, message);
        }
    }

    fn message(&mut self, now: Time, port: PortId, Message { call: id, body }: Message) {
        if let Body::Setup(setup) = body {
            return self.arrived(now, port, id, setup);
        }
        let Some(&call) = self.calls.get(&id) else {
            self.stats.unknown_call += 1;
            return;
        };
        let speaker = match body {
            Body::Release => call.line.in_port,
            _ => call.line.out_port,
        };
        if speaker != port {
            self.stats.wrong_port += 1;
            return;
        }
        match body {
            Body::Connect => self.connected(id, call),
            Body::Reject(cause) => {
                self.stats.rejects += 1;
                self.undo(now, id, call);
                self.refuse(id, call, cause);
            }
            _ => self.released(now, id, call),
        }
    }

    fn connected(&mut self, id: CallId, call: Call) {
        let State::Waiting(end) = call.state else {
            self.stats.duplicate += 1;
            return;
        };
        self.waiting.remove(end, id);
        if let Some(call) = self.calls.get_mut(&id) {
            call.state = State::Connected;
        }
        self.stats.connects += 1;
        self.events.push_back(ControllerEvent::Install(call.line));
        if call.line.in_port == PortId::LOCAL {
            self.events.push_back(ControllerEvent::Ready {
                request: call.request,
                port: call.line.out_port,
                vc: call.line.out_vc,
            });
        } else {
            self.reply(call.line.in_port, id, Body::Connect);
        }
    }

    /// The host releases a circuit.
    fn give_back(&mut self, now: Time, port: PortId, vc: Vcid) {
        let id = self.ports.get(port).and_then(|port| port.vcids.call(vc));
        let call = id.and_then(|id| Some((id, *self.calls.get(&id)?)));
        // Only circuits that were set up can be released: the host does not know the number before.
        let given =
            |call: &Call| call.line.in_port == PortId::LOCAL && call.state == State::Connected;
        match call {
            Some((id, call)) if given(&call) => self.released(now, id, call),
            _ => self.stats.bad_request += 1,
        }
    }

    fn released(&mut self, now: Time, id: CallId, call: Call) {
        self.stats.releases += 1;
        self.undo(now, id, call);
        if call.line.out_port == PortId::LOCAL {
            self.events.push_back(ControllerEvent::Released {
                port: call.line.in_port,
                vc: call.line.in_vc,
            });
        } else {
            self.tell_onward(id, call);
        }
    }

    /// Informs the next node of the end of a call. The message must not be lost and cannot pile up: further calls are
    /// refused while the channel is full.
    fn tell_onward(&mut self, id: CallId, call: Call) {
        if let Some(port) = self.ports.get_mut(call.line.out_port) {
            port.channel.send_always(Message {
                call: id,
                body: Body::Release,
            });
        }
    }

    /// Informs the requesting side that the circuit was refused or has failed.
    fn refuse(&mut self, id: CallId, call: Call, cause: RejectCause) {
        let Call { line, request, .. } = call;
        if line.in_port != PortId::LOCAL {
            return self.reply(line.in_port, id, Body::Reject(cause));
        }
        self.events.push_back(match call.state {
            State::Waiting(_) => ControllerEvent::Rejected { request, cause },
            State::Connected => ControllerEvent::Lost {
                port: line.out_port,
                vc: line.out_vc,
            },
        });
    }

    /// Sends an answer to the previous node.
    fn reply(&mut self, port: PortId, call: CallId, body: Body) {
        let Some(port) = self.ports.get_mut(port) else {
            return;
        };
        if port.channel.send(Message { call, body }).is_err() {
            self.stats.unanswered += 1;
        }
    }

    /// Removes a call with all its resources.
    fn undo(&mut self, now: Time, id: CallId, call: Call) {
        let Call { line, state, .. } = call;
        self.calls.remove(&id);
        if let Some(port) = self.ports.get_mut(line.in_port) {
            port.set_incoming(line.in_vc, false);
        }
        if let Some(port) = self.ports.get_mut(line.out_port) {
            let tired = state == State::Connected;
            port.vcids.give_back(now, line.out_vc, tired);
            self.admission.release(line.out_port, id);
            if tired {
                self.events.push_back(ControllerEvent::Remove(line));
            }
        }
        if let State::Waiting(end) = state {
            self.waiting.remove(end, id);
        }
    }

    /// Gives up calls without an answer.
    fn watch(&mut self, now: Time) {
        while let Some((end, id)) = self.waiting.first() {
            if end > now {
                break;
            }
            let Some(&call) = self.calls.get(&id) else {
                self.waiting.remove(end, id);
                continue;
            };
            self.stats.timeouts += 1;
            self.stats.refused += 1;
            self.undo(now, id, call);
            self.tell_onward(id, call);
            self.refuse(id, call, RejectCause::Timeout);
        }
    }
}

impl<A: PortAdmission> Machine for Controller<A> {
    type Input = ControllerInput;
    type Transmit = (PortId, SignalCell);
    type Event = ControllerEvent;

    fn handle<O: Observer>(&mut self, now: Time, input: ControllerInput, _: &mut O) {
        match input {
            ControllerInput::Cell { port, cell } => self.cell(now, port, cell),
            ControllerInput::Setup {
                request,
                to,
                service,
                tag,
            } => {
                let vc = Vcid(0);
                let setup = Setup {
                    to,
                    service,
                    tag,
                    vc,
                };
                self.begin(now, request, setup);
            }
            ControllerInput::Release { port, vc } => self.give_back(now, port, vc),
        }
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, _: &mut O) {
        self.understand(now);
        self.watch(now);
        for port in self.ports.iter_mut() {
            port.channel.on_timeout(now);
        }
    }

    fn poll_transmit<O: Observer>(&mut self, now: Time, _: &mut O) -> Option<(PortId, SignalCell)> {
        self.ports
            .iter_mut()
            .find_map(|port| Some((port.id, port.channel.poll(now)?)))
    }

    fn poll_event(&mut self) -> Option<ControllerEvent> {
        self.events.pop_front()
    }

    fn next_timeout(&self) -> Option<Time> {
        let understood = self.backlog.front().map(|&(due, ..)| due);
        let watchdog = self.waiting.first().map(|(end, _)| end);
        let channels = self.ports.iter().map(|port| port.channel.next_timeout());
        channels.fold(earliest(understood, watchdog), earliest)
    }
}
