use super::residual;

/// Efficiency of a transport that stalls for `window` packets at each loss, like a TCP with only a timer, with blocks
/// of `n + m` (specs/packet-level-fec.md 2.6).
pub fn tcp_efficiency(n: usize, m: usize, e: f64, window: f64) -> f64 {
    share(n, m) / (residual(n, m, e) * window + 1.0)
}

/// Efficiency of a transport with selective acknowledgements, which stalls only if a repair is lost as well.
pub fn sack_efficiency(n: usize, m: usize, e: f64, window: f64) -> f64 {
    let left = residual(n, m, e);
    share(n, m) / (left * left * window + 1.0)
}

/// Share of source packets among all packets.
fn share(n: usize, m: usize) -> f64 {
    n as f64 / (n + m) as f64
}
