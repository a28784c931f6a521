//! Signalling of the ATM backbone, as captures have it.

use layercast_atm::signal::SignalCell;

/// A cell of a channel between two controllers: decoding anything gives a value or an error, and a value its octets.
pub fn signal(data: &[u8]) {
    let Some(octets) = data.first_chunk() else {
        return;
    };
    if let Ok(cell) = SignalCell::decode(octets) {
        assert_eq!(cell.encode(), *octets);
    }
}
