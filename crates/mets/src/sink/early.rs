use std::collections::VecDeque;

use layercast_core::Time;
use layercast_wire::{FlowInfo, LinkPdu};

/// Most octets and PDUs that are kept: more than a key frame of several megabits, or half a second of 50 Mbit/s.
const MAX_OCTETS: usize = 4 << 20;
const MAX_PDUS: usize = 4_096;

/// Media and ADAPT that overtook the answer to a join: datagrams do not wait for the reliable channel.
#[derive(Default, Debug)]
pub(super) struct Early {
    pdus: VecDeque<(Time, LinkPdu)>,
    octets: usize,
}

impl Early {
    /// Keeps a PDU until the answer comes; `false` if there is no room, or if it is no PDU of `flow`.
    pub fn keep(&mut self, now: Time, flow: &FlowInfo, pdu: LinkPdu) -> bool {
        let ours = match &pdu {
            LinkPdu::Mets(packet) => {
                let header = &packet.header;
                header.flow == flow.id && header.flags.life() == flow.epoch.mark()
            }
            LinkPdu::Adapter(message) => message.flow == flow.id,
            // Which circuit the flow has is in the answer.
            LinkPdu::Cell(_) => true,
        };
        let len = pdu.wire_len();
        let room = self.pdus.len() < MAX_PDUS && self.octets + len <= MAX_OCTETS;
        if ours && room {
            self.octets += len;
            self.pdus.push_back((now, pdu));
        }
        ours && room
    }

    /// The oldest PDU, and when it came.
    pub fn pop(&mut self) -> Option<(Time, LinkPdu)> {
        let (at, pdu) = self.pdus.pop_front()?;
        self.octets -= pdu.wire_len();
        Some((at, pdu))
    }

    /// Gives up what was kept; gives how many PDUs that were.
    pub fn clear(&mut self) -> u64 {
        let count = self.pdus.len() as u64;
        *self = Early::default();
        count
    }
}
