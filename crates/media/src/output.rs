use layercast_core::{Composition, FrameRate, Layer, Media, PerLayer, Serial, Span, Time};

use crate::h265::H265Writer;
use crate::ivf::PictureWriter;
use crate::order::Place;
use crate::rtp::RtpSender;
use crate::timeline::{OutPicture, Timeline};
use crate::ts::{TsMux, TsWriter};
use crate::{H264Writer, StreamWriter, WriterStats};

/// In what form a receiver writes a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputForm {
    /// As it is: video as an elementary stream, AV1, VP8 and VP9 in IVF, a transport stream as one.
    Native,
    /// AV1 as OBUs without a container (Section 5); everything else as it is.
    Obu,
    /// As an MPEG transport stream.
    Transport,
    /// In a form that programs for other containers read: AV1, VP8 and VP9 in IVF, everything else as a transport stream.
    Container,
    /// As RTP packets; the seed gives their random beginnings.
    Rtp(u64),
}

impl OutputForm {
    /// Why a flow of `media` cannot be written so, and what to do; `None` if it can.
    pub fn misfit(self, media: Media) -> Option<String> {
        let is_bare = matches!(media, Media::Av1 | Media::Vp8 | Media::Vp9);
        let what = match self {
            OutputForm::Transport if is_bare => "a transport stream",
            OutputForm::Obu if media != Media::Av1 => "OBUs",
            _ => return None,
        };
        let name = media.name();
        Some(match is_bare {
            true => format!(
                "{name} cannot be written as {what}: write another form, such as --out got.webm, got.mkv, got.ivf or rtp://HOST:PORT"
            ),
            false => format!(
                "{name} cannot be written as {what}: those are AV1; give the file another name than *.obu"
            ),
        })
    }
}

/// What a file is to be by the ending of its name, where the media in it can contradict that.
const NAMED: [(&[&str], &str, &[Media]); 6] = [
    (
        &["m1v", "m2v", "mpv"],
        "MPEG-1/2 video without a container",
        &[Media::Mpeg1, Media::Mpeg2],
    ),
    (
        &["h264", "264", "avc"],
        "H.264 without a container",
        &[Media::H264],
    ),
    (
        &["h265", "265", "hevc"],
        "H.265 without a container",
        &[Media::H265],
    ),
    (
        &["ivf"],
        "AV1, VP8 or VP9 in IVF",
        &[Media::Av1, Media::Vp8, Media::Vp9],
    ),
    (&["obu"], "AV1 without a container", &[Media::Av1]),
    (
        &["webm"],
        "AV1, VP8 or VP9 in WebM",
        &[Media::Av1, Media::Vp8, Media::Vp9],
    ),
];

/// Containers that ffmpeg writes, and video of Layercast's own forms that it does not put into them.
const NOT_IN: [(&[&str], &[Media]); 4] = [
    (&["mp4", "m4s"], &[Media::Vp8]),
    (&["ogv"], &[Media::Av1, Media::Vp9]),
    (
        &["mov", "m4v", "f4v", "flv", "3gp", "3g2", "mxf"],
        &[Media::Av1, Media::Vp8, Media::Vp9],
    ),
    // These are, or hold, transport and program streams, in which no player looks for them.
    (
        &["mpg", "mpeg", "vob", "m3u8"],
        &[Media::Av1, Media::Vp8, Media::Vp9],
    ),
];

/// Why a flow of `media` is not what the ending of a file name says, and what to do; `None` if it is, or if the ending says nothing.
pub fn misnamed(extension: &str, media: Media) -> Option<String> {
    if matches!(media, Media::Opaque | Media::Audio | Media::H261) {
        return None;
    }
    let extension = extension.to_ascii_lowercase();
    let is_refused = |it: &&(&[&str], &[Media])| it.0.contains(&extension.as_str());
    let refused = NOT_IN.iter().find(is_refused);
    if refused.is_some_and(|it| it.1.contains(&media)) {
        return Some(format!(
            "a file that ends in .{extension} does not carry {}: end it in .webm or .mkv, which ffmpeg writes, or in .ivf",
            media.name()
        ));
    }
    let of_name = |it: &&(&[&str], &str, &[Media])| it.0.contains(&extension.as_str());
    let (_, what, _) = NAMED
        .iter()
        .find(of_name)
        .filter(|it| !it.2.contains(&media))?;
    let bare = match media {
        Media::Mpeg1 => "m1v",
        Media::Mpeg2 => "m2v",
        Media::H264 => "h264",
        Media::H265 => "h265",
        Media::Av1 | Media::Vp8 | Media::Vp9 => "ivf",
        _ => "ts",
    };
    Some(format!(
        "a name that ends in .{extension} is for {what}, and the flow is {}: end it in .{bare}, or in .mkv, which ffmpeg writes",
        media.name()
    ))
}

/// A received frame on its way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received<'a> {
    /// Its number among the frames of all layers.
    pub seq: Serial,
    /// Its layer.
    pub layer: Layer,
    /// Whether receivers can start here.
    pub gop_start: bool,
    /// Whether it is sound or other data beside the pictures. Pictures come in order, and so does sound; one may overtake the
    /// other.
    pub sound: bool,
    /// Pictures that are missing between the picture before and this one, lost or withheld; of sound, the same of its frames.
    pub missing: PerLayer<u32>,
    /// When its source emitted it, on any steady clock.
    pub emitted: Time,
    /// Its bytes.
    pub data: &'a [u8],
}

/// What becomes of a picture that cannot be decoded because one that it refers to is missing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Undecodable {
    /// It is left out.
    #[default]
    LeaveOut,
    /// In a transport stream it is written with `transport_error_indicator` set (ISO/IEC 13818-1, 2.4.3.3); in other forms
    /// it is left out.
    Mark,
}

/// Turns received frames of any flow into a stream that players accept, whatever layers arrived.
#[derive(Debug)]
pub struct FlowWriter {
    stream: Stream,
    mux: Option<TsMux>,
    rtp: Option<RtpSender>,
    timeline: Timeline,
    rate: FrameRate,
    /// Number and emission time of the last frame.
    last: Option<(Serial, Time)>,
    written: Vec<u8>,
    pictures: Vec<OutPicture>,
}

#[derive(Debug)]
enum Stream {
    Mpeg(Box<StreamWriter>),
    H264(Box<H264Writer>),
    H265(Box<H265Writer>),
    Pictures(Box<PictureWriter>),
    Transport(Box<TsWriter>),
}

impl FlowWriter {
    /// A writer for a flow of `media` at `rate`; what is not known is taken for MPEG-1/2 video. In a form that does
    /// not fit ([`OutputForm::misfit`]) it is written as it is.
    pub fn new(media: Media, rate: FrameRate, form: OutputForm) -> FlowWriter {
        let is_bare = matches!(media, Media::Av1 | Media::Vp8 | Media::Vp9);
        let form = match form.misfit(media) {
            None if form == OutputForm::Container && !is_bare => OutputForm::Transport,
            None => form,
            Some(_) => OutputForm::Native,
        };
        let stream = match media {
            Media::MpegTs => Stream::Transport(Box::default()),
            Media::H264 => Stream::H264(Box::default()),
            Media::H265 => Stream::H265(Box::default()),
            Media::Av1 | Media::Vp8 | Media::Vp9 => {
                let is_bare = form == OutputForm::Obu && media == Media::Av1;
                Stream::Pictures(Box::new(PictureWriter::new(media, is_bare)))
            }
            _ => Stream::Mpeg(Box::default()),
        };
        FlowWriter {
            stream,
            mux: (form == OutputForm::Transport && media != Media::MpegTs)
                .then(|| TsMux::new(media)),
            rtp: match form {
                OutputForm::Rtp(seed) => Some(RtpSender::new(media, seed)),
                _ => None,
            },
            timeline: Timeline::new(rate),
            rate,
            last: None,
            written: Vec::new(),
            pictures: Vec::new(),
        }
    }

    /// Says how far key frames are apart; see [`TsWriter::set_gop`].
    pub fn set_gop(&mut self, gop: Span) {
        if let Stream::Transport(stream) = &mut self.stream {
            stream.set_gop(gop);
        }
    }

    /// What the layers of the flow are to each other. To be called before anything comes.
    pub fn set_composition(&mut self, composition: Composition) {
        if let Stream::Transport(stream) = &mut self.stream {
            stream.set_composition(composition);
        }
    }

    /// What becomes of pictures that refer to a missing one.
    pub fn set_undecodable(&mut self, undecodable: Undecodable) {
        if let Stream::Transport(stream) = &mut self.stream {
            stream.set_undecodable(undecodable);
        }
    }

    /// Appends what a frame adds to the stream to `out`. In RTP packets each is a datagram; where they
    /// end is appended to `ends`.
    pub fn frame(&mut self, frame: &Received, out: &mut Vec<u8>, ends: &mut Vec<usize>) {
        let Received {
            seq,
            layer,
            gop_start,
            emitted,
            data,
            ..
        } = *frame;
        if self.last.is_none_or(|(last, _)| seq.is_after(last)) {
            self.last = Some((seq, emitted));
        }
        self.written.clear();
        self.pictures.clear();
        let written = &mut self.written;
        match &mut self.stream {
            Stream::Transport(stream) => {
                stream.frame(frame, written);
                if let Some(rtp) = &mut self.rtp {
                    // The clock of a stream stands still while a picture follows that sound has overtaken.
                    let newest = self.last.map_or(emitted, |(_, newest)| newest.max(emitted));
                    let ticks = newest.as_us() * 9 / 100;
                    rtp.send(written, ticks, out, ends);
                } else {
                    out.append(written);
                }
                return;
            }
            Stream::H264(stream) => {
                stream.set_missing(frame.missing.base, frame.missing.e1);
                stream.frame(seq, layer, gop_start, data, written);
                if let Some(slice) = stream.last_slice().filter(|_| !written.is_empty()) {
                    let len = written.len();
                    let place = Some(Place::h264(slice));
                    let picture = self.timeline.picture(place, seq, gop_start, emitted, len);
                    self.pictures.push(picture);
                }
            }
            Stream::Pictures(stream) => {
                match &mut self.rtp {
                    None => stream.frame(frame, out),
                    Some(rtp) => {
                        if let Some(ticks) = stream.time_of(frame) {
                            rtp.send(data, ticks, out, ends);
                        }
                    }
                }
                return;
            }
            Stream::H265(stream) => {
                let place = stream.frame(frame, written);
                if !written.is_empty() {
                    let len = written.len();
                    let picture = self.timeline.picture(place, seq, gop_start, emitted, len);
                    self.pictures.push(picture);
                }
            }
            Stream::Mpeg(stream) => {
                stream.frame(seq, layer, gop_start, data, written);
                self.timeline.mpeg(written, emitted, &mut self.pictures);
            }
        }
        self.put(out, ends);
    }

    /// The flow is over, and `end` was its last frame: of MPEG-1/2 video, repeats stand for the frames missing
    /// since the last one received. `ends` as for [`frame`](FlowWriter::frame).
    pub fn end_at(&mut self, end: Serial, out: &mut Vec<u8>, ends: &mut Vec<usize>) {
        let (Stream::Mpeg(stream), Some((last, emitted))) = (&mut self.stream, self.last) else {
            return;
        };
        self.written.clear();
        self.pictures.clear();
        stream.end_at(end, &mut self.written);
        let missing = end.diff(last).max(0).unsigned_abs();
        let emitted = emitted.saturating_add(self.rate.due(missing.into()));
        self.timeline
            .mpeg(&self.written, emitted, &mut self.pictures);
        self.put(out, ends);
    }

    /// Appends the pictures that were written.
    fn put(&mut self, out: &mut Vec<u8>, ends: &mut Vec<usize>) {
        let written = &mut self.written;
        match (&mut self.mux, &mut self.rtp) {
            (Some(mux), _) => {
                for picture in &self.pictures {
                    mux.picture(picture, &written[picture.range.clone()], out);
                }
            }
            (None, Some(rtp)) => {
                for picture in &self.pictures {
                    rtp.send(&written[picture.range.clone()], picture.pts, out, ends);
                }
            }
            (None, None) => out.append(written),
        }
    }

    /// Ends the stream.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if let (Stream::Mpeg(stream), None, None) = (&mut self.stream, &self.mux, &self.rtp) {
            stream.finish(out);
        }
    }

    /// What was written.
    pub fn stats(&self) -> WriterStats {
        match &self.stream {
            Stream::Mpeg(stream) => stream.stats(),
            Stream::H264(stream) => stream.stats(),
            Stream::H265(stream) => stream.stats(),
            Stream::Pictures(stream) => stream.stats(),
            Stream::Transport(stream) => stream.stats(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_contradicts_the_media_is_told_with_one_that_does_not() {
        for (extension, media, better) in [
            ("h264", Media::MpegTs, ".ts"),
            ("H264", Media::H265, ".h265"),
            ("hevc", Media::H264, ".h264"),
            ("m1v", Media::MpegTs, ".ts"),
            ("ivf", Media::H264, ".h264"),
            ("obu", Media::Vp9, ".ivf"),
            ("webm", Media::H264, ".h264"),
            ("webm", Media::MpegTs, ".ts"),
            ("mp4", Media::Vp8, ".webm or .mkv"),
            ("MOV", Media::Vp9, ".webm or .mkv"),
            ("flv", Media::Av1, ".webm or .mkv"),
            ("mpg", Media::Vp8, ".webm or .mkv"),
            ("ogv", Media::Vp9, ".webm or .mkv"),
        ] {
            let told = misnamed(extension, media).unwrap();
            assert!(
                told.contains(media.name()) && told.contains(better),
                "{told}"
            );
        }
        for (extension, media) in [
            ("h264", Media::H264),
            ("m2v", Media::Mpeg2),
            ("webm", Media::Vp9),
            ("mp4", Media::Vp9),
            ("mp4", Media::Av1),
            ("ogv", Media::Vp8),
            ("flv", Media::MpegTs),
            ("obu", Media::Av1),
            ("ts", Media::H264),
            ("mkv", Media::MpegTs),
            ("anything", Media::MpegTs),
            ("h264", Media::Opaque),
        ] {
            assert_eq!(misnamed(extension, media), None, "{extension}");
        }
    }
}
