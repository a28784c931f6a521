use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use layercast_core::{Judged, PerLayer, Quality, Rate, Serial, Zone};
use layercast_link::{LinkStats, MeasuredStats, PortStats};
use layercast_media::{FilterRule, FlowFilterStats, WriterStats};
use layercast_mets::switch::{FilterStats, SwitchStats};
use layercast_mets::{CutStarts, DropStats, LateMs, ParityStats, SinkStats, SourceStats};
use layercast_net::{JoinCounters, LinkRepairStats, NodeSummary, OutputStats};
use layercast_wire::{EndToEndMs, RejectedPdus, RejectedSignals, Silence, SourceClockReport};
use serde_json::json;

use super::*;
use crate::line::ReceiverStatus;
use crate::stats::NodeCounted;

fn metrics() -> Metrics {
    Metrics(Some(Arc::new(State {
        command: "join",
        started: Instant::now(),
        kept: Mutex::default(),
        asking: tokio::sync::Mutex::default(),
    })))
}

fn text_of(metrics: &Metrics) -> String {
    let state = metrics.0.as_ref().unwrap();
    let values = Value::Object(state.lock().values.clone());
    encode::text(values).unwrap()
}

/// The samples of a text, by name and labels.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name, value.parse().unwrap())
        })
        .collect()
}

#[test]
fn a_status_becomes_samples_in_seconds_and_bytes() {
    let metrics = metrics();
    metrics.line(&Line::Receiver(Box::new(ReceiverStatus {
        joined: true,
        level: 2,
        rate_bps: 8_000,
        delay_ms: Some(12.5),
        lost: PerLayer {
            base: 1,
            e1: 2,
            e2: 3,
        },
        outage: PerLayer {
            base: 4,
            e1: 5,
            e2: 6,
        },
        outage_ms: 1_500,
        silence: Some(Silence {
            ms: 2_500,
            overdue: PerLayer {
                base: 7,
                e1: 8,
                e2: 9,
            },
        }),
        quality: Some(Quality {
            zone: Zone::Red,
            throughput_bps: Some(Judged {
                agreed: 0.0,
                measured: 16_000.0,
                zone: Zone::Green,
            }),
            delay_s: Some(Judged {
                agreed: 0.173,
                measured: 0.201,
                zone: Zone::Red,
            }),
            ..Quality::default()
        }),
        ..ReceiverStatus::default()
    })));
    let text = text_of(&metrics);
    let samples = samples(&text);
    assert_eq!(samples["layercast_receiver_joined"], 1.0);
    assert_eq!(samples["layercast_receiver_bytes_per_second"], 1_000.0);
    assert_eq!(samples["layercast_receiver_delay_seconds"], 0.0125);
    assert_eq!(samples["layercast_receiver_outage_seconds_total"], 1.5);
    assert_eq!(samples["layercast_receiver_silent_seconds"], 2.5);
    let overdue = "layercast_receiver_overdue_frames{layer=\"E1\"}";
    assert_eq!(samples[overdue], 8.0, "{text}");
    assert_eq!(
        samples["layercast_receiver_zone{zone=\"red\"}"], 1.0,
        "{text}"
    );
    assert_eq!(samples["layercast_receiver_agreed_delay_seconds"], 0.173);
    assert_eq!(samples["layercast_receiver_measured_delay_seconds"], 0.201);
    assert_eq!(
        samples["layercast_receiver_measured_bytes_per_second"],
        2_000.0
    );
    assert!(!text.contains("jitter"), "not agreed: {text}");
    let lost = "layercast_receiver_lost_frames_total{layer=\"E1\"}";
    assert_eq!(samples[lost], 2.0, "{text}");
    let passed = "layercast_receiver_outage_frames_total{layer=\"E2\"}";
    assert_eq!(samples[passed], 6.0, "{text}");
    assert!(text.contains("# TYPE layercast_receiver_lost_frames_total counter\n"));
    assert!(
        !text.contains("source_clock"),
        "what is unknown is absent: {text}"
    );
}

#[test]
fn texts_of_strangers_are_escaped_and_labels_never_occur_twice() {
    let metrics = metrics();
    let link = json!({ "neighbour": "a\"b\\c\nd", "crowded_out": 1 });
    metrics.keep("stats", "links", json!([link, link]));
    let text = text_of(&metrics);
    let line = r#"layercast_link_crowded_out_datagrams_total{neighbour="a\"b\\c\nd"} 1"#;
    assert_eq!(text.matches(line).count(), 1, "{text}");
}

#[test]
fn a_member_that_declined_the_offer_has_a_reason_and_no_level() {
    let metrics = metrics();
    let member =
        |name: &str| json!({ "member": { "name": name }, "node": "n", "level": 0, "wanted": 2 });
    let mut carl = member("carl");
    carl["refused"] =
        json!({ "resource": "wanted_delay", "needed": 150_000, "available": 250_000 });
    let flow = json!({ "name": "talk", "source": "s", "members": [member("ann"), carl] });
    metrics.keep("stats", "flows", json!([flow]));
    let text = text_of(&metrics);
    let samples = samples(&text);
    let of = |name: &str, member: &str, more: &str| {
        let labels = format!(r#"flow="talk",source="s",member="{member}",node="n"{more}"#);
        samples.get(&*format!("{name}{{{labels}}}")).copied()
    };
    let why = r#",by="wanted_delay""#;
    assert_eq!(
        of("layercast_member_declined", "carl", why),
        Some(1.0),
        "{text}"
    );
    assert_eq!(
        text.matches("layercast_member_declined{").count(),
        1,
        "{text}"
    );
    for (name, value) in [
        ("layercast_member_level", 0.0),
        ("layercast_member_level_wanted", 2.0),
    ] {
        assert_eq!(of(name, "ann", ""), Some(value), "{text}");
        assert_eq!(of(name, "carl", ""), None, "{text}");
    }
}

#[test]
fn the_samples_of_snmp_are_those_of_the_text() {
    let metrics = metrics();
    let link = json!({ "neighbour": "a\"b\\c\nd\u{1}é", "crowded_out": 1 });
    metrics.keep("stats", "links", json!([link, link]));
    metrics.line(&Line::Receiver(Box::default()));
    let values = Value::Object(metrics.0.as_ref().unwrap().lock().values.clone());
    let all = encode::samples_of(&values);
    let text = encode::text(values).unwrap();
    let there = samples(&text);
    assert!(all.len() > 10 && all.len() == there.len(), "{text}");
    for (name, value) in all {
        assert_eq!(there.get(&*name), Some(&value), "{name} of {text}");
    }
}

#[test]
fn a_command_that_reports_no_more_is_not_well() {
    let metrics = metrics();
    let state = metrics.0.as_ref().unwrap();
    assert!(state.health().0, "it may not report each second");
    state.lock().second = Some(Instant::now());
    assert!(state.health().0);
    state.lock().second = Instant::now().checked_sub(STALE + Duration::from_secs(1));
    assert_eq!(state.health().1["status"], "stopped");
    assert!(!state.health().0);
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    let mut names = BTreeSet::new();
    for family in families::all() {
        let name = family.full_name();
        assert!(name.starts_with("layercast_"), "{name}");
        assert!(
            !family.name.ends_with("_total"),
            "{name}: the format appends it"
        );
        for unit in ["_ms", "_us", "_bps", "_bits", "_octets"] {
            assert!(!family.name.contains(unit), "{name}: seconds and bytes");
        }
        assert!(!family.help.ends_with('.'), "{name}");
        assert!(names.insert(name.clone()), "{name} occurs twice");
    }
}

#[test]
fn a_port_alone_is_one_of_this_host() {
    assert_eq!(address("9400").unwrap(), "127.0.0.1:9400".parse().unwrap());
    assert_eq!(address("[::1]:0").unwrap(), "[::1]:0".parse().unwrap());
    assert!(address("host").is_err());
}

/// A path in the repository.
fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The reference page.
fn page() -> String {
    let mut page = String::from(
        "<!-- Generated by `make reference` from crates/cli/src/metrics/families.rs. -->\n\n# Metrics\n\n\
         What `--metrics ADDR` serves at `/metrics`, in the Prometheus text format 0.0.4. [Monitor it](../how-to/monitor.md) explains how to use it.\n\
         A value that is not known is absent. Counters begin at 0 when the command, the member or the link does.\n",
    );
    for group in families::GROUPS {
        page += &format!(
            "\n## {}\n\n| metric | kind | labels | what |\n|---|---|---|---|\n",
            group.title
        );
        for family in group.families {
            let steps = family.at.iter().flat_map(|part| part.iter());
            let labels: Vec<String> = steps
                .flat_map(|step| step.labels())
                .map(|label| format!("`{label}`"))
                .collect();
            let kind = if family.is_counter {
                "counter"
            } else {
                "gauge"
            };
            page += &format!(
                "| `{}` | {kind} | {} | {} |\n",
                family.full_name(),
                labels.join(" "),
                family.help
            );
        }
    }
    page
}

#[test]
fn the_pages_of_metrics_are_current() {
    let path = repository("docs/src/reference/metrics.md");
    if env::var_os("LAYERCAST_WRITE_REFERENCE").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text == page(),
        "{} is out of date, run: make reference",
        path.display()
    );
}

#[test]
fn rules_and_dashboard_use_metrics_that_exist() {
    let names: BTreeSet<String> = families::all().map(|it| it.full_name()).collect();
    for file in [
        "contrib/prometheus/alerts.yml",
        "contrib/grafana/layercast.json",
        "docs/src/how-to/monitor.md",
    ] {
        let text = fs::read_to_string(repository(file)).unwrap();
        let words = text.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        let used: BTreeSet<&str> = words
            .filter(|word| word.starts_with("layercast_"))
            .collect();
        assert!(!used.is_empty(), "{file}");
        for name in used {
            assert!(names.contains(name), "{file}: there is no {name}");
        }
    }
}

/// Passes each number in a value to `each`, with its JSON pointer.
fn numbers(path: &str, value: &mut Value, each: &mut dyn FnMut(&str, &mut Value)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                numbers(&format!("{path}/{name}"), value, each);
            }
        }
        Value::Array(values) => {
            for (place, value) in values.iter_mut().enumerate() {
                numbers(&format!("{path}/{place}"), value, each);
            }
        }
        Value::Number(_) => each(path, value),
        _ => {}
    }
}

/// Gives each number in a value a value that no other has; their paths.
fn number(value: &mut Value) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    numbers("", value, &mut |path, value| {
        let next = 1_000 + all.len() as u64;
        all.insert(path.to_owned(), next);
        *value = json!(next);
    });
    all
}

/// The numbers of a value, by path, that are no samples of the metrics.
fn left_out(values: &Value, all: BTreeMap<String, u64>) -> Vec<String> {
    let mut found = BTreeSet::new();
    for family in families::all() {
        place::samples(values, family.at, &mut |_, value| {
            found.insert(value as u64);
        });
    }
    let left = all.into_iter().filter(|(_, value)| !found.contains(value));
    left.map(|(path, _)| path).collect()
}

#[test]
fn each_number_of_the_summary_of_a_node_is_in_its_stats_and_a_sample() {
    let one = |name: &str| name.to_owned();
    let switch = SwitchStats {
        ports: [(one("ann"), PortStats::default())].into(),
        filters: [(
            one("film/ann"),
            FilterStats {
                rule: FilterRule::Drs,
                filter: FlowFilterStats::default(),
                dropped: PerLayer::default(),
                broken: 0,
            },
        )]
        .into(),
        admission: [(
            one("ann"),
            MeasuredStats {
                window_ms: 0,
                trigger: Rate::default(),
                estimate: Rate::default(),
                measured: Rate::default(),
                declared: Rate::default(),
                flows: 0,
                late_ppm: 0,
                target_ppm: 0,
                kept: true,
                periods_kept: 0,
                periods_broken: 0,
                admitted: 0,
                survived: 0,
                rolled_back: 0,
                refused: 0,
                refused_never: 0,
            },
        )]
        .into(),
        // Zero is left out.
        rejected_signals: RejectedSignals {
            life: 1,
            ..RejectedSignals::default()
        },
        rejected_pdus: RejectedPdus {
            life: 1,
            ..RejectedPdus::default()
        },
        ..SwitchStats::default()
    };
    let source = SourceStats {
        declined: 1,
        parities: Some(ParityStats::default()),
        ..SourceStats::default()
    };
    let summary = NodeSummary {
        node: one("node"),
        switch,
        sources: [(one("film"), source)].into(),
        links: [(one("ann"), LinkStats::default())].into(),
        repairs: [(one("ann"), LinkRepairStats::default())].into(),
        crowded_out: [(one("ann"), 1)].into(),
        udp: Default::default(),
        malformed: 0,
        channels: Default::default(),
        timers: Default::default(),
        // Only nodes of a scenario with a host profile have one.
        host: None,
    };
    let (report, parts) = (summary.report(), summary.parts());
    let mut node = serde_json::to_value(NodeCounted::new(&report, &parts)).unwrap();
    let mut missing = Vec::new();
    let mut of_summary = serde_json::to_value(&summary).unwrap();
    numbers("", &mut of_summary, &mut |path, _| {
        let parts = ["ports", "filters", "admission"];
        let at = match path.strip_prefix("/switch/") {
            Some(rest) if parts.iter().any(|it| rest.starts_with(it)) => format!("/{rest}"),
            _ => path.to_owned(),
        };
        if node.pointer(&at).is_none() {
            missing.push(path.to_owned());
        }
    });
    // The histogram is in the summary alone; the links of the stats have what is crowded out.
    missing.retain(|path| !path.starts_with("/timers/buckets") && path != "/crowded_out/ann");
    assert!(missing.is_empty(), "{missing:?}");
    let all = number(&mut node);
    assert!(all.len() > 150, "{all:?}");
    let left = left_out(&json!({ "stats": { "node": node } }), all);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn each_counter_of_a_receiver_is_a_sample() {
    let sink = SinkStats {
        late_stopped: 1,
        cut_starts: CutStarts {
            starts: 1,
            ..CutStarts::default()
        },
        late_ms: Some(LateMs { p50: 0.0, p99: 0.0 }),
        source_late_ms: Some(0.0),
        source_skipped_ms: 1.0,
        dropped: DropStats {
            life: 1,
            ..DropStats::default()
        },
        repair: Some(Default::default()),
        end_to_end_ms: Some(EndToEndMs::default()),
        source_clock: Some(SourceClockReport {
            ahead_us: 0,
            drift_ppb: 0,
            bound_us: 0,
            age_ms: 0,
            hops: 0,
        }),
        silence: Some(Silence::default()),
        ..SinkStats::default()
    };
    let counters = JoinCounters {
        sink,
        output: OutputStats {
            stream: WriterStats {
                first: Some(Serial(0)),
                ..WriterStats::default()
            },
            ..OutputStats::default()
        },
        ..JoinCounters::default()
    };
    let status = ReceiverStatus {
        link_repair: Some(LinkRepairStats::default()),
        ..ReceiverStatus::default()
    };
    let mut values = json!({ "counted": counters, "receiver": status });
    let mut all = number(&mut values);
    // Both have these.
    for (name, of_sink) in [
        ("frames", "played"),
        ("lost", "lost"),
        ("outage", "outage"),
        ("outage_ms", "outage_ms"),
        ("silence", "silence"),
        ("source_clock", "source_clock"),
    ] {
        values["receiver"][name] = values["counted"]["sink"][of_sink].clone();
    }
    all.retain(|path, _| {
        // The seconds of the status, its count of late frames (they are in the sink by layer), and the histogram of timers.
        let apart = ["/receiver/t_s", "/receiver/late", "/counted/timers/buckets"];
        let doubled = ["/receiver/frames", "/receiver/lost", "/receiver/outage"];
        let mut apart = apart.iter().chain(&doubled);
        !apart.any(|it| path.starts_with(it))
    });
    assert!(all.len() > 150, "{all:?}");
    let left = left_out(&values, all);
    assert!(left.is_empty(), "{left:?}");
}
