//! What a transport can tell, so that one monitor serves all of them (specs/user-to-user-qos.md 2.7).

use serde::Serialize;

/// Where round trips come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RttSource {
    /// A token that the peer returns.
    Echo,
    /// A time stamp that the peer returns.
    Timestamp,
    /// The acknowledgement of data.
    Ack,
    /// Nowhere.
    None,
}

/// How the transport learns of losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReport {
    /// The peer tells what it has beyond a gap.
    ReceivedSpans,
    /// What is missing is known, here or from the peer.
    MissingList,
    /// The peer tells only up to where it has everything.
    Cumulative,
    /// Not at all.
    None,
}

/// What sequence numbers count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeqUnit {
    /// Octets.
    Byte,
    /// Packets.
    Packet,
    /// Data units of the user, such as frames.
    Sdu,
}

/// The properties of a transport that a monitor has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Descriptor {
    /// Its name.
    pub name: &'static str,
    /// Where round trips come from.
    pub rtt_source: RttSource,
    /// A packet can ask for an immediate answer.
    pub ack_on_request: bool,
    /// How losses become known.
    pub loss_report: LossReport,
    /// What sequence numbers count.
    pub seq_unit: SeqUnit,
    /// Damaged packets are counted apart from lost ones.
    pub checksum_visible: bool,
    /// Packets carry when they left.
    pub one_way_clock: bool,
    /// Events of a data packet at most, at its sender.
    pub events_per_packet: u8,
}

impl Descriptor {
    /// XTP 4.0: SREQ and echo, ECNTL with spans.
    pub const XTP: Descriptor = Descriptor {
        name: "xtp",
        rtt_source: RttSource::Echo,
        ack_on_request: true,
        loss_report: LossReport::ReceivedSpans,
        seq_unit: SeqUnit::Byte,
        checksum_visible: true,
        one_way_clock: false,
        events_per_packet: 5,
    };
    /// TCP: acknowledgements, SACK.
    pub const TCP: Descriptor = Descriptor {
        name: "tcp",
        rtt_source: RttSource::Ack,
        ack_on_request: false,
        loss_report: LossReport::ReceivedSpans,
        seq_unit: SeqUnit::Byte,
        checksum_visible: false,
        one_way_clock: false,
        events_per_packet: 4,
    };
    /// METS: stamps of the source in each packet, gaps by frame.
    pub const METS: Descriptor = Descriptor {
        name: "mets",
        rtt_source: RttSource::None,
        ack_on_request: false,
        loss_report: LossReport::MissingList,
        seq_unit: SeqUnit::Sdu,
        checksum_visible: true,
        one_way_clock: true,
        events_per_packet: 2,
    };
    /// Partial order connections: acknowledged data units.
    pub const PARTIAL_ORDER: Descriptor = Descriptor {
        name: "partial_order",
        rtt_source: RttSource::Ack,
        ack_on_request: false,
        loss_report: LossReport::Cumulative,
        seq_unit: SeqUnit::Sdu,
        checksum_visible: true,
        one_way_clock: false,
        events_per_packet: 3,
    };
    /// The architecture QoS-A, whose flows METS carries: rates and delays by stamps, no list of losses.
    pub const QOS_A: Descriptor = Descriptor {
        name: "qos_a",
        loss_report: LossReport::None,
        ..Descriptor::METS
    };
    /// Reliable multicast: receivers report lists of missing packets.
    pub const RMTP: Descriptor = Descriptor {
        name: "rmtp",
        rtt_source: RttSource::Timestamp,
        ack_on_request: true,
        loss_report: LossReport::MissingList,
        seq_unit: SeqUnit::Packet,
        checksum_visible: false,
        one_way_clock: false,
        events_per_packet: 2,
    };
    /// Datagrams: sizes only.
    pub const UDP: Descriptor = Descriptor {
        name: "udp",
        rtt_source: RttSource::None,
        ack_on_request: false,
        loss_report: LossReport::None,
        seq_unit: SeqUnit::Packet,
        checksum_visible: false,
        one_way_clock: false,
        events_per_packet: 1,
    };
    /// All, in the order of their numbers in an event of the opening, which begin with 1.
    pub const ALL: [Descriptor; 7] = [
        Descriptor::XTP,
        Descriptor::TCP,
        Descriptor::METS,
        Descriptor::PARTIAL_ORDER,
        Descriptor::QOS_A,
        Descriptor::RMTP,
        Descriptor::UDP,
    ];

    /// Its number in an event; 0: none.
    pub fn number(&self) -> u32 {
        let place = Descriptor::ALL.iter().position(|it| it == self);
        place.map_or(0, |place| place as u32 + 1)
    }

    /// The descriptor of a number, if there is one.
    pub fn of(number: u32) -> Option<&'static Descriptor> {
        Descriptor::ALL.get((number as usize).checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::QosTransport;

    use super::*;

    #[test]
    fn numbers_name_descriptors() {
        for descriptor in &Descriptor::ALL {
            assert_eq!(Descriptor::of(descriptor.number()), Some(descriptor));
        }
        assert_eq!((Descriptor::of(0), Descriptor::of(u32::MAX)), (None, None));
        for (transport, descriptor) in [
            (QosTransport::Xtp, &Descriptor::XTP),
            (QosTransport::Tcp, &Descriptor::TCP),
            (QosTransport::Mets, &Descriptor::METS),
            (QosTransport::PartialOrder, &Descriptor::PARTIAL_ORDER),
            (QosTransport::Multicast, &Descriptor::RMTP),
            (QosTransport::Udp, &Descriptor::UDP),
        ] {
            assert_eq!(Descriptor::of(transport as u32), Some(descriptor));
        }
    }
}
