//! The committed fuzz corpus, replayed on the stable tool chain.

use bytes::Bytes;
use layercast_wire::multicast::Packet;
use layercast_wire::multicast::frm::FrmPacket;
use layercast_wire::multicast::manifest::Manifest;
use layercast_wire::multicast::rmtp::{RmtpForm, RmtpPacket};
use layercast_wire::{
    AdapterMsg, Carriage, Cell, Ipv4Packet, MetsPacket, ParityTable, PolicerMsg, SignalReader,
    XtpPacket, decode_datagram,
};

use crate::wire_checks as checks;
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;
use crate::internet_checks as internet;
use crate::multicast_checks as multicast;
use crate::xtp_checks as xtp;

#[test]
fn every_file_of_the_corpus_is_decoded_without_harm() {
    corpus::replay(&[
        ("mets", checks::mets),
        ("adapter", checks::adapter),
        ("cell", checks::cell),
        ("aal5", checks::aal5),
        ("datagram", checks::datagram),
        ("signal", checks::signal),
        ("parity", checks::parity),
        ("policer", checks::policer),
        ("ip", internet::ip),
        ("segment", internet::segment),
        ("xtp", xtp::xtp),
        ("rmtp", multicast::rmtp),
        ("frm", multicast::frm),
        ("group", multicast::group),
        ("manifest", multicast::manifest),
    ]);
}

#[test]
fn the_valid_seeds_of_the_corpus_decode() {
    fn octets(data: &[u8]) -> Bytes {
        Bytes::copy_from_slice(data)
    }
    let datagram: corpus::Decodes = |data| {
        let (choice, rest) = data.split_first().expect("the carriage");
        let carriage = match choice & 1 {
            0 => Carriage::Cells,
            _ => Carriage::Datagrams,
        };
        decode_datagram(carriage, octets(rest), false, &mut |_| {}).is_ok()
    };
    let rmtp: corpus::Decodes = |data| {
        let (choice, rest) = data.split_first().expect("the form");
        let form = RmtpForm::ALL[usize::from(*choice) % RmtpForm::ALL.len()];
        RmtpPacket::decode(form, octets(rest)).is_ok()
    };
    let signal: corpus::Decodes = |data| {
        let mut reader = SignalReader::default();
        reader.push(data);
        core::iter::from_fn(|| reader.poll()).all(|signal| signal.is_ok())
    };
    corpus::valid_seeds_decode(&[
        ("mets", &[], |it| {
            MetsPacket::decode(octets(it), false).is_ok()
        }),
        ("adapter", &[], |it| AdapterMsg::decode(it).is_ok()),
        ("cell", &[], |it| Cell::decode(it).is_ok()),
        ("datagram", &[], datagram),
        ("parity", &[], |it| ParityTable::decode(&octets(it)).is_ok()),
        ("policer", &["probe"], |it| PolicerMsg::decode(it).is_ok()),
        ("signal", &["all", "advertise", "join", "hello"], signal),
        ("ip", &[], |it| Ipv4Packet::decode(octets(it)).is_ok()),
        ("xtp", &[], |it| XtpPacket::decode(octets(it)).is_ok()),
        ("rmtp", &[], rmtp),
        ("frm", &[], |it| FrmPacket::decode(octets(it)).is_ok()),
        ("group", &[], |it| Packet::decode(&octets(it)).is_ok()),
        ("manifest", &["empty", "file", "tree"], |it| {
            Manifest::decode(it).is_ok()
        }),
    ]);
}
