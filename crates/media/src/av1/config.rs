//! What containers and players have to know of a stream of AV1 (AV1 Codec ISO Media File Format Binding).

use super::header::Sequence;
use super::obu::{kind, obus};
use super::sequence_of;

/// What the sequence header of a temporal unit says to decoders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Av1Config {
    /// `seq_profile`.
    pub profile: u8,
    /// `seq_level_idx` of the first operating point.
    pub level: u8,
    /// Whether that is of the high tier.
    pub is_high_tier: bool,
    /// Bits of a sample: 8, 10 or 12.
    pub depth: u8,
    /// Whether there is no colour.
    pub is_monochrome: bool,
    /// Whether colour has half the columns, and half the lines.
    pub subsampling: (bool, bool),
    /// `chroma_sample_position`.
    pub sample_position: u8,
    /// Largest width and height.
    pub size: (u32, u32),
    /// The sequence header, an OBU with its size.
    pub sequence: Vec<u8>,
}

impl Av1Config {
    /// Reads the last sequence header of a temporal unit; `None` if there is none that can be read.
    pub fn of(unit: &[u8]) -> Option<Av1Config> {
        let sequence = sequence_of(unit)?;
        let header = obus(&sequence).next()?;
        let read = Sequence::read(header.payload)?;
        let color = read.color?;
        Some(Av1Config {
            profile: read.profile,
            level: read.level,
            is_high_tier: read.tier == 1,
            depth: color.depth,
            is_monochrome: color.is_monochrome,
            subsampling: color.subsampling,
            sample_position: color.sample_position,
            size: (read.width, read.height),
            sequence,
        })
    }

    /// Its name for browsers, such as `av01.0.04M.08` (section 5).
    pub fn codec(&self) -> String {
        let (profile, level, depth) = (self.profile, self.level, self.depth);
        let tier = if self.is_high_tier { 'H' } else { 'M' };
        format!("av01.{profile}.{level:02}{tier}.{depth:02}")
    }
}

/// A temporal unit as a sample of a file: without delimiters and padding (section 2.4).
pub fn av1_sample(unit: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(unit.len());
    let kept = obus(unit).filter(|it| !matches!(it.kind, kind::DELIMITER | kind::PADDING));
    kept.for_each(|it| it.write(&mut out));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_headers_say_what_ffmpeg_writes_into_files() {
        // Temporal delimiter and sequence header of SVT-AV1 and of libaom, and what ffmpeg says of them in `av1C`.
        let main = [
            0x12, 0, 0x0A, 0x0B, 0, 0, 0, 0x04, 0x3C, 0xFE, 0xCC, 0xFB, 0xF9, 0, 0x40,
        ];
        let high = [
            0x12, 0, 0x0A, 0x0A, 0x20, 0, 0, 0x04, 0x3C, 0xFE, 0xCC, 0xDA, 0xF9, 0x42,
        ];
        for (unit, codec, depth, subsampling) in [
            (&main[..], "av01.0.00M.08", 8, (true, true)),
            (&high, "av01.1.00M.10", 10, (false, false)),
        ] {
            let config = Av1Config::of(unit).unwrap();
            assert_eq!((config.codec().as_str(), config.size), (codec, (320, 180)));
            assert_eq!((config.depth, config.is_monochrome), (depth, false));
            assert_eq!(
                (config.subsampling, config.sample_position),
                (subsampling, 0)
            );
            assert_eq!(config.sequence, unit[2..]);
            assert_eq!(av1_sample(unit), unit[2..]);
        }
        assert_eq!(Av1Config::of(&main[..2]), None);
        for len in 2..main.len() {
            // A header that is cut says nothing.
            assert_eq!(Av1Config::of(&main[..len]), None, "{len}");
        }
    }
}
