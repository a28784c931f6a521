//! Files of cells as a user makes, plays and receives them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::common::{complaint, ends_within, folder, json, layercast, repository, run, signal};
use crate::tshark;

/// A short transport stream with video of all kinds of pictures.
fn stream() -> String {
    repository("fuzz/corpus/ts/mpeg2")
}

#[test]
fn cells_of_a_file_give_the_stream_again() {
    let folder = folder("cells-file");
    let (cells, seen) = (folder.join("a.cells"), folder.join("a.ts"));
    let (cells, seen) = (
        cells.to_str().expect("a path"),
        seen.to_str().expect("a path"),
    );
    let options: [&[&str]; 5] = [
        &[],
        &["--smooth", "gop", "--parity", "4x4"],
        &["--parity", "even-odd:4x4", "--group", "3"],
        &["--mark"],
        &["--fast-start", "10M,1s,1M"],
    ];
    for options in options {
        let made = json(&run(&[
            &["prepacketize", &stream(), cells, "--json"],
            options,
        ]
        .concat()));
        let count: u64 = made["cells"]
            .as_array()
            .expect("four classes")
            .iter()
            .filter_map(|it| it.as_u64())
            .sum();
        let octets = fs::metadata(cells).expect("the file").len();
        assert_eq!(
            (octets, made["bytes_written"].as_u64()),
            (24 + 61 * count, Some(octets)),
            "{options:?}"
        );
        let got = json(&run(&["receive-cells", cells, seen, "--json"]));
        assert_eq!(got["stream"]["cells"].as_u64(), Some(count));
        assert!(
            fs::read(seen).expect("a stream") == fs::read(stream()).expect("the stream"),
            "{options:?}"
        );
    }
}

/// A receiver and the address at which it listens.
fn receiver(out: &str, more: &[&str]) -> (Child, String) {
    let mut child = layercast()
        .args(["receive-cells", "127.0.0.1:0", out, "--json"])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut line = String::new();
    let errors = child.stderr.take().expect("a pipe");
    BufReader::new(errors).read_line(&mut line).expect("a line");
    let ready: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    (
        child,
        ready["address"].as_str().expect("an address").to_owned(),
    )
}

#[test]
fn played_cells_give_the_stream_again_and_the_file_says_when() {
    let folder = folder("cells-played");
    let (cells, seen) = (folder.join("a.cells"), folder.join("a.ts"));
    let (cells, seen) = (
        cells.to_str().expect("a path"),
        seen.to_str().expect("a path"),
    );
    let made = json(&run(&[
        "prepacketize",
        &stream(),
        cells,
        "--parity",
        "4x4",
        "--json",
    ]));
    let (child, address) = receiver(seen, &[]);
    let played = json(&run(&["play-cells", cells, &address, "--json"]));
    let output = child.wait_with_output().expect("it ends with the cells");
    let got = json(&output);
    assert_eq!(got["datagrams"]["received"], played["datagrams"]);
    assert_eq!(got["datagrams"]["lost"], 0);
    assert_eq!(played["cells"], made["cells"]);
    assert!(
        played["seconds"].as_f64() >= made["seconds"].as_f64(),
        "{played}"
    );
    assert!(fs::read(seen).expect("a stream") == fs::read(stream()).expect("the stream"));
}

#[test]
fn tshark_opens_a_capture_of_cells_without_complaints() {
    let folder = folder("cells-capture");
    let (cells, pcap) = (folder.join("a.cells"), folder.join("a.pcapng"));
    let path = pcap.to_str().expect("a path");
    let made = json(&run(&[
        "prepacketize",
        &stream(),
        cells.to_str().expect("a path"),
        "--parity",
        "4x4",
        "--pcap",
        path,
        "--json",
    ]));
    let counts = made["cells"].as_array().expect("four classes");
    let counts: u64 = counts.iter().filter_map(|it| it.as_u64()).sum();
    let capture = fs::read(&pcap).expect("the capture");
    let fields = ["frame.protocols", "atm.vci", "_ws.malformed", "_ws.expert"];
    let Some(lines) = tshark::fields("aal5-plus", &capture, &fields) else {
        return;
    };
    assert_eq!(lines.len() as u64, counts);
    for line in lines {
        assert!(line[0].starts_with("erf:atm"), "{line:?}");
        assert_eq!(
            (line[1].as_str(), line[2].as_str(), line[3].as_str()),
            ("64", "", "")
        );
    }
}

#[test]
fn signals_and_time_end_a_receiver_that_waits_with_a_report() {
    let folder = folder("cells-stopped");
    let seen = folder.join("a.ts").display().to_string();
    let (mut child, _) = receiver(&seen, &[]);
    signal(&child, "-INT");
    assert_eq!(ends_within(&mut child, Duration::from_secs(20)), Some(130));
    let output = child.wait_with_output().expect("it has ended");
    assert_eq!(json(&output)["stream"]["cells"], 0);
    let (child, _) = receiver(&seen, &["--for", "100ms"]);
    let output = child.wait_with_output().expect("it ends after its time");
    assert!(output.status.success());
}

#[test]
fn what_cannot_be_is_named_with_a_code() {
    let folder = folder("cells-wrong");
    let cells = folder.join("a.cells").display().to_string();
    let text = folder.join("a.txt").display().to_string();
    fs::write(&text, "no cells").expect("a file");
    let missing = folder.join("missing/a").display().to_string();
    let cases: [(&[&str], i32, &str); 9] = [
        (
            &["receive-cells", &text, &cells],
            1,
            "layercast prepacketize",
        ),
        (
            &["play-cells", &text, "127.0.0.1:9"],
            1,
            "layercast prepacketize",
        ),
        (&["play-cells", &missing, "127.0.0.1:9"], 1, "cannot read"),
        (&["play-cells", &text, "somewhere"], 2, "port"),
        (
            &["prepacketize", &text, &cells],
            1,
            "no two clock references",
        ),
        (&["prepacketize", &stream(), &missing], 1, "cannot write"),
        (
            &["prepacketize", &stream(), &cells, "--parity", "20x20"],
            1,
            "128",
        ),
        (
            &["prepacketize", &stream(), &cells, "--parity", "best:4x4"],
            2,
            "even-odd",
        ),
        (
            &["prepacketize", &stream(), &cells, "--fast-start", "1M,3s"],
            2,
            "120M,3s,4M",
        ),
    ];
    for (args, code, part) in cases {
        let output = run(args);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
    }
}
