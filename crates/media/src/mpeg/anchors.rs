//! Which pictures of MPEG-1/2 video can be decoded.

use super::unit::AccessUnit;
use crate::Picture;

/// The pictures of MPEG-1/2 video that others refer to.
#[derive(Default, Debug)]
pub(crate) struct Anchors {
    /// Temporal references of the last anchor and, in the same GOP, of the one before it.
    last: Option<u16>,
    before: Option<u16>,
    /// An anchor is missing since the last I picture.
    broken: bool,
    /// B pictures before the last I picture in display order can be decoded.
    leading: bool,
    /// There are P pictures, so that E1 has anchors.
    has_p: bool,
}

impl Anchors {
    /// Something that others may refer to is missing: nothing can be decoded up to the next I picture.
    pub fn lose(&mut self) {
        self.broken = true;
    }

    /// Whether a picture can be decoded; `gap`: pictures that others may refer to are missing before it.
    pub fn take(&mut self, unit: &AccessUnit, gap: bool) -> bool {
        let reference = unit.picture.temporal_reference;
        // Reference pictures count up to the next GOP, modulo 1024.
        let is_after =
            |last: u16| (reference.wrapping_sub(last) & 1_023) < 512 && reference != last;
        match unit.picture.kind {
            Picture::I => {
                let closed = unit.gop.is_some_and(|gop| gop.closed);
                let was_whole = self.last.is_some() && !self.broken && !(gap && self.has_p);
                self.leading = closed || was_whole;
                self.broken = false;
                self.before = None;
                self.last = Some(reference);
                true
            }
            Picture::P => {
                self.has_p = true;
                let is_second_field = self.last == Some(reference);
                let is_next = self.last.is_some_and(is_after);
                self.broken |= gap || !(is_next || is_second_field);
                if !is_second_field {
                    self.before = self.last.replace(reference);
                }
                !self.broken
            }
            Picture::B | Picture::Data => {
                self.broken |= gap && self.has_p;
                // Of an anchor that is missing, with the pictures that precede it in display order.
                let is_ahead = self.last.is_none_or(is_after);
                let is_behind = self.before.is_some_and(|before| !is_after(before));
                let can_lead = self.before.is_some() || self.leading;
                !self.broken && !is_ahead && !is_behind && can_lead
            }
        }
    }
}
