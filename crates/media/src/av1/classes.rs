//! The classes of OBUs, behind start codes or with their sizes.

use layercast_core::DataClass;

use super::header::State;
use super::obu::{Head, Obu, kind};
use crate::classes::start_codes::{MAX_HEAD, Syntax};
use crate::classes::{Findings, PictureClassifier, Role, UnitClass};
use crate::sets::MAX_SET;

/// Octets of a frame that count as its header.
const FRAME_HEAD: usize = MAX_HEAD - 4;

/// What OBUs are, each behind the ones before it.
#[derive(Default, Debug)]
pub(crate) struct Av1Units {
    state: State,
    /// Of the frame that tile groups belong to.
    class: DataClass,
}

impl Av1Units {
    /// What a unit is, of which the payload is at hand as far as its headers reach.
    fn obu(&mut self, obu: &Obu) -> UnitClass {
        let read = self.state.take(obu);
        match obu.kind {
            kind::FRAME | kind::FRAME_HEADER => {
                self.class = match read {
                    Some(frame) if frame.is_start => DataClass::Intra,
                    Some(frame) if frame.fills == 0 => DataClass::Bidirectional,
                    // Others may refer to it.
                    _ => DataClass::Predicted,
                };
                match obu.kind {
                    kind::FRAME => UnitClass::data(true, self.class),
                    _ => UnitClass::system(Role::Picture(self.class)),
                }
            }
            kind::TILE_GROUP => UnitClass::data(false, self.class),
            kind::PADDING => UnitClass::data(false, DataClass::Bidirectional),
            _ => UnitClass::system(Role::Front),
        }
    }
}

impl Syntax for Av1Units {
    const HEAD: usize = MAX_HEAD;

    fn unit(&mut self, head: &[u8]) -> UnitClass {
        match Head::read(head) {
            Some(it) => self.obu(&it.with(&head[it.octets..])),
            None => UnitClass::system(Role::Rest),
        }
    }
}

/// The classes of a low-overhead stream (AV1 5.2): OBUs with their sizes, without start codes.
///
/// Octets that are no OBU, or one without a size, end the classification: all that follows is [`DataClass::Intra`].
#[derive(Default, Debug)]
pub(crate) struct Obus {
    units: Av1Units,
    /// The header of the OBU and the beginning of its payload, as far as they came.
    front: Vec<u8>,
    /// Header of the OBU, once it is whole.
    head: Option<Head>,
    /// Octets of the OBU that are still to come behind `front`.
    left: usize,
    class: DataClass,
    is_lost: bool,
}

impl Obus {
    /// Octets of the payload that are looked at: of a sequence header all.
    fn wanted(head: &Head) -> usize {
        let most = match head.kind {
            kind::SEQUENCE => MAX_SET,
            kind::FRAME | kind::FRAME_HEADER => FRAME_HEAD,
            _ => 0,
        };
        head.len.unwrap_or(0).min(most)
    }

    /// Takes one octet of the front of an OBU; whether the front is whole now.
    fn take(&mut self, octet: u8, out: &mut impl Findings) {
        if self.front.is_empty() {
            out.unit();
        }
        self.front.push(octet);
        out.octets(DataClass::System, 1);
        if self.head.is_none() {
            self.head = Head::read(&self.front);
            let is_unsized = self.head.is_some_and(|head| head.len.is_none());
            if is_unsized || self.head.is_none() && self.front.len() >= Head::LONGEST {
                self.gap();
                return;
            }
        }
        let Some(head) = self.head else { return };
        let wanted = Obus::wanted(&head);
        if self.front.len() == head.octets + wanted {
            let unit = self.units.obu(&head.with(&self.front[head.octets..]));
            self.class = unit.class;
            self.left = head.len.unwrap_or(0) - wanted;
            out.role(unit.role);
            self.front.clear();
            self.head = None;
        }
    }
}

impl PictureClassifier for Obus {
    fn push(&mut self, octets: &[u8], out: &mut impl Findings) {
        let mut rest = octets;
        while !rest.is_empty() && !self.is_lost {
            if self.left > 0 && self.front.is_empty() {
                let (now, behind) = rest.split_at(rest.len().min(self.left));
                out.octets(self.class, now.len());
                self.left -= now.len();
                rest = behind;
                continue;
            }
            self.take(rest[0], out);
            rest = &rest[1..];
        }
        out.octets(DataClass::Intra, rest.len());
    }

    fn gap(&mut self) {
        // Nothing marks where the next OBU begins.
        self.is_lost = true;
        self.front.clear();
    }

    fn class(&self) -> DataClass {
        match self.is_lost {
            true => DataClass::Intra,
            false => self.class,
        }
    }

    fn unknown_types(&self) -> u64 {
        0
    }
}
