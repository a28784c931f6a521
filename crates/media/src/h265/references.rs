use super::layers::Unit;
use super::nal;
use super::params::{ParameterSets, Slice};
use crate::h264::nals;
use crate::order::Place;

/// Most pictures that are kept: what the standard lets a decoder hold (A.4.2), and what a slice may name beside it.
const MAX_KEPT: usize = 64;

/// Follows the references between pictures: each names those that it may refer to, and those that later ones may (8.3.2).
#[derive(Default, Debug)]
pub(crate) struct References {
    sets: ParameterSets,
    /// Picture order counts of the pictures that can be decoded and may be referred to.
    kept: Vec<i64>,
    /// The count of the last picture of the lowest temporal layer that others refer to.
    anchor: i64,
    /// That of the last picture.
    last: i64,
}

/// What is known of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Judged {
    pub unit: Unit,
    /// A decoder has all that it refers to.
    pub decodable: bool,
    /// Receivers can start here.
    pub starts: bool,
    /// Its place in display order, if that can be read.
    pub place: Option<Place>,
}

impl References {
    /// Takes the next access unit that came, in Annex B form; `None` if it has no picture.
    ///
    /// Of a picture whose parameter sets are unknown nothing is known: it is taken for one that can be decoded, unless it
    /// leads a start (RASL).
    pub fn take(&mut self, data: &[u8]) -> Option<Judged> {
        let mut first = None;
        for (_, nal) in nals(data) {
            match nal::head(nal) {
                Some((nal::VPS..=nal::PPS, 0)) => self.sets.take(nal),
                Some((0..=nal::LAST_PICTURE, 0)) => {
                    first = Some(nal);
                    break;
                }
                _ => {}
            }
        }
        let unit = Unit::read(data)?;
        let slice = first.and_then(|segment| self.sets.slice(segment));
        let decodable = match &slice {
            Some(slice) => self.picture(unit, slice),
            None => !unit.is_skipped_leading(),
        };
        Some(Judged {
            unit,
            decodable,
            starts: unit.is_start() && self.sets.are_complete(),
            place: slice.map(|slice| Place::h265(unit, &slice)),
        })
    }

    /// A part of the last picture is missing.
    pub fn lose(&mut self) {
        let last = self.last;
        self.kept.retain(|count| *count != last);
    }

    /// A picture to start at is missing: nothing of what was before it is referred to.
    pub fn lose_all(&mut self) {
        self.kept.clear();
    }

    /// Whether a picture can be decoded; it and those that it names are kept.
    fn picture(&mut self, unit: Unit, slice: &Slice) -> bool {
        let modulus = i64::from(slice.modulus);
        let count = match unit.is_closed_start() {
            true => {
                self.kept.clear();
                0
            }
            false => {
                // As near to the last anchor as its low bits allow (8.3.1).
                let ahead = (i64::from(slice.lsb) - self.anchor).rem_euclid(modulus);
                let ahead = if ahead >= modulus / 2 {
                    ahead - modulus
                } else {
                    ahead
                };
                self.anchor + ahead
            }
        };
        if self.kept.contains(&count) {
            // A count comes once: a start is missing, behind which they began again.
            self.kept.clear();
        }
        let has = |count: i64| self.kept.contains(&count);
        let has_low = |lsb: u32| {
            let lsb = i64::from(lsb);
            self.kept
                .iter()
                .find(|it| it.rem_euclid(modulus) == lsb)
                .copied()
        };
        let near = slice.near.iter().map(|&(ahead, used)| {
            let wanted = count + i64::from(ahead);
            (Some(wanted).filter(|it| has(*it)), used)
        });
        let far = slice.far.iter().map(|&(lsb, used)| (has_low(lsb), used));
        let named: Vec<(Option<i64>, bool)> = near.chain(far).collect();
        let lacks = named.iter().any(|(found, used)| *used && found.is_none());
        let decodable = unit.is_start() || !lacks;
        self.kept = named.into_iter().filter_map(|(found, _)| found).collect();
        if decodable && self.kept.len() < MAX_KEPT {
            self.kept.push(count);
        }
        self.last = count;
        if unit.is_anchor() {
            self.anchor = count;
        }
        decodable
    }
}
