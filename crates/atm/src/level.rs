use layercast_core::Span;

/// Number of delay levels of a port (Table 4-2 of the thesis, specs/insane-study.md 2.2).
pub(crate) const LEVELS: usize = 4;

/// Bounds of the levels in cell times.
pub(crate) const LEVEL_CELLS: [u64; LEVELS] = [16, 32, 64, 128];

/// Longest time from the eligibility of a cell of this level to the end of its transmission; higher numbers mean the
/// last level.
pub(crate) fn level_bound(level: u8, cell_time: Span) -> Span {
    let index = usize::from(level).min(LEVELS - 1);
    cell_time.times(LEVEL_CELLS[index])
}
