//! Fragmented MP4 (ISO/IEC 14496-12) for browsers that play no access units: a segment with what decoders have to know, then one picture or
//! frame of sound a fragment.

#[cfg(test)]
mod tests;
mod tracks;

use bytes::Bytes;
use layercast_media::{AacConfig, av1_sample};
use mp4_atom::{Encode, Mfhd, Moof, Tfdt, Tfhd, Traf, Trak, Trun, TrunEntry};

use crate::message::{Chunk, VideoInfo};
use tracks::{aac, av1_track, first_segment, h264, sound_track};

/// Ticks of time stamps in a second.
const HZ: u32 = 1_000_000;
/// Each segment has one track.
const TRACK: u32 = 1;
/// The time of the first picture: sound may begin before it.
const START_US: i64 = 1_000_000;
/// Shortest duration that a picture is said to have, in microseconds. A player takes a step of more than two durations for the begin of another
/// sequence, and waits for a key picture. The level may fall at any GOP to one of which the pictures are this much rarer. A picture ends
/// where the next one begins, whatever its duration.
const LEAST_US: u32 = 250_000;
/// `sample_flags` (8.8.3.1): depends on no other, or on others and is no sync sample.
const SYNC: u32 = 0x0200_0000;
const DEPENDS: u32 = 0x0101_0000;
/// A step of this much, or one back, is another time line.
const JUMP_US: i64 = 10_000_000;

/// Makes the segments of one viewer.
#[derive(Debug, Default)]
pub struct Mp4 {
    /// What is subtracted from each time; none before the first key picture.
    origin_us: Option<i64>,
    /// What the viewer knows of the video and of sound.
    video: Option<Trak>,
    sound: Option<AacConfig>,
    sequence: u32,
    /// When the last picture was decoded, and a duration of pictures that covers the last steps.
    decoded_us: Option<i64>,
    step_us: u32,
}

/// A sample, and what is said of it.
struct Sample {
    decode_us: i64,
    after_us: i64,
    duration: u32,
    flags: u32,
    data: Vec<u8>,
}

impl Mp4 {
    /// The messages of a chunk of this video: nothing if it cannot be played, the segment before all fragments if it is new, the fragment.
    pub fn messages(&mut self, chunk: &Chunk, video: &VideoInfo) -> Vec<Bytes> {
        let made = match chunk.is_picture {
            true => self.picture(chunk, video),
            false => self.frame(chunk),
        };
        let Some((start, sample)) = made else {
            return Vec::new();
        };
        let start = start.map(|start| chunk.fragment(true, sample.decode_us, &start));
        let fragment = self.fragment(&sample);
        let fragment = chunk.fragment(false, sample.decode_us, &fragment);
        start.into_iter().chain([fragment]).collect()
    }

    fn picture(&mut self, chunk: &Chunk, video: &VideoInfo) -> Option<(Option<Vec<u8>>, Sample)> {
        let (described, data) = match video.codec.get(..4)? {
            "avc1" => h264(chunk, video)?,
            "av01" => (av1_track(chunk, video), av1_sample(chunk.unit())),
            _ => return None,
        };
        let mut start = None;
        if let Some(described) = described.filter(|it| self.video.as_ref() != Some(it)) {
            start = Some(first_segment(described.clone())?);
            self.video = Some(described);
        }
        self.video.as_ref()?;
        let origin = self.origin(chunk)?;
        let before = self.decoded_us.replace(chunk.decode_us);
        let step = before.map_or(0, |before| chunk.decode_us.saturating_sub(before));
        let step = step.clamp(0, HZ.into()) as u32;
        self.step_us = step.max(self.step_us - self.step_us / 16).max(LEAST_US);
        let sample = Sample {
            decode_us: chunk.decode_us - origin,
            after_us: chunk.time_us - chunk.decode_us,
            duration: self.step_us,
            flags: if chunk.is_key { SYNC } else { DEPENDS },
            data,
        };
        Some((start, sample))
    }

    /// What is subtracted from the times of a picture; `None` if it is one of before the last.
    fn origin(&mut self, chunk: &Chunk) -> Option<i64> {
        let mut origin = self.origin_us.unwrap_or(chunk.decode_us - START_US);
        if let Some(last) = self.decoded_us {
            let is_next = (last..last + JUMP_US).contains(&chunk.decode_us);
            if !is_next && chunk.is_key {
                // The stream began again: the time line continues.
                origin = chunk.decode_us - (last - origin) - i64::from(self.step_us);
                self.decoded_us = Some(chunk.decode_us);
            } else if !is_next {
                return None;
            }
        }
        self.origin_us = Some(origin);
        Some(origin)
    }

    fn frame(&mut self, chunk: &Chunk) -> Option<(Option<Vec<u8>>, Sample)> {
        let (origin, last) = (self.origin_us?, self.decoded_us?);
        // Sound of a stream that began again comes before its first picture.
        if (chunk.time_us - last).abs() > JUMP_US {
            return None;
        }
        let (config, data) = aac(chunk.unit())?;
        let mut start = None;
        if self.sound != Some(config) {
            start = Some(first_segment(sound_track(config))?);
            self.sound = Some(config);
        }
        let sample = Sample {
            decode_us: chunk.time_us - origin,
            after_us: 0,
            duration: (AacConfig::SAMPLES * u64::from(HZ) / u64::from(config.rate())) as u32,
            flags: SYNC,
            data: data.to_vec(),
        };
        (sample.decode_us >= 0).then_some((start, sample))
    }

    /// `moof` and `mdat` of a sample.
    fn fragment(&mut self, sample: &Sample) -> Vec<u8> {
        self.sequence = self.sequence.wrapping_add(1);
        let entry = TrunEntry {
            duration: Some(sample.duration),
            size: Some(sample.data.len() as u32),
            flags: Some(sample.flags),
            cts: Some(sample.after_us),
        };
        let mut moof = Moof {
            mfhd: Mfhd {
                sequence_number: self.sequence,
            },
            traf: vec![Traf {
                tfhd: Tfhd {
                    track_id: TRACK,
                    default_base_is_moof: true,
                    ..Tfhd::default()
                },
                tfdt: Some(Tfdt {
                    base_media_decode_time: sample.decode_us.unsigned_abs(),
                }),
                trun: vec![Trun {
                    data_offset: Some(0),
                    samples: vec![entry].into(),
                }],
                ..Traf::default()
            }],
        };
        let mut out = encoded(&moof);
        // The sample begins behind the header of `mdat`.
        moof.traf[0].trun[0].data_offset = Some(out.len() as i32 + 8);
        out = encoded(&moof);
        out.extend_from_slice(&(sample.data.len() as u32 + 8).to_be_bytes());
        out.extend_from_slice(b"mdat");
        out.extend_from_slice(&sample.data);
        out
    }
}

/// A box; writing to memory does not fail.
fn encoded(atom: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    let written = atom.encode(&mut out);
    debug_assert!(written.is_ok(), "{written:?}");
    out
}
