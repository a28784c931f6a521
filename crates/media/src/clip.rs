use bytes::Bytes;
use layercast_core::{Composition, FrameRate, Layer, Media, Span};
use serde::{Deserialize, Serialize};

use crate::mpeg::{es, ps, sniff};
use crate::ts::packet;
use crate::ts::{self, Rendition, RenditionNote, VideoCodec};
use crate::{Map, MediaError};
use crate::{h264, h265, ivf};

/// How a picture is coded: intra, predicted, or predicted from both sides.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Picture {
    /// Intra: needs no other picture.
    I,
    /// Predicted from the I or P picture before it.
    P,
    /// Predicted from pictures on both sides; nothing depends on it, except in H.264.
    B,
    /// No picture: audio, tables and whatever else a transport stream carries.
    Data,
}

/// Where the frames of a clip come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Container {
    /// MPEG-1/2 video elementary stream.
    MpegEs,
    /// MPEG-1 system stream or MPEG-2 program stream.
    MpegPs,
    /// Frame-size trace.
    Trace,
    /// H.264 byte stream (Annex B).
    H264,
    /// H.265 byte stream (Annex B).
    H265,
    /// IVF file with AV1, VP8 or VP9.
    Ivf,
    /// OBUs of AV1.
    Obu,
    /// MPEG transport stream.
    MpegTs,
    /// Random sizes.
    Synthetic,
}

/// One frame of a clip: one picture (two fields of a frame count as one), one METS packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// How it is coded; of two fields, the first.
    pub picture: Picture,
    /// The layer that carries it.
    pub layer: Layer,
    /// Whether a receiver can start here. True for I pictures, which always carry (or, in traces,
    /// stand for) a sequence header.
    pub gop_start: bool,
    /// Whether it is sound or other data beside the pictures: nothing refers from one to the other.
    pub sound: bool,
    /// When it is due, counted from the first frame; `None`: at its slot of the frame rate.
    pub time: Option<Span>,
    /// Size in bytes.
    pub size: u32,
    /// The access unit: all headers before the picture, and the picture. `None` in traces and
    /// synthetic clips.
    pub data: Option<Bytes>,
}

/// The properties of a clip, from its headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClipInfo {
    /// Where the frames come from.
    pub container: Container,
    /// Its codec.
    pub codec: Media,
    /// What its layers are to each other.
    pub composition: Composition,
    /// Luminance samples in a row; 0 if unknown.
    pub width: u32,
    /// Rows; 0 if unknown.
    pub height: u32,
    /// Frames per second.
    pub frame_rate: FrameRate,
    /// The codec of the video in a transport stream; `None` without video, and for other containers.
    pub video: Option<VideoCodec>,
    /// Byte offset in the file of an incomplete last picture, which was left out; of a transport stream, of the picture or packet that it
    /// ends inside: such a picture is marked, and receivers leave it out.
    pub truncated: Option<u64>,
}

/// A layered video clip, frames in coded order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clip {
    /// What it is.
    pub info: ClipInfo,
    /// Its frames in coded order, at least one; cheap to clone.
    pub frames: Vec<Frame>,
}

/// A clip whose levels are whole renditions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredRenditions {
    /// Its frames, those of one time from the lowest rendition upwards.
    pub clip: Clip,
    /// The renditions from the lowest level upwards.
    pub renditions: Vec<Rendition>,
    /// What a user should know of them.
    pub notes: Vec<RenditionNote>,
}

impl Picture {
    /// The layer that carries such pictures, if nothing better is known: I -> BL, P -> E1, B -> E2.
    pub const fn layer(self) -> Layer {
        match self {
            Picture::I | Picture::Data => Layer::Base,
            Picture::P => Layer::E1,
            Picture::B => Layer::E2,
        }
    }
}

impl Frame {
    /// A frame with its bytes.
    pub(crate) fn new(picture: Picture, data: Bytes) -> Frame {
        Frame {
            data: Some(data.clone()),
            ..Frame::sized(picture, u32::try_from(data.len()).unwrap_or(u32::MAX))
        }
    }

    /// A frame of `size` bytes without content.
    pub(crate) fn sized(picture: Picture, size: u32) -> Frame {
        Frame {
            picture,
            layer: picture.layer(),
            gop_start: picture == Picture::I,
            sound: false,
            time: None,
            size,
            data: None,
        }
    }

    /// A frame of which only the position in a flow and the size are known: the layer determines the kind of
    /// picture, the inverse of [`Picture::layer`].
    pub fn of_layer(layer: Layer, gop_start: bool, size: u32) -> Frame {
        let picture = match layer {
            Layer::Base => Picture::I,
            Layer::E1 => Picture::P,
            Layer::E2 => Picture::B,
        };
        Frame {
            gop_start,
            ..Frame::sized(picture, size)
        }
    }

    /// The layer that carries it.
    pub const fn layer(&self) -> Layer {
        self.layer
    }
}

impl Clip {
    /// Reads an MPEG-1/2 video elementary stream, MPEG-1 system stream or MPEG-2 program stream
    /// (its first video stream), an H.264 or H.265 byte stream, AV1, VP8 or VP9 in IVF, OBUs of
    /// AV1, or an MPEG transport stream, distinguished by their first bytes.
    ///
    /// Frames of an elementary stream are slices of `data`, not copies. An incomplete last picture
    /// is left out and reported in [`ClipInfo::truncated`].
    ///
    /// # Errors
    /// Anything else: what it looks like, where it breaks, and what was expected there.
    pub fn parse(data: Bytes) -> Result<Clip, MediaError> {
        Clip::of_program(data, None, Map::Auto)
    }

    /// Pictures of a transport stream that are marked, because packets or octets of them, or before them, are missing; of AV1, VP8 and
    /// VP9 frames that are cut. Receivers leave them out.
    pub fn damaged(&self) -> u64 {
        let is_marked = |frame: &&Frame| match (&frame.data, self.info.codec) {
            (Some(data), Media::MpegTs) => {
                !frame.sound && data.as_chunks().0.iter().any(packet::has_error)
            }
            (Some(data), Media::Av1 | Media::Vp8 | Media::Vp9) => *data == ivf::DAMAGED,
            _ => false,
        };
        self.frames.iter().filter(is_marked).count() as u64
    }

    /// Reads what [`Clip::parse`] reads, with layers as `map` says; of a transport stream the program with this number
    /// and nothing of the others, or the first that has video.
    ///
    /// # Errors
    /// Those of [`Clip::parse`]; the transport stream does not have this program; the map does not fit the codec.
    pub fn of_program(data: Bytes, program: Option<u16>, map: Map) -> Result<Clip, MediaError> {
        let form = sniff::sniff(&data)?;
        if program.is_some() && form != sniff::Form::Transport {
            let problem =
                "a program can be chosen in a transport stream only, and this is none".into();
            return Err(MediaError::Unusable { problem });
        }
        if map.is_by_place() && form != sniff::Form::Ivf {
            let problem = map.misfit("another stream");
            return Err(MediaError::Unusable { problem });
        }
        let mpeg_fits = |map: Map| match map.needs_references() {
            true => Err(MediaError::Unusable {
                problem: map.misfit("MPEG-1/2 video"),
            }),
            false => Ok(()),
        };
        match form {
            sniff::Form::Elementary => {
                mpeg_fits(map)?;
                let stream = es::parse(&data, false)?;
                Ok(Clip::from_stream(Container::MpegEs, stream))
            }
            sniff::Form::H264 => {
                let stream = h264::stream::parse(&data, map)?;
                Ok(Clip::from_stream(Container::H264, stream))
            }
            sniff::Form::H265 => {
                let stream = h265::stream::parse(&data, map)?;
                Ok(Clip::from_stream(Container::H265, stream))
            }
            sniff::Form::Ivf => Ok(Clip::from_stream(Container::Ivf, ivf::parse(&data, map)?)),
            sniff::Form::Obu => {
                let stream = ivf::parse_obus(&data, map)?;
                Ok(Clip::from_stream(Container::Obu, stream))
            }
            sniff::Form::Transport => {
                let (stream, video) = ts::parse(&data, program, map)?;
                let mut clip = Clip::from_stream(Container::MpegTs, stream);
                clip.info.video = video;
                Ok(clip)
            }
            sniff::Form::Program => {
                let mut program = ps::demultiplex(&data)?;
                let video = Bytes::from(std::mem::take(&mut program.video));
                let stream = match sniff::sniff(&video) {
                    Ok(sniff::Form::H264) => Some(h264::stream::parse(&video, map)?),
                    Ok(sniff::Form::H265) => Some(h265::stream::parse(&video, map)?),
                    _ => None,
                };
                if let Some(stream) = stream {
                    return Ok(Clip::from_stream(Container::MpegPs, stream));
                }
                mpeg_fits(map)?;
                let mut stream = es::parse(&video, program.video_cut)
                    .map_err(|error| error.map_offset(|at| program.file_offset(at)))?;
                let cut = stream.truncated.map(|at| program.file_offset(at));
                stream.truncated = cut.or(program.truncated);
                Ok(Clip::from_stream(Container::MpegPs, stream))
            }
        }
    }

    fn from_stream(container: Container, stream: es::Stream) -> Clip {
        Clip {
            info: ClipInfo {
                container,
                codec: stream.codec,
                composition: Composition::Additive,
                width: stream.width,
                height: stream.height,
                frame_rate: stream.frame_rate,
                video: None,
                truncated: stream.truncated,
            },
            frames: without_gap(stream.frames),
        }
    }

    /// Reads whole renditions as the levels of one clip: the programs of one transport stream, or several transport
    /// streams with a rendition each.
    ///
    /// # Errors
    /// Those of [`Clip::parse`]; there are not 2 or 3 renditions of one codec; they have no key frames at common times.
    pub fn of_renditions(files: &[Bytes]) -> Result<StoredRenditions, MediaError> {
        for file in files {
            let form = sniff::sniff(file)?;
            if form != sniff::Form::Transport {
                let problem = "renditions are read from transport streams, and this is none: write one with ffmpeg -i FILE \
                               -map 0 -c copy -f mpegts CLIP.ts"
                    .into();
                return Err(MediaError::Unusable { problem });
            }
        }
        let stored = ts::parse_renditions(files)?;
        let mut clip = Clip::from_stream(Container::MpegTs, stored.stream);
        clip.info.video = stored.codec;
        clip.info.composition = Composition::Alternative;
        Ok(StoredRenditions {
            clip,
            renditions: stored.renditions,
            notes: stored.notes,
        })
    }

    /// How long the clip plays.
    pub fn duration(&self) -> Span {
        self.info.frame_rate.due(self.frames.len() as u64)
    }

    /// Pictures per second that a receiver sees; less than [`ClipInfo::frame_rate`] where frames carry sound and data too,
    /// and of renditions.
    pub fn picture_rate(&self) -> FrameRate {
        let top = self.frames.iter().map(|frame| frame.layer).max();
        let is_shown =
            |frame: &Frame| self.info.composition.is_additive() || top == Some(frame.layer);
        let is_picture = |frame: &&Frame| frame.picture != Picture::Data && is_shown(frame);
        let pictures = self.frames.iter().filter(is_picture).count();
        match pictures {
            0 => self.info.frame_rate,
            n if n == self.frames.len() => self.info.frame_rate,
            n => crate::live::share_of(self.info.frame_rate, n as u64, self.frames.len() as u64),
        }
    }

    /// Repeats or cuts the clip so that it plays `duration`, rounded up to whole frames (in coded
    /// order) and never less than one.
    #[must_use]
    pub fn with_duration(&self, duration: Span) -> Clip {
        let rate = self.info.frame_rate;
        let ps_frames = u128::from(duration.as_ps()) * u128::from(rate.num);
        let ps = 1_000_000_000_000 * u128::from(rate.den.max(1));
        let wanted = ps_frames.div_ceil(ps).clamp(1, MAX_FRAMES as u128) as usize;
        Clip {
            info: self.info.clone(),
            frames: self.repeated().take(wanted).collect(),
        }
    }

    /// The frames of the clip over and over, media times running on.
    pub fn repeated(&self) -> impl Iterator<Item = Frame> + use<> {
        let frames = self.frames.clone();
        let duration = self.duration();
        (0..).flat_map(move |round| {
            let later = duration.times(round);
            let frames = frames.clone();
            frames.into_iter().map(move |mut frame| {
                frame.time = frame
                    .time
                    .map(|time| Span::from_ps(time.as_ps().saturating_add(later.as_ps())));
                frame
            })
        })
    }
}

/// Most frames a clip is repeated to, two days at 60 frames/s: a typing error must not eat the memory.
const MAX_FRAMES: usize = 10_368_000;

/// Layers are cumulative, so that there is no E2 without E1 (specs/mets.md 7): where nothing is in E1, as in
/// clips of I and B pictures, what would be E2 is E1.
pub(crate) fn without_gap(mut frames: Vec<Frame>) -> Vec<Frame> {
    if frames.iter().all(|frame| frame.layer != Layer::E1) {
        for frame in &mut frames {
            frame.layer = frame.layer.min(Layer::E1);
        }
    }
    frames
}
