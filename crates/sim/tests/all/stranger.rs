//! An idle host, link and flow more, before all others in the file: all other figures are the same.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;
use std::path::Path;

use layercast_core::{Off, Span, Time};
use layercast_sim::group::scenario::GroupScenario;
use layercast_sim::group::{Branch, Content};
use layercast_sim::internet::scenario::Scenario;
use layercast_sim::internet::{Internet, Report};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{ready_made, run, scenario, scenarios};
use crate::golden::corpus::random;

const STRANGER: &str = "stranger";

/// A report as JSON, without the events and without what has the name of the stranger in it.
fn of_others(report: impl serde::Serialize) -> Value {
    fn clean(value: &mut Value) {
        match value {
            Value::Array(all) => {
                let named = |it: &Value| {
                    let names = ["name", "node", "host"].into_iter();
                    let mut names = names.filter_map(|key| it.get(key)?.as_str());
                    names.any(|name| name.contains(STRANGER))
                };
                all.retain(|it| !named(it));
                all.iter_mut().for_each(clean);
            }
            Value::Object(fields) => {
                fields.remove("events");
                fields.values_mut().for_each(clean);
            }
            _ => {}
        }
    }
    let mut report = json!(report);
    clean(&mut report);
    report
}

/// Where two reports differ first, if they do.
fn difference(a: &Value, b: &Value, path: &str) -> Option<String> {
    match (a, b) {
        (Value::Object(one), Value::Object(other)) if one.len() == other.len() => {
            let mut fields = one.iter();
            fields.find_map(|(key, it)| {
                let other = other.get(key).unwrap_or(&Value::Null);
                difference(it, other, &format!("{path}.{key}"))
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(n, (a, b))| difference(a, b, &format!("{path}[{n}]")))
        }
        _ => (a != b).then(|| format!("{path}: {a} and {b}")),
    }
}

/// Asserts that two reports are the same but for the stranger.
#[track_caller]
fn assert_same(alone: impl serde::Serialize, with: impl serde::Serialize, what: &str) {
    let difference = difference(&of_others(alone), &of_others(with), "");
    assert!(
        difference.is_none(),
        "{}, {what}",
        difference.unwrap_or_default()
    );
}

/// Reports without and with the stranger. All others keep their addresses, which routers hash.
fn both(text: &str) -> [Report; 2] {
    let [alone, mut with] = [text.to_owned(), with_stranger(text)].map(|text| {
        let scenario = Scenario::from_toml(&text, Path::new(".")).unwrap();
        scenario.resolve().unwrap()
    });
    let known = alone.nodes.iter().map(|it| (&it.name, it.address));
    let known: BTreeMap<_, _> = known.collect();
    for (n, node) in (0..).zip(&mut with.nodes) {
        let own = Ipv4Addr::from(0x0AFF_0000 + n);
        node.address = known.get(&node.name).copied().unwrap_or(own);
    }
    [&alone, &with].map(|network| Internet::new(network).unwrap().run(&mut ()))
}

/// With two hosts on a link of their own, whose flow begins so late that nothing arrives before the end.
/// The flow is the last: the ports of datagrams, which routers hash, are numbered by flows.
fn with_stranger(text: &str) -> String {
    let hosts = format!(
        "[[host]]\nname = \"{STRANGER}-a\"\n\n[[host]]\nname = \"{STRANGER}-b\"\n\n[[link]]\nends = [\"{STRANGER}-a\", \"{STRANGER}-b\"]\n\
         rate = \"1 Mbit/s\"\ndelay = \"1ms\"\n\n"
    );
    let flow = format!(
        "\n[[flow]]\nname = \"{STRANGER}\"\nfrom = \"{STRANGER}-a\"\nto = \"{STRANGER}-b\"\nstart = \"1009900us\"\n"
    );
    let place = text.find("\n[[flow]]").unwrap() + 1;
    format!("{}{hosts}{}{flow}", &text[..place], &text[place..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn an_internetwork_does_not_notice_a_stranger(
        text in random::scenario(vec!["xtp = {}"]),
    ) {
        let [alone, with] = both(&text);
        assert_same(&alone, &with, &text);
    }
}

/// A LAN, whose place among all links a link more changes.
const OFFICE: &str = r#"
schema = "internet/1"
name = "office"
run = { duration = "1.01s" }

[[lan]]
name = "ether"
rate = "10 Mbit/s"
stations = ["pc{1..5}"]

[[host]]
name = "pc{1..5}"

[[flow]]
from = "pc{1..4}"
to = "pc5"

[[flow]]
from = "pc{2..5}"
to = "pc1"
datagrams = { gap = "1ms", size = "1000 B" }
"#;

#[test]
fn a_lan_does_not_notice_a_stranger() {
    let [alone, with] = both(OFFICE);
    assert!(alone.packet_hops > 1_000, "{}", alone.packet_hops);
    assert_same(&alone, &with, "office");
}

#[test]
fn layered_flows_do_not_notice_a_stranger() {
    for name in ["quickstart.toml", "e5b.toml", "lossy.toml"] {
        let mut alone = ready_made(name);
        alone.duration = alone.duration.min(Span::from_secs(22));
        let text = toml::to_string(&alone).unwrap();
        let host = format!(
            "[[node]]\nname = \"{STRANGER}\"\nkind = \"host\"\n\n[[node]]\nname = \"{STRANGER}-switch\"\nkind = \"switch\"\n\n[[node]]"
        );
        let link = format!(
            "[[link]]\na = \"{STRANGER}\"\nb = \"{STRANGER}-switch\"\nrate = \"1 Mbit/s\"\n\n[[link]]"
        );
        let with = text
            .replacen("[[node]]", &host, 1)
            .replacen("[[link]]", &link, 1);
        let [alone, with] = [run(&alone), run(&scenario(&with))];
        assert_same(&alone, &with, name);
    }
}

#[test]
fn groups_do_not_notice_a_stranger() {
    for name in ["star", "frm", "rmtp"] {
        let path = scenarios().join(format!("group/{name}.toml"));
        let text = std::fs::read_to_string(path).unwrap();
        let group = GroupScenario::from_toml(&text).unwrap();
        let [alone, with] = [false, true].map(|is_there| {
            let mut group = group.resolve().unwrap();
            match &mut group.content {
                Content::Object { octets } => {
                    *octets = (*octets).min(60 * u64::from(group.sender.packet_size));
                }
                Content::Stream { packets, .. } => *packets = (*packets).min(60),
            }
            group.until = group.until.min(Time::ZERO + Span::from_secs(60));
            if is_there {
                let mut branch = Branch {
                    name: STRANGER.into(),
                    parent: None,
                    count: 1,
                    receiver: None,
                    aggregates: false,
                    ..group.branches[0].clone()
                };
                branch.link.rate = None;
                group.branches.insert(0, branch);
                for branch in &mut group.branches[1..] {
                    branch.parent = branch.parent.map(|parent| parent + 1);
                }
            }
            let mut off = Off;
            let mut simulation =
                layercast_sim::group::Simulation::observed(group, &mut off).unwrap();
            simulation.run(|_| true);
            simulation.summary()
        });
        assert_same(&alone, &with, name);
    }
}
