//! Reliable multicast in the forms of the papers: decoding anything gives a packet or an error, and a packet comes
//! back as it was.

use bytes::Bytes;
use layercast_wire::multicast::frm::{FRM_HEADER, FRM_VERSION, FrmPacket};
use layercast_wire::multicast::rmtp::{RmtpForm, RmtpPacket};

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
