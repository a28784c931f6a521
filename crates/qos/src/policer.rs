use layercast_core::{Rate, Span, Time};
use thiserror::Error;

/// A packet of a probe through a policer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probed {
    /// When it was sent.
    pub at: Time,
    /// With all that the policer counts.
    pub bytes: u32,
    /// Whether it arrived.
    pub passed: bool,
}

/// The token bucket that judges packets as a policer did.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TokenBucket {
    /// What it lets pass for ever.
    pub rate: Rate,
    /// Bytes that it lets pass at once after a pause.
    pub burst: u64,
    /// Of rates that judge nearly as many packets as well, least and most.
    pub rates: [Rate; 2],
    /// The bursts that go with them, least and most.
    pub bursts: [u64; 2],
    /// Packets that no bucket judges as the policer did.
    pub misjudged: usize,
}

/// Why there is no bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NoBucket {
    /// Nothing was lost: no policer, or one of a higher rate or a larger burst.
    #[error("nothing was lost: no policer below this rate and this amount")]
    NoLoss,
    /// Nothing arrived after the first loss, so that nothing tells the rate.
    #[error("nothing arrived after the first loss: too few packets, or no answer")]
    NoneAfter,
}

/// Steps of the first search over all rates, of a quarter of a percent: farther off, a rate may misjudge more than one
/// that is all wrong. And of each closer one.
const STEPS: usize = 2_400;
/// The highest rate looked at over the least.
const RANGE: f64 = 400.0;
const CLOSER: usize = 40;
/// How often it looks closer.
const ZOOMS: usize = 4;

/// The token bucket behind what became of packets, which are in the order of sending and begin after a pause.
///
/// A bucket of rate `r` that was full holds `b - X` bytes, where `X` grows by each packet that passes and shrinks
/// with `r`: that needs no `b`. A packet of `L` bytes passes if `X + L <= b`. So for each rate there is a burst that
/// judges most packets as they fared, and the rate is the one whose best burst misjudges fewest. This is Eq (2) of the
/// packet-train model (vbr-atm-lan.md 2.3) the other way round, for trains of any times.
pub fn token_bucket(packets: &[Probed]) -> Result<TokenBucket, NoBucket> {
    let first_loss = packets.iter().position(|it| !it.passed);
    let first_loss = first_loss.ok_or(NoBucket::NoLoss)?;
    if !packets[first_loss..].iter().any(|it| it.passed) {
        return Err(NoBucket::NoneAfter);
    }
    let passed: f64 = packets
        .iter()
        .filter(|it| it.passed)
        .map(|it| f64::from(it.bytes))
        .sum();
    let seconds = busy(packets).max(Span::from_us(1)).as_secs_f64();
    // What passed while packets were sent is the burst and the rate together: that is more than the rate, and not
    // very much more unless nearly all was burst.
    let (mut low, mut high) = (passed / seconds / RANGE, passed / seconds * 1.05);
    let mut steps = STEPS;
    let mut tried: Vec<Judged> = Vec::new();
    for _ in 0..=ZOOMS {
        let factor = (high / low).powf(1.0 / steps as f64);
        tried.extend((0..=steps).map(|step| judge(packets, low * factor.powi(step as i32))));
        tried.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        let [least, most] = best(&tried, 0);
        low = tried[least.saturating_sub(1)].rate;
        high = tried[(most + 1).min(tried.len() - 1)].rate;
        steps = CLOSER;
    }
    let [least, most] = best(&tried, 0);
    let middle = judge(packets, f64::midpoint(tried[least].rate, tried[most].rate));
    // Two packets may have met a policer that was late.
    let [from, to] = best(&tried, 2);
    let near = &tried[from..=to];
    let bps = |rate: f64| Rate::from_bps((8.0 * rate).round() as u64);
    let bounds = near
        .iter()
        .filter(|it| it.misjudged <= middle.misjudged + 2);
    let bursts = bounds.flat_map(|it| it.bursts);
    Ok(TokenBucket {
        rate: bps(middle.rate),
        burst: middle.burst(),
        rates: [bps(tried[from].rate), bps(tried[to].rate)],
        bursts: [
            bursts.clone().fold(middle.bursts[0], f64::min) as u64,
            bursts.fold(middle.bursts[1], f64::max) as u64,
        ],
        misjudged: middle.misjudged,
    })
}

/// The time in which packets were sent, without pauses.
fn busy(packets: &[Probed]) -> Span {
    let gaps = packets.windows(2).map(|it| it[1].at.since(it[0].at));
    let mut sorted: Vec<Span> = gaps.clone().collect();
    sorted.sort_unstable();
    let usual = sorted[sorted.len() / 2].times(10);
    gaps.fold(Span::ZERO, |sum, gap| sum + gap.min(usual))
}

/// What the best burst makes of a rate.
#[derive(Clone, Copy, Debug)]
struct Judged {
    /// Bytes per second.
    rate: f64,
    /// From which burst on, and below which.
    bursts: [f64; 2],
    misjudged: usize,
}

impl Judged {
    fn burst(&self) -> u64 {
        f64::midpoint(self.bursts[0], self.bursts[1]).round() as u64
    }
}

/// The first and the last of the rates that misjudge no more than the best does, and so many.
fn best(tried: &[Judged], more: usize) -> [usize; 2] {
    let fewest = tried.iter().map(|it| it.misjudged).min().unwrap_or(0);
    let good = |it: &Judged| it.misjudged <= fewest + more;
    let first = tried.iter().position(good).unwrap_or(0);
    let last = tried.iter().rposition(good).unwrap_or(first);
    [first, last]
}

fn judge(packets: &[Probed], rate: f64) -> Judged {
    let mut level = 0.0_f64;
    let mut before = packets[0].at;
    let mut needs: Vec<(f64, bool)> = Vec::with_capacity(packets.len());
    for packet in packets {
        level = (level - rate * packet.at.since(before).as_secs_f64()).max(0.0);
        before = before.max(packet.at);
        let needed = level + f64::from(packet.bytes);
        needs.push((needed, packet.passed));
        if packet.passed {
            level = needed;
        }
    }
    needs.sort_by(|one, other| one.0.total_cmp(&other.0));
    // With no burst all that passed are misjudged; each packet that it takes in is one less or one more.
    let mut misjudged = needs.iter().filter(|it| it.1).count();
    let mut found = Judged {
        rate,
        bursts: [0.0, needs[0].0],
        misjudged,
    };
    for (place, (need, passed)) in needs.iter().enumerate() {
        match passed {
            true => misjudged -= 1,
            false => misjudged += 1,
        }
        if misjudged < found.misjudged {
            let next = needs.get(place + 1).map_or(*need, |it| it.0);
            (found.bursts, found.misjudged) = ([*need, next], misjudged);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A policer of packets: the leaky bucket in exact arithmetic (bytes times ps).
    struct Bucket {
        bps: u64,
        burst: u64,
        content: u128,
        last: Time,
    }

    impl Bucket {
        const BYTE: u128 = 8_000_000_000_000;

        fn passes(&mut self, at: Time, bytes: u32) -> bool {
            let drained = u128::from(at.since(self.last).as_ps()) * u128::from(self.bps);
            self.content = self.content.saturating_sub(drained);
            self.last = at;
            let after = self.content + u128::from(bytes) * Bucket::BYTE;
            let passes = after <= u128::from(self.burst) * Bucket::BYTE;
            if passes {
                self.content = after;
            }
            passes
        }
    }

    /// A train through it, and after a pause another one at twice its rate.
    fn trains(bps: u64, burst: u64, bytes: u32, fast: u64, flips: &[u64]) -> Vec<Probed> {
        let mut bucket = Bucket {
            bps,
            burst,
            content: 0,
            last: Time::ZERO,
        };
        let mut at = Time::ZERO;
        let mut packets = Vec::new();
        let first = 40 + burst / u64::from(bytes) * fast / (fast - bps);
        for (count, pace) in [(first, fast), (400, 2 * bps)] {
            for _ in 0..count {
                let passed = bucket.passes(at, bytes);
                packets.push(Probed { at, bytes, passed });
                at += Rate::from_bps(pace).time_for(u64::from(bytes));
            }
            at += Span::from_ms(700);
        }
        for flip in flips {
            let place = (flip % packets.len() as u64) as usize;
            packets[place].passed = false;
        }
        packets
    }

    fn off(found: f64, told: f64) -> f64 {
        (found / told - 1.0).abs()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn rate_and_burst_of_an_exact_policer_are_found(
            kbps in 500u64..50_000, packets in 10u64..200, bytes in 200u32..1_500, faster in 4u64..20,
        ) {
            let (bps, burst) = (1_000 * kbps, packets * u64::from(bytes) + u64::from(bytes) / 3);
            let sent = trains(bps, burst, bytes, faster * bps, &[]);
            let found = token_bucket(&sent).expect("a policer");
            prop_assert_eq!(found.misjudged, 0);
            prop_assert!(off(found.rate.as_bps() as f64, bps as f64) < 0.02, "{:?}", found);
            // A packet more or less is all that can be told.
            prop_assert!(found.burst.abs_diff(burst) <= u64::from(bytes), "{:?} {}", found, burst);
            prop_assert!(found.rates[0] <= found.rate && found.rate <= found.rates[1]);
            prop_assert!(found.bursts[0] <= found.burst && found.burst <= found.bursts[1]);
        }

        #[test]
        fn packets_lost_elsewhere_do_not_matter_much(
            kbps in 500u64..50_000, flips in prop::collection::vec(any::<u64>(), 0..6),
        ) {
            let (bps, burst) = (1_000 * kbps, 64_000);
            let sent = trains(bps, burst, 1_000, 10 * bps, &flips);
            let found = token_bucket(&sent).expect("a policer");
            prop_assert!(off(found.rate.as_bps() as f64, bps as f64) < 0.05, "{:?}", found);
            prop_assert!(off(found.burst as f64, burst as f64) < 0.08, "{:?}", found);
        }
    }

    #[test]
    fn without_losses_or_answers_there_is_none() {
        let packet = |ms, passed| Probed {
            at: Time::ZERO + Span::from_ms(ms),
            bytes: 1_000,
            passed,
        };
        let all = [packet(0, true), packet(1, true)];
        assert_eq!(token_bucket(&all), Err(NoBucket::NoLoss));
        assert_eq!(token_bucket(&[]), Err(NoBucket::NoLoss));
        let none = [packet(0, true), packet(1, false), packet(2, false)];
        assert_eq!(token_bucket(&none), Err(NoBucket::NoneAfter));
    }
}
