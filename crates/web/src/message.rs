//! What a player gets: texts about the stream, and binary messages with a picture or a frame of sound each.
//!
//! A binary message has a header of 12 octets, in network order: kind (1 picture, 2 sound), flags (1: key picture), two octets of zeros, and
//! the time of presentation in microseconds as a signed number of 64 bits. An access unit follows, in Annex B form or with an ADTS header.
//! In fragmented MP4 a segment follows instead, the time is that of decoding in its time line, and the flag 2 is that of the segment before
//! the fragments. Where texts have no messages of their own, they are those of kind 0.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

/// Octets before the access unit.
const HEADER: usize = 12;
const TEXT: u8 = 0;
const PICTURE: u8 = 1;
const SOUND: u8 = 2;
const KEY: u8 = 1;
const START: u8 = 2;

/// A picture or a frame of sound, as it is sent.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The whole message.
    pub message: Bytes,
    /// Whether it is a picture.
    pub is_picture: bool,
    /// Whether a decoder can start with it.
    pub is_key: bool,
    /// When it is presented, in microseconds.
    pub time_us: i64,
    /// When it is decoded.
    pub decode_us: i64,
}

impl Chunk {
    /// A picture.
    pub fn picture(is_key: bool, (time_us, decode_us): (i64, i64), data: &[u8]) -> Chunk {
        Chunk {
            message: message(PICTURE, u8::from(is_key) * KEY, time_us, data),
            is_picture: true,
            is_key,
            time_us,
            decode_us,
        }
    }

    /// A frame of sound.
    pub fn sound(time_us: i64, data: &[u8]) -> Chunk {
        Chunk {
            message: message(SOUND, KEY, time_us, data),
            is_picture: false,
            is_key: true,
            time_us,
            decode_us: time_us,
        }
    }

    /// Its access unit.
    pub fn unit(&self) -> &[u8] {
        &self.message[HEADER..]
    }

    /// The message with a fragment that holds it and is decoded at `time_us`, or with what has to come before the first of them.
    pub fn fragment(&self, is_start: bool, time_us: i64, data: &[u8]) -> Bytes {
        let kind = if self.is_picture { PICTURE } else { SOUND };
        let flags = (u8::from(self.is_key) * KEY) | (u8::from(is_start) * START);
        message(kind, flags, time_us, data)
    }
}

/// A text among binary messages.
pub fn text(text: &str) -> Bytes {
    message(TEXT, 0, 0, text.as_bytes())
}

fn message(kind: u8, flags: u8, time_us: i64, data: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(HEADER + data.len());
    message.put_u8(kind);
    message.put_u8(flags);
    message.put_u16(0);
    message.put_i64(time_us);
    message.put_slice(data);
    message.freeze()
}

/// What a decoder needs to know before the first chunk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StreamInfo {
    /// The video.
    pub video: VideoInfo,
    /// The sound that is sent; `None` without one.
    pub sound: Option<SoundInfo>,
    /// Whether there is sound in a format that browsers do not get.
    pub other_sound: bool,
}

/// The video of a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VideoInfo {
    /// The codec as RFC 6381 writes it.
    pub codec: String,
    /// Width and height in pixels.
    pub size: Option<(u32, u32)>,
}

/// The sound of a stream: AAC with ADTS headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SoundInfo {
    /// Samples per second.
    pub rate: u32,
    /// Channels.
    pub channels: u8,
}

/// A text message to a player.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Text<'a> {
    /// The stream begins, or is another one from here on.
    Stream(&'a StreamInfo),
    /// What the receiver does, and what the viewer did not get.
    Status {
        /// Why nothing is shown; `None` if the flow plays.
        problem: Option<&'a str>,
        /// Name of the receiver among the members of the flow.
        member: &'a str,
        /// Pictures that were skipped because this viewer is too slow.
        skipped: u64,
    },
}
