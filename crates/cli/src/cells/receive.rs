//! `layercast receive-cells`: cells of a file or of the network as a transport stream.

use std::io::{self, BufWriter, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Instant;

use layercast_core::{Span, Time};
use layercast_net::NetError;
use layercast_picture::{
    Aal5PlusReceiver, CellDatagram, CellFileHeader, ParityStats, ReceiverConfig, ReceiverStats,
};
use serde::Serialize;

use super::args::ReceiveCells;
use super::{create, read, tell, unwritten};
use crate::failure::{Failure, Outcome};
use crate::line::Line;
use crate::output::{Lines, count};
use crate::signals;

/// Longest wait for a datagram: a signal is noticed after that.
const NAP: Span = Span::from_ms(50);
/// Longest datagram.
const LARGEST: usize = 65_536;
/// A datagram whose number is behind by more than this is not late, but of a sender that began again.
const MOST_LATE: u16 = 1_000;

/// What was received.
#[derive(Debug, Serialize)]
struct Report {
    /// Cells, and the packets in them.
    stream: ReceiverStats,
    /// What the parities did; null without.
    parity: Option<ParityStats>,
    /// Datagrams; null of a file.
    datagrams: Option<Datagrams>,
    /// Octets of the transport stream.
    bytes_written: u64,
}

/// Datagrams of a sender.
#[derive(Clone, Copy, Default, Debug, Serialize)]
struct Datagrams {
    /// Those with cells that were used.
    received: u64,
    /// Missing numbers.
    lost: u64,
    /// Those that came behind a later one, and were not used.
    late: u64,
    /// Those that have no cells, or are of another sender.
    ignored: u64,
}

/// Runs the command.
pub fn run(args: &ReceiveCells) -> Outcome {
    let config = ReceiverConfig {
        on_loss: args.on_loss.into(),
        ..ReceiverConfig::default()
    };
    let mut sink;
    let datagrams = match args.address() {
        None => {
            signals::exit_on_first()?;
            let (header, cells) = read(&args.from)?;
            sink = Sink::new(&args.out)?;
            let mut receiver = receiver(&header, config)?;
            for (at, cell) in &cells {
                receiver.on_timeout(Time::ZERO + *at);
                receiver.on_cell(Time::ZERO + *at, cell);
                sink.drain(&mut receiver)?;
            }
            sink.receiver = Some(receiver);
            None
        }
        Some(address) => {
            sink = Sink::new(&args.out)?;
            Some(listen(args, address, config, &mut sink)?)
        }
    };
    let (receiver, written) = sink.finish()?;
    let report = Report {
        stream: receiver
            .as_ref()
            .map(Aal5PlusReceiver::stats)
            .unwrap_or_default(),
        parity: receiver.as_ref().and_then(Aal5PlusReceiver::parity_stats),
        datagrams,
        bytes_written: written,
    };
    tell(
        Some(&args.out),
        args.json,
        &report,
        &describe(&args.out, &report),
    )?;
    match signals::is_received() {
        true => Err(Failure::Interrupted),
        false => Ok(()),
    }
}

fn receiver(header: &CellFileHeader, config: ReceiverConfig) -> Result<Aal5PlusReceiver, Failure> {
    header.receiver(config).map_err(Failure::new)
}

/// A receiver and the file of its packets.
struct Sink<'a> {
    /// Missing until the first cells say how packets went into them.
    receiver: Option<Aal5PlusReceiver>,
    path: &'a Path,
    out: BufWriter<Box<dyn Write>>,
    written: u64,
}

impl<'a> Sink<'a> {
    fn new(path: &'a Path) -> Result<Sink<'a>, Failure> {
        Ok(Sink {
            receiver: None,
            path,
            out: BufWriter::new(create(path)?),
            written: 0,
        })
    }

    /// Writes the packets that are complete.
    fn drain(&mut self, receiver: &mut Aal5PlusReceiver) -> Outcome {
        while let Some(packet) = receiver.poll_packet() {
            let written = self.out.write_all(&packet);
            written.map_err(|error| unwritten(self.path, &error))?;
            self.written += packet.len() as u64;
        }
        Ok(())
    }

    /// Hands over what is written, so that a player sees it.
    fn flush(&mut self) -> Outcome {
        self.out
            .flush()
            .map_err(|error| unwritten(self.path, &error))
    }

    /// Ends the stream: the receiver, and the octets that were written.
    fn finish(mut self) -> Result<(Option<Aal5PlusReceiver>, u64), Failure> {
        let mut receiver = self.receiver.take();
        if let Some(receiver) = &mut receiver {
            receiver.finish();
            self.drain(receiver)?;
        }
        self.flush()?;
        Ok((receiver, self.written))
    }
}

/// The sender that is heard.
struct Sender {
    ssrc: u32,
    header: CellFileHeader,
    /// Number of the next datagram.
    next: u16,
}

/// Receives until the end.
fn listen(
    args: &ReceiveCells,
    address: SocketAddr,
    config: ReceiverConfig,
    sink: &mut Sink,
) -> Result<Datagrams, Failure> {
    let broken = |error: io::Error| Failure::new(format!("cannot receive at {address}: {error}"));
    let socket =
        UdpSocket::bind(address).map_err(|error| Failure::net(NetError::bind(address, error)))?;
    signals::on_first(|| {})?;
    let local = socket.local_addr().map_err(broken)?;
    match args.json {
        true => Lines::Stderr.write(&Line::Ready {
            node: "cells".to_owned(),
            address: Some(local),
            url: None,
        })?,
        false => eprintln!("receives cells at {local}; stop it with Ctrl-C"),
    }
    let mut sender: Option<Sender> = None;
    let (mut seen, mut buffer) = (Datagrams::default(), vec![0; LARGEST]);
    let begun = Instant::now();
    let now = || Time::ZERO + Span::from_ns(begun.elapsed().as_nanos() as u64);
    let end = args.duration.map(|duration| Time::ZERO + duration);
    while !signals::is_received() && end.is_none_or(|end| now() < end) {
        let due = sink
            .receiver
            .as_ref()
            .and_then(Aal5PlusReceiver::next_timeout);
        let wait = [due, end]
            .into_iter()
            .flatten()
            .map(|due| due.since(now()))
            .fold(NAP, Span::min);
        // Zero would wait without limit.
        let wait = std::time::Duration::from_nanos(wait.as_ns().max(100_000));
        socket.set_read_timeout(Some(wait)).map_err(broken)?;
        let length = match socket.recv(&mut buffer) {
            Ok(length) => Some(length),
            Err(error) if is_transient(&error) => None,
            Err(error) => return Err(broken(error)),
        };
        let now = now();
        if let Some(receiver) = &mut sink.receiver {
            receiver.on_timeout(now);
        }
        if let Some(length) = length {
            match CellDatagram::parse(&buffer[..length]) {
                Ok(datagram) if is_of(sender.as_ref(), &datagram) => {
                    if sink.receiver.is_none() {
                        sink.receiver = Some(receiver(&datagram.header, config)?);
                    }
                    if !in_order(&mut sender, &datagram, &mut seen) {
                        continue;
                    }
                    let cells = datagram.cells();
                    if let Some(receiver) = &mut sink.receiver {
                        cells.for_each(|cell| receiver.on_cell(now, &cell));
                    }
                    if datagram.is_end {
                        break;
                    }
                }
                _ => seen.ignored += 1,
            }
        }
        if let Some(mut receiver) = sink.receiver.take() {
            sink.drain(&mut receiver)?;
            sink.receiver = Some(receiver);
            sink.flush()?;
        }
    }
    Ok(seen)
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(
        error.kind(),
        WouldBlock | TimedOut | Interrupted | ConnectionRefused
    )
}

/// Whether a datagram is of the sender that is heard.
fn is_of(sender: Option<&Sender>, datagram: &CellDatagram) -> bool {
    sender.is_none_or(|it| it.ssrc == datagram.ssrc && it.header == datagram.header)
}

/// Counts what is missing before a datagram; `false` if it came behind a later one: cells of a circuit keep their order.
fn in_order(sender: &mut Option<Sender>, datagram: &CellDatagram, seen: &mut Datagrams) -> bool {
    let seq = datagram.seq;
    let known = sender.get_or_insert(Sender {
        ssrc: datagram.ssrc,
        header: datagram.header,
        next: seq,
    });
    let behind = known.next.wrapping_sub(seq);
    if (1..=MOST_LATE).contains(&behind) {
        seen.late += 1;
        seen.lost = seen.lost.saturating_sub(1);
        return false;
    }
    seen.lost += u64::from(seq.wrapping_sub(known.next));
    seen.received += u64::from(!datagram.is_end);
    known.next = seq.wrapping_add(1);
    true
}

fn describe(out: &Path, report: &Report) -> String {
    let stream = &report.stream;
    let mut text = format!(
        "{}\n  {} in {}; {} damaged; lost: class S {}, pictures {}\n",
        out.display(),
        count(stream.packets, "whole packet"),
        count(stream.cells, "cell"),
        stream.damaged_packets,
        count(stream.lost_system, "cell"),
        count(stream.lost_pictures, "frame"),
    );
    if let Some(parity) = &report.parity {
        text += &format!(
            "  {} brought back by parities\n",
            count(parity.repaired, "cell")
        );
    }
    if let Some(datagrams) = &report.datagrams {
        text += &format!(
            "  {}, {} lost, {} late, {} ignored\n",
            count(datagrams.received, "datagram"),
            datagrams.lost,
            datagrams.late,
            datagrams.ignored
        );
    }
    text
}
