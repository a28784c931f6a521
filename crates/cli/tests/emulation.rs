//! `layercast emulate SCENARIO`: real programs talk across a simulated network, in network namespaces of their own.
//! Skips with a printed reason where namespaces or TUN devices cannot be had.
//!
//! The outer tests start this binary again under `unshare`; the inner ones are ignored outside.

#[path = "all/common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::{folder, layercast, recv, repository, signal};
use layercast_net::ClassedUdp;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn programs_talk_across_the_network() {
    enter("inside::programs_talk");
}

#[test]
fn iperf3_curl_and_ffmpeg_cross_the_network() {
    if std::env::var("LAYERCAST_LONG").is_ok_and(|value| value == "1") {
        enter("inside::tools_talk");
    } else {
        println!("skipped: LAYERCAST_LONG is not 1, as in make interop");
    }
}

#[test]
fn what_cannot_be_emulated_says_why() {
    let toml = repository("scenarios/internet/emulate.toml");
    for (args, part) in [
        (&["emulate"][..], "--to"),
        (&["emulate", &toml, "--rate", "1Mbit/s"], "--rate"),
        (
            &["emulate", "--to", "127.0.0.1:1", "--namespaces"],
            "namespaces",
        ),
        (&["emulate", "no-such.toml"], "no-such.toml"),
        (
            &["emulate", &repository("scenarios/internet/star.toml")],
            "no program is attached",
        ),
    ] {
        let output = common::run(args);
        let said = common::complaint(&output);
        assert!(
            !output.status.success() && said.contains(part),
            "{args:?}: {said}"
        );
    }
    let output = common::run(&["sim", &toml, "--duration", "1s", "--json"]);
    assert!(common::complaint(&output).contains("note: no program is attached"));
    assert_eq!(common::json(&output)["seconds"], 1.0);
}

/// Runs an inner test where it may make namespaces, if there is such a place.
fn enter(test: &str) {
    let inside = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "--mount", program]);
        command
    };
    let missing = if !std::path::Path::new("/dev/net/tun").exists() {
        Some("there is no /dev/net/tun".to_owned())
    } else {
        let tun = ["tuntap", "add", "mode", "tun", "name", "lcprobe"];
        match inside("ip").args(tun).output() {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Some(format!("unshare does not run: {error}")),
        }
    };
    if let Some(reason) = missing {
        println!("skipped: no TUN device in a network namespace: {reason}");
        return;
    }
    let program = std::env::current_exe().expect("this binary");
    let output = inside(program.to_str().expect("a path in UTF-8"))
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("LAYERCAST_INSIDE", "1")
        .output()
        .expect("unshare ran just now");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    println!("{out}");
    assert!(
        output.status.success() && out.contains("1 passed"),
        "{out}\n{err}"
    );
}

/// Runs a command that has to succeed, and gives what it says.
fn done(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {args:?}: {said}{complaint}"
    );
    said
}

/// Does something in a network namespace; the sockets it opens stay there.
fn within<T: Send>(namespace: &str, action: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let file = std::fs::File::open(format!("/run/netns/{namespace}")).expect("a namespace");
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind).expect("to enter it");
            action()
        });
        thread.join().expect("the action")
    })
}

/// A running `layercast emulate`.
struct Emulation {
    child: Child,
    lines: JoinHandle<Vec<Value>>,
}

impl Emulation {
    fn start(scenario: &str) -> Emulation {
        assert!(
            std::env::var_os("LAYERCAST_INSIDE").is_some(),
            "only inside"
        );
        // Where the names of namespaces are kept.
        done("mount", &["-t", "tmpfs", "tmpfs", "/run"]);
        done("ip", &["link", "set", "lo", "up"]);
        let mut child = layercast()
            .args(["emulate", scenario, "--namespaces", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let ready = lines.next().expect("a line").expect("text");
        assert!(ready.contains("\"ready\""), "{ready}");
        let lines = thread::spawn(move || {
            let lines = lines.map_while(Result::ok);
            lines
                .map(|line| serde_json::from_str(&line).expect("JSON"))
                .collect()
        });
        Emulation { child, lines }
    }

    /// Ends it with Ctrl-C; gives its last line.
    fn stop(mut self) -> Value {
        signal(&self.child, "-INT");
        let status = self.child.wait().expect("its end");
        assert_eq!(status.code(), Some(130));
        assert_eq!(done("ip", &["netns", "list"]), "");
        let mut lines = self.lines.join().expect("its lines");
        let status = lines.iter().find(|line| line["report"] == "emulation");
        assert!(
            status.is_some_and(|it| it["packets"]["count"].is_u64()),
            "{lines:?}"
        );
        let summary = lines.pop().expect("a summary");
        assert_eq!(
            (&summary["report"], &summary["stopped"]),
            (&"summary".into(), &"interrupted".into())
        );
        summary
    }
}

/// Echoes all datagrams until one is empty.
fn echo(socket: UdpSocket) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 2_000];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).expect("a datagram");
            socket.send_to(&buffer[..len], from).expect("to send");
            if len == 0 {
                break;
            }
        }
    })
}

/// The shortest of several round trips of an echo.
fn round_trip(socket: &UdpSocket) -> Duration {
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let trip = |n: u8| {
        let (start, mut buffer) = (Instant::now(), [0; 100]);
        socket.send(&[n; 50]).expect("to send");
        let len = recv(socket, &mut buffer);
        assert_eq!(buffer[..len], [n; 50]);
        start.elapsed()
    };
    let shortest = (0..10).map(trip).min().expect("ten");
    socket.send(&[]).expect("to send");
    shortest
}

fn pattern(len: u32) -> Vec<u8> {
    let numbers = (0..len).map(|n| n.wrapping_mul(2_654_435_761));
    numbers.map(|n| (n >> 24) as u8).collect()
}

const NETWORK: &str = r#"
schema = "internet/1"
name = "three kinds of attachments"
[run]
duration = "10 min"
[[host]]
name = "h{1..6}"
address = "10.0.0.1"
[[router]]
name = "r{1..2}"
[[link]]
ends = ["h{1..3}", "r1"]
rate = "20 Mbit/s"
delay = "2ms"
[[link]]
ends = ["r1", "r2"]
rate = "10 Mbit/s"
delay = "5ms"
mtu = 1000
[[link]]
ends = ["r2", "h{4..6}"]
rate = "20 Mbit/s"
delay = "3ms"
[[flow]]
from = "h2"
to = "h5"
datagrams = { gap = "exp(10ms)", size = "500 B" }
[[attach]]
node = "h1"
kind = "tun"
device = "lc0"
namespace = "client"
[[attach]]
node = "h4"
kind = "tap"
device = "lc0"
namespace = "server"
[[attach]]
node = "h3"
kind = "udp"
listen = "127.0.0.1:5000"
to = "h6"
forward = "127.0.0.1:6000"
"#;

mod inside {
    use super::*;

    #[test]
    #[ignore = "needs a namespace: programs_talk_across_the_network starts it there"]
    fn programs_talk() {
        let scenario = folder("emulation").join("scenario.toml");
        std::fs::write(&scenario, NETWORK).expect("a file");
        let emulation = Emulation::start(scenario.to_str().expect("a path in UTF-8"));

        // From TUN to TAP and back: 10 ms each way.
        let there = echo(within("server", || UdpSocket::bind("10.0.0.4:7")).expect("a socket"));
        let here = within("client", || {
            let socket = UdpSocket::bind("10.0.0.1:0").expect("a socket");
            socket.connect("10.0.0.4:7").expect("a route");
            socket
        });
        let shortest = round_trip(&here);
        assert!(shortest >= Duration::from_millis(20), "{shortest:?}");
        assert!(shortest < Duration::from_secs(2), "{shortest:?}");
        there.join().expect("the echo");

        // Segments are too long for the link in the middle: the kernel learns it from ICMP (RFC 1191).
        let listener = within("server", || TcpListener::bind("10.0.0.4:80")).expect("a socket");
        let received = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("the bytes");
            bytes
        });
        let mut stream =
            within("client", || TcpStream::connect("10.0.0.4:80")).expect("a connection");
        let bytes = pattern(1_000_000);
        stream.write_all(&bytes).expect("to send");
        drop(stream);
        assert!(received.join().expect("the receiver") == bytes);

        // No host has this address, and the router says so; at a simulated host no program is behind a port.
        let nobody = within("client", || TcpStream::connect("10.0.0.99:80"));
        assert_eq!(
            nobody.expect_err("nobody").kind(),
            ErrorKind::HostUnreachable
        );
        let refused = within("client", || TcpStream::connect("10.0.0.5:80"));
        assert_eq!(
            refused.expect_err("nobody").kind(),
            ErrorKind::ConnectionRefused
        );

        // Sockets of programs that know nothing of it, 10 ms each way.
        let there = echo(UdpSocket::bind("127.0.0.1:6000").expect("a socket"));
        let here = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        here.connect("127.0.0.1:5000").expect("an address");
        let shortest = round_trip(&here);
        assert!(shortest >= Duration::from_millis(20), "{shortest:?}");
        there.join().expect("the echo");

        // They have the DSCP and the ECN field that their sender gives them, both ways.
        let bind = |address: &str| ClassedUdp::bind(address.parse().expect("an address"));
        let mut there = bind("127.0.0.1:6000").expect("a socket");
        let mut here = bind("127.0.0.1:0").expect("a socket");
        let entrance = "127.0.0.1:5000".parse().expect("an address");
        here.send(Some(entrance), 0xb9, b"there").expect("to send");
        let (from, octet) = classed(&mut there);
        assert_eq!(octet, 0xb9);
        there.send(Some(from), 0x2a, b"back").expect("to send");
        assert_eq!(classed(&mut here).1, 0x2a);

        let summary = emulation.stop();
        let external = &summary["external"];
        assert!(
            external["delivered_bytes"].as_u64() > Some(1_000_000),
            "{summary}"
        );
        // Too long for the link, and to an unknown address.
        assert!(external["errors_told"].as_u64() >= Some(2), "{summary}");
        assert!(
            summary["node_drops"]["too_big"].as_u64() >= Some(1),
            "{summary}"
        );
        assert_eq!(summary["attachments"][2]["received"], 24);
        assert!(
            summary["event_lateness"]["count"].as_u64() > Some(1_000),
            "{summary}"
        );
        assert!(
            summary["flows"][0]["received"].as_u64() > Some(10),
            "{summary}"
        );
    }

    /// Where the next datagram comes from, and its octet of DSCP and ECN.
    fn classed(socket: &mut ClassedUdp) -> (SocketAddr, u8) {
        let begun = Instant::now();
        loop {
            match socket.receive(&mut [0; 100]) {
                Ok((_, from, octet)) => return (from, octet),
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether a tool can be used; under make it has to.
    fn have(tool: &str) -> bool {
        let found = Command::new("which").arg(tool).output();
        let found = found.is_ok_and(|output| output.status.success());
        let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(found || !required, "{tool} is missing");
        if !found {
            println!("left out: {tool} is missing");
        }
        found
    }

    fn start(namespace: &str, args: &[&str]) -> Child {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).args(args);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        quiet.spawn().expect("ip runs")
    }

    fn client(args: &[&str]) -> String {
        done("ip", &[&["netns", "exec", "client"][..], args].concat())
    }

    /// Waits until somebody listens.
    fn wait_for(port: &str) {
        let start = Instant::now();
        while !done("ip", &["netns", "exec", "server", "ss", "-Hlntu"]).contains(port) {
            assert!(start.elapsed() < PATIENCE, "no process listens at {port}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    #[test]
    #[ignore = "needs a namespace: iperf3_curl_and_ffmpeg_cross_the_network starts it there"]
    fn tools_talk() {
        let emulation = Emulation::start(&repository("scenarios/internet/emulate.toml"));
        let folder = folder("emulation-tools");
        if have("ping") {
            let said = client(&["ping", "-n", "-c", "10", "-i", "0.2", "10.0.0.2"]);
            println!("{said}");
            let line = said.lines().find_map(|line| line.split_once("mdev = "));
            let (_, times) = line.expect("a summary");
            let least: f64 = times
                .split('/')
                .next()
                .and_then(|ms| ms.parse().ok())
                .expect("ms");
            assert!((24.0..2_000.0).contains(&least), "{said}");
        }
        if have("iperf3") {
            let mut server = start("server", &["iperf3", "-s", "-1"]);
            wait_for(":5201");
            let said = client(&["iperf3", "-c", "10.0.0.2", "-t", "8", "-J"]);
            let said: Value = serde_json::from_str(&said).expect("JSON");
            let rate = said["end"]["sum_received"]["bits_per_second"].as_f64();
            println!("iperf3: {rate:?} bit/s");
            // The simulated stream takes 1.2 Mbit/s of the 10, headers the rest.
            assert!(
                rate.is_some_and(|rate| (1e6..9e6).contains(&rate)),
                "{rate:?}"
            );
            server.wait().expect("its end");
        }
        if have("curl") && have("python3") {
            let bytes = pattern(4_000_000);
            std::fs::write(folder.join("file"), &bytes).expect("a file");
            let from = folder.to_str().expect("a path in UTF-8");
            let serve = [
                "python3",
                "-m",
                "http.server",
                "8000",
                "-b",
                "10.0.0.2",
                "-d",
                from,
            ];
            let mut server = start("server", &serve);
            wait_for(":8000");
            let to = folder.join("copy");
            let to = to.to_str().expect("a path in UTF-8");
            client(&["curl", "-sS", "-o", to, "http://10.0.0.2:8000/file"]);
            assert!(std::fs::read(to).expect("the copy") == bytes);
            server.kill().expect("to stop it");
            server.wait().expect("its end");
        }
        if common::have_ffmpeg() {
            let out = folder.join("out.ts");
            let to = out.to_str().expect("a path in UTF-8");
            let take = [
                "ffmpeg",
                "-nostdin",
                "-i",
                "udp://10.0.0.2:1234",
                "-t",
                "2",
                "-c",
                "copy",
                "-y",
                to,
            ];
            let mut receiver = start("server", &take);
            wait_for(":1234");
            let source = "testsrc2=size=320x240:rate=25:duration=8";
            client(&[
                "ffmpeg",
                "-v",
                "error",
                "-nostdin",
                "-re",
                "-f",
                "lavfi",
                "-i",
                source,
                "-c:v",
                "mpeg1video",
                "-b:v",
                "1M",
                "-f",
                "mpegts",
                "udp://10.0.0.2:1234?pkt_size=1316",
            ]);
            receiver.wait().expect("its end");
            let (_, pictures) = common::decode(&out);
            println!("ffmpeg: {pictures} pictures");
            assert!(pictures >= 40, "{pictures} pictures");
        }
        let summary = emulation.stop();
        println!(
            "{}",
            serde_json::to_string_pretty(&summary["packet_lateness"]).expect("JSON")
        );
        assert!(
            summary["external"]["delivered"].as_u64() > Some(0),
            "{summary}"
        );
    }
}
