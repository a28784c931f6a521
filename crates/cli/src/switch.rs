//! `layercast switch`: a software switch.

use std::net::{IpAddr, Ipv4Addr};

use layercast_link::LinkConfig;
use layercast_mets::switch::PortConfig;
use layercast_net::{Clock, Connect, GroupPort, Identity, Neighbour, Remote};

use crate::address;
use crate::args;
use crate::drive::{self, Drive};
use crate::encoder::Guided;
use crate::failure::{Failure, Outcome};
use crate::metrics::Metrics;
use crate::name;
use crate::node::{self, Place, Stop, runtime};
use crate::output::Lines;
use crate::reporter::Reporter;
use crate::serve;
use crate::signals;
use crate::trace::Trace;
use crate::units::{Group, LinkRate};

/// Runs the command.
pub fn run(args: &args::Switch) -> Outcome {
    if let (Some(place), Some(node)) = (Place::load(&args.role)?, &args.role.node) {
        return drive::child(&place, node, args.trace.as_deref());
    }
    check_groups(&args.multicast)?;
    check_rate(&args.multicast, args.link.rate)?;
    node::check_output(args.trace.as_deref())?;
    // A URL in a file may have to be waited for.
    signals::exit_on_first()?;
    let mut upstreams = Vec::new();
    for text in &args.upstream {
        upstreams.push((text, address::parse(text)?));
    }
    runtime()?.block_on(async {
        let stop = Stop::listen()?;
        let reporter = Reporter::new(
            args.json,
            Lines::Stdout,
            Metrics::open(&args.metrics, "switch")?,
        );
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
            through: None,
            encoder: Guided::default(),
            trace,
            web: None,
        };
        drive.run(&stop, &reporter).await
    })
}

/// Refuses a group that is given twice, and a neighbour that is named twice: its media go to one group.
fn check_groups(groups: &[Group]) -> Outcome {
    for (at, one) in groups.iter().enumerate() {
        let group = one.group;
        if groups[..at].iter().any(|it| it.group == group) {
            return Err(Failure::Usage(format!(
                "--multicast has the group {group} twice: name all its receivers once, {group}=NAME,NAME"
            )));
        }
        for (place, name) in one.members.iter().enumerate() {
            if one.members[..place].contains(name) {
                return Err(Failure::Usage(format!(
                    "--multicast {group} has {name} twice: name each receiver once"
                )));
            }
            if let Some(other) = groups[..at].iter().find(|it| it.members.contains(name)) {
                return Err(Failure::Usage(format!(
                    "--multicast has {name} in the groups {} and {group}: a receiver takes its media from one group",
                    other.group
                )));
            }
        }
    }
    Ok(())
}

/// Refuses groups where the rate of links is to be found out: a group has no reports of one path.
fn check_rate(groups: &[Group], rate: Option<LinkRate>) -> Outcome {
    match (groups.first(), rate) {
        (Some(group), Some(LinkRate::Auto)) => Err(Failure::Usage(format!(
            "--rate auto does not find out what the path of the group {} carries: give a rate, or leave --rate out and give \
             the links of other neighbours the rate auto by --port NAME=auto",
            group.group
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units;

    #[test]
    fn the_rate_of_a_group_is_not_found_out() {
        let groups = [units::group("239.1.2.3:7701=ann").unwrap()];
        let failure = check_rate(&groups, Some(LinkRate::Auto)).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(
            failure.to_string().contains("--port NAME=auto"),
            "{failure}"
        );
        assert!(check_rate(&groups, None).is_ok());
        assert!(check_rate(&[], Some(LinkRate::Auto)).is_ok());
    }

    #[test]
    fn a_receiver_is_in_one_group_once() {
        let check = |texts: &[&str]| {
            let groups: Vec<Group> = texts.iter().map(|it| units::group(it).unwrap()).collect();
            check_groups(&groups)
        };
        assert!(check(&["239.1.2.3:7701=ann,bob", "239.1.2.3:7702=eve"]).is_ok());
        for (texts, says) in [
            (
                &["239.1.2.3:7701=ann", "239.1.2.3:7702=bob,ann"][..],
                "ann in the groups 239.1.2.3:7701 and 239.1.2.3:7702",
            ),
            (&["239.1.2.3:7701=ann,ann"], "239.1.2.3:7701 has ann twice"),
            (
                &["239.1.2.3:7701=ann", "239.1.2.3:7701=bob"],
                "the group 239.1.2.3:7701 twice",
            ),
        ] {
            let failure = check(texts).unwrap_err();
            assert_eq!(failure.code(), 2);
            assert!(failure.to_string().contains(says), "{failure}");
        }
    }
}
