//! Internetworks that cannot be run: the error names the line, the field, what it says and what would do.

use std::path::Path;

use layercast_sim::internet::scenario::{Scenario, ScenarioError};
use proptest::prelude::*;

const GOOD: &str = r#"schema = "internet/1"
name = "good"

[run]
duration = "10s"
warm_up = "1s" # warm

[tcp.slow]
profile = "bsd44lite"

[[host]]
name = "a" # host a
address = "10.0.0.9"
tcp = "slow"
cpu = { per_packet = "10us" }

[[host]]
name = "b{1..2}" # hosts b
address = "10.1.0.1"

[[host]]
name = "c" # host c

[[router]]
name = "r{1..2}" # routers

[[link]]
ends = ["a", "r1"] # a-r1
rate = "10 Mbit/s" # rate of a
delay = "1ms" # delay of a
queue = "50 packets"
loss = 0.01
red = { min = 5, max = 15 }
back = { rate = "1 Mbit/s" }

[[link]]
ends = ["c", "r2"] # c-r2
rate = "10 Mbit/s"
delay = "1ms"

[[lan]]
name = "lan" # the lan
rate = "100 Mbit/s"
stations = ["b{1..2}", "r1"]

[atm]
policy = "noqos-conv-svc"
queue = { per_vc_limit = 170 }

[[atm.switch]]
name = "x{1..2}" # switches

[[atm.link]]
ends = ["x1", "x2"] # x1-x2
rate = "1536 kbit/s"
delay = "30ms"

[[atm.link]]
ends = ["r{1..2}", "x{1..2}"] # adapters
rate = "1536 kbit/s"
delay = "0s"

[[flow]]
name = "one" # flow one
from = "a" # from a
to = "c" # to c
start = "1s"
stop = "5s"
bytes = "1 MB"

[[flow]]
from = "b{1..2}" # from b
to = "a" # to a
datagrams = { gap = "exp(1ms)", size = "200 B" }

[workload]
use = "mah96"

[[workload.site]]
workstations = ["b1"] # users
servers = ["b2"]

[[workload.site]]
workstations = ["a"] # other users
servers = ["c"]
"#;

fn resolve(text: &str) -> Result<(), ScenarioError> {
    let scenario = Scenario::from_toml(text, Path::new(""))?;
    scenario
        .resolve()
        .map(drop)
        .map_err(|error| error.located(text))
}

/// Exchanges a part of the good scenario and checks the error: it is at the first line that contains
/// `line`, and says all of `parts`.
#[track_caller]
fn refused(from: &str, to: &str, line: &str, parts: &[&str]) {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    let error = resolve(&text).expect_err(&format!("{from} -> {to}"));
    let expected = text.lines().position(|found| found.contains(line));
    assert_eq!(
        error.line,
        expected.map(|n| n + 1),
        "{from} -> {to}: {error}"
    );
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

#[test]
fn the_scenario_without_a_change_is_fine() {
    assert!(resolve(GOOD).is_ok());
}

#[test]
fn syntax_unknown_fields_and_wrong_kinds() {
    refused(
        "\"internet/1\"",
        "\"internet/2\"",
        "schema",
        &["internet/2", "internet/1"],
    );
    refused(
        "duration = \"10s\"",
        "duration = \"10 parsecs\"",
        "parsecs",
        &["run.duration: ", "\"10 parsecs\"", "a time such as"],
    );
    refused(
        "duration = \"10s\"\n",
        "",
        "[run]",
        &["run.duration: it is missing: Simulated time"],
    );
    refused(
        "queue = \"50",
        "queqe = \"50",
        "queqe",
        &["link[0].queqe: there is no field \"queqe\"; did you mean \"queue\"?"],
    );
    refused(
        "\"50 packets\"",
        "\"many\"",
        "many",
        &["200 packets", "unlimited"],
    );
    refused(
        "\"50 packets\"",
        "\"1000000000000 packets\"",
        "10000000",
        &["at most 10^9"],
    );
    refused(
        "\"50 packets\"",
        "50",
        "= 50",
        &["link[0].queue: it is 50; expected a queue such as \"200 packets\""],
    );
    refused(
        "\"50 packets\"",
        "\"50\"",
        "\"50\"",
        &["link[0].queue: \"50\" has no unit", "200 packets"],
    );
    refused("\"10.0.0.9\"", "\"10.0.0.900\"", "900", &["IPv4"]);
    refused("\"1 MB\"", "-5", "-5", &["-5", "64 KiB"]);
    refused("exp(1ms)", "exp(1)", "exp(1)", &["exp(1ms)"]);
    refused("name = \"good\"", "name = ", "name = ", &[""]);
    refused("\"bsd44lite\"", "\"bsd\"", "\"bsd\"", &["bsd44lite"]);
    refused(
        "loss = 0.01",
        "loss = \"some\"",
        "some",
        &["link[0].loss: it is \"some\"; expected a number from 0 to 1 (Probability"],
    );
}

#[test]
fn names_that_nothing_has_and_names_there_twice() {
    refused(
        "to = \"c\"",
        "to = \"cc\"",
        "cc",
        &["flow[0].to", "no host \"cc\"", "\"c\"?"],
    );
    refused(
        "[\"a\", \"r1\"]",
        "[\"a\", \"r9\"]",
        "r9",
        &["link[0].ends[1]", "did you mean"],
    );
    refused(
        "\"slow\"\n",
        "\"slwo\"\n",
        "slwo",
        &["host[0].tcp", "did you mean \"slow\""],
    );
    refused(
        "tcp = \"slow\"",
        "tcp = \"ubuntu\"",
        "tcp = \"ubuntu\"",
        &[
            "host[0].tcp",
            "there are slow, bsd44lite, sunos413, solaris, tick10, modern",
        ],
    );
    refused(
        "\"mah96\"",
        "\"mah69\"",
        "mah69",
        &["did you mean \"mah96\""],
    );
    refused(
        "\"mah96\"",
        "\"no/such.toml\"",
        "such",
        &["no/such.toml", "No such file"],
    );
    refused(
        "[\"b1\"]",
        "[\"b9\"]",
        "b9",
        &["workload.site[0].workstations[0]"],
    );
    refused(
        "[\"b1\"]",
        "[\"b2\"]",
        "servers = [\"b2",
        &["no other place"],
    );
    refused(
        "\"b{1..2}\", \"r1\"]",
        "\"b{1..3}\", \"r1\"]",
        "b{1..3}",
        &["lan[0].stations[0]"],
    );
    refused(
        "\"b{1..2}\", \"r1\"]",
        "\"b{1..2}\", \"b1\"]",
        "\"b1\"]",
        &["is there already"],
    );
    refused(
        "\"c\" # host",
        "\"a\" # host",
        "name = \"a\" # host c",
        &["\"a\"", "host[0]"],
    );
    refused(
        "\"x{1..2}\" # s",
        "\"r{1..2}\" # s",
        "# switches",
        &["\"r1\"", "router[0]"],
    );
    refused("\"lan\"", "\"a\"", "# the lan", &["lan[0].name", "host[0]"]);
    refused(
        "\"10.1.0.1\"",
        "\"10.0.0.9\" # second",
        "9\" # second",
        &["10.0.0.9", "host[0]"],
    );
    refused(
        "\"c\", \"r2\"",
        "\"r1\", \"a\"",
        "\"r1\", \"a\"",
        &["link[1].ends", "link[0]"],
    );
    let again = "# to a\nname = \"one{1..2}\"\n[[flow]]\nname = \"one1\" # again\nfrom = \"a\"\nto = \"b1\"\n";
    refused(
        "# to a\n",
        again,
        "# again",
        &["the flow \"one1\"", "flow[1]"],
    );
}

#[test]
fn names_and_ranges_that_are_none() {
    refused(
        "name = \"a\"",
        "name = \"a b\"",
        "a b",
        &["host[0].name", "letters"],
    );
    refused("name = \"a\"", "name = \"\"", "# host a", &["1 to 64"]);
    refused(
        "b{1..2}\" # h",
        "b{2..1}\" # h",
        "b{2..1}",
        &["host{1..200}"],
    );
    refused("b{1..2}\" # h", "b{1..\" # h", "b{1..", &["host{1..200}"]);
    refused(
        "b{1..2}\" # h",
        "b{1..4000000000}\" # h",
        "4000000000",
        &["at most 1000000"],
    );
    refused(
        "b{1..2}\" # f",
        "b{1..3}\" # f",
        "b{1..3}",
        &["no host \"b3\""],
    );
    refused(
        "to = \"a\"",
        "to = \"b{1..5}\"",
        "# from b",
        &["2 names", "5 on the other"],
    );
    refused(
        "name = \"good\"",
        "name = \"\"",
        "name = \"\"",
        &["140 characters"],
    );
    refused(
        "[tcp.slow]",
        "[tcp.modern]",
        "[tcp.modern]",
        &["a name that is no profile"],
    );
    refused(
        "\"one\"",
        "\"one{1..2}\"",
        "one{1..2}",
        &["one name for its one flow"],
    );
}

#[test]
fn values_out_of_range() {
    refused(
        "\"10s\"",
        "\"0s\"",
        "duration",
        &["run.duration", "it is 0"],
    );
    refused(
        "\"10s\"",
        "\"2500 h\"",
        "2500 h",
        &["it is 9000000s", "1us to 8640000s"],
    );
    refused(
        "warm_up = \"1s\"",
        "warm_up = \"10s\"",
        "# warm",
        &["less than the duration"],
    );
    refused(
        "# warm",
        "# warm\nbudget = { events = 0 }",
        "budget",
        &["1 or more"],
    );
    refused(
        "\"10.0.0.9\"",
        "\"127.0.0.1\"",
        "127",
        &["an address that a host can have"],
    );
    refused(
        "\"10.1.0.1\"",
        "\"255.255.255.255\"",
        "255",
        &["host[1].address"],
    );
    refused(
        "\"10us\"",
        "\"10min\"",
        "per_packet",
        &["host[0].cpu.per_packet", "600s"],
    );
    refused(
        "\"10 Mbit/s\" # r",
        "\"0 bit/s\" # r",
        "# rate of a",
        &["link[0].rate", "above 0"],
    );
    refused(
        "\"10 Mbit/s\" # r",
        "\"20000 Gbit/s\" # r",
        "# rate of a",
        &["10 Tbit/s"],
    );
    refused(
        "\"1 Mbit/s\"",
        "\"0 bit/s\"",
        "back",
        &["link[0].back.rate"],
    );
    refused(
        "\"1ms\" # d",
        "\"2h\" # d",
        "# delay of a",
        &["link[0].delay", "at most 3600s"],
    );
    refused(
        "\"50 packets\"",
        "\"0 packets\"",
        "0 packets",
        &["link[0].queue"],
    );
    refused("loss = 0.01", "loss = nan", "nan", &["it is NaN", "0 to 1"]);
    refused("loss = 0.01", "loss = -0.1", "-0.1", &["link[0].loss"]);
    refused("loss = 0.01", "mtu = 20", "mtu", &["68 to 65535"]);
    refused("min = 5", "min = nan", "nan", &["link[0].red.min", "NaN"]);
    refused(
        "max = 15",
        "max = 4",
        "max = 4",
        &["link[0].red.max", "above min"],
    );
    refused(
        "max = 15",
        "max = 15, max_p = 2",
        "max_p",
        &["link[0].red.max_p"],
    );
    refused(
        "max = 15",
        "max = 15, weight = 0",
        "weight",
        &["link[0].red.weight"],
    );
    refused(
        "loss = 0.01",
        "mark = \"unlimited\"",
        "mark",
        &["link[0].mark", "65 packets"],
    );
    refused("\"100 Mbit/s\"", "\"0 bit/s\"", "0 bit/s", &["lan[0].rate"]);
    refused(
        "\"b{1..2}\", \"r1\"]",
        "\"r1\"]",
        "stations",
        &["two stations"],
    );
}

#[test]
fn tcp_that_contradicts_itself() {
    let tcp = |rest: &str, line: &str, parts: &[&str]| {
        refused(
            "\"bsd44lite\"",
            &format!("\"bsd44lite\"\n{rest}"),
            line,
            parts,
        );
    };
    tcp(
        "min_rto = \"700ms\"",
        "min_rto",
        &["tcp.slow.min_rto", "multiple", "500ms"],
    );
    tcp("max_rto = \"1s\"", "max_rto", &["tcp.slow.max_rto"]);
    tcp("mss = 10", "mss", &["at least 64"]);
    tcp("ecn = \"on\"", "ecn", &["off", "rfc3168", "dctcp"]);
    tcp(
        "variant = \"dctcp\"\necn = \"rfc3168\"",
        "ecn",
        &["tcp.slow.ecn", "it is \"rfc3168\"; expected \"dctcp\""],
    );
    tcp("send_buffer = \"8000 MB\"", "send_buffer", &["below 4 GiB"]);
    tcp("recv_buffer = 100", "recv_buffer", &["hold a segment"]);
    tcp("slow_tick = \"0s\"", "slow_tick", &["above 0"]);
    tcp("initial_window = 0", "initial_window", &["segments"]);
}

#[test]
fn impossible_topologies() {
    refused(
        "[\"a\", \"r1\"]",
        "[\"r1\", \"r1\"]",
        "\"r1\", \"r1\"",
        &["\"r1\" to itself"],
    );
    refused(
        "[\"a\", \"r1\"]",
        "[\"r2\", \"r1\"]",
        "# host a",
        &["attached to nothing", "[[link]]"],
    );
    let two =
        "[\"c\", \"r2\"]\nrate = \"1 Mbit/s\"\ndelay = \"0s\"\n[[link]]\nends = [\"c\", \"r1\"]";
    refused(
        "[\"c\", \"r2\"]",
        two,
        "# host c",
        &["link[1] and link[2]", "[[router]]"],
    );
    refused(
        "\"r1\"]\n\n[atm]",
        "\"r1\", \"c\"]\n\n[atm]",
        "# host c",
        &["lan[0] and link[1]"],
    );
    refused(
        "[\"c\", \"r2\"]",
        "[\"c\", \"lan\"]",
        "\"lan\"]",
        &["a LAN", "host or router"],
    );
    refused(
        "[\"c\", \"r2\"]",
        "[\"c\", \"x1\"]",
        "\"x1\"]",
        &["a switch", "host or router"],
    );
    let island = "\"c{1..3}\"\n[[link]]\nends = [\"c2\", \"c3\"]\nrate = \"1 Mbit/s\"\ndelay = \"0s\"\n\
                  [[flow]]\nfrom = \"c2\"\nto = \"a\" # island";
    let text = GOOD
        .replace("\"c\", \"r2\"", "\"c1\", \"r2\"")
        .replace("[\"c\"]", "[\"c1\"]");
    let text = text.replacen("\"c\"", island, 1);
    let text = text.replace("\"c\" # to c", "\"c1\"");
    let error = resolve(&text).unwrap_err().to_string();
    assert!(
        error.contains("no way leads from \"c2\" to \"a\""),
        "{error}"
    );
    let none = "schema = \"internet/1\"\nname = \"x\"\nrun = { duration = \"1s\" }\n";
    let error = resolve(none).unwrap_err().to_string();
    assert!(error.contains("host: it is missing"), "{error}");
}

#[test]
fn backbones_that_cannot_be() {
    refused(
        "\"noqos-conv-svc\"",
        "\"noqos-conv-svcc\"",
        "svcc",
        &["atm.policy", "noqos-conv-svc"],
    );
    refused(
        "\"noqos-conv-svc\"",
        "\"sp-av-router-svc\"",
        "sp-av",
        &["atm.policy"],
    );
    refused(
        "\"noqos-conv-svc\"",
        "\"ddr-av-conv-svc\"",
        "ddr-av",
        &["atm.policy", "drr-av-conv-svc"],
    );
    refused("= 170", "= 170, drr_weight = 0", "drr_weight", &["1 to"]);
    refused(
        "= 170",
        "= 1000000000000",
        "1000000000000",
        &["atm.queue.per_vc_limit", "1000000000"],
    );
    refused("= 170", "= 0", "per_vc", &["1 to"]);
    refused(
        "= 170",
        "= 170, discard = \"early\"",
        "early",
        &["atm.queue.early_above", "missing"],
    );
    refused(
        "= 170",
        "= 170, early_above = 9",
        "early_above",
        &["means nothing here"],
    );
    refused("= 170", "= 170, max_vcs = 100000", "max_vcs", &["65000"]);
    refused(
        "[\"x1\", \"x2\"]",
        "[\"a\", \"x2\"]",
        "# host a",
        &["is attached to", "hosts have one attachment"],
    );
    refused(
        "[\"x1\", \"x2\"]",
        "[\"x1\", \"x1\"]",
        "\"x1\", \"x1\"",
        &["to itself"],
    );
    refused(
        "[\"x1\", \"x2\"]",
        "[\"r1\", \"r2\"]",
        "\"r1\", \"r2\"",
        &["two nodes"],
    );
    refused(
        "[\"x1\", \"x2\"]",
        "[\"r1\", \"x2\"]",
        "# adapters",
        &["\"r1\"", "one adapter"],
    );
    let twice = "[\"x1\", \"x2\"]\nrate = \"1 Mbit/s\"\ndelay = \"0s\"\n[[atm.link]]\nends = [\"x2\", \"x1\"]";
    refused(
        "[\"x1\", \"x2\"]",
        twice,
        "\"x2\", \"x1\"",
        &["x2-x1", "atm.link[0]"],
    );
    refused(
        "x{1..2}\" # s",
        "x{1..3}\" # s",
        "# switches",
        &["no way leads", "\"x3\""],
    );
    refused(
        "[\"x1\", \"x2\"]",
        "[\"x1\", \"x9\"]",
        "x9",
        &["switch, router or host"],
    );
    let empty = "schema = \"internet/1\"\nname = \"x\"\nrun = { duration = \"1s\" }\natm = {}\n\
                 host = [{ name = \"a\" }, { name = \"b\" }]\n\
                 link = [{ ends = [\"a\", \"b\"], rate = \"1 bit/s\", delay = \"0s\" }]\n";
    let error = resolve(empty).unwrap_err().to_string();
    assert!(
        error.contains("line 4: atm.switch: it is missing"),
        "{error}"
    );
}

#[test]
fn flows_and_workloads_that_cannot_be() {
    refused(
        "from = \"a\"",
        "from = \"r1\"",
        "from = \"r1\"",
        &["\"r1\" is a router", "only hosts"],
    );
    refused(
        "to = \"c\"",
        "to = \"a\"",
        "\"a\" # to c",
        &["another host"],
    );
    refused(
        "start = \"1s\"",
        "start = \"10s\"",
        "start",
        &["flow[0].start", "end of the run"],
    );
    refused(
        "stop = \"5s\"",
        "stop = \"1s\"",
        "stop",
        &["after the start"],
    );
    refused("\"1 MB\"", "0", "bytes = 0", &["without end"]);
    refused(
        "\"1 MB\"",
        "1\ndatagrams = { gap = \"1s\", size = \"99 B\" }",
        "bytes = 1",
        &["datagrams"],
    );
    refused("exp(1ms)", "exp(0s)", "exp(0s)", &["flow[1].datagrams.gap"]);
    refused("\"200 B\"", "\"10 B\"", "\"10 B\"", &["29 B to 65535 B"]);
    refused(
        "\"200 B\"",
        "\"exp(1000000 B)\"",
        "1000000",
        &["flow[1].datagrams.size"],
    );
    refused(
        "servers = [\"c\"]",
        "servers = []",
        "[[workload.site]]",
        &["all servers are on site 0"],
    );
}

#[test]
fn contracts_that_cannot_be() {
    let contract = |text: &str, line: &str, parts: &[&str]| {
        let to = format!("\"1 MB\"\ncontract = {{ {text} }} # contract");
        refused("\"1 MB\"", &to, line, parts);
    };
    let vbr = "kind = \"vbr\", peak = \"1 Mbit/s\"";
    contract(
        "kind = \"abr\", peak = \"1 Mbit/s\"",
        "# contract",
        &["cbr", "vbr", "ubr"],
    );
    contract("kind = \"cbr\"", "# contract", &["peak"]);
    contract(
        "kind = \"cbr\", peak = \"0 bit/s\"",
        "# contract",
        &["flow[0].contract.peak"],
    );
    contract(
        vbr,
        "# contract",
        &["flow[0].contract.sustained", "missing", "10 Mbit/s"],
    );
    let sustained = format!("{vbr}, sustained = \"500 cells/s\"");
    contract(
        &sustained,
        "# contract",
        &["flow[0].contract.burst", "missing"],
    );
    contract(
        &format!("{sustained}, burst = 0"),
        "# contract",
        &["1 cell or more"],
    );
    let above = format!("{vbr}, sustained = \"2 Mbit/s\", burst = 9");
    contract(&above, "# contract", &["2 Mbit/s", "at most the peak rate"]);
    let ubr = "kind = \"ubr\", peak = \"1 Mbit/s\"";
    contract(
        &format!("{ubr}, burst = 9"),
        "# contract",
        &["means nothing"],
    );
    contract(
        &format!("{ubr}, queue = 0"),
        "# contract",
        &["flow[0].contract.queue"],
    );
    contract(
        &format!("{ubr}, shape = \"round\""),
        "# contract",
        &["packets"],
    );
    let twice = format!(
        "\"1 MB\"\ncontract = {{ {ubr} }}\n[[flow]]\nfrom = \"a\"\nto = \"c\"\ncontract = {{ {ubr} }} # twice"
    );
    refused(
        "\"1 MB\"",
        &twice,
        "# twice",
        &["flow[1].contract", "a->c", "flow[0]"],
    );
    let of_hosts = |text: &str, line: &str, parts: &[&str]| {
        let to = format!("\"1 MB\"\ncontract = {{ {ubr} }}\n[[contract]]\n{text}");
        refused("\"1 MB\"", &to, line, parts);
    };
    let terms = format!("terms = {{ {ubr} }} # terms");
    of_hosts(
        &format!("from = \"a\"\nto = \"c\"\n{terms}"),
        "# terms",
        &["contract[0].terms", "a->c", "flow[0]"],
    );
    of_hosts(
        &format!("from = \"a\"\nto = \"a\" # itself\n{terms}"),
        "# itself",
        &["another host than from"],
    );
    of_hosts(
        "from = \"c\"\nto = \"a\"\nterms = { kind = \"cbr\", peak = \"0 bit/s\" } # peak",
        "# peak",
        &["contract[0].terms.peak"],
    );
}

#[test]
fn topologies_say_what_they_need() {
    let with = |topology: &str| {
        let text = format!(
            "schema = \"internet/1\"\nname = \"x\"\nrun = {{ duration = \"1s\" }}\n[topology]\n{topology}\n"
        );
        resolve(&text).expect_err(topology).to_string()
    };
    let line = "{ rate = \"1 Mbit/s\", delay = \"0s\" }";
    let both = format!("access = {line}\ntrunk = {line}");
    for (topology, parts) in [
        ("kind = \"ring\"".to_owned(), ["line 5", "parking-lot"]),
        (
            "kind = \"dumbbell\"".to_owned(),
            ["topology.pairs", "needs it"],
        ),
        (
            "kind = \"dumbbell\"\npairs = 2".to_owned(),
            ["topology.trunk", "needs it"],
        ),
        (
            format!("kind = \"star\"\nhosts = 2\n{both}"),
            ["line 8: topology.trunk", "means nothing"],
        ),
        (
            format!("kind = \"fat-tree\"\nk = 5\n{both}"),
            ["line 6: topology.k", "even"],
        ),
        (
            format!("kind = \"fat-tree\"\nk = 500\n{both}"),
            ["topology.k", "1 to 128"],
        ),
        (
            format!("kind = \"dumbbell\"\npairs = 0\n{both}"),
            ["topology.pairs", "1 to"],
        ),
        (
            format!("kind = \"tree\"\ndepth = 9\nfanout = 9\n{both}"),
            ["line 7", "hosts; at most"],
        ),
        (
            "kind = \"xunet\"\nworkstations = 201".to_owned(),
            ["topology.workstations", "1 to 200"],
        ),
        (
            "kind = \"xunet\"\nbackbone = \"0 bit/s\"".to_owned(),
            ["topology.backbone", "above 0"],
        ),
        (
            "kind = \"xunet\"\ntcp = \"bds44lite\"".to_owned(),
            ["topology.tcp", "bsd44lite"],
        ),
        (
            format!("kind = \"dumbbell\"\npairs = 2\n{both}").replacen("1 Mbit/s", "0 bit/s", 1),
            ["line 7: topology.access.rate", "0 bit/s"],
        ),
        (
            format!("kind = \"star\"\nhosts = 2\naccess = {line}\n[[host]]\nname = \"hub\""),
            ["line 9: host[0].name", "topology"],
        ),
    ] {
        let error = with(&topology);
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }
}

#[test]
fn disciplines_are_checked() {
    // Beside RED, which the link has; without it.
    let red = "red = { min = 5, max = 15 }";
    refused(
        red,
        &format!("{red}\ndiscipline = {{ pie = {{}} }}"),
        "discipline",
        &["link[0].discipline: it is pie", "without red"],
    );
    for (discipline, parts) in [
        ("{ cake = {} }", ["link[0].discipline", "{ fq_codel = .. }"]),
        ("\"codel\"", ["link[0].discipline", "{ codel = {} }"]),
        (
            "{ codel = { targt = \"5ms\" } }",
            ["codel.targt", "\"target\""],
        ),
        (
            "{ codel = { target = \"0s\" } }",
            ["codel.target", "1us to 100s"],
        ),
        (
            "{ fq_codel = { flows = 0 } }",
            ["fq_codel.flows", "1 to 65535"],
        ),
        (
            "{ fq_codel = { quantum = 5 } }",
            ["fq_codel.quantum", "68 to 1000000"],
        ),
        (
            "{ pie = { update = \"1us\" } }",
            ["pie.update", "100us to 100s"],
        ),
        (
            "{ dualpi2 = { rtt_max = \"10us\" } }",
            ["dualpi2.rtt_max", "1ms to 100s"],
        ),
        (
            "{ dualpi2 = { coupling = 0 } }",
            ["dualpi2.coupling", "1 to 10"],
        ),
        (
            "{ dualpi2 = { classic_share = 60 } }",
            ["dualpi2.classic_share", "1 to 50"],
        ),
        (
            "{ priority = { bands = \"ef, ef\" } }",
            ["priority.bands", "\"ef\" is there twice"],
        ),
        (
            "{ drr = { share = \"port\" } }",
            ["drr.share", "flow, source or destination"],
        ),
        ("{ drr = { flows = 0 } }", ["drr.flows", "1 to 65535"]),
        (
            "{ codel = {}, pie = {} }",
            ["link[0].discipline", "expected { codel"],
        ),
    ] {
        refused(
            red,
            &format!("discipline = {discipline}"),
            "discipline",
            &parts,
        );
    }
}

#[test]
fn json_of_the_same_schema_has_the_same_errors() {
    let scenario = Scenario::from_toml(GOOD, Path::new("")).unwrap();
    let json = serde_json::to_string_pretty(&scenario).unwrap();
    let broken = json.replace("\"to\": \"c\"", "\"to\": \"d\"");
    let error = Scenario::from_json(&broken, Path::new(""))
        .unwrap()
        .resolve()
        .unwrap_err();
    assert_eq!((error.line, error.field.as_str()), (None, "flow[0].to"));
    let error = Scenario::from_json("{\n\"schema\": 1}", Path::new("")).unwrap_err();
    assert_eq!(error.line, Some(2));
}

proptest! {
    #[test]
    fn any_text_is_resolved_or_refused(text: String) {
        let _ = resolve(&text);
    }

    #[test]
    fn a_scenario_with_a_number_or_word_exchanged_is_resolved_or_refused(
        place in 0..400_usize, with in "[0-9]{1,9}|[a-z]{1,6}|\"|\\]|-1|nan|inf",
    ) {
        let words: Vec<(usize, &str)> = GOOD
            .match_indices(|c: char| c.is_alphanumeric())
            .filter(|(at, _)| !GOOD[..*at].ends_with(|c: char| c.is_alphanumeric()))
            .collect();
        let (at, _) = words[place % words.len()];
        let end = GOOD[at..].find(|c: char| !c.is_alphanumeric()).map_or(GOOD.len(), |n| at + n);
        let changed = format!("{}{with}{}", &GOOD[..at], &GOOD[end..]);
        let _ = resolve(&changed);
    }
}
