//! `layercast play-cells`: sends the cells of a file, each at its time.

use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use layercast_net::NetError;
use layercast_picture::{CellWriter, cell_bursts, dscp_of};
use serde::Serialize;
use socket2::SockRef;

use super::args::PlayCells;
use super::{CellFile, classes, partial, read, tell};
use crate::failure::{Failure, Outcome};
use crate::output::count;
use crate::{address, signals};

/// Longest sleep: a signal is noticed after that.
const NAP: Duration = Duration::from_millis(50);
/// Datagrams that end the stream: the receiver ends although some of them are lost.
const ENDS: u32 = 3;

/// What was sent.
#[derive(Debug, Serialize)]
struct Report {
    /// Cells of classes S, I, P and B.
    cells: [u64; 4],
    /// Datagrams.
    datagrams: u64,
    /// Time from the first datagram to the last one.
    seconds: f64,
    /// The latest that a datagram was sent after its time, in milliseconds.
    latest_ms: f64,
    /// Datagrams that this host did not send, or of which the other end said that no program receives them.
    refused: u64,
}

/// Runs the command.
pub fn run(args: &PlayCells) -> Outcome {
    let CellFile {
        header,
        cells,
        missing,
    } = read(&args.file)?;
    let to = resolve(&args.to)?;
    let local: SocketAddr = match to {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket =
        UdpSocket::bind(local).map_err(|error| Failure::net(NetError::bind(local, error)))?;
    // A socket with one other end hears that no program receives there.
    socket
        .connect(to)
        .map_err(|error| Failure::new(format!("cannot send to {to}: {error}")))?;
    signals::on_first(|| {})?;
    let mut writer = CellWriter::new(header, std::process::id());
    let mut report = Report {
        cells: [0; 4],
        datagrams: 0,
        seconds: 0.0,
        latest_ms: 0.0,
        refused: 0,
    };
    let begun = Instant::now();
    let (mut datagram, mut marked) = (Vec::new(), None);
    for burst in cell_bursts(&cells) {
        let due = Duration::from_nanos(burst.at.as_ns());
        if !wait(begun, due) {
            break;
        }
        let dscp = dscp_of(burst.class);
        if marked != Some(dscp) {
            mark(&socket, to, dscp)?;
            marked = Some(dscp);
        }
        let part = &cells[burst.first..][..burst.count];
        writer.write(burst.at, part, &mut datagram);
        // No receiver listens yet, or the queue of the host is full: the time of the cells does not wait.
        report.refused += send(&socket, &datagram);
        report.datagrams += 1;
        report.cells[burst.class.index()] += burst.count as u64;
        let late = begun.elapsed().saturating_sub(due).as_secs_f64() * 1e3;
        report.latest_ms = report.latest_ms.max(late);
        report.seconds = begun.elapsed().as_secs_f64();
    }
    report.refused += u64::from(matches!(socket.take_error(), Ok(Some(_))));
    let end = cells.last().map_or_else(Default::default, |(at, _)| *at);
    for _ in 0..ENDS {
        writer.write(end, &[], &mut datagram);
        // A receiver that has seen one of them is gone.
        let _ = socket.send(&datagram);
    }
    let text = format!(
        "{} to {to}\n  {} in {:.1} s: {} cells; at most {:.1} ms late\n",
        args.file.display(),
        count(report.datagrams, "datagram"),
        report.seconds,
        classes(report.cells),
        report.latest_ms
    );
    tell(&[], args.json, &report, &text)?;
    if signals::is_received() {
        return Err(Failure::Interrupted);
    }
    let cut = missing.map(|what| format!("{}: {what}", args.file.display()));
    let refused = (report.refused > 0).then(|| {
        format!(
            "{to} refused {} of {} at least: check that layercast receive-cells listens there",
            report.refused,
            count(report.datagrams, "datagram")
        )
    });
    let missing: Vec<String> = cut.into_iter().chain(refused).collect();
    partial(&missing)
}

/// Sends a datagram; how many were refused.
fn send(socket: &UdpSocket, datagram: &[u8]) -> u64 {
    match socket.send(datagram) {
        Ok(_) => 0,
        // This is the answer to one before; this one is not sent yet.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            1 + u64::from(socket.send(datagram).is_err())
        }
        Err(_) => 1,
    }
}

/// Waits for an instant; `false` if a signal came first.
fn wait(begun: Instant, due: Duration) -> bool {
    loop {
        if signals::is_received() {
            return false;
        }
        match due.checked_sub(begun.elapsed()) {
            None | Some(Duration::ZERO) => return true,
            Some(left) => sleep(left.min(NAP)),
        }
    }
}

/// Sets the code point of what is sent next.
fn mark(socket: &UdpSocket, to: SocketAddr, dscp: u8) -> Outcome {
    let (socket, octet) = (SockRef::from(socket), u32::from(dscp) << 2);
    let set = match to {
        SocketAddr::V4(_) => socket.set_tos_v4(octet),
        SocketAddr::V6(_) => socket.set_tclass_v6(octet),
    };
    set.map_err(|error| Failure::new(format!("cannot set the DSCP {dscp}: {error}")))
}

fn resolve(to: &str) -> Result<SocketAddr, Failure> {
    let unresolved = |why: &str| address::unresolved(to, why);
    let mut found = to
        .to_socket_addrs()
        .map_err(|error| unresolved(&error.to_string()))?;
    found.next().ok_or_else(|| unresolved("it has no address"))
}
