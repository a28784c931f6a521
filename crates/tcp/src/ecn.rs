//! Explicit congestion notification (RFC 3168), and the echo of each mark that DCTCP needs (RFC 8257).

use layercast_wire::{TcpFlags, TcpSegment};

use super::connection::{Connection, Host};

/// The ECN field of an IP header (RFC 3168 5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotCapable = 0,
    /// ECN-capable, ECT(1).
    Capable1 = 1,
    /// ECN-capable, ECT(0).
    Capable0 = 2,
    /// Congestion experienced.
    Congested = 3,
}

impl Ecn {
    /// The field of a type-of-service byte.
    pub const fn of_tos(tos: u8) -> Ecn {
        match tos & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable1,
            2 => Ecn::Capable0,
            _ => Ecn::Congested,
        }
    }

    /// A type-of-service byte with this field.
    pub const fn in_tos(self, tos: u8) -> u8 {
        tos & !3 | self as u8
    }

    /// Whether a router may mark the packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotCapable)
    }
}

/// Whether a host uses ECN, and what its receivers echo.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum EcnMode {
    /// It neither offers nor accepts it.
    #[default]
    Off,
    /// A mark is echoed until the sender says that it has reduced its window (RFC 3168 6.1.3).
    Classic,
    /// Each mark is echoed once (RFC 8257 3.2). Both hosts of a connection have to do so.
    EachMark,
    /// As [`EachMark`](EcnMode::EachMark), and data are sent as ECT(1): they ask for the low-latency service of L4S
    /// (RFC 9331 4.1), which needs a control that answers marks in proportion.
    L4s,
}

impl EcnMode {
    /// Whether receivers echo each mark once.
    pub const fn echoes_each(self) -> bool {
        matches!(self, EcnMode::EachMark | EcnMode::L4s)
    }

    /// The field of data that may be marked.
    pub(crate) const fn capable(self) -> Ecn {
        match self {
            EcnMode::L4s => Ecn::Capable1,
            EcnMode::Off | EcnMode::Classic | EcnMode::EachMark => Ecn::Capable0,
        }
    }
}

/// What an acknowledgement of new data says of marks, to [congestion control](crate::CongestionControl::on_echo).
#[derive(Clone, Copy, Debug)]
pub struct Echo {
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Whether the acknowledgement has ECE set.
    pub is_marked: bool,
    /// The end of what is acknowledged, as an offset in the stream.
    pub acked: u64,
    /// The end of what was sent.
    pub sent: u64,
}

/// ECN of a connection, both ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    /// No further reduction before this is acknowledged: once in a window.
    pub(crate) reduced: u64,
    /// What has to be acknowledged with the state before `echoes` changed (RFC 8257 3.2), or `NOTHING`.
    before: u64,
    /// In use; before the handshake, wanted.
    pub(crate) in_use: bool,
    /// Acknowledgements carry ECE (DCTCP.CE of RFC 8257).
    pub(crate) echoes: bool,
    /// The next new data carry CWR.
    pub(crate) tells: bool,
    /// The segment that was made last is ECN-capable.
    pub(crate) is_capable: bool,
}

const NOTHING: u64 = u64::MAX;

impl Marks {
    pub(crate) fn new(mode: EcnMode) -> Marks {
        Marks {
            reduced: 0,
            before: NOTHING,
            in_use: mode != EcnMode::Off,
            echoes: false,
            tells: false,
            is_capable: false,
        }
    }

    /// The flags of a SYN (RFC 3168 6.1.1).
    pub(crate) fn on_syn(&self, is_answer: bool) -> TcpFlags {
        match (self.in_use, is_answer) {
            (false, _) => TcpFlags(0),
            (true, false) => TcpFlags::ECE | TcpFlags::CWR,
            (true, true) => TcpFlags::ECE,
        }
    }

    /// The SYN of the peer. Some answer with all reserved bits as they were: then they do not know it.
    pub(crate) fn learn(&mut self, flags: TcpFlags) {
        let has = |flag| flags.has(flag);
        let wants = match has(TcpFlags::ACK) {
            true => has(TcpFlags::ECE) && !has(TcpFlags::CWR),
            false => has(TcpFlags::ECE) && has(TcpFlags::CWR),
        };
        self.in_use &= wants;
    }

    /// The window was reduced for what was sent up to `max`, and the peer is to hear of it. Nothing without ECN.
    pub(crate) fn on_reduction(&mut self, max: u64) {
        if self.in_use {
            (self.reduced, self.tells) = (max, true);
        }
    }

    /// What is acknowledged first, with the opposite of `echoes`.
    #[inline]
    pub(crate) fn take_before(&mut self) -> Option<u64> {
        let before = std::mem::replace(&mut self.before, NOTHING);
        (before != NOTHING).then_some(before)
    }

    /// Whether something is to be acknowledged with the state before.
    #[inline]
    pub(crate) fn has_before(&self) -> bool {
        self.before != NOTHING
    }
}

impl Connection {
    /// Reads the mark of a segment with data.
    #[cold]
    pub(super) fn hear_mark(&mut self, host: &Host, segment: &TcpSegment, ecn: Ecn) {
        let from = i64::from(segment.seq.diff(self.ack()));
        let (len, space) = (segment.payload.len() as i64, self.space_advertised());
        // Marks of what is not in the window, or known already, are ignored (RFC 3168 6.1.5).
        if len == 0 || from + len <= 0 || from >= space || !self.state.is_synchronized() {
            return;
        }
        let is_marked = ecn == Ecn::Congested;
        match host.config.ecn {
            mode if mode.echoes_each() && is_marked != self.marks.echoes => {
                self.marks.echoes = is_marked;
                self.marks.before = match self.owes_delayed_ack() {
                    true => self.received(),
                    false => NOTHING,
                };
                self.acknowledge_now();
            }
            EcnMode::Off | EcnMode::EachMark | EcnMode::L4s => {}
            EcnMode::Classic => {
                self.marks.echoes &= !segment.flags.has(TcpFlags::CWR);
                self.marks.echoes |= is_marked;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_stays_beside_the_rest_of_the_byte() {
        for tos in 0..=255 {
            assert_eq!(Ecn::of_tos(tos).in_tos(tos), tos);
            assert_eq!(Ecn::Congested.in_tos(tos) >> 2, tos >> 2);
        }
    }

    #[test]
    fn only_an_answer_that_knows_ecn_is_one() {
        let answers = |flags: u8| {
            let mut marks = Marks::new(EcnMode::Classic);
            marks.learn(TcpFlags(flags));
            marks.in_use
        };
        let (syn, ack) = (TcpFlags::SYN.0, TcpFlags::ACK.0);
        let (ece, cwr) = (TcpFlags::ECE.0, TcpFlags::CWR.0);
        assert!(answers(syn | ece | cwr) && answers(syn | ack | ece));
        assert!(!answers(syn) && !answers(syn | ack) && !answers(syn | ece));
        assert!(!answers(syn | ack | ece | cwr));
    }
}
