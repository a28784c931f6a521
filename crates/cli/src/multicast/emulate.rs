//! `layercast emulate-receivers`.

use layercast_core::Span;
use layercast_net::{EmulateConfig, Emulated, emulate_receivers};
use serde_json::json;

use super::args::EmulateReceivers;
use super::{Say, key};
use crate::failure::{Failure, Outcome};
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
        let told = emulate_receivers(config, stop.token.clone()).await;
        let told = told.map_err(Failure::net)?;
        let json = json!({
            "report": "emulated", "joined": told.joined, "complete": told.complete,
            "lost": told.lost, "sent": told.sent, "disbelieved": told.disbelieved,
        });
        let human = format!(
            "{} took part, {} of them had everything at the end; {} dropped, {} sent",
            count(told.joined, "receiver"),
            told.complete,
            count(told.lost, "packet"),
            told.sent
        );
        let say = Say::new(args.json);
        say.event(json, &human)?;
        say.close()?;
        stop.outcome()?;
        match told.complete {
            0 => Err(Failure::Unsatisfied),
            complete if complete < told.joined => Err(Failure::Partial),
            _ => Ok(()),
        }
    })
}
