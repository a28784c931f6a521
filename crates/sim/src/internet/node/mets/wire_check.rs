//! `wire_check`: every PDU and signal goes through its bytes at every hop.

use layercast_repair::Head;
use layercast_wire::{Carriage, LinkPdu, Signal, decode_datagram};

/// Encodes and decodes the PDU; `None` if it does not come back as it was.
pub fn pdu(carriage: Carriage, pdu: &LinkPdu) -> Option<LinkPdu> {
    let mut bytes = Vec::with_capacity(pdu.encoded_len());
    pdu.encode_into(&mut bytes);
    let mut decoded = None;
    let congestion = carriage == Carriage::Datagrams && pdu.congestion();
    decode_datagram(carriage, bytes.into(), congestion, &mut |pdu| {
        decoded = Some(pdu)
    })
    .ok()?;
    decoded.filter(|decoded| decoded == pdu)
}

/// Encodes and decodes the header of a link with repair; `None` if it does not come back as it was.
pub fn head(head: &Head) -> Option<Head> {
    let mut bytes = Vec::new();
    head.encode_into(&mut bytes);
    let (decoded, rest) = Head::decode(&bytes).ok()?;
    (decoded == *head && rest.is_empty()).then_some(decoded)
}

/// Encodes and decodes the signal, and gives its octets; `None` if it does not come back as it was.
pub fn signal(signal: &Signal) -> Option<usize> {
    let line = signal.to_line().ok()?;
    let text = line.strip_suffix(b"\n").unwrap_or(&line);
    let decoded = Signal::from_line(text).ok()?;
    (decoded == *signal).then_some(line.len())
}
