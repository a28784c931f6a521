//! `layercast emulate-receivers`.

use layercast_core::Span;
use layercast_net::{EmulateConfig, Emulated, emulate_receivers};

use super::args::EmulateReceivers;
use super::line::EmulatedLine;
use super::{Say, key};
use crate::failure::{Failure, Outcome};
use crate::metrics::Metrics;
use crate::node::{Stop, runtime};
use crate::output::count;

/// Runs the command.
pub fn run(args: &EmulateReceivers) -> Outcome {
    let config = EmulateConfig {
        group: args.group,
        interface: args.interface,
        receivers: args.count,
        kind: match args.lares {
            true => Emulated::Lares { gap: args.gap },
            false => Emulated::Mars {
                loss: args.loss,
                delay: args.delay,
            },
        },
        key: key(args.key.as_deref())?,
        patience: args.wait.unwrap_or(Span::ZERO),
    };
    runtime()?.block_on(async {
        let stop = Stop::listen()?;
        let counts = emulate_receivers(config, stop.token.clone()).await;
        let counts = counts.map_err(Failure::net)?;
        let line = EmulatedLine::Emulated {
            joined: counts.joined,
            complete: counts.complete,
            lost: counts.lost,
            sent: counts.sent,
            disbelieved: counts.disbelieved,
        };
        let human = format!(
            "{} took part, {} of them had everything at the end; {} dropped, {} sent",
            count(counts.joined, "receiver"),
            counts.complete,
            count(counts.lost, "packet"),
            counts.sent
        );
        let say = Say::new(args.json, Metrics::default(), "");
        say.event(&line, &human)?;
        say.close()?;
        stop.outcome()?;
        match counts.complete {
            0 => Err(Failure::Unsatisfied),
            complete if complete < counts.joined => Err(Failure::Partial),
            _ => Ok(()),
        }
    })
}
