//! `layercast receive-cells`: cells of a file or of the network as a transport stream.

use std::io::{self, BufWriter, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Instant;

use layercast_core::{Span, Time};
use layercast_net::NetError;
use layercast_picture::{
    Aal5PlusReceiver, CellDatagram, CellFileHeader, MarkedCell, ParityStats, ReceiverConfig,
    ReceiverStats,
};
use serde::Serialize;

use super::args::ReceiveCells;
use super::{partial, read, tell};
use crate::failure::{Failure, Outcome};
use crate::line::Line;
use crate::output::{self, Lines, count, unwritten};
use crate::signals;

/// Longest wait for a datagram: a signal is noticed after that.
const NAP: Span = Span::from_ms(50);
/// Longest datagram.
const LARGEST: usize = 65_536;
/// Another sender is heard after this time without the one before.
const SILENCE: Span = Span::from_secs(1);
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
    let outputs = [args.out.as_path()];
    let mut sink = Sink::new(&args.out);
    let (mut missing, mut heard) = (Vec::new(), None);
    match args.address() {
        None => {
            signals::exit_on_first()?;
            output::check(Some(&args.from), &outputs)?;
            let file = read(&args.from)?;
            // A pause in a file says nothing of what is lost.
            let silence = Span::from_ns(u64::MAX);
            let receiver = file.header.receiver(ReceiverConfig { silence, ..config });
            sink.begin(receiver.map_err(|error| Failure::of(&args.from, error))?)?;
            for (at, cell) in &file.cells {
                sink.take(Time::ZERO + *at, [*cell])?;
            }
            let said = |what| format!("{}: {what}", args.from.display());
            missing.extend(file.missing.map(said));
        }
        Some(address) => {
            output::check(None, &outputs)?;
            heard = Some(listen(args, address, config, &mut sink)?);
        }
    }
    sink.finish()?;
    let datagrams = heard.map(|it| it.datagrams);
    let report = Report {
        stream: sink.stream,
        parity: sink.parity,
        datagrams,
        bytes_written: sink.written,
    };
    let text = describe(&args.out, &report);
    tell(&outputs, args.json, &report, &text)?;
    if signals::is_received() {
        return Err(Failure::Interrupted);
    }
    if report.stream.cells == 0 {
        let what = match args.address() {
            Some(address) => format!("no cells came at {address}"),
            None => format!("{} has no cells", args.from.display()),
        };
        return Err(
            Failure::new(what).hint(format!("{} is left as it is", output::name(&args.out)))
        );
    }
    missing.extend(lost(&report, heard.is_some_and(|it| it.is_cut)));
    partial(&missing)
}

/// What is lost or damaged, in words.
fn lost(report: &Report, is_cut: bool) -> Option<String> {
    let stream = &report.stream;
    let gone = report.datagrams.map_or(0, |it| it.lost + it.late);
    // Parities tell if the cells came back, unless no cells came behind them.
    let is_gone = gone > 0 && (report.parity.is_none() || is_cut);
    (is_gone || stream.is_lossy(report.parity.as_ref())).then(|| {
        let mut parts = Vec::new();
        let mut say = |number: u64, thing: &str| {
            if number > 0 {
                parts.push(count(number, thing));
            }
        };
        let system = report
            .parity
            .map_or(stream.lost_system, |parity| parity.unrepaired);
        say(gone, "datagram");
        say(system, "class S cell");
        say(stream.lost_pictures, "picture frame");
        say(stream.bad_frames, "damaged frame");
        say(stream.damaged_packets, "damaged packet");
        say(
            stream.orphans + stream.unplaced + stream.bad_headers,
            "misplaced frame",
        );
        format!("lost or damaged: {}", parts.join(", "))
    })
}

/// The receiver of a sender, and the file of the packets.
struct Sink<'a> {
    /// Missing until the first cells say how packets went into them.
    receiver: Option<Aal5PlusReceiver>,
    path: &'a Path,
    /// Opened with the first octet.
    out: Option<BufWriter<Box<dyn Write>>>,
    written: u64,
    /// Of all receivers that have ended.
    stream: ReceiverStats,
    parity: Option<ParityStats>,
}

impl<'a> Sink<'a> {
    fn new(path: &'a Path) -> Sink<'a> {
        Sink {
            receiver: None,
            path,
            out: None,
            written: 0,
            stream: ReceiverStats::default(),
            parity: None,
        }
    }

    /// Ends the receiver, if there is one, and begins another.
    fn begin(&mut self, receiver: Aal5PlusReceiver) -> Outcome {
        self.finish()?;
        self.receiver = Some(receiver);
        Ok(())
    }

    /// Takes cells, and writes the packets that are complete.
    fn take(&mut self, now: Time, cells: impl IntoIterator<Item = MarkedCell>) -> Outcome {
        if let Some(receiver) = &mut self.receiver {
            receiver.on_timeout(now);
            for cell in cells {
                receiver.on_cell(now, &cell);
            }
        }
        self.drain()
    }

    /// Writes the packets that are complete.
    fn drain(&mut self) -> Outcome {
        let Some(receiver) = &mut self.receiver else {
            return Ok(());
        };
        while let Some(packet) = receiver.poll_packet() {
            let out = match &mut self.out {
                Some(out) => out,
                None => self.out.insert(BufWriter::new(output::open(self.path)?)),
            };
            let written = out.write_all(&packet);
            written.map_err(|error| unwritten(self.path, &error))?;
            self.written += packet.len() as u64;
        }
        Ok(())
    }

    /// Hands over what is written, so that a player sees it.
    fn flush(&mut self) -> Outcome {
        let flushed = self.out.as_mut().map_or(Ok(()), Write::flush);
        flushed.map_err(|error| unwritten(self.path, &error))
    }

    /// Ends the receiver.
    fn finish(&mut self) -> Outcome {
        if let Some(receiver) = &mut self.receiver {
            receiver.finish();
        }
        self.drain()?;
        self.flush()?;
        if let Some(receiver) = self.receiver.take() {
            self.stream += receiver.stats();
            if let Some(stats) = receiver.parity_stats() {
                *self.parity.get_or_insert_default() += stats;
            }
        }
        Ok(())
    }
}

/// The sender that is heard.
struct Sender {
    address: SocketAddr,
    ssrc: u32,
    header: CellFileHeader,
    /// Number of the next datagram.
    next: u16,
    /// When it was heard last.
    heard: Time,
}

impl Sender {
    fn of(from: SocketAddr, datagram: &CellDatagram, now: Time) -> Sender {
        Sender {
            address: from,
            ssrc: datagram.ssrc,
            header: datagram.header,
            next: datagram.seq,
            heard: now,
        }
    }

    /// Whether a datagram is of it.
    fn is_of(&self, from: SocketAddr, datagram: &CellDatagram) -> bool {
        (self.address, self.ssrc, self.header) == (from, datagram.ssrc, datagram.header)
    }

    /// Counts what is missing before a datagram; `false` if it came behind a later one: cells of a circuit keep their order.
    fn in_order(&mut self, datagram: &CellDatagram, heard: &mut Heard) -> bool {
        let (seq, seen) = (datagram.seq, &mut heard.datagrams);
        let behind = self.next.wrapping_sub(seq);
        if (1..=MOST_LATE).contains(&behind) {
            seen.late += 1;
            seen.lost = seen.lost.saturating_sub(1);
            return false;
        }
        let lost = seq.wrapping_sub(self.next);
        seen.lost += u64::from(lost);
        heard.is_cut |= datagram.is_end && lost > 0;
        seen.received += u64::from(!datagram.is_end);
        self.next = seq.wrapping_add(1);
        true
    }
}

/// What came from the network.
#[derive(Clone, Copy, Default)]
struct Heard {
    datagrams: Datagrams,
    /// Datagrams are missing in front of the end: no cells behind them show what is lost.
    is_cut: bool,
}

/// Receives until the end.
fn listen(
    args: &ReceiveCells,
    address: SocketAddr,
    config: ReceiverConfig,
    sink: &mut Sink,
) -> Result<Heard, Failure> {
    let broken = |error: io::Error| Failure::new(format!("cannot receive at {address}: {error}"));
    let socket = UdpSocket::bind(address).map_err(|error| unbound(address, error))?;
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
    let (mut heard, mut buffer) = (Heard::default(), vec![0; LARGEST]);
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
        let came = match socket.recv_from(&mut buffer) {
            Ok(came) => Some(came),
            Err(error) if is_transient(&error) => None,
            Err(error) => return Err(broken(error)),
        };
        let now = now();
        let Some((length, from)) = came else {
            sink.take(now, [])?;
            sink.flush()?;
            continue;
        };
        let Ok(datagram) = CellDatagram::parse(&buffer[..length]) else {
            heard.datagrams.ignored += 1;
            continue;
        };
        if !sender.as_ref().is_some_and(|it| it.is_of(from, &datagram)) {
            let is_free = |it: &Sender| now.since(it.heard) > SILENCE;
            // What has no cells is no beginning: an end may be that of another stream.
            let begins = sender.as_ref().is_none_or(is_free) && datagram.cells().next().is_some();
            let receiver = datagram.header.receiver(config).ok().filter(|_| begins);
            let Some(receiver) = receiver else {
                heard.datagrams.ignored += 1;
                continue;
            };
            if let Some(before) = &sender {
                announce(args.json, now, before, from);
            }
            sink.begin(receiver)?;
            sender = Some(Sender::of(from, &datagram, now));
        }
        let Some(sender) = &mut sender else { continue };
        sender.heard = now;
        if !sender.in_order(&datagram, &mut heard) {
            continue;
        }
        sink.take(now, datagram.cells())?;
        if datagram.is_end {
            break;
        }
        sink.flush()?;
    }
    Ok(heard)
}

/// Says that another sender is heard.
fn announce(is_json: bool, now: Time, before: &Sender, from: SocketAddr) {
    let text = format!(
        "hears {from} now: {} has been silent for {:.1} s",
        before.address,
        now.since(before.heard).as_secs_f64()
    );
    let t_s = now.since(Time::ZERO).as_secs_f64();
    match is_json {
        // Cells are received although no process reads the messages.
        true => drop(Lines::Stderr.write(&Line::Event { t_s, text })),
        false => output::complain(&text),
    }
}

fn unbound(address: SocketAddr, error: io::Error) -> Failure {
    match NetError::bind(address, error) {
        error @ NetError::PortInUse { .. } => {
            let text = address.to_string();
            let host = text.rsplit_once(':').map_or("", |(host, _)| host);
            Failure::new(error).hint(format!(
                "stop the other program, or listen at another port: layercast receive-cells {host}:PORT OUT; port 0 selects a \
                 free one"
            ))
        }
        error => Failure::net(error),
    }
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(
        error.kind(),
        WouldBlock | TimedOut | Interrupted | ConnectionRefused
    )
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
