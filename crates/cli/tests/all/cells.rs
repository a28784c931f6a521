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
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_stream_of_another_form_and_one_that_is_cut_are_named() {
    let folder = folder("cells-form");
    let path = |name: &str| folder.join(name).display().to_string();
    let (input, cells) = (path("in.ts"), path("a.cells"));
    let whole = octets(&stream());
    let apart = |size: usize| -> Vec<u8> {
        let packets = whole.chunks_exact(188);
        packets
            .flat_map(|it| [it, &vec![0; size - 188]].concat())
            .collect()
    };
    let random: Vec<u8> = (0..100_000_u32)
        .map(|it| (it.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let cases = [
        (apart(192), "188 octets each"),
        (apart(204), "188 octets each"),
        (whole[77..].to_vec(), "188 octets each"),
        (random, "in.ts: "),
    ];
    for (octets, part) in cases {
        fs::write(&input, octets).expect("a file");
        let output = run(&["prepacketize", &input, &cells]);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(!said.contains("PCR") && said.contains(part), "{said}");
    }
    fs::write(&input, &whole[..whole.len() - 100]).expect("a file");
    let output = run(&["prepacketize", &input, &cells]);
    let said = complaint(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("88 octets behind the last whole packet"),
        "{said}"
    );
}

/// The octets of a file.
fn octets(path: &str) -> Vec<u8> {
    fs::read(path).expect("the file")
}

#[test]
fn an_output_is_neither_the_input_nor_another_output() {
    let folder = folder("cells-same");
    let path = |name: &str| folder.join(name).display().to_string();
    let (input, link, cells) = (path("in.ts"), path("link.ts"), path("a.cells"));
    fs::copy(stream(), &input).expect("a copy");
    std::os::unix::fs::symlink(&input, &link).expect("a link");
    assert!(run(&["prepacketize", &input, &cells]).status.success());
    let before = (octets(&input), octets(&cells));
    let (new, again) = (path("new"), format!("{}/./new", folder.display()));
    let cases: [&[&str]; 7] = [
        &["prepacketize", &input, &input],
        &["prepacketize", &input, &link],
        &["prepacketize", &input, &new, "--pcap", &input],
        &["prepacketize", &input, &new, "--pcap", &link],
        &["prepacketize", &input, &new, "--pcap", &new],
        &["prepacketize", &input, &new, "--pcap", &again],
        &["receive-cells", &cells, &cells],
    ];
    for args in cases {
        let output = run(args);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?}: {}",
            complaint(&output)
        );
        assert!((octets(&input), octets(&cells)) == before, "{args:?}");
        assert!(!folder.join("new").exists(), "{args:?}");
    }
}

#[test]
fn an_output_is_kept_until_there_is_something_to_write() {
    let folder = folder("cells-kept");
    let path = |name: &str| folder.join(name).display().to_string();
    let (text, kept) = (path("a.txt"), path("kept.ts"));
    fs::write(&text, "no cells").expect("a file");
    fs::write(&kept, "valuable").expect("a file");
    let cases: [&[&str]; 3] = [
        &["receive-cells", &text, &kept],
        &["prepacketize", &text, &kept],
        &["receive-cells", "127.0.0.1:0", &kept, "--for", "100ms"],
    ];
    for args in cases {
        let output = run(args);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{args:?}: {}",
            complaint(&output)
        );
        assert_eq!(octets(&kept), b"valuable", "{args:?}");
    }
}

#[test]
fn what_is_missing_in_a_file_is_said() {
    let folder = folder("cells-missing");
    let path = |name: &str| folder.join(name).display().to_string();
    let (cells, part, seen) = (path("a.cells"), path("part.cells"), path("seen.ts"));
    assert!(run(&["prepacketize", &stream(), &cells]).status.success());
    let all = octets(&cells);
    let count = (all.len() - 24) / 61;
    let without = |from: usize, to: usize| [&all[..24 + 61 * from], &all[24 + 61 * to..]].concat();
    let cases = [
        (
            without(count - 1, count),
            format!("the file was cut: {} of {count} cells", count - 1),
        ),
        (all[..all.len() - 5].to_vec(), "the file was cut".to_owned()),
        (without(20, 30), "lost or damaged".to_owned()),
    ];
    for (octets, part_of) in cases {
        fs::write(&part, octets).expect("a file");
        let output = run(&["receive-cells", &part, &seen, "--json"]);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(&part_of), "{said}");
        assert!(
            json(&output)["stream"]["packets"].as_u64() > Some(0),
            "{said}"
        );
    }
    fs::write(&part, &all[..24]).expect("a file");
    let output = run(&["receive-cells", &part, &seen]);
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
}

/// Datagrams of a file of cells as a player with this identifier sends them, with up to 20 cells each, and the end.
fn datagrams(cells: &str, ssrc: u32) -> Vec<Vec<u8>> {
    let file = octets(cells);
    let records: Vec<&[u8]> = file[24..].chunks_exact(61).collect();
    let head = |seq: usize, marker: u8| {
        let mut out = vec![0x80, marker | 97];
        out.extend_from_slice(&(seq as u16).to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&ssrc.to_be_bytes());
        out.extend_from_slice(&file[8..16]);
        out
    };
    let mut all: Vec<Vec<u8>> = Vec::new();
    for (seq, part) in records.chunks(20).enumerate() {
        let mut out = head(seq, 0);
        part.iter().for_each(|it| out.extend_from_slice(&it[..53]));
        all.push(out);
    }
    all.push(head(all.len(), 0x80));
    all
}

#[test]
fn a_receiver_leaves_what_is_no_stream_and_changes_a_sender_that_is_silent() {
    let folder = folder("cells-senders");
    let path = |name: &str| folder.join(name).display().to_string();
    let (cells, seen) = (path("a.cells"), path("a.ts"));
    assert!(run(&["prepacketize", &stream(), &cells]).status.success());
    let (one, two) = (datagrams(&cells, 1), datagrams(&cells, 2));
    let (child, address) = receiver(&seen, &[]);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let send = |octets: &[u8]| {
        socket.send_to(octets, &address).expect("sent");
        std::thread::sleep(Duration::from_millis(1));
    };
    // Random octets, parities that cannot be, a group of no packets, and the end of another stream.
    send(&[0x47; 188]);
    for (place, value) in [(16, 9), (17, 255), (15, 0)] {
        let mut wrong = one[0].clone();
        if place >= 16 {
            wrong[16..19].copy_from_slice(&[1, 255, 255]);
        }
        wrong[place] = value;
        send(&wrong);
    }
    send(&two[two.len() - 1]);
    // One begins and falls silent; the other is not heard until then.
    send(&one[0]);
    send(&two[0]);
    std::thread::sleep(Duration::from_millis(1_200));
    two.iter().for_each(|it| send(it));
    let output = child.wait_with_output().expect("it ends with the cells");
    let got = json(&output);
    assert_eq!(got["datagrams"]["ignored"], 6, "{got}");
    assert_eq!(got["datagrams"]["received"], two.len() as u64, "{got}");
    let whole = octets(&stream());
    assert!(octets(&seen).ends_with(&whole), "{got}");
}

#[test]
fn what_a_receiver_misses_is_said() {
    let folder = folder("cells-lossy");
    let path = |name: &str| folder.join(name).display().to_string();
    let (cells, seen) = (path("a.cells"), path("a.ts"));
    assert!(run(&["prepacketize", &stream(), &cells]).status.success());
    let all = datagrams(&cells, 1);
    // One in the middle, and the last one in front of the end.
    for left_out in [all.len() / 2, all.len() - 2] {
        let (child, address) = receiver(&seen, &[]);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for (number, datagram) in all.iter().enumerate() {
            if number != left_out {
                socket.send_to(datagram, &address).expect("sent");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let output = child.wait_with_output().expect("it ends with the cells");
        assert_eq!(output.status.code(), Some(3), "{left_out}");
        assert_eq!(json(&output)["datagrams"]["lost"], 1, "{left_out}");
    }
}

#[test]
fn a_player_says_that_nobody_listens_and_a_receiver_that_its_port_is_used() {
    let folder = folder("cells-refused");
    let path = |name: &str| folder.join(name).display().to_string();
    let (cells, seen) = (path("a.cells"), path("a.ts"));
    assert!(run(&["prepacketize", &stream(), &cells]).status.success());
    let to = format!("127.0.0.1:{}", crate::common::free_port());
    let output = run(&["play-cells", &cells, &to, "--json"]);
    let said = complaint(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("refused"), "{said}");
    let played = json(&output);
    assert!(played["refused"].as_u64() > Some(0), "{played}");
    let _held = std::net::UdpSocket::bind(&to).expect("the port");
    let output = run(&["receive-cells", &to, &seen]);
    let said = complaint(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("receive-cells 127.0.0.1:PORT") && !said.contains("--listen"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_is_named_with_a_code() {
    let folder = folder("cells-wrong");
    let cells = folder.join("a.cells").display().to_string();
    let text = folder.join("a.txt").display().to_string();
    fs::write(&text, "no cells").expect("a file");
    let missing = folder.join("missing/a").display().to_string();
    let cases: [(&[&str], i32, &str); 10] = [
        (
            &[
                "prepacketize",
                &stream(),
                &cells,
                "--fast-start",
                "10bit/s,1s,10bit/s",
            ],
            2,
            "10 kbit/s",
        ),
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
        (&["prepacketize", &text, &cells], 1, "a.txt: "),
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
