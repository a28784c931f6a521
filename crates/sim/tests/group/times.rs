//! Times of scenarios at their bounds and beyond.

use layercast_core::{Rate, Span, Time};
use layercast_sim::group::scenario::GroupScenario;
use layercast_sim::group::{Costs, HostSpec, Simulation};

use crate::common::{layercast, run, star};

/// A scenario with every time that it can have; `frm` has those of streams.
fn scenario(profile: &str, extra: &str) -> String {
    let session = match profile {
        "frm" => {
            "profile = \"frm\"\nweak = { eject = { min_release = 1, interval = \"1s\", slow_rounds = 2 } }"
        }
        _ => "profile = \"rmtp\"\npackets = 20\ntat = \"1s\"\nalpha = \"1s\"",
    };
    format!(
        r#"schema = "group/1"
name = "times"
[session]
{session}
delta = "1ms"
opening_wait = "1s"
[source]
send_data = "1us"
send_control = "1us"
take_data = "1us"
take_control = "1us"
evaluate = "1us"
[[branch]]
name = "b"
count = 3
loss = 0.2
delay = "1ms"
delay_to = "10min"
host = {{ receivers = 3, take_control = "1us", send_control = "1us" }}
[[fec]]
branches = ["b"]
n = 4
m = 1
flush = "1s"
{extra}
"#
    )
}

const STREAM: &str = r#"
[stream]
packets = 20
interval = "1s"
service = "1us"
[[fault]]
at = "1s"
receivers = "1"
what = "service"
service = "1us"
"#;

/// The scenario with `value` in place of each of its times in turn, and the line of that time.
fn changed(text: &str, value: &str) -> Vec<(String, usize, String)> {
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices(" = \"1") {
            let name = line[..at].rsplit([' ', '{']).next().unwrap();
            let begin = at + " = \"".len();
            let end = begin + line[begin..].find('"').unwrap();
            // A fault happens at any time.
            if name == "at" || name == "receivers" {
                continue;
            }
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines[number].replace_range(begin..end, value);
            all.push((name.to_owned(), number + 1, lines.join("\n")));
        }
    }
    all
}

#[test]
fn every_time_beyond_its_bound_is_refused_with_its_line_and_its_range() {
    let mut names = std::collections::BTreeSet::new();
    for (profile, extra) in [("rmtp", ""), ("frm", STREAM)] {
        for value in ["1400h", "601s", "199 h"] {
            for (name, line, text) in changed(&scenario(profile, extra), value) {
                let read = GroupScenario::from_toml(&text).unwrap();
                let error = read.resolve().expect_err(&name).located(&text);
                assert_eq!(error.line, Some(line), "{name}: {error}");
                let said = error.to_string();
                assert!(
                    said.contains(&name) && said.contains("at most 10min"),
                    "{said}"
                );
                names.insert(name);
            }
        }
    }
    // Costs, waits, back-off, delays, codes and processes.
    assert_eq!(names.len(), 14, "{names:?}");
}

#[test]
fn a_back_off_of_all_receivers_beyond_a_day_is_refused() {
    let text = scenario("rmtp", "")
        .replace("count = 3", "count = 1000")
        .replace("delta = \"1ms\"", "delta = \"90s\"");
    let error = GroupScenario::from_toml(&text)
        .unwrap()
        .resolve()
        .unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("session.delta") && said.contains("for 1000 receivers"),
        "{said}"
    );
}

#[test]
fn every_time_at_its_bound_runs_to_an_end() {
    for (profile, extra) in [("rmtp", ""), ("frm", STREAM)] {
        for (name, _, text) in changed(&scenario(profile, extra), "10min") {
            let mut scenario = GroupScenario::from_toml(&text).unwrap();
            scenario.run.duration.0 = Span::from_secs(100 * 86_400);
            scenario.run.events = 200_000;
            let group = scenario
                .resolve()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut simulation = Simulation::new(group).unwrap();
            simulation.run(|_| true);
            let summary = simulation.summary();
            let ended = summary.partial || summary.ended_s.is_some();
            assert!(ended && summary.receivers == 3, "{name}: {summary:?}");
        }
    }
}

/// A processor and a link that are busy for longer than time is counted are busy until its end.
#[test]
fn work_that_never_ends_is_waited_for_until_the_end_of_time() {
    let months = Span::from_secs(100 * 86_400);
    let mut group = star(layercast(), 2_000, 5, 0.1);
    let costs = Costs {
        send_data: Span::from_us(1),
        send_control: months,
        take_data: months,
        take_control: months,
        evaluate: months,
    };
    group.source.costs = costs;
    group.branches[0].receiver = Some(HostSpec {
        costs,
        ..HostSpec::default()
    });
    group.until = Time::ZERO + months;
    let summary = run(group);
    assert!(summary.partial || summary.failure.is_some());

    let mut group = star(layercast(), 2_000, 5, 0.1);
    group.branches[0].link.rate = Some(Rate::from_bps(1));
    group.branches[0].link.queue = u64::MAX;
    group.until = Time::ZERO + months;
    let summary = run(group);
    assert!(summary.partial || summary.failure.is_some());
}
