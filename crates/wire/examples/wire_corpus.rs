//! Writes the seeds of the fuzz corpus: valid PDUs, and each with one thing wrong.
//!
//! `cargo run -p layercast-wire --example wire_corpus -- fuzz/corpus`

use std::fs;
use std::io;
use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use layercast_core::{Level, Serial};
use layercast_wire::{
    AdapterKind, Cell, FrameType, LinkPdu, Mark, MetsPacket, ParityTable, Payload, Run, Segmenter,
};

#[path = "../tests/all/samples/frm.rs"]
mod frm;
#[path = "../tests/all/samples/internet.rs"]
mod internet;
#[path = "../tests/all/samples/rmtp.rs"]
mod rmtp;
#[path = "../tests/all/samples/pdus.rs"]
mod samples;
#[path = "../tests/all/samples/signals.rs"]
mod signals;
#[path = "../tests/all/samples/xtp.rs"]
mod xtp;

fn main() -> io::Result<()> {
    let Some(root) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("usage: wire_corpus DIRECTORY"));
    };
    let put = |target: &str, name: &str, bytes: &[u8]| {
        let folder = root.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), bytes)
    };
    for (name, bytes) in with_damage(mets_packets().iter().map(|(n, p)| (*n, packet_bytes(p)))) {
        put("mets", &name, &bytes)?;
        put("datagram", &name, &[&[1], &bytes[..]].concat())?;
    }
    let adapters = [
        ("res", samples::adapter(AdapterKind::Res, Level::FULL)),
        ("adapt", samples::adapter(AdapterKind::Adapt, Level::BASE)),
    ];
    for (name, bytes) in with_damage(adapters.iter().map(|(n, m)| (*n, m.encode().to_vec()))) {
        put("adapter", &name, &bytes)?;
        put("datagram", &name, &[&[1], &bytes[..]].concat())?;
    }
    for (name, packet) in mets_packets() {
        for (mark, choice) in [(Mark::Last, 0), (Mark::First, 1)] {
            let Ok(cells) = Segmenter::mets(&packet, 0, 100, mark) else {
                continue;
            };
            let cells: Vec<Cell> = cells.collect();
            let name = format!("{name}-{choice}");
            put("aal5", &name, &stream(choice, cells.iter()))?;
            put(
                "aal5",
                &format!("{name}-lost"),
                &stream(choice, cells.iter().skip(1)),
            )?;
            let twice = cells.iter().rev().skip(1).rev().chain(&cells);
            put("aal5", &format!("{name}-merged"), &stream(choice, twice))?;
            let datagram = cells.iter().take(3).flat_map(|cell| cell.encode());
            let datagram: Vec<u8> = std::iter::once(0).chain(datagram).collect();
            put("datagram", &format!("cells-{name}"), &datagram)?;
        }
    }
    let mut cells: Vec<_> = adapters.iter().map(|(n, m)| (*n, m.to_cell())).collect();
    if let Ok(mut media) = Segmenter::mets(&mets_packets()[0].1, 3, 40_001, Mark::Last) {
        cells.extend(media.next().map(|cell| ("media", cell)));
    }
    for (name, bytes) in with_damage(cells.iter().map(|(n, c)| (*n, c.encode().to_vec()))) {
        put("cell", &name, &bytes)?;
    }
    for (name, bytes) in with_damage(parities().into_iter()) {
        put("parity", &name, &bytes)?;
    }
    let packets = internet::packets();
    for (name, bytes) in with_damage(packets.iter().map(|(n, p)| (*n, internet::bytes(p)))) {
        put("ip", &name, &bytes)?;
        put("segment", &name, &bytes[bytes.len().min(20)..])?;
    }
    let (packets, rest) = xtp::packets();
    let packets = packets.iter().chain(&rest);
    for (name, bytes) in with_damage(packets.map(|(n, p)| (*n, xtp::bytes(p)))) {
        put("xtp", &name, &bytes)?;
    }
    let seeds = rmtp::seeds();
    for (name, bytes) in with_damage(seeds.iter().map(|(n, b)| (n.as_str(), b.clone()))) {
        put("rmtp", &name, &bytes)?;
    }
    let packets = frm::golden();
    for (name, bytes) in with_damage(packets.iter().map(|(n, _, p)| (*n, frm::bytes(p)))) {
        put("frm", &name, &bytes)?;
    }
    let mut all = Vec::new();
    for signal in signals::signals() {
        let line = signal.to_line().map_err(io::Error::other)?;
        put("signal", &kind(&line), &line)?;
        all.extend_from_slice(&line);
    }
    put("signal", "all", &all)?;
    put("signal", "unknown", b"{\"type\":\"route\",\"to\":3}\n")?;
    put("signal", "deep", &b"[".repeat(300))
}

/// What the line of a session message says that it is.
fn kind(line: &[u8]) -> String {
    let mut words = line.split(|&byte| byte == b'"');
    let kind = words.nth(3).unwrap_or_default();
    String::from_utf8_lossy(kind).into_owned()
}

fn mets_packets() -> [(&'static str, MetsPacket); 4] {
    let text = Payload::Bytes(Bytes::from_static(b"the quick brown fox"));
    [
        ("bl", samples::packet(FrameType::BL, text.clone())),
        (
            "e1-fragment",
            samples::fragment(FrameType::E1, 100, 50, Payload::Zeros(30)),
        ),
        (
            "e2-last",
            samples::fragment(FrameType::E2, 5_000, 4_981, text),
        ),
        (
            "probe",
            samples::packet(FrameType::PROBE, Payload::Zeros(1)),
        ),
    ]
}

/// Tables of parities, each with a little behind it.
fn parities() -> [(&'static str, Vec<u8>); 2] {
    let run = |seq, offset, count| Run {
        seq: Serial(seq),
        offset,
        count,
    };
    let part = [run(240, 6_498, 6)];
    let frames = [run(u32::MAX, 2_166, 1), run(11, 0, 2), run(23, 0, 1)];
    [("part", &part[..]), ("frames", &frames[..])].map(|(name, runs)| {
        let mut out = BytesMut::new();
        ParityTable::put(1_083, runs, &mut out);
        out.extend_from_slice(b"\x00\x00\x00\x09\x06\x06\x02\x01parity");
        (name, out.to_vec())
    })
}

fn packet_bytes(packet: &MetsPacket) -> Vec<u8> {
    let mut out = Vec::new();
    LinkPdu::Mets(packet.clone()).encode_into(&mut out);
    out
}

/// PTI and payload of each cell, after the octet that chooses the mark.
fn stream<'a>(choice: u8, cells: impl Iterator<Item = &'a Cell>) -> Vec<u8> {
    let mut out = vec![choice];
    for cell in cells {
        out.push(cell.pti.code());
        out.extend_from_slice(&cell.payload);
    }
    out
}

/// Each PDU whole, cut short, and with its fourth octet (version or flags) wrong.
fn with_damage<'a>(
    pdus: impl Iterator<Item = (&'a str, Vec<u8>)>,
) -> impl Iterator<Item = (String, Vec<u8>)> {
    pdus.flat_map(|(name, bytes)| {
        let short = bytes[..bytes.len() / 2].to_vec();
        let mut wrong = bytes.clone();
        wrong[3] ^= 0x81;
        [
            (name.to_owned(), bytes),
            (format!("{name}-short"), short),
            (format!("{name}-wrong"), wrong),
        ]
    })
}
