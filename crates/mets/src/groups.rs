use layercast_core::{Layer, Serial};

/// Finds where groups of pictures of alternative layers begin.
///
/// Key frames of all layers share their time and follow each other, base layer first, with common frames between them at
/// most. The first of them that is seen begins the group: levels change there, and nowhere else. The one of the base layer
/// may be lost or withheld upstream.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Groups {
    /// The layer of the last picture, if it was a key frame.
    key: Option<Layer>,
    first: Option<Serial>,
}

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
            self.first = seq;
        }
        begins
    }

    /// Whether a frame belongs to an earlier group than the newest.
    pub fn is_before(&self, seq: Serial) -> bool {
        self.first.is_some_and(|first| first.is_after(seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(groups.is_before(Serial(13)) && !groups.is_before(Serial(14)));
    }
}
