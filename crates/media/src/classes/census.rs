use std::collections::BTreeMap;

use layercast_core::{AAL5_TRAILER, CELL_PAYLOAD, DataClass};
use serde::Serialize;

use super::transport::{ClassStats, ClassifierConfig, TsClassifier};
use super::{Findings, PictureClassifier, Role, VideoClassifier};
use crate::MediaError;
use crate::mpeg::sniff::{Form, sniff};
use crate::ts::framing::{At, Framing};
use crate::ts::packet::{Packet, TS_PACKET};

/// Packets of a transport stream in one PDU of classical AAL5: with the trailer these are whole cells.
const PDU_PACKETS: usize = 2;
const PDU_CELLS: usize = (PDU_PACKETS * TS_PACKET + AAL5_TRAILER) / CELL_PAYLOAD;
/// Different GOPs of which it is counted how often they come.
const MAX_PATTERNS: usize = 1_024;
/// Pictures of a GOP that its pattern shows.
const MAX_PATTERN: usize = 120;

/// How much of a stream is of each class, and how its pictures follow each other.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassReport {
    /// Octets that were read.
    pub octets: u64,
    /// The four classes, the most important first.
    pub classes: Vec<ClassShare>,
    /// Its videos.
    pub videos: Vec<VideoPictures>,
    /// What could not be read of a transport stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<ClassStats>,
    /// Octets between the packets of a transport stream.
    pub skipped_octets: u64,
}

/// How much of a stream is of one class.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ClassShare {
    /// The class.
    pub class: DataClass,
    /// Octets.
    pub octets: u64,
    /// Share of the octets, in percent.
    pub octets_percent: f64,
    /// Packets of a transport stream of which most of the payload is of this class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Cells of classical AAL5, two packets in eight cells, whose most important octet is of this class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cells: Option<u64>,
}

/// The pictures of one video.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VideoPictures {
    /// Packet identifier in a transport stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u16>,
    /// Pictures by class: I, P, B. Fields count one by one.
    pub pictures: Vec<PictureSizes>,
    /// How they follow each other; none without two I pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gop: Option<GopStructure>,
    /// Each picture, in the order in which they are sent; with `--pictures`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<PictureSequence>,
}

/// The pictures of one video one by one.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct PictureSequence {
    /// Their classes, in letters.
    pub classes: String,
    /// Size of each with the headers before it, in octets.
    pub octets: Vec<u64>,
}

/// Sizes of the pictures of one class, with the headers before them.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PictureSizes {
    /// The class.
    pub class: DataClass,
    /// Pictures.
    pub count: u64,
    /// Mean size, in octets.
    pub mean_octets: f64,
    /// Size of the largest, in octets.
    pub max_octets: u64,
}

/// From one I picture to the next, in the order in which pictures are sent.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GopStructure {
    /// Whole GOPs.
    pub count: u64,
    /// Pictures of the shortest.
    pub min_pictures: u64,
    /// Pictures of the longest.
    pub max_pictures: u64,
    /// One more than the most B pictures in a row.
    pub reference_distance: u64,
    /// The most frequent one, in letters; its first 120 pictures.
    pub pattern: String,
    /// Share of the GOPs that are like it, in percent.
    pub pattern_percent: f64,
}

/// Counts a whole stream by class.
#[derive(Default, Debug)]
pub struct ClassCensus {
    octets: [u64; 4],
    packets: [u64; 4],
    cells: [u64; 4],
    /// The cells of the PDU that is being filled, each with its lowest rank, and its octets so far.
    pdu: [u8; PDU_CELLS],
    filled: usize,
    videos: Vec<(Option<u16>, Pictures)>,
}

impl ClassCensus {
    /// Counts a transport stream, or an elementary stream of MPEG-1/2 video, H.264, H.265 or AV1 (OBUs with sizes).
    ///
    /// # Errors
    /// It is none of these.
    pub fn of(data: &[u8], config: ClassifierConfig) -> Result<ClassReport, MediaError> {
        let mut census = ClassCensus::default();
        if sniff(data)? == Form::Transport {
            return Ok(census.transport(data, config));
        }
        let Some(mut classifier) = VideoClassifier::of_stream(data) else {
            let problem = "classes are known of transport streams and of elementary streams of MPEG-1/2 video, H.264, H.265 \
                           and AV1 (OBUs with sizes), and this is another form: write one with ffmpeg -i FILE -c copy \
                           -f mpegts CLIP.ts"
                .into();
            return Err(MediaError::Unusable { problem });
        };
        let mut pictures = Pictures::default();
        let mut counter = Counter {
            octets: &mut census.octets,
            pictures: &mut pictures,
            left: u64::MAX,
        };
        classifier.push(data, &mut counter);
        census.videos.push((None, pictures));
        Ok(census.report(None, 0))
    }

    fn transport(mut self, data: &[u8], config: ClassifierConfig) -> ClassReport {
        let mut classifier = TsClassifier::new(config);
        let mut framing = Framing::default();
        // The packet before the one that has come, and where it begins.
        let mut last: Option<(u64, [u8; TS_PACKET])> = None;
        let (mut end, mut between) = (0, 0);
        let mut take = |at: At, octets: &[u8]| {
            between += at.offset.saturating_sub(end);
            end = at.offset + TS_PACKET as u64;
            let next = octets.first_chunk().map(|it| (at.offset, *it));
            if let Some((begin, packet)) = std::mem::replace(&mut last, next) {
                // Where the next one begins in it, it is cut, and what is behind belongs to the next one.
                self.packet(&mut classifier, &packet, at.offset.wrapping_sub(begin));
            }
        };
        framing.push(data, &mut take);
        framing.finish(&mut take);
        if let Some((_, packet)) = last {
            self.packet(&mut classifier, &packet, TS_PACKET as u64);
        }
        self.end_pdu();
        let known: Vec<u16> = classifier.videos().map(|(pid, _)| pid).collect();
        self.videos
            .retain(|(pid, it)| it.count() > 0 || pid.is_some_and(|pid| known.contains(&pid)));
        between += (data.len() as u64).saturating_sub(end);
        self.report(Some(classifier.stats()), between)
    }

    /// A packet, of which the first `own` octets count.
    fn packet(&mut self, classifier: &mut TsClassifier, whole: &[u8; TS_PACKET], own: u64) {
        let pid = Packet::new(whole).map(|packet| packet.pid());
        let place = self.videos.iter().position(|(it, _)| *it == pid);
        let mut pictures = place.map(|at| std::mem::take(&mut self.videos[at].1));
        let mut in_packet = [0_u64; 4];
        let mut cells = Cells {
            pdu: &mut self.pdu,
            filled: &mut self.filled,
        };
        let mut none = Pictures::default();
        let mut both = (
            Counter {
                octets: &mut in_packet,
                pictures: pictures.as_mut().unwrap_or(&mut none),
                left: own,
            },
            &mut cells,
        );
        // Packets come out of the framing, so all have a sync byte.
        let _ = classifier.classify(whole, &mut both);
        match (place, pictures) {
            (Some(at), Some(pictures)) => self.videos[at].1 = pictures,
            _ if classifier.videos().any(|(it, _)| Some(it) == pid) => {
                self.videos.push((pid, none))
            }
            _ => {}
        }
        for (sum, count) in self.octets.iter_mut().zip(in_packet) {
            *sum += count;
        }
        // The header of the packet says nothing about what it carries.
        in_packet[0] = in_packet[0].saturating_sub(4);
        let most = in_packet.iter().max().copied().unwrap_or(0);
        let class = in_packet.iter().position(|&it| it == most).unwrap_or(0);
        self.packets[class] += 1;
        if self.filled == PDU_PACKETS * TS_PACKET {
            self.end_pdu();
        }
    }

    /// The PDU is sent: as many cells as its octets and its trailer take.
    fn end_pdu(&mut self) {
        if self.filled == 0 {
            return;
        }
        let count = (self.filled + AAL5_TRAILER).div_ceil(CELL_PAYLOAD);
        let with_octets = self.filled.div_ceil(CELL_PAYLOAD);
        // A cell with the trailer alone is like the one before it.
        let last = self.pdu[with_octets - 1];
        for cell in 0..count {
            let rank = match cell < with_octets {
                true => self.pdu[cell],
                false => last,
            };
            self.cells[DataClass::of_rank(rank).index()] += 1;
        }
        self.filled = 0;
    }

    fn report(self, transport: Option<ClassStats>, skipped_octets: u64) -> ClassReport {
        let sum: u64 = self.octets.iter().sum();
        let share = |class: DataClass| {
            let of = |counts: &[u64; 4]| transport.map(|_| counts[class.index()]);
            ClassShare {
                class,
                octets: self.octets[class.index()],
                octets_percent: percent(self.octets[class.index()], sum),
                packets: of(&self.packets),
                cells: of(&self.cells),
            }
        };
        ClassReport {
            octets: sum,
            classes: DataClass::ALL.into_iter().map(share).collect(),
            videos: self
                .videos
                .into_iter()
                .map(|(pid, pictures)| pictures.report(pid))
                .collect(),
            transport,
            skipped_octets,
        }
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Counts octets and pictures.
struct Counter<'a> {
    octets: &'a mut [u64; 4],
    pictures: &'a mut Pictures,
    /// Octets that still count.
    left: u64,
}

impl Findings for Counter<'_> {
    fn octets(&mut self, class: DataClass, count: usize) {
        let count = self.left.min(count as u64);
        self.left -= count;
        self.octets[class.index()] += count;
        self.pictures.at += count;
    }

    fn unit(&mut self) {
        self.pictures.unit = self.pictures.at;
    }

    fn role(&mut self, role: Role) {
        self.pictures.role(role);
    }
}

/// Marks cells with their most important octet.
struct Cells<'a> {
    pdu: &'a mut [u8; PDU_CELLS],
    filled: &'a mut usize,
}

impl Findings for Cells<'_> {
    fn octets(&mut self, class: DataClass, count: usize) {
        if count == 0 {
            return;
        }
        let (from, to) = (*self.filled, *self.filled + count);
        for cell in from / CELL_PAYLOAD..=(to - 1) / CELL_PAYLOAD {
            let is_new = cell * CELL_PAYLOAD >= from;
            let rank = &mut self.pdu[cell];
            *rank = match is_new {
                true => class.rank(),
                false => class.rank().min(*rank),
            };
        }
        *self.filled = to;
    }
}

impl Findings for (Counter<'_>, &mut Cells<'_>) {
    fn octets(&mut self, class: DataClass, count: usize) {
        self.0.octets(class, count);
        self.1.octets(class, count);
    }

    fn unit(&mut self) {
        self.0.unit();
    }

    fn role(&mut self, role: Role) {
        self.0.role(role);
    }
}

/// The pictures of one video as they come.
#[derive(Default, Debug)]
struct Pictures {
    /// Octets so far, where the last unit began, and where the headers before the next picture did.
    at: u64,
    unit: u64,
    front: Option<u64>,
    /// The picture being read, and where it began.
    open: Option<(DataClass, u64)>,
    /// By class: how many, their octets, the largest.
    sizes: [(u64, u64, u64); 4],
    sequence: PictureSequence,
    /// Of the GOP being read: its pattern, its pictures, B pictures at its end.
    pattern: String,
    pictures: u64,
    gops: Gops,
}

#[derive(Default, Debug)]
struct Gops {
    count: u64,
    shortest: Option<u64>,
    longest: u64,
    /// B pictures in a row now, and the most.
    row: u64,
    longest_row: u64,
    patterns: BTreeMap<String, u64>,
}

impl Pictures {
    fn count(&self) -> u64 {
        self.sizes.iter().map(|(count, ..)| count).sum::<u64>() + u64::from(self.open.is_some())
    }

    fn role(&mut self, role: Role) {
        match role {
            Role::Front => {
                self.front.get_or_insert(self.unit);
            }
            Role::Picture(class) => {
                let begins = self.front.take().unwrap_or(self.unit);
                self.close(begins);
                self.open = Some((class, begins));
                self.follow(class);
            }
            Role::Rest => {}
        }
    }

    /// The picture being read ends here.
    fn close(&mut self, end: u64) {
        if let Some((class, begun)) = self.open.take() {
            let (count, octets, largest) = &mut self.sizes[class.index()];
            let size = end.saturating_sub(begun);
            (*count, *octets, *largest) = (*count + 1, *octets + size, size.max(*largest));
            self.sequence.classes.push(class.letter());
            self.sequence.octets.push(size);
        }
    }

    /// The next picture is of this class.
    fn follow(&mut self, class: DataClass) {
        let gops = &mut self.gops;
        gops.row = match class {
            DataClass::Bidirectional => gops.row + 1,
            _ => 0,
        };
        if class == DataClass::Intra {
            let pattern = std::mem::take(&mut self.pattern);
            let pictures = std::mem::take(&mut self.pictures);
            if pictures > 0 {
                gops.count += 1;
                gops.shortest = Some(gops.shortest.map_or(pictures, |it| it.min(pictures)));
                gops.longest = gops.longest.max(pictures);
                if gops.patterns.len() < MAX_PATTERNS || gops.patterns.contains_key(&pattern) {
                    *gops.patterns.entry(pattern).or_default() += 1;
                }
            }
        } else if self.pictures == 0 {
            // Before the first I picture.
            return;
        }
        gops.longest_row = gops.longest_row.max(gops.row);
        self.pictures += 1;
        if self.pattern.len() < MAX_PATTERN {
            self.pattern.push(class.letter());
        }
    }

    fn report(mut self, pid: Option<u16>) -> VideoPictures {
        self.close(self.at);
        let kinds = [
            DataClass::Intra,
            DataClass::Predicted,
            DataClass::Bidirectional,
        ];
        let sizes = |class: DataClass| {
            let (count, octets, max_octets) = self.sizes[class.index()];
            PictureSizes {
                class,
                count,
                mean_octets: octets as f64 / count.max(1) as f64,
                max_octets,
            }
        };
        let gops = &self.gops;
        let most = gops.patterns.iter().max_by_key(|(_, count)| **count);
        VideoPictures {
            pid,
            pictures: kinds.into_iter().map(sizes).collect(),
            gop: most
                .zip(gops.shortest)
                .map(|((pattern, &alike), shortest)| GopStructure {
                    count: gops.count,
                    min_pictures: shortest,
                    max_pictures: gops.longest,
                    reference_distance: gops.longest_row + 1,
                    pattern: pattern.clone(),
                    pattern_percent: percent(alike, gops.count),
                }),
            sequence: Some(self.sequence),
        }
    }
}
