//! `layercast sim --seeds`: single runs, sweeps and resumed sweeps give the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::common::{complaint, ends_within, folder, json, layercast, repository, run, signal};
use serde_json::Value;

fn star() -> String {
    repository("scenarios/internet/star.toml")
}

/// What a run wrote, by name; of the summary all but the time it took.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        let mut bytes = fs::read(entry.path()).unwrap();
        if name == "summary.json" {
            let text = String::from_utf8(bytes).unwrap();
            let timed = |line: &&str| line.trim_start().starts_with("\"wall_seconds\"");
            assert_eq!(text.lines().filter(timed).count(), 1);
            let lines = text.lines().filter(|line| !timed(line));
            bytes = lines.collect::<Vec<_>>().join("\n").into_bytes();
        }
        (name, bytes)
    };
    entries.map(read).collect()
}

fn single(scenario: &str, duration: &str, seed: u64, out: &Path) -> BTreeMap<String, Vec<u8>> {
    let (seed, out_text) = (seed.to_string(), out.to_str().unwrap());
    let args = [
        "sim",
        scenario,
        "--duration",
        duration,
        "--seed",
        &seed,
        "--out",
        out_text,
    ];
    assert_eq!(run(&args).status.code(), Some(0));
    files(out)
}

fn sweep(out: &Path, seeds: &str, jobs: &str, more: &[&str]) -> std::process::Output {
    let (star, out) = (star(), out.to_str().unwrap());
    let args = [
        "sim", &star, "--seeds", seeds, "--jobs", jobs, "--out", out, "--json",
    ];
    run(&[&args, more].concat())
}

#[test]
fn a_single_run_a_worker_and_a_resumed_sweep_give_the_same() {
    let folder = folder("sweep-same");
    let second = ["--duration", "1s"];
    let [one, two, resumed] = ["one", "two", "resumed"].map(|name| folder.join(name));
    let found = json(&sweep(&one, "3..6", "1", &second));
    assert_eq!(found["seeds"], serde_json::json!([3, 4, 5, 6]));
    assert_eq!((&found["computed"], &found["kept"]), (&4.into(), &0.into()));
    let figures = found["figures"].as_array().unwrap();
    assert!(
        figures
            .iter()
            .any(|row| row["part"] == "flows" && row["seeds"] == 4)
    );
    for row in figures {
        let [least, median, most] =
            ["min", "median", "max"].map(|name| row[name].as_f64().unwrap());
        assert!(least <= median && median <= most, "{row}");
    }
    let mut again = json(&sweep(&two, "3..6", "2", &second));
    assert!(again == found, "two sweeps differ");

    // Half of it, then what a killed one may leave.
    json(&sweep(&resumed, "3..4", "2", &second));
    let summary = resumed.join("seed-3/summary.json");
    let kept = fs::read(&summary).unwrap();
    for half in [".seed-5", "seed-6"] {
        fs::create_dir(resumed.join(half)).unwrap();
        fs::write(resumed.join(half).join("samples.parquet"), "PAR1").unwrap();
    }
    let found = json(&sweep(&resumed, "3..6", "2", &second));
    assert_eq!((&found["computed"], &found["kept"]), (&2.into(), &2.into()));
    again["computed"] = 2.into();
    again["kept"] = 2.into();
    assert!(again == found, "what a resumed sweep reports differs");
    assert!(fs::read(&summary).unwrap() == kept, "run twice");
    assert_eq!(json(&sweep(&resumed, "3..6", "2", &second))["computed"], 0);

    for seed in 3..=6 {
        let alone = single(&star(), "1s", seed, &folder.join(format!("alone-{seed}")));
        assert!(alone.contains_key("samples.parquet") && alone.contains_key("summary.json"));
        for sweep in [&one, &two, &resumed] {
            assert!(
                files(&sweep.join(format!("seed-{seed}"))) == alone,
                "{sweep:?} {seed}"
            );
        }
    }
    let left: Vec<PathBuf> = fs::read_dir(&resumed)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    assert_eq!(left.len(), 5, "four seeds and sweep.json: {left:?}");
}

#[test]
fn cells_of_a_sweep_are_those_of_single_runs() {
    let folder = folder("sweep-cells");
    let (xunet, out) = (
        repository("scenarios/internet/xunet.toml"),
        folder.join("sweep"),
    );
    let args = [
        "sim",
        &xunet,
        "--duration",
        "5s",
        "--seeds",
        "1..2",
        "--jobs",
        "2",
        "--out",
    ];
    let output = run(&[&args[..], &[out.to_str().unwrap()]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.starts_with("xunet: 2 seeds, 2 of them run now, 0 kept\n"),
        "{text}"
    );
    assert!(
        text.contains("backbone") && text.contains("telnet.rtt p90 ms"),
        "{text}"
    );
    for seed in 1..=2 {
        let alone = single(&xunet, "5s", seed, &folder.join(format!("alone-{seed}")));
        assert!(alone.contains_key("cell_queues.parquet"));
        assert!(files(&out.join(format!("seed-{seed}"))) == alone, "{seed}");
    }
}

#[test]
fn what_an_interrupted_and_a_killed_sweep_had_is_kept() {
    let folder = folder("sweep-killed");
    let out = folder.join("sweep");
    let dumbbell = repository("scenarios/internet/dumbbell.toml");
    let start = || {
        let mut command = layercast();
        command.args(["sim", &dumbbell, "--seeds", "1..16", "--jobs", "2"]);
        command.args(["--json", "--duration", "5s", "--out"]);
        command
            .arg(&out)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("the binary runs")
    };
    let have = || -> Vec<u64> {
        let there = |seed: &u64| out.join(format!("seed-{seed}/summary.json")).exists();
        (1..=16).filter(there).collect()
    };
    let wait_for = |count: usize| {
        while have().len() < count {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut first = start();
    wait_for(1);
    signal(&first, "-INT");
    assert_eq!(ends_within(&mut first, Duration::from_secs(30)), Some(130));
    let output = first.wait_with_output().unwrap();
    let (told, had) = (json(&output), have());
    assert_eq!(told["seeds"].as_array().unwrap().len(), had.len());
    assert_eq!(told["left"].as_u64().unwrap() as usize, 16 - had.len());
    assert!(complaint(&output).contains("the same command continues"));
    let early = had[0];
    let summary = out.join(format!("seed-{early}/summary.json"));
    let of_early = fs::read(&summary).unwrap();

    let mut second = start();
    wait_for(had.len() + 2);
    signal(&second, "-KILL");
    assert_eq!(ends_within(&mut second, Duration::from_secs(30)), None);
    let had = have();
    assert!(had.len() < 16);

    let output = start().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let told = json(&output);
    assert_eq!(
        (told["left"].as_u64(), told["kept"].as_u64()),
        (Some(0), Some(had.len() as u64))
    );
    assert!(fs::read(&summary).unwrap() == of_early, "run twice");
    for seed in [early, 16] {
        let alone = single(&dumbbell, "5s", seed, &folder.join(format!("alone-{seed}")));
        assert!(files(&out.join(format!("seed-{seed}"))) == alone, "{seed}");
    }
}

#[test]
fn a_folder_takes_runs_of_one_scenario_from_one_sweep_at_a_time() {
    let folder = folder("sweep-folder");
    let (out, path) = (folder.join("sweep"), folder.join("star.toml"));
    let text = fs::read_to_string(star()).unwrap();
    let start = |more: &[&str]| {
        let (path, out) = (path.to_str().unwrap(), out.to_str().unwrap());
        run(&[
            &["sim", path, "--seeds", "1..1", "--json", "--out", out],
            more,
        ]
        .concat())
    };
    let half = ["--duration", "500ms"];
    fs::write(&path, &text).unwrap();
    assert_eq!(start(&half).status.code(), Some(0));
    // Comments and the seed that it names do not change a scenario.
    let other = text.replace("[run]\n", "[run] # a comment\nseed = 17\n");
    assert_ne!(other, text);
    fs::write(&path, &other).unwrap();
    assert_eq!(json(&start(&half))["kept"], 1);

    let refused = |output: &std::process::Output, why: &str| {
        assert_eq!(output.status.code(), Some(1));
        assert!(complaint(output).contains(why), "{}", complaint(output));
    };
    refused(
        &start(&["--duration", "400ms"]),
        "another scenario or duration",
    );
    fs::write(&path, text.replace("1 Gbit/s", "2 Gbit/s")).unwrap();
    refused(&start(&half), "another scenario or duration");
    fs::write(&path, &text).unwrap();

    let stamp = out.join("sweep.json");
    let held = fs::File::open(&stamp).unwrap();
    held.lock().unwrap();
    refused(&start(&half), "another sweep is at work");
    held.unlock().unwrap();
    let mut told: Value = serde_json::from_str(&fs::read_to_string(&stamp).unwrap()).unwrap();
    told["engine"] = "0.0.1".into();
    fs::write(&stamp, told.to_string()).unwrap();
    refused(&start(&half), "another build");
    fs::write(&stamp, "{").unwrap();
    refused(&start(&half), "sweep.json");
}

#[test]
fn a_budget_marks_runs_and_their_sweep() {
    let folder = folder("sweep-budget");
    let path = folder.join("short.toml");
    let text = fs::read_to_string(star()).unwrap();
    fs::write(
        &path,
        text.replace("[run]\n", "[run]\nbudget = { events = 2000 }\n"),
    )
    .unwrap();
    let out = folder.join("sweep");
    let (path, out) = (path.to_str().unwrap(), out.to_str().unwrap());
    for kept in [0, 2] {
        let output = run(&["sim", path, "--seeds", "1..2", "--json", "--out", out]);
        assert_eq!(output.status.code(), Some(1));
        let told = json(&output);
        assert_eq!(
            (&told["partial"], &told["kept"]),
            (&serde_json::json!([1, 2]), &kept.into())
        );
        assert!(
            complaint(&output).contains("budget"),
            "{}",
            complaint(&output)
        );
    }
}

#[test]
fn wrong_use_is_said_before_anything_is_made() {
    let folder = folder("sweep-usage");
    let out = folder.join("sweep").to_str().unwrap().to_owned();
    let star = star();
    let wrong = |args: &[&str], why: &str| {
        let output = run(&[&["sim", &star], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            complaint(&output).contains(why),
            "{args:?}: {}",
            complaint(&output)
        );
    };
    for (seeds, why) in [
        ("20..1", "20 is above 1"),
        ("7", "expected FIRST..LAST"),
        ("a..b", "\"a\" is no seed"),
        ("1..-1", "\"-1\" is no seed"),
        ("1..=2", "\"=2\" is no seed"),
        ("0..18446744073709551615", "more than 100000 seeds"),
    ] {
        wrong(&["--out", &out, "--seeds", seeds], why);
    }
    let sweep = ["--out", &out, "--seeds", "1..2"];
    for (more, why) in [
        (&["--jobs", "0"][..], "--jobs"),
        (&["--seed", "1"], "--seed"),
        (&["--pcap", "x"], "--pcap"),
        (&["--trace", "x"], "--trace"),
        (&["--check"], "--check"),
        (&["--wire-check"], "--wire-check"),
    ] {
        wrong(&[&sweep, more].concat(), why);
    }
    wrong(&["--seeds", "1..2"], "--out");
    wrong(&["--jobs", "2"], "--seeds");
    assert!(!Path::new(&out).exists());
    let quickstart = repository("scenarios/quickstart.toml");
    let mets = run(&["sim", &quickstart, "--seeds", "1..2", "--out", &out]);
    assert!(complaint(&mets).contains("--seeds is for internetworks"));
    let no_folder = run(&["sim", &star, "--seeds", "1..1", "--out", "/proc/no/such"]);
    assert_eq!(no_folder.status.code(), Some(1));
    assert!(complaint(&no_folder).contains("/proc/no/such"));
}

#[test]
fn receivers_of_layered_flows_have_figures() {
    let (folder, film) = (
        folder("sweep-mets"),
        "scenarios/internet/mets-over-atm.toml",
    );
    let (film, out) = (repository(film), folder.to_str().unwrap());
    let duration = ["--duration", "51s", "--json"];
    // The transfer beside the film makes most of the events.
    let text = fs::read_to_string(film).unwrap();
    let text = text.replace("start = \"5s\"", "start = \"50.9s\"");
    let scenario = folder.with_extension("toml");
    fs::write(&scenario, text).unwrap();
    let args = ["sim", scenario.to_str().unwrap(), "--seeds", "1..2"];
    let found = json(&run(&[&args[..], &["--out", out], &duration].concat()));
    let figures = found["figures"].as_array().unwrap();
    let figure = |of: &str, name: &str| {
        let mut rows = figures.iter();
        let row =
            rows.find(|row| row["part"] == "mets" && row["of"] == of && row["figure"] == name);
        let row = row.expect("a figure of a receiver");
        assert_eq!(row["seeds"], 2);
        row["median"].as_f64().unwrap()
    };
    assert!(figure("canyon-at-dwp", "BL played") > 90.0);
    assert!(figure("canyon-at-dwp", "E2 played") > 300.0);
    assert_eq!(figure("canyon-at-dwp", "BL lost"), 0.0);
    let delay = figure("flight-at-dwp", "delay p50");
    assert!((0.01..0.5).contains(&delay), "{delay}");
}
