//! `layercast switch`: a software switch.

use std::net::{IpAddr, Ipv4Addr};

use layercast_link::LinkConfig;
use layercast_mets::switch::PortConfig;
use layercast_net::{Clock, Connect, GroupPort, Identity, Neighbour, Remote};

use crate::address;
use crate::args;
use crate::drive::{self, Drive};
use crate::failure::Outcome;
use crate::name;
use crate::node::{self, Place, Stop, Trace, runtime};
use crate::output::Lines;
use crate::reporter::Reporter;
use crate::serve;
use crate::signals;

/// Runs the command.
pub fn run(args: &args::Switch) -> Outcome {
    if let (Some(place), Some(node)) = (Place::load(&args.role)?, &args.role.node) {
        return drive::child(&place, node, args.trace.as_deref());
    }
    node::check_output(args.trace.as_deref())?;
    // A URL in a file may have to be waited for.
    signals::exit_on_first()?;
    let mut upstreams = Vec::new();
    for text in &args.upstream {
        upstreams.push((text, address::parse(text)?));
    }
    runtime()?.block_on(async {
        let stop = Stop::listen()?;
        let reporter = Reporter::new(args.json, Lines::Stdout);
        let unique = |identity: Option<&Identity>| {
            name::unique("switch", identity.filter(|_| args.own.is_kept()))
        };
        let mut config = serve::node(
            args.name.as_deref(),
            unique,
            args.listen,
            &args.link,
            &args.own,
        )?;
        config.switch.require_tokens = args.require_tokens;
        // An upstream that does not answer yet may be about to start.
        config.connect = Connect::Retry;
        config.switch.filters.clone_from(&args.filter);
        config.switch.merge = args.merge;
        for (text, url) in &upstreams {
            let remote = address::resolve(url, args.ca.as_deref()).await?;
            let renewal = address::renewal(text, url, args.ca.as_deref(), None);
            config.upstreams.push(Remote { renewal, ..remote });
        }
        let listens_on = match args.listen.ip() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        };
        for group in &args.multicast {
            config.groups.push(GroupPort {
                link: Neighbour {
                    port: PortConfig {
                        name: group.group.to_string(),
                        ..config.default_port.clone()
                    },
                    link: LinkConfig::default(),
                },
                group: group.group,
                interface: args
                    .interface
                    .or(listens_on)
                    .unwrap_or(Ipv4Addr::UNSPECIFIED),
                members: group.members.clone(),
            });
        }
        let trace = Trace::open(args.trace.as_deref(), &config.switch.name)?;
        let drive = Drive {
            node: drive::bind(config).await?,
            epoch: Clock::get().now(),
            greeting: String::new(),
            flow: None,
            signed_by: None,
            live: None,
            trace,
        };
        drive.run(&stop, &reporter).await
    })
}
