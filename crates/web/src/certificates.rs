//! Certificates that browsers take by their fingerprints.

use std::time::{Duration, SystemTime};

use layercast::net::{Identity, IdentityError};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long one is valid: browsers refuse more than 14 days.
const VALID: Duration = Duration::from_secs(13 * 24 * 60 * 60);
/// How far the clock of a browser may be behind this one.
const BEHIND: Duration = DAY;
/// How long one is in use. Those that follow are made this long before.
const USED: Duration = Duration::from_secs(5 * 24 * 60 * 60);

/// The certificate in use and the one that follows, so that a page which heard of them before the change connects after it.
#[derive(Debug)]
pub struct Certificates {
    used: Made,
    next: Made,
    /// Since when the first of them is in use.
    since: SystemTime,
}

#[derive(Debug)]
struct Made {
    identity: Identity,
    valid_until: SystemTime,
}

impl Made {
    /// With an ECDSA P-256 key: browsers refuse RSA.
    fn at(now: SystemTime) -> Result<Made, IdentityError> {
        let from = now - BEHIND;
        let valid_until = from + VALID;
        // Browsers compare the fingerprint alone.
        let identity = Identity::generate_between(vec!["layercast".to_owned()], from..valid_until)?;
        Ok(Made {
            identity,
            valid_until,
        })
    }
}

impl Certificates {
    /// New ones.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new(now: SystemTime) -> Result<Certificates, IdentityError> {
        Ok(Certificates {
            used: Made::at(now)?,
            next: Made::at(now)?,
            since: now,
        })
    }

    /// The one in use.
    pub fn used(&self) -> &Identity {
        &self.used.identity
    }

    /// SHA-256 of the one in use and of the next.
    pub fn fingerprints(&self) -> [String; 2] {
        [&self.used, &self.next].map(|it| it.identity.fingerprint().in_hexadecimal())
    }

    /// Replaces what has been in use long enough; `true` if another certificate is in use now.
    ///
    /// # Errors
    /// The system has no randomness: the old ones stay in use.
    pub fn turn(&mut self, now: SystemTime) -> Result<bool, IdentityError> {
        // A clock that was set back is that of the next certificate, too.
        let is_due = now
            .duration_since(self.since)
            .map_or(true, |used| used >= USED);
        if !is_due {
            return Ok(false);
        }
        let next = Made::at(now)?;
        // The host may have slept.
        let is_usable = self
            .next
            .valid_until
            .duration_since(now)
            .is_ok_and(|left| left >= USED);
        let followed = std::mem::replace(&mut self.next, next);
        self.used = match is_usable && now >= self.since {
            true => followed,
            false => Made::at(now)?,
        };
        self.since = now;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    #[test]
    fn a_page_that_knows_two_certificates_connects_for_days() {
        let start = SystemTime::UNIX_EPOCH + 20_000 * DAY;
        let mut certificates = Certificates::new(start).unwrap();
        let (mut heard, mut changes) = (certificates.fingerprints(), 0);
        for hour in 0..24 * 40 {
            let now = start + hour * HOUR;
            if certificates.turn(now).unwrap() {
                changes += 1;
                let [used, next] = certificates.fingerprints();
                assert_eq!(used, heard[1], "the one in use was announced");
                assert!(!heard.contains(&next), "the next one is new");
                heard = [used, next];
            }
            assert!(certificates.used.valid_until > now + DAY);
            // A browser whose clock is a day slow takes it.
            assert!(certificates.used.valid_until - VALID <= now - DAY);
        }
        assert_eq!(changes, 7);
    }

    #[test]
    fn a_host_that_slept_or_set_its_clock_has_valid_certificates() {
        let start = SystemTime::UNIX_EPOCH + 20_000 * DAY;
        for now in [start + 30 * DAY, start - 30 * DAY] {
            let mut certificates = Certificates::new(start).unwrap();
            assert!(certificates.turn(now).unwrap());
            for made in [&certificates.used, &certificates.next] {
                assert!(made.valid_until > now + USED && made.valid_until - VALID < now);
            }
        }
    }
}
