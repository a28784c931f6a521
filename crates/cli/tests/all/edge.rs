//! `layercast fec edge` as a user runs it.

use std::net::UdpSocket;
use std::time::Duration;

use crate::common::{Running, complaint, ends_within, recv, run, signal};

const LONG: Duration = Duration::from_secs(60);

fn socket() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(LONG)).expect("a socket");
    let addr = socket.local_addr().expect("an address").to_string();
    (socket, addr)
}

/// An end of a tunnel, and where programs send to.
fn start(peer: &str, more: &[&str]) -> (Running, String) {
    let args = ["fec", "edge", "--peer", peer, "--code", "6+2"];
    let mut edge = Running::start(&[&args, more].concat());
    let told = edge.wait_for_event("programs send to");
    let inside = told.rsplit(' ').next().expect("an address").to_owned();
    (edge, inside)
}

#[test]
fn two_ends_recover_what_is_lost_between_them_and_tell_so() {
    let (between, hop) = socket();
    let (program, out) = socket();
    let (mut near, inside) = start(&hop, &["--in", "127.0.0.1:0"]);
    let (mut far, _) = start(&hop, &["--out", &out]);
    let (user, _) = socket();
    for number in 0..60_u8 {
        user.send_to(&[number; 100], &inside).expect("sent");
    }
    // Ten blocks of eight; of each the second packet is lost.
    let mut datagram = [0; 2_048];
    for place in 0..80 {
        let len = recv(&between, &mut datagram);
        if place % 8 != 1 {
            between
                .send_to(&datagram[..len], &far.address)
                .expect("sent");
        }
    }
    let mut got: Vec<u8> = Vec::new();
    for _ in 0..60 {
        let len = recv(&program, &mut datagram);
        assert_eq!(datagram[..len], [datagram[0]; 100]);
        got.push(datagram[0]);
    }
    assert!(got.into_iter().eq(0..60), "in the order sent");
    // The far end tells the other what it saw when blocks are done with; that is the next datagram of it.
    let len = recv(&between, &mut datagram);
    between
        .send_to(&datagram[..len], &near.address)
        .expect("sent");

    for edge in [&mut near, &mut far] {
        signal(&edge.child, "-INT");
        assert_eq!(ends_within(&mut edge.child, LONG), Some(130));
    }
    let (sent, received) = (near.last_line(), far.last_line());
    assert_eq!(sent["report"], "summary");
    assert_eq!(sent["sent"]["packets"], 60);
    assert_eq!(sent["sent"]["parities"], 20);
    assert_eq!(received["received"]["recovered"], 10);
    assert_eq!(received["received"]["lost"], 0);
    assert_eq!(received["received"]["packets"], 60);
    let loss = received["received"]["raw_loss"].as_f64().expect("a share");
    assert!((loss - 0.125).abs() < 1e-9, "{loss}");
}

#[test]
fn an_end_without_any_traffic_says_that_its_peer_is_not_known_to_run() {
    for side in [["--in", "127.0.0.1:0"], ["--out", "127.0.0.1:9"]] {
        let (mut edge, _) = start("127.0.0.1:9", &side);
        let told = edge.wait_for_event("no packet for");
        let listens = format!("sent nothing to {}", edge.address);
        for part in ["the peer 127.0.0.1:9", &listens, "not known"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        signal(&edge.child, "-INT");
        assert_eq!(ends_within(&mut edge.child, LONG), Some(130));
    }
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let (_taken, addr) = socket();
    let peer = "127.0.0.1:9";
    let wrong: &[(&[&str], i32, &str)] = &[
        (&["--peer", peer], 2, "--in"),
        (
            &["--peer", peer, "--in", "127.0.0.1:0", "--code", "6"],
            2,
            "such as 6+2",
        ),
        (
            &["--peer", "127.0.0.1", "--in", "127.0.0.1:0"],
            2,
            "it has no port: write 127.0.0.1:7800",
        ),
        (
            &["--peer", "[::1]:9", "--in", "127.0.0.1:0"],
            1,
            "listen on IPv6",
        ),
        (
            &["--peer", peer, "--out", "127.0.0.1:0"],
            2,
            "has the port 0",
        ),
        (
            &[
                "--peer",
                peer,
                "--in",
                "127.0.0.1:5",
                "--out",
                "127.0.0.1:5",
            ],
            2,
            "come back immediately",
        ),
        (
            &["--peer", peer, "--listen", "127.0.0.1:0", "--in", &addr],
            1,
            "is in use",
        ),
        (
            &[
                "--peer",
                peer,
                "--in",
                "127.0.0.1:0",
                "--code",
                "200+4",
                "--mtu",
                "500",
            ],
            1,
            "leave no room",
        ),
        (
            &[
                "--peer",
                "127.0.0.1:7",
                "--listen",
                "127.0.0.1:7",
                "--in",
                "127.0.0.1:0",
            ],
            2,
            "is the address of --listen",
        ),
    ];
    for (args, code, part) in wrong {
        let output = run(&[&["fec", "edge"], *args].concat());
        let said = complaint(&output);
        assert!(said.contains(part), "{args:?}: {said}");
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {said}");
    }
}
