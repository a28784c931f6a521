//! What the encoders of flows may send: the rate that the links to the receivers carry.

use std::collections::BTreeMap;

use layercast_core::{CELL_PAYLOAD, FlowSpec, PortId, Rate, Span, Time};

use super::Machines;
use crate::config::NodeEvent;
use crate::ports::Ports;

/// Interval at which it is looked at.
const LOOK: Span = Span::from_ms(250);
/// Least time between two targets of a flow, and least change, as a share of the former one.
const EVERY: Span = Span::from_secs(1);
const CHANGE: f64 = 0.05;
/// For how long the links have to carry more before the target rises. Each rise that a fall follows within [`WRONG`] doubles that, up to
/// the second span: the estimate of a narrow path looks for more from time to time, and each new target costs an encoder a restart or a
/// change of quality.
const RISES_AFTER: Span = Span::from_secs(3);
const RISES_AFTER_AT_MOST: Span = Span::from_secs(60);
const WRONG: Span = Span::from_secs(30);
/// What is left of the count of repairs after each look: it follows the loss within seconds.
const KEPT: f64 = 0.9;

/// The target rate of the encoder of a flow.
pub(crate) struct Target {
    /// The flow at its full rate, as advertised.
    nominal: FlowSpec,
    /// Bit/s of its media at that rate.
    media: f64,
    /// The share of it that was reported last, and when.
    told: (f64, Time),
    /// Since when the links have carried more, and the least of that.
    more: Option<(Time, f64)>,
    rises_after: Span,
    /// The last target was a rise.
    rose: bool,
}

/// The octets that links carry as repairs.
#[derive(Default)]
pub(crate) struct Targets {
    at: Time,
    links: BTreeMap<PortId, Repairs>,
}

#[derive(Default)]
struct Repairs {
    /// Octets counted so far: first sendings and repairs.
    counted: (u64, u64),
    /// Those of the last seconds.
    recent: (f64, f64),
}

/// The rate of the media of a flow at its full rate, without headroom, headers and parities: what its encoder sends.
pub fn media_rate(spec: &FlowSpec) -> Rate {
    Rate::from_bps(u64::from(spec.measured().0) * CELL_PAYLOAD as u64 * 8)
}

impl Target {
    /// Of a flow declared as `own`, and advertised with its parities as `advertised`.
    pub fn new(now: Time, own: &FlowSpec, advertised: &FlowSpec) -> Target {
        Target {
            nominal: advertised.clone(),
            media: media_rate(own).as_bps() as f64,
            told: (1.0, now),
            more: None,
            rises_after: RISES_AFTER,
            rose: false,
        }
    }

    /// The flow is another one: if it takes more than ever before, that is its full rate.
    pub fn renegotiated(&mut self, spec: &FlowSpec) {
        let all = |spec: &FlowSpec| f64::from(spec.measured().0);
        if all(spec) > all(&self.nominal) {
            let grown = all(spec) / all(&self.nominal).max(1.0);
            self.media *= grown;
            self.told.0 /= grown;
            self.more = None;
            self.nominal = spec.clone();
        }
    }

    /// Takes the share of the full rate that the links carry; gives the target if it is another one: a lower one immediately, a higher one
    /// once the links have carried that for some time.
    fn news(&mut self, now: Time, share: f64) -> Option<(Rate, f64)> {
        let (told, at) = self.told;
        let share = if share > told * (1.0 + CHANGE) {
            let (since, least) = self.more.map_or((now, share), |it| (it.0, it.1.min(share)));
            self.more = Some((since, least));
            if now.since(since) < self.rises_after {
                return None;
            }
            least
        } else {
            self.more = None;
            if share >= told * (1.0 - CHANGE) {
                return None;
            }
            share
        };
        if now.since(at) < EVERY {
            return None;
        }
        let rises = share > told;
        if !rises && self.rose {
            self.rises_after = match now.since(at) < WRONG {
                true => self.rises_after.times(2).min(RISES_AFTER_AT_MOST),
                false => RISES_AFTER,
            };
        }
        self.told = (share, now);
        self.more = None;
        self.rose = rises;
        Some((Rate::from_bps((self.media * share) as u64), share))
    }
}

impl Targets {
    /// When to look again.
    pub fn next_timeout(&self) -> Time {
        self.at
    }

    /// Counts the repairs of all links again.
    fn count(&mut self, ports: &Ports) {
        let mut gone = std::mem::take(&mut self.links);
        for (id, port) in ports.iter() {
            let Some(stats) = port.egress.repair.stats() else {
                continue;
            };
            let layers = stats.sending.layers;
            let layers = [layers.base, layers.e1, layers.e2];
            let sum = layers.iter().fold((0, 0), |(first, again), layer| {
                (first + layer.octets, again + layer.repair_octets)
            });
            let mut link = gone.remove(&id).unwrap_or_default();
            // A port that is used again counts from zero.
            let more = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now) as f64;
            link.recent.0 = KEPT * link.recent.0 + more(sum.0, link.counted.0);
            link.recent.1 = KEPT * link.recent.1 + more(sum.1, link.counted.1);
            link.counted = sum;
            self.links.insert(id, link);
        }
    }

    /// The part of a link that repairs leave to the media.
    fn room(&self, port: PortId) -> f64 {
        let Some(link) = self.links.get(&port) else {
            return 1.0;
        };
        let (first, again) = link.recent;
        match first + again > 0.0 {
            true => first / (first + again),
            false => 1.0,
        }
    }
}

impl Machines {
    /// Tells the user which rates the encoders of the flows may send, when that changed.
    pub(super) fn look_at_targets(&mut self, now: Time) {
        if now < self.targets.at || self.flows.is_empty() {
            return;
        }
        self.targets.at = now.saturating_add(LOOK);
        self.targets.count(&self.ports);
        let Some(switch) = self.station.switch() else {
            return;
        };
        let mut told = Vec::new();
        for running in self.flows.iter_mut().filter(|running| !running.finished) {
            let nominal = &running.target.nominal;
            let room = |port| self.targets.room(port);
            let Some(share) = switch.carried_share(running.flow, nominal, room) else {
                continue;
            };
            if let Some((rate, share)) = running.target.news(now, share) {
                told.push(NodeEvent::Target {
                    flow: running.name.clone(),
                    rate,
                    share,
                });
            }
        }
        for event in told {
            self.tell(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{CellRate, LayerRate, PerLayer};

    use super::*;

    fn spec(cells: u32, headroom_permille: u16) -> FlowSpec {
        let base = LayerRate {
            mean: CellRate(cells),
            ..LayerRate::default()
        };
        FlowSpec {
            layers: PerLayer {
                base,
                ..PerLayer::default()
            },
            headroom_permille,
            ..FlowSpec::default()
        }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// What a target says, looked at four times a second between two seconds, while the links carry `share`.
    fn look(target: &mut Target, from_s: u64, to_s: u64, share: impl Fn(u64) -> f64) -> Vec<u64> {
        let looks = (from_s * 4..to_s * 4).map(|quarter| quarter * 250);
        let news = looks.filter_map(|ms| target.news(at(ms), share(ms)));
        news.map(|(rate, _)| rate.as_bps()).collect()
    }

    #[test]
    fn a_target_falls_once_a_second_at_most_and_when_it_changed_by_more_than_a_twentieth() {
        // 8,000 cells/s of 384 bit, with a quarter of headroom.
        let own = spec(10_000, 250);
        let mut target = Target::new(at(0), &own, &own);
        assert_eq!(target.news(at(2_000), 0.96), None, "hardly less");
        let news = target.news(at(2_250), 0.5);
        assert_eq!(news.map(|it| it.0.as_bps()), Some(8_000 * 384 / 2));
        assert_eq!(target.news(at(3_000), 0.25), None, "too soon");
        assert!(target.news(at(3_250), 0.25).is_some());
        assert_eq!(target.news(at(9_000), 0.26), None);
    }

    #[test]
    fn a_target_rises_to_what_the_links_have_carried_for_three_seconds() {
        let own = spec(1_000, 0);
        let mut target = Target::new(at(0), &own, &own);
        assert_eq!(look(&mut target, 1, 2, |_| 0.5), [192_000]);
        // A short rise is none.
        let short = |ms: u64| if ms % 2_000 < 1_000 { 0.5 } else { 0.8 };
        assert!(look(&mut target, 2, 12, short).is_empty());
        let uneven = |ms| if ms == 14_000 { 0.6 } else { 0.8 };
        assert_eq!(look(&mut target, 12, 16, uneven), [230_400]);
        assert_eq!(look(&mut target, 16, 20, |_| 0.8), [307_200]);
        // A long flow of rises that do not hold: each is waited for longer.
        assert!(look(&mut target, 20, 60, |_| 0.8).is_empty());
        let flaps = |ms: u64| if ms % 12_000 < 2_000 { 0.6 } else { 0.8 };
        let told = look(&mut target, 60, 360, flaps);
        assert_eq!(told.len(), 5, "{told:?}");
        // What holds is believed after the same time, and the next fall begins again.
        assert_eq!(look(&mut target, 360, 400, |_| 0.8), [307_200]);
        assert_eq!(look(&mut target, 400, 401, |_| 0.5), [192_000]);
        assert_eq!(look(&mut target, 401, 405, |_| 0.8), [307_200]);
    }

    #[test]
    fn parities_are_not_for_the_encoder_and_a_flow_that_grows_has_another_full_rate() {
        let mut target = Target::new(at(0), &spec(1_000, 0), &spec(1_500, 0));
        let full = |target: &mut Target, s| {
            let told = look(target, s, s + 1, |_| 0.01);
            assert_eq!(told.len(), 1);
            look(target, s + 1, s + 62, |_| 1.0)
        };
        assert_eq!(full(&mut target, 1), [384_000]);
        target.renegotiated(&spec(700, 0));
        assert_eq!(full(&mut target, 100), [384_000]);
        target.renegotiated(&spec(3_000, 0));
        // The encoder was given the same rate, which is half of the new one.
        assert!(look(&mut target, 200, 201, |_| 0.5).is_empty());
        assert_eq!(full(&mut target, 201), [768_000]);
    }
}
