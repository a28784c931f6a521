//! `layercast emulate --to`: an impaired path between two programs that speak UDP.

use std::net::SocketAddr;

use layercast_link::{LinkConfig, Loss, PathConfig, QueueConfig};
use layercast_net::{Clock, Relay, RelayConfig, RelayStats};
use tokio::sync::mpsc;

use crate::args;
use crate::emulation;
use crate::failure::{Failure, Outcome};
use crate::line::{Line, PathStatus};
use crate::metrics::Metrics;
use crate::node::{Stop, runtime};
use crate::output::{Lines, Table, count};
use crate::reporter::Reporter;
use crate::serve::cells_of;

/// Clients a path keeps apart.
const MAX_CLIENTS: usize = 256;

/// Runs the command.
pub fn run(args: &args::Emulate) -> Outcome {
    let to = match (&args.scenario, args.to) {
        (Some(path), _) => return emulation::run(args, path),
        (None, Some(to)) => to,
        (None, None) => {
            let what = "emulate takes a scenario, or --to with the address of a program";
            return Err(Failure::Usage(what.to_owned()));
        }
    };
    check(args, to)?;
    let config = RelayConfig {
        listen: args.listen,
        to,
        there: path(args),
        back: path(args),
        seed: args.seed.unwrap_or(1),
        max_clients: MAX_CLIENTS,
        believe_clients: args.any_client,
        from_port: args.from_port,
    };
    runtime()?.block_on(async {
        let stop = Stop::listen()?;
        let reporter = Reporter::new(
            args.json,
            Lines::Stdout,
            Metrics::open(&args.metrics, "emulate")?,
        );
        let relay = Relay::bind(config).await.map_err(Failure::net)?;
        let address = relay.local_addr();
        let greeting = format!("path from {address} to {to}; stop it with Ctrl-C");
        reporter.ready("path", Some(address), &greeting)?;
        let clock = Clock::get();
        let epoch = clock.now();
        let (statistics, mut reports) = mpsc::channel(16);
        let mut running = Box::pin(relay.run(stop.token.clone(), statistics));
        let stats = loop {
            tokio::select! {
                stats = &mut running => break stats.map_err(Failure::net)?,
                Some(stats) = reports.recv() => {
                    let t_s = clock.now().since(epoch).as_secs_f64();
                    let (there, back) = (stats.there, stats.back);
                    let line = Line::Path(PathStatus { t_s, there, back });
                    reporter.status(&line, || moving(t_s, &stats))?;
                }
            }
        };
        reporter.summary(&stats, &in_words(&stats))?;
        stop.outcome()
    })
}

/// Checks that involve several options.
fn check(args: &args::Emulate, to: SocketAddr) -> Outcome {
    let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
    let listen = args.listen;
    let same_host = listen.ip() == to.ip() || listen.ip().is_unspecified() && to.ip().is_loopback();
    if same_host && listen.port() == to.port() {
        return usage("--listen and --to are the same address: the path would lead to itself");
    }
    if args.burst.is_some() && args.loss == 0.0 {
        return usage("--burst says how losses come; it takes --loss, such as --loss 3%");
    }
    Ok(())
}

/// Cells of 48 octets that a datagram of 1,500 octets takes: a line holds at least the one that it sends.
const DATAGRAM_CELLS: u32 = 1_500_u32.div_ceil(48);

fn path(args: &args::Emulate) -> PathConfig {
    let limit = cells_of(args.queue, args.rate, DATAGRAM_CELLS);
    let loss = match (args.loss, args.burst) {
        (0.0, _) => Loss::None,
        (p, None | Some(1)) => Loss::Bernoulli { p },
        // Everything is lost in the bad state; it ends after this number of datagrams on average.
        (p, Some(burst)) => Loss::GilbertElliott {
            p_gb: (p / (1.0 - p) / f64::from(burst)).min(1.0),
            p_bg: 1.0 / f64::from(burst),
            loss_good: 0.0,
            loss_bad: 1.0,
        },
    };
    PathConfig {
        rate: args.rate,
        schedule: args.schedule.clone().unwrap_or_default(),
        queue: QueueConfig::of_limit(limit),
        link: LinkConfig {
            delay: args.delay,
            jitter: args.jitter,
            reorder: args.reorder,
            loss,
            duplicate: args.duplicate,
        },
    }
}

fn moving(t_s: f64, stats: &RelayStats) -> String {
    format!(
        "{t_s:8.0} s  {} there, {} back, lost {} and {}",
        stats.there.link.delivered,
        stats.back.link.delivered,
        stats.there.queue_full + stats.there.link.lost,
        stats.back.queue_full + stats.back.link.lost,
    )
}

fn in_words(stats: &RelayStats) -> String {
    let mut table = Table::new(&["way", "came", "arrived", "queue full", "lost", "marked"]);
    for (name, way) in [("there", &stats.there), ("back", &stats.back)] {
        let cells = [
            way.offered,
            way.link.delivered,
            way.queue_full,
            way.link.lost,
            way.marked,
        ];
        let cells = cells.iter().map(u64::to_string);
        table.row(std::iter::once(name.to_owned()).chain(cells));
    }
    let limited = match stats.limited {
        0 => String::new(),
        limited => format!(
            "{} beyond three times what clients on other hosts had sent, dropped (see --any-client)\n",
            count(limited, "answer")
        ),
    };
    format!(
        "{}, {}\n{}{limited}",
        count(stats.clients, "client"),
        count(stats.connections, "connection"),
        table.render()
    )
}
