//! The commands that stream over loopback.

#[path = "all/common/mod.rs"]
mod common;
#[path = "sockets/discard.rs"]
mod discard;
#[path = "sockets/metrics.rs"]
mod metrics;
#[path = "sockets/sessions.rs"]
mod sessions;
#[path = "sockets/snmp.rs"]
mod snmp;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{
    Running, complaint, decode, ends_within, folder, free_port, have_ffmpeg, json, layercast,
    make_clip, real_time, run, signal,
};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);

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
fn the_patience_of_a_receiver_is_the_same_for_every_form_of_address() {
    let free = format!("127.0.0.1:{}", free_port());
    let fingerprint = "A".repeat(43);
    for (url, says) in [
        (free.clone(), "cannot reach"),
        (format!("{free}/bunny"), "cannot reach"),
        (
            format!("layercast://{free}/bunny?control=xtp"),
            "cannot reach",
        ),
        (
            format!("layercasts://{free}/bunny?fp={fingerprint}"),
            "cannot reach",
        ),
        (
            format!("layercasts://{free}?fp={fingerprint}"),
            "cannot reach",
        ),
        (
            "nowhere.invalid:7400/bunny".to_owned(),
            "cannot resolve nowhere.invalid:7400",
        ),
    ] {
        let begun = Instant::now();
        let output = run(&["join", &url, "--patience", "1s"]);
        let passed = begun.elapsed();
        let complaint = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{url}: {complaint}");
        assert!(complaint.contains(says), "{url}: {complaint}");
        assert!(passed >= Duration::from_secs(1), "{url}: {passed:?}");
        assert!(passed < Duration::from_secs(20), "{url}: {passed:?}");
    }
    // What it waits for is reported; a question is asked once.
    let output = run(&["join", &format!("{free}/bunny"), "--patience", "1s"]);
    let told = complaint(&output);
    assert!(told.contains("not connected: Connection refused"), "{told}");
    let listed = run(&["join", &free.to_string(), "--list"]);
    assert_eq!(listed.status.code(), Some(1));
}

#[test]
fn a_server_that_comes_up_later_is_joined() {
    for flow in ["", "/later"] {
        let free = format!("127.0.0.1:{}", free_port());
        let url = format!("{free}{flow}");
        let joining = std::thread::spawn(move || {
            let args = ["join", &url, "--patience", "30s", "--for", "20s"];
            run(&args)
        });
        std::thread::sleep(Duration::from_secs(1));
        let clip = trace("later");
        let _server = Running::start_at(&["serve", &clip, "--insecure", "--loop"], &free);
        let joined = joining.join().unwrap();
        let told = complaint(&joined);
        assert!(
            told.contains("asking again") || told.contains("calling again"),
            "{told}"
        );
        assert!(told.contains("s  joined"), "{told}");
        assert_eq!(joined.status.code(), Some(0), "{told}");
    }
}

#[real_time]
fn a_join_over_a_way_that_takes_longer_than_promised_is_refused_where_it_became_too_long() {
    if !have_ffmpeg() {
        return;
    }
    let clip = make_clip(&folder("delay"), 2);
    let args = ["serve", &clip, "--flow", "test", "--name", "wren", "--loop"];
    let links = ["--delay-max", "300ms", "--port", "rook=50Mbit/s,delay=60ms"];
    let server = Running::start(&[&args[..], &links[..]].concat());
    let args = ["switch", "--name", "rook", "--upstream", &server.url];
    let links = ["far=50Mbit/s,delay=150ms", "near=50Mbit/s,delay=5ms"];
    let switch = Running::start(&[&args[..], &["--port", links[0], "--port", links[1]]].concat());
    let url = switch.url.replacen('?', "/test?", 1);
    let near = run(&["join", &url, "--name", "near", "--for", "2s"]);
    assert_eq!(near.status.code(), Some(0), "{}", complaint(&near));
    let far = run(&["join", &url, "--name", "far", "--for", "2s"]);
    assert_eq!(far.status.code(), Some(1));
    let why = complaint(&far);
    let (needed, rest) = why
        .split_once("refused by rook: the path takes ")
        .and_then(|(_, rest)| rest.split_once(' '))
        .unwrap_or_else(|| panic!("{why}"));
    assert!(rest.starts_with("ms, but only 300 ms are allowed"), "{why}");
    let needed: f64 = needed.parse().unwrap();
    assert!((360.0..450.0).contains(&needed), "{why}");
}

#[real_time]
fn what_a_receiver_wants_when_bandwidth_gets_scarce_is_done() {
    if !have_ffmpeg() {
        return;
    }
    let clip = make_clip(&folder("scarce"), 4);
    let args = ["serve", &clip, "--flow", "test", "--loop"];
    // Enough for all of it at first, and after some seconds for little more than the base layer.
    let ports = ["ann", "bob"].map(|name| format!("{name}=2Mbit/s,schedule=10s:12%"));
    let ports = ["--port", &ports[0], "--port", &ports[1]];
    let mut server = Running::start(&[&args[..], &ports[..]].concat());
    let join = |name: &str, on_scarce: &str| {
        let args = ["--name", name, "--on-scarce", on_scarce, "--json"];
        let child = layercast()
            .args(["join", &server.url])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        child.expect("the binary runs")
    };
    let (mut ann, mut bob) = (join("ann", "disconnect"), join("bob", "low-pass:6"));
    // The clip has no end: that she does is what she asked for.
    assert_eq!(ends_within(&mut ann, SOON), Some(0));
    let filter = server.wait_for_event("filter low-pass:6 in the way of");
    assert!(filter.ends_with("in the way of bob"), "{filter}");
    bob.kill().expect("it runs");
    bob.wait().expect("it ends");
}

#[real_time]
fn control_over_xtp_goes_by_the_url() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("xtp");
    let clip = make_clip(&folder, 3);
    let clear = ["--insecure", "--control", "xtp"];
    let args = ["serve", &clip, "--flow", "test", "--start-when-joined", "1"];
    let server = Running::start(&[&args[..], &clear].concat());
    assert!(server.url.ends_with("/test?control=xtp"), "{}", server.url);
    let args = ["switch", "--name", "rook", "--upstream", &server.url];
    let switch = Running::start(&[&args[..], &clear].concat());
    let url = switch.url.replacen('?', "/test?", 1);
    let got = folder.join("got.m1v");
    let joined = run(&["join", &url, "--out", got.to_str().unwrap()]);
    assert!(joined.status.success(), "{}", complaint(&joined));
    let (complaints, pictures) = decode(&got);
    assert_eq!(complaints, "");
    assert!(pictures > 24, "{pictures}");
    let flows = json(&run(&["stats", &switch.url, "--json"]));
    assert!(flows["flows"].is_array());
    let over_tcp = run(&["join", &switch.address]);
    assert_eq!(over_tcp.status.code(), Some(1));
    let why = complaint(&over_tcp);
    assert!(why.contains("use its ?control=xtp address"), "{why}");
}

#[test]
fn control_that_protects_nothing_is_not_taken_for_protected() {
    let upstream = ["switch", "--upstream", "127.0.0.1:9"];
    for (more, hint) in [
        (&["--control", "xtp"][..], "needs --insecure"),
        (&["--control", "quic", "--insecure"], "neither tcp nor xtp"),
    ] {
        let output = run(&[&upstream[..], more].concat());
        assert_eq!(output.status.code(), Some(2));
        let why = complaint(&output);
        assert!(why.contains(hint), "{why}");
    }
    let output = run(&["join", "layercasts://127.0.0.1:9/a?fp=any&control=xtp"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("layercast://"));
}

#[real_time]
fn a_received_clip_decodes_and_lists_and_statistics_agree() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("stream");
    let clip = make_clip(&folder, 3);
    let args = ["serve", &clip, "--flow", "test", "--start-when-joined", "1"];
    let mut server = Running::start(&args);

    let flows = json(&run(&["join", &server.url, "--list", "--json"]));
    assert_eq!(flows["flows"][0]["name"], "test");
    let wrong = run(&["join", &server.url.replace("/test?", "/other?")]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        complaint(&wrong).contains("has no flow"),
        "{}",
        complaint(&wrong)
    );

    let got = folder.join("got.m1v");
    let mut receiver = layercast()
        .args(["join", &server.url, "--name", "ann", "--json", "--out"])
        .arg(&got)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    server.wait_for_event("ann joined test");
    let member = || {
        let stats = json(&run(&["stats", &server.url, "--json"]));
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
        .args(["join", &server.url, "--out", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = receiver.stdout.take().unwrap();
    pipe.read_exact(&mut [0; 1_000]).unwrap();
    drop(pipe);
    assert_eq!(ends_within(&mut receiver, SOON), Some(0));
    let mut said = String::new();
    let mut errors = receiver.stderr.take().unwrap();
    errors.read_to_string(&mut said).unwrap();
    assert!(said.contains("frames played"), "{said}");
}

#[real_time]
fn ctrl_c_leaves_a_whole_file() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("interrupt");
    let clip = make_clip(&folder, 2);
    let mut server = Running::start(&["serve", &clip, "--loop"]);
    let got = folder.join("got.m1v");
    let mut receiver = layercast()
        .args(["join", &server.url, "--level", "1", "--out"])
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

#[real_time]
fn a_server_killed_and_started_again_goes_on_in_the_files_of_its_receivers() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("restart");
    let clip = make_clip(&folder, 4);
    let identity = folder.join("server.pem").display().to_string();
    let serve = ["serve", &clip, "--loop", "--identity", &identity];
    let mut server = Running::start(&serve);
    let one = Running::start(&["switch", "--name", "one", "--upstream", &server.url]);
    let two = Running::start(&["switch", "--name", "two", "--upstream", &one.url]);
    let flow = |url: &str| url.replacen('?', "/clip?", 1);
    let urls = [server.url.clone(), flow(&one.url), flow(&two.url)];
    let mut receivers: Vec<_> = urls
        .iter()
        .enumerate()
        .map(|(index, url)| {
            let got = folder.join(format!("got{index}.m1v"));
            let receiver = layercast()
                .args([
                    "join",
                    url,
                    "--json",
                    "--name",
                    &format!("r{index}"),
                    "--out",
                ])
                .arg(&got)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            (receiver, got)
        })
        .collect();
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let grows = |path: &Path, from: u64, within: Duration| {
        let until = Instant::now() + within;
        while size(path) <= from && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        size(path) > from
    };
    for (_, got) in &receivers {
        assert!(grows(got, 0, SOON), "{}", got.display());
    }
    std::thread::sleep(Duration::from_secs(6));
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = Running::start_at(&serve, &server.address);
    let back = Instant::now();
    // What was on its way, and in the playout buffer, is written by then.
    std::thread::sleep(Duration::from_millis(1_500));
    for (_, got) in &receivers {
        let left = Duration::from_secs(5).saturating_sub(back.elapsed());
        assert!(grows(got, size(got), left), "{}", got.display());
    }
    let listed = run(&["join", &two.url, "--list", "--json"]);
    assert_eq!(json(&listed)["flows"].as_array().unwrap().len(), 1);
    std::thread::sleep(Duration::from_secs(2));
    for (receiver, got) in &mut receivers {
        signal(receiver, "-INT");
        assert_eq!(ends_within(receiver, SOON), Some(130));
        let mut told = String::new();
        let mut stdout = receiver.stdout.take().unwrap();
        stdout.read_to_string(&mut told).unwrap();
        let summary: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
        let frames = &summary["receiver"]["frames"];
        let played: u64 = ["BL", "E1", "E2"]
            .iter()
            .map(|it| frames[it].as_u64().unwrap())
            .sum();
        let stream = &summary["output"]["stream"];
        assert_eq!(stream["stale"], 0, "{summary}");
        // At most the B pictures that lead the first GOP of each life refer to nothing.
        let written = stream["written"].as_u64().unwrap();
        assert!(written + 4 >= played && played > 150, "{summary}");
        let (complaints, pictures) = decode(got);
        assert_eq!(complaints, "");
        assert!(pictures >= written, "{pictures} of {written}");
    }
    drop((server, one, two));
}

#[test]
fn a_receiver_that_got_nothing_says_why_and_fails() {
    let server = Running::start(&["serve", &trace("silent"), "--start-in", "60s"]);
    let joined = run(&["join", &server.url, "--for", "1s"]);
    let why = complaint(&joined);
    assert_eq!(joined.status.code(), Some(1), "{why}");
    assert!(
        why.contains("no packet of the flow came") && why.contains("--for"),
        "{why}"
    );
    let other = server.url.replacen("/silent", "/other", 1);
    assert_ne!(other, server.url);
    let wrong = run(&["join", &other, "--for", "1s"]);
    let why = complaint(&wrong);
    assert_eq!(wrong.status.code(), Some(1), "{why}");
    assert!(why.contains("has no flow \"other\""), "{why}");
    let url = server.url.clone();
    drop(server);
    let dead = run(&["join", &url, "--for", "1s"]);
    let why = complaint(&dead);
    assert_eq!(dead.status.code(), Some(1), "{why}");
    assert!(why.contains("is a layercast node listening there"), "{why}");
}

/// A wrong name is said with those on offer while the command still waits for the flow.
#[real_time]
fn a_flow_that_is_not_there_is_named_with_those_on_offer_while_it_is_waited_for() {
    let server = Running::start(&["serve", &trace("offered"), "--loop"]);
    let wrong = server.url.replacen("/offered", "/wrong", 1);
    assert_ne!(wrong, server.url);
    let mut join = layercast()
        .args(["join", &wrong, "--json", "--patience", "60s"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let lines = BufReader::new(join.stdout.take().expect("a pipe")).lines();
    let mut events = lines.map(|line| -> Value {
        let line = line.expect("a line");
        serde_json::from_str(&line).expect("JSON")
    });
    let said = events.find(|it| it["text"].as_str().is_some_and(|it| it.contains("no flow")));
    let said = said.expect("it is said");
    let text = format!(
        "{} has no flow \"wrong\"; it has: offered; waiting for the flow (--patience says for how long)",
        server.address
    );
    assert_eq!(said["text"], text);
    assert!(said["t_s"].as_f64().expect("a time") < 2.0, "{said}");
    assert_eq!(join.try_wait().expect("a child"), None);
    signal(&join, "-TERM");
    assert!(ends_within(&mut join, SOON).is_some());
}

#[test]
fn a_node_without_flows_and_one_without_its_source_are_told_from_a_dead_one() {
    let server = Running::start(&["serve", &trace("gone"), "--loop"]);
    let switch = Running::start(&["switch", "--upstream", &server.url]);
    let url = switch.url.replacen('?', "/gone?", 1);
    let fine = run(&["join", &url, "--for", "2s"]);
    assert_eq!(fine.status.code(), Some(0), "{}", complaint(&fine));
    drop(server);
    let gone = run(&["join", &url, "--for", "900ms"]);
    let why = complaint(&gone);
    assert_eq!(gone.status.code(), Some(1), "{why}");
    assert!(why.contains("gone"), "{why}");
    assert!(why.contains("server"), "{why}");
    // The switch has found out by then; before, it offers the flow.
    let until = Instant::now() + SOON;
    while !json(&run(&["join", &switch.url, "--list", "--json"]))["flows"]
        .as_array()
        .unwrap()
        .is_empty()
    {
        assert!(Instant::now() < until, "the flow is not withdrawn");
        std::thread::sleep(Duration::from_millis(200));
    }
    let none = run(&["join", &switch.url, "--patience", "1s"]);
    let why = complaint(&none);
    assert_eq!(none.status.code(), Some(1), "{why}");
    assert!(why.contains("has no flows on offer"), "{why}");
    assert!(!why.contains("no answer"), "{why}");
}

#[test]
fn a_protected_call_of_a_node_in_the_clear_says_so() {
    let server = Running::start(&["serve", &trace("plain"), "--loop", "--insecure"]);
    for flow in ["", "/plain"] {
        let url = format!("layercasts://{}{flow}?fp=any", server.address);
        let output = run(&["join", &url, "--patience", "1s"]);
        let why = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{why}");
        assert!(
            why.contains("a node that runs --insecure answers only layercast://"),
            "{why}"
        );
    }
}

#[test]
fn an_output_that_stays_empty_is_a_failure() {
    // The frames of a trace are sizes: no stream can be made of them.
    let server = Running::start(&["serve", &trace("empty"), "--loop"]);
    let got = folder("empty-out").join("got.ts");
    let out = got.display().to_string();
    let joined = run(&["join", &server.url, "--for", "3s", "--out", &out]);
    let why = complaint(&joined);
    assert_eq!(joined.status.code(), Some(1), "{why}");
    assert!(why.contains("nothing was written to"), "{why}");
    assert!(!got.exists());
}

#[real_time]
fn what_a_direct_receiver_does_not_get_is_not_blamed_on_switches() {
    let server = Running::start(&["serve", &trace("direct"), "--loop"]);
    let url = server.url.clone();
    // Another one wants all layers, so the source sends them.
    let full = std::thread::spawn(move || run(&["join", &url, "--for", "8s"]));
    let base = run(&["join", &server.url, "--level", "0", "--for", "6s"]);
    let told = complaint(&base);
    assert_eq!(base.status.code(), Some(0), "{told}");
    assert!(told.contains("above the level granted"), "{told}");
    assert!(!told.contains("switch"), "{told}");
    assert_eq!(full.join().unwrap().status.code(), Some(0));
}

#[real_time]
fn a_path_impairs_and_counts_what_goes_through_it() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("emulate");
    let clip = make_clip(&folder, 4);
    // Such a path carries TCP and UDP between two ports of one number: a session in the clear.
    let args = ["serve", &clip, "--start-when-joined", "1", "--insecure"];
    let server = Running::start(&args);
    let to = server.address.clone();
    let mut path = Running::start(&["emulate", "--to", &to, "--delay", "20ms", "--loss", "5%"]);
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

/// A clip of two seconds that needs no tool to make, for a flow of the name `name`.
fn trace(name: &str) -> String {
    let path = folder(name).join(format!("{name}.trace"));
    let frame = |number: usize| match number % 4 {
        0 => format!("{number} I 5000\n"),
        2 => format!("{number} P 2000\n"),
        _ => format!("{number} B 700\n"),
    };
    std::fs::write(&path, (0..48).map(frame).collect::<String>()).unwrap();
    path.display().to_string()
}

#[test]
fn a_call_in_the_clear_is_told_what_to_do() {
    let server = Running::start(&["serve", &trace("clear"), "--loop"]);
    let address = server.address.as_str();
    for args in [&["join", address][..], &["stats", address]] {
        let output = run(args);
        let complaint = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.contains("layercasts://"), "{complaint}");
    }
    let unnamed = format!("layercasts://{address}");
    let output = run(&["stats", &unnamed]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("fp="), "{}", complaint(&output));
    let anybody = format!("{unnamed}?fp=any");
    assert_eq!(
        json(&run(&["stats", &anybody, "--json"]))["flows"][0]["name"],
        "clear"
    );
    let stranger = format!("{unnamed}?fp={}", "A".repeat(43));
    let output = run(&["join", &stranger]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        complaint(&output).contains("is not the node it should be"),
        "{}",
        complaint(&output)
    );
}

#[test]
fn a_delay_that_cannot_be_kept_is_refused_with_advice() {
    let server = Running::start(&["serve", &trace("hasty"), "--loop", "--delay-max", "1ms"]);
    let output = run(&["join", &server.url]);
    let complaint = complaint(&output);
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("only 1 ms are allowed"), "{complaint}");
    assert!(complaint.contains("--delay-max"), "{complaint}");
}

#[test]
fn everything_in_the_clear_says_so() {
    let server = Running::start(&["serve", &trace("open"), "--loop", "--insecure"]);
    assert!(server.url.starts_with("layercast://"), "{}", server.url);
    let output = run(&["join", &server.url, "--for", "3s"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        complaint(&output).contains("in the clear"),
        "{}",
        complaint(&output)
    );
}

#[test]
fn an_identity_outlives_its_process() {
    let folder = folder("identity");
    let file = folder.join("own.pem").display().to_string();
    let clip = trace("same");
    let fingerprint = || {
        let server = Running::start(&["serve", &clip, "--loop", "--identity", &file]);
        server.url.split_once("?fp=").unwrap().1.to_owned()
    };
    assert_eq!(fingerprint(), fingerprint());
    let missing = run(&["serve", &clip, "--cert", "none.pem", "--key", "none.pem"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        complaint(&missing).contains("none.pem"),
        "{}",
        complaint(&missing)
    );
}
