//! `--metrics` of the commands, read as Prometheus reads it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{
    Running, complaint, folder, free_port, have_ffmpeg, json, layercast, make_clip, real_time, run,
    signal,
};

/// The status and the body of an answer to `GET path`.
fn get(address: &str, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let answer = exchange(address, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).expect("a status");
    (status.parse().expect("a number"), body.to_owned())
}

fn exchange(address: &str, request: &[u8]) -> String {
    let begun = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(40), "{error}"),
        }
        sleep(Duration::from_millis(50));
    };
    stream.write_all(request).expect("it reads");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("text")
}

/// The samples at an address, by name and labels.
fn samples(address: &str) -> BTreeMap<String, f64> {
    let (status, text) = get(address, "/metrics");
    assert_eq!(status, 200, "{text}");
    check_by_promtool(&text);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a sample");
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

/// Promtool of Debian's `prometheus`, where it is installed.
fn check_by_promtool(text: &str) {
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = promtool else {
        eprintln!("not checked by promtool: it is missing");
        return;
    };
    let mut stdin = promtool.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let output = promtool.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}{text}", complaint(&output));
    assert_eq!(complaint(&output), "", "{text}");
}

fn wait_for(address: &str, sample: &str, fits: impl Fn(f64) -> bool) -> BTreeMap<String, f64> {
    let begun = Instant::now();
    loop {
        let all = samples(address);
        if all.get(sample).is_some_and(|&value| fits(value)) {
            return all;
        }
        assert!(begun.elapsed() < Duration::from_secs(40), "{all:#?}");
        sleep(Duration::from_millis(200));
    }
}

#[real_time]
fn the_metrics_of_a_server_and_its_receiver_are_what_stats_prints() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("metrics");
    let clip = make_clip(&folder, 4);
    let [of_server, of_receiver] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let server = Running::start(&["serve", &clip, "--loop", "--metrics", &of_server]);
    let out = folder.join("got.m1v");
    let receiver = layercast()
        .args(["join", &server.url, "--name", "ann", "--out"])
        .arg(&out)
        .args(["--metrics", &of_receiver])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let played = "layercast_receiver_frames_total{layer=\"BL\"}";
    wait_for(&of_receiver, played, |count| count > 10.0);
    let of = |name: &str, layer: &str| {
        let labels = r#"flow="clip",source=SOURCE,member="ann",node=SOURCE"#;
        format!("layercast_member_{name}{{{labels}{layer}}}")
    };
    let find = |all: &BTreeMap<String, f64>, name: &str, layer: &str| {
        let begin = of(name, layer).split("SOURCE").next().unwrap().to_owned();
        let end = format!("{layer}}}");
        let mut found = all
            .iter()
            .filter(|(key, _)| key.starts_with(&begin) && key.ends_with(&end));
        found.next().map(|(_, &value)| value)
    };
    let begun = Instant::now();
    while find(&samples(&of_server), "frames_total", ",layer=\"BL\"").is_none() {
        assert!(begun.elapsed() < Duration::from_secs(40), "no report came");
        sleep(Duration::from_millis(200));
    }
    let before = samples(&of_server);
    let stats = json(&run(&["stats", &server.url, "--json"]));
    let after = samples(&of_server);
    let flow = &stats["flows"][0];
    let member = &flow["members"][0];
    assert_eq!(member["member"]["name"], "ann", "{stats}");
    for layer in ["BL", "E1", "E2"] {
        let label = format!(",layer=\"{layer}\"");
        for (name, key) in [("frames_total", "frames"), ("lost_frames_total", "lost")] {
            let there = member["report"][key][layer].as_f64().unwrap();
            let [first, last] = [&before, &after].map(|all| find(all, name, &label).unwrap());
            assert!(
                first <= there && there <= last,
                "{name} of {layer}: {first} <= {there} <= {last}"
            );
        }
    }
    let level = find(&after, "level", "").unwrap();
    assert_eq!(Some(level), member["level"].as_f64());
    let source = flow["source"].as_str().unwrap();
    let rate = format!(
        "layercast_flow_level_bytes_per_second{{flow=\"clip\",source=\"{source}\",level=\"BL\"}}"
    );
    assert_eq!(
        after[&rate] * 8.0,
        flow["level_bps"][0].as_f64().unwrap(),
        "{after:#?}"
    );
    assert_eq!(after["layercast_node_neighbours"], 1.0);

    let (status, health) = get(&of_server, "/health");
    let health: Value = serde_json::from_str(&health).expect("JSON");
    assert_eq!((status, &health["status"]), (200, &"ok".into()), "{health}");
    assert_eq!(health["command"], "serve");
    assert_eq!(get(&of_server, "/").0, 404);
    let posted = exchange(&of_server, b"POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(posted.starts_with("HTTP/1.1 405"), "{posted}");
    // What is no HTTP, and one that says nothing, leave others their answers.
    exchange(&of_server, &[0xff; 300]);
    let _silent: Vec<TcpStream> = (0..4)
        .map(|_| TcpStream::connect(&of_server).expect("it listens"))
        .collect();
    assert_eq!(get(&of_server, "/metrics").0, 200);

    signal(&receiver, "-INT");
    let ended = receiver.wait_with_output().expect("it ends");
    let said = complaint(&ended);
    assert!(
        said.contains(&format!("metrics at http://{of_receiver}/metrics")),
        "{said}"
    );
}

#[test]
fn an_address_that_is_taken_is_named_with_what_helps() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&[
        "receive",
        "--out",
        folder("metrics-taken").to_str().unwrap(),
        "--metrics",
        &address,
    ]);
    assert_eq!(output.status.code(), Some(1));
    let said = complaint(&output);
    assert!(
        said.contains(&format!("cannot serve metrics at {address}")),
        "{said}"
    );
    assert!(said.contains("--metrics 127.0.0.1:0"), "{said}");
}

#[real_time]
fn a_transfer_and_a_daemon_count_what_they_do() {
    let folder = folder("metrics-other");
    let file = folder.join("file");
    std::fs::write(&file, vec![7; 200_000]).unwrap();
    let [sends, gets, daemons] = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
    let out = folder.join("out").display().to_string();
    let receiver = Running::start(&["receive", "--forever", "--out", &out, "--metrics", &gets]);
    let sent = run(&[
        "send",
        file.to_str().unwrap(),
        "--to",
        &receiver.address,
        "--json",
        "--metrics",
        &sends,
    ]);
    assert!(sent.status.success(), "{}", complaint(&sent));
    let complete = r#"layercast_receive_files_total{outcome="complete"}"#;
    wait_for(&gets, complete, |files| files == 1.0);
    // The monitor of the receiver has counted what the sender says that it sent, and the list of files.
    let closed = "layercast_sessions_closed_total";
    let got = wait_for(&gets, closed, |sessions| sessions == 2.0);
    let of = |name: &str| got.get(&format!("layercast_sessions_{name}")).copied();
    let said = String::from_utf8_lossy(&sent.stdout);
    let mut lines = said
        .lines()
        .map(|it| serde_json::from_str::<Value>(it).expect("JSON"));
    let opened = lines.find(|it| it["report"] == "opened" && it["file"] == "file");
    let size = opened.and_then(|it| it["size"].as_f64());
    let list = of("received_content_bytes_total").zip(size);
    let list = list.map(|(content, size)| content - size);
    assert!(
        list.is_some_and(|it| (1.0..200.0).contains(&it)),
        "{size:?} {got:#?}"
    );
    assert_eq!(of("missing_bytes_total"), Some(0.0));
    assert_eq!(of("lost_events_total"), Some(0.0));
    assert_eq!(
        got["layercast_sessions_zone{zone=\"grey\"}"], 1.0,
        "nothing was agreed"
    );
    assert_eq!(of("delay_seconds"), None, "no session is open");
    assert!(
        of("received_bytes_total") > size && of("sent_packets_total") > Some(0.0),
        "{got:#?}"
    );

    // While it sends, the monitor of the sender is at least as far as the last line of its progress.
    let again = folder.join("again");
    std::fs::write(&again, vec![8; 400_000]).unwrap();
    let mut sending = layercast()
        .args(["send", again.to_str().unwrap(), "--metrics", &sends])
        .args(["--to", &receiver.address, "--rate", "1Mbit/s"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let sent = wait_for(
        &sends,
        "layercast_sessions_sent_content_bytes_per_second",
        |rate| rate > 0.0,
    );
    let sent = match sent.get("layercast_send_file_sent_bytes") {
        Some(_) => sent,
        None => wait_for(&sends, "layercast_send_file_sent_bytes", |octets| {
            octets > 0.0
        }),
    };
    let told = sent["layercast_send_file_sent_bytes"];
    let user = sent["layercast_sessions_sent_content_bytes_total"];
    assert!(told <= user && user <= 400_000.0, "{sent:#?}");
    assert_eq!(sent["layercast_sessions"], 1.0);
    assert!(
        sent["layercast_sessions_sent_bytes_total"] > user,
        "{sent:#?}"
    );
    assert!(sending.wait().unwrap().success());
    drop(receiver);

    let path = folder.join("xtpd").display().to_string();
    let daemon = Running::start(&["xtpd", &path, "--metrics", &daemons]);
    let samples = samples(&daemons);
    // A scrape is no client.
    assert_eq!(samples["layercast_xtpd_clients_served_total"], 0.0);
    assert_eq!(samples["layercast_xtpd_malformed_packets_total"], 0.0);
    drop(daemon);
}

/// Each number of `summary`, with its JSON pointer.
fn counters(path: &str, summary: &Value, all: &mut Vec<(String, u64)>) {
    match summary {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                counters(&format!("{path}/{name}"), value, all);
            }
        }
        Value::Number(number) => all.extend(number.as_u64().map(|count| (path.to_owned(), count))),
        _ => {}
    }
}

#[real_time]
fn what_a_node_counts_until_its_end_is_in_stats_and_metrics_all_the_time() {
    let clip = crate::trace("counted");
    let metrics = format!("127.0.0.1:{}", free_port());
    let args = [
        "serve",
        &clip,
        "--loop",
        "--insecure",
        "--metrics",
        &metrics,
    ];
    let mut server = Running::start(&args);
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..7 {
        stranger.send_to(b"a stranger", &server.address).unwrap();
    }
    let joined = layercast()
        .args(["join", &server.url, "--name", "ann", "--for", "3s"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    wait_for(
        &metrics,
        r#"layercast_port_sent_units_total{port="ann"}"#,
        |units| units > 10.0,
    );
    let stats = json(&run(&["stats", &server.url, "--json"]));
    let told = complaint(&run(&["stats", &server.url]));
    let samples = samples(&metrics);
    signal(&server.child, "-INT");
    let summary = server.last_line();
    let joined = joined.wait_with_output().expect("it ends");
    assert_eq!(joined.status.code(), Some(0), "{}", complaint(&joined));
    let mut all = Vec::new();
    counters("", &summary, &mut all);
    // The histogram of timers is in the summary alone.
    all.retain(|(path, _)| !path.starts_with("/timers/buckets"));
    let of = |part: &str| {
        all.iter()
            .filter(|(path, _)| path.starts_with(part))
            .count()
    };
    for (part, least) in [
        ("/switch/ports/ann/", 15),
        ("/sources/counted/", 20),
        ("/repairs/ann/", 50),
        ("", 150),
    ] {
        assert!(of(part) >= least, "{part}: {} in {summary}", of(part));
    }
    for (path, at_the_end) in &all {
        let at = match path.strip_prefix("/switch/ports/") {
            Some(rest) => format!("/ports/{rest}"),
            None => path.clone(),
        };
        let now = stats["node"].pointer(&at).and_then(Value::as_u64);
        let now = now.unwrap_or_else(|| panic!("no {at} in {}", stats["node"]));
        // What is no counter may fall.
        let falls = ["level", "rate", "members", "rtt_us", "window_us", "left"];
        let falls = falls.iter().any(|it| path.ends_with(it));
        assert!(falls || now <= *at_the_end, "{path}: {now} of {at_the_end}");
    }
    // Each of them is a sample: metrics/tests.rs walks them by name.
    for sample in [
        r#"layercast_source_sent_frames_total{flow="counted",layer="BL"}"#,
        r#"layercast_link_sent_datagrams_total{neighbour="ann",layer="BL"}"#,
    ] {
        assert!(samples.contains_key(sample), "{sample}: {samples:#?}");
    }
    assert_eq!(stats["node"]["udp"]["unknown"], 7, "{told}");
    assert_eq!(samples["layercast_node_unknown_datagrams_total"], 7.0);
    let refused = r#"layercast_node_rejected_pdus_total{cause="stale"}"#;
    assert_eq!(samples[refused], 0.0);
    for name in ["forged", "replayed", "host_lost", "malformed"] {
        assert_eq!(
            samples[&format!("layercast_node_{name}_datagrams_total")],
            0.0
        );
    }
}
