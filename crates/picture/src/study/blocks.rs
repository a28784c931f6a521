use layercast_core::Stream;
use serde::{Deserialize, Serialize};

use super::SettingError;
use crate::{BLOCK_PIXELS, BlockOrder, GROUP_BLOCKS, GROUP_CELLS, Raster};

/// One group in this many loses cells.
const EACH: usize = 10;
/// Side of a block in pixels.
const SIDE: isize = 8;

/// Raw pictures of which cells are lost (Q9).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockSetting {
    /// In which order the pixels of a group are sent.
    pub order: BlockOrder,
    /// Cells in a row that every tenth group loses, from a random place on.
    pub burst: usize,
    /// Seed of the places.
    pub seed: u64,
}

/// What was seen after concealment.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct BlockRun {
    /// Pixels that were missing, in percent.
    pub missing_percent: f64,
    /// PSNR of the picture after concealment, in dB.
    pub psnr_db: f64,
}

/// What a burst of each length costs a group, over all places where it can begin.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct BlockGeometry {
    /// Lost cells in a row.
    pub burst: usize,
    /// Missing pixels.
    pub missing: usize,
    /// Most missing pixels of one block.
    pub of_block: usize,
    /// Whether each missing pixel has all its neighbours above, below, left and right in the block.
    pub has_cross: bool,
    /// Whether it has the diagonal ones, too.
    pub has_all: bool,
}

impl BlockSetting {
    /// Loses cells of a picture and conceals that, with the help of the picture before; gives what is shown, too.
    ///
    /// # Errors
    /// The burst is longer than a group.
    pub fn run(
        &self,
        whole: &Raster,
        before: Option<&Raster>,
    ) -> Result<(BlockRun, Raster), SettingError> {
        if !(1..=GROUP_CELLS).contains(&self.burst) {
            return Err(SettingError::Range {
                what: "burst",
                value: self.burst as f64,
                range: "1 to 32",
            });
        }
        let mut random = Stream::new(self.seed, "bursts");
        let mut shown = whole.clone();
        for group in (0..whole.groups().saturating_sub(1)).step_by(EACH) {
            // A burst may continue in the next group.
            let begin = random.below(GROUP_CELLS as u64) as usize;
            for place in begin..begin + self.burst {
                shown.lose(self.order, group + place / GROUP_CELLS, place % GROUP_CELLS);
            }
        }
        let missing = 100.0 * shown.missing() as f64 / whole.pixels().len().max(1) as f64;
        shown.conceal(before);
        let run = BlockRun {
            missing_percent: missing,
            psnr_db: shown.psnr(whole),
        };
        Ok((run, shown))
    }
}

impl BlockGeometry {
    /// Of an order and a length of bursts inside a group.
    pub fn of(order: BlockOrder, burst: usize) -> BlockGeometry {
        let mut geometry = BlockGeometry {
            burst,
            missing: 0,
            of_block: 0,
            has_cross: true,
            has_all: true,
        };
        for begin in 0..=GROUP_CELLS.saturating_sub(burst) {
            let mut missing = 0;
            for block in 0..GROUP_BLOCKS {
                let lost =
                    |pixel: usize| (begin..begin + burst).contains(&order.place(block, pixel).0);
                let pixels = (0..BLOCK_PIXELS).filter(|&pixel| lost(pixel));
                let pixels: Vec<usize> = pixels.collect();
                missing += pixels.len();
                geometry.of_block = geometry.of_block.max(pixels.len());
                for &pixel in &pixels {
                    for (dx, dy) in AROUND {
                        let (x, y) = (pixel as isize % SIDE + dx, pixel as isize / SIDE + dy);
                        let is_inside = (0..SIDE).contains(&x) && (0..SIDE).contains(&y);
                        if is_inside && lost((y * SIDE + x) as usize) {
                            geometry.has_all = false;
                            geometry.has_cross &= dx != 0 && dy != 0;
                        }
                    }
                }
            }
            geometry.missing = geometry.missing.max(missing);
        }
        geometry
    }
}

/// The eight neighbours.
const AROUND: [(isize, isize); 8] = [
    (0, -1),
    (0, 1),
    (-1, 0),
    (1, 0),
    (-1, -1),
    (1, -1),
    (-1, 1),
    (1, 1),
];
