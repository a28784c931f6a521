//! Ranges of numbers in a scenario of layered flows, for the checks and the JSON Schema.

/// Longest name, in characters: in UTF-8 it fits into the 256 bytes of the session protocol.
pub const MOST_NAME: usize = 64;
/// Longest title of a scenario, and longest name of a branch or of a flow of an internetwork, in characters.
pub const MOST_TITLE: usize = 140;
/// Largest spare rate of a link that fits a flow, as a fraction.
pub const MOST_SPARE: f64 = 1_000.0;
/// Largest headroom of a declared rate, as a fraction.
pub const MOST_HEADROOM: f64 = 10.0;
/// Highest frame rate, in frames per second.
pub const MOST_FRAMES: f64 = 1_000.0;
/// Largest fixed margin of the jitter filter, in mean deviations.
pub const MOST_MARGIN: f64 = 100.0;
/// Most stalls of a receiver per second and flow.
pub const MOST_STALLS: f64 = 1_000.0;
/// Largest queue in cells: a typing error must not exhaust the memory.
pub const MOST_QUEUED: u64 = 1 << 20;
