use layercast_core::{Media, Time};

use super::TimedFrame;
use crate::rtp::{RtpNote, RtpPacket, RtpReceiver, RtpSession, RtpStats};
use crate::ts::packet::{SYNC, TS_PACKET};
use crate::ts::{TsSplitter, TsStats};

/// Layered frames from a live stream, whose form is told by its first datagram: a bare transport
/// stream, or RTP with a transport stream, MPEG-1/2 or H.264 video in it.
#[derive(Debug, Default)]
pub struct Ingest {
    form: Option<Form>,
    foreign: u64,
}

#[derive(Debug)]
enum Form {
    Transport(Box<TsSplitter>),
    Rtp(Box<RtpReceiver>),
}

/// What an [`Ingest`] saw.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct IngestStats {
    /// Datagrams that are neither a transport stream nor RTP.
    pub foreign: u64,
    /// The transport stream, if it came bare.
    pub ts: TsStats,
    /// The RTP packets, if there were any.
    pub rtp: RtpStats,
}

impl Ingest {
    /// Waits for a datagram.
    pub fn new() -> Ingest {
        Ingest::default()
    }

    /// Takes a transport stream from a pipe.
    pub fn transport() -> Ingest {
        Ingest {
            form: Some(Form::Transport(Box::default())),
            foreign: 0,
        }
    }

    /// Takes the RTP stream that a session description names.
    pub fn session(session: &RtpSession) -> Ingest {
        Ingest {
            form: Some(Form::Rtp(Box::new(RtpReceiver::of_session(session)))),
            foreign: 0,
        }
    }

    /// Takes a datagram, or the next bytes of a pipe, that arrives `now`.
    pub fn push(&mut self, now: Time, data: &[u8]) {
        if self.form.is_none() {
            self.form = Ingest::form_of(data);
        }
        match &mut self.form {
            Some(Form::Transport(splitter)) => splitter.push(data),
            Some(Form::Rtp(receiver)) => receiver.push(now, data),
            None => self.foreign += 1,
        }
    }

    fn form_of(data: &[u8]) -> Option<Form> {
        let (packets, rest) = data.as_chunks::<TS_PACKET>();
        let aligned = rest.is_empty() && packets.iter().all(|packet| packet[0] == SYNC);
        if !packets.is_empty() && aligned {
            return Some(Form::Transport(Box::default()));
        }
        RtpPacket::parse(data).map(|_| Form::Rtp(Box::default()))
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

    /// The next thing a user should know of the sources on the port.
    pub fn poll_note(&mut self) -> Option<RtpNote> {
        match &mut self.form {
            Some(Form::Rtp(receiver)) => receiver.poll_note(),
            _ => None,
        }
    }

    /// Why no picture comes out of what arrives, and what helps; `None` if nothing is known to be wrong.
    pub fn problem(&self) -> Option<String> {
        match &self.form {
            Some(Form::Rtp(receiver)) => receiver.problem(),
            _ => None,
        }
    }

    /// The stream is over: what is there goes out.
    pub fn finish(&mut self) {
        match &mut self.form {
            Some(Form::Transport(splitter)) => splitter.finish(),
            Some(Form::Rtp(receiver)) => receiver.finish(),
            None => {}
        }
    }

    /// The next frame.
    pub fn poll(&mut self) -> Option<TimedFrame> {
        match &mut self.form {
            Some(Form::Transport(splitter)) => splitter.poll(),
            Some(Form::Rtp(receiver)) => receiver.poll(),
            None => None,
        }
    }

    /// What the stream is, once that is known.
    pub fn media(&self) -> Option<Media> {
        match self.form.as_ref()? {
            Form::Transport(_) => Some(Media::MpegTs),
            Form::Rtp(receiver) => receiver.media(),
        }
    }

    /// Its form in words, for the user.
    pub fn form(&self) -> &'static str {
        match (&self.form, self.media()) {
            (None, _) => "nothing known",
            (Some(Form::Transport(_)), _) => "MPEG-TS",
            (_, Some(Media::MpegTs)) => "MPEG-TS in RTP",
            (_, Some(Media::H264)) => "H.264 in RTP",
            (_, Some(_)) => "MPEG video in RTP",
            (_, None) => "RTP",
        }
    }

    /// What it saw.
    pub fn stats(&self) -> IngestStats {
        let mut stats = IngestStats {
            foreign: self.foreign,
            ..IngestStats::default()
        };
        match &self.form {
            Some(Form::Transport(splitter)) => stats.ts = splitter.stats(),
            Some(Form::Rtp(receiver)) => stats.rtp = receiver.stats(),
            None => {}
        }
        stats
    }
}
