//! Runs of which a series is taken.

use std::fmt::Write as _;

use layercast_core::{Span, Time};

use super::Internet;
use crate::internet::report::{Report, Stopped, Watch};
use crate::internet::series::{Point, PointKind, Series};

/// Bytes of a cell on a link.
const CELL: u64 = 53;

impl Internet<'_> {
    /// [Runs](Self::run) and gives the watcher a [point](Watch::point) of each flow and queue each time `every` has passed: of flows
    /// while they have a connection or something arrives, of queues from their first packet on. The report is that of a run without.
    pub fn run_with_series<W: Watch>(&mut self, every: Span, watch: &mut W) -> Report {
        let mut series = Series::new(every);
        let stopped = self.run_sampled(self.end, &mut series, watch);
        self.finish(stopped, watch)
    }

    /// [Runs](Self::run_until), and takes the points that are due.
    pub(super) fn run_sampled<W: Watch>(
        &mut self,
        until: Time,
        series: &mut Series,
        watch: &mut W,
    ) -> Option<Stopped> {
        while series.next <= until {
            let stopped = self.run_until(series.next, watch);
            if stopped.is_some() {
                return stopped;
            }
            self.take(series, watch);
            series.advance();
            // Between two points may be no event, after some of which the watcher is asked.
            if series.is_time_to_look() {
                let stopped = self.look(watch);
                if stopped.is_some() {
                    return stopped;
                }
            }
        }
        self.run_until(until, watch)
    }

    fn take<W: Watch>(&mut self, series: &mut Series, watch: &mut W) {
        self.take_flows(series, watch);
        self.take_queues(series, watch);
        let at = self.medium.engine.now;
        if let Some(backbone) = self.medium.backbone.as_deref() {
            if series.cell_names.is_empty() {
                series.cell_names.extend(backbone.queue_names());
            }
            for (n, (queue, cells)) in backbone.states().enumerate() {
                let grown = series.cells.grown(n, cells);
                if cells > 0 || queue.waiting > 0 || queue.dropped > 0 {
                    watch.point(&Point {
                        queue: Some(queue),
                        ..Point::new(
                            at,
                            PointKind::Cells,
                            &series.cell_names[n],
                            series.rate(grown * CELL),
                        )
                    });
                }
            }
        }
        if let Some(mets) = &self.mets {
            if series.port_names.is_empty() {
                series.port_names.extend(mets.port_names());
            }
            for (n, state) in mets.port_states().enumerate() {
                let Some((queue, bytes)) = state else {
                    continue;
                };
                let grown = series.ports.grown(n, bytes);
                if bytes > 0 || queue.waiting > 0 || queue.dropped > 0 {
                    watch.point(&Point {
                        queue: Some(queue),
                        ..Point::new(
                            at,
                            PointKind::Port,
                            &series.port_names[n],
                            series.rate(grown),
                        )
                    });
                }
            }
        }
    }

    fn take_flows<W: Watch>(&self, series: &mut Series, watch: &mut W) {
        let at = self.medium.engine.now;
        for (n, (name, tcp, got)) in self.flows.states(&self.tcp).enumerate() {
            let grown = series.flows.grown(n, got);
            if tcp.is_some() || grown > 0 {
                watch.point(&Point {
                    delivered: Some(got),
                    tcp,
                    ..Point::new(at, PointKind::Flow, name, series.rate(grown))
                });
            }
        }
        let Some(transfers) = &self.transfers else {
            return;
        };
        for (n, generator, tcp) in transfers.states(&self.tcp, &self.medium) {
            let grown = series.transfers.grown(n, tcp.acknowledged);
            series.name.clear();
            // Text takes all that is written to it.
            let _ = write!(series.name, "{generator}#{}", n + 1);
            watch.point(&Point {
                tcp: Some(tcp),
                ..Point::new(at, PointKind::Transfer, &series.name, series.rate(grown))
            });
        }
    }

    fn take_queues<W: Watch>(&self, series: &mut Series, watch: &mut W) {
        if self.mets.as_ref().is_some_and(|mets| mets.own_links()) {
            return;
        }
        let at = self.medium.engine.now;
        for (n, pipe) in self.medium.pipes.iter().enumerate() {
            let (mut queue, bytes) = pipe.state(at);
            if let Some(ports) = &self.medium.ports {
                ports.add_state(n as u32, &mut queue);
            }
            let grown = series.queues.grown(n, bytes);
            let is_used = bytes > 0 || queue.bytes.is_some_and(|bytes| bytes > 0);
            if is_used || queue.dropped > 0 {
                watch.point(&Point {
                    queue: Some(queue),
                    ..Point::new(at, PointKind::Queue, pipe.name(), series.rate(grown))
                });
            }
        }
    }
}
