//! The parts of a station and their timers.

use layercast_core::FlowId;
use layercast_protect::WallClock;

use super::*;

impl Station {
    /// The switch, of a station with one.
    #[inline]
    pub fn switch(&self) -> Option<&Switch> {
        self.switch.as_ref()
    }

    /// The switch, to add and remove ports.
    pub fn switch_mut(&mut self) -> Option<&mut Switch> {
        self.switch.as_mut()
    }

    /// Adds a source; gives its place.
    pub fn add_source(&mut self, source: Source) -> usize {
        let place = self.sources.len();
        self.sources.push(source);
        self.touched(place);
        place
    }

    /// Removes the source at `place`; those behind it move up by one place.
    ///
    /// # Panics
    /// There is none.
    pub fn remove_source(&mut self, place: usize) -> Source {
        // Places move, so all are asked again.
        self.touched(0);
        self.sources.remove(place)
    }

    /// The sources, by place.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The place of the source of a flow.
    pub fn source_of(&self, flow: FlowId) -> Option<usize> {
        let mut sources = self.sources.iter();
        sources.position(|source| source.flow().id == flow)
    }

    /// A source, to be given frames or requests; the station is drained after that.
    pub fn source_mut(&mut self, place: usize) -> Option<&mut Source> {
        self.touched(place);
        self.sources.get_mut(place)
    }

    /// Puts a sink in its place, or takes it away.
    pub fn set_sink(&mut self, place: usize, sink: Option<Sink>) {
        if self.sinks.len() <= place {
            self.sinks.resize_with(place + 1, || None);
        }
        self.sinks[place] = sink;
        self.sink_turn.given(place);
    }

    /// The sink at a place.
    pub fn sink(&self, place: usize) -> Option<&Sink> {
        self.sinks.get(place)?.as_ref()
    }

    /// A sink, to be given requests; the station is drained after that.
    pub fn sink_mut(&mut self, place: usize) -> Option<&mut Sink> {
        self.sink_turn.given(place);
        self.sinks.get_mut(place)?.as_mut()
    }

    /// Switches the interrupts of the host off for `length` from now on.
    pub fn stall(&mut self, now: Time, length: Span) {
        if let Some(host) = &mut self.host {
            host.stall(now, length);
        }
    }

    /// What the wall clock of the host shows from now on: for the expiry of tokens and proofs.
    pub fn set_wall_clock(&mut self, clock: WallClock) {
        if let Some(switch) = &mut self.switch {
            switch.set_wall_clock(clock);
        }
        for source in &mut self.sources {
            source.set_wall_clock(clock);
        }
        for sink in self.sinks.iter_mut().flatten() {
            sink.set_wall_clock(clock);
        }
    }

    /// Gives one sink an input, if it is there.
    pub fn give_sink<O: Observer>(
        &mut self,
        now: Time,
        place: usize,
        input: SinkInput,
        obs: &mut O,
    ) {
        if let Some(Some(sink)) = self.sinks.get_mut(place) {
            sink.handle(now, input, obs);
            self.sink_turn.given(place);
        }
    }

    /// Cells of media that the sources sent, of a host to which sending costs something.
    pub fn sent(&self) -> SentCells {
        self.host
            .as_ref()
            .map(|host| host.sent())
            .unwrap_or_default()
    }

    /// Counters of the interface, of a host to which receiving costs something.
    pub fn received(&self) -> Option<HostStats> {
        self.host.as_ref()?.received()
    }

    /// What no machine was given.
    pub fn stats(&self) -> StationStats {
        self.stats
    }

    /// When the timer of one part wants to run.
    #[inline]
    pub fn timeout_of(&self, part: Part) -> Option<Time> {
        match part {
            Part::Switch => self.switch.as_ref()?.next_timeout(),
            Part::Pacer => self.pacer.next_timeout(),
            Part::Host => self.host.as_ref()?.next_timeout(),
            Part::Source(place) => self.sources.get(place)?.next_timeout(),
            Part::Sink(place) => self.sink(place)?.next_timeout(),
        }
    }

    /// Runs the timer of one part; calling it early or late does no harm. The station is drained after that.
    pub fn on_timeout_of<O: Observer>(&mut self, part: Part, now: Time, obs: &mut O) {
        match part {
            Part::Switch => {
                if let Some(switch) = &mut self.switch {
                    switch.on_timeout(now, obs);
                }
            }
            // It runs when the sources are silent.
            Part::Pacer => {}
            Part::Host => self.host_due = true,
            Part::Source(place) => {
                if let Some(source) = self.sources.get_mut(place) {
                    source.on_timeout(now, obs);
                    self.touched(place);
                }
            }
            Part::Sink(place) => {
                if let Some(Some(sink)) = self.sinks.get_mut(place) {
                    sink.on_timeout(now, obs);
                    self.sink_turn.given(place);
                }
            }
        }
    }
}
