//! Why a receiver stays below the level it asked for.

use layercast_core::{Level, Parameter, Rate};
use layercast_mets::group_level;
use layercast_net::Progress;
use layercast_qos::Cause;
use layercast_wire::FlowInfo;

use crate::reasons::SILENCE;

/// Seconds below the requested level before the command prints the reason.
const PATIENCE: u32 = 3;
/// Seconds in which the source itself gives less than the last link has room for, before the command says so: a level begins with
/// a GOP.
const SOURCE_PATIENCE: u32 = 10;

/// Whether a receiver stays below the level it asked for.
pub struct Below {
    wanted: Level,
    /// What the token of the receiver allows.
    allowed: Level,
    seconds: u32,
    /// Seconds at the same level in which it was a node before the last link that gave no more. What a node grants and what it
    /// sends are of different moments while they change.
    upstream: (Level, u32),
    /// The node at the other end of the last link.
    next: String,
    /// The highest level of its contract, if it has one.
    agreed: Option<Level>,
    /// The level whose reasons were reported, and which were.
    reported: Option<(Level, Vec<Reason>)>,
}

/// What keeps a receiver at its level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    /// Its token.
    Token,
    /// The one rate of its group.
    Group,
    /// The last link.
    Link,
    /// What it agreed with its node, by its profile.
    Contract,
    /// It asks for no more itself, after a decision of this cause if it was one.
    Asks(Option<Cause>),
    /// A node or link before the last one.
    Upstream,
    /// The source, which is at the other end of the last link.
    Source,
}

impl Below {
    /// A receiver that wants a level, and whose token allows one.
    pub fn new(wanted: Level, allowed: Level) -> Below {
        Below {
            wanted,
            allowed,
            seconds: 0,
            upstream: (Level::BASE, 0),
            next: String::new(),
            agreed: None,
            reported: None,
        }
    }

    /// The receiver has a contract, which allows levels up to `level`.
    pub fn agreed(&mut self, level: Level) {
        self.agreed = Some(level);
    }

    /// The node at the other end of the last link is called `next`.
    pub fn connected(&mut self, next: &str) {
        next.clone_into(&mut self.next);
    }

    /// The flow is joined, perhaps once more: its levels come again.
    pub fn joined(&mut self) {
        (self.seconds, self.reported) = (0, None);
        self.upstream.1 = 0;
    }

    /// Takes the figures of a second; returns a message once for each level and reason. After `silent` seconds without a packet the
    /// level says nothing of the nodes: the source is silent, or the path is cut.
    pub fn look(&mut self, progress: &Progress, flow: &FlowInfo, silent: u32) -> Option<String> {
        if silent > 0 {
            if silent >= SILENCE {
                (self.seconds, self.upstream.1) = (0, 0);
            }
            return None;
        }
        let (spec, level) = (&flow.spec, progress.level);
        if level >= self.wanted.min(spec.top_level()) {
            (self.seconds, self.reported) = (0, None);
            self.upstream.1 = 0;
            return None;
        }
        self.seconds += 1;
        let next = level.up();
        let (has, needs) = (
            spec.measured_above_base(level)
                .saturating_add(progress.left),
            spec.measured_above_base(next),
        );
        let base = spec.layers.base.mean.rate();
        let busiest = spec.peak_at(next).rate();
        let of_group = group_level(flow).is_some_and(|most| level >= most);
        let reason = if level >= self.allowed {
            Reason::Token
        } else if of_group {
            Reason::Group
        } else if has < needs {
            Reason::Link
        } else if progress.asked <= level {
            match progress.asks_less_because {
                None if self.agreed.is_some_and(|most| level >= most) => Reason::Contract,
                cause => Reason::Asks(cause),
            }
        } else if flow.source == self.next {
            Reason::Source
        } else {
            Reason::Upstream
        };
        let (at, seconds) = self.upstream;
        let patience = match reason {
            Reason::Source | Reason::Upstream => {
                let seconds = if at == level { seconds + 1 } else { 1 };
                self.upstream = (level, seconds);
                let patience = match reason {
                    Reason::Source => SOURCE_PATIENCE,
                    _ => PATIENCE,
                };
                patience.saturating_sub(seconds)
            }
            _ => {
                self.upstream.1 = 0;
                0
            }
        };
        if self.seconds < PATIENCE || patience > 0 {
            return None;
        }
        match &mut self.reported {
            Some((at, reasons)) if *at == level => {
                if reasons.contains(&reason) {
                    return None;
                }
                reasons.push(reason);
            }
            reported => *reported = Some((level, vec![reason])),
        }
        Some(match reason {
            Reason::Token => format!(
                "level {level}: the token of this receiver allows no more (layercast token --level)"
            ),
            Reason::Group => {
                let most = flow.group_bps.map(Rate::from_bps).unwrap_or_default();
                format!("level {level}: {}", one_rate(&format!("{most} at most")))
            }
            Reason::Contract => {
                format!("level {level}: its contract allows no more (join --profile)")
            }
            Reason::Link if has.0 == 0 => format!(
                "level {level}: base layers ({base} for this flow) take all that the last link has, level {next} needs {} more",
                needs.rate()
            ),
            Reason::Link => format!(
                "level {level}: besides base layers ({base} for this flow) the last link has {} for it, level {next} needs {}",
                has.rate(),
                needs.rate()
            ),
            Reason::Asks(None | Some(Cause::Red(Parameter::Throughput))) => {
                format!("level {level}: this receiver asks for no more yet")
            }
            Reason::Asks(Some(Cause::Red(Parameter::ErrorRate))) => format!(
                "level {level}: this receiver asks for no more, since its data are lost or late (red zone) and no queue marks \
                 congestion. If fewer layers do not help, it asks for level {next} again, and the path itself loses packets: link repair \
                 (--repair auto, the default) at both ends of the link, parities (serve --protect-base auto) or another path help"
            ),
            Reason::Asks(Some(Cause::Red(Parameter::Delay | Parameter::Jitter))) => format!(
                "level {level}: this receiver asks for no more, since the delay in the network or its jitter is above what was agreed \
                 (red zone) and no queue marks congestion. If fewer layers do not help, it asks for level {next} again, and the load \
                 is not the reason: another path helps, or a profile that agrees on more (serve --profile)"
            ),
            Reason::Asks(Some(Cause::Marks)) => format!(
                "level {level}: this receiver asks for no more, since a queue on the path filled up (congestion marks): the \
                 busiest GOPs of level {next} take up to {busiest}, and a link of the path has less (layercast stats at each \
                 node up to the server tells which). It asks again after a quiet time; encode with -maxrate and -bufsize, \
                 or raise the rate of that link"
            ),
            Reason::Source => format!(
                "level {level}, although this receiver asks for level {} and the last link has room for level {next}: the server \
                 {} does not send it; a level begins with a GOP, and in a flow of few key frames that takes long",
                progress.asked, flow.source
            ),
            Reason::Upstream => format!(
                "level {level}, although this receiver asks for level {} and the last link has room for level {next}: a \
                 node further up gives no more (layercast stats at each node up to the server tells which)",
                progress.asked
            ),
        })
    }
}

/// That a flow has one rate for its group, and `whose` that is.
pub fn one_rate(whose: &str) -> String {
    format!("the flow has one rate for its group (--group single-rate): {whose}")
}

#[cfg(test)]
mod tests {
    use layercast_core::{CellRate, Layer, Mediation};

    use super::*;
    use crate::reasons::tests::second;

    fn flow() -> FlowInfo {
        let mut flow = FlowInfo::new(layercast_core::FlowId(1), "bunny", "atc");
        for (layer, mean) in Layer::ALL.into_iter().zip([1_000, 1_000, 1_000]) {
            flow.spec.layers[layer].mean = CellRate(mean);
        }
        flow
    }

    /// A receiver at the base level whose last link has room for all.
    fn at_base() -> Progress {
        Progress {
            level: Level::BASE,
            left: CellRate(100_000),
            ..second(0, 0, 0)
        }
    }

    #[test]
    fn a_link_that_base_layers_fill_is_not_said_to_have_0_bits() {
        let full = Progress {
            left: CellRate(0),
            ..at_base()
        };
        let (flow, mut below) = (flow(), Below::new(Level::FULL, Level::FULL));
        let mut said = (0..9).filter_map(|_| below.look(&full, &flow, 0));
        let said = said.next().unwrap();
        assert!(said.contains("take all that the last link has"), "{said}");
        assert!(!said.contains(" 0 bit/s"), "{said}");
    }

    #[test]
    fn no_node_is_named_while_no_packet_comes() {
        let mut below = Below::new(Level::FULL, Level::FULL);
        let flow = flow();
        // The adapter falls silent 2 s after the packets.
        let said: Vec<_> = (1..60)
            .filter_map(|silent| below.look(&at_base(), &flow, silent))
            .collect();
        assert_eq!(said, Vec::<String>::new());
        // Packets come again, and the level does not.
        let said: Vec<_> = (1..=4).map(|_| below.look(&at_base(), &flow, 0)).collect();
        assert!(said[..2].iter().all(Option::is_none), "{said:?}");
        assert!(said[2].as_ref().unwrap().contains("a node further up"));
        assert_eq!(said[3], None);
        // Seconds between the packets of a slow flow do not count, and do not begin the wait again.
        let mut below = Below::new(Level::FULL, Level::FULL);
        let said: Vec<_> = (0..5)
            .map(|n| below.look(&at_base(), &flow, n % 2))
            .collect();
        assert!(said[4].is_some(), "{said:?}");
        // Nor does what was below before the flow came back.
        let mut below = Below::new(Level::FULL, Level::FULL);
        for _ in 0..2 {
            assert_eq!(below.look(&at_base(), &flow, 0), None);
        }
        below.joined();
        assert_eq!(below.look(&at_base(), &flow, 0), None);
    }

    #[test]
    fn no_node_further_up_is_named_in_a_change_or_where_there_is_none() {
        let flow = flow();
        // The grant is that of the next level for 2 s, and then the level follows.
        let rising = |n: u32| Progress {
            level: [Level::BASE, Level::E1][(n / 5 % 2) as usize],
            left: CellRate(if n % 5 < 3 { 0 } else { 100_000 }),
            ..at_base()
        };
        let mut below = Below::new(Level::FULL, Level::FULL);
        below.connected("switch");
        let said: Vec<_> = (0..40)
            .filter_map(|n| below.look(&rising(n), &flow, 0))
            .collect();
        assert!(!said.is_empty());
        assert!(
            said.iter().all(|it| it.contains("the last link has")),
            "{said:?}"
        );
        // The source is at the other end of the last link.
        let mut below = Below::new(Level::FULL, Level::FULL);
        below.connected("atc");
        let said: Vec<_> = (0..40).map(|_| below.look(&at_base(), &flow, 0)).collect();
        assert!(said[..9].iter().all(Option::is_none), "{said:?}");
        let text = said[9].as_ref().unwrap();
        assert!(text.contains("the server atc does not send it"), "{text}");
        assert!(!text.contains("further up"), "{text}");
    }

    #[test]
    fn another_reason_at_the_same_level_is_told_and_each_once() {
        let mut below = Below::new(Level::FULL, Level::FULL);
        let flow = flow();
        let asks_less = |n: u32| Progress {
            asked: if n % 8 < 4 { Level::FULL } else { Level::BASE },
            asks_less_because: (n % 8 >= 4).then_some(Cause::Marks),
            ..at_base()
        };
        let said: Vec<_> = (0..40)
            .filter_map(|n| below.look(&asks_less(n), &flow, 0))
            .collect();
        assert_eq!(said.len(), 2, "{said:?}");
        let all = said.join("\n");
        assert!(all.contains("a node further up"), "{all}");
        assert!(all.contains("congestion marks"), "{all}");
    }

    #[test]
    fn one_rate_of_a_group_and_a_contract_are_told_as_stats_tells_them() {
        let at = |level, asked| Progress {
            level,
            asked,
            ..at_base()
        };
        let first = |below: &mut Below, flow: &FlowInfo, progress: &Progress| {
            let mut said = (0..9).filter_map(|_| below.look(progress, flow, 0));
            let text = said.next().expect("a reason");
            assert_eq!(said.next(), None);
            text
        };
        let mut group = flow();
        group.mediation = Some(Mediation::SingleRate);
        group.group_bps = Some(CellRate(2_000).rate().as_bps());
        let mut below = Below::new(Level::FULL, Level::FULL);
        below.agreed(Level::E1);
        let said = first(&mut below, &group, &at(Level::E1, Level::E1));
        assert_eq!(
            said,
            "level BL+E1: the flow has one rate for its group (--group single-rate): 848.0 kbit/s at most"
        );
        // Below what the group has, it is something else.
        let mut below = Below::new(Level::FULL, Level::FULL);
        let full = Progress {
            left: CellRate(0),
            ..at(Level::BASE, Level::E1)
        };
        assert!(first(&mut below, &group, &full).contains("the last link"));
        let mut below = Below::new(Level::FULL, Level::FULL);
        below.agreed(Level::E1);
        let said = first(&mut below, &flow(), &at(Level::E1, Level::E1));
        assert_eq!(
            said,
            "level BL+E1: its contract allows no more (join --profile)"
        );
        let said = first(&mut below, &flow(), &at(Level::BASE, Level::BASE));
        assert!(said.contains("asks for no more yet"), "{said}");
    }

    #[test]
    fn the_cause_of_the_last_decision_is_told_with_what_helps_against_it() {
        let flow = flow();
        let lost = "data are lost or late";
        for (cause, part, remedy) in [
            (Some(Cause::Marks), "(congestion marks)", "raise the rate"),
            (Some(Cause::Red(Parameter::ErrorRate)), lost, "--repair"),
            (Some(Cause::Red(Parameter::Delay)), "delay", "another path"),
            (
                Some(Cause::Red(Parameter::Jitter)),
                "jitter",
                "another path",
            ),
            (None, "asks for no more yet", ""),
        ] {
            let asks_less = Progress {
                asked: Level::BASE,
                asks_less_because: cause,
                // Marks of long ago are no cause.
                marked: 7,
                ..at_base()
            };
            let mut below = Below::new(Level::FULL, Level::FULL);
            let said: Vec<_> = (0..9)
                .filter_map(|_| below.look(&asks_less, &flow, 0))
                .collect();
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(
                said[0].contains(part) && said[0].contains(remedy),
                "{said:?}"
            );
            let says_rate =
                said[0].contains("raise the rate") || said[0].contains("(congestion marks)");
            assert_eq!(says_rate, cause == Some(Cause::Marks), "{said:?}");
        }
    }
}
