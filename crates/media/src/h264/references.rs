use super::layers::{Order, Slice};

/// Whether the pictures that a picture refers to are there: `frame_num` counts them (7.4.3), so that missing pictures to
/// which no other refers are no reason to stop.
#[derive(Default, Debug)]
pub(crate) struct References {
    /// `frame_num` of the last reference picture.
    frame_num: u32,
    /// The last random access point was an IDR picture: the next one begins to count from 0, too.
    restarts: bool,
    /// A picture that others refer to is missing since the last random access point.
    broken: bool,
    /// Display position and `frame_num` of the I picture before which nothing can be decoded, up to the next reference picture behind
    /// it: positions are known modulo a power of two, as small as 16.
    leading: Option<(u32, u32)>,
}

/// Pictures that are missing before another one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Missing {
    /// Others may refer to them.
    pub all: u32,
    /// Of these, pictures of the layer that has the random access points.
    pub base: u32,
}

impl References {
    /// Whether the next picture can be decoded. It `starts` if it is a random access point; as many are `missing` before it, at
    /// most.
    pub fn take(&mut self, slice: &Slice, starts: bool, missing: Missing) -> bool {
        if starts {
            let whole = !self.broken && !self.misses_reference(slice, missing);
            self.start(slice, whole);
        } else {
            self.broken |= self.misses_reference(slice, missing);
        }
        let is_leading = self.is_leading(slice);
        if slice.reference {
            self.frame_num = slice.frame_num;
            // Both fields of the I picture have its number.
            self.leading = self
                .leading
                .filter(|(_, number)| is_leading || slice.frame_num == *number);
        }
        !self.broken && !is_leading
    }

    /// The first picture, a random access point.
    pub fn begin(&mut self, slice: &Slice) {
        self.start(slice, false);
        self.frame_num = slice.frame_num;
    }

    /// A part of the last picture is missing: nothing can be decoded up to the next start.
    pub fn lose(&mut self) {
        self.broken = true;
    }

    /// At a random access point everything is well again; `whole` if it was before.
    fn start(&mut self, slice: &Slice, whole: bool) {
        self.broken = false;
        self.restarts = slice.idr.is_some();
        self.leading = match slice.order {
            Order::Lsb { lsb, .. } if slice.idr.is_none() && !whole => Some((lsb, slice.frame_num)),
            _ => None,
        };
    }

    /// Whether it is displayed before the last random access point but needs what came before.
    fn is_leading(&self, slice: &Slice) -> bool {
        match (self.leading, slice.order) {
            (Some((start, _)), Order::Lsb { lsb, modulus, .. }) => {
                start.wrapping_sub(lsb) & (modulus - 1) < modulus / 2 && lsb != start
            }
            _ => false,
        }
    }

    /// Whether a reference picture is missing before it.
    fn misses_reference(&self, slice: &Slice, missing: Missing) -> bool {
        if missing.all == 0 || slice.idr.is_some() || slice.gaps_allowed {
            return false;
        }
        // The count has wrapped, perhaps to where it should be.
        if missing.all >= slice.max_frame_num - 1 {
            return true;
        }
        // An IDR picture and those behind it may be missing: the numbers that follow may be those that were to follow without it.
        if self.restarts && missing.base > 0 && (1..=missing.all).contains(&slice.frame_num) {
            return true;
        }
        let next = (self.frame_num + 1) & (slice.max_frame_num - 1);
        slice.frame_num != next && slice.frame_num != self.frame_num
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Picture;

    fn slice(kind: Picture, frame_num: u32, lsb: u32, reference: bool) -> Slice {
        Slice {
            kind,
            idr: None,
            reference,
            top: true,
            frame_num: frame_num % 16,
            max_frame_num: 16,
            gaps_allowed: false,
            field: None,
            pps: 0,
            order: Order::Lsb {
                lsb: lsb % 16,
                modulus: 16,
                bottom: 0,
            },
            reorder: None,
        }
    }

    const NONE: Missing = Missing { all: 0, base: 0 };

    fn of_base(count: u32) -> Missing {
        Missing {
            all: count,
            base: count,
        }
    }

    #[test]
    fn a_lost_idr_picture_is_noticed_where_the_count_wraps() {
        for before in 0..40 {
            for lost_behind in 0..3 {
                let mut references = References::default();
                let start = Slice {
                    idr: Some(0),
                    ..slice(Picture::I, 0, 0, true)
                };
                references.begin(&start);
                for n in 1..=before {
                    assert!(references.take(&slice(Picture::P, n, 2 * n, true), false, NONE));
                }
                // The next IDR picture is missing, and some pictures behind it.
                let next = slice(Picture::P, 1 + lost_behind, 2 + 2 * lost_behind, true);
                let missing = of_base(1 + lost_behind);
                assert!(
                    !references.take(&next, false, missing),
                    "{before} {lost_behind}"
                );
            }
        }
    }

    #[test]
    fn missing_pictures_to_which_no_other_refers_are_no_lost_start() {
        let mut references = References::default();
        let start = Slice {
            idr: Some(0),
            ..slice(Picture::I, 0, 0, true)
        };
        references.begin(&start);
        for n in 1..40 {
            // Of E1, which has no start; and of the layer with the starts, where none can be missing.
            let of_e1 = Missing { all: 2, base: 0 };
            assert!(
                references.take(&slice(Picture::P, n, 6 * n, true), false, of_e1),
                "{n}"
            );
            let between = slice(Picture::B, n + 1, 6 * n - 2, false);
            let missing = match (n + 1) % 16 {
                1 => NONE,
                _ => of_base(1),
            };
            assert!(references.take(&between, false, missing), "{n}");
        }
    }

    #[test]
    fn leading_pictures_end_at_the_next_reference_picture_behind_the_start() {
        let mut references = References::default();
        references.begin(&slice(Picture::I, 5, 10, true));
        // The other field of the I picture, and pictures that are displayed before it, one of them a reference.
        assert!(references.take(&slice(Picture::P, 5, 11, true), false, NONE));
        assert!(!references.take(&slice(Picture::B, 6, 6, true), false, NONE));
        assert!(!references.take(&slice(Picture::B, 7, 4, false), false, NONE));
        assert!(!references.take(&slice(Picture::B, 7, 8, false), false, NONE));
        // Positions wrap many times.
        for n in 0..40 {
            let (frame_num, lsb) = (7 + n, 10 + 4 * (n + 1));
            assert!(references.take(&slice(Picture::P, frame_num, lsb, true), false, NONE));
            let between = slice(Picture::B, frame_num + 1, lsb - 2, false);
            assert!(references.take(&between, false, NONE), "{n}");
        }
    }
}
