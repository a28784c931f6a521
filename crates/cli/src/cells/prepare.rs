//! `layercast prepacketize`: a transport stream as a file of cells.

use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use layercast_core::{CELL_BITS, Span, Time};
use layercast_picture::{
    Aal5PlusConfig, CELL_FILE_HEADER, CELL_RECORD, CellFileHeader, CellPace, Mode, ParityConfig,
    Prepared,
};
use layercast_wire::{Carriage, Interface, LinkPdu, PcapNg};
use serde::Serialize;

use super::args::Prepacketize;
use super::{classes, create, tell, unwritten};
use crate::args::Via;
use crate::failure::{Failure, Outcome};
use crate::output::count;
use crate::{output, probe, signals};

/// Octets of a packet of a transport stream.
const PACKET: usize = 188;
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
    let prepared = Prepared::of(data.as_chunks::<PACKET>().0, config, pace)
        .map_err(|error| Failure::of(&args.file, error))?;
    write(&args.out, &prepared).map_err(|error| unwritten(&args.out, &error))??;
    if let Some(path) = &args.pcap {
        let file = output::create(path)?;
        capture(file, &prepared).map_err(|error| Failure::file(path, "write", &error))?;
    }
    let report = report(&prepared);
    let text = describe(&args.out, &report);
    tell(Some(&args.out), args.json, &report, &text)
}

fn write(path: &Path, prepared: &Prepared) -> std::io::Result<Outcome> {
    let out = match create(path) {
        Ok(out) => out,
        Err(failure) => return Ok(Err(failure)),
    };
    let mut out = BufWriter::new(out);
    out.write_all(&prepared.header.encode())?;
    for (at, cell) in &prepared.cells {
        out.write_all(&CellFileHeader::record(*at, &cell.cell))?;
    }
    out.flush()?;
    Ok(Ok(()))
}

fn capture(file: std::fs::File, prepared: &Prepared) -> std::io::Result<()> {
    let mut pcap = PcapNg::new(BufWriter::new(file))?;
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
