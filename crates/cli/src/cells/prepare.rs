//! `layercast prepacketize`: a transport stream as a file of cells.

use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use layercast_core::{CELL_BITS, Span, Time};
use layercast_media::TS_PACKET;
use layercast_picture::{
    Aal5PlusConfig, CELL_FILE_HEADER, CELL_RECORD, CellFileHeader, CellPace, Mode, ParityConfig,
    Prepared,
};
use layercast_wire::{Carriage, Interface, LinkPdu, PcapNg};
use serde::Serialize;

use super::args::Prepacketize;
use super::{classes, partial, tell};
use crate::args::Via;
use crate::failure::{Failure, Outcome};
use crate::output::{count, unwritten};
use crate::{output, probe, signals};

/// First octet of a packet of a transport stream.
const SYNC: u8 = 0x47;
/// Windows of the highest rate.
const WINDOW: Span = Span::from_ms(40);

/// What was prepared.
#[derive(Debug, Serialize)]
struct Report {
    /// Packets of the stream.
    packets: u64,
    /// Cells of classes S, I, P and B.
    cells: [u64; 4],
    /// Cells of headers of packets, among those of class S.
    header_cells: u64,
    /// Cells of parities, among those of class S.
    parity_cells: u64,
    /// Cells above those of classical AAL5, in percent.
    overhead_percent: f64,
    /// Time from the first cell to the last one.
    seconds: f64,
    /// Mean rate of the cells.
    mean_bps: u64,
    /// Highest rate of 40 ms.
    peak_bps: u64,
    /// Octets of the file.
    bytes_written: u64,
}

/// Runs the command.
pub fn run(args: &Prepacketize) -> Outcome {
    signals::exit_on_first()?;
    let outputs: Vec<&Path> = [Some(args.out.as_path()), args.pcap.as_deref()]
        .into_iter()
        .flatten()
        .collect();
    output::check(Some(&args.file), &outputs)?;
    let data = probe::read_bytes(&args.file, false, Via::None)?;
    let parity = args.parity.map(|(code, rows, columns)| ParityConfig {
        code,
        rows,
        columns,
        ..ParityConfig::default()
    });
    let config = Aal5PlusConfig {
        group: args.group,
        mode: if args.mark {
            Mode::Mark
        } else {
            Mode::Separate
        },
        parity,
        ..Aal5PlusConfig::default()
    };
    let smoothing = args.smooth.into();
    let pace = args
        .fast_start
        .map_or(CellPace::Clock(smoothing), CellPace::Fast);
    let (packets, rest) = packets(&args.file, &data)?;
    let prepared =
        Prepared::of(packets, config, pace).map_err(|error| Failure::of(&args.file, error))?;
    write(output::open(&args.out)?, &prepared).map_err(|error| unwritten(&args.out, &error))?;
    if let Some(path) = &args.pcap {
        capture(output::open(path)?, &prepared).map_err(|error| unwritten(path, &error))?;
    }
    let report = report(&prepared);
    let text = describe(&args.out, &report);
    tell(&outputs, args.json, &report, &text)?;
    let cut = (rest > 0).then(|| {
        let (name, octets) = (args.file.display(), count(rest as u64, "octet"));
        format!("{name}: the file was cut: {octets} behind the last whole packet are left out")
    });
    let missing: Vec<String> = cut.into_iter().collect();
    partial(&missing)
}

/// The packets of a stream, and the octets of one that is cut at its end.
fn packets<'a>(path: &Path, data: &'a [u8]) -> Result<(&'a [[u8; TS_PACKET]], usize), Failure> {
    layercast_media::recognise(data).map_err(|error| Failure::of(path, error))?;
    let (packets, rest) = data.as_chunks();
    // Three, as a classifier that has lost them.
    if packets.is_empty() || packets.iter().take(3).any(|it| it[0] != SYNC) {
        return Err(Failure::of(
            path,
            "no packets of a transport stream, 188 octets each from the first octet on",
        )
        .hint("write it again: ffmpeg -i IN -c copy -f mpegts OUT.ts"));
    }
    Ok((packets, rest.len()))
}

fn write(out: Box<dyn Write>, prepared: &Prepared) -> std::io::Result<()> {
    let mut out = BufWriter::new(out);
    out.write_all(&prepared.header.encode(prepared.cells.len()))?;
    for (at, cell) in &prepared.cells {
        out.write_all(&CellFileHeader::record(*at, &cell.cell))?;
    }
    out.flush()
}

fn capture(out: Box<dyn Write>, prepared: &Prepared) -> std::io::Result<()> {
    let mut pcap = PcapNg::new(BufWriter::new(out))?;
    let nobody = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let interface = pcap.add_interface(Interface {
        name: "cells".to_owned(),
        description: "cells of a file, at their times".to_owned(),
        carriage: Carriage::Cells,
        source: nobody,
        destination: nobody,
        snap_len: 0,
    })?;
    for (at, cell) in &prepared.cells {
        pcap.write(interface, Time::ZERO + *at, &LinkPdu::Cell(cell.cell))?;
    }
    pcap.finish()?.flush()
}

fn report(prepared: &Prepared) -> Report {
    let stats = prepared.stats;
    let cells = &prepared.cells;
    let length = cells.last().map_or(Span::ZERO, |(at, _)| *at);
    let bits = cells.len() as u64 * CELL_BITS;
    let rate = |bits: u64, time: Span| (bits as f64 / time.as_secs_f64().max(1e-9)) as u64;
    let windows =
        cells.chunk_by(|(a, _), (b, _)| a.as_ps() / WINDOW.as_ps() == b.as_ps() / WINDOW.as_ps());
    let most = windows.map(<[_]>::len).max().unwrap_or(0) as u64;
    Report {
        packets: stats.packets,
        cells: stats.cells,
        header_cells: stats.header_cells,
        parity_cells: stats.parity_cells,
        overhead_percent: 100.0 * (cells.len() as f64 / stats.plain_cells.max(1) as f64 - 1.0),
        seconds: length.as_secs_f64(),
        mean_bps: rate(bits, length),
        peak_bps: rate(most * CELL_BITS, WINDOW),
        bytes_written: (CELL_FILE_HEADER + cells.len() * CELL_RECORD) as u64,
    }
}

fn describe(out: &Path, report: &Report) -> String {
    let total: u64 = report.cells.iter().sum();
    format!(
        "{}\n  {} in {}: {}\n  {} of headers, {} of parities; {:.1} % above classical AAL5\n  {:.1} s, mean {:.2} Mbit/s, highest {:.2} Mbit/s in 40 ms\n",
        out.display(),
        count(report.packets, "packet"),
        count(total, "cell"),
        classes(report.cells),
        report.header_cells,
        report.parity_cells,
        report.overhead_percent,
        report.seconds,
        report.mean_bps as f64 / 1e6,
        report.peak_bps as f64 / 1e6,
    )
}
