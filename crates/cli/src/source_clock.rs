//! What `join` says of the clock of the source.

use layercast_core::Span;
use layercast_net::{Progress, clock_name};
use layercast_qos::SignedSpan;
use layercast_wire::{FlowInfo, SourceClockReport};

/// Seconds of media in which the clock of the source becomes known on any path that measures it.
const SOON: u32 = 10;

/// Whether a receiver plays by the clock of the source, as it is to.
#[derive(Debug)]
pub struct Following {
    /// The playout delay of `--sync`.
    sync: Option<Span>,
    /// Seconds without the clock.
    without: u32,
}

impl Following {
    /// With the playout delay of `--sync`, if it is given.
    pub fn new(sync: Option<Span>) -> Following {
        Following { sync, without: 0 }
    }

    /// Takes the figures of a second; gives what a user needs to know.
    pub fn look(
        &mut self,
        progress: &Progress,
        flow: Option<&FlowInfo>,
        joined: bool,
    ) -> Option<String> {
        let sync = self.sync?;
        let shared = flow.is_some_and(|flow| flow.clock == clock_name());
        if progress.source_clock.is_some() || shared {
            self.without = 0;
            return None;
        }
        if !joined || progress.frames.total() == 0 {
            return None;
        }
        self.without += 1;
        (self.without == SOON).then(|| {
            format!(
                "warning: --sync: the clock of the source is not known after {SOON} s, so frames play {} ms after the arrival of the \
                 first one; link repair has to be on at all nodes of the path (--repair auto, no links of cells), and all need a \
                 version that measures clocks",
                sync.as_ms()
            )
        })
    }
}

/// Frames are played by the clock of the source from here on.
pub fn synchronised(by: SignedSpan) -> String {
    match by.as_ms_f64() {
        0.0 => "plays by the clock of the source".to_owned(),
        ms => {
            let how = if ms > 0.0 { "later" } else { "earlier" };
            format!(
                "plays by the clock of the source: frames come {:.1} ms {how} than before",
                ms.abs()
            )
        }
    }
}

/// How well the clock of the source is known.
pub fn in_brief(clock: &SourceClockReport) -> String {
    let hops = match clock.hops {
        1 => "1 hop".to_owned(),
        hops => format!("{hops} hops"),
    };
    format!(
        "clock of the source known to within {:.1} ms over {hops}, drift {:+.1} ppm",
        f64::from(clock.bound_us) / 1e3,
        f64::from(clock.drift_ppb) / 1e3
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reasons::tests::second;

    #[test]
    fn a_clock_that_stays_unknown_is_worth_one_warning() {
        let mut following = Following::new(Some(Span::from_ms(400)));
        let told = |following: &mut Following, frames| {
            (0..30)
                .filter_map(|_| following.look(&second(frames, 0, 0), None, true))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&mut following, 0), Vec::<String>::new());
        let warnings = told(&mut following, 100);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("--repair auto") && warnings[0].contains("400 ms"));
        assert_eq!(told(&mut Following::new(None), 100), Vec::<String>::new());
        let mut known = second(100, 0, 0);
        known.source_clock = Some(SourceClockReport {
            ahead_us: 5,
            drift_ppb: -41_000,
            bound_us: 20_010,
            age_ms: 15,
            hops: 1,
        });
        let mut following = Following::new(Some(Span::from_ms(400)));
        assert!((0..30).all(|_| following.look(&known, None, true).is_none()));
        let text = known.source_clock.as_ref().map(in_brief);
        let expected = "clock of the source known to within 20.0 ms over 1 hop, drift -41.0 ppm";
        assert_eq!(text.as_deref(), Some(expected));
    }

    #[test]
    fn a_step_says_which_way() {
        let by = |ms: i64| synchronised(SignedSpan::from_ps(ms * 1_000_000_000));
        assert_eq!(by(0), "plays by the clock of the source");
        assert!(by(-30).ends_with("frames come 30.0 ms earlier than before"));
        assert!(by(30).ends_with("frames come 30.0 ms later than before"));
    }
}
