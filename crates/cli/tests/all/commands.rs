//! The commands that need no network: help, probe, sim.

use crate::common;
use crate::common::{
    complaint, folder, have_ffmpeg, json, layercast, make_clip, repository, run, without_clock,
};
use serde_json::Value;

const COMMANDS: [&str; 17] = [
    "probe",
    "filter",
    "sim",
    "serve",
    "switch",
    "join",
    "stats",
    "token",
    "demo",
    "send",
    "receive",
    "emulate-receivers",
    "emulate",
    "policer-probe",
    "path",
    "workload",
    "xtpd",
];

#[test]
fn every_command_explains_itself_with_examples() {
    for command in COMMANDS {
        let output = run(&[command, "--help"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(text.contains("Examples:") && text.contains(&format!("layercast {command}")));
        assert!(!text.contains('\u{1b}'), "{command}: colours in a pipe");
    }
}

#[test]
fn wrong_use_is_told_from_failure() {
    for args in [
        &["serve"][..],
        &["nonsense"],
        &["join", "nowhere"],
        &["join", "127.0.0.1:1", "--level", "3"],
        &["sim", "x.toml", "--duration", "5 parsecs"],
        &["filter", "x.m1v", "-o", "y.m1v"],
        &[
            "filter", "x.m1v", "-o", "y.m1v", "--keep", "I", "--rate", "800k",
        ],
        &["filter", "x.m1v", "-o", "y.m1v", "--low-pass", "65"],
        &["emulate", "--to", "127.0.0.1:0"],
        &["emulate", "--to", "0.0.0.0:9001"],
        &[
            "emulate",
            "--listen",
            "127.0.0.1:9001",
            "--to",
            "127.0.0.1:9001",
        ],
        &["emulate", "--to", "127.0.0.1:9001", "--burst", "3"],
        &["emulate", "--to", "127.0.0.1:9001", "--schedule", "10s:60%"],
        &["serve", "x.m1v", "--max-neighbours", "0"],
    ] {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
}

/// clap does not ask for what an option needs if that conflicts with another one: both are named as a conflict.
#[test]
fn an_option_that_would_be_ignored_is_refused() {
    for (args, option) in [
        ("serve x.m1v --insecure --key nosuch", "--key"),
        (
            "switch --upstream 127.0.0.1:1 --insecure --key nosuch",
            "--key",
        ),
        (
            "switch --upstream 127.0.0.1:1 --interface 127.0.0.1",
            "--multicast",
        ),
        ("join 127.0.0.1:1/f --interface 127.0.0.1", "--multicast"),
        ("join 127.0.0.1:1 --list --sdp x", "--sdp"),
        (
            "join 127.0.0.1:1 --list --undecodable mark",
            "--undecodable",
        ),
        ("join 127.0.0.1:1 --list --explain x", "--explain"),
        ("join 127.0.0.1:1 --list --name x", "--name"),
        ("join 127.0.0.1:1 --list --level 0", "--level"),
        ("join 127.0.0.1:1 --list --identity x", "--identity"),
        ("join 127.0.0.1:1 --list --patience 3s", "--patience"),
        (
            "join 127.0.0.1:1 --list --multicast 239.1.1.1:7500",
            "--multicast",
        ),
        ("sim x.toml --check --jobs 3", "--jobs"),
        ("sim --schema --seeds 1..2", "--seeds"),
        ("sim --schema --jobs 2", "--jobs"),
        ("sim --schema --no-cells", "--no-cells"),
        ("emulate --to 127.0.0.1:9 --no-cells", "--no-cells"),
        ("send x --to 127.0.0.1:9 --ttl 3", "--ttl"),
        (
            "send x --to 127.0.0.1:9 --interface 127.0.0.1",
            "--interface",
        ),
        ("send x --to 127.0.0.1:9 --side 239.1.1.1:7700", "--side"),
        (
            "emulate-receivers --group 239.1.1.1:7600 --key x --gap 3ms",
            "--gap",
        ),
        ("fec plan x.toml --code 14+2 --block 10", "--block"),
        ("path recv --record x --period 20ms", "--period"),
    ] {
        let words: Vec<&str> = args.split(' ').collect();
        let output = run(&words);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{args}: {said}");
        assert!(said.contains(option), "{args}: {said}");
        let is_told = said.contains("cannot be used with") || said.contains("not provided");
        assert!(is_told, "{args}: {said}");
    }
}

/// All that is missing or wrong is named, with the help of the command that was used.
#[test]
fn wrong_use_names_all_that_is_missing_and_the_help_of_the_command() {
    let big = folder("big").join("big.toml");
    let file = std::fs::File::create(&big).unwrap();
    file.set_len(17 << 20).unwrap();
    let big = big.display().to_string();
    let own = ["switch", "--listen", "127.0.0.1:7999", "--upstream"];
    for (code, args, says) in [
        (
            2,
            &["fec", "edge"][..],
            &["--peer <HOST:PORT>", "--in <ADDR>", "--out <ADDR>"][..],
        ),
        (
            2,
            &["emulate", "--to", "127.0.0.1:0"],
            &["has the port 0", "127.0.0.1:7400", "'--help'"],
        ),
        (
            2,
            &[
                "fec",
                "edge",
                "--peer",
                "127.0.0.1:1",
                "--out",
                "127.0.0.1:0",
            ],
            &["has the port 0", "'--help'"],
        ),
        (
            2,
            &["send", "x", "--to", "127.0.0.1:1", "--to", "127.0.0.1:1"],
            &["named twice", "see layercast send --help"],
        ),
        (
            1,
            &["sim", &big],
            &[
                "larger than 8 MiB",
                "a short text in TOML",
                "check that this is the file",
            ],
        ),
        (
            1,
            &[&own[..], &["127.0.0.1:7999", "--insecure"]].concat(),
            &[
                "127.0.0.1:7999 is this node itself",
                "--upstream takes the URL",
            ],
        ),
        (
            1,
            &[&own[..], &["layercasts://localhost:7999?fp=any"]].concat(),
            &["127.0.0.1:7999 is this node itself"],
        ),
    ] {
        let output = run(args);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        for part in says {
            assert!(said.contains(part), "{args:?}: {part} is missing: {said}");
        }
        assert!(!said.contains("see layercast --help"), "{said}");
    }
}

#[test]
fn urls_of_other_protocols_are_named_with_a_bridge() {
    for (args, parts) in [
        (
            &["serve", "srt://127.0.0.1:9000", "--via", "none"][..],
            ["srt:// is not supported", "srt-live-transmit"],
        ),
        (
            &["serve", "rtmp://h/live", "--via", "none"],
            ["rtmp:// is not supported", "ffmpeg -i 'rtmp://h/live'"],
        ),
        (
            &["probe", "udp://127.0.0.1:5000"],
            ["udp:// is not supported", "layercast serve"],
        ),
        (
            &["join", "http://127.0.0.1:7400"],
            ["http:// is not supported", "layercasts://"],
        ),
        (
            &["stats", "udp://127.0.0.1:7400"],
            ["udp:// is not supported", "layercasts://"],
        ),
        (&["join", "::1"], ["::1", "in brackets"]),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = complaint(&output);
        for part in parts {
            assert!(said.contains(part), "{args:?}: {part:?} is not in {said:?}");
        }
    }
}

#[test]
fn addresses_without_a_part_are_refused_with_a_suggestion() {
    let folder = folder("addresses");
    let file = folder.join("s.url");
    std::fs::write(&file, "layercast://127.0.0.1:7400/film\n").expect("a file");
    let file = file.display().to_string();
    let at = format!("@{file} reads the URL");
    for (args, parts) in [
        (
            &["serve", "x.m1v", "--listen", "18564"][..],
            ["has no address", "127.0.0.1:18564"],
        ),
        (
            &["switch", "--upstream", "a:1", "--listen", ":7410"],
            ["has no address", "0.0.0.0:7410"],
        ),
        (
            &["receive", "--listen", "127.0.0.1"],
            ["has no port", "127.0.0.1:7400"],
        ),
        (
            &["emulate", "--to", "localhost:9000"],
            ["an IP address and a port", "127.0.0.1:9000"],
        ),
        (
            &["policer-probe", "--listen", "here"],
            ["expected ADDR:PORT", "0.0.0.0:7400"],
        ),
        (
            &["xtpd", "x", "--listen", "::1"],
            ["has no port", "[::1]:7400"],
        ),
        (
            &["serve", "udp://127.0.0.1", "--listen", "127.0.0.1:0"],
            ["has no port", "udp://127.0.0.1:5000"],
        ),
        (
            &["join", "127.0.0.1:9/f", "--out", "rtp://127.0.0.1"],
            ["has no port", "rtp://127.0.0.1:5000"],
        ),
        (
            &["path", "send", "127.0.0.1"],
            ["has no port", "127.0.0.1:9500"],
        ),
        (&["join", &file], ["no HOST:PORT", &at]),
        (
            &["join", "127.0.0.1:9/f", "--multicast", "10.0.0.1:7500"],
            ["224.0.0.0", "239.255.255.255"],
        ),
        (
            &["join", "127.0.0.1:9/f", "--out", "x.ts", "--sdp", "x.sdp"],
            ["--sdp", "--out rtp://"],
        ),
        (
            &["send", "x", "--to", "127.0.0.1:70000"],
            ["70000", "HOST:PORT"],
        ),
    ] {
        let output = run(args);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?}: {}",
            complaint(&output)
        );
        let said = complaint(&output);
        for part in parts {
            assert!(said.contains(part), "{args:?}: {part:?} is not in {said:?}");
        }
    }
}

#[test]
fn a_missing_clip_of_a_scenario_is_named_with_its_line_and_a_command() {
    let folder = folder("missing-clip");
    let demo = std::fs::read_to_string(repository("scenarios/demo.toml")).expect("the scenario");
    let scenario = folder.join("demo.toml");
    let own = demo.replace("target/demo/clip.m1v", "films/own.m1v");
    for (text, clip, says) in [
        (&demo, "target/demo/clip.m1v", "`make clips`"),
        (&own, "films/own.m1v", "-bf 2 films/own.m1v"),
    ] {
        std::fs::write(&scenario, text).expect("a file");
        for command in [
            &["sim", "demo.toml"][..],
            &["demo", "--scenario", "demo.toml"],
        ] {
            let output = common::layercast()
                .args(command)
                .current_dir(&folder)
                .output()
                .expect("the binary runs");
            assert_eq!(output.status.code(), Some(1), "{command:?}");
            let said = complaint(&output);
            let line = 1 + text.lines().take_while(|it| !it.contains(clip)).count();
            let place = format!("demo.toml:{line}: flow[0].clip: cannot read {clip}: No such file");
            assert!(said.contains(&place) && said.contains(says), "{said}");
        }
    }
}

#[test]
fn values_on_the_command_line_are_refused_with_cause_and_example() {
    let folder = folder("values");
    let clip = folder.join("clip.h264");
    std::fs::write(&clip, include_bytes!("../../../../fuzz/corpus/h264/b")).expect("a clip");
    let clip = clip.to_str().expect("text");
    let text = folder.join("token");
    std::fs::write(&text, "no token").expect("a file");
    let text = text.to_str().expect("text");
    for (args, parts) in [
        (
            &["sim", "x.toml", "--duration=-20ms"][..],
            ["is negative", "250ms"],
        ),
        (
            &["sim", "x.toml", "--duration", "3 sec"],
            ["unknown unit", "3 s"],
        ),
        (
            &["serve", "x.ts", "--rate", "10 Mbps"],
            ["unknown unit", "10 Mbit/s"],
        ),
        (
            &["serve", "x.ts", "--rate", "0 Mbit/s"],
            ["is zero", "above 0"],
        ),
        (
            &["serve", "x.ts", "--rate", "10"],
            ["has no unit", "100 Mbit/s"],
        ),
        (
            &[
                "serve",
                "udp://127.0.0.1:9",
                "--rates",
                "4Mbit/s,3Mbit/s,2Mbit/s,1Mbit/s",
            ],
            ["4 rates", "three layers"],
        ),
        (
            &["serve", "-", "--encoder-cmd", ""],
            ["--encoder-cmd", "a value is required"],
        ),
        (
            &[
                "emulate",
                "--to",
                "127.0.0.1:9",
                "--rate",
                "1Mbit/s",
                "--queue",
                "50",
            ],
            ["has no unit", "64 KiB"],
        ),
        (
            &["emulate", "--to", "127.0.0.1:9", "--queue", "64 KB"],
            ["unknown unit", "64 kB"],
        ),
        (
            &["emulate", "--to", "127.0.0.1:9", "--loss", "1.5"],
            ["out of range", "from 0 to 1"],
        ),
        (
            &["workload", "offered", "--duration=0s"],
            ["it is 0", "10s"],
        ),
        (
            &["serve", "x.ts", "--start-when-joined", "0"],
            ["it is out of range", "from 1 to"],
        ),
        (
            &["sim", "--schema", "foo"],
            ["takes no scenario", "--schema=group"],
        ),
        (
            &["serve", clip, "--listen", "127.0.0.1:0", "--headroom", "50"],
            ["--headroom is for live media", "a URL"],
        ),
        (
            &["join", "127.0.0.1:9/f", "--token-file", text],
            ["no token in --token-file", "layercast token"],
        ),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        for part in parts {
            assert!(said.contains(part), "{args:?}: {part:?} is not in {said:?}");
        }
    }
}

#[test]
fn control_characters_of_arguments_are_escaped_in_errors() {
    for args in [["probe", "no\u{1b}[31mfile"], ["sim", "--seed=\u{7}7"]] {
        let output = run(&args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains(['\u{1b}', '\u{7}']), "{said:?}");
        assert!(!output.status.success());
    }
}

#[test]
fn a_check_prints_every_error_with_its_place() {
    let file = folder("check").join("bad.toml");
    let text = "schema = \"internet/1\"\nname = \"bad\"\nnam = 1\n[run]\nduration = \"1s\"\n[topology]\n\
                kind = \"dumbbell\"\npairs = 1\naccess = { rate = \"1 Gbit/s\", delay = \"1ms\" }\n\
                [topology.trunk]\nrate = \"10 Mbps\"\ndelay = \"1ms\"\nloss = 1.5\n";
    std::fs::write(&file, text).unwrap();
    let output = run(&["sim", "--check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in [
        "bad.toml:3: nam: there is no field",
        "bad.toml:11: topology.trunk.rate: \"10 Mbps\" has the unknown unit",
        "bad.toml:13: topology.trunk.loss: it is 1.5; expected a probability",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    assert_eq!(said.lines().count(), 3, "{said}");
}

#[test]
fn a_capture_is_no_trace_and_the_error_names_the_export() {
    let file = folder("pcap").join("run.pcap");
    std::fs::write(&file, b"\xD4\xC3\xB2\xA1\x02\0\x04\0\xFF\xFE").unwrap();
    let file = file.to_str().unwrap();
    for args in [
        &["workload", "analyze", "video", file][..],
        &["workload", "analyze", "http", file],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = complaint(&output);
        assert!(said.contains("packet capture"), "{said}");
    }
}

#[test]
fn probe_tells_which_octets_can_be_discarded_first() {
    let corpus = |name: &str| format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
    let stream = corpus("ts/mpeg2");
    let report = json(&run(&["probe", "--classes", &stream, "--json"]));
    let size = std::fs::metadata(&stream).unwrap().len();
    assert_eq!(report["octets"], size);
    let classes = report["classes"].as_array().unwrap();
    let letters: Vec<&str> = classes
        .iter()
        .map(|it| it["class"].as_str().unwrap())
        .collect();
    assert_eq!(letters, ["S", "I", "P", "B"]);
    let sum = |key: &str| -> u64 { classes.iter().map(|it| it[key].as_u64().unwrap()).sum() };
    assert_eq!((sum("octets"), sum("packets")), (size, size / 188));
    assert!(report["videos"][0]["sequence"].is_null());
    let report = json(&run(&[
        "probe",
        "--classes",
        "--pictures",
        "--json",
        &stream,
    ]));
    let (video, mut octets) = (&report["videos"][0], [0.0; 2]);
    let sequence = &video["sequence"];
    let letters = sequence["classes"].as_str().unwrap();
    for kind in video["pictures"].as_array().unwrap() {
        let letter = kind["class"].as_str().unwrap();
        let count = kind["count"].as_u64().unwrap();
        assert_eq!(letters.matches(letter).count() as u64, count);
        octets[0] += count as f64 * kind["mean_octets"].as_f64().unwrap();
    }
    let sizes = sequence["octets"].as_array().unwrap();
    assert_eq!(sizes.len(), letters.len());
    octets[1] = sizes.iter().map(|it| it.as_f64().unwrap()).sum();
    assert!((octets[0] - octets[1]).abs() < 0.1, "{octets:?}");
    let alone = run(&["probe", "--classes", "--pictures", &stream]);
    assert_eq!(alone.status.code(), Some(2));
    let table = run(&["probe", "--classes", &stream]);
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    for part in [
        "headers, tables, sound",
        "I pictures",
        "B pictures, padding",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let other = run(&["probe", "--classes", &corpus("ivf/vp9")]);
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(
        !other.status.success() && said.contains("ffmpeg -i FILE"),
        "{said}"
    );
}

#[test]
fn probe_tells_layers_and_rates() {
    if !have_ffmpeg() {
        return;
    }
    let clip = make_clip(&folder("probe"), 4);
    let probe = json(&run(&["probe", &clip, "--json"]));
    assert_eq!(probe["codec"], "mpeg1");
    assert_eq!(
        (&probe["width"], &probe["height"]),
        (&160.into(), &120.into())
    );
    assert_eq!(probe["fps"], 25.0);
    assert_eq!(probe["pictures"]["I"], probe["gops"]);
    let pictures = ["I", "P", "B"].map(|kind| probe["pictures"][kind].as_u64().unwrap());
    assert_eq!(pictures.iter().sum::<u64>(), 100);
    for (layer, name) in probe["layers"]
        .as_array()
        .unwrap()
        .iter()
        .zip(["BL", "E1", "E2"])
    {
        assert_eq!(layer["name"], name);
        assert!(layer["mean_bps"].as_u64().unwrap() <= layer["peak_bps"].as_u64().unwrap());
        assert!(layer["frames"].as_u64().unwrap() > 0 && layer["bytes"].as_u64().unwrap() > 0);
    }
    let table = run(&["probe", &clip]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("160x120") && table.contains("cells/s") && !table.contains('\u{1b}'));
}

#[test]
fn filter_lowers_the_rate_and_tells_by_how_much() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("filter");
    let clip = make_clip(&folder, 4);
    let out = folder.join("filtered.m1v").display().to_string();
    let filter = |args: &[&str]| {
        let all = [&["filter", &clip, "-o", &out, "--json"], args].concat();
        let report = json(&run(&all));
        let frames = json(&run(&["probe", &out, "--json"]))["pictures"].clone();
        let frames = ["I", "P", "B"].map(|kind| frames[kind].as_u64().unwrap());
        assert!(frames.iter().sum::<u64>() >= 98, "{args:?}: {frames:?}");
        report
    };
    let total = |report: &Value, field: &str| report["total"][field].as_u64().unwrap();
    let soft = filter(&["--low-pass", "3"]);
    assert!(total(&soft, "bytes_out") < total(&soft, "bytes_in"));
    assert_eq!(total(&soft, "frames_out"), 100);
    let wanted = total(&soft, "mean_bps_out");
    let shaped = filter(&["--rate", &wanted.to_string()]);
    let reached = total(&shaped, "mean_bps_out");
    assert!(
        reached.abs_diff(wanted) * 20 < wanted,
        "{reached} of {wanted} bit/s"
    );
    let anchors = filter(&["--keep", "ip"]);
    let layer = |index: usize, field: &str| anchors["layers"][index][field].as_u64().unwrap();
    assert_eq!(layer(1, "bytes_out"), layer(1, "bytes_in"));
    assert_eq!((layer(2, "frames_out"), layer(2, "mean_bps_out")), (0, 0));
    let table = run(&["filter", "--keep", "I", &clip, "-o", &out]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("before") && table.contains("E2"), "{table}");
}

#[test]
fn what_is_no_video_gets_one_clear_line() {
    let folder = folder("foreign");
    let text = folder.join("notes.mpg");
    std::fs::write(
        &text,
        "these are only words, and many of them\n".repeat(100),
    )
    .unwrap();
    let empty = folder.join("empty.m1v");
    std::fs::write(&empty, "").unwrap();
    for path in [text, empty, folder.join("not-there.m1v")] {
        let output = run(&["probe", path.to_str().unwrap()]);
        let complaint = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.starts_with("layercast: "), "{complaint}");
        assert!(complaint.lines().count() <= 2, "{complaint}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_duration_longer_than_the_scenario_is_reported() {
    for scenario in [
        "quickstart.toml",
        "internet/dumbbell.toml",
        "group/frm.toml",
    ] {
        let path = repository(&format!("scenarios/{scenario}"));
        let check = |time| run(&["sim", &path, "--check", "--duration", time]);
        let (longer, shorter) = (check("2000 h"), check("100ms"));
        let note = "note: the scenario ends after ";
        assert!(complaint(&longer).contains(note), "{scenario}");
        assert!(!complaint(&shorter).contains(note), "{scenario}");
        assert!(longer.status.success(), "{}", complaint(&longer));
    }
}

#[test]
fn sim_prints_what_scripts_rely_on() {
    let scenario = repository("scenarios/quickstart.toml");
    let summary = json(&run(&["sim", &scenario, "--json", "--seed", "7"]));
    assert_eq!(summary["seed"], 7);
    for key in [
        "sim_seconds",
        "wall_seconds",
        "events",
        "packet_hops",
        "cell_hops",
    ] {
        assert!(summary[key].is_number(), "{key}");
    }
    let receivers = summary["flows"][0]["receivers"].as_array().unwrap();
    for key in [
        "name", "link", "levels", "frames", "lost", "late", "delay_ms", "psnr_db",
    ] {
        assert!(receivers[0].get(key).is_some(), "{key}");
    }
    assert!(!summary["queues"].as_array().unwrap().is_empty());
}

#[test]
fn a_scenario_comes_from_standard_input() {
    let scenario = repository("scenarios/quickstart.toml");
    let from = |path: &str| {
        let args = ["sim", path, "--json", "--duration", "2s"];
        let input = std::fs::File::open(&scenario).unwrap();
        let output = layercast().args(args).stdin(input).output().unwrap();
        assert!(output.status.success(), "{}", complaint(&output));
        without_clock(&output)
    };
    assert_eq!(from("-"), from(&scenario));
    let endless = std::fs::File::open("/dev/zero").unwrap();
    let output = layercast().args(["sim", "-"]).stdin(endless).output();
    let complaint = complaint(&output.unwrap());
    assert!(
        complaint.contains("more than 8 MiB") && complaint.contains("scenario"),
        "{complaint}"
    );
}

#[test]
fn the_scenarios_that_come_along_admit_their_receivers() {
    for name in ["quickstart", "lossy"] {
        let scenario = repository(&format!("scenarios/{name}.toml"));
        let summary = json(&run(&["sim", &scenario, "--json", "--duration", "12s"]));
        for receiver in summary["flows"][0]["receivers"].as_array().unwrap() {
            assert!(receiver["frames"]["BL"].as_u64() > Some(10), "{receiver}");
        }
    }
}

#[test]
fn sim_gives_the_same_bytes_twice_and_under_wire_check() {
    let folder = folder("determinism");
    let scenario = repository("scenarios/quickstart.toml");
    let run_into = |name: &str, more: &[&str]| -> (Value, Vec<u8>) {
        let pcap = folder.join(name);
        let mut args = vec!["sim", &scenario, "--json", "--pcap", pcap.to_str().unwrap()];
        args.extend(more);
        let summary = without_clock(&run(&args));
        (summary, std::fs::read(&pcap).unwrap())
    };
    let first = run_into("a.pcapng", &[]);
    assert!(first.1.len() > 100_000);
    assert!(first == run_into("b.pcapng", &[]), "two runs differ");
    let mut checked = run_into("c.pcapng", &["--wire-check"]);
    // Octets of signals are known where these are encoded.
    let signals = checked.0.as_object_mut().unwrap().remove("signal_octets");
    assert!(signals.and_then(|it| it.as_u64()) > Some(1_000));
    assert!(first == checked, "wire check makes a difference");
    assert!(
        first.1 != run_into("d.pcapng", &["--seed", "2"]).1,
        "the seed makes no difference"
    );
}

#[test]
fn sim_traces_mets_nodes_of_an_internetwork() {
    let trace = folder("trace-mets").join("run.jsonseq");
    let path = trace.to_str().unwrap();
    let scenario = repository("scenarios/internet/mets-emulate.toml");
    let more = ["--duration", "5s", "--wire-check", "--json"];
    let output = run(&[&["sim", &scenario, "--trace", path], &more[..]].concat());
    let summary = common::json(&output);
    assert_eq!(summary["mets"]["wire_errors"], 0);
    let records = common::records(&trace);
    for (machine, event) in [
        ("switch", "decision"),
        ("source", "sent"),
        ("sink", "played"),
    ] {
        let mut found = records.iter();
        assert!(
            found.any(|it| it["machine"] == machine && it["event"] == event),
            "{machine} {event}"
        );
    }
    let output = run(&["sim", &scenario, "--check"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("1 peering, 1 METS flow, 1 METS receiver: no errors"),
        "{said}"
    );
    let seeds = ["--seeds", "1..2", "--out", "x", "--wire-check"];
    let output = run(&[&["sim", &scenario], &seeds[..]].concat());
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn sim_writes_a_trace() {
    let trace = folder("trace").join("run.jsonseq");
    let path = trace.to_str().unwrap();
    for (scenario, more, key, value) in [
        ("quickstart", &["--duration", "3s"][..], "event", "played"),
        ("group/frm", &[], "what", "eject"),
    ] {
        let scenario = repository(&format!("scenarios/{scenario}.toml"));
        let output = run(&[&["sim", &scenario, "--trace", path], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
        let records = common::records(&trace);
        assert_eq!(records[0]["qlog_format"], "JSON-SEQ");
        assert!(records.iter().any(|record| record[key] == value));
    }
}

#[test]
fn a_wrong_scenario_is_shown_by_file_and_line() {
    let file = folder("scenario").join("wrong.toml");
    std::fs::write(&file, "name = \"x\"\nduration = \"ten\"\n").unwrap();
    let output = run(&["sim", file.to_str().unwrap()]);
    let complaint = complaint(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint.contains("wrong.toml:2: ") && complaint.contains("a time such as"));
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}

#[test]
fn a_reader_that_left_is_no_error() {
    let scenario = repository("scenarios/quickstart.toml");
    let mut child = common::layercast()
        .args(["sim", &scenario, "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(complaint(&output), "");
}

#[test]
fn too_few_file_descriptors_are_an_error_and_no_panic() {
    let binary = env!("CARGO_BIN_EXE_layercast");
    for args in [
        "switch --upstream 127.0.0.1:1 --listen 127.0.0.1:0 --insecure",
        "join 127.0.0.1:1",
        "stats 127.0.0.1:1",
        "receive --listen 127.0.0.1:0 --out .",
        "emulate --to 127.0.0.1:9",
        "fec edge --listen 127.0.0.1:0 --peer 127.0.0.1:9 --out 127.0.0.1:8",
        "xtpd --listen 127.0.0.1:0 ./none/xtpd",
    ] {
        for limit in [4, 6, 8, 10] {
            let script = format!("ulimit -n {limit}; exec {binary} {args}");
            let shell = std::process::Command::new("sh")
                .args(["-c", &script])
                .output();
            let output = shell.unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let code = output.status.code();
            assert!(!said.contains("panicked"), "{args}, limit {limit}: {said}");
            assert!(
                matches!(code, Some(1 | 2)),
                "{args}, limit {limit}: {code:?} {said}"
            );
            if limit == 10 && code == Some(1) {
                assert!(
                    said.contains("file descriptors") && said.contains("ulimit -n"),
                    "{said}"
                );
            }
        }
    }
}

#[test]
fn a_token_comes_from_a_file_or_the_environment() {
    let folder = folder("token-file");
    let file = folder.join("token");
    let join = |url: &str, more: &[&str]| {
        let mut command = crate::common::layercast();
        command.args(["join", url]).args(more);
        command
    };
    let path = file.to_str().unwrap();
    let url = "layercast://127.0.0.1:1/film";
    let output = join(url, &["--token-file", path]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read"));
    // A text that is not a token is refused before the first connection.
    std::fs::write(&file, "no token\n").unwrap();
    let from_file = join(url, &["--token-file", path]).output().unwrap();
    let from_environment = join(url, &[])
        .env("LAYERCAST_TOKEN", "no token")
        .output()
        .unwrap();
    for output in [from_file, from_environment] {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("token"), "{said}");
    }
    let both = join(&format!("{url}?token=abc"), &["--token-file", path])
        .output()
        .unwrap();
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn a_policer_probe_that_listens_does_not_amplify() {
    use layercast_wire::PolicerMsg;
    use std::io::{BufRead, BufReader};
    use std::net::UdpSocket;
    use std::process::Stdio;
    use std::time::Duration;

    let mut child = crate::common::layercast()
        .args(["policer-probe", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    let victim = UdpSocket::bind("127.0.0.1:0").unwrap();
    victim
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let (mut sent, mut received) = (0, 0);
    for n in 0..50 {
        let messages = [
            PolicerMsg::Probe {
                run: n,
                index: 1_000,
                padding: 0,
            },
            PolicerMsg::Ask { run: n, from: 0 },
        ];
        for message in messages {
            let mut datagram = Vec::new();
            message.encode(&mut datagram);
            // A whole message, and a forged one without its padding.
            for datagram in [&datagram[..], &datagram[..17]] {
                sent += victim.send_to(datagram, &address).unwrap();
            }
        }
    }
    let mut buffer = [0; 65_536];
    while let Ok(octets) = victim.recv(&mut buffer) {
        received += octets;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(received > 0, "it answers at all");
    assert!(received <= sent, "{received} for {sent}");
}

#[test]
fn a_profile_is_bounded_and_promised_only_if_it_can_be_kept() {
    let folder = folder("profiles");
    let output = run(&["explain", "/dev/zero"]);
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    let text = "name = \"lesson\"\ncategory = \"playback\"\nsetup_ms = 1000\n[[stream]]\nname = \"teacher\"\n\
                direction = \"down\"\nkind = \"video\"\nsize = \"hd\"\nfluency = \"medium\"\ncodec = \"h265\"\n\
                delay_ms = [80, 40]\njitter_ms = [100, 40]\nloss = [0.001, 0.0001]\ncommitment = \"statistical\"\n";
    let path = folder.join("lesson.toml");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let explained = run(&["explain", path]);
    assert_eq!(explained.status.code(), Some(1));
    let promised = run(&["serve", "-", "--profile", path]);
    assert_eq!(promised.status.code(), Some(2));
    for output in [explained, promised] {
        let said = complaint(&output);
        assert!(said.contains("more than the bound of 80 ms"), "{said}");
    }
    let rate = complaint(&run(&["explain", "2M"]));
    assert!(rate.contains("2M is no rate"), "{rate}");
}
