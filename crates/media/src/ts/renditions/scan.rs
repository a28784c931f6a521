use super::super::codec::VideoCodec;
use super::super::framing::Framing;
use super::super::packet::Packet;
use super::super::tables::{Tables, video};

/// Octets that are kept until all tables are known.
const MOST_HELD: usize = 4 << 20;

/// Waits for the tables of an input: which programs it has.
#[derive(Default, Debug)]
pub(super) struct Scan {
    framing: Framing,
    tables: Tables,
    held: Vec<u8>,
    is_over: bool,
    given_up: bool,
}

impl Scan {
    /// Takes bytes; they are kept.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.given_up {
            return;
        }
        let tables = &mut self.tables;
        let mut look = |_, bytes: &[u8]| {
            if let Some(packet) = Packet::new(bytes).filter(|it| !it.error()) {
                tables.push(&packet);
            }
        };
        self.framing.push(bytes, &mut look);
        self.held.extend_from_slice(bytes);
        self.given_up = self.held.len() > MOST_HELD && !self.tables.are_whole();
        if self.given_up && self.tables.map().is_none() {
            self.held = Vec::new();
        }
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        let tables = &mut self.tables;
        self.framing.finish(|_, bytes| {
            if let Some(packet) = Packet::new(bytes).filter(|it| !it.error()) {
                tables.push(&packet);
            }
        });
        self.tables.settle();
        self.is_over = true;
    }

    /// The bytes are passed on.
    pub fn emptied(self) -> Scan {
        Scan {
            held: Vec::new(),
            ..self
        }
    }

    /// What came.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Whether nothing more comes.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the maps of all listed programs came, or are not waited for.
    pub fn is_done(&self) -> bool {
        let some = self.tables.maps().next().is_some();
        self.tables.are_whole() || (self.is_over || self.given_up) && some
    }

    /// The programs that have video, as the association table lists them.
    pub fn programs(&self) -> Vec<(u16, VideoCodec)> {
        let of = |map: &super::super::psi::ProgramMap| Some((map.program, video(map)?.0));
        self.tables.maps().filter_map(of).collect()
    }

    /// Whether a program has streams beside its video.
    pub fn has_others(&self, program: u16) -> bool {
        let mut maps = self.tables.maps();
        maps.any(|map| map.program == program && map.streams.len() > 1)
    }

    /// Why the programs are not known.
    pub fn problem(&self) -> String {
        let repair = "write it again: ffmpeg -i FILE -map 0 -c copy -f mpegts RENDITIONS.ts";
        match self.tables.programs().next() {
            None => format!("no program tables (PAT and PMT) of a transport stream came; {repair}"),
            Some(_) => format!(
                "the program table (PAT) lists programs whose maps (PMT) did not come; {repair}"
            ),
        }
    }
}
