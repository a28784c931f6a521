//! What a protocol tells a QoS monitor: fixed 40 octets, so that it travels through a ring without an allocation.

use core::net::Ipv4Addr;

use crate::{Contract, Parameter, Time};

/// Numbers in [`QosEvent::action`] (specs/user-to-user-qos.md 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum QosAction {
    /// A connection begins; `aux` names the descriptor of its transport.
    Open = 1,
    /// It is over.
    Close = 2,
    /// A packet left.
    Sent = 3,
    /// A packet came.
    Received = 4,
    /// A question left whose answer gives the round trip.
    ProbeStart = 5,
    /// Its answer came.
    ProbeEnd = 6,
    /// The peer says what it has.
    ErrReport = 7,
    /// A value was negotiated.
    ContractSet = 8,
    /// Data went to the user.
    Delivered = 9,
    /// Data were found missing or damaged.
    Dropped = 10,
    /// Data came after their deadline.
    DeadlineMiss = 11,
    /// The ring was full: this many events of the connection were dropped.
    EventsLost = 12,
}

/// Numbers in [`QosEvent::info_type`]: what `a`, `b` and `aux` are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum QosInfo {
    /// Nothing.
    None = 0,
    /// a: bits of the packet, b: bits of all up to it, aux: bits of user data in it.
    Size = 1,
    /// a: a sequence number.
    Seq = 2,
    /// a: token of the probe.
    Rtt = 3,
    /// a: the highest octet sent, b: octets received without a gap, aux: number of spans that follow.
    SpansHead = 4,
    /// Octets received from a up to b.
    Span = 5,
    /// aux: the parameter, a: its value as the bits of an `f64`, in bit/s, seconds or a share.
    Contract = 6,
    /// a: a time in nanoseconds, signed.
    Time = 7,
}

/// Numbers of transports in `aux` of [`QosAction::Open`]: which descriptor a monitor takes (specs/user-to-user-qos.md 2.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum QosTransport {
    /// XTP 4.0.
    Xtp = 1,
    /// TCP.
    Tcp = 2,
    /// Flows of METS.
    Mets = 3,
    /// Partial order connections.
    PartialOrder = 4,
    /// Sessions of reliable multicast.
    Multicast = 6,
    /// Datagrams of UDP.
    Udp = 7,
}

impl QosAction {
    /// The action of a number; `None`: there is none.
    pub const fn of(number: u8) -> Option<QosAction> {
        Some(match number {
            1 => QosAction::Open,
            2 => QosAction::Close,
            3 => QosAction::Sent,
            4 => QosAction::Received,
            5 => QosAction::ProbeStart,
            6 => QosAction::ProbeEnd,
            7 => QosAction::ErrReport,
            8 => QosAction::ContractSet,
            9 => QosAction::Delivered,
            10 => QosAction::Dropped,
            11 => QosAction::DeadlineMiss,
            12 => QosAction::EventsLost,
            _ => return None,
        })
    }
}

impl QosInfo {
    /// The kind of values of a number; `None`: there is none.
    pub const fn of(number: u8) -> Option<QosInfo> {
        Some(match number {
            0 => QosInfo::None,
            1 => QosInfo::Size,
            2 => QosInfo::Seq,
            3 => QosInfo::Rtt,
            4 => QosInfo::SpansHead,
            5 => QosInfo::Span,
            6 => QosInfo::Contract,
            7 => QosInfo::Time,
            _ => return None,
        })
    }
}

/// An event of a connection for a QoS monitor (Zitterbart 1996; specs/user-to-user-qos.md 2.1).
///
/// Any bits are an event: a monitor judges them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct QosEvent {
    /// The connection.
    pub conn: u64,
    /// What happened: a [`QosAction`].
    pub action: u8,
    /// What the values are: a [`QosInfo`].
    pub info_type: u8,
    /// 1: inbound, 2: outbound.
    pub dir: u8,
    /// [`QosEvent::AGAIN`], [`QosEvent::CLOCKS`], [`QosEvent::CHECKSUM`], [`QosEvent::USER`].
    pub flags: u8,
    /// See [`QosInfo`].
    pub aux: u32,
    /// When, by the clock of the producer, in nanoseconds.
    pub t_ns: u64,
    /// See [`QosInfo`].
    pub a: u64,
    /// See [`QosInfo`].
    pub b: u64,
}

const _: () = assert!(size_of::<QosEvent>() == 40);

impl QosEvent {
    /// Words of an event.
    pub const WORDS: usize = 5;
    /// [`QosEvent::dir`]: inbound.
    pub const IN: u8 = 1;
    /// [`QosEvent::dir`]: outbound.
    pub const OUT: u8 = 2;
    /// Flag: the packet was sent before.
    pub const AGAIN: u8 = 1;
    /// Flag: both ends share a clock.
    pub const CLOCKS: u8 = 2;
    /// Flag: dropped for a wrong checksum.
    pub const CHECKSUM: u8 = 4;
    /// Flag: `aux` of a size counts the bits of user data; else the whole packet counts.
    pub const USER: u8 = 8;

    /// The number of a connection between two ports, for a monitor of the host that has the first of them: the peer has the other and this address.
    pub fn connection((own, other): (u16, u16), peer: Ipv4Addr) -> u64 {
        u64::from(own) << 48 | u64::from(other) << 32 | u64::from(u32::from(peer))
    }

    /// An event without values.
    #[inline]
    pub const fn new(conn: u64, action: QosAction, dir: u8, now: Time) -> QosEvent {
        QosEvent {
            conn,
            action: action as u8,
            info_type: QosInfo::None as u8,
            dir,
            flags: 0,
            aux: 0,
            t_ns: now.as_ps() / 1_000,
            a: 0,
            b: 0,
        }
    }

    /// The same with values.
    #[inline]
    pub const fn with(self, info: QosInfo, a: u64, b: u64) -> QosEvent {
        QosEvent {
            info_type: info as u8,
            a,
            b,
            ..self
        }
    }

    /// The same with this `aux`.
    #[inline]
    pub const fn aux(self, aux: u32) -> QosEvent {
        QosEvent { aux, ..self }
    }

    /// The same with these flags, if it is `so`.
    #[inline]
    pub const fn flag(self, flags: u8, so: bool) -> QosEvent {
        QosEvent {
            flags: if so { self.flags | flags } else { self.flags },
            ..self
        }
    }

    /// A packet of `bytes` octets, `user` of them new data, with which `total` octets have been sent or received.
    #[inline]
    pub const fn packet(self, bytes: u64, user: u64, total: u64) -> QosEvent {
        let user = user.saturating_mul(8);
        let user = if user > u32::MAX as u64 {
            u32::MAX
        } else {
            user as u32
        };
        let sized = self.with(
            QosInfo::Size,
            bytes.saturating_mul(8),
            total.saturating_mul(8),
        );
        sized.aux(user).flag(QosEvent::USER, true)
    }

    /// That from `now` on `contract` holds, in place of any that was.
    pub fn agreed(
        conn: u64,
        dir: u8,
        now: Time,
        contract: &Contract,
    ) -> impl Iterator<Item = QosEvent> {
        let event = QosEvent::new(conn, QosAction::ContractSet, dir, now);
        let none = event.with(QosInfo::Contract, 0, 0);
        let numbered = (1..).zip(Parameter::ALL);
        let terms = numbered.filter_map(move |(number, parameter)| {
            let agreed = contract.term(parameter)?.agreed.to_bits();
            Some(event.with(QosInfo::Contract, agreed, 0).aux(number))
        });
        std::iter::once(none).chain(terms)
    }

    /// As words, for a ring.
    #[inline]
    pub const fn words(self) -> [u64; QosEvent::WORDS] {
        let head = self.action as u64
            | (self.info_type as u64) << 8
            | (self.dir as u64) << 16
            | (self.flags as u64) << 24
            | (self.aux as u64) << 32;
        [self.conn, head, self.t_ns, self.a, self.b]
    }

    /// The event of these words.
    #[inline]
    pub const fn from_words([conn, head, t_ns, a, b]: [u64; QosEvent::WORDS]) -> QosEvent {
        QosEvent {
            conn,
            action: head as u8,
            info_type: (head >> 8) as u8,
            dir: (head >> 16) as u8,
            flags: (head >> 24) as u8,
            aux: (head >> 32) as u32,
            t_ns,
            a,
            b,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_keep_every_field(words: [u64; QosEvent::WORDS]) {
            prop_assert_eq!(QosEvent::from_words(words).words(), words);
        }
    }

    #[test]
    fn numbers_name_actions_and_values() {
        let actions = (0..=u8::MAX).filter_map(QosAction::of);
        assert_eq!(
            actions.map(|it| it as u8).collect::<Vec<_>>(),
            (1..=12).collect::<Vec<_>>()
        );
        let infos = (0..=u8::MAX).filter_map(QosInfo::of);
        assert_eq!(
            infos.map(|it| it as u8).collect::<Vec<_>>(),
            (0..=7).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_packet_counts_in_bits() {
        let event = QosEvent::new(7, QosAction::Sent, QosEvent::OUT, Time::from_ps(5_999))
            .packet(100, 80, 1_000);
        assert_eq!(
            (event.a, event.b, event.aux, event.t_ns),
            (800, 8_000, 640, 5)
        );
        assert_eq!(event.flags, QosEvent::USER);
    }
}
