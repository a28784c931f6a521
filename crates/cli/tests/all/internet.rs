//! `layercast sim` with scenarios of internetworks.

use crate::common::{complaint, folder, json, repository, run, without_clock};
use serde_json::Value;

fn ready_made(name: &str) -> String {
    repository(&format!("scenarios/internet/{name}.toml"))
}

#[test]
fn a_run_prints_what_scripts_rely_on_and_the_same_twice() {
    let dumbbell = ready_made("dumbbell");
    let args = [
        "sim",
        &dumbbell,
        "--json",
        "--duration",
        "3s",
        "--seed",
        "7",
    ];
    let first = without_clock(&run(&args));
    assert_eq!(first["scenario"], "dumbbell");
    assert_eq!(
        (&first["seed"], &first["seconds"]),
        (&7.into(), &3.0.into())
    );
    assert_eq!(first["stopped"], Value::Null);
    let flows = first["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 10);
    let ends = (&flows[1]["source"], &flows[1]["destination"]);
    assert_eq!(ends, (&"left2".into(), &"right2".into()));
    assert!(flows[1]["start"].is_f64(), "{}", flows[1]);
    let total: f64 = flows
        .iter()
        .map(|flow| flow["goodput_bps"].as_f64().unwrap())
        .sum();
    assert!(
        (30e6..100e6).contains(&total),
        "{total} bit/s over a link of 100 Mbit/s"
    );
    let trunk = first["queues"].as_array().unwrap().iter();
    let trunk = trunk.filter(|queue| queue["name"] == "left->right").count();
    assert_eq!(trunk, 1);
    let second = without_clock(&run(&args));
    assert!(first == second, "two runs differ");
}

#[test]
fn a_schema_that_is_none_is_named_with_its_line() {
    let dumbbell = std::fs::read_to_string(ready_made("dumbbell")).unwrap();
    let folder = folder("schema");
    let file = folder.join("s.toml");
    let path = file.to_str().unwrap();
    let say = |schema: &str, line: &str| {
        let text = dumbbell.replace("schema = \"internet/1\"", line);
        std::fs::write(&file, text).unwrap();
        let said = complaint(&run(&["sim", "--check", path]));
        let expected = format!("s.toml:3: schema: it is {schema}; expected \"internet/1\" or");
        assert!(said.contains(&expected), "{said}");
    };
    say("\"internet\"", "schema = \"internet\"");
    say("\"Internet/1\"", "\"schema\" = \"Internet/1\"");
    say("'mets/1'", "schema = 'mets/1'");
    say("1", "schema = 1");
    // As TOML has it, in whatever quotes.
    let text = dumbbell.replace("schema = \"internet/1\"", "'schema' = 'internet/1'");
    std::fs::write(&file, text).unwrap();
    let checked = run(&["sim", "--check", path]);
    assert!(checked.status.success(), "{}", complaint(&checked));
}

#[test]
fn cells_one_by_one_give_the_same_as_trains() {
    let xunet = ready_made("xunet");
    let result = |more: &[&str]| {
        let args = ["sim", &xunet, "--json", "--duration", "10s"];
        without_clock(&run(&[&args[..], more].concat()))
    };
    let trains = result(&[]);
    assert!(trains["cell_hops"].as_u64() > Some(10_000));
    assert!(trains == result(&["--per-cell"]), "the two differ");
}

#[test]
fn threads_find_the_same_as_one_or_say_why_there_is_one() {
    let result = |name: &str, threads: &str| {
        let scenario = ready_made(name);
        let output = run(&[
            "sim",
            &scenario,
            "--json",
            "--duration",
            "3s",
            "--threads",
            threads,
        ]);
        (without_clock(&output), complaint(&output))
    };
    let (one, _) = result("tree", "1");
    for threads in ["2", "3"] {
        let (many, said) = result("tree", threads);
        assert_eq!(said, "");
        assert!(many == one, "{threads} threads differ from one");
    }
    let (_, said) = result("xunet", "2");
    assert!(
        said.contains("note: one thread runs it: only TCP and UDP flows"),
        "{said}"
    );
}

#[test]
fn the_table_shows_flows_and_the_busiest_queue_first() {
    let output = run(&["sim", &ready_made("parking-lot"), "--duration", "12s"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    let cross = text
        .lines()
        .find(|line| line.trim_start().starts_with("cross3"));
    assert!(cross.is_some(), "{text}");
    let after = text
        .lines()
        .skip_while(|line| !line.contains("busiest first"));
    let first = after
        .skip(1)
        .map(str::trim_start)
        .next()
        .unwrap_or_default();
    assert!(
        ["r0->r1", "r1->r2", "r2->r3"]
            .iter()
            .any(|name| first.starts_with(name)),
        "{text}"
    );
}

#[test]
fn the_folder_holds_the_summary_and_parquet() {
    let folder = folder("internet-out");
    let out = folder.join("run");
    let star = ready_made("star");
    let args = [
        "sim",
        &star,
        "--json",
        "--duration",
        "1s",
        "--out",
        out.to_str().unwrap(),
    ];
    let printed = json(&run(&args));
    let summary = std::fs::read_to_string(out.join("summary.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&summary).unwrap(), printed);
    for name in ["flows", "queues", "samples"] {
        let bytes = std::fs::read(out.join(format!("{name}.parquet"))).unwrap();
        assert!(
            bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
            "{name}"
        );
        // The footer stands before its length and the magic; version 1 comes first in it.
        let (rest, length) = bytes[..bytes.len() - 4].split_last_chunk().unwrap();
        let footer = &rest[rest.len() - u32::from_le_bytes(*length) as usize..];
        assert!(
            footer.starts_with(&[0x15, 2]) && footer.ends_with(b"layercast\0"),
            "{name}"
        );
    }
}

#[test]
fn the_network_of_the_thesis_measures_its_applications() {
    let folder = folder("internet-xunet");
    let out = folder.to_str().unwrap();
    let xunet = ready_made("xunet");
    let report = json(&run(&[
        "sim",
        &xunet,
        "--json",
        "--duration",
        "40s",
        "--out",
        out,
    ]));
    let measured = report["measurements"].as_array().unwrap();
    let rtt = measured
        .iter()
        .find(|found| found["name"] == "telnet.rtt")
        .unwrap();
    assert!(rtt["count"].as_u64().unwrap() > 100, "{rtt}");
    // Ten milliseconds of links each way at least, between any two sites.
    assert!(rtt["p50"].as_f64().unwrap() > 0.01, "{rtt}");
    assert!(report["cell_hops"].as_u64().unwrap() > 10_000);
    assert_eq!(report["atm"]["adapters"].as_array().unwrap().len(), 6);
    assert!(folder.join("cell_queues.parquet").exists());
}

#[test]
fn a_budget_ends_a_run_with_a_partial_result() {
    let folder = folder("internet-budget");
    let path = folder.join("short.toml");
    let text = std::fs::read_to_string(ready_made("dumbbell")).unwrap();
    let text = text.replace(
        "duration = \"100s\"",
        "duration = \"100s\"\nbudget = { events = 20000 }",
    );
    std::fs::write(&path, text).unwrap();
    let output = run(&["sim", path.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    assert_eq!(report["stopped"], "event_budget");
    assert!(report["seconds"].as_f64().unwrap() < 100.0);
    assert!(complaint(&output).contains("run.budget.events"));
}

#[test]
fn check_and_errors_do_not_run_anything() {
    for name in [
        "dumbbell",
        "parking-lot",
        "fat-tree",
        "star",
        "tree",
        "xtp",
        "xunet",
    ] {
        let output = run(&["sim", "--check", &ready_made(name)]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{name}: {}",
            complaint(&output)
        );
        assert!(String::from_utf8_lossy(&output.stdout).contains("no errors"));
    }
    let folder = folder("internet-wrong");
    let path = folder.join("wrong.toml");
    let text = std::fs::read_to_string(ready_made("dumbbell")).unwrap();
    let line = text
        .lines()
        .position(|line| line.starts_with("to = "))
        .unwrap()
        + 1;
    std::fs::write(&path, text.replace("right{1..10}", "rihgt{1..10}")).unwrap();
    let output = run(&["sim", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = complaint(&output);
    let place = format!("wrong.toml:{line}: flow[0].to: there is no host \"rihgt1\"");
    assert!(
        complaint.contains(&place) && complaint.contains("did you mean"),
        "{complaint}"
    );
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}

/// How many interfaces a capture has, and how many packets or cells.
fn blocks(file: &std::path::Path) -> (usize, u64) {
    let bytes = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut interfaces, mut packets) = (0, 0, 0);
    while at < bytes.len() {
        match word(at) {
            1 => interfaces += 1,
            6 => packets += 1,
            _ => {}
        }
        at += word(at + 4) as usize;
    }
    (interfaces, packets)
}

/// How many queues there are, and what all sent.
fn counted(queues: &serde_json::Value) -> (usize, u64) {
    let queues = queues.as_array().unwrap();
    let sent = queues.iter().map(|it| it["sent"].as_u64().unwrap());
    (queues.len(), sent.sum())
}

#[test]
fn a_capture_of_a_backbone_has_its_cells_unless_they_are_not_wanted() {
    let folder = folder("internet-pcap-cells");
    let (file, scenario) = (folder.join("xunet.pcapng"), ready_made("xunet"));
    let result = |more: &[&str]| {
        let mut args = vec!["sim", &scenario, "--duration", "2s", "--json"];
        args.extend(more);
        without_clock(&run(&args))
    };
    let path = file.to_str().unwrap();
    let report = result(&["--pcap", path]);
    let (pipes, packets) = counted(&report["queues"]);
    let (ports, cells) = counted(&report["atm"]["queues"]);
    assert!(cells > 1_000, "{cells}");
    assert_eq!(blocks(&file), (pipes + ports, packets + cells));
    assert!(result(&[]) == report);
    assert!(result(&["--pcap", path, "--no-cells"]) == report);
    assert_eq!(blocks(&file), (pipes, packets));
}

#[test]
fn a_capture_holds_a_packet_for_each_that_was_sent() {
    let file = folder("internet-pcap").join("star.pcapng");
    let path = file.to_str().unwrap();
    let star = ready_made("star");
    let report = json(&run(&[
        "sim",
        &star,
        "--duration",
        "1s",
        "--json",
        "--pcap",
        path,
    ]));
    let (queues, sent) = counted(&report["queues"]);
    assert_eq!(blocks(&file), (queues, sent));
    let nowhere = run(&["sim", &star, "--pcap", "/no/such/folder/x.pcapng"]);
    assert!(complaint(&nowhere).contains("/no/such/folder/x.pcapng"));
}

#[test]
fn a_trace_of_an_internetwork_has_states_of_tcp() {
    let file = folder("internet-trace").join("trace.jsonl");
    let path = file.to_str().unwrap();
    let star = ready_made("star");
    let output = run(&["sim", &star, "--duration", "1s", "--trace", path]);
    assert!(output.status.success(), "{}", complaint(&output));
    let trace = std::fs::read_to_string(&file).unwrap();
    assert!(trace.contains(r#""machine":"tcp""#), "{trace}");
}

#[test]
fn a_series_is_the_same_each_time_and_changes_no_result() {
    let folder = folder("internet-series");
    let dumbbell = ready_made("dumbbell");
    let args = ["sim", &dumbbell, "--json", "--duration", "2s"];
    let file = folder.join("a.parquet").display().to_string();
    let sub = folder.join("run").display().to_string();
    let taken = run(&[&args[..], &["--series", &file, "--threads", "2"]].concat());
    assert!(without_clock(&taken) == without_clock(&run(&args)));
    let said = complaint(&taken);
    assert!(said.contains("one thread runs it: a series"), "{said}");
    run(&[&args[..], &["--series", &sub]].concat());
    let whole = std::fs::read(folder.join("a.parquet")).unwrap();
    assert_eq!(
        whole,
        std::fs::read(folder.join("run/series.parquet")).unwrap()
    );
    // 200 instants, ten flows and at least the trunk, and a byte or more for each of most columns.
    assert!(whole.len() > 200 * 11 * 40, "{}", whole.len());
    let more = ["--series", &sub, "--series-interval", "100ms"];
    run(&[&args[..], &more].concat());
    let coarse = std::fs::read(folder.join("run/series.parquet")).unwrap();
    assert!(coarse.len() < whole.len() / 5, "{}", coarse.len());
    let star = repository("scenarios/group/star.toml");
    let refused = run(&["sim", &star, "--series", &file]);
    assert_eq!(refused.status.code(), Some(2));
    let mets = repository("scenarios/quickstart.toml");
    let layered = ["sim", &mets, "--json", "--duration", "4s"];
    let file = folder.join("mets.parquet").display().to_string();
    let taken = run(&[&layered[..], &["--series", &file]].concat());
    assert!(without_clock(&taken) == without_clock(&run(&layered)));
    assert!(std::fs::metadata(&file).unwrap().len() > 10_000);
}

#[test]
fn flags_that_do_not_apply_are_said() {
    let usage = |args: &[&str], flag: &str| {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            complaint(&output).contains(flag),
            "{args:?}: {}",
            complaint(&output)
        );
    };
    usage(&["sim", &ready_made("star"), "--no-cells"], "--pcap");
    let quickstart = repository("scenarios/quickstart.toml");
    usage(
        &["sim", &quickstart, "--pcap", "x", "--no-cells"],
        "--no-cells",
    );
    usage(
        &["sim", &ready_made("star"), "--wire-check"],
        "--wire-check",
    );
}

#[test]
fn the_schema_that_is_printed_is_that_of_the_repository() {
    for (option, file) in [
        ("--schema", "internet.schema.json"),
        ("--schema=internet", "internet.schema.json"),
        ("--schema=group", "group.schema.json"),
        ("--schema=mets", "mets.schema.json"),
    ] {
        let printed = run(&["sim", option]).stdout;
        let kept = std::fs::read(repository(&format!("scenarios/{file}"))).unwrap();
        assert!(printed == kept, "{option}");
    }
}
