use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use layercast_core::{Span, Time};

use super::ecn::Echo;

/// A threshold that is never reached: slow start until the first loss.
pub(crate) const INFINITE: u64 = 1 << 30;
/// RFC 3465 2.2: what an acknowledgement adds in slow start at most, in segments.
const SLOW_START_LIMIT: u8 = 2;

/// What an acknowledgement of new data tells congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When it came.
    pub now: Time,
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Bytes that were unacknowledged before.
    pub flight: u64,
    /// Smoothed round trip.
    pub srtt: Span,
    /// The round trip that this acknowledgement showed, if it did, in whole ticks of the clock of the host.
    pub rtt: Option<Span>,
}

/// Congestion window and slow-start threshold of a connection, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    cwnd: u64,
    ssthresh: u64,
    mss: u64,
    /// Largest congestion window.
    most: u64,
    /// Slow start repairs what a time-out left.
    after_timeout: bool,
    /// Segments that an acknowledgement adds in slow start at most, and by how much less than it covers.
    slow_start: (u8, u8),
}

impl Window {
    pub(crate) fn new(mss: u64, most: u64) -> Window {
        Window {
            cwnd: mss,
            ssthresh: INFINITE,
            mss,
            most,
            after_timeout: false,
            slow_start: (SLOW_START_LIMIT, 1),
        }
    }

    /// The congestion window.
    #[inline]
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// The slow-start threshold.
    #[inline]
    pub fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// A full segment.
    #[inline]
    pub fn mss(&self) -> u64 {
        self.mss
    }

    /// Sets the congestion window, to one segment at least.
    #[inline]
    pub fn set_cwnd(&mut self, cwnd: u64) {
        self.cwnd = cwnd.max(self.mss);
    }

    /// Opens the congestion window, up to the largest that the connection may have.
    #[inline]
    pub fn grow(&mut self, bytes: u64) {
        self.cwnd = (self.cwnd + bytes).min(self.most);
    }

    /// Sets the threshold, to two segments at least (RFC 5681, equation 4).
    pub fn set_ssthresh(&mut self, ssthresh: u64) {
        self.ssthresh = ssthresh.max(2 * self.mss);
    }

    /// Below the threshold the window grows by the bytes acknowledged: at most by two segments for each acknowledgement
    /// (RFC 3465 2.2), by one after a time-out (2.3). Returns the bytes that count for congestion avoidance.
    #[inline]
    pub fn slow_start(&mut self, bytes: u64) -> u64 {
        if self.cwnd >= self.ssthresh {
            self.after_timeout = false;
            return bytes;
        }
        let (segments, divisor) = match self.after_timeout {
            true => (1, 1),
            false => self.slow_start,
        };
        let counted = bytes.min(u64::from(segments) * self.mss) / u64::from(divisor);
        let grown = counted.min(self.ssthresh - self.cwnd);
        self.grow(grown);
        counted - grown
    }

    /// From now on an acknowledgement adds `most` segments in slow start at most, and one of `divisor` parts of what it covers.
    pub(crate) fn slow_start_by(&mut self, most: u8, divisor: u8) {
        self.slow_start = (most, divisor);
    }

    /// As RFC 3465 has it.
    pub(crate) fn standard_slow_start(&mut self) {
        self.slow_start = (SLOW_START_LIMIT, 1);
    }

    pub(crate) fn set_mss(&mut self, mss: u64) {
        self.mss = mss;
    }

    pub(crate) fn scale_most(&mut self, scale: u8) {
        if self.most < INFINITE {
            self.most <<= scale;
        }
    }

    pub(crate) fn on_timeout(&mut self) {
        self.cwnd = self.mss;
        self.after_timeout = true;
    }
}

/// Congestion control of one connection: how the window grows, and what a loss leaves of it.
///
/// It decides on the window alone. What is lost and what is sent again is decided by
/// [the variant](crate::Variant), which also ends recovery with the window at the threshold. It has no clock: time comes
/// with each acknowledgement.
pub trait CongestionControl: fmt::Debug + Send + Sync {
    /// New data were acknowledged outside of recovery, and the window was in use.
    fn on_ack(&mut self, window: &mut Window, acked: &Acked);

    /// A loss was noticed, by duplicate acknowledgements or by a time-out, with `flight` bytes unacknowledged: sets the
    /// threshold.
    fn on_loss(&mut self, window: &mut Window, flight: u64);

    /// Marks were echoed for the first time in this window, with `flight` bytes unacknowledged (RFC 3168 6.1.2): sets the
    /// threshold, which the window is set to.
    fn on_mark(&mut self, window: &mut Window, flight: u64) {
        self.on_loss(window, flight);
    }

    /// New data were acknowledged over a connection with ECN, in recovery or not; before [`on_mark`](Self::on_mark).
    fn on_echo(&mut self, echo: &Echo) {
        let _ = echo;
    }

    /// After a time-out; the window is one segment.
    fn on_timeout(&mut self) {}

    /// The connection was idle for longer than a time-out; the window is at most the initial one (RFC 5681 4.1).
    fn on_idle(&mut self) {}
}

/// Makes the congestion control of each new connection.
#[derive(Clone)]
pub struct ControlFactory(Arc<Make>);

type Make = dyn Fn() -> Box<dyn CongestionControl> + Send + Sync + UnwindSafe + RefUnwindSafe;

impl ControlFactory {
    /// Connections have what `make` returns.
    pub fn new<C: CongestionControl + 'static>(
        make: impl Fn() -> C + Send + Sync + UnwindSafe + RefUnwindSafe + 'static,
    ) -> ControlFactory {
        ControlFactory(Arc::new(move || Box::new(make())))
    }

    pub(crate) fn make(&self) -> Box<dyn CongestionControl> {
        (self.0)()
    }
}

impl fmt::Debug for ControlFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.make().fmt(f)
    }
}

/// The same factory.
impl PartialEq for ControlFactory {
    fn eq(&self, other: &ControlFactory) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// RFC 5681: a segment for each window of bytes acknowledged (RFC 3465 2.1), and half after a loss.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Reno {
    /// Bytes acknowledged since the window grew last.
    acked: u64,
}

impl CongestionControl for Reno {
    #[inline]
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        self.acked += window.slow_start(acked.bytes);
        if self.acked >= window.cwnd {
            self.acked -= window.cwnd;
            window.grow(window.mss);
        }
    }

    fn on_loss(&mut self, window: &mut Window, flight: u64) {
        self.acked = 0;
        window.set_ssthresh(flight / 2);
    }
}
