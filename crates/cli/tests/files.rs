//! `layercast send` and `layercast receive` over loopback.

#[path = "all/common/mod.rs"]
mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use common::{complaint, ends_within, folder, free_port, layercast, real_time, run, signal};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);

fn receive(address: &str, out: &Path) -> Child {
    let child = layercast()
        .args(["receive", "--listen", address, "--json", "--out"])
        .arg(out)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Its port is bound within this time, and if not the announcement is repeated.
    sleep(Duration::from_millis(200));
    child
}

/// The last line of what a command printed.
fn summary(output: &std::process::Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// In a network namespace without an interface no address has a route.
#[test]
fn a_host_without_a_route_is_named_at_once() {
    let folder = folder("files-no-route");
    let file = folder.join("file");
    fs::write(&file, "x").unwrap();
    let command = layercast().get_program().to_owned();
    let apart = |program: &OsStr| {
        let mut apart = Command::new("unshare");
        apart.args(["--map-root-user", "--net"]).arg(program);
        apart
    };
    if !apart("true".as_ref()).status().is_ok_and(|it| it.success()) {
        eprintln!("skipped: unshare makes no network namespace here");
        return;
    }
    let output = apart(&command)
        .args(["send", file.to_str().unwrap(), "--to", "192.0.2.7"])
        .output()
        .unwrap();
    let said = complaint(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("192.0.2.7:7600") && said.contains("unreachable"),
        "{said}"
    );
}

#[real_time]
fn traces_tell_what_both_ends_did() {
    let folder = folder("files-traces");
    let (file, address) = (folder.join("file"), format!("127.0.0.1:{}", free_port()));
    fs::write(&file, vec![7; 100_000]).unwrap();
    let traces = ["sent", "received"].map(|it| folder.join(it));
    let [sent, received] = traces.each_ref().map(|it| it.to_str().unwrap());
    let mut receiver = layercast()
        .args(["receive", "--listen", &address, "--name", "ann", "--out"])
        .args([folder.join("out").to_str().unwrap(), "--trace", received])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = run(&[
        "send",
        file.to_str().unwrap(),
        "--to",
        &address,
        "--trace",
        sent,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    assert_eq!(ends_within(&mut receiver, SOON), Some(0));
    for (trace, node, packets) in [(&traces[0], "sender", true), (&traces[1], "ann", false)] {
        let records = common::records(trace);
        let data = records.iter().filter(|it| it["what"] == "data");
        let data: Vec<&Value> = data.filter(|it| it["node"] == node).collect();
        // The manifest takes one packet.
        assert_eq!(data.len(), 1 + 100_000usize.div_ceil(1_400));
        assert!(data.iter().all(|it| it["sent"] == packets));
        let mut states = records.iter().filter(|it| it["event"] == "state");
        assert_eq!(states.next_back().unwrap()["to"], "closed");
    }
}

#[real_time]
fn exit_codes_tell_all_some_and_none() {
    let folder = folder("files-codes");
    let file = folder.join("file");
    fs::write(&file, vec![7; 100_000]).unwrap();
    let file = file.to_str().unwrap();
    let [here, nobody] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let args = ["send", file, "--json", "--wait", "2s", "--to"];

    let mut receiver = receive(&here, &folder.join("all"));
    let sent = run(&[&args[..], &[&here]].concat());
    assert_eq!(sent.status.code(), Some(0), "{}", complaint(&sent));
    assert_eq!(ends_within(&mut receiver, SOON), Some(0));
    let summary_of_it = summary(&sent);
    let told = &summary_of_it["files"][0];
    assert_eq!(told["receivers"][0]["outcome"], "delivered");
    assert_eq!(told["blake3"], blake3_of(file));
    assert_eq!(
        fs::read(folder.join("all/file")).unwrap(),
        fs::read(file).unwrap()
    );

    let mut receiver = receive(&here, &folder.join("some"));
    let sent = run(&[&args[..], &[&here, "--to", &nobody]].concat());
    assert_eq!(sent.status.code(), Some(3), "{}", complaint(&sent));
    assert_eq!(summary(&sent)["files"][0]["unreached"][0], nobody);
    let why = &summary(&sent)["why_unreached"][&nobody];
    assert!(
        why.as_str()
            .is_some_and(|why| why.contains("never answered")),
        "{why}"
    );
    assert_eq!(ends_within(&mut receiver, SOON), Some(0));

    let mut receiver = receive(&here, &folder.join("enough"));
    let sent = run(&[&args[..], &[&here, "--to", &nobody, "--enough", "1"]].concat());
    assert_eq!(sent.status.code(), Some(0), "{}", complaint(&sent));
    assert_eq!(ends_within(&mut receiver, SOON), Some(0));

    let sent = run(&[&args[..], &[&nobody]].concat());
    assert_eq!(sent.status.code(), Some(1));
    assert!(complaint(&sent).contains("no receiver took part"));
}

fn blake3_of(file: &str) -> String {
    blake3::hash(&fs::read(file).unwrap()).to_string()
}

#[test]
fn what_is_wrong_is_told_in_one_line() {
    let folder = folder("files-wrong");
    for (args, code, words) in [
        (
            &["send", "nothing", "--to", "127.0.0.1:9"][..],
            1,
            "cannot send nothing: no such file",
        ),
        (
            &["send", "/proc/version", "--to", "127.0.0.1:9"],
            1,
            "size is not known",
        ),
        (&["send", "x"], 2, "--group"),
        (&["send", "x", "--group", "10.0.0.1:9"], 2, "224.0.0.0"),
        (
            &["send", "x", "--to", "127.0.0.1", "--rate", "0bit/s"],
            2,
            "above 0",
        ),
        (
            &["send", "x", "--to", "[::1]:9", "--to", "127.0.0.1:9"],
            2,
            "IPv6",
        ),
        (
            &["receive", "--wait", "300ms", "--listen", "127.0.0.1:0"],
            1,
            "no sender came",
        ),
    ] {
        let child = layercast()
            .args(args)
            .current_dir(&folder)
            .output()
            .unwrap();
        let complaint = complaint(&child);
        assert_eq!(child.status.code(), Some(code), "{args:?}: {complaint}");
        assert!(complaint.contains(words), "{args:?}: {complaint}");
    }
}

#[real_time]
fn ctrl_c_keeps_what_is_here() {
    let folder = folder("files-stopped");
    let file = folder.join("file");
    fs::write(&file, vec![7; 4_000_000]).unwrap();
    let here = format!("127.0.0.1:{}", free_port());
    let out = folder.join("out");
    let mut receiver = receive(&here, &out);
    let send = |rate: &str| {
        let mut send = layercast();
        send.args(["send", "--json", "--to", &here, "--rate", rate]);
        send.arg(&file).stdout(Stdio::null());
        send.spawn().unwrap()
    };
    let mut sender = send("10Mbit/s");
    sleep(Duration::from_millis(1_500));
    signal(&receiver, "-INT");
    assert_eq!(ends_within(&mut receiver, SOON), Some(130));
    signal(&sender, "-INT");
    let code = ends_within(&mut sender, SOON);
    assert!(matches!(code, Some(130 | 1)), "{code:?}");
    assert!(!out.join("file").exists());

    let mut receiver = receive(&here, &out);
    assert_eq!(ends_within(&mut send("200Mbit/s"), SOON), Some(0));
    assert_eq!(ends_within(&mut receiver, SOON), Some(0));
    assert_eq!(
        fs::read(out.join("file")).unwrap(),
        fs::read(&file).unwrap()
    );
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
}

/// A receiver prints one line for many files, in a later life, too.
#[real_time]
fn a_receiver_that_was_started_again_tells_of_many_files_in_one_line() {
    let folder = folder("files-again");
    let (films, out) = (folder.join("films"), folder.join("out"));
    let address = format!("127.0.0.1:{}", free_port());
    fs::create_dir(&films).unwrap();
    for n in 0..12 {
        fs::write(films.join(format!("film {n}")), vec![n; 50_000]).unwrap();
    }
    let mut first = receive(&address, &out);
    let mut sender = layercast()
        .args(["send", films.to_str().unwrap(), "--to", &address])
        .args(["--rate", "8Mbit/s"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !out.join("films/film 1").exists() {
        assert!(
            sender.try_wait().unwrap().is_none(),
            "sent before a film came"
        );
        sleep(Duration::from_millis(20));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let second = layercast()
        .args(["receive", "--listen", &address, "--out"])
        .arg(&out)
        .output()
        .unwrap();
    let said = complaint(&second) + &String::from_utf8_lossy(&second.stdout);
    assert_eq!(second.status.code(), Some(0), "{said}");
    assert_eq!(ends_within(&mut sender, SOON), Some(0));
    assert!(
        said.contains("12 files and 1 folder, 600.00 kB, from"),
        "{said}"
    );
    assert!(!said.contains("digest right"), "{said}");
    assert!(!said.contains("films/film"), "{said}");
}

#[test]
fn members_that_cannot_be_meant_are_wrong_use() {
    let folder = folder("files-members");
    let file = folder.join("file");
    fs::write(&file, "x").unwrap();
    for (options, said) in [
        (
            &["--members", "bob,bob"][..],
            "--members has bob twice: name each receiver once",
        ),
        (
            &["--members", "bob,ann", "--key-members", "zed"],
            "--key-members has zed, which is not in --members",
        ),
        (
            &["--members", "bob\u{202e}gnp"],
            "is U+202E, which changes the direction of writing",
        ),
    ] {
        let output = layercast()
            .args(["send", file.to_str().unwrap(), "--to", "127.0.0.1"])
            .args(options)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        let told = complaint(&output);
        assert!(told.contains(said), "{told}");
    }
}
