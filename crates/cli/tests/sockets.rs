//! The commands that stream over loopback.

mod common;

use std::io::Read;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use common::{
    Running, complaint, decode, ends_within, folder, have_ffmpeg, json, layercast, make_clip, run,
    signal,
};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_port_in_use_is_named() {
    if !have_ffmpeg() {
        return;
    }
    let clip = make_clip(&folder("in-use"), 1);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&["serve", &clip, "--listen", &address]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = complaint(&output);
    assert!(
        complaint.contains(&format!("{address} is in use")),
        "{complaint}"
    );
}

#[test]
fn nobody_there_is_told_at_once() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for flow in ["", "/bunny"] {
        let output = run(&["join", &format!("{free}{flow}")]);
        let complaint = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.contains("cannot reach"), "{complaint}");
    }
}

#[test]
fn a_received_clip_decodes_and_lists_and_statistics_agree() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("stream");
    let clip = make_clip(&folder, 3);
    let args = ["serve", &clip, "--flow", "test", "--start-when-joined", "1"];
    let mut server = Running::start(&args);

    let flows = json(&run(&["join", &server.address, "--list", "--json"]));
    assert_eq!(flows["flows"][0]["name"], "test");
    let wrong = run(&["join", &format!("{}/other", server.address)]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        complaint(&wrong).contains("has no flow"),
        "{}",
        complaint(&wrong)
    );

    let got = folder.join("got.m1v");
    let mut receiver = layercast()
        .args(["join", &server.address, "--name", "ann", "--json", "--out"])
        .arg(&got)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    server.wait_for_event("ann joined test");
    let member = || {
        let stats = json(&run(&["stats", &server.address, "--json"]));
        stats["flows"][0]["members"][0]["member"]["name"].clone()
    };
    // Members are known by their reports, and the first comes within a second.
    let reported = (0..20).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        member() == "ann"
    });
    assert!(reported, "no statistics of the member");
    assert_eq!(ends_within(&mut receiver, SOON), Some(0));

    let mut text = String::new();
    receiver
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let summary = lines.last().unwrap();
    assert_eq!(summary["report"], "summary");
    let receiver = &summary["receiver"];
    assert_eq!(receiver["lost"]["BL"], 0);
    assert_eq!(
        summary["first_picture"], 0,
        "the server waited for the receiver"
    );
    let (complaints, pictures) = decode(&got);
    assert_eq!(complaints, "");
    assert!((70..=75).contains(&pictures), "{pictures} of 75 pictures");
    assert_eq!(
        ends_within(&mut server.child, SOON),
        Some(0),
        "the server is done"
    );
}

#[test]
fn a_player_that_quits_ends_the_receiver() {
    if !have_ffmpeg() {
        return;
    }
    let clip = make_clip(&folder("pipe"), 2);
    let server = Running::start(&["serve", &clip, "--loop"]);
    let mut receiver = layercast()
        .args(["join", &server.address, "--out", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = receiver.stdout.take().unwrap();
    pipe.read_exact(&mut [0; 1_000]).unwrap();
    drop(pipe);
    assert_eq!(ends_within(&mut receiver, SOON), Some(0));
}

#[test]
fn ctrl_c_leaves_a_whole_file() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("interrupt");
    let clip = make_clip(&folder, 2);
    let mut server = Running::start(&["serve", &clip, "--loop"]);
    let got = folder.join("got.m1v");
    let mut receiver = layercast()
        .args(["join", &server.address, "--level", "1", "--out"])
        .arg(&got)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    signal(&receiver, "-INT");
    assert_eq!(ends_within(&mut receiver, SOON), Some(130));
    let (complaints, pictures) = decode(&got);
    assert_eq!(complaints, "");
    assert!(pictures > 5, "{pictures}");
    signal(&server.child, "-INT");
    assert_eq!(ends_within(&mut server.child, SOON), Some(130));
}

#[test]
fn a_path_impairs_and_counts_what_goes_through_it() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("emulate");
    let clip = make_clip(&folder, 2);
    let server = Running::start(&["serve", &clip, "--start-when-joined", "1"]);
    let to = server.address.clone();
    let mut path = Running::start(&["emulate", "--to", &to, "--delay", "20ms", "--loss", "20%"]);
    let got = folder.join("got.m1v");
    let joined = run(&[
        "join",
        &path.address,
        "--json",
        "--out",
        &got.display().to_string(),
    ]);
    assert_eq!(joined.status.code(), Some(0), "{}", complaint(&joined));
    let text = String::from_utf8_lossy(&joined.stdout);
    let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(summary["receiver"]["delay_ms"]["p50"].as_f64().unwrap() >= 20.0);
    signal(&path.child, "-INT");
    let told = path.last_line();
    assert_eq!(ends_within(&mut path.child, SOON), Some(130));
    assert_eq!(
        (&told["report"], &told["clients"]),
        (&"summary".into(), &1.into())
    );
    assert!(told["back"]["link"]["lost"].as_u64().unwrap() > 0, "{told}");
    let (complaints, _) = decode(&got);
    assert_eq!(complaints, "");
}
