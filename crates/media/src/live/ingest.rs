use layercast_core::{Media, Time};

use super::detect::{Detector, Found};
use super::stamp::HZ;
use super::{PaceChange, PaceMeter, Stamp, TimedFrame};
use crate::Map;
use crate::ivf::IvfReader;
use crate::rtp::{RtpNote, RtpPacket, RtpReceiver, RtpSession, RtpStats};
use crate::ts::{
    Rendition, RenditionNote, Renditions, StreamChange, TsSplitter, TsStats, VideoCodec,
};

/// Layered frames from a live stream, whose form is recognised from its first datagrams: a bare transport
/// stream, cut anywhere, or RTP with a transport stream, MPEG-1/2, H.264, H.265, AV1, VP8 or VP9 video in it. A pipe has a
/// transport stream, or IVF.
#[derive(Debug, Default)]
pub struct Ingest {
    form: Option<Form>,
    /// Until the form is known.
    detector: Detector,
    /// It is a pipe; its first octets until they tell what it holds.
    pipe: Option<Vec<u8>>,
    /// The program of a transport stream that is served.
    program: Option<u16>,
    map: Map,
    /// When something came last.
    now: Time,
    /// The last time stamp, and the ticks since the first.
    stamped: Option<(Stamp, i64)>,
    pace: PaceMeter,
    pace_change: Option<PaceChange>,
}

#[derive(Debug)]
enum Form {
    Transport(Box<TsSplitter>),
    Renditions(Box<Renditions>),
    Rtp(Box<RtpReceiver>),
    Ivf(Box<IvfReader>),
}

/// First octets of a pipe that tell IVF from a transport stream.
const FIRST: usize = 4;

/// Counters of a live input.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct IngestStats {
    /// Datagrams that are neither a transport stream nor RTP; of IVF in a pipe, places at which something is missing.
    pub foreign: u64,
    /// The transport stream, of an input without RTP.
    pub ts: TsStats,
    /// The RTP packets.
    pub rtp: RtpStats,
    /// Media time that arrived for each second of time in the last 10 s, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_ms_per_s: Option<u32>,
    /// Whether that is less than real time: the encoder is too slow, or the sender reads its input slower than real time.
    pub slow: bool,
    /// How often its timeline began again since it is served: after a pause or a jump, or since its frames stayed more than
    /// 1 s late or early.
    pub restarts: u64,
    /// How often of these its time stamps jumped back or ahead: its encoder restarted its clock, or the stream was cut.
    pub clock_jumps: u64,
    /// Frames that were not sent since they came faster than real time, or than the flow takes them.
    pub dropped: u64,
}

/// What was lost of a live input before it came here.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct InputLoss {
    /// Packets of the transport stream, or of RTP.
    pub packets: u64,
    /// Pictures of which something is missing, and those of RTP that refer to them: receivers do not show them.
    pub pictures: u64,
}

impl IngestStats {
    /// What was lost before it came here.
    pub fn loss(&self) -> InputLoss {
        InputLoss {
            packets: self.ts.lost + self.rtp.lost,
            pictures: self.ts.damaged + self.rtp.incomplete,
        }
    }
}

/// A splitter for a program of a bare transport stream.
fn splitter_of(program: Option<u16>, map: Map) -> TsSplitter {
    TsSplitter::of_program(program).with_map(map)
}

impl Ingest {
    /// Waits for a datagram.
    pub fn new() -> Ingest {
        Ingest::default()
    }

    /// Takes a transport stream or IVF from a pipe.
    pub fn pipe() -> Ingest {
        Ingest {
            pipe: Some(Vec::new()),
            ..Ingest::default()
        }
    }

    /// Takes whole renditions as layers: the programs of one transport stream, or as many transport streams as there are
    /// `inputs`.
    pub fn renditions(inputs: usize) -> Ingest {
        let renditions = match inputs {
            0 | 1 => Renditions::of_programs(),
            inputs => Renditions::of_inputs(inputs),
        };
        Ingest {
            form: Some(Form::Renditions(Box::new(renditions))),
            ..Ingest::default()
        }
    }

    /// Takes the RTP stream that a session description names.
    pub fn session(session: &RtpSession) -> Ingest {
        Ingest {
            form: Some(Form::Rtp(Box::new(RtpReceiver::of_session(session)))),
            ..Ingest::default()
        }
    }

    /// Serves the program with this number of a bare transport stream, and nothing of the others, and distributes pictures
    /// over the layers as `map` says. To be called before anything comes.
    #[must_use]
    pub fn with(mut self, program: Option<u16>, map: Map) -> Ingest {
        (self.program, self.map) = (program, map);
        match &mut self.form {
            Some(Form::Transport(splitter)) => **splitter = splitter_of(program, map),
            Some(Form::Rtp(receiver)) => receiver.set_map(map),
            Some(Form::Renditions(_) | Form::Ivf(_)) | None => {}
        }
        self
    }

    /// Takes a datagram, or the next bytes of a pipe, that arrives `now`.
    pub fn push(&mut self, now: Time, data: &[u8]) {
        self.push_from(now, 0, data);
    }

    /// The same from one of several inputs.
    pub fn push_from(&mut self, now: Time, input: usize, data: &[u8]) {
        self.now = now;
        match &mut self.form {
            Some(Form::Renditions(renditions)) => renditions.push(Some(now), input, data),
            Some(Form::Transport(splitter)) if self.pipe.is_some() => splitter.push_at(now, data),
            Some(Form::Transport(splitter)) => splitter.push_datagram_at(now, data),
            Some(Form::Ivf(reader)) => reader.push(data),
            Some(Form::Rtp(receiver)) => {
                receiver.push(now, data);
                // RTP that shows nothing does not keep a transport stream off the port.
                if receiver.is_barren()
                    && RtpPacket::parse(data).is_none()
                    && let Some(found @ Found::Transport(_)) = self.detector.push(data)
                {
                    self.found(now, found);
                }
            }
            None if self.pipe.is_some() => self.pipe_with(now, data),
            None => {
                if let Some(found) = self.detector.push(data) {
                    self.found(now, found);
                }
            }
        }
    }

    /// Takes the first octets of a pipe.
    fn pipe_with(&mut self, now: Time, data: &[u8]) {
        let first = self.pipe.get_or_insert_default();
        first.extend_from_slice(data);
        if first.len() >= FIRST {
            let first = std::mem::take(first);
            self.open_pipe(now, &first);
        }
    }

    /// What a pipe holds is known by its first octets.
    fn open_pipe(&mut self, now: Time, first: &[u8]) {
        self.form = Some(match IvfReader::begins(first) {
            true => {
                let mut reader = Box::new(IvfReader::new(self.map));
                reader.push(first);
                Form::Ivf(reader)
            }
            false => {
                let mut splitter = Box::new(splitter_of(self.program, self.map));
                splitter.push_at(now, first);
                Form::Transport(splitter)
            }
        });
    }

    /// The form is known: the bytes received before are processed.
    fn found(&mut self, now: Time, found: Found) {
        self.form = Some(match found {
            Found::Transport(bytes) => {
                let mut splitter = Box::new(splitter_of(self.program, self.map));
                splitter.push_at(now, &bytes);
                Form::Transport(splitter)
            }
            Found::Rtp(datagrams) => {
                let mut receiver = Box::new(RtpReceiver::new());
                receiver.set_map(self.map);
                for datagram in &datagrams {
                    receiver.push(now, datagram);
                }
                Form::Rtp(receiver)
            }
        });
    }

    /// The form of what came is not known although enough came: what it looks like, and what to send.
    pub fn verdict(&self) -> Option<String> {
        match &self.form {
            None => self.detector.verdict(),
            Some(Form::Renditions(renditions)) => renditions.verdict(),
            Some(_) => None,
        }
    }

    /// Why the input yields no picture, with a remedy; `None` if no fault is known.
    pub fn problem(&self) -> Option<String> {
        match &self.form {
            None if self.pipe.is_some() => None,
            None => Some(self.detector.description()),
            Some(Form::Transport(splitter)) => splitter.problem(),
            Some(Form::Renditions(renditions)) => renditions.problem(),
            Some(Form::Rtp(receiver)) => receiver.problem(),
            Some(Form::Ivf(reader)) => reader.media().is_none().then(|| {
                "it is IVF with another codec than AV1, VP8 and VP9: encode it as H.264 (ffmpeg -i FILE -c:v libx264 -g 25 -bf 2 \
                 -f mpegts)"
                    .to_owned()
            }),
        }
    }

    /// Why the map does not fit the video, as far as it came.
    pub fn misfit(&self) -> Option<String> {
        match self.form.as_ref()? {
            Form::Transport(splitter) => splitter.misfit(),
            Form::Renditions(_) => None,
            Form::Rtp(receiver) => receiver.misfit(),
            Form::Ivf(reader) => reader.misfit(),
        }
    }

    /// The codec of the video in a bare transport stream.
    pub fn codec(&self) -> Option<VideoCodec> {
        match &self.form {
            Some(Form::Transport(splitter)) => splitter.codec(),
            Some(Form::Renditions(renditions)) => renditions.codec(),
            _ => None,
        }
    }

    /// When [`on_timeout`](Ingest::on_timeout) is to be called, if nothing comes before.
    pub fn next_timeout(&self) -> Option<Time> {
        match &self.form {
            Some(Form::Rtp(receiver)) => receiver.next_timeout(),
            _ => None,
        }
    }

    /// Gives up what did not come in time.
    pub fn on_timeout(&mut self, now: Time) {
        if let Some(Form::Rtp(receiver)) = &mut self.form {
            receiver.on_timeout(now);
        }
    }

    /// Whether packets of RTP come, and for some time no picture: it may be another codec, which is known after 2 s.
    pub fn awaits_picture(&self) -> bool {
        matches!(&self.form, Some(Form::Rtp(receiver)) if receiver.awaits_picture())
    }

    /// The next thing a user should know of the sources on the port.
    pub fn poll_note(&mut self) -> Option<RtpNote> {
        match &mut self.form {
            Some(Form::Rtp(receiver)) => receiver.poll_note(),
            _ => None,
        }
    }

    /// The next stream of a transport stream that stopped while others continue, or comes again.
    pub fn poll_change(&mut self) -> Option<StreamChange> {
        match &mut self.form {
            Some(Form::Transport(splitter)) => splitter.poll_change(),
            Some(Form::Renditions(renditions)) => renditions.poll_change(),
            Some(Form::Rtp(receiver)) => receiver.poll_change(),
            Some(Form::Ivf(_)) | None => None,
        }
    }

    /// The next thing that a user should know of the renditions.
    pub fn poll_rendition_note(&mut self) -> Option<RenditionNote> {
        match &mut self.form {
            Some(Form::Renditions(renditions)) => renditions.poll_note(),
            _ => None,
        }
    }

    /// The renditions from the lowest level upwards.
    pub fn levels(&self) -> Vec<Rendition> {
        match &self.form {
            Some(Form::Renditions(renditions)) => renditions.renditions(),
            _ => Vec::new(),
        }
    }

    /// Whether the source became slower than real time, or keeps it again.
    pub fn poll_pace(&mut self) -> Option<PaceChange> {
        self.pace_change.take()
    }

    /// One of several inputs is over.
    pub fn finish_input(&mut self, input: usize) {
        if let Some(Form::Renditions(renditions)) = &mut self.form {
            renditions.finish(input);
        }
    }

    /// The stream is over: what is there goes out.
    pub fn finish(&mut self) {
        if let Some(first) = self.pipe.take().filter(|_| self.form.is_none()) {
            self.open_pipe(self.now, &first);
        }
        if self.form.is_none()
            && let Some(found) = self.detector.finish()
        {
            self.found(self.now, found);
        }
        match &mut self.form {
            Some(Form::Transport(splitter)) => splitter.finish(),
            Some(Form::Renditions(renditions)) => renditions.finish_all(),
            Some(Form::Rtp(receiver)) => receiver.finish(),
            Some(Form::Ivf(reader)) => reader.finish(),
            None => {}
        }
    }

    /// The next frame.
    pub fn poll(&mut self) -> Option<TimedFrame> {
        let mut frame = match &mut self.form {
            Some(Form::Transport(splitter)) => splitter.poll(),
            Some(Form::Renditions(renditions)) => renditions.poll(),
            Some(Form::Rtp(receiver)) => receiver.poll(),
            Some(Form::Ivf(reader)) => reader.poll(),
            None => None,
        }?;
        let arrived = *frame.arrived.get_or_insert(self.now);
        if let Some(stamp) = frame.stamp {
            let ticks = self
                .stamped
                .map_or(0, |(last, ticks)| ticks.saturating_add(stamp.since(last)));
            self.stamped = Some((stamp, ticks));
            let media = ticks as f64 * 1e3 / HZ as f64;
            self.pace_change = self.pace.push(arrived, media).or(self.pace_change);
        }
        Some(frame)
    }

    /// What the stream is, once that is known.
    pub fn media(&self) -> Option<Media> {
        match self.form.as_ref()? {
            Form::Transport(_) => Some(Media::MpegTs),
            Form::Renditions(renditions) => renditions.codec().map(|_| Media::MpegTs),
            Form::Rtp(receiver) => receiver.media(),
            Form::Ivf(reader) => reader.media(),
        }
    }

    /// Its form in words, for the user.
    pub fn form(&self) -> &'static str {
        match (&self.form, self.media()) {
            (None, _) => "nothing known",
            (Some(Form::Transport(_)), _) => "MPEG-TS",
            (Some(Form::Renditions(_)), _) => "renditions in MPEG-TS",
            (Some(Form::Ivf(_)), media) => match media {
                Some(Media::Av1) => "AV1 in IVF",
                Some(Media::Vp8) => "VP8 in IVF",
                Some(Media::Vp9) => "VP9 in IVF",
                _ => "IVF",
            },
            (_, Some(Media::MpegTs)) => "MPEG-TS in RTP",
            (_, Some(Media::H264)) => "H.264 in RTP",
            (_, Some(Media::H265)) => "H.265 in RTP",
            (_, Some(Media::Av1)) => "AV1 in RTP",
            (_, Some(Media::Vp8)) => "VP8 in RTP",
            (_, Some(Media::Vp9)) => "VP9 in RTP",
            (_, Some(_)) => "MPEG video in RTP",
            (_, None) => "RTP",
        }
    }

    /// What it saw.
    pub fn stats(&self) -> IngestStats {
        let mut stats = IngestStats {
            foreign: self.detector.foreign(),
            media_ms_per_s: self.pace.ratio().map(|it| (it * 1_000.0).round() as u32),
            slow: self.pace.is_slow(),
            ..IngestStats::default()
        };
        match &self.form {
            Some(Form::Transport(splitter)) => stats.ts = splitter.stats(),
            Some(Form::Renditions(renditions)) => stats.ts = renditions.stats(),
            Some(Form::Rtp(receiver)) => stats.rtp = receiver.stats(),
            Some(Form::Ivf(reader)) => {
                stats.foreign = reader.broken;
                stats.rtp.incomplete = reader.incomplete();
            }
            None => {}
        }
        stats
    }
}
