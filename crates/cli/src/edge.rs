//! `layercast fec edge`: parities for the datagrams of any program, between two hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::Args;
use layercast_core::Span;
use layercast_fec::FecEdgeConfig;
use layercast_net::{Clock, FecTunnel, FecTunnelConfig, FecTunnelStats, random_seed};
use layercast_transport::mets::{ParityConfig, Redundancy};

use crate::failure::{Failure, Outcome};
use crate::line::{EdgeStatus, Line};
use crate::node::{Stop, runtime};
use crate::output::Lines;
use crate::teller::Teller;
use crate::units;

/// `layercast fec edge`.
#[derive(Debug, Args)]
#[command(after_help = "\
One end of a tunnel; the same command runs at the other end, with --peer the other way round. Programs of this side
send UDP to --in. What comes out here goes to --out or, without it, to whoever sent to --in last; it comes from the
address of --in, so that answers to it go back through the tunnel. Packets may hold anything, encrypted or not, and
cross unaltered. Datagrams from elsewhere than the peer's address are dropped. Without --out, a program on another
host gets at most three times the bytes that it sends, since its address can be forged: name it by --out.

Examples: a stream from host a to a player on host b, over a path that loses packets
  b$ layercast fec edge --listen 0.0.0.0:7800 --peer a:7800 --code 6+2 --out 127.0.0.1:6000
  b$ ffplay udp://127.0.0.1:6000
  a$ layercast fec edge --listen 0.0.0.0:7800 --peer b:7800 --code 6+2 --in 127.0.0.1:5000
  a$ ffmpeg -re -i any.mp4 -c copy -f mpegts 'udp://127.0.0.1:5000?pkt_size=1316'

Ctrl-C ends it and tells what was lost and recovered.")]
pub struct FecEdge {
    /// Take datagrams of the peer at this address
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7800")]
    pub listen: SocketAddr,
    /// The other end, which listens there
    #[arg(long, value_name = "HOST:PORT")]
    pub peer: String,
    /// Parities to what is sent: M to every N packets, or as few as leave one packet in a thousand lost, by what the
    /// peer reports
    #[arg(long, value_name = "[SCHEME:]N+M|auto", default_value = "auto")]
    pub code: ParityConfig,
    /// Send parities for what there is when a block has not been filled in this time
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = units::span)]
    pub flush: Span,
    /// Longest datagram of the tunnel, in bytes: what the path carries less 28 (IPv6: 48)
    #[arg(long, value_name = "BYTES", default_value = "1472", value_parser = clap::value_parser!(u16).range(500..=65_000))]
    pub mtu: u16,
    /// Programs send to this address [default: a free port, where there is --out]
    #[arg(long = "in", value_name = "ADDR", required_unless_present = "out")]
    pub inside: Option<SocketAddr>,
    /// Hand what comes out to the program at this address
    #[arg(long, value_name = "ADDR")]
    pub out: Option<SocketAddr>,
    /// Print one JSON object a line (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &FecEdge) -> Outcome {
    let inside = inside(args)?;
    runtime()?.block_on(async {
        let stop = Stop::listen()?;
        let peer = resolve(args).await?;
        let [a, b, c, ..] = random_seed().0;
        let config = FecTunnelConfig {
            listen: args.listen,
            peer,
            inside,
            out: args.out,
            edge: FecEdgeConfig {
                scheme: args.code.scheme,
                code: match args.code.redundancy {
                    Redundancy::Fixed { n, m } => Some((n, m)),
                    Redundancy::Auto => None,
                },
                mtu: usize::from(args.mtu),
                flush: args.flush,
                session: u32::from_be_bytes([0, a, b, c]),
            },
        };
        let tunnel = FecTunnel::bind(&config).map_err(Failure::new)?;
        let teller = Teller::new(args.json, Lines::Stdout);
        let (addr, inside) = (tunnel.local_addr(), tunnel.inside_addr());
        let greeting = format!(
            "tunnel from {addr} to {peer}; send to {inside}, answers come from there; stop it with Ctrl-C"
        );
        teller.ready("edge", Some(addr), &greeting)?;
        teller.event(0.0, &format!("programs send to {inside}"))?;
        let clock = Clock::get();
        let start = clock.now();
        let told = |stats: &FecTunnelStats| {
            let t_s = clock.now().since(start).as_secs_f64();
            let status = EdgeStatus { t_s, stats: *stats };
            // The output may be closed: that is no reason to stop carrying packets.
            drop(teller.status(&Line::Edge(Box::new(status)), || moving(t_s, stats)));
        };
        let stats = tunnel.run(stop.token.clone(), told).await;
        let stats = stats.map_err(Failure::new)?;
        teller.summary(&stats, &in_words(&stats))?;
        stop.outcome()
    })
}

/// Where programs send to.
fn inside(args: &FecEdge) -> Result<SocketAddr, Failure> {
    let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
    // A program elsewhere is not reached from the address of the loopback.
    let any: IpAddr = match args.out {
        Some(SocketAddr::V4(out)) if !out.ip().is_loopback() => Ipv4Addr::UNSPECIFIED.into(),
        Some(SocketAddr::V6(out)) if !out.ip().is_loopback() => Ipv6Addr::UNSPECIFIED.into(),
        Some(SocketAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    let any = SocketAddr::new(any, 0);
    let inside = args.inside.unwrap_or(any);
    match args.out {
        Some(out) if out.port() == 0 || out.ip().is_unspecified() => {
            usage("--out takes the address and the port of a program, such as 127.0.0.1:6000")
        }
        Some(out) if out == inside => {
            usage("--in and --out are the same address: packets would come back at once")
        }
        Some(out) if out.is_ipv4() != inside.is_ipv4() => {
            usage("--in and --out have to be both IPv4 or both IPv6")
        }
        _ if inside.port() != 0 && inside == args.listen => {
            usage("--in and --listen are the same address: programs need one, the peer another")
        }
        _ => Ok(inside),
    }
}

/// The address of the peer, of the kind that can be reached from where we listen.
async fn resolve(args: &FecEdge) -> Result<SocketAddr, Failure> {
    let peer = &args.peer;
    let mut found = tokio::net::lookup_host(peer).await.map_err(|error| {
        Failure::new(format!("cannot find {peer}: {error}"))
            .hint("--peer takes HOST:PORT, such as 192.0.2.7:7800")
    })?;
    let fits = |it: &SocketAddr| it.is_ipv4() == args.listen.is_ipv4();
    let addr = found.find(fits).ok_or_else(|| {
        let listen = args.listen;
        Failure::new(format!("{peer} has no address that {listen} can speak to"))
            .hint("listen on IPv6 for a peer with IPv6: --listen '[::]:7800'")
    })?;
    if addr.port() == 0 || addr.ip().is_unspecified() || addr == args.listen {
        let what =
            format!("--peer {peer} is not the other end: give the address that it listens on");
        return Err(Failure::Usage(what));
    }
    Ok(addr)
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn moving(t_s: f64, stats: &FecTunnelStats) -> String {
    let (sent, got) = (&stats.edge.sent, &stats.edge.received);
    format!(
        "{t_s:8.0} s  {} in with {}+{}, {} out, {} recovered, loss {} before and {} after",
        sent.packets + sent.unprotected,
        sent.code.0,
        sent.code.1,
        got.packets,
        got.recovered,
        percent(got.raw_loss),
        percent(got.residual_loss),
    )
}

fn in_words(stats: &FecTunnelStats) -> String {
    let (sent, got) = (&stats.edge.sent, &stats.edge.received);
    let mut text = format!(
        "into the tunnel    {} packets, {} parities, {} more bytes",
        sent.packets,
        sent.parities,
        percent(sent.overhead()),
    );
    if let Some(loss) = sent.peer_loss {
        text += &format!("; the peer lost {} of both", percent(loss));
    }
    text += &format!(
        "\nout of the tunnel  {} packets, {} of them recovered, {:.1} ms later on average and {:.1} ms at most; \
         loss {} before, {} after\n",
        got.packets,
        got.recovered,
        got.added_ms,
        got.most_added_ms,
        percent(got.raw_loss),
        percent(got.residual_loss),
    );
    for (count, what) in [
        (
            sent.unprotected,
            "packets too long to be protected, sent without parities (see --mtu)",
        ),
        (
            sent.refused,
            "packets longer than the tunnel's datagrams, dropped (see --mtu)",
        ),
        (
            got.bypassed,
            "datagrams handed on without decoding, as this host was too slow",
        ),
        (stats.host_lost, "datagrams dropped by this host"),
        (stats.send_failed, "datagrams that this host could not send"),
        (
            stats.strangers,
            "datagrams from somebody else than the peer, dropped",
        ),
        (
            stats.nobody,
            "packets for which no program was known, dropped (see --out)",
        ),
        (
            stats.limited,
            "packets for a program on another host beyond three times what it had sent, dropped (see --out)",
        ),
        (
            got.malformed,
            "datagrams of the peer that are none of this tunnel, dropped",
        ),
        (
            got.duplicate + got.late,
            "datagrams that came twice or too late, dropped",
        ),
    ] {
        if count > 0 {
            text += &format!("{count} {what}\n");
        }
    }
    text
}
