use crate::{Frame, Picture};

/// Drops whole pictures by their type (specs/mets.md 2.13).
///
/// What is kept is still to go through a [`crate::StreamWriter`], which puts repeats where pictures are
/// missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PictureDrop {
    rule: DropRule,
    /// Frames of the thinned type so far, modulo n.
    seen: u32,
}

/// Which pictures a [`PictureDrop`] keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropRule {
    /// I pictures: the base layer.
    KeepI,
    /// I and P pictures: base layer and E1.
    KeepIp,
    /// All pictures, but of one type only `keep` evenly spread ones out of every `of`; all if `of` is not more
    /// than `keep`.
    Thin {
        /// The type that is thinned.
        picture: Picture,
        /// Pictures kept of each `of`.
        keep: u32,
        /// See `keep`.
        of: u32,
    },
}

impl PictureDrop {
    /// A filter that has seen no frame yet.
    pub const fn new(rule: DropRule) -> PictureDrop {
        PictureDrop { rule, seen: 0 }
    }

    /// Whether the next frame is kept.
    pub fn keeps(&mut self, frame: &Frame) -> bool {
        match self.rule {
            DropRule::KeepI => frame.picture == Picture::I,
            DropRule::KeepIp => frame.picture != Picture::B,
            DropRule::Thin { picture, .. } if picture != frame.picture => true,
            DropRule::Thin { keep, of, .. } => {
                if keep >= of {
                    return true;
                }
                let kept = |n: u32| u64::from(n) * u64::from(keep) / u64::from(of);
                let keeps = kept(self.seen + 1) > kept(self.seen);
                self.seen = (self.seen + 1) % of;
                keeps
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(rule: DropRule, pictures: &str) -> String {
        let mut filter = PictureDrop::new(rule);
        let frame = |kind| Frame::sized(kind, 1);
        let kind = |c| match c {
            'I' => Picture::I,
            'P' => Picture::P,
            _ => Picture::B,
        };
        let kept = pictures.chars().filter(|&c| filter.keeps(&frame(kind(c))));
        kept.collect()
    }

    #[test]
    fn pictures_are_kept_by_type() {
        assert_eq!(kept(DropRule::KeepI, "IBBPBBIBB"), "II");
        assert_eq!(kept(DropRule::KeepIp, "IBBPBBIBB"), "IPI");
    }

    #[test]
    fn thinning_keeps_m_of_n_of_one_type_evenly() {
        let thin = |keep, of| {
            let picture = Picture::B;
            let rule = DropRule::Thin { picture, keep, of };
            kept(rule, "IBPBPBPBPBPB").matches('B').count()
        };
        assert_eq!(
            [thin(0, 3), thin(1, 3), thin(2, 3), thin(3, 3)],
            [0, 2, 4, 6]
        );
        assert_eq!([thin(1, 0), thin(u32::MAX - 1, u32::MAX)], [6, 5]);
        let (keep, of) = (1, 2);
        let rule = DropRule::Thin {
            picture: Picture::B,
            keep,
            of,
        };
        assert_eq!(kept(rule, "BPBPBPBP"), "PBPPBP");
    }
}
