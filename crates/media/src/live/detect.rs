//! What a stream of datagrams is, by several of them.

use crate::foreign::identify;
use crate::mpeg::sniff::SYNC_BYTES;
use crate::rtp::RtpPacket;
use crate::ts::framing;
use crate::ts::packet::{SYNC, TS_PACKET};

/// Consecutive RTP packets of one source and payload type that identify RTP.
const RTP_PACKETS: usize = 3;
/// How far sequence numbers of such packets may be apart.
const RTP_STEP: u16 = 64;
/// Datagrams and octets that are kept until the form is known.
const MAX_DATAGRAMS: usize = 64;
const MAX_OCTETS: usize = 256 * 1_024;
/// Octets after which a stream of no known form is given up.
const PATIENCE: u64 = 512 * 1_024;

/// The form of a stream, and what came of it before it was known.
#[derive(Debug)]
pub(super) enum Found {
    /// A transport stream, whose bytes are these.
    Transport(Vec<u8>),
    /// RTP; the datagrams are those of its source.
    Rtp(Vec<Vec<u8>>),
}

/// Tells a transport stream from RTP.
///
/// A transport stream is a run of sync bytes that are a packet apart, whichever way the datagrams cut it. RTP is a
/// source of which several packets agree in version, payload type and SSRC and follow each other.
#[derive(Default, Debug)]
pub(super) struct Detector {
    held: Vec<Vec<u8>>,
    octets: usize,
    /// Octets and datagrams since the start.
    seen: u64,
    datagrams: u64,
    /// Datagrams of no source that was chosen.
    foreign: u64,
    first: Option<String>,
}

impl Detector {
    /// Datagrams that belong to no form.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Takes a datagram; gives the form once it is known.
    pub fn push(&mut self, data: &[u8]) -> Option<Found> {
        self.seen += data.len() as u64;
        self.datagrams += 1;
        if self.first.is_none() {
            self.first = name(data);
        }
        self.held.push(data.to_vec());
        self.octets += data.len();
        while self.held.len() > MAX_DATAGRAMS || self.octets > MAX_OCTETS && self.held.len() > 1 {
            self.octets -= self.held.remove(0).len();
            self.foreign += 1;
        }
        self.decide(SYNC_BYTES, RTP_PACKETS)
    }

    /// No more comes: one packet has to do.
    pub fn finish(&mut self) -> Option<Found> {
        self.decide(1, 1)
    }

    fn decide(&mut self, sync_bytes: usize, rtp_packets: usize) -> Option<Found> {
        self.rtp(rtp_packets).or_else(|| self.transport(sync_bytes))
    }

    /// A source of which enough packets follow each other.
    fn rtp(&mut self, wanted: usize) -> Option<Found> {
        let last = RtpPacket::parse(self.held.last()?)?;
        let mut expected = None;
        let follows = self.held.iter().filter(|datagram| {
            let Some(packet) = RtpPacket::parse(datagram) else {
                return false;
            };
            let same = (packet.ssrc, packet.payload_type) == (last.ssrc, last.payload_type);
            let near = |before: u16| {
                let step = packet.seq.wrapping_sub(before);
                step != 0 && step.min(step.wrapping_neg()) <= RTP_STEP
            };
            let in_sequence = same && expected.is_none_or(near);
            if in_sequence {
                expected = Some(packet.seq);
            }
            in_sequence
        });
        if follows.count() < wanted {
            return None;
        }
        let source = last.ssrc;
        let held = std::mem::take(&mut self.held);
        let all = held.len();
        let of_source = |it: &Vec<u8>| RtpPacket::parse(it).is_some_and(|it| it.ssrc == source);
        let held: Vec<Vec<u8>> = held.into_iter().filter(of_source).collect();
        self.foreign += (all - held.len()) as u64;
        Some(Found::Rtp(held))
    }

    /// Sync bytes in a row, across datagrams.
    fn transport(&mut self, wanted: usize) -> Option<Found> {
        let mut joined: Vec<u8> = Vec::with_capacity(self.octets);
        let mut joined_from = Vec::new();
        for datagram in &self.held {
            match in_rtp(datagram) {
                // Sync bytes that are the payload of RTP are those of RTP.
                true => {
                    joined.clear();
                    joined_from.clear();
                }
                false => {
                    joined_from.push(joined.len());
                    joined.extend_from_slice(datagram);
                }
            }
        }
        let (at, _) = framing::find(&joined, wanted)?;
        let before = joined_from.iter().take_while(|&&from| from < at).count();
        // A datagram in which the run begins is used in part.
        let cut = joined_from.get(before) != Some(&at);
        let used = self.held.len() - before + usize::from(cut);
        self.foreign += self.held.len().saturating_sub(used) as u64;
        self.held.clear();
        joined.drain(..at);
        Some(Found::Transport(joined))
    }

    /// Why the form of what came is not known, once enough came.
    pub fn verdict(&self) -> Option<String> {
        (self.seen >= PATIENCE).then(|| self.description())
    }

    /// What came, and what to send instead.
    pub fn description(&self) -> String {
        let looks = match &self.first {
            Some(name) => format!("; the first looks like {name}"),
            None => String::new(),
        };
        format!(
            "{} octets in {} datagrams came, which are neither MPEG-TS (sync bytes 188, 192 or 204 octets apart) nor RTP \
             (one source with consecutive packets){looks}; send MPEG-TS, e.g. ffmpeg -re -i FILE -c copy -f mpegts \
             udp://HOST:PORT, or H.264, H.265 or MPEG video in RTP",
            self.seen, self.datagrams
        )
    }
}

/// Whether a datagram is RTP with packets of a transport stream in it.
fn in_rtp(datagram: &[u8]) -> bool {
    RtpPacket::parse(datagram).is_some_and(|packet| {
        let packets = packet.payload.chunks(TS_PACKET);
        !packet.payload.is_empty()
            && packet.payload.len().is_multiple_of(TS_PACKET)
            && packets.into_iter().all(|bytes| bytes[0] == SYNC)
    })
}

/// What a datagram looks like that is of no known form.
fn name(data: &[u8]) -> Option<String> {
    let starts = |magic: &[u8]| data.starts_with(magic);
    let zeros = data.iter().take_while(|&&byte| byte == 0).count();
    let name = match data {
        [0x80, 0, 0, 0, ..] if data.len() >= 64 => "a handshake of SRT",
        [0x80..=0xBF, 192..=223, ..] => "RTCP; media come to the port below",
        [0x14..=0x17, 0xFE, ..] => "DTLS (WebRTC)",
        [0 | 1, _, _, _, 0x21, 0x12, 0xA4, 0x42, ..] => "STUN (WebRTC)",
        _ if starts(b"SIP/") || starts(b"INVITE ") || starts(b"OPTIONS ") => "SIP or RTSP",
        _ if starts(b"GET ") || starts(b"POST ") || starts(b"HTTP/") => "HTTP",
        _ if zeros >= 2 && data.get(zeros) == Some(&1) => {
            return Some(annexb(data.get(zeros + 1).copied().unwrap_or(0)).to_owned());
        }
        [0x80..=0xBF, ..] if RtpPacket::parse(data).is_some() => {
            "an RTP packet, but those behind it do not follow it"
        }
        _ => return identify(data).map(|it| it.what.to_owned()),
    };
    Some(name.to_owned())
}

/// A video elementary stream by the byte behind its first start code.
fn annexb(code: u8) -> &'static str {
    match code {
        0x40 | 0x42 | 0x44 | 0x46 => "bare H.265 without a container",
        0xB3 | 0xB8 => "bare MPEG video without a container",
        0xBA | 0xE0..=0xEF => "an MPEG program stream",
        0xB0 | 0xB5 | 0xB6 => "bare MPEG-4 part 2 video without a container",
        _ => "bare H.264 without a container",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(packets: u8) -> Vec<u8> {
        let one = |n| [&[SYNC, n][..], &[n ^ 0x80; 186]].concat();
        (0..packets).flat_map(one).collect()
    }

    fn rtp(ssrc: u32, seq: u16, payload: &[u8]) -> Vec<u8> {
        let packet = RtpPacket {
            marker: false,
            payload_type: 96,
            seq,
            timestamp: 1,
            ssrc,
            payload,
        };
        let mut out = Vec::new();
        packet.encode_into(&mut out);
        out
    }

    /// The form, and after how many datagrams it was known.
    fn found(datagrams: &[Vec<u8>]) -> Option<(usize, Found)> {
        let mut detector = Detector::default();
        let mut all = datagrams.iter().enumerate();
        all.find_map(|(index, it)| Some((index + 1, detector.push(it)?)))
    }

    fn is_transport(datagrams: &[Vec<u8>], rest: &[u8]) {
        match found(datagrams) {
            Some((_, Found::Transport(bytes))) => assert!(rest.starts_with(&bytes[..188])),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_transport_stream_is_told_whatever_the_cut() {
        let ts = stream(60);
        for (size, skip) in [
            (1_316, 0),
            (1_472, 0),
            (1_472, 4_416),
            (1_000, 5_000),
            (188, 0),
            (100, 77),
        ] {
            let datagrams: Vec<Vec<u8>> = ts[skip..].chunks(size).map(<[u8]>::to_vec).collect();
            let first = skip.next_multiple_of(188);
            is_transport(&datagrams, &ts[first..]);
        }
        let timed: Vec<u8> = ts
            .chunks(188)
            .flat_map(|it| [&[1, 2, 3, 4], it].concat())
            .collect();
        let datagrams: Vec<Vec<u8>> = timed.chunks(1_472).map(<[u8]>::to_vec).collect();
        is_transport(&datagrams, &ts);
    }

    #[test]
    fn a_stray_datagram_does_not_choose_the_form() {
        let ts = stream(21);
        for stray in [rtp(9, 7, b"stray"), b"hello there, is anybody in?".to_vec()] {
            let mut datagrams = vec![stray];
            datagrams.extend(ts.chunks(1_316).map(<[u8]>::to_vec));
            is_transport(&datagrams, &ts);
        }
        let mut datagrams = vec![rtp(1, 70, b"stray")];
        datagrams.extend((0..4).map(|n| rtp(2, 65_534u16.wrapping_add(n), b"\x65video")));
        match found(&datagrams) {
            Some((4, Found::Rtp(held))) => assert_eq!(held, datagrams[1..4]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_transport_stream_in_rtp_is_rtp() {
        let ts = stream(35);
        let pieces = ts.chunks(1_316).enumerate();
        let datagrams: Vec<Vec<u8>> = pieces.map(|(n, it)| rtp(5, n as u16, it)).collect();
        assert!(matches!(found(&datagrams), Some((3, Found::Rtp(_)))));
    }

    #[test]
    fn what_is_neither_is_named() {
        for (datagram, word) in [
            (&b"\0\0\0\x01\x67\x42\0\x1f"[..], "bare H.264"),
            (b"\0\0\0\x01\x40\x01\x0c", "bare H.265"),
            (b"\xFF\xF1\x50\x40....", "AAC"),
            (b"GET / HTTP/1.1\r\n", "HTTP"),
            (b"\xD4\xC3\xB2\xA1\x02\0", "pcap"),
        ] {
            let mut detector = Detector::default();
            assert!(detector.push(datagram).is_none());
            assert_eq!(detector.verdict(), None);
            let text = detector.description();
            assert!(text.contains(word) && text.contains("-f mpegts"), "{text}");
            for _ in 0..600 {
                assert!(detector.push(&[0x55; 1_000]).is_none());
            }
            assert!(detector.verdict().is_some_and(|it| it.contains(word)));
            assert!(detector.held.len() <= MAX_DATAGRAMS && detector.foreign() > 500);
        }
    }
}
