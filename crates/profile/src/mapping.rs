//! Rates of a stream at the three levels.

use serde::Serialize;
use thiserror::Error;

use crate::ratio::Ratio;

/// A data unit of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Unit {
    /// Octets of payload, S_d(n), at most.
    pub payload: u64,
    /// Octets of a full unit with its headers, S(n).
    pub size: u64,
    /// Whether units with less payload are filled up, as cells are.
    pub padded: bool,
}

impl Unit {
    /// A cell of ATM with 48 octets of payload, all of them for the application.
    pub const CELL: Unit = Unit {
        payload: 48,
        size: 53,
        padded: true,
    };

    /// A UDP datagram over IPv4 in packets of at most `mtu` octets.
    pub fn datagram(mtu: u64) -> Unit {
        Unit {
            payload: mtu.saturating_sub(28),
            size: mtu,
            padded: false,
        }
    }
}

/// A stream of data units of equal size, and what carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Data units per second, N.
    pub per_second: u64,
    /// Octets of a data unit of the user, S(u): a picture, or the samples of a packet of sound.
    pub user: u64,
    /// Octets of the application for each of the user, alpha: compression, encryption, headers.
    pub factor: Ratio,
    /// Data unit of the network.
    pub unit: Unit,
}

/// Rates at the three levels, in bit/s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Mapped {
    /// R(u) = N S(u).
    pub user_bps: u64,
    /// S(a) = alpha S(u), in octets, rounded up.
    pub application_octets: u64,
    /// R(a) = N S(a).
    pub application_bps: u64,
    /// Units of the network for each of the application: nu = ceil(S(a) / S_d(n)).
    pub units: u64,
    /// R(n) = nu N S(n): each unit counts as full. An upper bound for units that are not padded.
    pub network_bps: u64,
    /// N (S(a) + nu (S(n) - S_d(n))): what units that are not padded take; null for padded ones, where R(n) is exact.
    pub exact_bps: Option<u64>,
}

impl Mapped {
    /// What the network carries: the exact rate where that is another one.
    pub fn carried_bps(&self) -> u64 {
        self.exact_bps.unwrap_or(self.network_bps)
    }

    /// Whether R(n) >= R(a) >= R(u), as the paper says it usually is: not where the application compresses.
    pub fn is_ordered(&self) -> bool {
        self.network_bps >= self.application_bps && self.application_bps >= self.user_bps
    }
}

/// Why a stream cannot be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum MappingError {
    /// N is 0.
    #[error("a stream needs at least one data unit per second")]
    NoRate,
    /// S(u) is 0.
    #[error("a data unit needs at least one octet")]
    NoSize,
    /// S_d(n) is 0.
    #[error("the data unit of the network has no room for payload")]
    NoPayload,
    /// S(n) < S_d(n).
    #[error("the data unit of the network has {size} octets, fewer than its payload of {payload}")]
    Smaller {
        /// S(n).
        size: u64,
        /// S_d(n).
        payload: u64,
    },
    /// A product is beyond 2^64.
    #[error("{0} is beyond 2^64: smaller units, or fewer per second")]
    Overflow(&'static str),
}

impl Mapping {
    /// The rates of the stream.
    ///
    /// # Errors
    /// A size or rate is 0, or a product is beyond 2^64.
    pub fn map(&self) -> Result<Mapped, MappingError> {
        self.check()?;
        let Unit {
            payload,
            size,
            padded,
        } = self.unit;
        let application = self
            .factor
            .times(self.user)
            .ok_or(MappingError::Overflow("S(a)"))?;
        let units = application.div_ceil(payload);
        let bits = |octets: Option<u64>, what| {
            octets
                .and_then(|octets| octets.checked_mul(self.per_second)?.checked_mul(8))
                .ok_or(MappingError::Overflow(what))
        };
        let headers = units.checked_mul(size - payload);
        let exact = headers.and_then(|it| it.checked_add(application));
        Ok(Mapped {
            user_bps: bits(Some(self.user), "R(u)")?,
            application_octets: application,
            application_bps: bits(Some(application), "R(a)")?,
            units,
            network_bps: bits(units.checked_mul(size), "R(n)")?,
            exact_bps: match padded {
                true => None,
                false => Some(bits(exact, "R(n)")?),
            },
        })
    }

    /// The largest S(a), in octets, with which the stream takes at most `bps` of the network: the inverse of
    /// [`map`](Mapping::map) for a given N.
    pub fn application_within(&self, bps: u64) -> Result<u64, MappingError> {
        self.check()?;
        let octets = bps / 8 / self.per_second;
        let Unit {
            payload,
            size,
            padded,
        } = self.unit;
        let (full, rest) = (octets / size, octets % size);
        let begun = match padded {
            true => 0,
            false => rest.saturating_sub(size - payload),
        };
        Ok(full * payload + begun)
    }

    /// The most data units per second with which the stream takes at most `bps` of the network; 0 if not even one fits.
    pub fn per_second_within(&self, bps: u64) -> Result<u64, MappingError> {
        let one = Mapping {
            per_second: 1,
            ..*self
        };
        Ok(bps / one.map()?.carried_bps())
    }

    fn check(&self) -> Result<(), MappingError> {
        let Unit { payload, size, .. } = self.unit;
        match () {
            () if self.per_second == 0 => Err(MappingError::NoRate),
            () if self.user == 0 => Err(MappingError::NoSize),
            () if payload == 0 => Err(MappingError::NoPayload),
            () if size < payload => Err(MappingError::Smaller { size, payload }),
            () => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mapped(per_second: u64, user: u64, factor: &str, unit: Unit) -> Mapped {
        let mapping = Mapping {
            per_second,
            user,
            factor: factor.parse().unwrap(),
            unit,
        };
        mapping.map().unwrap()
    }

    #[test]
    fn the_vectors_of_the_specification_are_exact() {
        let sound = Unit {
            payload: 160,
            size: 188,
            padded: false,
        };
        let rates = |it: Mapped| {
            (
                it.units,
                it.user_bps,
                it.application_bps,
                it.network_bps,
                it.exact_bps,
            )
        };
        let cell = Unit::CELL;
        assert_eq!(
            rates(mapped(50, 160, "0.5", cell)),
            (2, 64_000, 32_000, 42_400, None)
        );
        assert_eq!(
            rates(mapped(50, 160, "1", cell)),
            (4, 64_000, 64_000, 84_800, None)
        );
        assert_eq!(
            rates(mapped(50, 160, "1", sound)),
            (1, 64_000, 64_000, 75_200, Some(75_200))
        );
        assert_eq!(
            rates(mapped(30, 829_440, "2:1", cell)),
            (8_640, 199_065_600, 99_532_800, 109_900_800, None)
        );
        assert_eq!(
            rates(mapped(30, 7_750, "1", cell)),
            (162, 1_860_000, 1_860_000, 2_060_640, None)
        );
        assert_eq!(
            rates(mapped(30, 7_750, "1", Unit::datagram(1_500))),
            (6, 1_860_000, 1_860_000, 2_160_000, Some(1_900_320))
        );
    }

    #[test]
    fn what_cannot_be_mapped_is_named() {
        let good = Mapping {
            per_second: 30,
            user: 100,
            factor: Ratio::ONE,
            unit: Unit::CELL,
        };
        let error = |it: Mapping| it.map().unwrap_err();
        assert_eq!(
            error(Mapping {
                per_second: 0,
                ..good
            }),
            MappingError::NoRate
        );
        assert_eq!(error(Mapping { user: 0, ..good }), MappingError::NoSize);
        let unit = Unit {
            payload: 0,
            ..Unit::CELL
        };
        assert_eq!(error(Mapping { unit, ..good }), MappingError::NoPayload);
        assert_eq!(
            error(Mapping {
                unit: Unit::datagram(28),
                ..good
            }),
            MappingError::NoPayload
        );
        let unit = Unit {
            size: 40,
            ..Unit::CELL
        };
        assert!(matches!(
            error(Mapping { unit, ..good }),
            MappingError::Smaller { size: 40, .. }
        ));
        assert!(matches!(
            error(Mapping {
                user: u64::MAX,
                ..good
            }),
            MappingError::Overflow(_)
        ));
    }

    proptest! {
        #[test]
        fn the_inverse_fits_and_one_more_does_not(
            per_second in 1_u64..1_000, user in 1_u64..1_000_000, numerator in 1_u64..50, denominator in 1_u64..50,
            payload in 1_u64..2_000, header in 0_u64..100, padded: bool, bps in 0_u64..10_000_000_000,
        ) {
            let unit = Unit { payload, size: payload + header, padded };
            let factor = Ratio::new(numerator, denominator).unwrap();
            let mapping = Mapping { per_second, user, factor, unit };
            let rate = |user, per_second| {
                Mapping { user, factor: Ratio::ONE, per_second, unit }.map().unwrap().carried_bps()
            };
            let most = mapping.application_within(bps).unwrap();
            prop_assert!(most == 0 || rate(most, per_second) <= bps);
            prop_assert!(rate(most + 1, per_second) > bps);
            let most = mapping.per_second_within(bps).unwrap();
            let times = |per_second| Mapping { per_second, ..mapping }.map().unwrap().carried_bps();
            prop_assert!(most == 0 || times(most) <= bps);
            prop_assert!(times(most + 1) > bps);
        }

        #[test]
        fn a_factor_of_one_or_more_keeps_the_order_of_the_rates(
            per_second in 1_u64..1_000, user in 1_u64..1_000_000, more in 0_u64..50, payload in 1_u64..2_000, header in 0_u64..100,
        ) {
            let unit = Unit { payload, size: payload + header, padded: true };
            let factor = Ratio::new(10 + more, 10).unwrap();
            let mapped = Mapping { per_second, user, factor, unit }.map().unwrap();
            prop_assert!(mapped.is_ordered());
        }
    }
}
