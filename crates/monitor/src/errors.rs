//! Missing octets from reports of what the peer has (specs/user-to-user-qos.md 2.3).

use layercast_core::RangeSet;

/// Spans of a report at most.
const MOST_SPANS: u32 = 4_096;
/// Ranges of missing octets that are remembered; of more, the lowest are forgotten.
const MOST_RANGES: usize = 1_024;

/// The news of a report.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Told {
    /// Octets missing that were not counted before.
    pub(crate) missing: u64,
    /// Octets that no report was about before.
    pub(crate) offered: u64,
    /// The formula of the paper: all that is missing, again in each report.
    pub(crate) literal: u64,
}

/// The reports on what one direction carries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    /// The report that is being taken: highest octet, octets without a gap, spans to come.
    pending: Option<(u64, u64, u32)>,
    spans: RangeSet,
    /// What was counted as missing, above what the peer has.
    counted: RangeSet,
    floor: u64,
    reached: u64,
    /// The end of what was sent, if the transport tells.
    pub(crate) sent: Option<u64>,
    pub(crate) bad: u64,
}

impl Reports {
    /// A report begins: octets up to `seq` were sent, those up to `rseq` are there, and `count` spans follow.
    pub(crate) fn head(&mut self, seq: u64, rseq: u64, count: u32) -> Option<Told> {
        self.abandon();
        if count > MOST_SPANS {
            self.bad += 1;
            return None;
        }
        self.pending = Some((seq, rseq, count));
        self.evaluate()
    }

    /// A span of the report.
    pub(crate) fn span(&mut self, left: u64, right: u64) -> Option<Told> {
        let Some((seq, rseq, count)) = &mut self.pending else {
            self.bad += 1;
            return None;
        };
        *count -= 1;
        let fits = *rseq <= left && left < right && right <= *seq;
        let overlaps = fits && self.spans.covered(left, right) > 0;
        if !fits || overlaps {
            self.bad += 1;
        }
        self.spans.insert(left.max(*rseq), right.min(*seq));
        self.evaluate()
    }

    /// Forgets a report whose spans did not come.
    pub(crate) fn abandon(&mut self) {
        self.bad += u64::from(self.pending.take().is_some());
        self.spans.clear();
    }

    fn evaluate(&mut self) -> Option<Told> {
        let (mut seq, rseq, 0) = self.pending? else {
            return None;
        };
        self.pending = None;
        if let Some(sent) = self.sent
            && seq > sent
        {
            self.bad += 1;
            seq = sent;
        }
        if rseq > seq {
            self.bad += 1;
            self.spans.clear();
            return None;
        }
        self.floor = self.floor.max(rseq);
        let mut told = Told {
            missing: 0,
            offered: seq.saturating_sub(self.reached),
            literal: seq - rseq - self.spans.covered(rseq, seq),
        };
        self.reached = self.reached.max(seq);
        for (from, to) in self.spans.gaps(self.floor.min(seq), seq) {
            told.missing += to - from - self.counted.covered(from, to);
            self.counted.insert(from, to);
        }
        self.counted.remove_below(self.floor);
        while self.counted.len() > MOST_RANGES {
            self.floor = self.counted.iter().next().map_or(self.floor, |it| it.1);
            self.counted.remove_below(self.floor);
        }
        self.spans.clear();
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn report(reports: &mut Reports, seq: u64, rseq: u64, spans: &[(u64, u64)]) -> Option<Told> {
        let mut told = reports.head(seq, rseq, spans.len() as u32);
        for &(left, right) in spans {
            assert_eq!(told, None, "evaluated before its last span");
            told = reports.span(left, right);
        }
        told
    }

    #[test]
    fn the_vector_of_the_specification() {
        let mut reports = Reports::default();
        let spans = [(5_000, 7_000), (8_000, 10_000)];
        let told = report(&mut reports, 10_000, 4_000, &spans).unwrap();
        assert_eq!((told.missing * 8, told.literal * 8), (16_000, 16_000));
        assert_eq!(told.offered, 10_000);
        let told = report(&mut reports, 10_000, 4_000, &spans).unwrap();
        assert_eq!((told.missing, told.offered, told.literal), (0, 0, 2_000));
        // Half of the first gap came, the end is new.
        let told = report(
            &mut reports,
            12_000,
            4_500,
            &[(5_000, 7_000), (8_000, 11_000)],
        )
        .unwrap();
        assert_eq!((told.missing, told.offered), (1_000, 2_000));
        // An old report comes late.
        let told = report(&mut reports, 10_000, 4_000, &spans).unwrap();
        assert_eq!((told.missing, reports.bad), (0, 0));
    }

    #[test]
    fn impossible_reports_are_counted_and_do_no_harm() {
        let mut reports = Reports {
            sent: Some(10_000),
            ..Reports::default()
        };
        // Beyond what was sent.
        let told = report(&mut reports, 20_000, 9_000, &[]).unwrap();
        assert_eq!((told.missing, reports.bad), (1_000, 1));
        // More there than was sent.
        assert_eq!(report(&mut reports, 9_000, 9_001, &[]), None);
        // Left at or after right, below the start, above the end, wrapped.
        let spans = [
            (9_500, 9_500),
            (9_700, 9_600),
            (0, 9_100),
            (9_900, u64::MAX),
            (u64::MAX, 0),
        ];
        report(&mut reports, 10_000, 9_000, &spans).unwrap();
        assert_eq!(reports.bad, 7);
        // Overlapping and unsorted ones are what they cover.
        let mut reports = Reports::default();
        let told = report(&mut reports, 100, 0, &[(50, 70), (10, 20), (60, 80)]).unwrap();
        assert_eq!((told.missing, reports.bad), (60, 1));
        // A span without a report; a report without its spans.
        reports.span(1, 2);
        reports.head(100, 0, 2);
        reports.head(100, 0, 0);
        reports.head(100, 0, u32::MAX);
        assert_eq!(reports.bad, 4);
    }

    #[test]
    fn memory_is_bounded() {
        let mut reports = Reports::default();
        for n in 0..10_000u64 {
            report(
                &mut reports,
                4 * n + 4,
                0,
                &[(0, 4 * n), (4 * n + 2, 4 * n + 4)],
            );
        }
        assert!(reports.counted.len() <= MOST_RANGES);
    }

    proptest! {
        #[test]
        fn each_missing_octet_counts_once(losses in prop::collection::vec(any::<bool>(), 1..64)) {
            // Packets of ten octets, of which some are lost; a report after each.
            let (mut reports, mut counted) = (Reports::default(), 0);
            for upto in 1..=losses.len() {
                let here = &losses[..upto];
                let rseq = here.iter().take_while(|lost| !**lost).count() as u64 * 10;
                let spans: Vec<_> = (rseq / 10..upto as u64).filter(|n| !here[*n as usize]).map(|n| (10 * n, 10 * n + 10)).collect();
                counted += report(&mut reports, 10 * upto as u64, rseq, &spans).unwrap().missing;
                let missing = here.iter().filter(|lost| **lost).count() as u64 * 10;
                prop_assert_eq!(counted, missing);
            }
            prop_assert_eq!(reports.bad, 0);
        }

        #[test]
        fn no_report_panics(reported in prop::collection::vec((any::<u64>(), any::<u64>(), 0u32..5), 0..30)) {
            let mut reports = Reports::default();
            for (a, b, count) in reported {
                reports.head(a, b, count);
                reports.span(b, a);
                reports.span(a, b);
            }
        }
    }
}
