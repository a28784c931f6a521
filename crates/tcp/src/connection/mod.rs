//! One connection: what it knows, and what its user asks of it. Segments come in `input`, go out
//! in `output`; time passes in `timers`.
//!
//! Numbers are 64-bit offsets in the stream of each direction: SYN is 0, data start at 1, FIN
//! follows the last byte. Only segments have 32-bit sequence numbers, so nothing here wraps.

mod ack;
mod by_time;
mod input;
mod output;
mod probe;
mod prr;
mod rack;
mod timers;
mod trial;

use core::net::SocketAddrV4;
use std::sync::Arc;

use layercast_core::{Serial, Time, prefetch_between};
use layercast_wire::{Payload, TcpFlags, TcpSegment};

use super::congestion::Congestion;
use super::ecn::Marks;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::ticks::Ticks;
use super::{Failure, TcpConfig, TcpCounts, TcpError, TcpInfo};
use layercast_bytestream::Chain;
use layercast_bytestream::Reassembly;

pub(crate) use input::{Outcome, reset_for};
pub(crate) use probe::Measured;
use prr::Prr;
use rack::Rack;
use trial::Trial;

/// What all connections of a host share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) config: Arc<TcpConfig>,
    pub(crate) slow: Ticks,
    pub(crate) fast: Option<Ticks>,
}

/// State of a connection (RFC 9293 3.3.2); LISTEN is the endpoint's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// SYN sent.
    SynSent,
    /// SYN received, ours not acknowledged.
    SynReceived,
    /// Open in both directions.
    Established,
    /// We closed; our FIN is not acknowledged.
    FinWait1,
    /// We closed and the peer knows it.
    FinWait2,
    /// The peer closed.
    CloseWait,
    /// Both closed simultaneously.
    Closing,
    /// The peer closed, then we did.
    LastAck,
    /// Both closed; old segments may still come.
    TimeWait,
    /// Over.
    Closed,
}

impl State {
    /// The name as RFC 9293 writes it.
    pub const fn name(self) -> &'static str {
        match self {
            State::SynSent => "SYN-SENT",
            State::SynReceived => "SYN-RECEIVED",
            State::Established => "ESTABLISHED",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::CloseWait => "CLOSE-WAIT",
            State::Closing => "CLOSING",
            State::LastAck => "LAST-ACK",
            State::TimeWait => "TIME-WAIT",
            State::Closed => "CLOSED",
        }
    }

    /// Whether both sides know each other's SYN.
    pub(crate) fn is_synchronized(self) -> bool {
        !matches!(self, State::SynSent | State::SynReceived | State::Closed)
    }
}

/// The four numbers that name a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    pub(crate) local: SocketAddrV4,
    pub(crate) remote: SocketAddrV4,
}

/// The timers of a connection; each on a tick of its host.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Timers {
    /// Retransmission.
    pub(crate) rexmt: Alarm,
    /// Window probe.
    pub(crate) persist: Alarm,
    /// Delayed acknowledgement.
    pub(crate) delack: Alarm,
    /// Establishment, FIN-WAIT-2 or TIME-WAIT takes too long.
    pub(crate) life: Alarm,
    /// Losses that show later, or a probe (RACK-TLP).
    pub(crate) rack: Alarm,
}

/// When a timer is due, if it runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Alarm(Time);

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm::OFF
    }
}

impl Alarm {
    pub(crate) const OFF: Alarm = Alarm(Time::MAX);

    pub(crate) const fn at(time: Time) -> Alarm {
        Alarm(time)
    }

    #[inline]
    pub(crate) fn is_off(self) -> bool {
        self == Alarm::OFF
    }

    #[inline]
    pub(crate) fn time(self) -> Option<Time> {
        (!self.is_off()).then_some(self.0)
    }

    /// Turns it off if it is due; whether it was.
    pub(crate) fn rings(&mut self, now: Time) -> bool {
        let due = self.0 <= now && !self.is_off();
        if due {
            *self = Alarm::OFF;
        }
        due
    }
}

/// Events already reported to the user, so that each is reported once.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Notified {
    pub(crate) readable: bool,
    pub(crate) end: bool,
    pub(crate) closed: bool,
    /// The user has read since the window was last looked at.
    pub(crate) read: bool,
    /// The user wrote more than fitted and waits.
    pub(crate) wants_room: bool,
}

/// What both directions need is between what only one needs: in a simulator of many thousand connections each line of the
/// caches is a load from memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Connection {
    // What we receive.
    last_challenge: Option<Time>,
    rcv: Chain,
    /// The largest segment seen: full ones are acknowledged two at a time.
    rcv_mss: u64,
    fin_at: Option<u64>,
    reassembly: Reassembly,
    /// What came twice, and is to be reported (RFC 2883).
    duplicate: Option<(u64, u64)>,

    // Both ways.
    /// Next offset expected: the end of `rcv`, or one more after FIN.
    rcv_nxt: u64,
    /// Right edge of the advertised window.
    rcv_adv: u64,
    rcv_acked: u64,
    last_heard: Time,
    ts_recent_at: Time,
    pub(crate) timers: Timers,
    /// What happened to it since the endpoint last looked, if anything did.
    outcome: Option<Outcome>,
    pub(crate) counts: TcpCounts,
    una: u64,
    nxt: u64,
    max: u64,
    wnd: u64,
    max_wnd: u64,
    /// Offsets of the segment that last updated the window.
    wl: (u64, u64),
    mss: u64,
    pub(crate) key: Key,
    iss: Serial,
    irs: Serial,
    ts_recent: u32,
    ts_offset: u32,
    dups: u32,
    pub(crate) state: State,
    /// Came from a listener.
    pub(crate) passive: bool,
    /// The user has closed the connection: received data are no longer read.
    pub(crate) abandoned: bool,
    pub(crate) notified: Notified,
    rcv_scale: u8,
    snd_scale: u8,
    fin_queued: bool,
    recovering: bool,
    /// What was sent before a time-out may be sent again; a recovery after that ends it.
    timed_out: bool,
    /// A partial acknowledgement came in this recovery (RFC 6582).
    partial: bool,
    rescued: bool,

    // Options in force.
    scaling: bool,
    stamps: bool,
    sack: bool,

    // What is due.
    ack_now: bool,
    /// A window probe is due.
    force: bool,
    /// The segment at `una` is due again, whatever the window says.
    front: bool,
    /// This burst began with nothing unacknowledged: Nagle lets all of it go (4.4BSD-Lite).
    idle_burst: bool,
    snd: Chain,

    // What we send.
    congestion: Congestion,
    rtt: Rtt,
    /// The segment being timed: its offset, and the tick it left at.
    timing: Option<(u64, u64)>,
    /// Fast recovery ends here; none begins before.
    recover: u64,
    scoreboard: Scoreboard,
    /// Highest offset sent again in this recovery; `rescued`: whether the rescue was used (RFC 6675 4).
    resent: u64,
    pub(crate) marks: Marks,
    /// Of the recovery at hand, with a variant that reduces its window step by step.
    prr: Option<Prr>,
    /// When segments were sent, with RACK-TLP.
    rack: Option<Box<Rack>>,
    /// Of a time-out that may be spurious.
    trial: Option<Box<Trial>>,
}

impl Connection {
    /// An active open: SYN is due.
    pub(crate) fn connect(host: &Host, now: Time, key: Key, iss: Serial, ts_offset: u32) -> Self {
        let config = &host.config;
        let wanted_scale = if config.window_scaling {
            config.window_scale()
        } else {
            0
        };
        Connection {
            key,
            state: State::SynSent,
            passive: false,
            abandoned: false,
            notified: Notified::default(),
            timers: Timers {
                life: Alarm::at(now.saturating_add(config.connect_timeout)),
                ..Timers::default()
            },
            outcome: None,
            counts: TcpCounts::default(),
            iss,
            una: 0,
            nxt: 0,
            max: 0,
            wnd: 0,
            max_wnd: 0,
            wl: (0, 0),
            snd: Chain::new(1),
            snd_scale: 0,
            fin_queued: false,
            mss: u64::from(config.mss),
            congestion: Congestion::new(config),
            rtt: Rtt::new(config),
            timing: None,
            dups: 0,
            recover: 0,
            recovering: false,
            timed_out: false,
            partial: false,
            scoreboard: Scoreboard::default(),
            resent: 0,
            marks: Marks::new(config.ecn),
            prr: None,
            rack: None,
            trial: None,
            rescued: false,
            irs: Serial(0),
            rcv: Chain::new(1),
            rcv_nxt: 0,
            rcv_adv: 0,
            rcv_acked: 0,
            rcv_scale: wanted_scale,
            rcv_mss: 0,
            reassembly: Reassembly::default(),
            duplicate: None,
            fin_at: None,
            last_heard: now,
            last_challenge: None,
            scaling: config.window_scaling,
            stamps: config.timestamps,
            sack: config.sack,
            ts_recent: 0,
            ts_recent_at: now,
            ts_offset,
            ack_now: false,
            force: false,
            front: false,
            idle_burst: false,
        }
    }

    /// A passive open that answers `syn`: SYN and ACK are due.
    pub(crate) fn accept(
        host: &Host,
        now: Time,
        key: Key,
        (iss, ts_offset): (Serial, u32),
        syn: &TcpSegment,
    ) -> Self {
        let mut connection = Connection::connect(host, now, key, iss, ts_offset);
        connection.passive = true;
        connection.state = State::SynReceived;
        connection.learn(host, now, syn);
        connection
    }

    /// Prefetches what a segment with data needs, or one that only acknowledges.
    #[inline]
    pub(crate) fn prepare(&self, has_data: bool) {
        match has_data {
            true => prefetch_between(&self.rcv, &self.snd),
            false => prefetch_between(&self.rcv_nxt, &self.resent),
        }
    }

    /// As before the first sample.
    pub(crate) fn forget_round_trips(&mut self, host: &Host) {
        self.rtt = Rtt::new(&host.config);
    }

    /// Takes as much of `data` as there is room for; gives how much.
    pub(crate) fn write(&mut self, host: &Host, data: &Payload) -> Result<usize, TcpError> {
        if self.fin_queued || self.state == State::Closed {
            return Err(TcpError::Shut);
        }
        let taken = self.room_to_write(host).min(data.len());
        self.snd.push(data.slice(0..taken));
        self.notified.wants_room = taken < data.len();
        Ok(taken)
    }

    /// Takes up to `max` bytes that arrived; `None` if there are none now.
    pub(crate) fn read(&mut self, max: usize) -> Option<Payload> {
        let taken = self.rcv.pop(max);
        self.notified.read |= taken.is_some();
        if self.rcv.is_empty() {
            self.notified.readable = false;
        }
        taken
    }

    /// Forgets what arrived; gives how many bytes.
    pub(crate) fn discard(&mut self) -> usize {
        let count = self.rcv.len();
        self.rcv.clear();
        self.notified.read |= count > 0;
        self.notified.readable = false;
        count
    }

    /// Bytes that can be read, and whether the end of the stream follows them.
    #[inline]
    pub(crate) fn available(&self) -> (usize, bool) {
        (self.rcv.len(), self.peer_closed())
    }

    /// Whether there may be an event for the user; a cheap check.
    #[inline]
    pub(crate) fn has_news(&self, host: &Host) -> bool {
        let unread = !self.notified.readable && !self.rcv.is_empty();
        unread || self.wants_to_write(host) || (!self.notified.end && self.fin_at.is_some())
    }

    /// Whether the user waits for room, and there is enough to wake him: a third of the buffer.
    #[inline]
    pub(crate) fn wants_to_write(&self, host: &Host) -> bool {
        let enough = || 3 * self.room_to_write(host) >= host.config.send_buffer as usize;
        self.notified.wants_room && enough()
    }

    /// Whether nothing happened to it, which was in state `before`, but data and acknowledgements.
    #[inline]
    pub(crate) fn is_unchanged(&self, before: State) -> bool {
        self.state == before && self.outcome.is_none() && !self.is_done()
    }

    /// Takes what happened.
    pub(crate) fn take_outcome(&mut self) -> Outcome {
        self.outcome.take().unwrap_or_default()
    }

    /// Something happens that the endpoint has to know.
    fn outcome(&mut self) -> &mut Outcome {
        self.outcome.get_or_insert_default()
    }

    /// Whether nothing goes over it any more, in either direction.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, State::TimeWait | State::Closed)
    }

    /// Nothing more will be written.
    pub(crate) fn shutdown(&mut self) {
        if self.fin_queued {
            return;
        }
        self.fin_queued = true;
        self.state = match self.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            state => state,
        };
    }

    /// The user is gone: received data will not be read either. `false` if that resets the connection, because
    /// unread data have arrived (RFC 2525, section 2.17).
    pub(crate) fn abandon(&mut self, host: &Host, now: Time) -> bool {
        self.abandoned = true;
        if !self.rcv.is_empty() || !self.reassembly.is_empty() {
            return false;
        }
        self.shutdown();
        if self.state == State::FinWait2 {
            self.timers.life = Alarm::at(now.saturating_add(host.config.fin_wait_2));
        }
        true
    }

    /// The reset that ends the connection on the other side, if it has one.
    pub(crate) fn reset(&mut self) -> Option<TcpSegment> {
        let known = self.state.is_synchronized() || self.state == State::SynReceived;
        let reset = (known && self.state != State::TimeWait).then(|| self.bare_reset());
        self.end();
        reset
    }

    /// Over, without a word to the peer.
    pub(crate) fn end(&mut self) {
        self.state = State::Closed;
        self.timers = Timers::default();
        (self.ack_now, self.force, self.front) = (false, false, false);
        self.snd.clear();
        self.scoreboard.clear();
        self.reassembly = Reassembly::default();
    }

    pub(crate) fn fail(&mut self, why: Failure) {
        self.outcome().failure = Some(why);
        self.end();
    }

    /// A snapshot for the curious.
    pub(crate) fn info(&self, host: &Host) -> TcpInfo {
        TcpInfo {
            state: self.state,
            local: self.key.local,
            remote: self.key.remote,
            cwnd: self.congestion.cwnd(),
            ssthresh: self.congestion.ssthresh(),
            flight: self.max - self.una,
            acknowledged: self.una.min(self.snd.end()).saturating_sub(1),
            peer_window: self.wnd,
            mss: self.mss as u16,
            srtt: host
                .slow
                .span(1)
                .mul_div(u64::from(self.rtt.srtt_eighths()), 8),
            rto: host.slow.span(u64::from(self.rtt.rto())),
            unsent: self.snd.end().saturating_sub(self.max),
            unread: self.rcv.len() as u64,
            timestamps: self.stamps,
            sack: self.sack,
            ecn: self.marks.in_use && self.state.is_synchronized(),
            memory: self.memory(),
        }
    }

    /// Bytes of memory behind it, without the data it holds.
    fn memory(&self) -> usize {
        size_of::<Connection>()
            + self.snd.memory()
            + self.rcv.memory()
            + self.reassembly.memory()
            + self.scoreboard.memory()
            + self.memory_of_times()
    }

    /// The end of what was received in order.
    pub(super) fn received(&self) -> u64 {
        self.rcv_nxt
    }

    /// Bytes from there on to the edge of the advertised window.
    pub(super) fn space_advertised(&self) -> i64 {
        self.rcv_adv as i64 - self.rcv_nxt as i64
    }

    /// Whether an acknowledgement is delayed.
    pub(super) fn owes_delayed_ack(&self) -> bool {
        !self.timers.delack.is_off()
    }

    pub(super) fn acknowledge_now(&mut self) {
        self.ack_now = true;
    }

    /// Whether FIN came, with everything before it.
    fn peer_closed(&self) -> bool {
        self.fin_at.is_some_and(|at| self.rcv_nxt > at)
    }

    /// The offset of FIN, once it is known.
    fn fin_offset(&self) -> u64 {
        self.snd.end()
    }

    /// Whether `segment` opens a connection again that waits for nothing but its old segments.
    pub(crate) fn is_reopened_by(&self, segment: &TcpSegment) -> bool {
        let opens = segment.flags.has(TcpFlags::SYN) && !segment.flags.has(TcpFlags::ACK);
        self.state == State::TimeWait && opens && segment.seq.is_after(self.ack())
    }

    /// Bytes that can be written now.
    #[inline]
    pub(crate) fn room_to_write(&self, host: &Host) -> usize {
        (host.config.send_buffer as usize).saturating_sub(self.snd.len())
    }

    fn seq(&self, offset: u64) -> Serial {
        self.iss.plus(offset as u32)
    }

    pub(super) fn ack(&self) -> Serial {
        self.irs.plus(self.rcv_nxt as u32)
    }
}
