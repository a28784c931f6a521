//! The JSON Schema and the program give the same verdict on a scenario file.

mod mets;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use jsonschema::Validator;
use layercast_sim::group::scenario::GroupScenario;
use layercast_sim::internet::scenario::Scenario;
use layercast_sim::scenario::Scenario as Layered;
use serde_json::{Value, json};

static INTERNET: LazyLock<Validator> = LazyLock::new(|| validator(&Scenario::json_schema()));
static GROUP: LazyLock<Validator> = LazyLock::new(|| validator(&GroupScenario::json_schema()));
static METS: LazyLock<Validator> = LazyLock::new(|| validator(&Layered::json_schema()));

fn validator(schema: &Value) -> Validator {
    jsonschema::validator_for(schema).unwrap()
}

fn program(scenario: &Value) -> Result<(), String> {
    let said = |error: layercast_sim::internet::scenario::ScenarioError| error.to_string();
    let text = scenario.to_string();
    if scenario.get("schema").is_none() {
        let read = Layered::from_json(&text, &folder(""));
        let checked = read.and_then(|scenario| scenario.validate().map(drop));
        return checked.map_err(|error| error.to_string());
    }
    match scenario["schema"] == "group/1" {
        true => GroupScenario::from_json(&text)
            .and_then(|scenario| scenario.resolve().map(drop))
            .map_err(said),
        false => Scenario::from_json(&text, &folder("internet"))
            .and_then(|scenario| scenario.resolve_attached().map(drop))
            .map_err(said),
    }
}

fn schema(scenario: &Value) -> Result<(), String> {
    let validator = match scenario.get("schema") {
        None => &METS,
        Some(schema) if schema == "group/1" => &GROUP,
        Some(_) => &INTERNET,
    };
    validator
        .validate(scenario)
        .map_err(|error| format!("{}: {error}", error.instance_path()))
}

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../scenarios")
        .join(kind)
}

/// Every file of the repository that has a schema.
fn shipped() -> Vec<(PathBuf, Value)> {
    let mut found = Vec::new();
    for kind in ["internet", "group", ""] {
        for file in std::fs::read_dir(folder(kind)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|it| it == "toml") {
                let text = std::fs::read_to_string(&path).unwrap();
                if let Ok(scenario) = toml::from_str::<Value>(&text)
                    && (scenario["schema"].is_string() || kind.is_empty())
                {
                    found.push((path, mets::without_files(scenario)));
                }
            }
        }
    }
    let mets = found.iter().filter(|it| it.1.get("schema").is_none());
    assert!(mets.count() > 5 && found.len() > 20, "{}", found.len());
    found
}

/// Holds both verdicts on `scenario` to be `fine`.
#[track_caller]
fn both(fine: bool, scenario: &Value, what: &str) {
    let (schema, program) = (schema(scenario), program(scenario));
    assert_eq!(
        schema.is_ok(),
        fine,
        "schema on {what}: {schema:?}; the program: {program:?}"
    );
    assert_eq!(
        program.is_ok(),
        fine,
        "program on {what}: {program:?}; the schema: {schema:?}"
    );
}

#[test]
fn both_accept_every_shipped_scenario() {
    for (path, scenario) in shipped() {
        assert_eq!(schema(&scenario), Ok(()), "{}", path.display());
        // Checking a large network takes seconds; others of the tests run these.
        if !path.ends_with("xunet-chain.toml") {
            assert_eq!(program(&scenario), Ok(()), "{}", path.display());
        }
    }
}

/// Values that no field of a kind takes.
fn bad(kind: &str) -> Vec<Value> {
    let texts: &[&str] = match kind {
        "bands" => &["ef ef", "ef, *, ef", "*,*", "ef,"],
        "rate" => &[
            "10 Mbps/s",
            "10 Mbps",
            "0 Mbit/s",
            "-1 Mbit/s",
            "10",
            "Mbit/s",
            "10 MB/s",
            "11 Tbit/s",
            "0.0 bit/s",
            "10 000 kbit/s",
            "fast",
            "",
        ],
        "delay" => &[
            "-20ms", "20", "20 msec", "2 h", "3601s", "61 min", "soon", "1,5 ms",
        ],
        "wait" => &["-20ms", "20", "601s", "10.1 min", "1400h", "soon"],
        "duration" => &["0s", "-5s", "10", "2401 h", "8640001s", "1 day"],
        "queue" => &[
            "50",
            "0 packets",
            "0 B",
            "64 KB",
            "2 GB",
            "-5 packets",
            "many",
            "1000000001 packets",
            "5 ms",
        ],
        "bytes" => &["64 KB", "64", "-1 B", "2000 TB", "much"],
        _ => &[],
    };
    let mut values: Vec<Value> = texts.iter().map(|text| json!(text)).collect();
    values.extend(match kind {
        "title" => vec![
            json!(""),
            json!("é".repeat(141)),
            json!("a\u{1b}[2J"),
            json!("a\n"),
            json!("a\u{9b}"),
            json!(5),
        ],
        "loss" => vec![json!(1.5), json!(-0.1), json!("1%"), json!(true)],
        "mtu" => vec![
            json!(20),
            json!(67),
            json!(65_536),
            json!(-1),
            json!(1.5),
            json!("1500"),
        ],
        "bytes" => vec![json!(-1), json!(1.5), json!(true)],
        _ => vec![json!(5), json!([]), json!({}), json!(false)],
    });
    values
}

/// Values that every field of a kind takes.
fn good(kind: &str) -> Vec<Value> {
    let texts: &[&str] = match kind {
        "bands" => &["ef", "ef cs6, af41 af42, *, le", "1, 11"],
        "rate" => &[
            "10 Mbit/s",
            "1 Tbit/s",
            "10 Tbit/s",
            "64kb/s",
            "1.5 Gb/s",
            "3622 cells/s",
            "1e7 bit/s",
            "  5 Mbit/s ",
        ],
        "delay" => &[
            "0s",
            "20ms",
            "5e-06s",
            "1 h",
            "3600s",
            "60 min",
            "14.499933504006384ms",
            ".5 us",
            "0.000 s",
        ],
        "wait" => &["0s", "3ms", "600s", "10min", "0.5 min"],
        "duration" => &["3s", "14.499933504006384s", "0.5 min", "2.e0 s"],
        "queue" => &[
            "50 packets",
            "1 packet",
            "64 kB",
            "64 KiB",
            "1 GB",
            "unlimited",
            "1000000000 B",
        ],
        "bytes" => &["64 kB", "64 KiB", "1500 B", "1e3 B"],
        _ => &[],
    };
    let mut values: Vec<Value> = texts.iter().map(|text| json!(text)).collect();
    values.extend(match kind {
        "title" => vec![json!("x"), json!("Größe: 3 km²"), json!("é".repeat(140))],
        "loss" => vec![json!(0), json!(0.5), json!(1)],
        "mtu" => vec![json!(576), json!(1_500), json!(65_535)],
        "bytes" => vec![json!(20_000)],
        _ => vec![],
    });
    values
}

#[test]
fn both_give_the_same_verdict_on_values_in_and_out_of_range() {
    let internet: Value = toml::from_str(
        r#"
        schema = "internet/1"
        name = "t"
        run = { duration = "1s" }
        tcp.default.max_cwnd = "64 KiB"
        host = [{ name = "a" }, { name = "b" }]
        router = [{ name = "r" }]
        lan = []
        link = [
            { ends = ["a", "r"], rate = "10 Mbit/s", delay = "1ms" },
            { ends = ["r", "b"], rate = "10 Mbit/s", delay = "1ms", queue = "50 packets", loss = 0.01,
              back = { rate = "1 Mbit/s", loss = 0.1 } },
        ]
        flow = [{ from = "a", to = "b", bytes = 5000 }]
        "#,
    )
    .unwrap();
    let dumbbell: Value = toml::from_str(
        r#"
        schema = "internet/1"
        name = "t"
        run = { duration = "1s" }
        topology = { kind = "dumbbell", pairs = 2, access = { rate = "1 Gbit/s", delay = "1ms" }, trunk = { rate = "10 Mbit/s", delay = "1ms" } }
        "#,
    )
    .unwrap();
    let group: Value = toml::from_str(
        r#"
        schema = "group/1"
        name = "t"
        session = { profile = "layercast", rate = "1 Mbit/s", packets = 10 }
        branch = [{ name = "b", count = 3, delay = "1ms", rate = "10 Mbit/s", loss = 0.1 }]
        "#,
    )
    .unwrap();
    for (scenario, field, kind) in [
        (&internet, "/run/duration", "duration"),
        (&internet, "/link/1/rate", "rate"),
        (&internet, "/link/1/delay", "delay"),
        (&internet, "/link/1/queue", "queue"),
        (&internet, "/link/1/loss", "loss"),
        (&internet, "/link/1/mtu", "mtu"),
        (&internet, "/link/1/back/rate", "rate"),
        (&internet, "/link/1/back/loss", "loss"),
        (&internet, "/link/1/back/queue", "queue"),
        (&internet, "/link/1/discipline/priority/bands", "bands"),
        (&internet, "/flow/0/bytes", "bytes"),
        (&internet, "/tcp/default/max_cwnd", "bytes"),
        (&dumbbell, "/topology/trunk/rate", "rate"),
        (&dumbbell, "/topology/trunk/delay", "delay"),
        (&dumbbell, "/topology/trunk/queue", "queue"),
        (&dumbbell, "/topology/trunk/loss", "loss"),
        (&dumbbell, "/topology/access/mtu", "mtu"),
        (&group, "/run/duration", "duration"),
        (&group, "/branch/0/rate", "rate"),
        (&group, "/session/rate", "rate"),
        (&group, "/branch/0/queue", "bytes"),
        (&group, "/branch/0/delay", "wait"),
        (&group, "/branch/0/host/send_data", "wait"),
        (&group, "/branch/0/host/evaluate", "wait"),
        (&group, "/source/send_control", "wait"),
        (&group, "/source/take_data", "wait"),
        (&group, "/source/take_control", "wait"),
        (&group, "/session/delta", "wait"),
        (&group, "/session/spread", "wait"),
        (&group, "/session/opening_wait", "wait"),
        (&internet, "/name", "title"),
        (&group, "/name", "title"),
        (&group, "/branch/0/name", "title"),
    ] {
        for (fine, values) in [(true, good(kind)), (false, bad(kind))] {
            for value in values {
                // A window of less than two segments is the program's to refuse.
                if fine
                    && field.ends_with("max_cwnd")
                    && [json!("1500 B"), json!("1e3 B")].contains(&value)
                {
                    continue;
                }
                let changed = with(scenario, field, &value);
                both(fine, &changed, &format!("{field} = {value}"));
            }
        }
    }
    for (fine, tcp) in [
        (true, json!({ "ecn": "l4s", "variant": "dctcp" })),
        (true, json!({ "ecn": "rfc3168" })),
        (false, json!({ "ecn": "l4s" })),
        (false, json!({ "ecn": "l4s", "variant": "cubic" })),
        (true, json!({ "variant": "dctcp" })),
        (true, json!({ "ecn": "dctcp", "variant": "dctcp" })),
        (false, json!({ "ecn": "rfc3168", "variant": "dctcp" })),
        (false, json!({ "ecn": "off", "variant": "dctcp" })),
        (true, json!({ "recovery": "rack" })),
        (
            true,
            json!({ "recovery": "rack", "sack": true, "variant": "sack" }),
        ),
        (false, json!({ "recovery": "rack", "sack": false })),
        (false, json!({ "recovery": "rack", "variant": "newreno" })),
        (
            true,
            json!({ "slow_start": "hystart++", "variant": "reno" }),
        ),
        (
            false,
            json!({ "slow_start": "hystart++", "variant": "linux" }),
        ),
    ] {
        let changed = with(&internet, "/tcp/default", &tcp);
        both(fine, &changed, &tcp.to_string());
    }
    let red = json!({ "min": 5, "max": 15 });
    for (fine, queue) in [
        (true, json!({ "discipline": { "codel": {} } })),
        (true, json!({ "mark": "20 packets" })),
        (
            false,
            json!({ "discipline": { "codel": {} }, "mark": "20 packets" }),
        ),
        (false, json!({ "discipline": { "codel": {} }, "red": red })),
    ] {
        for place in ["/link/1", "/link/1/back"] {
            let mut changed = internet.clone();
            for (name, value) in queue.as_object().unwrap() {
                changed = with(&changed, &format!("{place}/{name}"), value);
            }
            both(fine, &changed, &format!("{place}: {queue}"));
        }
    }
}

#[test]
fn both_refuse_names_of_nodes_that_are_none() {
    let internet: Value = toml::from_str(
        r#"
        schema = "internet/1"
        name = "t"
        run = { duration = "1s" }
        host = [{ name = "a{1..2}" }, { name = "é_2" }]
        router = [{ name = "r" }]
        lan = [{ name = "l", rate = "10 Mbit/s", latency = "5us", stations = ["a1", "a2"] }]
        link = [{ ends = ["é_2", "r"], rate = "10 Mbit/s", delay = "1ms" }]
        "#,
    )
    .unwrap();
    assert_eq!(schema(&internet), Ok(()));
    for field in ["/host/0/name", "/router/0/name", "/lan/0/name"] {
        for name in ["", "a b", "a.b", "a\u{1b}[2J", "a{1.2}", "a}", "a\n"] {
            let changed = with(&internet, field, &json!(name));
            both(false, &changed, &format!("{field} = {name:?}"));
        }
    }
}

/// The scenario with another value at a place; the tables around it are made.
fn with(scenario: &Value, pointer: &str, value: &Value) -> Value {
    let mut changed = scenario.clone();
    let mut node = &mut changed;
    for step in pointer.split('/').skip(1) {
        node = match step.parse::<usize>() {
            Ok(index) => &mut node[index],
            Err(_) => &mut node[step],
        };
    }
    *node = value.clone();
    changed
}

/// All places of texts and numbers in a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                places(value, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate().take(2) {
                places(item, &format!("{at}/{index}"), found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

#[test]
fn what_the_schema_refuses_in_a_shipped_scenario_the_program_refuses() {
    let mutants = [
        json!("10 Mbps/s"),
        json!("-20ms"),
        json!("0 Mbit/s"),
        json!("50"),
        json!("64 KB"),
        json!(-1),
        json!(1.5),
        json!(1e12),
        json!(true),
        json!([]),
        json!({}),
        json!(null),
    ];
    let mut refused = 0;
    for (path, scenario) in shipped() {
        // Networks of thousands of nodes take too long to resolve for each mutant.
        if std::fs::metadata(&path).unwrap().len() > 4_000 {
            continue;
        }
        let mut fields = Vec::new();
        places(&scenario, "", &mut fields);
        // An entry of a table shows what the others do.
        let mut alike = HashMap::new();
        fields.retain(|field| {
            let shape: String = field.chars().filter(|it| !it.is_ascii_digit()).collect();
            let count = alike.entry(shape).or_insert(0);
            *count += 1;
            *count <= 1
        });
        for field in fields {
            for mutant in &mutants {
                let changed = with(&scenario, &field, mutant);
                // What is wrong by type or unit the reader refuses before it builds anything.
                if let Err(schema) = schema(&changed) {
                    refused += 1;
                    let program = program(&changed);
                    assert!(
                        program.is_err(),
                        "{}: {field} = {mutant}: {schema}",
                        path.display()
                    );
                }
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}
