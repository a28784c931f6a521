use layercast_core::{DataClass, Span};
use layercast_media::ClassifierConfig;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ExclpMapping;
use crate::parity::{ParityConfig, ParityError};

/// Most packets of a group: its number has four bits.
pub(crate) const MAX_GROUP: u8 = 15;

/// How a transport stream goes into cells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// AAL5+: headers and data apart.
    #[default]
    Separate,
    /// Classical AAL5, two packets in eight cells; each cell has the class of its most important octet.
    Mark,
}

/// Parameters of an [`Aal5Plus`](crate::Aal5Plus).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aal5PlusConfig {
    /// The circuit.
    pub vpi: u8,
    /// The circuit.
    pub vci: u16,
    /// Where the class of a cell is.
    pub mapping: ExclpMapping,
    /// How packets go into cells.
    pub mode: Mode,
    /// Packets of a group, 1 to 15. With [`Mode::Mark`] it is two.
    pub group: u8,
    /// Time that a packet waits for others of its group at most.
    pub max_wait: Span,
    /// What cannot be read of the stream.
    pub classifier: ClassifierConfig,
    /// Parities of the one-cell frames of class S; with [`Mode::Mark`] there are none.
    pub parity: Option<ParityConfig>,
}

impl Default for Aal5PlusConfig {
    fn default() -> Aal5PlusConfig {
        Aal5PlusConfig {
            vpi: 0,
            vci: 64,
            mapping: ExclpMapping::Efci,
            mode: Mode::Separate,
            group: 8,
            max_wait: Span::from_ms(50),
            classifier: ClassifierConfig {
                fallback: DataClass::Intra,
            },
            parity: None,
        }
    }
}

/// Why a stream does not go into cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Aal5PlusError {
    /// The size of a group is out of range.
    #[error("groups of {0} packets: a group has 1 to 15")]
    Group(u8),
    /// The mapping takes the bit that ends a frame.
    #[error("the literal mapping takes the bit that ends an AAL5 frame: choose Efci or SideBand")]
    NoEndOfFrame,
    /// A packet does not begin with a sync byte.
    #[error(
        "packet {0} does not begin with the sync byte 0x47: align the stream to packets of 188 octets"
    )]
    NoSync(u64),
    /// The parities cannot be as they are configured.
    #[error(transparent)]
    Parity(#[from] ParityError),
}

impl Aal5PlusConfig {
    /// Checks the values.
    ///
    /// # Errors
    /// The size of a group is out of range, or the mapping leaves no bit to end a frame.
    pub fn validate(&self) -> Result<(), Aal5PlusError> {
        if !(1..=MAX_GROUP).contains(&self.group) {
            return Err(Aal5PlusError::Group(self.group));
        }
        match self.mapping.keeps_frames() {
            true => Ok(()),
            false => Err(Aal5PlusError::NoEndOfFrame),
        }
    }
}
