use std::fmt;

use layercast_core::Time;
use ring::hmac::{HMAC_SHA256, Key, sign};
use serde::{Deserialize, Serialize};

/// What time it is for others: microseconds since 1970 (UTC) at [`Time::ZERO`].
///
/// The wall clock of a host can be set while a machine runs. So it is an input of machines
/// (`set_wall_clock`), which a driver reads again, and not a constant of their configuration.
///
/// Not seconds: two clocks of one machine, made at different moments, must not be a second apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallClock(pub u64);

impl WallClock {
    /// Seconds since 1970 at `now`.
    pub fn at(self, now: Time) -> u64 {
        self.0.saturating_add(now.as_us()) / 1_000_000
    }
}

/// 32 secret random octets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

impl Seed {
    /// Another secret, for the purpose `label`, that follows from `secret` (HMAC-SHA256).
    pub fn derived(secret: &[u8], label: &str) -> Seed {
        let tag = sign(&Key::new(HMAC_SHA256, secret), label.as_bytes());
        let mut octets = [0; 32];
        octets.copy_from_slice(tag.as_ref());
        Seed(octets)
    }
}

/// Without the octets: secrets do not belong into logs.
impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Span;

    use super::*;

    #[test]
    fn a_wall_clock_counts_whole_seconds_from_its_zero() {
        let clock = WallClock(1_700_000_000_500_000);
        let at = |ms: u64| clock.at(Time::ZERO + Span::from_ms(ms));
        assert_eq!(
            [at(0), at(499), at(500)],
            [1_700_000_000, 1_700_000_000, 1_700_000_001]
        );
        let last = WallClock(u64::MAX).at(Time::ZERO + Span::from_secs(1));
        assert_eq!(last, u64::MAX / 1_000_000);
    }

    #[test]
    fn a_derived_secret_is_the_hmac_of_its_label() {
        // RFC 4231, test case 2.
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let derived = Seed::derived(b"Jefe", "what do ya want for nothing?");
        let hex: String = derived.0.iter().map(|it| format!("{it:02x}")).collect();
        assert_eq!(hex, expected);
        assert_ne!(Seed::derived(b"Jefe", "another label"), derived);
    }
}
