//! `layercast xtpd` as a process, with clients in this one.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::Duration;

use bytes::Bytes;
use layercast_net::{XtpAssociation, XtpCallError, XtpHost, XtpListener, XtpPlace};
use layercast_wire::XtpService;
use layercast_xtp::SendOptions;

use crate::common::{Running, complaint, folder, json, layercast, run, signal};

const PORT: u16 = 7_000;

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, what).await.expect("in time")
}

async fn client(path: &str) -> XtpHost {
    let place: XtpPlace = format!("xtp+daemon://{path}").parse().unwrap();
    in_time(XtpHost::open(&place)).await.unwrap()
}

/// Two ends of an association by the same daemon.
async fn pair(near: &XtpHost, far: &XtpHost) -> (XtpAssociation, XtpAssociation, XtpListener) {
    let listener = far.register(XtpService::STREAM).bind(PORT).listen(4);
    let listener = in_time(listener).await.unwrap();
    let stream = near.register(XtpService::STREAM);
    let it = stream.connect(far.local_addr(), PORT).unwrap();
    in_time(it.connected()).await.unwrap();
    (it, in_time(listener.accept()).await.unwrap(), listener)
}

#[tokio::test]
async fn a_daemon_serves_tells_and_ends_in_order() {
    let path = folder("xtpd").join("xtpd");
    let path = path.to_str().unwrap();
    let mut daemon = Running::start(&["xtpd", path]);
    let (near, far) = (client(path).await, client(path).await);
    assert_eq!(near.local_addr().to_string(), daemon.address);
    // Clients are those that use it; the others ask for figures.
    let (it, there, _listener) = pair(&near, &far).await;
    daemon.wait_for_event("client 2, process");
    let text = Bytes::from(vec![7; 100_000]);
    in_time(it.send(text.clone(), &SendOptions::MESSAGE))
        .await
        .unwrap();
    // It has all of it.
    assert!(it.info().await.is_some());

    let stats = json(&run(&["stats", &format!("xtp+daemon://{path}"), "--json"]));
    assert_eq!(stats["clients"][0]["process"], std::process::id());
    assert_eq!(stats["clients"][1]["ports"][0], PORT);
    assert_eq!(stats["endpoint"]["passive_opens"], 1);
    let words = run(&["stats", &format!("xtp+daemon://{path}")]);
    assert!(String::from_utf8_lossy(&words.stdout).contains("1 taken, 0 refused"));
    let second = run(&["xtpd", path, "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    let said = complaint(&second);
    assert!(said.contains("another daemon serves this path"), "{said}");

    signal(&daemon.child, "-INT");
    let mut got = 0;
    let why = loop {
        match in_time(there.receive(usize::MAX)).await {
            Ok(Some(chunk)) => got += chunk.data.len(),
            Ok(None) => break None,
            Err(why) => break Some(why),
        }
    };
    // Both ends are served by the one that ends: each hears of that.
    assert!(got <= text.len());
    assert!(matches!(why, Some(XtpCallError::Parted(_))), "{why:?}");
    let summary = daemon.last_line();
    assert_eq!(
        (&summary["report"], &summary["served"]),
        (&"summary".into(), &2.into())
    );
    assert_eq!(daemon.child.wait().unwrap().code(), Some(130));
    assert!(!std::path::Path::new(path).exists());
}

#[tokio::test]
async fn a_daemon_that_was_killed_is_missed_and_replaced() {
    let path = folder("xtpd-killed").join("xtpd");
    let path = path.to_str().unwrap();
    let mut killed = Running::start(&["xtpd", path]);
    let (near, far) = (client(path).await, client(path).await);
    let (it, there, _listener) = pair(&near, &far).await;
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert!(in_time(there.receive(1)).await.is_err());
    assert!(in_time(it.settled()).await.is_err());
    let place: XtpPlace = format!("xtp+daemon://{path}").parse().unwrap();
    assert!(in_time(XtpHost::open(&place)).await.is_err());
    let gone = run(&["stats", &format!("xtp+daemon://{path}")]);
    assert_eq!(gone.status.code(), Some(1));
    // Its socket is still there.
    let _next = Running::start(&["xtpd", path]);
    let (near, far) = (client(path).await, client(path).await);
    let (it, there, _listener) = pair(&near, &far).await;
    in_time(it.send(Bytes::from_static(b"again"), &SendOptions::MESSAGE))
        .await
        .unwrap();
    let chunk = in_time(there.receive(99)).await.unwrap().unwrap();
    assert_eq!(chunk.data.len(), 5);
}

/// An impossible request gets a remedy, and leaves nothing behind.
#[test]
fn what_stands_in_the_way_of_a_daemon_is_told_with_what_to_do() {
    let folder = folder("xtpd-told");
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    std::fs::write(at("file"), "text").unwrap();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (long, free) = (at(&"a".repeat(120)), at("xtpd"));
    let cases: [(&[&str], &str); 6] = [
        (&[&at("no/xtpd")], "make its folder first"),
        (&[&at("file")], "choose a path where nothing is"),
        (&[&long], "choose a shorter path"),
        (
            &[&free, "--listen", &taken],
            "stop the other program, or choose another port",
        ),
        (
            &[&free, "--listen", "192.0.2.1:0"],
            "no interface of this host has this address",
        ),
        (&[&free, "--raw-ip", "192.0.2.1"], "raw-ip"),
    ];
    for (args, advice) in cases {
        let told = run(&[&["xtpd"], args].concat());
        assert_eq!(told.status.code(), Some(1), "{args:?}");
        let said = complaint(&told);
        // Without the right to IP itself the address is not even looked at.
        let right = ["CAP_NET_RAW", "give an address of this host"];
        match advice {
            "raw-ip" => assert!(right.iter().any(|it| said.contains(it)), "{said}"),
            advice => assert!(said.contains(advice), "{said}"),
        }
    }
    // What is no group is wrong use.
    let told = run(&["xtpd", &free, "--group", "10.0.0.1:7000"]);
    assert_eq!(told.status.code(), Some(2), "{}", complaint(&told));
    assert!(complaint(&told).contains("224.0.0.0 and 239.255.255.255"));
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let none = run(&["stats", &format!("xtp+daemon://{free}")]);
    assert_eq!(none.status.code(), Some(1));
    let said = complaint(&none);
    assert!(
        said.contains(&format!(
            "cannot reach the XTP daemon at {free}: no such file; `layercast xtpd {free}` starts a daemon there"
        )),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Needs the right to IP itself; two addresses of the loopback.
#[tokio::test]
async fn daemons_over_ip_carry_a_message_and_tell_their_carrier() {
    let path = |name: &str| folder(name).join("xtpd").to_str().unwrap().to_owned();
    let (near, far) = (path("xtpd-ip-near"), path("xtpd-ip-far"));
    let start = |path: &str, host: &str| RawDaemon::start(path, host);
    let (Some(near), Some(mut far)) = (start(&near, "127.0.0.7"), start(&far, "127.0.0.8")) else {
        eprintln!("skipped: IP protocol 36 needs CAP_NET_RAW");
        return;
    };
    assert!(far.greeting.contains("127.0.0.8:0"), "{}", far.greeting);
    let (here, there) = (client(&near.path).await, client(&far.path).await);
    let (it, other, _listener) = pair(&here, &there).await;
    let text = Bytes::from(vec![7; 100_000]);
    in_time(it.send(text.clone(), &SendOptions::MESSAGE))
        .await
        .unwrap();
    let mut got = 0;
    while got < text.len() {
        let chunk = in_time(other.receive(usize::MAX)).await.unwrap().unwrap();
        got += chunk.data.len();
    }
    let stats = json(&run(&[
        "stats",
        &format!("xtp+daemon://{}", far.path),
        "--json",
    ]));
    assert_eq!(stats["local"], "127.0.0.8:0");
    signal(&far.child, "-TERM");
    in_time(other.receive(1)).await.unwrap_err();
    assert!(far.child.wait().unwrap().code().is_some());
}

/// A daemon over IP itself; killed when the test ends.
struct RawDaemon {
    child: Child,
    path: String,
    greeting: String,
}

impl RawDaemon {
    /// `None` without the right to it.
    fn start(path: &str, host: &str) -> Option<RawDaemon> {
        let mut child = layercast()
            .args(["xtpd", path, "--raw-ip", host, "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut greeting = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut greeting).unwrap();
        if greeting.is_empty() {
            let mut said = String::new();
            let stderr = child.stderr.as_mut().unwrap();
            stderr.read_to_string(&mut said).unwrap();
            child.wait().unwrap();
            assert!(said.contains("CAP_NET_RAW"), "{said}");
            return None;
        }
        let path = path.to_owned();
        Some(RawDaemon {
            child,
            path,
            greeting,
        })
    }
}

impl Drop for RawDaemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
