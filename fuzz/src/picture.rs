//! AAL5+: whatever packets are sent come out again, and whatever cells come the receiver stays well.

use layercast_core::{DataClass, Span, Time};
use layercast_picture::{
    Aal5Plus, Aal5PlusConfig, Aal5PlusReceiver, CELL_FILE_HEADER, CELL_RECORD, CellDatagram,
    CellFileHeader, MarkedCell, Mode, OnLoss, ReceiverConfig,
};
use layercast_wire::{Cell, OneCell, Pti};

const PACKET: usize = 188;
/// Octets of the input for a cell: what it is, its class and length of pause, and 48 octets.
const CELL: usize = 50;

/// Octets as packets of a transport stream, and as cells.
pub fn aal5_plus(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    for mode in [Mode::Separate, Mode::Mark] {
        packets(rest, 1 + first % 15, mode);
    }
    cells(rest);
}

fn packets(data: &[u8], group: u8, mode: Mode) {
    let config = Aal5PlusConfig {
        group,
        mode,
        ..Aal5PlusConfig::default()
    };
    let mut sender = Aal5Plus::new(config).expect("a good configuration");
    let mut receiver = Aal5PlusReceiver::new(ReceiverConfig {
        mode,
        ..ReceiverConfig::default()
    });
    let mut sent = Vec::new();
    for packet in data.as_chunks::<PACKET>().0 {
        let mut packet = *packet;
        packet[0] = 0x47;
        sender.push(Time::ZERO, &packet).expect("aligned");
        sent.push(packet);
    }
    sender.flush();
    while let Some(cell) = sender.poll_cell() {
        receiver.on_cell(Time::ZERO, &cell);
    }
    receiver.finish();
    let found: Vec<[u8; PACKET]> = std::iter::from_fn(|| receiver.poll_packet()).collect();
    assert!(found == sent);
}

fn cells(data: &[u8]) {
    let mut receiver = Aal5PlusReceiver::new(ReceiverConfig {
        on_loss: OnLoss::NullPacket,
        ..ReceiverConfig::default()
    });
    let mut now = Time::ZERO;
    let mut count = 0;
    for octets in data.as_chunks::<CELL>().0 {
        let [what, class, payload @ ..] = octets;
        let mut cell = Cell {
            vpi: 0,
            vci: 64,
            pti: Pti::new(what >> 5),
            clp: false,
            payload: *payload,
        };
        // What a hostile sender can send: the CRC is right.
        if what & 1 != 0 {
            let mut octets = [0; 40];
            octets.copy_from_slice(&payload[..40]);
            let frame = OneCell {
                octets,
                uu: payload[40],
                cpi: payload[41],
            };
            cell.payload = frame.to_cell(0, 64).payload;
        }
        now += Span::from_ms(u64::from(class >> 2));
        let class = DataClass::of_rank(*class);
        receiver.on_cell(now, &MarkedCell { cell, class });
        while receiver.poll_packet().is_some() {
            count += 1;
        }
    }
    receiver.finish();
    while receiver.poll_packet().is_some() {
        count += 1;
    }
    let stats = receiver.stats();
    assert_eq!(stats.packets + stats.damaged_packets, count);
    assert!(count <= 15 * (data.len() / CELL) as u64);
}

/// A file of cells, and a datagram of them: the header, then what a receiver with its parities makes of the cells.
pub fn cell_file(data: &[u8]) {
    if let Ok(datagram) = CellDatagram::parse(data) {
        assert!(datagram.cells().count() <= data.len() / 53);
    }
    let Ok(header) = CellFileHeader::decode(data) else {
        return;
    };
    assert_eq!(header.encode(0)[..15], data[..15]);
    let Ok(mut receiver) = header.receiver(ReceiverConfig::default()) else {
        return;
    };
    let mut now = Time::ZERO;
    for cell in CellFileHeader::cells(&data[CELL_FILE_HEADER..]) {
        let Ok((at, cell)) = cell else { continue };
        assert_eq!(CellFileHeader::record(at, &cell.cell).len(), CELL_RECORD);
        now = now.max(Time::ZERO + Span::from_ps(at.as_ps() % (1 << 50)));
        receiver.on_timeout(now);
        receiver.on_cell(now, &cell);
        while receiver.poll_packet().is_some() {}
    }
    receiver.finish();
}
