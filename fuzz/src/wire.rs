//! Every PDU: decoding anything gives a value or an error, and a value gives its bytes back.

use bytes::{Bytes, BytesMut};
use layercast_core::CELL_PAYLOAD;
use layercast_wire::{
    AdapterMsg, Carriage, Cell, MAX_CELL_PAYLOAD, Mark, MetsPacket, ParityTable, PolicerMsg, Pti,
    Reassembler, Segmenter, Signal, SignalError, SignalReader, decode_datagram, packet_of,
};

/// A METS packet; if it fits a frame, also its way through cells.
pub fn mets(data: &[u8]) {
    let Ok(packet) = MetsPacket::decode(Bytes::copy_from_slice(data), false) else {
        return;
    };
    let mut out = Vec::new();
    packet.encode_into(&mut out);
    assert_eq!(out, data);
    for mark in [Mark::Last, Mark::First] {
        let Ok(cells) = Segmenter::mets(&packet, 1, 100, mark) else {
            assert!(packet.payload.len() > MAX_CELL_PAYLOAD || mark == Mark::First);
            continue;
        };
        let mut vc = Reassembler::new(mark);
        let mut frames = cells.filter_map(|cell| vc.push(&cell));
        let frame = frames.next().expect("a frame").expect("a good frame");
        assert_eq!(packet_of(frame).as_ref(), Ok(&packet));
        assert!(frames.next().is_none());
    }
}

/// A RES or ADAPT message, also as a cell.
pub fn adapter(data: &[u8]) {
    if let Ok(message) = AdapterMsg::decode(data) {
        assert_eq!(message.encode(), data);
        assert_eq!(AdapterMsg::from_cell(&message.to_cell()), Ok(message));
    }
}

/// A cell, also as a RES or ADAPT message.
pub fn cell(data: &[u8]) {
    if let Ok(cell) = Cell::decode(data) {
        assert_eq!(cell.encode(), data);
        let _ = AdapterMsg::from_cell(&cell);
    }
}

/// What is in a parity of the base layer.
pub fn parity(data: &[u8]) {
    let payload = Bytes::copy_from_slice(data);
    let Ok((table, packet)) = ParityTable::decode(&payload) else {
        return;
    };
    let runs: Vec<_> = table.runs().collect();
    let mut out = BytesMut::new();
    ParityTable::put(table.pitch(), &runs, &mut out);
    out.extend_from_slice(&packet);
    assert_eq!(out, data);
    assert_eq!(table.packets().count(), table.sources());
    assert!((1..=ParityTable::MOST).contains(&table.sources()));
}

/// A message of a policer probe.
pub fn policer(data: &[u8]) {
    if let Ok(message) = PolicerMsg::decode(data) {
        let mut out = Vec::new();
        message.encode(&mut out);
        assert_eq!(out, data);
    }
}

/// A stream of cells: the first byte chooses the mark, then 1 byte PTI and 48 of payload each.
pub fn aal5(data: &[u8]) {
    let Some((&choice, stream)) = data.split_first() else {
        return;
    };
    let mark = if choice & 1 == 0 {
        Mark::Last
    } else {
        Mark::First
    };
    let mut vc = Reassembler::new(mark);
    for chunk in stream.chunks_exact(1 + CELL_PAYLOAD) {
        let mut payload = [0; CELL_PAYLOAD];
        payload.copy_from_slice(&chunk[1..]);
        let cell = Cell {
            vpi: 0,
            vci: 100,
            pti: Pti::new(chunk[0]),
            clp: false,
            payload,
        };
        if let Some(Ok(frame)) = vc.push(&cell) {
            assert!((1..=65_535).contains(&frame.bytes.len()));
            let _ = packet_of(frame);
        }
    }
}

/// A datagram: the first byte chooses the carriage.
pub fn datagram(data: &[u8]) {
    let Some((&choice, datagram)) = data.split_first() else {
        return;
    };
    let carriage = if choice & 1 == 0 {
        Carriage::Cells
    } else {
        Carriage::Datagrams
    };
    let bytes = Bytes::copy_from_slice(datagram);
    for congestion in [true, false] {
        let mut out = Vec::new();
        let result = decode_datagram(carriage, bytes.clone(), congestion, &mut |pdu| {
            let before = out.len();
            pdu.encode_into(&mut out);
            assert_eq!(out.len() - before, pdu.encoded_len());
        });
        match result {
            Ok(()) if !congestion => assert_eq!(out, datagram),
            Ok(()) => assert_eq!(out.len(), datagram.len()),
            Err(_) => assert!(out.is_empty()),
        }
    }
}

/// Lines of the session protocol, whole and in pieces.
pub fn signal(data: &[u8]) {
    let mut whole = SignalReader::default();
    whole.push(data);
    let mut pieces = SignalReader::default();
    let mut chunks = data.chunks(7);
    loop {
        let in_pieces = loop {
            match pieces.poll() {
                Some(result) => break Some(result),
                None => match chunks.next() {
                    Some(chunk) => pieces.push(chunk),
                    None => break None,
                },
            }
        };
        match (whole.poll(), in_pieces) {
            (None, None) => break,
            (Some(Ok(a)), Some(Ok(b))) => {
                assert_eq!(a, b);
                survives(&a);
            }
            (Some(Err(a)), Some(Err(b))) => assert_eq!(a.to_string(), b.to_string()),
            (a, b) => panic!("{a:?} whole, {b:?} in pieces"),
        }
    }
}

fn survives(signal: &Signal) {
    match signal.to_line() {
        Ok(line) => assert_eq!(Signal::from_line(&line).expect("our own line"), *signal),
        // Fields left out come back with their defaults, so a list may outgrow the line.
        Err(SignalError::TooLong) => {}
        Err(error) => panic!("{signal:?} does not encode: {error}"),
    }
}
