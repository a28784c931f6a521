use layercast_core::{FlowSpec, Layer, Level, LevelSet, Serial};
use layercast_wire::{Flags, FrameType, MetsHeader};

use crate::groups::{Groups, Late};

/// Chooses the level that is played of a flow of alternative layers.
///
/// A link to one receiver carries one level, and says which. A link that several receivers listen to may carry more:
/// then each picks the nearest that is not above its own, where a group of pictures begins.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Chooser {
    groups: Groups,
    /// The newest picture.
    newest: Option<Serial>,
    /// The level in force, and that of the group before.
    level: Option<Level>,
    before: Option<Level>,
}

impl Chooser {
    /// For a flow of `spec`, if its layers are alternative.
    pub fn of(spec: &FlowSpec) -> Option<Chooser> {
        (!spec.composition.is_additive()).then(Chooser::default)
    }

    /// The level that is played where this packet comes in; `None` if the packet is of another one. `own` is the level that
    /// is granted and wanted.
    pub fn choose(&mut self, header: &MetsHeader, layer: Layer, own: Level) -> Option<Level> {
        if header.kind == FrameType::COMMON {
            let set = header.passing.set();
            let carried = |&level: &Level| set.is_none_or(|set| set.contains(level));
            let kept = self.level.filter(carried);
            return Some(kept.unwrap_or(set.map_or(own, |set| pick(set, own))));
        }
        // Cells state nothing, and go to one receiver.
        let carried = layer.level();
        let set = header.passing.set().unwrap_or(LevelSet::of(carried));
        let is_key = header.flags.contains(Flags::GOP_START);
        let begins = match self.newest {
            Some(newest) if header.seq == newest => false,
            Some(newest) if newest.is_after(header.seq) => {
                match self.groups.late(layer, is_key, header.seq) {
                    Late::Before => return self.before.filter(|&before| before == carried),
                    place => place == Late::Begins,
                }
            }
            _ => {
                self.newest = Some(header.seq);
                self.groups.picture(layer, is_key, self.newest)
            }
        };
        if begins {
            self.before = self.level.replace(pick(set, own));
        }
        let level = match set == LevelSet::of(carried) {
            true => carried,
            false => self.level?,
        };
        self.level = Some(level);
        (level == carried).then_some(level)
    }
}

/// Of these levels, which are not none.
fn pick(set: LevelSet, own: Level) -> Level {
    let lowest = set.iter().next();
    set.nearest(own).or(lowest).unwrap_or(own)
}
