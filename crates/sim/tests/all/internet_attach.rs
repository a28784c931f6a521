//! `[[attach]]` of a scenario: what it gives, and what is refused.

use std::path::Path;

use layercast_sim::internet::scenario::{Attached, Scenario};

const GOOD: &str = r#"schema = "internet/1"
name = "attached"

[run]
duration = "10s"

[[host]]
name = "h{1..6}"

[[router]]
name = "r"

[[link]]
ends = ["h{1..6}", "r"]
rate = "10 Mbit/s"
delay = "1ms"
mtu = 1400

[[flow]] # traffic
from = "h5"
to = "h6"

[[attach]] # first
node = "h1"
kind = "tun" # tun
device = "lc0"
namespace = "client"

[[attach]]
node = "h2"
kind = "tap"
device = "lc1"

[[attach]] # third
node = "h3" # from
kind = "udp" # udp
listen = "127.0.0.1:5000" # listen
to = "h4" # to
forward = "127.0.0.1:6000"
"#;

/// Exchanges a part of the good scenario and checks the error and the line it names.
#[track_caller]
fn refused(from: &str, to: &str, line: &str, parts: &[&str]) {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    let scenario = Scenario::from_toml(&text, Path::new(""));
    let error = scenario.and_then(|it| it.resolve().map(drop));
    let error = error.expect_err(&format!("{from} -> {to}")).located(&text);
    let expected = text.lines().position(|found| found.contains(line));
    assert_eq!(
        error.line,
        expected.map(|n| n + 1),
        "{from} -> {to}: {error}"
    );
    for part in parts {
        assert!(error.to_string().contains(part), "{part:?}: {error}");
    }
}

#[test]
fn attachments_name_hosts_and_what_programs_use() {
    let scenario = Scenario::from_toml(GOOD, Path::new("")).expect("a scenario");
    let (network, attachments) = scenario.resolve_attached().expect("a network");
    let name = |n: usize| &network.nodes[attachments[n].node.0 as usize].name;
    assert_eq!(
        (name(0), name(1), name(2)),
        (&"h1".into(), &"h2".into(), &"h3".into())
    );
    assert!(attachments.iter().all(|it| it.mtu == 1_400));
    let Attached::Device {
        name,
        namespace,
        is_tap,
    } = &attachments[0].to
    else {
        panic!("{attachments:?}");
    };
    assert_eq!(
        (name.as_str(), namespace.as_deref(), *is_tap),
        ("lc0", Some("client"), false)
    );
    let again = Scenario::from_toml(&scenario.to_toml().expect("TOML"), Path::new(""));
    assert_eq!(again.expect("a scenario"), scenario);
}

#[test]
fn attachments_that_cannot_be() {
    refused(
        "\"h1\"\nkind",
        "\"h9\"\nkind",
        "h9",
        &["attach[0].node", "no host", "did you mean"],
    );
    refused(
        "\"h1\"\nkind",
        "\"r\"\nkind",
        "node = \"r\"",
        &["is a router", "a host"],
    );
    refused("\"tun\"", "\"veth\"", "veth", &["tun", "tap", "udp"]);
    refused(
        "device = \"lc0\"\n",
        "",
        "# first",
        &["attach[0].device", "such as"],
    );
    refused(
        "\"lc0\"",
        "\"-lc0\"",
        "-lc0",
        &["attach[0].device", "1 to 15"],
    );
    refused("\"lc0\"", "\"a-very-long-name\"", "very-long", &["1 to 15"]);
    refused(
        "\"client\"",
        "\"../../x\"",
        "../../x",
        &["attach[0].namespace"],
    );
    refused(
        "\"client\"",
        "\"client\"\nto = \"h2\" # needless",
        "# needless",
        &["means nothing"],
    );
    refused(
        "\"h2\"\n",
        "\"h1\" # twice\n",
        "# twice",
        &["attached already, in attach[0]"],
    );
    refused(
        "\"lc1\"",
        "\"lc0\" # again\nnamespace = \"client\"",
        "# again",
        &["the device lc0", "attach[0]"],
    );
}

#[test]
fn paths_that_cannot_be() {
    refused(
        "listen = \"127.0.0.1:5000\" # listen\n",
        "",
        "# third",
        &["attach[2].listen"],
    );
    refused(
        "\"127.0.0.1:5000\"",
        "\"here\"",
        "\"here\"",
        &["socket address"],
    );
    refused(
        "\"127.0.0.1:6000\"",
        "\"127.0.0.1:0\"",
        "1:0",
        &["attach[2].forward", "6000"],
    );
    refused(
        "\"127.0.0.1:6000\"",
        "\"127.0.0.1:5000\"",
        "forward",
        &["attach[2].forward"],
    );
    refused("\"h4\"", "\"h3\"", "to = \"h3\"", &["another host"]);
    refused(
        "\"h4\"",
        "\"h1\"",
        "to = \"h1\"",
        &["one device, or UDP paths only"],
    );
    refused(
        "\"h4\"",
        "\"h6\"",
        "# to",
        &["the flow \"h5->h6\" uses the host \"h6\""],
    );
    refused("\"udp\"", "\"udp\"\ndevice = \"lc9\"", "lc9", &["tun"]);
    let first = "kind = \"udp\" # udp\nlisten";
    let again = "kind = \"udp\"\nlisten = \"127.0.0.1:5000\"\nto = \"h4\"\nforward = \"127.0.0.1:7000\"\n\
                 [[attach]]\nnode = \"h3\"\nkind = \"udp\" # again\nlisten";
    refused(
        first,
        again,
        "# listen",
        &["is there already, in attach[2]"],
    );
}
