use super::TcpConfig;

/// Round-trip time and its mean deviation in slow ticks, in the fixed point of 4.4BSD-Lite:
/// `srtt` times 8, `rttvar` times 4 (Jacobson 1988; RFC 6298 with G = 1 tick).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    srtt: i32,
    rttvar: i32,
    /// Time-outs since the last sample.
    shift: u8,
    /// Whether there was a sample: before it, the first time-out may be below the least one.
    sampled: bool,
    /// The time-out now in force, in ticks.
    rto: u32,
}

impl Rtt {
    pub(crate) fn new(config: &TcpConfig) -> Rtt {
        Rtt {
            srtt: 0,
            rttvar: config.unsampled_rto.unwrap_or(config.first_rto) as i32,
            shift: 0,
            sampled: false,
            rto: config.first_rto,
        }
    }

    /// The time-out now in force, in ticks.
    pub(crate) fn rto(&self) -> u32 {
        self.rto
    }

    /// Smoothed round trip in eighths of a tick; 0 without a sample.
    pub(crate) fn srtt_eighths(&self) -> u32 {
        self.srtt as u32
    }

    /// Takes a sample that began with the counter at 1, as BSD counts: less than a tick is 1.
    pub(crate) fn sample(&mut self, config: &TcpConfig, ticks: u64) {
        let ticks = ticks.clamp(1, 1 << 24) as i32;
        if self.srtt != 0 {
            let mut delta = ticks - 1 - (self.srtt >> 3);
            self.srtt = (self.srtt + delta).max(1);
            delta = delta.abs() - (self.rttvar >> 2);
            self.rttvar = (self.rttvar + delta).max(1);
        } else {
            self.srtt = ticks << 3;
            self.rttvar = ticks << 1;
        }
        (self.shift, self.sampled) = (0, true);
        self.rto = self.base(config).clamp(config.min_rto, config.max_rto);
    }

    /// Backs off after a time-out; `false` once there were too many.
    pub(crate) fn back_off(&mut self, config: &TcpConfig) -> bool {
        if self.shift >= config.max_retries {
            return false;
        }
        self.shift += 1;
        let wanted = self.base(config).saturating_mul(self.multiplier());
        let least = match config.quirks.min_rto_last {
            true => config.min_rto,
            false => 0,
        };
        self.rto = wanted.clamp(least, config.max_rto);
        if self.shift > config.max_retries / 4 {
            // The estimate is probably bogus: keep the time-out, start the mean again.
            self.rttvar += self.srtt >> 3;
            self.srtt = 0;
        }
        true
    }

    /// Whether there were time-outs since the last sample.
    pub(crate) fn is_backed_off(&self) -> bool {
        self.shift > 0
    }

    /// Forgets the time-outs, not the time-out (a window probe was answered).
    pub(crate) fn forgive(&mut self) {
        self.shift = 0;
    }

    /// Ticks to the next window probe, before its bounds, and backs off.
    pub(crate) fn probe(&mut self, config: &TcpConfig) -> u32 {
        let base = ((self.srtt >> 2) + self.rttvar) as u32 >> 1;
        let ticks = base.saturating_mul(self.multiplier());
        self.shift = (self.shift + 1).min(config.max_retries);
        ticks
    }

    /// What back-off multiplies: the least time-out is among it, once there was a sample (RFC 6298 2.4, 5.5).
    fn base(&self, config: &TcpConfig) -> u32 {
        let deviation = match config.quirks.whole_ticks {
            true => (self.rttvar & !3).max(1),
            false => self.rttvar,
        };
        let base = ((self.srtt >> 3) + deviation) as u32;
        match self.sampled && !config.quirks.min_rto_last {
            true => base.max(config.min_rto),
            false => base,
        }
    }

    /// Doubles with each time-out in a row (RFC 6298 5.5). 4.4BSD-Lite stops at 64, but its estimate is
    /// never below two ticks and its longest time-out 128.
    fn multiplier(&self) -> u32 {
        1_u32.checked_shl(self.shift.into()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Profile;
    use super::*;

    #[test]
    fn the_first_time_outs_of_bsd() {
        // Stevens 1994, 21.2: 6 s nominal, then 24 s base: 48, 96, 128 ticks.
        let config = TcpConfig::from(Profile::Bsd44Lite);
        let mut rtt = Rtt::new(&config);
        let mut seen = vec![rtt.rto()];
        while rtt.back_off(&config) {
            seen.push(rtt.rto());
        }
        assert_eq!(
            seen,
            [12, 48, 96, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128]
        );
    }

    #[test]
    fn samples_below_a_tick_give_the_least_time_out() {
        let config = TcpConfig::from(Profile::Bsd44Lite);
        let mut rtt = Rtt::new(&config);
        rtt.sample(&config, 1);
        // 8 eighths and 2 quarters: 1 + 2 = 3 ticks.
        assert_eq!((rtt.srtt, rtt.rttvar, rtt.rto()), (8, 2, 3));
        let mut seen = Vec::new();
        for _ in 0..4 {
            rtt.sample(&config, 1);
            seen.push((rtt.srtt, rtt.rttvar, rtt.rto()));
        }
        assert_eq!(seen, [(7, 3, 3), (7, 3, 3), (7, 3, 3), (7, 3, 3)]);
    }

    #[test]
    fn in_whole_ticks_they_give_the_least_that_is_allowed() {
        // specs/vbr-atm-lan.md 2.5: two ticks, and 20, 40, 80, 160 ms at ticks of 10 ms.
        let config = TcpConfig::from(Profile::Tick10);
        let mut rtt = Rtt::new(&config);
        for _ in 0..3 {
            rtt.sample(&config, 1);
        }
        let mut seen = vec![rtt.rto()];
        for _ in 0..3 {
            rtt.back_off(&config);
            seen.push(rtt.rto());
        }
        assert_eq!(seen, [2, 4, 8, 16]);
        // One that saw a tick: the deviation is a whole one.
        rtt.sample(&config, 2);
        assert_eq!(rtt.rto(), 5);
    }

    #[test]
    fn a_modern_clock_follows_rfc_6298() {
        let config = TcpConfig::from(Profile::Modern);
        let mut rtt = Rtt::new(&config);
        assert_eq!(rtt.rto(), 1_000);
        assert!(rtt.back_off(&config));
        assert_eq!(rtt.rto(), 2_000);
        rtt.sample(&config, 101);
        assert_eq!(rtt.rto(), 101 + 202);
        for _ in 0..100 {
            rtt.sample(&config, 101);
        }
        assert_eq!(rtt.rto(), 200);
        // 2.5: whatever bounds the time-out is no less than a minute.
        for _ in 0..10 {
            assert!(rtt.back_off(&config));
        }
        assert_eq!(rtt.rto(), 60_000);
    }

    /// The time-out now, and after each of `count` in a row.
    fn backs_off(mut rtt: Rtt, config: &TcpConfig, count: usize) -> Vec<u32> {
        let mut seen = vec![rtt.rto()];
        for _ in 0..count {
            rtt.back_off(config);
            seen.push(rtt.rto());
        }
        seen
    }

    #[test]
    fn without_a_sample_the_first_time_out_is_doubled() {
        // RFC 6298 5.5: 10 ms, then 20, 40, .., whatever the first one and the least are.
        for min_rto in [10, 200] {
            let config = TcpConfig {
                first_rto: 10,
                min_rto,
                ..TcpConfig::from(Profile::Modern)
            };
            let seen = backs_off(Rtt::new(&config), &config, 4);
            assert_eq!(seen, [10, 20, 40, 80, 160]);
        }
    }

    #[test]
    fn the_least_time_out_is_doubled() {
        let config = |profile, min_rto_last| {
            let mut config = TcpConfig::from(profile);
            config.quirks.min_rto_last = min_rto_last;
            config
        };
        let seen = |config: &TcpConfig, ticks| {
            let mut rtt = Rtt::new(config);
            for _ in 0..100 {
                rtt.sample(config, ticks);
            }
            backs_off(rtt, config, 9)
        };
        // RFC 6298 5.5, and Linux; also once the mean has started again, after four in a row.
        let modern = config(Profile::Modern, false);
        let doubled = [
            200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 60_000,
        ];
        for ticks in [1, 2, 51, 151] {
            assert_eq!(seen(&modern, ticks), doubled, "{ticks} ms");
        }
        // TCPT_RANGESET of 4.4BSD-Lite bounds the product: a base of 53 ms is 53, 106, 212, 424.
        let late = config(Profile::Modern, true);
        assert_eq!(seen(&late, 51)[..4], [200, 200, 212, 424]);
        assert!(TcpConfig::from(Profile::Bsd44Lite).quirks.min_rto_last);
    }
}
