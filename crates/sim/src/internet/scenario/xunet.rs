//! The six sites of specs/insane-simulator.md 2.9.

use core::net::Ipv4Addr;

use layercast_core::{Rate, Span};

use super::build::Builder;
use super::error::ScenarioError;
use super::topology::{PLACE, TopologySpec};
use crate::internet::network::{AtmEnd, AtmLink, NodeIndex};

/// The switch of each site. West and east take turns, so that popular servers do.
const SWITCHES: [&str; 6] = ["w1", "e1", "w2", "e2", "w3", "e3"];
/// Links between switches, by their place in [`SWITCHES`], and their delays in ms.
const LINKS: [(u32, u32, u64); 5] = [(2, 0, 5), (0, 4, 5), (3, 1, 5), (1, 5, 5), (0, 1, 30)];
/// T1 without its framing.
const T1: Rate = Rate::from_bps(1_536_000);
const LAN: Rate = Rate::from_bps(100_000_000);

/// Adds sites, switches and links.
pub(super) fn build(spec: &TopologySpec, to: &mut Builder<'_>) -> Result<(), ScenarioError> {
    let workstations = spec.number("workstations", spec.workstations.or(Some(200)), 200)?;
    let servers = spec.number("servers", spec.servers.or(Some(2)), 8)?;
    let backbone = TopologySpec::rate("backbone", &spec.backbone, T1)?;
    let lan = TopologySpec::rate("lan", &spec.lan, LAN)?;
    let tcp = spec.tcp.as_deref().or(match to.has_default_tcp() {
        true => None,
        false => Some("bsd44lite"),
    });
    for name in SWITCHES {
        to.switch(PLACE, name.to_owned())?;
    }
    for (a, b, ms) in LINKS {
        let link = AtmLink {
            ends: [AtmEnd::Switch(a), AtmEnd::Switch(b)],
            rate: backbone,
            delay: Span::from_ms(ms),
        };
        to.atm_link(PLACE, &[SWITCHES[a as usize], SWITCHES[b as usize]], link)?;
    }
    for site in 1..=6_u8 {
        let name = format!("site{site}");
        let address = |host: u32| Some(Ipv4Addr::new(128, 32, 130 + site, host as u8));
        let router = to.router(PLACE, name.clone(), address(1), Default::default())?;
        to.adapter(PLACE, "kind", router)?;
        let switch = u32::from(site) - 1;
        let link = AtmLink {
            ends: [AtmEnd::Adapter(router), AtmEnd::Switch(switch)],
            rate: backbone,
            delay: Span::ZERO,
        };
        to.atm_link(PLACE, &[name.as_str(), SWITCHES[switch as usize]], link)?;
        let mut stations = vec![router];
        let mut add = |to: &mut Builder<'_>, name: String, host: u32| {
            let index = to.host(PLACE, name, address(host), tcp, Default::default())?;
            stations.push(index);
            Ok::<NodeIndex, ScenarioError>(index)
        };
        let mut users = Vec::new();
        for i in 1..=workstations {
            users.push(add(to, format!("{name}-ws{i}"), 9 + i)?);
        }
        let mut served = Vec::new();
        for i in 1..=servers {
            served.push(add(to, format!("{name}-server{i}"), 1 + i)?);
        }
        to.lan(
            PLACE,
            format!("{name}-lan"),
            lan,
            Span::from_us(10),
            1_500,
            stations,
        )?;
        to.sites.push([users, served]);
    }
    Ok(())
}
