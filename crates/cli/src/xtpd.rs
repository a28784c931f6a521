//! `layercast xtpd`: XTP as a daemon for the other processes of this machine.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};

use clap::Args;
use layercast_net::{
    Clock, NetError, XtpCallError, XtpDaemon, XtpDaemonError, XtpDaemonEvent, XtpHost, XtpNode,
    XtpPlace,
};
use layercast_xtp::remote::{Parting, ServerLimits, ServerStats};
use serde_json::json;
use tokio::time::Duration;

use crate::failure::{Failure, Outcome};
use crate::metrics::{Metrics, MetricsArgs};
use crate::node::{Stop, runtime};
use crate::output::{Lines, Table, count, print, print_json};
use crate::reporter::Reporter;
use crate::units;

/// How long accepted data have to reach the peers at the end.
const GRACE: Duration = Duration::from_secs(5);

/// `layercast xtpd`.
#[derive(Debug, Args)]
#[command(after_help = "\
XTP is the Xpress Transport Protocol 4.0 (docs/src/reference/xtp.md); a context is one end of one of
its connections. The daemon holds the UDP socket and the contexts for other processes of the same
user, which connect to the Unix socket PATH with the address xtp+daemon://PATH (XtpHost::open in
Rust, layercast.xtp.Host in Python). The streams of a client that dies are aborted; a client that
does not read delays only its own peers; memory is limited per client.

Examples:
  layercast xtpd /run/user/1000/xtpd --listen 0.0.0.0:7000
  layercast xtpd /run/xtpd --raw-ip 192.0.2.1    # protocol 36, which takes CAP_NET_RAW
  layercast xtpd /run/user/1000/xtpd --listen 192.0.2.1:7000 \\
      --group 239.1.2.3:7000 --interface 192.0.2.1
  layercast stats xtp+daemon:///run/user/1000/xtpd --json    # its clients, and counts

Ctrl-C or SIGTERM stops it: accepted data are delivered for up to 5 s; streams end at a message
boundary, others are aborted. A second Ctrl-C exits immediately.")]
pub struct Xtpd {
    /// Path of the Unix socket for clients
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Carry XTP over UDP, from this address
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7000", value_parser = crate::units::listen)]
    pub listen: SocketAddr,
    /// Carry XTP directly over IP (protocol 36), from this address of the host; needs CAP_NET_RAW
    #[arg(long, value_name = "ADDR", conflicts_with = "listen")]
    pub raw_ip: Option<IpAddr>,
    /// Receive from this UDP multicast group; repeatable
    #[arg(long, value_name = "GROUP:PORT", conflicts_with = "raw_ip", value_parser = crate::units::group_address)]
    pub group: Vec<SocketAddrV4>,
    /// Address of the multicast interface
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "0.0.0.0",
        requires = "group"
    )]
    pub interface: Ipv4Addr,
    /// Multicast hop limit (TTL)
    #[arg(long, value_name = "N", default_value = "1", requires = "group", value_parser = units::whole(0..=u8::MAX))]
    pub hops: u8,
    /// Maximum number of clients
    #[arg(long, value_name = "N", default_value = "64", value_parser = units::whole(1..=256_u16))]
    pub clients: u16,
    /// Maximum number of contexts per client
    #[arg(long, value_name = "N", default_value = "1024", value_parser = units::whole(1..=65_536_u32))]
    pub contexts: u32,
    /// Buffer memory per client, in megabytes
    #[arg(long, value_name = "MB", default_value = "256", value_parser = units::whole(1..=65_536_u32))]
    pub memory: u32,
    /// Print JSON lines (docs/src/reference/json.md)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

/// Runs the command.
pub fn run(args: &Xtpd) -> Outcome {
    runtime()?.block_on(async {
        let stop = Stop::listen()?;
        let node = node(args)?;
        let limits = ServerLimits {
            clients: usize::from(args.clients),
            contexts: args.contexts as usize,
            memory: u64::from(args.memory) << 20,
        };
        let daemon = XtpDaemon::bind(&args.path, node, limits).map_err(not_served)?;
        let reporter = Reporter::new(
            args.json,
            Lines::Stdout,
            Metrics::open(&args.metrics, "xtpd")?,
        );
        let (address, path) = (daemon.local_addr(), args.path.display());
        let carrier = match args.raw_ip {
            Some(_) => "IP, protocol 36",
            None => "UDP",
        };
        let greeting =
            format!("XTP over {carrier} at {address}, for clients at xtp+daemon://{path}");
        reporter.metrics().ask_xtpd(args.path.clone());
        reporter.ready("xtpd", Some(address), &greeting)?;
        let clock = Clock::get();
        let start = clock.now();
        // The output may be closed: that is no reason to leave the clients alone.
        let report = |event| {
            let t_s = clock.now().since(start).as_secs_f64();
            drop(reporter.event(t_s, &describe(event)));
        };
        let stats = daemon.run(stop.token.clone(), GRACE, report).await;
        let stats = stats.map_err(|error| Failure::new(format!("the socket failed: {error}")))?;
        reporter.summary(&stats, &in_words(&stats))?;
        stop.outcome()
    })
}

/// Runs `layercast stats xtp+daemon://PATH`.
pub fn stats(path: &Path, as_json: bool) -> Outcome {
    let stats = runtime()?.block_on(ask(path))?;
    match as_json {
        true => print_json(&json!(stats)),
        false => print(&in_words(&stats)),
    }
}

/// What the daemon at `path` says of its clients and its endpoint.
pub async fn ask(path: &Path) -> Result<ServerStats, Failure> {
    let place = XtpPlace::Daemon(path.to_owned());
    let unreachable = |error: XtpCallError| match error {
        // It says where, and what helps.
        error @ XtpCallError::NoDaemon(..) => Failure::new(error),
        XtpCallError::Parted(Parting::Full(_)) => Failure::new(format!(
            "the XTP daemon at {} answers as many that ask for its figures as it can at a time",
            path.display()
        ))
        .hint("ask again later"),
        error => {
            let path = path.display();
            Failure::new(format!("cannot reach the XTP daemon at {path}: {error}"))
                .hint(format!("start it: layercast xtpd {path}"))
        }
    };
    let host = XtpHost::open(&place).await.map_err(unreachable)?;
    let stats = host.daemon_stats().await.map_err(unreachable)?;
    // A daemon has them.
    stats.ok_or_else(|| Failure::new("no answer"))
}

fn node(args: &Xtpd) -> Result<XtpNode, Failure> {
    let mut node = match args.raw_ip {
        Some(local) => XtpNode::raw(local).map_err(|error| no_raw_ip(local, &error)),
        None => XtpNode::udp(args.listen).map_err(|error| not_bound(args.listen, error)),
    }?;
    for &group in &args.group {
        let joined = node.join_group(group, args.interface);
        joined.map_err(|error| not_joined(group, args.interface, &error))?;
    }
    if !args.group.is_empty() {
        let result = node.send_to_groups(args.interface, args.hops);
        result.map_err(|error| Failure::new(format!("{}: {error}", args.interface)))?;
    }
    Ok(node)
}

/// Why a path cannot be served.
fn not_served(error: XtpDaemonError) -> Failure {
    let hint = match &error {
        XtpDaemonError::Taken(_) => "use that daemon, or choose another path",
        XtpDaemonError::NoSocket(_) => "choose a path where nothing is",
        XtpDaemonError::System(_, why) => match why.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => "make its folder first",
            ErrorKind::InvalidInput => "choose a shorter path, of 107 bytes at most",
            _ => "choose a folder of your own, such as /run/user/1000",
        },
    };
    Failure::new(error).hint(hint)
}

fn not_bound(addr: SocketAddr, source: io::Error) -> Failure {
    Failure::net(NetError::bind(addr, source))
}

fn no_raw_ip(local: IpAddr, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("IP protocol 36 at {local}: {error}"));
    failure.hint(match error.kind() {
        ErrorKind::PermissionDenied => {
            "it takes CAP_NET_RAW: run it as root, or once `setcap cap_net_raw+ep` on this program"
        }
        _ => "give an address of this host",
    })
}

fn not_joined(group: SocketAddrV4, interface: Ipv4Addr, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("{group} at {interface}: {error}"));
    failure.hint(match error.kind() {
        ErrorKind::AddrInUse => {
            "the port is taken for all addresses: give --listen another port, or one address"
        }
        _ => "a group is 224.0.0.0 to 239.255.255.255, --interface an address of this host",
    })
}

fn describe(event: XtpDaemonEvent) -> String {
    match event {
        XtpDaemonEvent::Came(number, Some(process)) => {
            format!("client {number}, process {process}")
        }
        XtpDaemonEvent::Came(number, None) => format!("client {number}"),
        XtpDaemonEvent::Gone(number) => format!("client {number} is gone"),
        XtpDaemonEvent::Expelled(number, why) => format!("client {number} is sent away: {why}"),
        XtpDaemonEvent::TurnedAway(why) => format!("a client is sent away: {why}"),
    }
}

fn in_words(stats: &ServerStats) -> String {
    let counts = &stats.endpoint;
    let mut text = format!(
        "XTP at {}: {} received, {} sent, {} of data again, {} crowded out; {} opened, {} taken, {} refused\n\
         {} so far, {} sent away; {} of clients that died broken off\n",
        stats.local,
        count(counts.received, "packet"),
        counts.sent,
        counts.retransmitted,
        counts.crowded_out,
        count(counts.active_opens, "association"),
        counts.passive_opens,
        counts.refused,
        count(stats.served, "client"),
        stats.expelled,
        count(stats.orphaned, "stream"),
    );
    if !stats.clients.is_empty() {
        let mut table = Table::new(&["process", "contexts", "ports", "may take MB", "waiting"]);
        for client in &stats.clients {
            let ports: Vec<String> = client.ports.iter().map(u16::to_string).collect();
            table.row([
                client.process.map_or("-".to_owned(), |it| it.to_string()),
                client.contexts.to_string(),
                ports.join(" "),
                format!("{:.1}", client.memory as f64 / f64::from(1 << 20)),
                client.waiting.to_string(),
            ]);
        }
        text += &table.render();
    }
    text
}
