use layercast_core::{Layer, LevelSet, Serial};

/// Finds where groups of pictures of alternative layers begin.
///
/// Key frames of all layers share their time and follow each other, base layer first, with common frames between them at
/// most. The first of them that is seen begins the group: levels change there, and nowhere else. The one of the base layer
/// may be lost or withheld upstream.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Groups {
    /// The layer of the last picture, if it was a key frame.
    key: Option<Layer>,
    /// The first key frame of the newest group that was seen.
    first: Option<(Serial, Layer)>,
}

/// Most common frames between two key frames of one group.
const BETWEEN: usize = 2;

impl Groups {
    /// The next picture of the flow starts; gives whether a group begins with it.
    pub fn picture(&mut self, layer: Layer, is_key: bool, seq: Option<Serial>) -> bool {
        let before = self.key.take();
        if !is_key {
            return false;
        }
        self.key = Some(layer);
        let begins = before.is_none_or(|before| layer <= before);
        if begins {
            self.first = seq.map(|seq| (seq, layer));
        }
        begins
    }

    /// Where a picture belongs that others overtook. Key frames of one group may overtake each other.
    pub fn late(&mut self, layer: Layer, is_key: bool, seq: Serial) -> Late {
        let Some((first, lowest)) = self.first else {
            return Late::Here;
        };
        let (one, other) = (layer.index(), lowest.index());
        let near = |lower: usize, ahead: i32| {
            let most = lower + BETWEEN;
            lower > 0 && usize::try_from(ahead).is_ok_and(|ahead| ahead <= most)
        };
        if first.is_after(seq) {
            if is_key && near(other.saturating_sub(one), first.diff(seq)) {
                self.first = Some((seq, layer));
                return Late::Here;
            }
            return Late::Before;
        }
        if is_key && seq != first && !near(one.saturating_sub(other), seq.diff(first)) {
            self.first = Some((seq, layer));
            return Late::Begins;
        }
        Late::Here
    }
}

/// Which layers have a key frame in the newest group: the others have stopped, or not begun.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Present {
    keys: LevelSet,
    /// All key frames of the group have been seen.
    is_whole: bool,
}

impl Present {
    /// The next picture of the flow starts, `begins` a group or not; gives the levels of a group when it is known which it
    /// has.
    pub fn picture(&mut self, layer: Layer, is_key: bool, begins: bool) -> Option<LevelSet> {
        let of_it = LevelSet::of(layer.level());
        let ends = (begins || !is_key) && !self.is_whole && !self.keys.is_empty();
        let found = ends.then_some(self.keys);
        self.is_whole = !is_key;
        self.keys = match (begins, is_key) {
            (true, _) => of_it,
            (false, true) => self.keys.union(of_it),
            (false, false) => self.keys,
        };
        found
    }
}

/// Where a late picture belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Late {
    /// To a group before the newest.
    Before,
    /// To the newest group.
    Here,
    /// To a group that begins with it: pictures behind its key frame came before.
    Begins,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_of_a_group_are_those_with_a_key_frame() {
        let mut present = Present::default();
        let mut groups = Groups::default();
        let mut next = |layer, is_key| {
            let begins = groups.picture(layer, is_key, None);
            present.picture(layer, is_key, begins).map(LevelSet::bits)
        };
        let (base, e1, e2) = (Layer::Base, Layer::E1, Layer::E2);
        // Pictures before the first key frame tell nothing.
        assert_eq!(next(base, false), None);
        assert_eq!([base, e1, e2].map(|it| next(it, true)), [None; 3]);
        assert_eq!(next(base, false), Some(7));
        assert_eq!([e1, e2, base].map(|it| next(it, false)), [None; 3]);
        assert_eq!([base, e2].map(|it| next(it, true)), [None; 2]);
        assert_eq!(next(e2, false), Some(5));
        // Key frames alone: a group is known when the next begins.
        assert_eq!([base, e1].map(|it| next(it, true)), [None; 2]);
        assert_eq!([base, e1].map(|it| next(it, true)), [Some(3), None]);
    }

    #[test]
    fn a_group_begins_with_its_first_key_frame_that_is_seen() {
        let mut groups = Groups::default();
        let mut seq = 0;
        let mut begins = |layer, is_key| {
            seq += 1;
            groups.picture(layer, is_key, Some(Serial(seq)))
        };
        let all = [Layer::Base, Layer::E1, Layer::E2];
        assert_eq!(all.map(|it| begins(it, true)), [true, false, false]);
        assert_eq!(all.map(|it| begins(it, false)), [false; 3]);
        // That of the base layer is missing.
        assert_eq!(
            all.map(|it| begins(it, it != Layer::Base)),
            [false, true, false]
        );
        begins(Layer::E2, false);
        // Key frames only.
        assert_eq!(all.map(|it| begins(it, true)), [true, false, false]);
        assert_eq!(all.map(|it| begins(it, true)), [true, false, false]);
        // The last group has 14 to 16, the one before 11 to 13.
        assert_eq!(groups.late(Layer::E2, true, Serial(13)), Late::Before);
        assert_eq!(groups.late(Layer::Base, true, Serial(14)), Late::Here);
        groups.picture(Layer::E1, false, Some(Serial(17)));
        // Of the next, with 18 to 20, that of E1 comes first.
        groups.picture(Layer::E1, true, Some(Serial(19)));
        assert_eq!(groups.late(Layer::E1, false, Serial(17)), Late::Before);
        assert_eq!(groups.late(Layer::Base, true, Serial(18)), Late::Here);
        assert_eq!(groups.late(Layer::E2, true, Serial(16)), Late::Before);
        assert_eq!(groups.late(Layer::E2, true, Serial(20)), Late::Here);
        // A key frame comes behind the picture that follows it.
        groups.picture(Layer::Base, false, Some(Serial(33)));
        assert_eq!(groups.late(Layer::Base, true, Serial(30)), Late::Begins);
        assert_eq!(groups.late(Layer::Base, true, Serial(30)), Late::Here);
    }
}
