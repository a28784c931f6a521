mod parts;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::switch::{Switch, SwitchEvent, SwitchInput, SwitchTransmit};
use crate::{
    HostPacer, Sink, SinkEvent, SinkInput, SinkTransmit, Source, SourceEvent, SourceInput,
    SourceTransmit,
};
use layercast_core::{Machine, Observer, PortId, Rate, Span, Time, earliest};
use layercast_link::host::HostStats;
use serde::Serialize;

use crate::host::{Host, HostConfig, SentCells};
use crate::route::{flow_of_pdu, flow_of_signal};

/// The port of a host without a switch.
const ONLY_PORT: PortId = PortId(0);

/// What a station consists of at its start.
#[derive(Debug, Default)]
pub struct StationConfig {
    /// The switch of a node that forwards flows or has sources; `None`: a host with sinks, on one link.
    pub switch: Option<Switch>,
    /// What the host costs.
    pub host: HostConfig,
    /// What the pacer of the sources may send in one burst, so that it is woken less often.
    pub pacer_grain: Span,
    /// The rate of the one link of a host without a switch.
    pub rate: Option<Rate>,
}

/// What a station tells its user. Sources and sinks are named by their places.
#[derive(Clone, PartialEq, Debug)]
pub enum StationEvent {
    /// Of the switch.
    Switch(SwitchEvent),
    /// Of a source.
    Source(usize, SourceEvent),
    /// Of a sink.
    Sink(usize, SinkEvent),
}

/// A part of a station that has a timer.
///
/// A driver that orders the events of one instant has a timer for each part ([`Station::timeout_of`]). Other drivers
/// have one timer for the whole station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The switch.
    Switch,
    /// The pacer of the sources.
    Pacer,
    /// The processor and the interface of the host.
    Host,
    /// The source at this place.
    Source(usize),
    /// The sink at this place.
    Sink(usize),
}

/// What a station could not hand to a machine.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct StationStats {
    /// PDUs for the sources that did not decode.
    pub malformed: u64,
    /// PDUs and signals about a flow whose source is on another node: a switch announces all flows to its sources.
    pub elsewhere: u64,
}

/// One METS node: its machines and what they say to one another.
///
/// A station has the links and the input of a [`Switch`]. With a switch, sources sit on its port [`PortId::LOCAL`]; without
/// one, everything that arrives is for the sinks. Any input in any order is answered, counted or ignored, and what the
/// station remembers between two inputs is what its machines remember.
///
/// The driver feeds a source at [`SourceEvent::NeedFrames`], by [`Station::source_mut`].
#[derive(Debug)]
pub struct Station {
    switch: Option<Switch>,
    sources: Vec<Source>,
    sinks: Vec<Option<Sink>>,
    pacer: HostPacer,
    /// `None`: it costs nothing.
    host: Option<Box<Host>>,
    rate: Option<Rate>,
    line_free: Time,
    /// What the switch has for the sources; empty between two inputs.
    inner: VecDeque<SwitchTransmit>,
    /// How far sources and sinks have been asked.
    source_turn: Turn,
    sink_turn: Turn,
    /// The timer of the host has run: what is done is to be handed on.
    host_due: bool,
    /// A source was given something since the pacer ran.
    pacer_due: bool,
    stats: StationStats,
}

/// How far machines of one kind have been asked what they have.
#[derive(Clone, Copy, Default, Debug)]
struct Turn {
    /// Machines before this place have nothing to send.
    transmits: usize,
    /// Machines before this place have nothing to tell.
    events: usize,
}

impl Turn {
    /// The machine at `place` was given something.
    fn given(&mut self, place: usize) {
        self.transmits = self.transmits.min(place);
        self.events = self.events.min(place);
    }
}

impl Station {
    /// A station without sources and sinks.
    pub fn new(config: StationConfig) -> Station {
        Station {
            switch: config.switch,
            sources: Vec::new(),
            sinks: Vec::new(),
            pacer: HostPacer::new(config.pacer_grain),
            host: Host::new(config.host),
            rate: config.rate,
            line_free: Time::ZERO,
            inner: VecDeque::new(),
            source_turn: Turn::default(),
            sink_turn: Turn::default(),
            host_due: false,
            pacer_due: false,
            stats: StationStats::default(),
        }
    }

    /// Gives every sink an input.
    fn give_sinks<O: Observer>(&mut self, now: Time, input: SinkInput, obs: &mut O) {
        let Some(last) = self.sinks.len().checked_sub(1) else {
            return;
        };
        for place in 0..last {
            // An absent one need not be given a copy.
            if self.sinks[place].is_some() {
                self.give_sink(now, place, input.clone(), obs);
            }
        }
        self.give_sink(now, last, input, obs);
    }

    /// Gives the switch or the sinks an input that has passed the host.
    #[inline]
    fn deliver<O: Observer>(&mut self, now: Time, input: SwitchInput, obs: &mut O) {
        if let Some(switch) = &mut self.switch {
            return switch.handle(now, input, obs);
        }
        let input = match input {
            SwitchInput::Pdu { pdu, .. } => SinkInput::Pdu(pdu),
            SwitchInput::Signal { signal, .. } => SinkInput::Signal(signal),
            SwitchInput::PortUp { .. } => SinkInput::LinkUp,
            SwitchInput::PortDown { .. } => SinkInput::LinkDown,
            SwitchInput::Stop => SinkInput::Leave,
            SwitchInput::PortRate { rate, .. } => {
                self.rate = Some(rate);
                return;
            }
        };
        self.give_sinks(now, input, obs);
    }

    /// Hands on one unit that the host is done with; `false` if there is none.
    fn hand_on<O: Observer>(&mut self, now: Time, obs: &mut O) -> bool {
        let Some((port, pdu)) = self.host.as_mut().and_then(|host| host.poll(now)) else {
            return false;
        };
        let cells = pdu.cells();
        let copies = |station: &Station| station.switch.as_ref().map_or(0, Switch::copies);
        let before = copies(self);
        self.deliver(now, SwitchInput::Pdu { port, pdu }, obs);
        let made = copies(self) - before;
        if let Some(host) = &mut self.host {
            host.copied(now, cells, made);
        }
        true
    }

    /// Gives the sources what the switch has for them.
    fn give_inner<O: Observer>(&mut self, now: Time, transmit: SwitchTransmit, obs: &mut O) {
        let (flow, input) = match transmit {
            SwitchTransmit::Pdu { pdu, .. } => match flow_of_pdu(&pdu) {
                Some(flow) => (Some(flow), SourceInput::Pdu(pdu)),
                None => {
                    self.stats.malformed += 1;
                    return;
                }
            },
            SwitchTransmit::Signal { signal, .. } => {
                (flow_of_signal(&signal), SourceInput::Signal(signal))
            }
        };
        let Some(flow) = flow else {
            for place in 0..self.sources.len() {
                self.give_source(now, place, input.clone(), obs);
            }
            return;
        };
        match self.source_of(flow) {
            Some(place) => self.give_source(now, place, input, obs),
            None => self.stats.elsewhere += 1,
        }
    }

    fn give_source<O: Observer>(
        &mut self,
        now: Time,
        place: usize,
        input: SourceInput,
        obs: &mut O,
    ) {
        self.sources[place].handle(now, input, obs);
        self.touched(place);
    }

    /// The source at `place` was given input, time or frames.
    fn touched(&mut self, place: usize) {
        self.source_turn.given(place);
        self.pacer_due = true;
    }

    /// Moves one unit of a source to the host or the switch; `false` if all sources are silent.
    fn move_source<O: Observer>(&mut self, now: Time, obs: &mut O) -> bool {
        let turn = &mut self.source_turn.transmits;
        while let Some(source) = self.sources.get_mut(*turn) {
            let port = PortId::LOCAL;
            let input = match source.poll_transmit(now, obs) {
                None => {
                    *turn += 1;
                    continue;
                }
                Some(SourceTransmit::Signal(signal)) => SwitchInput::Signal { port, signal },
                Some(SourceTransmit::Pdu(pdu)) => match &mut self.host {
                    None => SwitchInput::Pdu { port, pdu },
                    Some(host) => match host.send(now, pdu) {
                        Some(pdu) => SwitchInput::Pdu { port, pdu },
                        None => continue,
                    },
                },
            };
            match &mut self.switch {
                Some(switch) => switch.handle(now, input, obs),
                // A source without a switch: its flow goes nowhere.
                None => self.stats.elsewhere += 1,
            }
            return true;
        }
        false
    }

    /// Moves one thing from a machine to another; `false` if there is none.
    #[inline]
    fn step<O: Observer>(&mut self, now: Time, obs: &mut O) -> bool {
        // A node on the way of a flow has nothing more to do for most units.
        if self.sources.is_empty() && self.inner.is_empty() && !self.host_due {
            return false;
        }
        self.exchange(now, obs)
    }

    fn exchange<O: Observer>(&mut self, now: Time, obs: &mut O) -> bool {
        if self.host_due {
            self.host_due = self.hand_on(now, obs);
            if self.host_due {
                return true;
            }
        }
        if self.move_source(now, obs) {
            return true;
        }
        if let Some(transmit) = self.inner.pop_front() {
            self.give_inner(now, transmit, obs);
            while let Some(transmit) = self.inner.pop_front() {
                self.give_inner(now, transmit, obs);
            }
            return true;
        }
        let paced = self.pacer.next_timeout();
        if self.pacer_due || paced.is_some_and(|at| at <= now) {
            self.pacer_due = false;
            let sources = &mut self.sources;
            let released = self.pacer.run(now, obs, |turn| {
                for source in sources.iter_mut() {
                    turn(source);
                }
            });
            if released {
                self.touched(0);
            }
            return released;
        }
        false
    }

    /// What a sink puts on the link of its host.
    fn poll_sinks<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<SwitchTransmit> {
        let turn = &mut self.sink_turn.transmits;
        let port = ONLY_PORT;
        while let Some(sink) = self.sinks.get_mut(*turn) {
            match sink.as_mut().and_then(|sink| sink.poll_transmit(now, obs)) {
                None => *turn += 1,
                Some(SinkTransmit::Signal(signal)) => {
                    return Some(SwitchTransmit::Signal { port, signal });
                }
                Some(SinkTransmit::Pdu(pdu)) => {
                    let octets = pdu.wire_len() as u64;
                    let tx = self.rate.map_or(Span::ZERO, |rate| rate.time_for(octets));
                    let start = self.line_free.max(now);
                    self.line_free = start.saturating_add(tx);
                    return Some(SwitchTransmit::Pdu {
                        port,
                        pdu,
                        at: (start, tx),
                    });
                }
            }
        }
        None
    }
}

impl Machine for Station {
    type Input = SwitchInput;
    type Transmit = SwitchTransmit;
    type Event = StationEvent;

    #[inline]
    fn handle<O: Observer>(&mut self, now: Time, input: SwitchInput, obs: &mut O) {
        let Some(host) = &mut self.host else {
            return self.deliver(now, input, obs);
        };
        let input = match input {
            SwitchInput::Pdu { port, pdu } => match host.arrive(now, port, pdu) {
                Some(pdu) => SwitchInput::Pdu { port, pdu },
                None => return,
            },
            other => other,
        };
        self.deliver(now, input, obs);
    }

    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O) {
        for place in 0..self.sources.len() {
            self.on_timeout_of(Part::Source(place), now, obs);
        }
        for place in 0..self.sinks.len() {
            self.on_timeout_of(Part::Sink(place), now, obs);
        }
        for part in [Part::Switch, Part::Host, Part::Pacer] {
            self.on_timeout_of(part, now, obs);
        }
    }

    #[inline]
    fn poll_transmit<O: Observer>(&mut self, now: Time, obs: &mut O) -> Option<SwitchTransmit> {
        // One variable is returned on every way, so that a unit is made in its place and not copied.
        let mut transmit;
        loop {
            // The switch is asked after each unit, so that none waits in a queue that it can leave.
            transmit = match &mut self.switch {
                Some(switch) => switch.poll_transmit(now, obs),
                None => self.poll_sinks(now, obs),
            };
            match &transmit {
                Some(SwitchTransmit::Pdu { port, .. } | SwitchTransmit::Signal { port, .. })
                    if *port == PortId::LOCAL =>
                {
                    self.inner.extend(transmit.take())
                }
                Some(_) => break,
                None if self.step(now, obs) => {}
                None => {
                    debug_assert!(
                        self.inner.is_empty(),
                        "the sources were not given everything"
                    );
                    break;
                }
            }
        }
        transmit
    }

    #[inline]
    fn poll_event(&mut self) -> Option<StationEvent> {
        if let Some(event) = self.switch.as_mut().and_then(Switch::poll_event) {
            return Some(StationEvent::Switch(event));
        }
        let turn = &mut self.source_turn.events;
        while let Some(source) = self.sources.get_mut(*turn) {
            if let Some(event) = source.poll_event() {
                return Some(StationEvent::Source(*turn, event));
            }
            *turn += 1;
        }
        let turn = &mut self.sink_turn.events;
        while let Some(sink) = self.sinks.get_mut(*turn) {
            if let Some(event) = sink.as_mut().and_then(Sink::poll_event) {
                return Some(StationEvent::Sink(*turn, event));
            }
            *turn += 1;
        }
        None
    }

    fn next_timeout(&self) -> Option<Time> {
        let sources = self.sources.iter().map(Machine::next_timeout);
        let sinks = self.sinks.iter().flatten().map(Machine::next_timeout);
        let parts = [Part::Switch, Part::Host, Part::Pacer].map(|part| self.timeout_of(part));
        sources.chain(sinks).chain(parts).fold(None, earliest)
    }
}
