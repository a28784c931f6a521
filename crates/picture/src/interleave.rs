//! Interleaving of I pictures over cells (specs/mpeg-picture-quality.md 2.8): a lost cell damages pixels that are apart, and their
//! neighbours replace them.

use layercast_core::CELL_PAYLOAD;
use serde::{Deserialize, Serialize};

/// Blocks of a group: two macroblocks.
pub const GROUP_BLOCKS: usize = 8;
/// Pixels of a block of 8 x 8.
pub const BLOCK_PIXELS: usize = 64;
/// Octets of a pixel.
pub const PIXEL: usize = 3;
/// Cells of a group: four for each block.
pub const GROUP_CELLS: usize = 32;
/// Octets of a group.
pub const GROUP_OCTETS: usize = GROUP_BLOCKS * BLOCK_PIXELS * PIXEL;
/// Pixels of a cell.
const CELL_PIXELS: usize = CELL_PAYLOAD / PIXEL;
/// Cell number (15 i) mod 32 is sent at place i: neighbours in time share no neighbouring pixels.
const STEP: usize = 15;
/// A burst of this many cells leaves each missing pixel all its neighbours in the block.
pub const SAFE_BURST: usize = 7;

/// In which order the pixels of a group are sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockOrder {
    /// Block by block, each in rows: a cell is two rows of a block.
    Scan,
    /// Two pixels of each block in a cell, four rows apart.
    Interleaved,
}

impl BlockOrder {
    /// The place in transmission and the octet in the cell of pixel `8 y + x` of a block.
    pub fn place(self, block: usize, pixel: usize) -> (usize, usize) {
        match self {
            BlockOrder::Scan => {
                let at = block * BLOCK_PIXELS + pixel;
                (at / CELL_PIXELS, at % CELL_PIXELS * PIXEL)
            }
            BlockOrder::Interleaved => {
                let cell = (pixel + 4 * block) % GROUP_CELLS;
                let slot = 2 * block + pixel / GROUP_CELLS;
                // 15 x 15 is 1 modulo 32.
                (STEP * cell % GROUP_CELLS, slot * PIXEL)
            }
        }
    }

    /// The cells of a group in the order in which they are sent. The group has its blocks one after the other.
    pub fn spread(self, group: &[u8; GROUP_OCTETS]) -> [[u8; CELL_PAYLOAD]; GROUP_CELLS] {
        let mut cells = [[0; CELL_PAYLOAD]; GROUP_CELLS];
        for (at, pixel) in group.as_chunks::<PIXEL>().0.iter().enumerate() {
            let (cell, slot) = self.place(at / BLOCK_PIXELS, at % BLOCK_PIXELS);
            cells[cell][slot..slot + PIXEL].copy_from_slice(pixel);
        }
        cells
    }

    /// Puts the pixels of a cell, sent at this place, where they belong in the group.
    pub fn gather(self, place: usize, cell: &[u8; CELL_PAYLOAD], group: &mut [u8; GROUP_OCTETS]) {
        for (at, pixel) in group.as_chunks_mut::<PIXEL>().0.iter_mut().enumerate() {
            let (of_pixel, slot) = self.place(at / BLOCK_PIXELS, at % BLOCK_PIXELS);
            if of_pixel == place {
                pixel.copy_from_slice(&cell[slot..slot + PIXEL]);
            }
        }
    }
}

/// A picture of three octets a pixel, row by row, of which pixels may be missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Raster {
    width: usize,
    height: usize,
    pixels: Vec<[u8; PIXEL]>,
    missing: Vec<bool>,
}

impl Raster {
    /// A whole picture; `None` if the number of octets is not that of the pixels.
    pub fn new(width: usize, height: usize, octets: &[u8]) -> Option<Raster> {
        let (pixels, rest) = octets.as_chunks();
        let fits = rest.is_empty() && pixels.len() == width.checked_mul(height)?;
        fits.then(|| Raster {
            width,
            height,
            pixels: pixels.to_vec(),
            missing: vec![false; pixels.len()],
        })
    }

    /// Its pixels, row by row.
    pub fn pixels(&self) -> &[[u8; PIXEL]] {
        &self.pixels
    }

    /// Missing pixels.
    pub fn missing(&self) -> usize {
        self.missing.iter().filter(|it| **it).count()
    }

    /// Groups of two macroblocks side by side, which is 32 x 16 pixels. Pixels beyond the last whole group are in none.
    pub fn groups(&self) -> usize {
        (self.width / 32) * (self.height / 16)
    }

    /// The place of a pixel of a group in the picture. Blocks 0 to 3 are the first macroblock, in rows.
    fn at(&self, group: usize, block: usize, pixel: usize) -> usize {
        let columns = self.width / 32;
        let x = group % columns * 32 + block / 4 * 16 + block % 2 * 8 + pixel % 8;
        let y = group / columns * 16 + block / 2 % 2 * 8 + pixel / 8;
        y * self.width + x
    }

    /// Loses the cell of a group that is sent at this place.
    pub fn lose(&mut self, order: BlockOrder, group: usize, place: usize) {
        for block in 0..GROUP_BLOCKS {
            for pixel in 0..BLOCK_PIXELS {
                if order.place(block, pixel).0 == place {
                    let at = self.at(group, block, pixel);
                    self.missing[at] = true;
                }
            }
        }
    }

    /// Replaces missing pixels: by the mean of their neighbours above, below, left and right that came, else of the diagonal ones,
    /// else by the pixel of the picture before, else by grey.
    pub fn conceal(&mut self, before: Option<&Raster>) {
        const CROSS: [(isize, isize); 4] = [(0, -1), (0, 1), (-1, 0), (1, 0)];
        const CORNERS: [(isize, isize); 4] = [(-1, -1), (1, -1), (-1, 1), (1, 1)];
        let before = before.filter(|it| it.pixels.len() == self.pixels.len());
        for at in 0..self.pixels.len() {
            if !self.missing[at] {
                continue;
            }
            let found = self.mean(at, &CROSS).or_else(|| self.mean(at, &CORNERS));
            let older = before.map(|it| it.pixels[at]);
            self.pixels[at] = found.or(older).unwrap_or([128; PIXEL]);
        }
        self.missing.fill(false);
    }

    /// The mean of the neighbours that came.
    fn mean(&self, at: usize, around: &[(isize, isize)]) -> Option<[u8; PIXEL]> {
        let (x, y) = (at % self.width, at / self.width);
        let mut sum = [0_u32; PIXEL];
        let mut count = 0;
        for &(dx, dy) in around {
            let (x, y) = (x.checked_add_signed(dx), y.checked_add_signed(dy));
            let (Some(x), Some(y)) = (x, y) else {
                continue;
            };
            let other = y * self.width + x;
            if x >= self.width || y >= self.height || self.missing[other] {
                continue;
            }
            for (sum, &octet) in sum.iter_mut().zip(&self.pixels[other]) {
                *sum += u32::from(octet);
            }
            count += 1;
        }
        (count > 0).then(|| sum.map(|sum| ((sum + count / 2) / count) as u8))
    }

    /// Peak signal-to-noise ratio to a picture of the same size, in dB; infinite if they are equal.
    pub fn psnr(&self, other: &Raster) -> f64 {
        let square = |(a, b): (&u8, &u8)| u64::from(a.abs_diff(*b)).pow(2);
        let octets = |it: &Raster| it.pixels.as_flattened().to_vec();
        let (a, b) = (octets(self), octets(other));
        let sum: u64 = a.iter().zip(&b).map(square).sum();
        let mean = sum as f64 / a.len().max(1) as f64;
        10.0 * (255.0 * 255.0 / mean).log10()
    }
}

/// The order in which slices of a picture are sent, so that a burst damages slices that are not neighbours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceInterleaver {
    /// The slice that is sent at each place.
    order: Vec<u16>,
    guarantee: usize,
}

impl SliceInterleaver {
    /// An order of this number of slices: slice j is sent at place j s modulo their number, with the step s that keeps the longest
    /// bursts apart.
    pub fn new(slices: u16) -> SliceInterleaver {
        let steps = 1..slices.max(2);
        let orders = steps.filter_map(|step| Self::with_step(slices, step));
        let best =
            orders.max_by_key(|it| (it.guarantee, std::cmp::Reverse(it.order.get(1).copied())));
        best.unwrap_or_else(|| SliceInterleaver {
            order: (0..slices).collect(),
            guarantee: usize::from(slices.min(1)),
        })
    }

    fn with_step(slices: u16, step: u16) -> Option<SliceInterleaver> {
        let count = usize::from(slices);
        let mut order = vec![u16::MAX; count];
        for slice in 0..slices {
            let place = usize::from(slice) * usize::from(step) % count;
            if order[place] != u16::MAX {
                return None;
            }
            order[place] = slice;
        }
        // Places of slices that are neighbours are this far apart at least.
        let mut places = vec![0; count];
        for (place, &slice) in order.iter().enumerate() {
            places[usize::from(slice)] = place;
        }
        let apart = places
            .windows(2)
            .map(|pair| pair[0].abs_diff(pair[1]))
            .min();
        Some(SliceInterleaver {
            guarantee: apart.unwrap_or(count),
            order,
        })
    }

    /// The slice that is sent at each place.
    pub fn order(&self) -> &[u16] {
        &self.order
    }

    /// Slices of a burst at most that are never neighbours.
    pub fn guarantee(&self) -> usize {
        self.guarantee
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Stream;

    use super::*;

    fn group() -> [u8; GROUP_OCTETS] {
        let mut random = Stream::new(1, "group");
        std::array::from_fn(|_| random.below(256) as u8)
    }

    #[test]
    fn what_was_spread_is_gathered() {
        let group = group();
        for order in [BlockOrder::Scan, BlockOrder::Interleaved] {
            let cells = order.spread(&group);
            let mut found = [0; GROUP_OCTETS];
            for (place, cell) in cells.iter().enumerate() {
                order.gather(place, cell, &mut found);
            }
            assert!(found == group);
        }
        // A block is 1536 bits, four cells.
        assert_eq!(BLOCK_PIXELS * PIXEL * 8, 1536);
        assert_eq!(BlockOrder::Scan.place(1, 0), (4, 0));
    }

    /// Pixels of each block in the cells of a burst.
    fn lost(
        order: BlockOrder,
        places: impl Iterator<Item = usize>,
    ) -> [[bool; BLOCK_PIXELS]; GROUP_BLOCKS] {
        let mut lost = [[false; BLOCK_PIXELS]; GROUP_BLOCKS];
        for place in places {
            for (block, pixels) in lost.iter_mut().enumerate() {
                for (pixel, is_lost) in pixels.iter_mut().enumerate() {
                    *is_lost |= order.place(block, pixel).0 == place;
                }
            }
        }
        lost
    }

    /// Whether two missing pixels of a block are neighbours, in rows and columns, and with diagonals.
    fn adjacent(order: BlockOrder, burst: usize) -> (bool, bool) {
        let mut found = (false, false);
        for begin in 0..GROUP_CELLS {
            let places = (begin..begin + burst).map(|it| it % GROUP_CELLS);
            for block in lost(order, places) {
                let all: Vec<usize> = (0..BLOCK_PIXELS).filter(|&it| block[it]).collect();
                for (number, &a) in all.iter().enumerate() {
                    for &b in &all[..number] {
                        let (dx, dy) = ((a % 8).abs_diff(b % 8), (a / 8).abs_diff(b / 8));
                        found.0 |= dx + dy == 1;
                        found.1 |= dx.max(dy) == 1;
                    }
                }
            }
        }
        found
    }

    #[test]
    fn a_cell_has_two_pixels_of_each_block_and_bursts_of_seven_leave_all_neighbours() {
        for place in 0..GROUP_CELLS {
            for block in lost(BlockOrder::Interleaved, std::iter::once(place)) {
                let rows: Vec<usize> = (0..BLOCK_PIXELS)
                    .filter(|&it| block[it])
                    .map(|it| it / 8)
                    .collect();
                assert_eq!(rows.len(), 2);
                assert_eq!(rows[1] - rows[0], 4);
            }
        }
        for burst in 1..=SAFE_BURST {
            assert_eq!(
                adjacent(BlockOrder::Interleaved, burst),
                (false, false),
                "{burst}"
            );
        }
        assert_eq!(adjacent(BlockOrder::Interleaved, 8), (false, true));
        assert!(adjacent(BlockOrder::Interleaved, 9).0);
        // In scan order one cell is 16 pixels in two rows of one block.
        assert!(adjacent(BlockOrder::Scan, 1).0);
        let one = lost(BlockOrder::Scan, std::iter::once(1));
        assert_eq!(one[0][16..32], [true; 16]);
    }

    #[test]
    fn missing_pixels_are_replaced_by_neighbours_then_by_what_was_before() {
        let octets: Vec<u8> = (0..32 * 16)
            .flat_map(|at| [(at % 32) as u8 * 4; 3])
            .collect();
        let whole = Raster::new(32, 16, &octets).expect("a picture");
        assert_eq!(whole.groups(), 1);
        let mut damaged = whole.clone();
        damaged.lose(BlockOrder::Interleaved, 0, 5);
        assert_eq!(damaged.missing(), 16);
        damaged.conceal(None);
        // The brightness is linear: inside, the mean of the neighbours is exact.
        assert!(damaged.psnr(&whole) > 50.0);
        assert_eq!(damaged.missing(), 0);
        let mut gone = whole.clone();
        for place in 0..GROUP_CELLS {
            gone.lose(BlockOrder::Scan, 0, place);
        }
        let mut old = gone.clone();
        old.conceal(Some(&whole));
        assert_eq!(old.psnr(&whole), f64::INFINITY);
        gone.conceal(None);
        assert!(gone.pixels().iter().all(|pixel| *pixel == [128; 3]));
        assert_eq!(Raster::new(2, 2, &[0; 11]), None);
    }

    #[test]
    fn a_burst_of_slices_has_no_neighbours() {
        for slices in 0..=175_u16 {
            let interleaver = SliceInterleaver::new(slices);
            let order = interleaver.order();
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..slices).collect::<Vec<_>>());
            for burst in order.windows(interleaver.guarantee().clamp(1, usize::from(slices).max(1)))
            {
                for (number, &a) in burst.iter().enumerate() {
                    assert!(
                        burst[..number].iter().all(|&b| a.abs_diff(b) > 1),
                        "{slices}: {burst:?}"
                    );
                }
            }
        }
        // 1152 rows have 72 slices.
        let guarantee = SliceInterleaver::new(72).guarantee();
        assert!(guarantee >= 30, "{guarantee}");
    }
}
