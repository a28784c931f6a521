use layercast_core::Rate;

/// The share of what a line carries that is divided: the rest keeps the queue short.
pub(super) const USED: f64 = 0.93;
/// What a level needs beyond its rate, for whole cells.
const MARGIN: f64 = 1.02;
/// Ports keep levels for which this share of the line is missing, for all of them together: an estimate varies.
const KEPT: f64 = 0.04;

/// A base layer arrives if this share of its rate does: key frames make the rate vary.
const PASSES: f64 = 0.9;
/// Enhancement frames that wait for more than this time, in seconds, are many.
const BEHIND: f64 = 0.25;

/// What the flows of a port need, all together: the base layers, and at each level what its receivers want of it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Rates of the port with BL, BL+E1 and BL+E1+E2; none is less than the one before.
    pub levels: [Rate; 3],
    /// What base layers need that are promised and do not pass now: other layers pass in their place.
    pub absent: Rate,
}

/// A port among those that divide a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub needs: Needs,
    /// The level that it had at the last division.
    pub held: usize,
}

/// What a port gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Share of what the line carries.
    pub share: f64,
    pub level: usize,
}

impl Port {
    fn rate(&self, level: usize) -> f64 {
        let rates = self.needs.levels;
        rates[..=level]
            .iter()
            .map(|rate| rate.as_bps() as f64 * MARGIN)
            .fold(0.0, f64::max)
    }

    /// Whether its base layer arrives, and less than half of the enhancement layers of its level, while these octets of them wait.
    pub fn is_behind(&self, arrives: f64, octets: u64) -> bool {
        let base = self.rate(0);
        let more = self.rate(self.held) - base;
        let is_part = (PASSES * base..base + more / 2.0).contains(&arrives);
        is_part && octets as f64 * 8.0 > BEHIND * more
    }

    /// The rate of the next level above this one that needs more.
    fn next(&self, level: usize) -> Option<(usize, f64)> {
        let more = |next: &usize| self.rate(*next) > self.rate(level);
        let next = (level + 1..self.needs.levels.len()).find(more)?;
        Some((next, self.rate(next) - self.rate(level)))
    }
}

/// Divides what a line carries: base layers first, then whole levels, the lowest first and no port ahead of another by more than it has to be, then the
/// rest evenly among the ports that have a use for more.
pub(super) fn divide(carries: f64, ports: &[Port]) -> Vec<Part> {
    let usable = (USED * carries).max(1.0);
    let base: f64 = ports.iter().map(|port| port.rate(0)).sum();
    if base >= usable {
        let share = |port: &Port| Part {
            share: port.rate(0) / base,
            level: 0,
        };
        return ports.iter().map(share).collect();
    }
    let mut levels = vec![0; ports.len()];
    let mut left = usable - base;
    // A port that holds a level comes before others; of equal ones the first.
    let next = |levels: &[usize], left: f64| {
        let steps = ports.iter().zip(levels).enumerate();
        let steps = steps.filter_map(|(at, (port, level))| {
            let (next, more) = port.next(*level)?;
            let is_held = next <= port.held;
            let slack = if is_held { KEPT * usable } else { 0.0 };
            (more <= left + slack).then_some((*level, !is_held, at, next, more))
        });
        steps.min_by_key(|it| (it.0, it.1, it.2))
    };
    while let Some((_, _, at, level, more)) = next(&levels, left) {
        levels[at] = level;
        left -= more;
    }
    let wants = |at: usize| ports[at].next(levels[at]).is_some();
    let open = (0..ports.len()).filter(|at| wants(*at)).count();
    let each = left.max(0.0) / if open == 0 { ports.len() } else { open } as f64;
    let rates: Vec<f64> = (0..ports.len())
        .map(|at| {
            let more = if open == 0 || wants(at) { each } else { 0.0 };
            ports[at].rate(levels[at]) + more
        })
        .collect();
    // A level that is kept gets all that it needs, although the line is taken for a little smaller.
    let part = |(rate, level)| Part {
        share: rate / usable,
        level,
    };
    rates.into_iter().zip(levels).map(part).collect()
}

/// What a line has to carry for the next level of one port, beside what all of them had; 0 if they had all.
pub(super) fn one_more(ports: &[Port]) -> f64 {
    let had: f64 = ports.iter().map(|port| port.rate(port.held)).sum();
    let more = ports.iter().filter_map(|port| port.next(port.held));
    let least = more.map(|(_, more)| more).min_by(f64::total_cmp);
    least.map_or(0.0, |more| (had + more) / USED)
}

/// The base layer that waits is to leave within this time, in seconds.
const WITHIN: f64 = 0.25;

/// At what rates ports send now, with these parts of what a line carries: those whose base layer waits borrow what the others have above theirs.
/// `waits`: octets.
pub(super) fn lend(carries: f64, ports: &[(Port, Part)], waits: &[u64]) -> Vec<f64> {
    let parts = || ports.iter().map(|(_, part)| part.share * carries);
    let above = ports.iter().zip(parts());
    let above: Vec<f64> = above
        .map(|((port, _), part)| (part - port.rate(0)).max(0.0))
        .collect();
    let wanted: Vec<f64> = waits
        .iter()
        .map(|octets| *octets as f64 * 8.0 / WITHIN)
        .collect();
    let (surplus, all): (f64, f64) = (above.iter().sum(), wanted.iter().sum());
    let lent = surplus.min(all);
    if lent <= 0.0 {
        return parts().collect();
    }
    let each = parts().zip(above.iter().zip(&wanted));
    each.map(|(part, (above, wanted))| part + lent * (wanted / all - above / surplus))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(levels: [u64; 3], held: usize) -> Port {
        let needs = Needs {
            levels: levels.map(|kbps| Rate::from_bps(kbps * 1_000)),
            absent: Rate::from_bps(0),
        };
        Port { needs, held }
    }

    /// Shares of the line in percent, and levels.
    fn of(kbps: f64, ports: &[Port]) -> (Vec<u32>, Vec<usize>) {
        let parts = divide(kbps * 1e3, ports);
        let sum: f64 = parts.iter().map(|it| it.share).sum();
        assert!((1.0 - 1e-9..=1.0 + KEPT).contains(&sum), "{sum}");
        // What is granted is what the switch gets, and each level fits it.
        for (part, port) in parts
            .iter()
            .zip(ports)
            .filter(|_| sum >= 1.0 && kbps > 1_100.0)
        {
            let rate = USED * part.share * kbps * 1e3;
            assert!(
                rate >= port.needs.levels[part.level].as_bps() as f64,
                "{rate} at {}",
                part.level
            );
        }
        let shares = parts.iter().map(|it| (it.share * 100.0).round() as u32);
        (shares.collect(), parts.iter().map(|it| it.level).collect())
    }

    #[test]
    fn base_layers_come_first_and_levels_go_round() {
        let equal = |held| port([400, 700, 1_400], held);
        assert_eq!(of(2_000.0, &[equal(0); 3]).1, [1, 1, 0]);
        assert_eq!(of(2_700.0, &[equal(0); 3]), (vec![33, 33, 33], vec![1; 3]));
        // One that has the level keeps it.
        assert_eq!(of(2_000.0, &[equal(0), equal(1), equal(1)]).1, [0, 1, 1]);
        assert_eq!(of(10_000.0, &[equal(0); 3]), (vec![33; 3], vec![2; 3]));
    }

    #[test]
    fn a_line_that_does_not_carry_the_base_layers_is_divided_in_their_ratio() {
        let ports = [port([900, 1_000, 1_100], 2), port([300, 400, 500], 0)];
        assert_eq!(of(1_000.0, &ports), (vec![75, 25], vec![0, 0]));
    }

    #[test]
    fn what_one_has_no_use_for_is_for_the_others() {
        let ports = [port([300, 300, 300], 0), port([400, 800, 2_000], 0)];
        assert_eq!(of(2_600.0, &ports).1, [0, 2]);
    }

    #[test]
    fn a_base_layer_that_waits_borrows_what_is_above_the_others() {
        let ports = [port([400, 800, 900], 0), port([400, 800, 900], 0)];
        let parts: Vec<(Port, Part)> = ports.into_iter().zip(divide(2e6, &ports)).collect();
        assert_eq!(lend(2e6, &parts, &[0, 0]), [1e6, 1e6]);
        let rates = lend(2e6, &parts, &[1_000_000, 0]);
        assert!((rates[0] + rates[1] - 2e6).abs() < 1.0);
        assert!((4.0e5..4.2e5).contains(&rates[1]), "{rates:?}");
        // 10 kB take 0.25 s at 320 kbit/s.
        let rates = lend(2e6, &parts, &[10_000, 0]);
        assert!((1.1e6..1.2e6).contains(&rates[0]), "{rates:?}");
    }

    #[test]
    fn a_port_is_behind_whose_base_layer_arrives_and_whose_level_waits() {
        let port = port([400, 800, 1_400], 1);
        assert!(port.is_behind(5e5, 20_000));
        assert!(!port.is_behind(7e5, 20_000), "most of it arrives");
        assert!(
            !port.is_behind(5e5, 5_000),
            "nothing waits: the encoder sends less"
        );
        assert!(!port.is_behind(2e5, 20_000), "the path is cut");
        assert_eq!(one_more(&[port]), (1_400.0 * 1e3 * MARGIN) / USED);
        assert_eq!(one_more(&[Port { held: 2, ..port }]), 0.0);
    }

    #[test]
    fn a_level_is_kept_when_the_estimate_is_a_little_lower() {
        let held = [port([400, 700, 1_400], 1), port([400, 700, 1_400], 1)];
        let new = held.map(|port| Port { held: 0, ..port });
        assert_eq!(of(1_510.0, &held).1, [1, 1]);
        assert_eq!(of(1_510.0, &new).1, [1, 0]);
        assert_eq!(of(1_400.0, &held).1, [1, 0]);
        // Twenty levels that are each smaller than what may be missing.
        let held = [port([330, 580, 1_070], 1); 20];
        let kept = of(8_000.0, &held).1.iter().filter(|it| **it > 0).count();
        assert!((2..=4).contains(&kept), "{kept}");
    }
}
