//! Reports PDUs to an observer.

use layercast_core::{FlowId, Observer, Subject, Time, TraceEvent};

/// A PDU sent or received; reads only the header.
pub(crate) fn packet<O: Observer>(
    datagram: &[u8],
    sent: bool,
    machine: &'static str,
    now: Time,
    obs: &mut O,
) {
    if !obs.enabled() || datagram.len() < crate::pdu::HEADER {
        return;
    }
    let word = |at: usize| u32::from_be_bytes(datagram[at..at + 4].try_into().expect("four bytes"));
    let what = match datagram[0] & 0x0f {
        1 => "data",
        2 => "ack_req",
        3 => "ack_res",
        4 => "fnack",
        5 => "open",
        6 => "open_ack",
        7 => "close",
        8 => "close_ack",
        9 => "gone",
        10 => "reject",
        _ => "retry",
    };
    let numbered = datagram[0] & 0x0f <= 4 && datagram.len() >= 16;
    let number = if numbered { u64::from(word(12)) } else { 0 };
    let flow = FlowId(u16::from_be_bytes([datagram[2], datagram[3]]).into());
    let bytes = datagram.len() as u32;
    obs.on(now, subject(machine), || TraceEvent::Packet {
        flow,
        sent,
        what,
        number,
        bytes,
    });
}

/// A machine of this crate.
pub(crate) fn subject(machine: &'static str) -> Subject<'static> {
    Subject {
        node: "partial-order",
        machine,
    }
}
