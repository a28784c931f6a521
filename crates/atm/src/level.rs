use layercast_core::Span;

/// Delay levels of a port (Table 4-2 of the thesis, specs/insane-study.md 2.2).
pub(crate) const LEVELS: usize = 4;

/// Their bounds in cell times.
pub(crate) const LEVEL_CELLS: [u64; LEVELS] = [16, 32, 64, 128];

/// The longest that a cell of this level waits and is sent once it is eligible; the last level from there on.
pub(crate) fn level_bound(level: u8, cell_time: Span) -> Span {
    let index = usize::from(level).min(LEVELS - 1);
    cell_time.times(LEVEL_CELLS[index])
}
