//! `layercast path` as a user runs it: sockets of this host, and a token bucket of the kernel in a network namespace.

#[path = "all/common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{complaint, folder, json, real_time, run, signal};
use layercast_sync_index::pdu::{Control, Probe};
use layercast_sync_index::{Format, ServiceMap};
use serde_json::Value;

/// A receiver that is ended with the test.
struct Receiver {
    child: Child,
    address: String,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn receiver(more: &[&str]) -> Receiver {
    let mut child = common::layercast()
        .args(["path", "recv", "--listen", "127.0.0.1:0", "--json"])
        .args(more)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("standard output"));
    out.read_line(&mut line).expect("a line");
    // What it prints afterwards is read, so that it never waits for it.
    std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    let ready: Value = serde_json::from_str(&line).expect("JSON");
    let address = ready["address"].as_str().expect("an address").to_owned();
    Receiver { child, address }
}

fn lines(output: &std::process::Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("lines of JSON")
}

fn of_kind<'a>(lines: &'a [Value], report: &str) -> Vec<&'a Value> {
    lines.iter().filter(|it| it["report"] == report).collect()
}

#[real_time]
fn a_service_is_admitted_on_an_idle_path_and_the_arrivals_can_be_analysed() {
    let folder = folder("path");
    let record = folder.join("arrivals.csv").display().to_string();
    let mut receiver = receiver(&["--record", &record]);
    let to = receiver.address.clone();
    let output = run(&[
        "path", "send", &to, "--admit", "nv:best", "--steer", "1Mbit/s", "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    let lines = lines(&output);
    let index = of_kind(&lines, "index");
    assert_eq!(index.len(), 1, "{lines:?}");
    assert_eq!(
        (&index[0]["admitted"], &index[0]["levels"]["nv"]),
        (&true.into(), &"best".into())
    );
    assert_eq!(index[0]["target_bps"], 1_000_000);
    let estimate = &index[0]["estimate"];
    assert_eq!((&estimate["n"], &estimate["m"]), (&30.into(), &10.into()));
    let summary = lines.last().expect("a summary");
    // Slots that this host was too late for are left out.
    let slots = ["sent", "skipped"].map(|key| summary[key].as_u64().expect("a count"));
    assert!(slots.iter().sum::<u64>() >= 300, "{summary}");
    let id = receiver.child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .expect("kill")
            .success()
    );
    assert_eq!(receiver.child.wait().expect("an end").code(), Some(130));
    let found = json(&run(&["path", "report", &record, "--json"]));
    let again = found["outcomes"][0]["xi_ms"].as_f64().expect("an index");
    let told = estimate["xi_ms"].as_f64().expect("an index");
    assert!((again - told).abs() < 0.001, "{again} beside {told}");
    let words = run(&["path", "report", &record]);
    let words = String::from_utf8_lossy(&words.stdout).into_owned();
    assert!(words.contains("variance-time of the lags"), "{words}");
}

#[test]
fn what_cannot_be_measured_says_why() {
    let nothing = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let to = nothing.local_addr().expect("its address").to_string();
    let output = run(&["path", "send", &to]);
    assert_eq!(output.status.code(), Some(1));
    let said = complaint(&output);
    assert!(
        said.contains("no answer") && said.contains("path recv --listen"),
        "{said}"
    );
    for (args, what) in [
        (
            vec!["path", "send", &to, "--admit", "nv:perfect"],
            "nv:best",
        ),
        (vec!["path", "send", &to, "--period", "2s"], "1 ms to 1 s"),
        (vec!["path", "send", &to, "--capacity", "9.6kbit/s"], "5 %"),
        (vec!["path", "recv", "--rtp", "8000"], "--period"),
        (vec!["path", "recv", "--percentile", "0"], "above 0"),
        (vec!["path", "recv", "-m", "1"], "from 2 to 1000"),
        (vec!["path", "calibrate"], "RUNS.csv"),
    ] {
        let output = run(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            complaint(&output).contains(what),
            "{args:?}: {}",
            complaint(&output)
        );
    }
}

#[test]
fn files_that_are_wrong_are_named_with_their_line() {
    let folder = folder("path-files");
    let file = folder.join("wrong.csv");
    let path = file.display().to_string();
    for (text, args, what) in [
        (
            "arrival_s,seq,tx_s\n1,1,\nx,2,\n",
            vec!["path", "report", &path],
            "line 3",
        ),
        (
            "arrival_s,seq,tx_s\n",
            vec!["path", "report", &path],
            "fewer than two packets",
        ),
        ("1e300,1\n2,2\n", vec!["path", "report", &path], "line 1"),
        (
            "xi_ms,quality\n1;good\n",
            vec!["path", "calibrate", &path, "--levels", "good"],
            "line 2",
        ),
        (
            "xi_ms,quality\n1,bad\n",
            vec!["path", "calibrate", &path, "--levels", "good"],
            "does not hold",
        ),
        (
            "[[service]]\nname = 'x'\nlevel = []\n",
            vec!["path", "recv", "--services", &path],
            "no level",
        ),
    ] {
        std::fs::write(&file, text).expect("a file");
        let output = run(&args);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{args:?}: {}",
            complaint(&output)
        );
        let said = complaint(&output);
        assert!(
            said.contains("wrong.csv") && said.contains(what),
            "{args:?}: {said}"
        );
    }
    std::fs::write(&file, "xi_ms,quality\n2,good\n4,good\n9,poor\n").expect("a file");
    let output = run(&[
        "path",
        "calibrate",
        &path,
        "--service",
        "call",
        "--levels",
        "good,poor",
    ]);
    let table: ServiceMap =
        toml::from_str(&String::from_utf8_lossy(&output.stdout)).expect("a table");
    assert_eq!(table.check(), Ok(()));
    assert!(
        (table.service[0].level[0].xi_max_ms - 4.0).abs() < 0.01,
        "{table:?}"
    );
}

#[test]
fn a_path_receiver_does_not_amplify() {
    let receiver = receiver(&[]);
    let victim = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let wait = Some(Duration::from_millis(1_500));
    victim.set_read_timeout(wait).expect("a timeout");
    let (mut sent, mut received) = (0, 0);
    for number in 0..50_u32 {
        let (session, key, period_us) = (number, u64::from(number), 10_000);
        let hello = |token| {
            let format = Format::Full;
            Control::Hello {
                session,
                key,
                token,
                period_us,
                format,
            }
            .encode()
        };
        let probe = Probe {
            session,
            seq: number,
            full: None,
        }
        .encode();
        for datagram in [hello(0), hello(5), probe] {
            sent += victim.send_to(&datagram, &receiver.address).expect("sent");
        }
    }
    let mut buffer = [0; 65_536];
    while let Ok(octets) = victim.recv(&mut buffer) {
        received += octets;
    }
    assert!(received > 0, "it answers at all");
    assert!(received <= sent, "{received} for {sent}");
}

/// A8: an idle path beside one that a TCP flow fills, through a token bucket of 1.5 Mbit/s.
#[real_time]
fn a_tcp_flow_raises_the_index_of_a_token_bucket() {
    let script = format!(
        "ip link set lo up mtu 1500 || exit 77
         tc qdisc add dev lo root tbf rate 1536kbit burst 3000 limit 60000 || exit 77
         python3 -c pass || exit 77
         {layercast} path recv --listen 127.0.0.1:9500 >/dev/null 2>&1 & answering=$!
         sleep 0.5
         {layercast} path send 127.0.0.1:9500 --for 6s --json; code=$?
         python3 -c '{bulk}' & flow=$!
         sleep 2
         {layercast} path send 127.0.0.1:9500 --for 6s --json || code=$?
         kill $flow $answering; exit $code",
        layercast = env!("CARGO_BIN_EXE_layercast"),
        bulk = "
import socket, threading
to = socket.create_server((\"127.0.0.1\", 9501))
def take():
    peer, _ = to.accept()
    while peer.recv(65536): pass
threading.Thread(target=take, daemon=True).start()
peer = socket.create_connection((\"127.0.0.1\", 9501))
while True: peer.send(bytes(65536))
",
    );
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--net", "sh", "-c", &script]);
    let Ok(output) = inside.output() else {
        println!("skipped: unshare does not run");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(0)
        && (said.contains("unshare") || output.status.code() == Some(77))
    {
        println!("skipped: {}", said.trim());
        return;
    }
    assert!(output.status.success(), "{said}");
    let lines = lines(&output);
    let begins = |it: &Value| it["report"] == "ready";
    let second = lines.iter().rposition(begins).expect("two runs");
    let xi = |lines: &[Value]| {
        let found = of_kind(lines, "index");
        let last = found.last().expect("a result");
        last["estimate"]["xi_ms"].as_f64().expect("an index")
    };
    let (idle, busy) = (xi(&lines[..second]), xi(&lines[second..]));
    println!("idle {idle} ms, beside TCP {busy} ms");
    assert!(idle < 0.2, "{idle} ms");
    assert!(
        busy > 5.0 * idle && busy > 1.0,
        "{busy} ms beside {idle} ms"
    );
}

#[real_time]
fn a_train_without_a_result_is_no_success() {
    let mut receiver = receiver(&[]);
    let to = receiver.address.clone();
    let output = run(&["path", "send", &to, "--for", "300ms"]);
    assert_eq!(output.status.code(), Some(1));
    let said = complaint(&output);
    assert!(
        said.contains("too short for a result") && said.contains("3.0 s"),
        "{said}"
    );
    signal(&receiver.child, "-INT");
    assert_eq!(receiver.child.wait().expect("an end").code(), Some(130));
}
