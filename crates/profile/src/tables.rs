//! What the words of a user mean for the application.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::ProfileError;
use crate::ratio::Ratio;

/// Tables from words of a user to values of the application, as a file in TOML ([`Tables::TEXT`] is the one in use).
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// Width and height of pictures by word, in pixels.
    pub size: BTreeMap<String, (u32, u32)>,
    /// Pictures per second by word.
    pub fluency: BTreeMap<String, u32>,
    /// Bits of a pixel before compression.
    pub pixel: Pixel,
    /// Sound by word.
    pub sound: BTreeMap<String, SoundQuality>,
    /// Codecs by name.
    pub codec: Codecs,
    /// Delays inside the ends.
    pub delay: Delays,
}

/// Bits of a pixel.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pixel {
    /// In colour.
    pub colour: u32,
    /// In grey.
    pub grey: u32,
}

/// Sound before compression.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoundQuality {
    /// Samples per second.
    pub rate: u32,
    /// Bits of a sample.
    pub bits: u32,
    /// Channels.
    pub channels: u32,
    /// Packets per second.
    pub packets: u32,
}

/// Codecs by name.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Codecs {
    /// Of pictures.
    pub video: BTreeMap<String, Codec>,
    /// Of sound.
    pub audio: BTreeMap<String, Codec>,
}

/// What a codec does to the rate.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Codec {
    /// Octets after it for one before it.
    pub factor: Ratio,
    /// Rate of the busiest second in parts of the mean.
    pub peak: f64,
}

/// Delays inside the ends by kind of stream.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delays {
    /// Of pictures.
    pub video: EndDelays,
    /// Of sound.
    pub audio: EndDelays,
    /// Of other data.
    pub data: EndDelays,
}

/// Delays inside the ends, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndDelays {
    /// Camera or microphone.
    pub capture: f64,
    /// Encoder.
    pub encode: f64,
    /// Protocols and operating system of the sender.
    pub send: f64,
    /// Protocols and operating system of the receiver.
    pub receive: f64,
    /// Buffer that hides jitter.
    pub playout: f64,
    /// Decoder, screen or loudspeaker.
    pub present: f64,
}

impl Tables {
    /// The tables in use, as a file.
    pub const TEXT: &str = include_str!("../data/tables.toml");

    /// Reads tables.
    ///
    /// # Errors
    /// The text is no TOML, lacks a table, or has a value that is 0, negative or not finite.
    pub fn from_toml(text: &str) -> Result<Tables, ProfileError> {
        let tables: Tables =
            toml::from_str(text).map_err(|error| ProfileError::Text(error.to_string()))?;
        tables.check()?;
        Ok(tables)
    }

    fn check(&self) -> Result<(), ProfileError> {
        let fail = |field: String, what: &str| {
            Err(ProfileError::Value {
                field,
                what: what.into(),
            })
        };
        let zero = "is 0: at least 1";
        for (word, &(width, height)) in &self.size {
            if width == 0 || height == 0 {
                return fail(format!("size.{word}"), zero);
            }
        }
        for (word, &rate) in &self.fluency {
            if rate == 0 {
                return fail(format!("fluency.{word}"), zero);
            }
        }
        if self.pixel.colour == 0 || self.pixel.grey == 0 {
            return fail("pixel".into(), zero);
        }
        for (word, sound) in &self.sound {
            let SoundQuality {
                rate,
                bits,
                channels,
                packets,
            } = *sound;
            if [rate, bits, channels, packets].contains(&0) {
                return fail(format!("sound.{word}"), zero);
            }
        }
        for (kind, codecs) in [("video", &self.codec.video), ("audio", &self.codec.audio)] {
            for (name, codec) in codecs {
                if !(codec.peak.is_finite() && codec.peak >= 1.0) {
                    return fail(
                        format!("codec.{kind}.{name}.peak"),
                        "the busiest second is at least the mean: 1 or more",
                    );
                }
            }
        }
        for (kind, delays) in [
            ("video", self.delay.video),
            ("audio", self.delay.audio),
            ("data", self.delay.data),
        ] {
            if delays
                .terms()
                .iter()
                .any(|(_, ms)| !(ms.is_finite() && *ms >= 0.0))
            {
                return fail(format!("delay.{kind}"), "a delay is 0 or more milliseconds");
            }
        }
        Ok(())
    }
}

impl Default for Tables {
    fn default() -> Tables {
        Tables::from_toml(Tables::TEXT).expect("a test reads the tables")
    }
}

impl EndDelays {
    /// The delays by name, in the order of the way.
    pub fn terms(&self) -> [(&'static str, f64); 6] {
        [
            ("capture", self.capture),
            ("encode", self.encode),
            ("send", self.send),
            ("receive", self.receive),
            ("playout", self.playout),
            ("present", self.present),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_in_use_are_sound() {
        assert_eq!(Tables::from_toml(Tables::TEXT), Ok(Tables::default()));
    }

    #[test]
    fn a_table_with_an_impossible_value_is_refused_with_its_field() {
        for (old, new, field) in [
            ("small = [176, 144]", "small = [176, 0]", "size.small"),
            ("low = 5", "low = 0", "fluency.low"),
            ("grey = 8", "grey = 0", "pixel"),
            (
                "packets = 50 }\nhifi",
                "packets = 0 }\nhifi",
                "sound.telephone",
            ),
            ("peak = 1.2", "peak = nan", "codec.video.intra.peak"),
            ("capture = 17.0", "capture = -1.0", "delay.video"),
            ("factor = \"2:1\"", "factor = \"2:0\"", "factor"),
            ("[fluency]", "[speed]", "speed"),
        ] {
            assert!(Tables::TEXT.contains(old), "{old}");
            let error = Tables::from_toml(&Tables::TEXT.replacen(old, new, 1))
                .unwrap_err()
                .to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
