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
    /// What it lets pass forever.
    pub rate: Rate,
    /// Bytes that it lets pass in one burst after a pause.
    pub burst: u64,
    /// Of rates that judge nearly as many packets as well, least and most.
    pub rates: [Rate; 2],
    /// The bursts that go with them, least and most.
    pub bursts: [u64; 2],
    /// Packets that this bucket judges otherwise than the policer did.
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
/// that is all wrong.
const STEPS: u32 = 2_400;
/// The highest rate looked at over the least.
const RANGE: f64 = 400.0;
/// How far around the best burst it then looks, and how far around the best rate, of which these are the squares.
const NEAR: [f64; 4] = [2.0, 1.2, 1.04, 1.01];
/// How far around the best rate it looks for both together.
const FINE: f64 = 1.02;
/// Steps of each of these.
const CLOSER: u32 = 200;

/// The token bucket behind what became of packets, which are in the order of sending and begin after a pause.
///
/// A bucket of rate `r` that was full holds `b - X` bytes, where `X` grows by each packet that passes and shrinks
/// with `r`. A packet of `L` bytes passes if `X + L <= b`. The bucket is that which misjudges fewest packets: Eq (2) of
/// the packet-train model (specs/vbr-atm-lan.md 2.3) the other way round, for trains of any times.
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
    let (low, high) = (passed / seconds / RANGE, passed / seconds * 1.05);
    let scanned = steps(low, high, STEPS).map(|rate| rough(packets, rate));
    let best = scanned.min_by_key(|it| it.misjudged).expect("steps");
    // A lower rate goes with a larger burst, so they are looked for together first, and then each alone.
    let [low, high] = [best.rate / FINE, best.rate * FINE];
    let finer = steps(low, high, CLOSER).map(|rate| rough(packets, rate));
    let (mut best, _) = middle(best, finer.collect(), |it| it.rate);
    let (mut rates, mut bursts) = ([best.rate; 2], [best.burst; 2]);
    for near in NEAR {
        let [low, high] = [best.burst / near, best.burst * near];
        let tried = steps(low, high, CLOSER).map(|burst| judge(packets, best.rate, burst));
        (best, bursts) = middle(best, tried.collect(), |it| it.burst);
        let near = near.sqrt();
        let [low, high] = [best.rate / near, best.rate * near];
        let tried = steps(low, high, CLOSER).map(|rate| judge(packets, rate, best.burst));
        (best, rates) = middle(best, tried.collect(), |it| it.rate);
    }
    let bps = |rate: f64| Rate::from_bps((8.0 * rate).round() as u64);
    Ok(TokenBucket {
        rate: bps(best.rate),
        burst: best.burst.round() as u64,
        rates: rates.map(bps),
        bursts: bursts.map(|it| it.round() as u64),
        misjudged: best.misjudged,
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

/// From `low` to `high` in `count` equal factors.
fn steps(low: f64, high: f64, count: u32) -> impl Iterator<Item = f64> {
    let factor = (high / low).powf(1.0 / f64::from(count));
    (0..=count).map(move |step| low * factor.powf(f64::from(step)))
}

/// What a bucket makes of the packets.
#[derive(Clone, Copy, Debug)]
struct Judged {
    /// Bytes per second.
    rate: f64,
    burst: f64,
    misjudged: usize,
}

/// The one in the middle of the best, or this one if it is better, and the least and the most of what misjudges nearly
/// as few: two packets may have met a policer that was late.
fn middle(before: Judged, tried: Vec<Judged>, of: impl Fn(&Judged) -> f64) -> (Judged, [f64; 2]) {
    let all = tried.iter().chain([&before]);
    let fewest = all.map(|it| it.misjudged).min().unwrap_or(0);
    let upto = |most| tried.iter().filter(move |it| it.misjudged <= most);
    let good: Vec<&Judged> = upto(fewest).collect();
    let best = good.get(good.len() / 2).map_or(before, |it| **it);
    let mut range = [of(&best); 2];
    for near in upto(fewest + 2).map(of) {
        range = [range[0].min(near), range[1].max(near)];
    }
    (best, range)
}

/// A rate with the best of the bursts that the whole and its beginnings tell: a beginning knows nothing of what was
/// lost elsewhere later.
fn rough(packets: &[Probed], rate: f64) -> Judged {
    let beginnings = (0..4).map(|half| &packets[..packets.len().div_ceil(1 << half)]);
    let judged = beginnings.map(|it| judge(packets, rate, burst_of(it, rate)));
    judged.min_by_key(|it| it.misjudged).expect("four of them")
}

/// The burst that judges most packets as they fared if none was lost elsewhere: what a bucket has taken in then does not
/// depend on it.
fn burst_of(packets: &[Probed], rate: f64) -> f64 {
    let mut level = 0.0_f64;
    let mut before = packets[0].at;
    let mut needs = Vec::with_capacity(packets.len());
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
    // Each packet that a burst takes in is one judged rightly more, or one less.
    let (mut right, mut most, mut found) = (0_i64, 0, needs[0].0);
    for (place, (need, passed)) in needs.iter().enumerate() {
        right += if *passed { 1 } else { -1 };
        if right > most {
            let next = needs.get(place + 1).map_or(*need, |it| it.0);
            (most, found) = (right, f64::midpoint(*need, next));
        }
    }
    found
}

/// Counts the packets that fared otherwise than a bucket says. Each sets the level right, so that what is lost
/// elsewhere counts once and not for all that follows.
fn judge(packets: &[Probed], rate: f64, burst: f64) -> Judged {
    let (mut level, mut misjudged) = (0.0_f64, 0);
    let mut before = packets[0].at;
    for packet in packets {
        level = (level - rate * packet.at.since(before).as_secs_f64()).max(0.0);
        before = before.max(packet.at);
        let needed = level + f64::from(packet.bytes);
        let passes = needed <= burst;
        misjudged += usize::from(passes != packet.passed);
        level = match (passes, packet.passed) {
            // Also what is lost behind the policer took tokens.
            (true, _) => needed,
            // It left less than would let another one pass: in the middle, for the next to be judged as surely.
            (false, true) => burst - f64::from(packet.bytes) / 2.0,
            (false, false) => level,
        };
    }
    Judged {
        rate,
        burst,
        misjudged,
    }
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
            // The search may end a step beside one that misjudges none.
            prop_assert!(found.misjudged <= 2, "{:?}", found);
            prop_assert!(off(found.rate.as_bps() as f64, bps as f64) < 0.02, "{:?}", found);
            // The resolution is one packet, and one more for each misjudged packet.
            let told = (1 + found.misjudged as u64) * u64::from(bytes);
            prop_assert!(found.burst.abs_diff(burst) <= told, "{:?} {}", found, burst);
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

    /// As where the other host did not listen for a while.
    #[test]
    fn what_is_lost_together_elsewhere_does_not_matter_either() {
        for gaps in [
            &[(330, 390)][..],
            &[(200, 215), (330, 340)],
            &[(150, 180), (280, 283), (360, 370)],
        ] {
            let mut sent = trains(2_000_000, 30_000, 1_000, 100_000_000, &[]);
            for (from, to) in gaps {
                sent[*from..*to].iter_mut().for_each(|it| it.passed = false);
            }
            let found = token_bucket(&sent).expect("a policer");
            assert!(off(found.rate.as_bps() as f64, 2e6) < 0.02, "{found:?}");
            assert!(off(found.burst as f64, 30_000.0) < 0.05, "{found:?}");
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
