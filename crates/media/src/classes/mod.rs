//! Which octets of a coded video are system data, and which are data of I, P and B pictures
//! (specs/mpeg-picture-quality.md 2.3): what a network has to know to discard the least harmful ones.

mod census;
mod codecs;
pub(crate) mod start_codes;
#[cfg(test)]
mod tests;
mod transport;

pub use census::{
    ClassCensus, ClassReport, ClassShare, GopStructure, PictureSequence, PictureSizes,
    VideoPictures,
};
pub(crate) use codecs::VideoClassifier;
pub use transport::{ClassStats, ClassifierConfig, TsClassifier, TsHeaders, TsSyncLost};

use layercast_core::DataClass;

/// What a unit that begins with a start code, or an OBU, is to its picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Stands before the picture that it belongs to.
    Front,
    /// Begins a picture of this class.
    Picture(DataClass),
    /// Continues a picture.
    Rest,
}

/// A unit as far as its first octets show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnitClass {
    pub role: Role,
    /// The class of the octets behind its header.
    pub class: DataClass,
}

impl UnitClass {
    /// A unit that is a header as a whole.
    pub const fn system(role: Role) -> UnitClass {
        UnitClass {
            role,
            class: DataClass::System,
        }
    }

    /// Data of a picture.
    pub const fn data(begins: bool, class: DataClass) -> UnitClass {
        UnitClass {
            role: match begins {
                true => Role::Picture(class),
                false => Role::Rest,
            },
            class,
        }
    }
}

/// Receives what a classifier finds, in the order of the octets.
pub(crate) trait Findings {
    /// The next octets are of this class.
    fn octets(&mut self, class: DataClass, count: usize);

    /// A unit begins behind the octets so far.
    fn unit(&mut self) {}

    /// The unit that began last is this.
    fn role(&mut self, _role: Role) {}
}

/// Gives each octet of the elementary stream of one video its class, however the stream is cut.
///
/// A piece may end in octets that begin a start code: these are [`DataClass::System`], whatever comes next. All other
/// octets have the same class wherever the stream is cut.
pub(crate) trait PictureClassifier {
    /// Takes octets of the stream.
    fn push(&mut self, octets: &[u8], out: &mut impl Findings);

    /// Octets are missing here.
    fn gap(&mut self);

    /// The class of the next octets, unless a header comes.
    fn class(&self) -> DataClass;

    /// Pictures whose coding type the standard does not have.
    fn unknown_types(&self) -> u64;
}
