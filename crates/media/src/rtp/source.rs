use std::collections::VecDeque;
use std::fmt;

use layercast_core::{Span, Time};

use super::codec::{Carried, Evidence, Foreign};
use super::packet::RtpPacket;

/// How long the source that is taken has to be silent until another one may take its place.
pub(crate) const SOURCE_SILENCE: Span = Span::from_secs(1);
/// How long the source that is taken may send without a picture until another one may take its place.
pub(crate) const SHOWN_WITHIN: Span = Span::from_secs(10);
/// How long the source that is taken may give no picture until it is looked at again.
const NO_PICTURE: Span = Span::from_secs(2);
/// How long it may give no picture until what is missing may be of another codec.
const MAYBE_OTHER: Span = Span::from_ms(500);
/// A silence in which packets of another source are kept, in case it takes the place.
const MAYBE_GONE: Span = Span::from_ms(100);
/// Sources looked at beside the one that is taken; packets of more are only counted.
const MAX_CANDIDATES: usize = 4;
/// Packets kept of each until it is known which one is taken.
const MAX_KEPT: usize = 256;
/// Packets of a source that have to come before it is taken: one alone may be a stray.
const MIN_PACKETS: u64 = 3;
/// Packets after which a source is taken that looks like H.264 but showed no start yet.
const PLAUSIBLE_PACKETS: u64 = 32;
/// Sources named in notes at most.
const MAX_NAMED: usize = 8;
/// Packets of an ignored source at which it is named again, with their number.
const NAMED_AGAIN: [u64; 3] = [1_000, 100_000, 10_000_000];

/// A stream of packets on a port: sequence numbers run within it (RFC 3550, 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtpSource {
    /// Synchronisation source.
    pub ssrc: u32,
    /// Payload type.
    pub payload_type: u8,
}

impl RtpSource {
    pub(crate) fn of(packet: &RtpPacket) -> RtpSource {
        RtpSource {
            ssrc: packet.ssrc,
            payload_type: packet.payload_type,
        }
    }
}

impl fmt::Display for RtpSource {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let RtpSource { ssrc, payload_type } = self;
        write!(f, "SSRC {ssrc:#010x}, payload type {payload_type}")
    }
}

/// What a user should know of the sources on an RTP port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RtpNote {
    /// Packets of another source come to the port and are ignored.
    Ignored {
        /// The other source.
        other: RtpSource,
        /// The source that is taken.
        taken: RtpSource,
        /// Packets of the other source so far.
        packets: u64,
    },
    /// The source fell silent, and another one has taken its place.
    Replaced {
        /// The source that was taken.
        old: RtpSource,
        /// The source that is taken now.
        new: RtpSource,
    },
    /// No picture came of the source, and another one has taken its place.
    Unusable {
        /// The source that was taken.
        old: RtpSource,
        /// The source that is taken now.
        new: RtpSource,
    },
    /// The source, or one that could take its place, carries another codec than the stream.
    OtherCodec {
        /// That source.
        source: RtpSource,
        /// What it carries.
        carries: &'static str,
        /// What the stream is.
        stream: &'static str,
    },
}

impl fmt::Display for RtpNote {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            RtpNote::Ignored {
                other,
                taken,
                packets,
            } => write!(
                f,
                "another RTP source sends to the port ({other}; packets so far: {packets}) and is ignored; the \
                 stream is {taken}"
            ),
            RtpNote::Replaced { old, new } => write!(
                f,
                "the RTP source ({old}) fell silent, and another one ({new}) takes its place"
            ),
            RtpNote::Unusable { old, new } => write!(
                f,
                "no picture came from the RTP source ({old}), and another one ({new}) takes its place"
            ),
            RtpNote::OtherCodec {
                source,
                carries,
                stream,
            } => write!(
                f,
                "the RTP source ({source}) carries {carries}, but the stream is {stream}, which does not change while it is served: let \
                 the encoder send {stream}, or start serve again"
            ),
        }
    }
}

/// A packet kept until it is known which source is taken.
#[derive(Debug)]
pub(crate) struct Kept {
    pub at: Time,
    pub datagram: Vec<u8>,
}

/// A source that is not taken, or not yet.
#[derive(Debug)]
struct Candidate {
    source: RtpSource,
    evidence: Evidence,
    kept: VecDeque<Kept>,
    last: Time,
}

/// A source that was named, and its packets so far.
#[derive(Debug)]
struct Named {
    source: RtpSource,
    packets: u64,
}

#[derive(Debug)]
struct Taken {
    source: RtpSource,
    carried: Carried,
    since: Time,
    last: Time,
    /// It gave a picture, or showed what it is.
    confirmed: bool,
    pictures: bool,
    /// What its packets show, until it gives a picture, and again if it gives none for some time.
    evidence: Evidence,
    /// When its last picture came.
    pictured: Time,
}

impl Taken {
    /// Whether another source may not take its place while it sends.
    fn holds(&self, now: Time) -> bool {
        self.pictures || self.confirmed && now.since(self.since) < SHOWN_WITHIN
    }
}

/// What becomes of a packet.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It belongs to the source that is taken.
    Pass,
    /// A source is taken now: its packets so far.
    Take(Carried, VecDeque<Kept>),
    /// It waits, or belongs to another source.
    Hold,
}

/// Chooses one of the sources on a port: the first one that several packets show to be a stream that can be
/// carried. It is kept until it falls silent.
#[derive(Default, Debug)]
pub(crate) struct Sources {
    taken: Option<Taken>,
    /// What the first source that gave a picture carries: the stream does not change while it is served.
    stream: Option<Carried>,
    /// What the session description says: payload type and codec.
    described: Option<(u8, Carried)>,
    candidates: Vec<Candidate>,
    named: Vec<Named>,
    /// The last source of which was said that it carries another codec, and which.
    other_codec: Option<(RtpSource, &'static str)>,
    notes: VecDeque<RtpNote>,
    /// Packets of other sources.
    pub others: u64,
}

impl Sources {
    /// Takes the first source with this payload type, which carries this.
    pub fn describe(&mut self, payload_type: u8, carried: Carried) {
        self.described = Some((payload_type, carried));
    }

    /// The source that is taken gave a picture.
    pub fn confirm(&mut self) {
        if let Some(taken) = &mut self.taken {
            self.stream.get_or_insert(taken.carried);
            (taken.confirmed, taken.pictures) = (true, true);
            taken.pictured = taken.last;
            if taken.evidence.packets() > 0 {
                taken.evidence = Evidence::default();
            }
        }
    }

    /// Takes a packet that came in `datagram`.
    pub fn push(&mut self, now: Time, packet: &RtpPacket, datagram: &[u8]) -> Verdict {
        let source = RtpSource::of(packet);
        let mut keep = true;
        if let Some(taken) = &mut self.taken {
            if taken.source == source {
                taken.last = now;
                let is_without = now.since(taken.pictured) >= NO_PICTURE;
                if !taken.pictures || is_without {
                    taken.evidence.add(packet);
                }
                if self.stream.is_none() {
                    // It looked like another codec until its first key frame came.
                    let shown = taken.evidence.shown().filter(|it| *it != taken.carried);
                    if let Some(shown) = shown.filter(|_| self.described.is_none()) {
                        (taken.carried, taken.confirmed) = (shown, true);
                        let datagram = datagram.to_vec();
                        return Verdict::Take(shown, [Kept { at: now, datagram }].into());
                    }
                } else if is_without {
                    let (carried, evidence) = (taken.carried, &taken.evidence);
                    if let Some(other) = evidence.other(carried, source.payload_type) {
                        self.tell_codec(source, other, carried);
                    }
                }
                return Verdict::Pass;
            }
            self.others += 1;
            if let Some(named) = self.named.iter_mut().find(|it| it.source == source) {
                named.packets += 1;
                if NAMED_AGAIN.contains(&named.packets) {
                    self.notes.push_back(RtpNote::Ignored {
                        other: source,
                        taken: taken.source,
                        packets: named.packets,
                    });
                }
            }
            keep = !taken.holds(now) || now.since(taken.last) >= MAYBE_GONE;
        }
        let described = self.described;
        let Some(candidate) = self.candidate(now, source) else {
            return Verdict::Hold;
        };
        candidate.last = now;
        candidate.evidence.add(packet);
        match keep {
            true => {
                if candidate.kept.len() == MAX_KEPT {
                    candidate.kept.pop_front();
                }
                let datagram = datagram.to_vec();
                candidate.kept.push_back(Kept { at: now, datagram });
            }
            false => candidate.kept.clear(),
        }
        let carried = match described {
            Some((kind, carried)) => (kind == source.payload_type).then_some(carried),
            None => candidate.evidence.carried(MIN_PACKETS, PLAUSIBLE_PACKETS),
        };
        let confirmed = candidate.evidence.is_strong() || described.is_some();
        if let Some(stream) = self.silent(now).filter(|_| described.is_none()) {
            let at = self.candidates.iter().position(|it| it.source == source);
            let evidence = at.map(|at| &self.candidates[at].evidence);
            let other = evidence.and_then(|it| it.other(stream, source.payload_type));
            if let Some(other) = other {
                self.tell_codec(source, other, stream);
            }
        }
        let carried = carried.filter(|&carried| self.is_free(now, carried, confirmed));
        if let Some(carried) = carried {
            return self.take(now, source, carried, confirmed);
        }
        if !keep {
            self.name_others();
        }
        Verdict::Hold
    }

    /// The stream is over: if no source was taken, the one that looks most like a stream is.
    pub fn finish(&mut self, now: Time) -> Verdict {
        if self.taken.is_some() {
            return Verdict::Hold;
        }
        let candidates = self.candidates.iter();
        let best = candidates.max_by_key(|it| (it.evidence.is_strong(), it.kept.len()));
        let best = best.and_then(|it| Some((it.source, it.evidence.carried(1, 1)?)));
        match best {
            Some((source, carried)) if self.described.is_none() => {
                self.take(now, source, carried, true)
            }
            _ => Verdict::Hold,
        }
    }

    /// Whether the source that is taken sends another codec than that of the stream.
    pub fn has_left(&self) -> bool {
        let told = self.other_codec.map(|it| it.0);
        self.taken.as_ref().is_some_and(|taken| {
            told == Some(taken.source) && taken.last.since(taken.pictured) >= NO_PICTURE
        })
    }

    /// Whether the source that is taken gave pictures, and for some time none.
    pub fn awaits_picture(&self) -> bool {
        self.taken
            .as_ref()
            .is_some_and(|taken| taken.pictures && taken.last.since(taken.pictured) >= MAYBE_OTHER)
    }

    /// The next note.
    pub fn poll_note(&mut self) -> Option<RtpNote> {
        self.notes.pop_front()
    }

    /// What the packets are, if no source can be taken.
    pub fn foreign(&self) -> Option<(RtpSource, Foreign)> {
        if self.taken.is_some() {
            return None;
        }
        let most = self
            .candidates
            .iter()
            .max_by_key(|it| it.evidence.packets());
        most.map(|it| (it.source, it.evidence.foreign(it.source.payload_type)))
    }

    /// Whether no source gave a picture.
    pub fn is_barren(&self) -> bool {
        self.taken.as_ref().is_none_or(|taken| !taken.pictures)
    }

    /// The source that is taken, if its packets are not what its payload type says.
    pub fn mislabelled(&self) -> Option<RtpSource> {
        let taken = self.taken.as_ref().filter(|it| !it.pictures)?;
        (!taken.evidence.is_strong() && !taken.carried.is_dynamic()).then_some(taken.source)
    }

    fn candidate(&mut self, now: Time, source: RtpSource) -> Option<&mut Candidate> {
        let at = match self.candidates.iter().position(|it| it.source == source) {
            Some(at) => at,
            None => {
                if self.candidates.len() == MAX_CANDIDATES {
                    // A source that was silent for long makes room.
                    let gone = |it: &Candidate| now.since(it.last) >= SOURCE_SILENCE;
                    let at = self.candidates.iter().position(gone)?;
                    self.candidates.remove(at);
                }
                self.candidates.push(Candidate {
                    source,
                    evidence: Evidence::default(),
                    kept: VecDeque::new(),
                    last: now,
                });
                self.candidates.len() - 1
            }
        };
        self.candidates.get_mut(at)
    }

    /// Whether a source that carries `carried` may be taken.
    fn is_free(&self, now: Time, carried: Carried, confirmed: bool) -> bool {
        let fits = self.stream.is_none_or(|stream| stream == carried);
        fits && self.taken.as_ref().is_none_or(|taken| {
            let silent = now.since(taken.last) >= SOURCE_SILENCE;
            match taken.holds(now) {
                true => silent && confirmed && carried == taken.carried,
                false => silent || confirmed,
            }
        })
    }

    /// What the stream carries, if its source fell silent and another one with the same may take its place.
    fn silent(&self, now: Time) -> Option<Carried> {
        let is_kept = self.stream.is_some();
        let taken = self.taken.as_ref();
        let taken = taken.filter(|it| is_kept || it.holds(now))?;
        (now.since(taken.last) >= SOURCE_SILENCE).then_some(taken.carried)
    }

    /// A source carries another codec than the stream: that is said once.
    fn tell_codec(&mut self, source: RtpSource, carries: &'static str, stream: Carried) {
        if self.other_codec.replace((source, carries)) != Some((source, carries)) {
            self.notes.push_back(RtpNote::OtherCodec {
                source,
                carries,
                stream: stream.name(),
            });
        }
    }

    fn take(&mut self, now: Time, source: RtpSource, carried: Carried, confirmed: bool) -> Verdict {
        let at = self.candidates.iter().position(|it| it.source == source);
        let candidate = at.map(|at| self.candidates.remove(at));
        let (kept, evidence) = candidate.map(|it| (it.kept, it.evidence)).unzip();
        let old = self.taken.replace(Taken {
            source,
            carried,
            since: now,
            last: now,
            confirmed,
            pictures: false,
            pictured: now,
            evidence: evidence.unwrap_or_default(),
        });
        if let Some(old) = old {
            let is_silent = now.since(old.last) >= SOURCE_SILENCE;
            let (old, new) = (old.source, source);
            self.notes.push_back(match is_silent {
                true => RtpNote::Replaced { old, new },
                false => RtpNote::Unusable { old, new },
            });
            self.named.retain(|named| named.source != source);
        }
        for candidate in &mut self.candidates {
            self.others += candidate.kept.len() as u64;
            candidate.kept.clear();
        }
        self.name_others();
        Verdict::Take(carried, kept.unwrap_or_default())
    }

    /// Names each source that is ignored when it is first seen.
    fn name_others(&mut self) {
        let Some(taken) = self.taken.as_ref().filter(|taken| taken.confirmed) else {
            return;
        };
        for candidate in &self.candidates {
            let (other, packets) = (candidate.source, candidate.evidence.packets());
            let known = self.named.iter().any(|it| it.source == other);
            if self.named.len() < MAX_NAMED && !known {
                self.named.push(Named {
                    source: other,
                    packets,
                });
                let taken = taken.source;
                self.notes.push_back(RtpNote::Ignored {
                    other,
                    taken,
                    packets,
                });
            }
        }
    }
}
