//! `layercast fec edge`: parities for the datagrams of any program, between two hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::Args;
use layercast_core::Span;
use layercast_fec::{FecEdgeConfig, longest_packet};
use layercast_mets::{ParityConfig, Redundancy};
use layercast_net::{
    Clock, FecTunnel, FecTunnelConfig, FecTunnelError, FecTunnelStats, NetError, random_seed,
};

use crate::failure::{Failure, Outcome};
use crate::host_port;
use crate::line::{EdgeStatus, Line};
use crate::metrics::{Metrics, MetricsArgs};
use crate::node::{Stop, runtime};
use crate::output::Lines;
use crate::reporter::Reporter;
use crate::units;

/// `layercast fec edge`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("program").args(["inside", "out"]).required(true).multiple(true), after_help = "\
One end of a tunnel; the other host runs the same command with --peer pointing back. Local
programs send UDP to --in. Datagrams from the tunnel go to --out or, without it, to the last
sender to --in; their source is the address of --in, so that answers return through the tunnel.
Payloads cross unaltered, encrypted or not, and in the order in which they were sent: those behind
a lost one wait until it is recovered, at most for --order. Datagrams that are not from the peer's
address are dropped. Without --out, a program on another host gets at most three times the bytes
that it sends, since its address can be forged: name it by --out.

Examples (a stream from host a to a player on host b, over a path that loses packets):
  b$ layercast fec edge --listen 0.0.0.0:7800 --peer a:7800 --code 6+2 --out 127.0.0.1:6000
  b$ ffplay udp://127.0.0.1:6000
  a$ layercast fec edge --listen 0.0.0.0:7800 --peer b:7800 --code 6+2 --in 127.0.0.1:5000
  a$ ffmpeg -nostdin -re -i any.mp4 -c copy -f mpegts 'udp://127.0.0.1:5000?pkt_size=1316'

On a path made by `layercast emulate`, which the far end has to know by its port:
  b$ layercast fec edge --listen 127.0.0.1:7801 --peer 127.0.0.1:7803 --out 127.0.0.1:6000
  e$ layercast emulate --listen 127.0.0.1:7802 --to 127.0.0.1:7801 --from-port 7803 --loss 3%
  a$ layercast fec edge --listen 127.0.0.1:7800 --peer 127.0.0.1:7802 --in 127.0.0.1:5000

Ctrl-C stops it and prints how many datagrams were lost and recovered.")]
pub struct FecEdge {
    /// Address for the datagrams of the peer
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7800", value_parser = units::listen)]
    pub listen: SocketAddr,
    /// Address of the other end
    #[arg(long, value_name = "HOST:PORT", value_parser = units::peer)]
    pub peer: String,
    /// Code: M parities per N packets, or auto: the fewest that leave at most 1 packet in 1000 lost, by the reports
    /// of the peer
    #[arg(long, value_name = "[SCHEME:]N+M|auto", default_value = "auto")]
    pub code: ParityConfig,
    /// Close an incomplete block after this time, at most 10s [default: 50ms for each block of --interleave]
    #[arg(long, value_name = "TIME", value_parser = units::span_within(LONGEST_WAIT))]
    pub flush: Option<Span>,
    /// Longest time that a received datagram waits for one sent before it: at least the --flush of the peer and the
    /// jitter of the path, and at most 10s; 0 hands datagrams over as they come [default: --flush and 50 ms]
    #[arg(long, value_name = "TIME", value_parser = units::span_within(LONGEST_WAIT))]
    pub order: Option<Span>,
    /// Number of blocks that are filled in turn: a burst of losses takes one packet of each; recovery takes as many
    /// times longer
    #[arg(long, value_name = "BLOCKS", default_value = "1", value_parser = units::whole(1..=32_u8))]
    pub interleave: u8,
    /// Largest datagram of the tunnel, in bytes: path MTU less 28 (IPv6: 48)
    #[arg(long, value_name = "BYTES", default_value = "1472", value_parser = units::whole(500..=65_000_u16))]
    pub mtu: u16,
    /// Address that local programs send to [default: a free port, with --out]
    #[arg(long = "in", value_name = "ADDR", value_parser = units::listen)]
    pub inside: Option<SocketAddr>,
    /// Address of the local program that gets the datagrams from the tunnel
    #[arg(long, value_name = "ADDR", value_parser = units::destination)]
    pub out: Option<SocketAddr>,
    /// Print JSON lines (docs/src/reference/json.md)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

/// Longest `--flush` and `--order`: datagrams are kept for that long.
const LONGEST_WAIT: Span = Span::from_secs(10);
/// Time after which an incomplete block is closed by default, for each block that is filled.
const FLUSH: Span = Span::from_ms(50);
/// Time beyond `--flush` that datagrams wait for others by default.
const JITTER: Span = Span::from_ms(50);

impl FecEdge {
    /// `--flush` and `--order`, given or by default.
    fn waits(&self) -> (Span, Span) {
        let blocks = u64::from(self.interleave);
        let flush = self.flush.unwrap_or(FLUSH.times(blocks));
        (flush, self.order.unwrap_or(flush + JITTER))
    }
}

/// Runs the command.
pub fn run(args: &FecEdge) -> Outcome {
    let inside = inside(args)?;
    let (flush, order) = args.waits();
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
                interleave: args.interleave,
                flush,
                order,
                session: u32::from_be_bytes([0, a, b, c]),
            },
        };
        let tunnel = FecTunnel::bind(&config).map_err(not_opened)?;
        let reporter = Reporter::new(args.json, Lines::Stdout, Metrics::open(&args.metrics, "fec edge")?);
        let (addr, inside) = (tunnel.local_addr(), tunnel.inside_addr());
        let greeting = format!(
            "tunnel from {addr} to {peer}; send to {inside}, answers come from there; stop it with Ctrl-C"
        );
        reporter.ready("edge", Some(addr), &greeting)?;
        reporter.event(0.0, &format!("programs send to {inside}"))?;
        let clock = Clock::get();
        let start = clock.now();
        let mut watch = Watch::new(args, addr, inside);
        let report = |stats: &FecTunnelStats| {
            let t_s = clock.now().since(start).as_secs_f64();
            for warning in watch.look(t_s, stats) {
                drop(reporter.event(t_s, &warning));
            }
            let status = EdgeStatus { t_s, stats: *stats };
            // The output may be closed: that is no reason to stop carrying packets.
            drop(reporter.status(&Line::Edge(Box::new(status)), || moving(t_s, stats)));
        };
        let stats = tunnel.run(stop.token.clone(), report).await;
        let stats = stats.map_err(Failure::net)?;
        reporter.summary(&stats, &in_words(args, &stats))?;
        stop.outcome()
    })
}

/// Why the tunnel cannot be opened: one of two addresses, or the code.
fn not_opened(error: FecTunnelError) -> Failure {
    match error {
        FecTunnelError::Net(NetError::PortInUse { addr }) => {
            Failure::new(NetError::PortInUse { addr })
                .hint("--listen ADDR:PORT and --in ADDR:PORT choose other ports")
        }
        FecTunnelError::Net(error) => Failure::net(error),
        error => Failure::new(error).hint("--code and --mtu choose another code or size"),
    }
}

/// The address that programs send to.
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
        Some(out) if out == inside => {
            usage("--in and --out are the same address: packets would come back immediately")
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

/// The address of the peer, of a family reachable from our address.
async fn resolve(args: &FecEdge) -> Result<SocketAddr, Failure> {
    let peer = &args.peer;
    let mut found = tokio::net::lookup_host(peer).await.map_err(|error| {
        Failure::new(format!("cannot find {peer}: {error}"))
            .hint("check the host name and the name service, or give an IP address")
    })?;
    let fits = |it: &SocketAddr| it.is_ipv4() == args.listen.is_ipv4();
    let addr = found.find(fits).ok_or_else(|| {
        let listen = args.listen;
        Failure::new(format!("{peer} has no address that {listen} can speak to"))
            .hint("listen on IPv6 for a peer with IPv6: --listen '[::]:7800'")
    })?;
    let own = (addr == args.listen).then_some("is the address of --listen");
    match host_port::no_destination(addr).or(own) {
        Some(problem) => Err(Failure::Usage(format!(
            "--peer {peer} {problem}: give the address at which the other end listens"
        ))),
        None => Ok(addr),
    }
}

/// A share, or a dash where nothing is known.
fn percent(share: impl Into<Option<f64>>) -> String {
    match share.into() {
        Some(share) => format!("{:.2} %", 100.0 * share),
        None => "-".into(),
    }
}

/// Seconds without a report from the peer, while packets are sent to it, before the command warns.
const SILENT_S: f64 = 2.0;

/// Seconds without any packet from either side before the command says so.
const IDLE_S: f64 = 5.0;

/// Warnings of a running edge: each is printed once, and again if its condition returns.
struct Watch<'a> {
    args: &'a FecEdge,
    /// Where the peer sends to, and where programs do.
    outside: SocketAddr,
    inside: SocketAddr,
    /// Packets and reports when the last report came, and since when packets left without one.
    packets: u64,
    reports: u64,
    since: Option<f64>,
    silent: bool,
    /// Packets of both sides, since when there have been no more, and whether that was said.
    crossed: u64,
    idle_since: f64,
    idle: bool,
    refused: bool,
    restarts: u64,
}

impl Watch<'_> {
    fn new(args: &FecEdge, outside: SocketAddr, inside: SocketAddr) -> Watch<'_> {
        Watch {
            args,
            outside,
            inside,
            packets: 0,
            reports: 0,
            since: None,
            silent: false,
            crossed: 0,
            idle_since: 0.0,
            idle: false,
            refused: false,
            restarts: 0,
        }
    }

    /// Evaluates the counts so far; returns the lines to print.
    fn look(&mut self, t_s: f64, stats: &FecTunnelStats) -> Vec<String> {
        let sent = &stats.edge.sent;
        let peer = &self.args.peer;
        let mut warnings = Vec::new();
        if sent.reports > self.reports {
            (self.reports, self.since) = (sent.reports, None);
            self.packets = sent.packets;
            if std::mem::take(&mut self.silent) {
                warnings.push(format!("{peer} reports again"));
            }
        } else if sent.packets > self.packets {
            let since = *self.since.get_or_insert(t_s);
            if !self.silent && t_s - since >= SILENT_S {
                self.silent = true;
                warnings.push(silence(self.args));
            }
        }
        let restarts = stats.edge.received.restarts;
        if restarts > std::mem::replace(&mut self.restarts, restarts) {
            warnings.push(format!("the peer {peer} was started again"));
        }
        warnings.extend(self.look_for_traffic(t_s, stats));
        if sent.refused > 0 && !std::mem::replace(&mut self.refused, true) {
            warnings.push(refusal(self.args, sent.refused, sent.longest_refused));
        }
        warnings
    }
}

impl Watch<'_> {
    /// Tells that nothing has crossed the tunnel for a while, and that something does again.
    fn look_for_traffic(&mut self, t_s: f64, stats: &FecTunnelStats) -> Option<String> {
        let (sent, got) = (&stats.edge.sent, &stats.edge.received);
        let crossed = sent.packets + sent.unprotected + sent.refused + got.datagrams;
        let idle_s = t_s - self.idle_since;
        if crossed > std::mem::replace(&mut self.crossed, crossed) {
            self.idle_since = t_s;
            let was_idle = std::mem::take(&mut self.idle);
            return was_idle.then(|| {
                format!("packets cross the tunnel again, after {idle_s:.0} s without any")
            });
        }
        let is_news = idle_s >= IDLE_S && !std::mem::replace(&mut self.idle, true);
        is_news.then(|| self.idleness(idle_s))
    }

    /// No packet came from either side; says what that means for the peer.
    fn idleness(&self, idle_s: f64) -> String {
        let (peer, outside, inside) = (&self.args.peer, self.outside, self.inside);
        format!(
            "no packet for {idle_s:.0} s: the peer {peer} sent nothing to {outside}, and no program sent to {inside}; whether \
             the peer runs is not known while no packet crosses the tunnel"
        )
    }
}

/// The peer is silent; names possible causes.
fn silence(args: &FecEdge) -> String {
    let (peer, mtu) = (&args.peer, args.mtu);
    format!(
        "the peer {peer} reports nothing, so its loss is not known: is it running, with --peer this host, and is \
         --mtu {mtu} no more than the MTU of the path less 28 (IPv6: 48)?"
    )
}

/// Packets are too long; names a remedy.
fn refusal(args: &FecEdge, count: u64, longest: u64) -> String {
    let most = longest_packet(args.mtu.into());
    format!(
        "{count} packets of up to {longest} bytes are dropped: the tunnel takes at most {most} with --mtu {}; let the \
         program send shorter ones, or give a larger --mtu if the path carries it",
        args.mtu
    )
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

fn in_words(args: &FecEdge, stats: &FecTunnelStats) -> String {
    let (sent, got) = (&stats.edge.sent, &stats.edge.received);
    let mut text = format!(
        "into the tunnel    {} packets, {} parities, {} more bytes",
        sent.packets,
        sent.parities,
        percent(sent.overhead()),
    );
    match sent.peer_loss {
        Some(loss) => text += &format!("; the peer lost {} of both", percent(loss)),
        None if sent.packets > 0 => text += &format!("; {}", silence(args)),
        None => {}
    }
    if sent.refused > 0 {
        text += &format!("\n{}", refusal(args, sent.refused, sent.longest_refused));
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
            got.bypassed,
            "datagrams handed on without decoding, as this host was too slow",
        ),
        (
            got.out_of_order,
            "datagrams handed on after later ones, which had waited as long as --order allows",
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
            "datagrams from the address of the peer that are none of this tunnel or of another start of the peer, dropped",
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        edge: FecEdge,
    }

    #[test]
    fn blocks_that_are_filled_in_turn_have_the_time_to_be_full() {
        let ms = |given: &[&str]| {
            let given = ["edge", "--peer", "host:7800", "--in", "127.0.0.1:5000"]
                .iter()
                .chain(given);
            let (flush, order) = Command::parse_from(given).edge.waits();
            (flush.as_ms(), order.as_ms())
        };
        assert_eq!(ms(&[]), (50, 100));
        assert_eq!(ms(&["--interleave", "4"]), (200, 250));
        assert_eq!(ms(&["--interleave", "4", "--flush", "80ms"]), (80, 130));
        assert_eq!(ms(&["--flush", "80ms", "--order", "0"]), (80, 0));
    }

    #[test]
    fn a_tunnel_without_traffic_says_so_each_time_and_that_traffic_is_back() {
        let given = ["edge", "--peer", "host:7800", "--in", "127.0.0.1:5000"];
        let args = Command::parse_from(given).edge;
        let addr = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut watch = Watch::new(&args, addr(7800), addr(5000));
        let mut stats = FecTunnelStats::default();
        // Packets of the peer come from 8 s on for two seconds, those of a program at 20 s.
        let mut said = Vec::new();
        for t_s in 0..30 {
            stats.edge.received.datagrams += u64::from((8..10).contains(&t_s));
            stats.edge.sent.packets += u64::from(t_s == 20);
            stats.edge.received.restarts = u64::from(t_s >= 12);
            let text = watch.look(f64::from(t_s), &stats);
            said.extend(text.into_iter().map(|it| (t_s, it)));
        }
        let times: Vec<i32> = said.iter().map(|it| it.0).collect();
        assert_eq!(times[..5], [5, 8, 12, 14, 20], "{said:?}");
        assert_eq!(said[2].1, "the peer host:7800 was started again");
        for part in [
            "no packet for 5 s",
            "host:7800",
            "to 127.0.0.1:7800",
            "to 127.0.0.1:5000",
            "not known",
        ] {
            assert!(said[0].1.contains(part), "{part}: {}", said[0].1);
        }
        assert!(
            said[1].1.contains("cross the tunnel again, after 8 s"),
            "{said:?}"
        );
        assert!(said[3].1.contains("no packet for 5 s"), "{said:?}");
    }
}
