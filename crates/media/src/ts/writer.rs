use layercast_core::{Composition, Serial, Span, Time};

use super::closer::{Closer, end_unit};
use super::packet::{self, NULL, PAT, Packet, TS_PACKET};
use super::pcr::OutputClock;
use super::psi::{ProgramMap, Sections, programs};
use super::references::References;
use crate::WriterStats;
use crate::output::{Received, Undecodable};

/// Puts frames of a [`TsSplitter`](super::TsSplitter) together again at a receiver, whatever layers it
/// got: a legal stream from its first start on.
///
/// A picture that came damaged to the source, or refers to such a one or to a missing one, is left out, or marked as damaged.
///
/// Continuity counters run on over withheld pictures; a packet lost inside a PES packet still
/// shows as a jump. The program clock follows the emission times, and ticks on while pictures are
/// withheld.
#[derive(Debug)]
pub struct TsWriter {
    /// The last picture, and the last frame of sound.
    last: [Option<Serial>; 2],
    clock: OutputClock,
    clock_pid: u16,
    pat: Sections,
    pmt: Sections,
    /// Where the maps of all programs come.
    map_pids: Vec<u16>,
    /// The program that is served, and where its map comes: each start begins with it.
    program: Option<u16>,
    map_pid: Option<u16>,
    /// By packet identifier: last counter of the source, last counter written.
    counters: Box<[(u8, u8); 8_192]>,
    /// How far key frames are apart, if that is known.
    gop: Option<Span>,
    closer: Closer,
    references: Option<References>,
    composition: Composition,
    undecodable: Undecodable,
    stats: WriterStats,
}

const NO_COUNTER: u8 = 0xFF;

impl Default for TsWriter {
    fn default() -> TsWriter {
        TsWriter {
            last: [None; 2],
            clock: OutputClock::default(),
            clock_pid: NULL,
            pat: Sections::default(),
            pmt: Sections::default(),
            map_pids: Vec::new(),
            program: None,
            map_pid: None,
            counters: Box::new([(NO_COUNTER, NO_COUNTER); 8_192]),
            gop: None,
            closer: Closer::default(),
            references: None,
            composition: Composition::default(),
            undecodable: Undecodable::default(),
            stats: WriterStats::default(),
        }
    }
}

impl TsWriter {
    /// A writer that waits for a frame to start at.
    pub fn new() -> TsWriter {
        TsWriter::default()
    }

    /// Says how far key frames are apart: with that the first picture is ended where those behind it are
    /// withheld, so that a player need not wait for the next key frame to learn what the video is.
    pub fn set_gop(&mut self, gop: Span) {
        self.gop = Some(gop);
    }

    /// What the layers of the flow are to each other. To be called before anything comes.
    pub fn set_composition(&mut self, composition: Composition) {
        self.composition = composition;
    }

    /// What becomes of pictures that refer to a missing one.
    pub fn set_undecodable(&mut self, undecodable: Undecodable) {
        self.undecodable = undecodable;
    }

    /// What it did so far; nothing is repeated.
    pub fn stats(&self) -> WriterStats {
        self.stats
    }

    /// Appends a received frame to `out`. Any bytes are safe: what are no packets is left out.
    pub fn frame(&mut self, frame: &Received, out: &mut Vec<u8>) {
        let Received {
            seq,
            gop_start,
            sound,
            emitted,
            data,
            ..
        } = *frame;
        let chain = usize::from(sound);
        match (self.last[0], self.last[chain]) {
            (_, Some(last)) if !seq.is_after(last) => {
                self.stats.stale += 1;
                return;
            }
            (None, _) if !gop_start => {
                self.stats.skipped += 1;
                return;
            }
            (None, _) => self.stats.first = Some(seq),
            _ => {}
        }
        let (packets, rest) = data.as_chunks::<TS_PACKET>();
        if !rest.is_empty() || packets.iter().any(|bytes| Packet::new(bytes).is_none()) {
            self.stats.undecodable += 1;
            return;
        }
        self.last[chain] = Some(seq);
        if gop_start {
            (self.program, self.map_pid) = (None, None);
        }
        for bytes in packets {
            self.look_for_maps(bytes);
        }
        // Marked by the source: something of it was lost on the way to it.
        let damaged = !sound && packets.iter().any(packet::has_error);
        let judged = self.references.as_mut();
        let is_fine = sound
            || judged.map_or(!damaged, |it| {
                it.take(packets, (frame.layer, gop_start), frame.missing, damaged)
            });
        self.stats.damaged += u64::from(damaged);
        let counter = self.counters[usize::from(self.clock_pid)].1;
        self.clock.fill(self.clock_pid, counter, emitted, out);
        if !is_fine {
            self.stats.undecodable += 1;
            if self.undecodable == Undecodable::LeaveOut {
                return;
            }
        }
        if let (Some((pid, pts, dts)), Some(gop)) = (self.closer.frame(data, emitted), self.gop) {
            let counter = &mut self.counters[usize::from(pid)].1;
            end_unit(pid, counter, (pts, dts), gop, out);
        }
        for bytes in packets {
            let at = out.len();
            self.packet(bytes, emitted, out);
            if !is_fine {
                packet::set_error(&mut out[at..]);
            }
        }
        self.stats.written += 1;
    }

    fn packet(&mut self, bytes: &[u8], emitted: Time, out: &mut Vec<u8>) {
        let Some(packet) = Packet::new(bytes) else {
            return;
        };
        let at = out.len();
        out.extend_from_slice(bytes);
        let written = &mut out[at..];
        if let Some(pcr) = packet.pcr().filter(|_| packet.pid() == self.clock_pid) {
            let (pcr, jumps) = self.clock.replace(pcr, emitted, packet.discontinuity());
            packet::set_pcr(written, pcr);
            if jumps {
                packet::set_discontinuity(written);
            }
        }
        let (source, last) = &mut self.counters[usize::from(packet.pid())];
        let next = match (*last, packet.has_payload()) {
            (NO_COUNTER, _) => packet.continuity(),
            (last, false) => last,
            (last, true) => {
                let expected = source.wrapping_add(1) & 15;
                let lost = *source != NO_COUNTER
                    && !packet.starts()
                    && !packet.discontinuity()
                    && packet.continuity() != expected;
                last + 1 + u8::from(lost)
            }
        } & 15;
        if packet.has_payload() {
            *source = packet.continuity();
        }
        *last = next;
        packet::set_continuity(written, next);
    }

    /// The map of the program that is served says which packets carry the clock and the video.
    fn look_for_maps(&mut self, bytes: &[u8; TS_PACKET]) {
        let Some(packet) = &Packet::new(bytes) else {
            return;
        };
        if packet.pid() == PAT {
            let map_pids = &mut self.map_pids;
            self.pat.push(packet, |section| {
                *map_pids = programs(section).map(|(_, pid)| pid).collect();
            });
        } else if self.map_pid == Some(packet.pid())
            || self.map_pid.is_none() && self.map_pids.contains(&packet.pid())
        {
            let (program, clock_pid) = (&mut self.program, &mut self.clock_pid);
            let references = &mut self.references;
            let composition = self.composition;
            self.pmt.push(packet, |section| {
                if let Some(map) = ProgramMap::parse(section)
                    && *program.get_or_insert(map.program) == map.program
                {
                    *clock_pid = map.pcr_pid;
                    if references.as_ref().is_none_or(|it| !it.are_of(&map)) {
                        *references = References::of(&map, composition);
                    }
                }
            });
            self.map_pid = self.program.map(|_| packet.pid());
        }
    }
}
