//! Reliable multicast in the forms of the papers: decoding anything gives a packet or an error, and a packet comes
//! back as it was.

use bytes::Bytes;
use layercast_wire::multicast::frm::{FRM_HEADER, FRM_VERSION, FrmPacket};
use layercast_wire::multicast::manifest::Manifest;
use layercast_wire::multicast::rmtp::{RmtpForm, RmtpLink, RmtpPacket};
use layercast_wire::multicast::{
    Body, Content, MemberId, Object, Open, PACKET_HEADER, PACKET_VERSION, Packet, Terms,
};

/// The engine's own form: octets as they are, and with version and checksum put right.
pub fn group(data: &[u8]) {
    group_survives(data);
    let mut data = data.to_vec();
    if data.len() >= PACKET_HEADER {
        data[0] = PACKET_VERSION;
        data[4..8].fill(0);
        let sum = crc32fast::hash(&data);
        data[4..8].copy_from_slice(&sum.to_be_bytes());
        group_survives(&data);
    }
}

fn group_survives(data: &[u8]) {
    let Ok(packet) = Packet::decode(&Bytes::copy_from_slice(data)) else {
        return;
    };
    let mut out = Vec::new();
    packet.encode_into(&mut out);
    assert_eq!(out.len(), packet.encoded_len());
    assert_eq!(out, data);
}

/// The manifest of a transfer: what is read is written again as the same octets.
pub fn manifest(data: &[u8]) {
    if let Ok(manifest) = Manifest::decode(data) {
        assert_eq!(manifest.encode(), data);
        for (at, _) in manifest.files() {
            assert!(!manifest.path(at).is_empty());
        }
    }
}

/// RMTP: the first octet chooses the form. Octets as they are, and with the length put right.
pub fn rmtp(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let form = RmtpForm::ALL[usize::from(choice) % RmtpForm::ALL.len()];
    rmtp_survives(form, data);
    let mut data = data.to_vec();
    if let Ok(len) = u16::try_from(data.len())
        && data.len() >= 4
    {
        data[2..4].copy_from_slice(&len.to_be_bytes());
        rmtp_survives(form, &data);
    }
}

fn rmtp_survives(form: RmtpForm, data: &[u8]) {
    let Ok(packet) = RmtpPacket::decode(form, Bytes::copy_from_slice(data)) else {
        return;
    };
    let mut out = Vec::new();
    packet.encode_into(form, &mut out).expect("it was one");
    // A list in order needs no more symbols than before.
    assert!(out.len() == packet.encoded_len(form) && out.len() <= data.len());
    assert_eq!(RmtpPacket::decode(form, out.into()), Ok(packet));
    rmtp_is_heard(form, data);
}

/// FRM: octets as they are, and with version and length put right.
pub fn frm(data: &[u8]) {
    frm_survives(data);
    let mut data = data.to_vec();
    if let Ok(len) = u16::try_from(data.len())
        && data.len() >= FRM_HEADER
    {
        data[0] = FRM_VERSION;
        data[2..4].copy_from_slice(&len.to_be_bytes());
        frm_survives(&data);
    }
}

fn frm_survives(data: &[u8]) {
    let Ok(packet) = FrmPacket::decode(Bytes::copy_from_slice(data)) else {
        return;
    };
    let mut out = Vec::new();
    packet.encode_into(&mut out).expect("it was one");
    assert_eq!(out, data);
}

/// The engine's announcement of an object of this number of octets, in the terms of RMTP.
pub fn rmtp_open(size: u64, packet_size: u16) -> Body {
    Body::Open(Box::new(Open {
        stamp: 5,
        packet_size,
        min_release: 0,
        terms: Terms {
            content: Content::Ranges,
            in_order: false,
            unasked: true,
            goodbye: true,
            spread_us: 1_500,
            data_wait_ms: 2_000,
            sender_wait_ms: 60_000,
            counters: 7,
        },
        object: Some(Object {
            size,
            block: 1,
            scheme: 0,
            digest: [7; 32],
            name: Bytes::from_static(b"news"),
        }),
        proof: None,
    }))
}

/// What a server and a receiver of the engine hear, in the middle of connection 7.
fn rmtp_is_heard(form: RmtpForm, data: &[u8]) {
    let mut server = RmtpLink::server(form, 7);
    let mut receiver = RmtpLink::receiver(form);
    let open = Packet {
        session: 7,
        body: rmtp_open(90, 4),
    };
    let mut bytes = Vec::new();
    server.encode(&open, &mut bytes).expect("it can be said");
    receiver
        .decode(MemberId(1), bytes.into())
        .expect("it was said");
    for link in [&mut server, &mut receiver] {
        for packet in link
            .decode(MemberId(1), Bytes::copy_from_slice(data))
            .unwrap_or_default()
        {
            packet.encode_into(&mut Vec::new());
        }
    }
}
