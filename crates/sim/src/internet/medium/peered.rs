//! What METS nodes send to their neighbours.

use layercast_link::Framed;
use layercast_wire::LinkPdu;

/// A datagram of a METS node to its neighbour; a cell where links carry cells.
#[derive(Clone, Debug)]
pub(crate) enum Peered {
    /// On a link without repair.
    Bare(LinkPdu),
    /// On a link with repair: it has a header, and may have no content.
    Framed(Box<Framed>),
}

impl Peered {
    /// The PDU in it, if there is one.
    pub fn pdu(&self) -> Option<&LinkPdu> {
        match self {
            Peered::Bare(pdu) => Some(pdu),
            Peered::Framed(framed) => framed.pdu(),
        }
    }

    /// Octets that [`encode_into`](Self::encode_into) appends.
    pub fn encoded_len(&self) -> usize {
        match self {
            Peered::Bare(pdu) => pdu.encoded_len(),
            Peered::Framed(framed) => framed.encoded_len(),
        }
    }

    /// Appends it to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        match self {
            Peered::Bare(pdu) => pdu.encode_into(out),
            Peered::Framed(framed) => framed.encode_into(out),
        }
    }
}
