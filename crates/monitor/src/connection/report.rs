//! The snapshot of a connection.

use super::{Connection, Side};
use crate::monitor::Settings;
use crate::report::{
    ConnectionCounts, ConnectionReport, DelayReport, DirectionReport, WindowReport,
};
use layercast_core::Zone;

impl Connection {
    /// What is known at `t`.
    pub(crate) fn report(&mut self, t: u64, closed: bool, settings: &Settings) -> ConnectionReport {
        let t = t.max(self.at);
        let stale = t - self.heard > settings.stale;
        let mut counts = ConnectionCounts {
            probes_lost: self.probes.lost,
            probes_discarded: self.probes.discarded,
            probes_unmatched: self.probes.unmatched,
            ..self.counts
        };
        for side in &self.sides {
            counts.bad_reports += side.reports.bad;
            counts.bad_totals += side.totals.bad_totals;
        }
        let (since, gap_at) = (self.since, self.gap_at);
        let zone = self.sides.iter().map(Side::zone).max().unwrap_or_default();
        let about = About {
            t,
            stale,
            since,
            gap_at,
        };
        ConnectionReport {
            conn: self.conn,
            transport: self.descriptor.map(|it| it.name),
            t_ns: t,
            closed,
            stale,
            zone: if stale { Zone::Grey } else { zone },
            counts,
            directions: self
                .sides
                .each_mut()
                .map(|side| side.report(&about, settings)),
        }
    }
}

struct About {
    t: u64,
    stale: bool,
    since: u64,
    gap_at: Option<u64>,
}

impl Side {
    fn report(&mut self, about: &About, settings: &Settings) -> DirectionReport {
        let totals = self.totals;
        let delays = &mut self.delays;
        delays.spread.expire(about.t);
        let delay = delays.current.zip(delays.max).zip(delays.method);
        let delay = delay.map(|((current_ns, max_ns), method)| DelayReport {
            current_ns,
            max_ns,
            method,
            samples: delays.samples,
        });
        let (jitter_ns, max_jitter_ns) = (delays.jitter(), delays.max_jitter);
        let spread_ns = delays.spread.width();
        DirectionReport {
            packets: totals.packets,
            bits: totals.bits,
            user_bits: totals.user_bits,
            delivered_bits: totals.delivered_bits,
            error_bits: totals.error_bits,
            error_bits_literal: totals.error_bits_literal,
            deadlines_missed: totals.deadlines_missed,
            checksum_failures: totals.checksum_failures,
            gaps: totals.gaps,
            windows: std::array::from_fn(|n| self.window(n, settings.windows[n], about)),
            delay,
            jitter_ns,
            max_jitter_ns,
            spread_ns,
            zone: self.zone(),
            contract: self.contract,
            compared: self.compared,
        }
    }

    fn window(&mut self, n: usize, window_ns: u64, about: &About) -> WindowReport {
        let (sizes, errors) = (&mut self.sizes[n], &mut self.errors[n]);
        sizes.expire(about.t);
        errors.expire(about.t);
        let [throughput, goodput] = sizes.rates();
        let [missing, offered] = errors.sums();
        let known = !about.stale;
        WindowReport {
            window_ns,
            packets: sizes.count(),
            throughput_bps: known.then_some(throughput),
            goodput_bps: known.then_some(goodput),
            burst_bps: sizes.burst_rate(),
            error_rate: (offered > 0).then(|| missing as f64 / offered as f64),
            low_confidence: sizes.count() < 4 || about.t - about.since < window_ns,
            gap: about
                .gap_at
                .is_some_and(|at| about.t.saturating_sub(at) < window_ns),
        }
    }
}
