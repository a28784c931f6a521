use serde::Serialize;

/// What the viewer of the video, the transfers and the program got.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct JitterReport {
    /// Frames that were shown.
    pub frames: u32,
    /// Longest time between two frames.
    pub max_period_ms: f64,
    /// Shortest time between two frames.
    pub min_period_ms: f64,
    /// Variance of the time between two frames, in ms².
    pub variance_ms2: f64,
    /// Variance of the time between two frames at the network interface, in ms².
    pub network_variance_ms2: f64,
    /// Frames that were complete more than a period after they were sent.
    pub missed: u32,
    /// Packets of the transfers in a second.
    pub transfer_packets_per_s: f64,
    /// Share of the processor that the program had; null without one.
    pub program_share: Option<f64>,
    /// Longest time that the program waited for the processor, in ms; null without one.
    pub program_starved_ms: Option<f64>,
    /// Mean time from the adapter to the code of a client, in us.
    pub delivery_mean_us: f64,
    /// Its standard deviation.
    pub delivery_sd_us: f64,
    /// Share of the time that the network was busy.
    pub network_load: f64,
    /// Packets that the driver delivered.
    pub delivered: u64,
    /// Of these, packets that it copied.
    pub copied: u64,
    /// Packets that it dropped.
    pub dropped: u64,
}

/// Times between values.
pub(super) fn periods(times_ms: &[f64]) -> Vec<f64> {
    times_ms.windows(2).map(|it| it[1] - it[0]).collect()
}
