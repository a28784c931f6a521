use super::codec::VideoCodec;
use super::packet::{PAT, Packet, TS_PACKET};
use super::psi::{Association, ProgramMap, Sections, checksum, put_section, without};

/// Programs whose maps are looked at.
const MAX_PROGRAMS: usize = 64;
/// A program is chosen although maps of programs before it are missing after this many packets.
const MAP_PATIENCE: u64 = 4_096;

/// Whether the program whose tables these packets begin with has sound in AAC, with ADTS headers or in LATM (ISO/IEC 13818-1, table 2-34).
pub fn has_aac(packets: &[u8]) -> bool {
    let mut tables = Tables::of_program(None);
    for packet in packets.chunks_exact(TS_PACKET).filter_map(Packet::new) {
        tables.push(&packet);
    }
    let mut streams = tables.map().into_iter().flat_map(|map| &map.streams);
    streams.any(|it| matches!(it.kind, 0x0F | 0x11))
}

/// The tables of a transport stream, and the program that is served.
///
/// The program is the wanted one, else the first that has video, else the first.
#[derive(Default, Debug)]
pub(crate) struct Tables {
    wanted: Option<u16>,
    pat: Sections,
    association: Association,
    /// Where maps come: PID, the sections there.
    pids: Vec<(u16, Sections)>,
    /// Maps that came, with their sections.
    maps: Vec<(ProgramMap, Vec<u8>)>,
    chosen: Option<ProgramMap>,
    /// The codec that a live flow keeps.
    kept: Option<VideoCodec>,
    /// Packets since the first PAT.
    waited: u64,
    /// Streams that are left out of the map.
    hidden: Vec<u16>,
    versions: Versions,
    /// The packets of the tables, to be put before a start.
    packets: Vec<u8>,
    counters: [u8; 2],
}

impl Tables {
    /// Tables of which the program with this number is served.
    pub fn of_program(wanted: Option<u16>) -> Tables {
        Tables {
            wanted,
            ..Tables::default()
        }
    }

    /// The map of the program that is served, once it is known.
    pub fn map(&self) -> Option<&ProgramMap> {
        self.chosen.as_ref()
    }

    /// The video of the flow has this codec from now on: a program that has it goes before others.
    pub fn keep(&mut self, codec: VideoCodec) {
        self.kept.get_or_insert(codec);
    }

    /// The number of the program that was asked for.
    pub fn wanted(&self) -> Option<u16> {
        self.wanted
    }

    /// The numbers of the programs.
    pub fn programs(&self) -> impl Iterator<Item = u16> + '_ {
        self.association.programs().map(|(number, _)| number)
    }

    /// The maps that came, as the association table lists their programs.
    pub fn maps(&self) -> impl Iterator<Item = &ProgramMap> {
        let of = |number: u16| self.maps.iter().find(move |(map, _)| map.program == number);
        self.programs().filter_map(of).map(|(map, _)| map)
    }

    /// Whether the maps of all listed programs came.
    pub fn are_whole(&self) -> bool {
        let count = self.programs().count().min(MAX_PROGRAMS);
        count > 0 && self.maps().count() >= count
    }

    /// Sections with a wrong checksum.
    pub fn damaged(&self) -> u64 {
        let maps: u64 = self.pids.iter().map(|(_, it)| it.damaged()).sum();
        self.pat.damaged() + maps
    }

    /// Packets with PAT and PMT.
    pub fn packets(&self) -> &[u8] {
        &self.packets
    }

    /// Whether packets of `pid` go to receivers: all, unless one program was asked for.
    pub fn carries(&self, pid: u16) -> bool {
        let Some(map) = self.chosen.as_ref().filter(|_| self.wanted.is_some()) else {
            return true;
        };
        let reserved = (1..0x20).contains(&pid);
        reserved
            || pid == map.pcr_pid
            || map.streams.iter().any(|stream| stream.pid == pid)
            || self.is_map(pid)
    }

    /// Whether the PAT is rewritten, so that it lists the program that was asked for alone.
    pub fn rewrites_pat(&self) -> bool {
        self.wanted.is_some()
    }

    /// Appends the PAT as it is written.
    pub fn put_pat(&mut self, out: &mut Vec<u8>) {
        let alone = match (self.wanted, &self.chosen) {
            (Some(_), Some(map)) => self.association.of_program(map.program),
            _ => None,
        };
        let counter = &mut self.counters[0];
        match alone {
            Some(section) => put_section(PAT, counter, &section, out),
            None => {
                for section in self.association.sections() {
                    put_section(PAT, counter, section, out);
                }
            }
        }
    }

    /// Whether the map of the program that is served comes in packets of `pid`.
    pub fn is_map(&self, pid: u16) -> bool {
        let Some(map) = &self.chosen else {
            return false;
        };
        let mut programs = self.association.programs();
        programs.any(|entry| entry == (map.program, pid))
    }

    /// Whether the map is rewritten: streams are left out, or it has another version than where it came from.
    pub fn rewrites_map(&self) -> bool {
        !self.hidden.is_empty() || self.versions.shift != 0
    }

    /// Appends the map of the program that is served, in packets of `pid`, without the streams that are left out.
    pub fn put_map(&mut self, pid: u16, out: &mut Vec<u8>) {
        if let Some(section) = self.map_section() {
            put_section(pid, &mut self.counters[1], &section, out);
        }
    }

    /// Leaves these streams out of the map that is in force now.
    pub fn hide(&mut self, pids: &[u16]) {
        pids.clone_into(&mut self.hidden);
        self.rebuild();
    }

    /// The section of the map as it is sent.
    fn map_section(&mut self) -> Option<Vec<u8>> {
        let program = self.chosen.as_ref()?.program;
        let found = self.maps.iter().find(|it| it.0.program == program);
        let mut section = without(&found?.1, &self.hidden);
        self.versions.apply(&mut section);
        Some(section)
    }

    fn rebuild(&mut self) {
        let Some(program) = self.chosen.as_ref().map(|it| it.program) else {
            return;
        };
        let pid = self.association.programs().find(|it| it.0 == program);
        let (Some((_, pid)), Some(section)) = (pid, self.map_section()) else {
            return;
        };
        let mut packets = Vec::new();
        self.put_pat(&mut packets);
        put_section(pid, &mut self.counters[1], &section, &mut packets);
        self.packets = packets;
    }

    /// Whether packets of `pid` carry tables that are read.
    pub fn reads(&self, pid: u16) -> bool {
        pid == PAT || self.pids.iter().any(|it| it.0 == pid)
    }

    /// Takes a packet; `true` if the map of the program that is served is another one now.
    pub fn push(&mut self, packet: &Packet) -> bool {
        let pid = packet.pid();
        let mut changed = false;
        if pid == PAT {
            let association = &mut self.association;
            self.pat
                .push(packet, |section| changed |= association.take(section));
            if changed {
                self.keep_listed();
            }
        } else if let Some((_, sections)) = self.pids.iter_mut().find(|it| it.0 == pid) {
            let (association, maps) = (&self.association, &mut self.maps);
            let wanted = self.wanted;
            sections.push(packet, |section| {
                let Some(map) = ProgramMap::parse(section) else {
                    return;
                };
                let listed = association.programs().any(|it| it == (map.program, pid));
                let full = maps.len() > MAX_PROGRAMS;
                match maps.iter_mut().find(|(it, _)| it.program == map.program) {
                    _ if !listed => {}
                    Some((_, old)) if old[..] == *section => {}
                    Some(old) => {
                        *old = (map, section.to_vec());
                        changed = true;
                    }
                    None if full && Some(map.program) != wanted => {}
                    None => {
                        maps.push((map, section.to_vec()));
                        changed = true;
                    }
                }
            });
        }
        if self.chosen.is_none() && !self.maps.is_empty() {
            self.waited += 1;
            changed |= self.waited == MAP_PATIENCE;
        }
        changed && self.choose(self.waited >= MAP_PATIENCE)
    }

    /// No more packets come before a program is chosen.
    pub fn settle(&mut self) -> bool {
        self.choose(true)
    }

    /// Forgets maps of programs that are not listed any more.
    fn keep_listed(&mut self) {
        let wanted = self.wanted;
        let programs = self.association.programs().enumerate();
        let looked_at = |(index, program): (usize, (u16, u16))| {
            (index < MAX_PROGRAMS || Some(program.0) == wanted).then_some(program)
        };
        let listed: Vec<(u16, u16)> = programs.filter_map(looked_at).collect();
        self.pids
            .retain(|it| listed.iter().any(|&(_, pid)| pid == it.0));
        for &(_, pid) in &listed {
            if self.pids.iter().all(|it| it.0 != pid) {
                self.pids.push((pid, Sections::default()));
            }
        }
        self.maps
            .retain(|(map, _)| listed.iter().any(|&(number, _)| number == map.program));
    }

    /// Chooses the program; `true` if its map is another one now: then [`hide`](Tables::hide) is to follow.
    fn choose(&mut self, patience_over: bool) -> bool {
        let Some((map, _)) = self.choice(patience_over) else {
            return false;
        };
        if !self.association.programs().any(|it| it.0 == map.program) {
            return false;
        }
        let news = self.chosen.as_ref() != Some(&map);
        self.chosen = Some(map);
        if !news {
            self.rebuild();
        }
        news
    }

    fn choice(&self, patience_over: bool) -> Option<(ProgramMap, Vec<u8>)> {
        let map_of = |program: u16| self.maps.iter().find(|(map, _)| map.program == program);
        let has_video = |it: &&(ProgramMap, Vec<u8>)| match self.kept {
            Some(kept) => videos(&it.0).any(|(codec, _)| codec.continues(kept)),
            None => video(&it.0).is_some(),
        };
        if let Some(wanted) = self.wanted {
            return map_of(wanted).cloned();
        }
        let current = self.chosen.as_ref().and_then(|map| map_of(map.program));
        if let Some(current) = current.filter(has_video) {
            return Some(current.clone());
        }
        for program in self.programs() {
            match map_of(program) {
                Some(it) if has_video(&it) => return Some(it.clone()),
                None if !patience_over && self.chosen.is_none() => return None,
                _ => {}
            }
        }
        let first = || self.programs().find_map(map_of);
        current.or_else(first).cloned()
    }
}

/// The versions of a map as it is sent: another one for each other map (2.4.4.9), though its encoder may begin again with the same one, and
/// streams may be left out of it.
#[derive(Default, Debug)]
struct Versions {
    /// The last map without version and checksum, and its version.
    last: Option<(Vec<u8>, u8)>,
    /// By how much versions are ahead of those that came.
    shift: u8,
}

impl Versions {
    const BITS: u8 = 0x3E;

    /// Gives a section its version.
    fn apply(&mut self, section: &mut Vec<u8>) {
        let len = section.len().saturating_sub(4);
        let Some(came) = section[..len]
            .get(5)
            .map(|byte| (byte & Versions::BITS) >> 1)
        else {
            return;
        };
        section.truncate(len);
        section[5] &= !Versions::BITS;
        let mut version = came.wrapping_add(self.shift) & 31;
        match &self.last {
            Some((map, sent)) if map == section => version = *sent,
            Some((_, sent)) if *sent == version => {
                self.shift = (self.shift + 1) & 31;
                version = (version + 1) & 31;
            }
            _ => {}
        }
        if self.last.as_ref().is_none_or(|(map, _)| map != section) {
            self.last = Some((section.clone(), version));
        }
        section[5] |= version << 1;
        let crc = checksum(section);
        section.extend_from_slice(&crc.to_be_bytes());
    }
}

/// The first video stream of a program: its codec and PID.
pub(crate) fn video(map: &ProgramMap) -> Option<(VideoCodec, u16)> {
    videos(map).next()
}

/// The video streams of a program.
pub(super) fn videos(map: &ProgramMap) -> impl Iterator<Item = (VideoCodec, u16)> {
    let streams = map.streams.iter();
    streams.filter_map(|it| Some((VideoCodec::of(it)?, it.pid)))
}
