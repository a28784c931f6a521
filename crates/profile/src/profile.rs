//! What a user wants: words, and what follows from the kind of application.

use serde::{Deserialize, Serialize};

use crate::error::ProfileError;
use crate::explain::Levels;
use crate::mapping::Unit;
use crate::tables::Tables;

/// Streams of a profile at most.
const MOST_STREAMS: usize = 64;
/// The longest time of a profile, in milliseconds.
const LONGEST_MS: f64 = 3_600_000.0;
/// The highest rate of a profile, in bit/s.
const MOST_BPS: f64 = 1e15;

/// Names and texts of the profiles that come with the program, one for each category of the paper's table 1.
pub const PRESETS: &[(&str, &str)] = &[
    ("broadcasting", include_str!("../data/broadcasting.toml")),
    ("playback", include_str!("../data/playback.toml")),
    ("control", include_str!("../data/control.toml")),
    ("conferencing", include_str!("../data/conferencing.toml")),
    ("collaboration", include_str!("../data/collaboration.toml")),
];

/// What a user wants of an application, as a file in TOML.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The kind of application.
    pub category: Category,
    /// Time from the wish to the first data that a user waits for, in milliseconds.
    pub setup_ms: f64,
    /// By how much the second stream of a pair may be early (negative) and late against the first one.
    #[serde(default)]
    pub skew: Vec<Skew>,
    /// Its streams.
    pub stream: Vec<Stream>,
}

/// Categories of applications (the paper's table 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// Television and radio: asymmetric, isochronous.
    Broadcasting,
    /// Films and lessons on demand: asymmetric, isochronous, with interaction.
    Playback,
    /// Traditional real time, such as tele-robotics: asymmetric, interactive, with a guaranteed reaction time.
    Control,
    /// Talks of several people: symmetric, isochronous, interactive.
    Conferencing,
    /// Joint editing and games: symmetric, interactive, isochronous.
    Collaboration,
}

/// How far two streams may be apart.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skew {
    /// Names of the two streams.
    pub streams: [String; 2],
    /// Limits of the second against the first, in milliseconds.
    pub ms: [f64; 2],
}

/// Which way a stream goes, seen from the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the user.
    Down,
    /// From the user.
    Up,
    /// Both ways.
    Both,
}

/// How firmly the network is to keep what it promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Commitment {
    /// Always.
    Guaranteed,
    /// But for a stated share.
    Statistical,
    /// As it can.
    BestEffort,
}

/// A stream that a user wants.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "RawStream")]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// Which way it goes.
    pub direction: Direction,
    /// What it is to look or sound like.
    pub wish: Wish,
    /// Delay from the capture to the presentation in milliseconds: the worst that is accepted, and the one that is wanted.
    pub delay_ms: [f64; 2],
    /// Share of lost data units: the worst that is accepted, and the one that is wanted.
    pub loss: [f64; 2],
    /// Jitter of the network in milliseconds: the worst that is accepted, and the one that is wanted. Only streams with a clock have it.
    pub jitter_ms: Option<[f64; 2]>,
    /// Rate in bit/s that comes in each second, with all headers: the least that is accepted, and the one that is wanted. Media whose rate varies
    /// have none.
    pub rate_bps: Option<[f64; 2]>,
    /// How firmly it is promised.
    pub commitment: Commitment,
}

/// A stream as its file has it: the keys of all kinds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStream {
    name: String,
    direction: Direction,
    kind: Kind,
    size: Option<String>,
    fluency: Option<String>,
    colour: Option<bool>,
    sound: Option<String>,
    codec: Option<String>,
    octets: Option<u64>,
    per_second: Option<u64>,
    delay_ms: Values,
    loss: Values,
    jitter_ms: Option<Values>,
    rate_bps: Option<Values>,
    commitment: Commitment,
}

/// What is accepted and what is wanted, as a file has it: the error for a single number names its key.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected two numbers: [accepted, wanted]")]
enum Values {
    One(f64),
    Several(Vec<f64>),
}

impl Values {
    fn as_slice(&self) -> &[f64] {
        match self {
            Values::One(value) => std::slice::from_ref(value),
            Values::Several(values) => values,
        }
    }
}

/// Kinds of streams.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Video,
    Audio,
    Data,
}

impl TryFrom<RawStream> for Stream {
    type Error = String;

    fn try_from(raw: RawStream) -> Result<Stream, String> {
        let name = &raw.name;
        // The keys that the file has, and those that the kind wants or may have.
        let given = [
            ("size", raw.size.is_some()),
            ("fluency", raw.fluency.is_some()),
            ("colour", raw.colour.is_some()),
            ("sound", raw.sound.is_some()),
            ("codec", raw.codec.is_some()),
            ("octets", raw.octets.is_some()),
            ("per_second", raw.per_second.is_some()),
        ];
        let (kind, keys): (_, &[&str]) = match raw.kind {
            Kind::Video => ("video", &["size", "fluency", "colour", "codec"]),
            Kind::Audio => ("audio", &["sound", "codec"]),
            Kind::Data => ("data", &["octets", "per_second"]),
        };
        if let Some((key, _)) = given.iter().find(|(key, is)| *is && !keys.contains(key)) {
            return Err(format!(
                "stream {name}: {key} is none of a stream of {kind}, which has {}",
                keys.join(", ")
            ));
        }
        let lacks = |key: &str| format!("stream {name}: a stream of {kind} needs {key}");
        let word = |value: &Option<String>, key| value.clone().ok_or_else(|| lacks(key));
        let wish = match raw.kind {
            Kind::Video => Wish::Video {
                size: word(&raw.size, "size")?,
                fluency: word(&raw.fluency, "fluency")?,
                colour: raw.colour.unwrap_or(true),
                codec: word(&raw.codec, "codec")?,
            },
            Kind::Audio => Wish::Audio {
                sound: word(&raw.sound, "sound")?,
                codec: word(&raw.codec, "codec")?,
            },
            Kind::Data => Wish::Data {
                octets: raw.octets.ok_or_else(|| lacks("octets"))?,
                per_second: raw.per_second.ok_or_else(|| lacks("per_second"))?,
            },
        };
        let two = |values: &Values, key: &str| {
            let values = values.as_slice();
            <[f64; 2]>::try_from(values).map_err(|_| {
                let accepted = if key == "rate_bps" { "least" } else { "worst" };
                let (count, s) = (values.len(), if values.len() == 1 { "" } else { "s" });
                format!(
                    "stream {name}: {key} has {count} value{s}: [{accepted}, wanted], the {accepted} that is accepted, and the one that is wanted"
                )
            })
        };
        Ok(Stream {
            direction: raw.direction,
            wish,
            delay_ms: two(&raw.delay_ms, "delay_ms")?,
            loss: two(&raw.loss, "loss")?,
            jitter_ms: raw
                .jitter_ms
                .map(|values| two(&values, "jitter_ms"))
                .transpose()?,
            rate_bps: raw
                .rate_bps
                .map(|values| two(&values, "rate_bps"))
                .transpose()?,
            commitment: raw.commitment,
            name: raw.name,
        })
    }
}

/// What a stream is to look or sound like.
#[derive(Clone, PartialEq, Debug)]
pub enum Wish {
    /// Pictures.
    Video {
        /// Their size, a word of the tables.
        size: String,
        /// Their rate, a word of the tables.
        fluency: String,
        /// Whether they have colours.
        colour: bool,
        /// How they are compressed, a name of the tables.
        codec: String,
    },
    /// Sound.
    Audio {
        /// Its quality, a word of the tables.
        sound: String,
        /// How it is compressed, a name of the tables.
        codec: String,
    },
    /// Other data of a steady rate, such as commands or positions.
    Data {
        /// Octets of a data unit.
        octets: u64,
        /// Data units per second.
        per_second: u64,
    },
}

impl Category {
    /// Its data flow and its timing, in words (the paper's table 1).
    pub fn describe(self) -> &'static str {
        match self {
            Category::Broadcasting => "asymmetric, isochronous",
            Category::Playback => "asymmetric, isochronous with interaction",
            Category::Control => "asymmetric, interactive with a guaranteed reaction time",
            Category::Conferencing => "symmetric, isochronous and interactive",
            Category::Collaboration => "symmetric, interactive and isochronous",
        }
    }
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// The text is no TOML, a field is missing or unknown, or a value is not possible: the error names it.
    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile =
            toml::from_str(text).map_err(|error| ProfileError::Text(error.to_string()))?;
        profile.check()?;
        Ok(profile)
    }

    /// The profile of this name that comes with the program.
    pub fn preset(name: &str) -> Option<Profile> {
        let (_, text) = PRESETS.iter().find(|(known, _)| *known == name)?;
        Some(Profile::from_toml(text).expect("a test reads the presets"))
    }

    /// The stream of pictures to the user that has the shortest delay bound; `None`: no pictures come to the user.
    fn pictures(&self) -> Option<&Stream> {
        let is_video =
            |it: &&Stream| matches!(it.wish, Wish::Video { .. }) && it.direction != Direction::Up;
        let streams = self.stream.iter().filter(is_video);
        streams.min_by(|a, b| a.delay_ms[0].total_cmp(&b.delay_ms[0]))
    }

    /// The shortest delay bound of the pictures that come to the user, in milliseconds; `None` if none do.
    pub fn picture_delay_ms(&self) -> Option<f64> {
        Some(self.pictures()?.delay_ms[0])
    }

    /// What a flow that carries all streams to the user promises a receiver: the delay, jitter and loss of the pictures, and the rates of
    /// all; `None`: no pictures come to the user.
    pub fn promise(&self, levels: &[Levels]) -> Option<layercast_core::Contract> {
        let pictures = levels
            .iter()
            .find(|it| Some(&it.stream) == self.pictures().map(|it| &it.name))?;
        let mut promise = pictures.contract.promise();
        let down = levels.iter().filter(|it| it.direction != Direction::Up);
        let others = down.filter(|it| it.stream != pictures.stream);
        for term in others.filter_map(|it| it.contract.promise().throughput) {
            promise.throughput = promise.throughput.map(|sum| sum.plus(&term));
        }
        Some(promise)
    }

    /// The same with the tables of the program, over datagrams of 1500 octets: what a source promises with this profile, and what a
    /// receiver answers to such a promise.
    ///
    /// # Errors
    /// As those of [`explain`](Profile::explain); no pictures come to the user.
    pub fn contract(&self) -> Result<layercast_core::Contract, ProfileError> {
        let levels = self.explain(&Tables::default(), Unit::datagram(1_500))?;
        self.promise(&levels).ok_or_else(|| ProfileError::Value {
            field: "stream".into(),
            what: "no pictures come to the user: name one with a stream of video".into(),
        })
    }

    fn check(&self) -> Result<(), ProfileError> {
        let whole = |field: &str, what: &str| {
            Err(ProfileError::Value {
                field: field.into(),
                what: what.into(),
            })
        };
        if !(self.setup_ms > 0.0 && self.setup_ms <= LONGEST_MS) {
            return whole("setup_ms", "a time between 0 and an hour");
        }
        let names = self.stream.iter().map(|it| &it.name);
        if std::iter::once(&self.name)
            .chain(names)
            .any(|it| !is_name(it))
        {
            return whole("name", "1 to 64 letters, digits, spaces, - or _");
        }
        if self.stream.is_empty() || self.stream.len() > MOST_STREAMS {
            return whole("stream", &format!("1 to {MOST_STREAMS} streams"));
        }
        for (index, stream) in self.stream.iter().enumerate() {
            if self.stream[..index].iter().any(|it| it.name == stream.name) {
                return Err(ProfileError::value(
                    &stream.name,
                    "name",
                    "another stream has it",
                ));
            }
            stream.check()?;
        }
        for skew in &self.skew {
            let [early, late] = skew.ms;
            if !(early.is_finite() && late.is_finite() && early <= late) {
                return whole("skew", "the first limit is at most the second");
            }
            for name in &skew.streams {
                if !self.stream.iter().any(|it| it.name == *name) {
                    return whole("skew", &format!("there is no stream {name}"));
                }
            }
        }
        Ok(())
    }
}

/// Whether a text can be printed as a name.
fn is_name(text: &str) -> bool {
    let is_part = |it: char| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_');
    (1..=64).contains(&text.chars().count()) && text.chars().all(is_part)
}

impl Stream {
    fn check(&self) -> Result<(), ProfileError> {
        let interval = |field, [worst, target]: [f64; 2], most: f64| {
            let is_sound = worst.is_finite() && target >= 0.0 && target <= worst && worst <= most;
            match is_sound {
                true => Ok(()),
                false => Err(ProfileError::value(
                    &self.name,
                    field,
                    format!(
                        "[{worst}, {target}]: the worst that is accepted, at most {most}, then the one that is wanted, between 0 and the worst"
                    ),
                )),
            }
        };
        interval("delay_ms", self.delay_ms, LONGEST_MS)?;
        interval("loss", self.loss, 1.0)?;
        if let Some(jitter) = self.jitter_ms {
            interval("jitter_ms", jitter, LONGEST_MS)?;
        }
        if let Some([least, wanted]) = self.rate_bps
            && !(least >= 0.0 && least <= wanted && wanted <= MOST_BPS)
        {
            return Err(ProfileError::value(
                &self.name,
                "rate_bps",
                format!(
                    "[{least}, {wanted}]: the least that is accepted, then the one that is wanted, between that and {MOST_BPS}"
                ),
            ));
        }
        if let Wish::Data { octets: 0, .. } | Wish::Data { per_second: 0, .. } = self.wish {
            return Err(ProfileError::value(
                &self.name,
                "octets, per_second",
                "at least 1",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_preset_for_each_category() {
        for (name, _) in PRESETS {
            let profile = Profile::preset(name).unwrap();
            assert_eq!(profile.name, *name);
            let category = toml::Value::try_from(profile.category).unwrap();
            assert_eq!(category.as_str(), Some(*name));
        }
        assert_eq!(Profile::preset("nothing"), None);
        let bound = |name| Profile::preset(name).unwrap().picture_delay_ms();
        assert_eq!(bound("conferencing"), Some(250.0));
        assert_eq!(bound("collaboration"), None);
    }

    #[test]
    fn what_is_not_possible_is_refused_with_its_field() {
        let text = include_str!("../data/conferencing.toml");
        for (old, new, names) in [
            ("setup_ms = 2000", "setup_ms = 0", "setup_ms"),
            (
                "delay_ms = [150, 100]",
                "delay_ms = [100, 150]",
                "stream speech, delay_ms",
            ),
            (
                "delay_ms = [150, 100]",
                "delay_ms = [inf, 100]",
                "stream speech, delay_ms",
            ),
            (
                "delay_ms = [150, 100]",
                "delay_ms = [150, nan]",
                "stream speech, delay_ms",
            ),
            (
                "delay_ms = [150, 100]",
                "delay_ms = [150, -1]",
                "stream speech, delay_ms",
            ),
            ("loss = [0.01,", "loss = [1.01,", "stream speech, loss"),
            (
                "name = \"camera\"",
                "name = \"speech\"",
                "another stream has it",
            ),
            (
                "streams = [\"speech\", \"camera\"]",
                "streams = [\"speech\", \"lips\"]",
                "there is no stream lips",
            ),
            ("kind = \"audio\"", "kind = \"smell\"", "smell"),
            ("setup_ms = 2000", "set_up = 2", "set_up"),
            (
                "codec = \"h264\"",
                "codec = \"h264\"\ncolor = false",
                "color",
            ),
            (
                "codec = \"h264\"",
                "codec = \"h264\"\nsound = \"hifi\"",
                "stream camera: sound is none of a stream of video",
            ),
            (
                "size = \"medium\"\n",
                "",
                "stream camera: a stream of video needs size",
            ),
            ("jitter_ms = [40, 20]", "jitter = [40, 20]", "jitter"),
            (
                "delay_ms = [150, 100]",
                "delay_ms = [150, 100, 3]",
                "delay_ms has 3 values: [worst, wanted]",
            ),
            (
                "delay_ms = [150, 100]",
                "delay_ms = 150",
                "stream speech: delay_ms has 1 value: [worst, wanted]",
            ),
            (
                "jitter_ms = [40, 20]",
                "jitter_ms = [40, 20]\nrate_bps = 850000",
                "rate_bps has 1 value: [least, wanted]",
            ),
            (
                "jitter_ms = [40, 20]",
                "jitter_ms = \"forty\"",
                "[accepted, wanted]",
            ),
            ("setup_ms = 2000", "setup_ms = 1e308", "setup_ms"),
            ("name = \"conferencing\"", "name = \"a\\u202Eb\"", "name"),
        ] {
            assert!(text.contains(old), "{old}");
            let error = Profile::from_toml(&text.replacen(old, new, 1))
                .unwrap_err()
                .to_string();
            assert!(error.contains(names), "{error}");
        }
    }
}
