//! Three levels of quality of service: what a user wants, what the application sends for it, and what the network has to carry.
//!
//! A [`Profile`] has the wishes of a user, as words ([`Wish`]); [`Tables`] turn them into values of the application; a [`Mapping`]
//! turns these into the rate of the network, and back. [`Profile::explain`] gives all three levels of each stream with the formulas
//! used, and the [`Contract`] that follows. Profiles and tables are data files.
//!
//! Source: M. Zitterbart, User-to-User QoS: Management and Monitoring, PfHSN 1996 (sections 2 and 3).
//!
//! ```
//! use layercast_profile::{Profile, Tables, Unit};
//!
//! let call = Profile::preset("conferencing").unwrap();
//! let levels = call.explain(&Tables::default(), Unit::datagram(1500)).unwrap();
//! assert_eq!(levels[0].stream, "speech");
//! assert_eq!(levels[0].network.application_bps, 64_000);
//! ```

mod afford;
mod error;
mod explain;
mod mapping;
mod profile;
mod ratio;
mod tables;

pub use afford::{Afforded, afford};
pub use error::ProfileError;
pub use explain::{Budget, Contract, Levels, Network};
pub use mapping::{Mapped, Mapping, MappingError, Unit};
pub use profile::{Category, Commitment, Direction, PRESETS, Profile, Stream, Wish};
pub use ratio::Ratio;
pub use tables::{Codec, SoundQuality, Tables};
