//! `--snmp` of the commands, read by the programs of Debian's `snmp`.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{
    Running, complaint, ends_within, folder, free_port, have_ffmpeg, json, layercast, make_clip,
    real_time, run, signal,
};

const QOS: &str = ".1.3.6.1.4.1.8072.9999.9999.1996";
const SYSTEM: &str = ".1.3.6.1.2.1.1";
/// Age of what an agent shows, at most, and some time to spare.
const FRESH: Duration = Duration::from_millis(1_200);

/// A program of Debian's `snmp` with numeric names and without tables of names, asking the agent at `address`.
fn ask(program: &str, community: &str, address: &str, about: &[&str]) -> Output {
    Command::new(program)
        .args([
            "-v2c", "-c", community, "-t", "2", "-r", "1", "-On", "-m", "",
        ])
        .arg(address)
        .args(about)
        .output()
        .expect("it runs")
}

/// All that is below a name: values with their types, by name.
fn walk(program: &str, address: &str, below: &str) -> BTreeMap<String, String> {
    let output = ask(program, "public", address, &[below]);
    assert!(output.status.success(), "{}", complaint(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    // A walk to the end of all variables tells so.
    text.lines()
        .filter(|line| !line.contains("No more variables left"))
        .map(|line| {
            let (name, value) = line.split_once(" = ").expect("a variable");
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

/// The text of a value.
fn text(value: &str) -> String {
    let quoted = value.strip_prefix("STRING: \"").expect("a text");
    let text = quoted.strip_suffix('"').expect("a text");
    text.replace("\\\"", "\"")
}

/// The columns of the only member as a walk has to show them, from its entry in `stats --json`.
fn expected(flow: &Value, member: &Value) -> BTreeMap<String, String> {
    let quality = &member["report"]["quality"];
    let zone = ["grey", "green", "yellow", "red"]
        .iter()
        .position(|zone| quality["zone"] == *zone)
        .expect("a zone");
    let octets = |value: &Value| {
        let number = value.as_u64().expect("a number") as u32;
        number.to_be_bytes().map(|octet| octet.to_string())
    };
    let id = [octets(&flow["id"]), octets(&member["member"]["id"])].concat();
    let name = |column: u32| format!("{QOS}.1.2.1.{column}.{}.2", id.join("."));
    let quoted = |value: &Value| format!("STRING: \"{}\"", value.as_str().expect("a text"));
    let mut columns = BTreeMap::from([
        (name(3), quoted(&flow["name"])),
        (name(4), quoted(&member["member"]["name"])),
        (name(5), format!("INTEGER: {}", zone + 1)),
    ]);
    let measures = [
        ("throughput_bps", "Counter64", 1.0),
        ("delay_s", "Gauge32", 1e6),
        ("jitter_s", "Gauge32", 1e6),
        ("error_rate", "Gauge32", 1e9),
    ];
    for (first, key) in [(6, "measured"), (10, "agreed")] {
        for (column, (measure, kind, scale)) in (first..).zip(measures) {
            if let Some(value) = quality[measure][key].as_f64() {
                let value = format!("{kind}: {}", (value * scale).round());
                columns.insert(name(column), value);
            }
        }
    }
    columns
}

#[real_time]
fn a_walk_of_debian_shows_what_stats_prints() {
    if !have_ffmpeg() {
        return;
    }
    if Command::new("snmpwalk").arg("-V").output().is_err() {
        let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(!required, "snmpwalk is missing");
        eprintln!("left out: snmpwalk is missing");
        return;
    }
    let folder = folder("snmp");
    let clip = make_clip(&folder, 4);
    let agent = format!("127.0.0.1:{}", free_port());
    let promise = ["--profile", "broadcasting"];
    let args = ["serve", &clip, "--loop", "--snmp", &agent];
    let server = Running::start(&[&args[..], &promise[..]].concat());
    let mut receiver = layercast()
        .args(["join", &server.url, "--name", "ann", "--snmp", "0", "--out"])
        .arg(folder.join("got.m1v"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let stats = || json(&run(&["stats", &server.url, "--json"]));
    let begun = Instant::now();
    let columns = loop {
        // The agent asks the node with the first request after that time, so between the two others.
        sleep(FRESH);
        let [before, shown, after] = {
            let before = stats();
            let shown = walk("snmpbulkwalk", &agent, QOS);
            [before, serde_json::json!(shown), stats()]
        };
        let flow = &after["flows"][0];
        let member = &flow["members"][0];
        let quality = |stats: &Value| stats["flows"][0]["members"][0]["report"]["quality"].clone();
        let is_judged = quality(&after)["delay_s"].is_object();
        // No report came meanwhile.
        if is_judged && quality(&before) == quality(&after) {
            let shown: BTreeMap<String, String> = serde_json::from_value(shown).expect("texts");
            let of_table = format!("{QOS}.1.2.1.");
            let mut columns = shown.clone();
            columns.retain(|name, _| name.starts_with(&of_table));
            assert_eq!(columns, expected(flow, member));
            break shown;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{after:#}");
    };
    assert_eq!(columns[&format!("{QOS}.1.1.1.0")], "Gauge32: 1");
    let in_zones: u32 = (2..=5)
        .map(|number| {
            let value = columns[&format!("{QOS}.1.1.{number}.0")].strip_prefix("Gauge32: ");
            value.expect("a count").parse::<u32>().expect("a number")
        })
        .sum();
    assert_eq!(in_zones, 1, "the member is in one zone");
    // The names of `--metrics`, each with a number.
    let mut metrics = BTreeMap::new();
    for (name, value) in &columns {
        if let Some(number) = name.strip_prefix(&format!("{QOS}.1.3.1.2.")) {
            let of = &columns[&format!("{QOS}.1.3.1.3.{number}")];
            metrics.insert(text(value), text(of).parse::<f64>().expect("a number"));
        }
    }
    let frames = metrics.iter().find(|(name, _)| {
        name.starts_with("layercast_member_frames_total{flow=\"clip\"")
            && name.contains("member=\"ann\"")
            && name.ends_with("layer=\"BL\"}")
    });
    assert!(
        frames.is_some_and(|(_, &count)| count > 0.0),
        "{metrics:#?}"
    );
    assert_eq!(metrics["layercast_node_neighbours"], 1.0);

    // GETNEXT and GETBULK show the same variables.
    let system = walk("snmpwalk", &agent, SYSTEM);
    let version = format!("\"layercast serve {}\"", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        system[&format!("{SYSTEM}.1.0")],
        format!("STRING: {version}")
    );
    let names = |all: BTreeMap<String, String>| all.into_keys().collect::<Vec<_>>();
    assert_eq!(
        names(walk("snmpwalk", &agent, &format!("{QOS}.1.2"))),
        names(walk("snmpbulkwalk", &agent, &format!("{QOS}.1.2")))
    );
    // Nothing is written, and without the community there is no answer.
    let name = format!("{SYSTEM}.5.0");
    let set = ask("snmpset", "public", &agent, &[&name, "s", "mine"]);
    assert!(
        complaint(&set).contains("notWritable"),
        "{}",
        complaint(&set)
    );
    let stranger = ask("snmpget", "private", &agent, &[&name]);
    assert!(
        complaint(&stranger).contains("Timeout"),
        "{}",
        complaint(&stranger)
    );
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    for octets in [&[0xff; 1_400][..], &[0x30, 0x80], &[]] {
        noise.send_to(octets, &agent).unwrap();
    }
    assert_eq!(walk("snmpwalk", &agent, SYSTEM).len(), system.len());

    signal(&receiver, "-INT");
    assert_eq!(
        ends_within(&mut receiver, Duration::from_secs(60)),
        Some(130)
    );
    let ended = receiver.wait_with_output().expect("it ends");
    let said = complaint(&ended);
    assert!(said.contains("SNMP at udp:127.0.0.1:"), "{said}");
}

#[test]
fn an_agent_that_cannot_answer_or_would_answer_any_host_says_what_helps() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let out = folder("snmp-taken").display().to_string();
    let receive = |more: &[&str]| run(&[&["receive", "--out", &out][..], more].concat());
    let any_host = ["--snmp", "0.0.0.0:0"];
    let nowhere = ["--snmp", "0", "--snmp-trap", "0.0.0.0:162"];
    for (args, code, why, remedy) in [
        (
            &["--snmp", &address][..],
            1,
            "cannot answer SNMP at 127",
            "--snmp 127.0.0.1:1161",
        ),
        (
            &any_host,
            2,
            "at 0.0.0.0:0 is one that every host knows",
            "--snmp-community TEXT",
        ),
        (&nowhere, 2, "--snmp-trap", "write 127.0.0.1:162"),
        (
            &["--snmp", "0", "--snmp-community", ""],
            2,
            "1 to 255 octets",
            "--snmp-community",
        ),
        (
            &["--snmp-trap", "127.0.0.1:162"],
            2,
            "not provided",
            "--snmp <ADDR>",
        ),
    ] {
        let output = receive(args);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(why) && said.contains(remedy), "{said}");
    }
}
