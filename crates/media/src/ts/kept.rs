use std::collections::VecDeque;

use super::codec::VideoCodec;
use super::packet::Packet;
use super::psi::{ProgramMap, StreamEntry};
use super::silence::{SOUND, StreamChange, StreamState, VIDEO, kind_of};
use super::tables::{video, videos};

/// Changes kept for a caller that does not poll.
const MAX_CHANGES: usize = 64;
/// Streams of sound whose codec is kept.
const MAX_SOUNDS: usize = 64;
/// Scrambled streams that are named.
const MAX_SCRAMBLED: usize = 16;
/// `stream_type` of PES packets with private data, whose codec a descriptor names, if anything does.
const PRIVATE: u8 = 0x06;

/// The codec that a live flow keeps from its first picture to start at on: its receivers decode that and nothing else.
///
/// Video that comes in place of it is left out, with its entry of the program map. The first codec is served again
/// from its next key frame on, in whichever packets.
#[derive(Debug, Default)]
pub(super) struct Kept {
    codec: Option<VideoCodec>,
    /// Streams of the program when its video was served last.
    beside: Vec<(u8, u16)>,
    /// Streams of sound with the codecs that they keep, and which of them were reported to have another one.
    sounds: Vec<(u16, &'static str)>,
    told_sounds: Vec<(u16, &'static str)>,
    /// Video in place of it, and sound in place of another one.
    refused: Vec<u16>,
    is_away: bool,
    /// Its codec or its packets changed, and pictures may refer to some that are not there.
    awaits_start: bool,
    /// The state that was reported last, until it is back.
    told: Option<StreamState>,
    scrambled: Vec<u16>,
    /// The first picture to start at was not scrambled.
    is_clear: bool,
    changes: VecDeque<StreamChange>,
}

/// What a program map means for the video of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// It is this one.
    Video(Option<(VideoCodec, u16)>),
    /// It is away.
    Away,
}

impl Kept {
    /// The video of a program, whose codec and packet identifier were `current`.
    pub fn find(&mut self, map: &ProgramMap, current: Option<(VideoCodec, u16)>) -> Found {
        self.refused = self.other_sounds(map);
        let (Some(codec), Some((_, pid))) = (self.codec, current) else {
            return Found::Video(video(map));
        };
        let streams = || map.streams.iter();
        let of_codec = || videos(map).filter(|it| it.0.continues(codec));
        let first = of_codec().next();
        let own = of_codec().find(|it| it.1 == pid);
        if let Some(found) = own.or(first) {
            self.beside = streams().map(|it| (it.kind, it.pid)).collect();
            self.is_away = false;
            return Found::Video(Some(found));
        }
        self.is_away = true;
        let was_beside = |kind: u8, pid: u16| self.beside.contains(&(kind, pid));
        let others: Vec<(u16, VideoCodec)> = streams()
            .filter(|it| !was_beside(it.kind, it.pid))
            .filter_map(|it| {
                let unnamed = it.pid == pid && it.kind == PRIVATE;
                let unnamed = unnamed.then_some(VideoCodec::Unnamed);
                Some((it.pid, VideoCodec::of(it).or(unnamed)?))
            })
            .collect();
        self.refused.extend(others.iter().map(|it| it.0));
        let (at, state) = match others.first() {
            Some(&(at, comes)) => (at, StreamState::OtherCodec { flow: codec, comes }),
            None => (pid, StreamState::Unlisted),
        };
        // Packets that the map does not name any more are nothing to a player.
        if streams().all(|it| it.pid != pid) {
            self.refused.push(pid);
        }
        if self.told != Some(state) {
            self.told = Some(state);
            self.tell(at, VIDEO, state, map.pcr_pid == at);
        }
        Found::Away
    }

    /// The streams of sound that have another codec than before. Their receivers have begun to decode the first one.
    fn other_sounds(&mut self, map: &ProgramMap) -> Vec<u16> {
        let has_begun = self.codec.is_some();
        if !has_begun {
            self.sounds.clear();
        }
        let mut others = Vec::new();
        for (pid, comes) in map
            .streams
            .iter()
            .filter_map(|it| Some((it.pid, sound(it)?)))
        {
            let kept = self.sounds.iter().find(|it| it.0 == pid).map(|it| it.1);
            let told = self.told_sounds.iter().position(|it| it.0 == pid);
            match kept {
                Some(flow) if flow != comes => {
                    others.push(pid);
                    if told.map(|at| self.told_sounds[at].1) != Some(comes) {
                        told.map(|at| self.told_sounds.remove(at));
                        self.told_sounds.push((pid, comes));
                        let state = StreamState::OtherSound { flow, comes };
                        self.tell(pid, SOUND, state, map.pcr_pid == pid);
                    }
                }
                Some(_) => {
                    if let Some(at) = told {
                        self.told_sounds.remove(at);
                        self.tell(pid, SOUND, StreamState::Back, false);
                    }
                }
                None if self.sounds.len() < MAX_SOUNDS => self.sounds.push((pid, comes)),
                None => {}
            }
        }
        others
    }

    /// Whether a map without video of the codec is in force.
    pub fn is_away(&self) -> bool {
        self.is_away
    }

    /// Whether packets of `pid` are video or sound in place of that of the flow.
    pub fn refuses(&self, pid: u16) -> bool {
        self.refused.contains(&pid)
    }

    /// The streams that are left out.
    pub fn refused(&self) -> &[u16] {
        &self.refused
    }

    /// Another stream is the video from now on.
    pub fn on_video(&mut self) {
        self.awaits_start = self.codec.is_some();
    }

    /// Whether a picture of the video leaves; `starts` if receivers can start at it.
    pub fn takes(&mut self, codec: VideoCodec, pid: u16, starts: bool) -> bool {
        if starts {
            self.codec.get_or_insert(codec);
            self.awaits_start = false;
            if let Some(told) = self.told.take() {
                if told == StreamState::NowScrambled {
                    self.scrambled.retain(|it| *it != pid);
                }
                self.tell(pid, VIDEO, StreamState::Back, false);
            }
        }
        !self.awaits_start
    }

    /// Looks at a packet of a stream of the program. A stream that is scrambled is reported once.
    pub fn look(&mut self, packet: &Packet, map: &ProgramMap) {
        let pid = packet.pid();
        if !packet.scrambled() || !packet.starts() || self.scrambled.contains(&pid) {
            return;
        }
        if self.scrambled.len() < MAX_SCRAMBLED && map.streams.iter().any(|it| it.pid == pid) {
            self.scrambled.push(pid);
            let stream = map.streams.iter().find(|it| it.pid == pid);
            // The header of a PES packet is scrambled with it (2.4.3.3).
            let kind = match stream.and_then(VideoCodec::of) {
                Some(_) => VIDEO,
                None => kind_of(packet.payload()),
            };
            let state = match self.is_clear && kind == VIDEO {
                true => *self.told.insert(StreamState::NowScrambled),
                false => StreamState::Scrambled,
            };
            self.tell(pid, kind, state, false);
        }
    }

    /// The first picture to start at is not scrambled.
    pub fn begins_clear(&mut self) {
        self.is_clear = true;
    }

    /// Whether scrambled video is left out: receivers began with video that is not.
    pub fn leaves_out_scrambled(&self) -> bool {
        self.is_clear
    }

    /// Whether packets of `pid` are scrambled.
    pub fn is_scrambled(&self, pid: u16) -> bool {
        self.scrambled.contains(&pid)
    }

    /// The next change.
    pub fn poll(&mut self) -> Option<StreamChange> {
        self.changes.pop_front()
    }

    fn tell(&mut self, pid: u16, kind: &'static str, state: StreamState, has_clock: bool) {
        if self.changes.len() < MAX_CHANGES {
            self.changes.push_back(StreamChange {
                pid,
                kind,
                state,
                has_clock,
            });
        }
    }
}

/// The codec of a stream of sound, if its tables name one (table 2-34; ATSC A/53, part 3; registrations of SMPTE; ETSI EN 300 468,
/// table 12).
pub(super) fn sound(stream: &StreamEntry) -> Option<&'static str> {
    Some(match (stream.kind, stream.format.as_ref()) {
        (3 | 4, _) => "MPEG audio",
        (0x0F, _) => "AAC",
        (0x11, _) => "AAC in LATM",
        (0x81, _) | (PRIVATE, Some(b"AC-3")) => "AC-3",
        (0x87, _) | (PRIVATE, Some(b"EAC3")) => "E-AC-3",
        (PRIVATE, Some(b"Opus")) => "Opus",
        (PRIVATE, Some(b"BSSD")) => "PCM (SMPTE 302M)",
        (PRIVATE, Some(b"DTS1" | b"DTS2" | b"DTS3")) => "DTS",
        (PRIVATE, None) => match stream.dvb? {
            0x6A => "AC-3",
            0x7A => "E-AC-3",
            0x7B => "DTS",
            0x7C => "AAC",
            _ => return None,
        },
        _ => return None,
    })
}
