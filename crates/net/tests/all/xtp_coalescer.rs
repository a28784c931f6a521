//! When what tasks send to an `XtpHost` leaves: one by itself immediately, many in a row together, and nothing is forgotten.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

use bytes::Bytes;
use layercast_core::Span;
use layercast_net::{XtpAssociation, XtpHost, XtpNode};
use layercast_wire::{XtpBody, XtpPacket, XtpService};
use layercast_xtp::SendOptions;

use crate::common::localhost;
use crate::common::xtpd::in_time;

const PORT: u16 = 7_000;
const BLOCK: usize = 512;
const USERS: usize = 4;
const NUMBERED: usize = 4_000;

/// A host that sends to a socket that never answers, and reads its datagrams without waiting.
struct Wire {
    host: XtpHost,
    socket: UdpSocket,
}

impl Wire {
    fn new() -> Wire {
        let socket = UdpSocket::bind(localhost()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let host = XtpHost::new(XtpNode::udp(localhost()).unwrap());
        Wire { host, socket }
    }

    /// Data are released without an answer.
    fn connect(&self) -> XtpAssociation {
        let stream = self.host.register(XtpService::STREAM);
        let open = stream.configure(|config| {
            config.flow_control = false;
            config.error_control = false;
            config.send_buffer = 4 << 20;
            // There is no repeated request within the test.
            config.first_wait = Span::from_secs(600);
        });
        open.connect(self.socket.local_addr().unwrap(), PORT)
            .unwrap()
    }

    /// Bytes of data in each of the packets that have arrived.
    fn taken(&self) -> Vec<usize> {
        let mut buffer = [0; 2_048];
        let mut found = Vec::new();
        loop {
            match self.socket.recv(&mut buffer) {
                Ok(len) => {
                    let bytes = Bytes::copy_from_slice(&buffer[..len]);
                    match XtpPacket::decode(bytes).unwrap().body {
                        XtpBody::First { data, .. } | XtpBody::Data(data) => found.push(data.len()),
                        _ => {}
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return found,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

async fn send(it: &XtpAssociation, blocks: usize) {
    let block = Bytes::from(vec![7; BLOCK]);
    for _ in 0..blocks {
        it.send(block.clone(), &SendOptions::default())
            .await
            .unwrap();
    }
}

// On one thread nothing else runs until the task waits for something.

#[tokio::test]
async fn one_by_itself_leaves_in_its_own_call() {
    let wire = Wire::new();
    let it = wire.connect();
    for _ in 0..3 {
        send(&it, 1).await;
        assert_eq!(wire.taken(), [BLOCK]);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn many_in_a_row_leave_together_when_the_task_waits() {
    let wire = Wire::new();
    let it = wire.connect();
    // Less than a batch, and less than what a task may do in a turn.
    send(&it, 100).await;
    let mut packets = wire.taken();
    in_time(async {
        while packets.iter().sum::<usize>() < 100 * BLOCK {
            tokio::task::yield_now().await;
            packets.extend(wire.taken());
        }
    })
    .await;
    assert!(packets.len() < 100, "{packets:?}");
}

#[tokio::test]
async fn a_batch_does_not_wait_for_the_task() {
    let wire = Wire::new();
    let it = wire.connect();
    send(&it, 1).await;
    let large = Bytes::from(vec![7; 64 << 10]);
    it.send(large, &SendOptions::default()).await.unwrap();
    assert_eq!(wire.taken().iter().sum::<usize>(), BLOCK + (64 << 10));
}

#[tokio::test]
async fn who_ends_the_stream_or_drops_it_has_sent_everything() {
    let wire = Wire::new();
    let it = wire.connect();
    send(&it, 5).await;
    it.close_write().unwrap();
    assert_eq!(wire.taken().iter().sum::<usize>(), 5 * BLOCK);
    let it = wire.connect();
    send(&it, 5).await;
    let Wire { host, socket } = wire;
    drop(host);
    drop(it);
    let rest = Wire {
        host: XtpHost::new(XtpNode::udp(localhost()).unwrap()),
        socket,
    };
    assert_eq!(rest.taken().iter().sum::<usize>(), 5 * BLOCK);
}

/// A task that always finds room lets others have their turn all the same.
#[tokio::test]
async fn who_never_waits_does_not_keep_others_from_their_turn() {
    let wire = Wire::new();
    let it = wire.connect();
    let other = tokio::spawn(async {});
    let mut sent = 0;
    while !other.is_finished() {
        assert!(sent < 10_000, "the other has not had its turn");
        send(&it, 1).await;
        sent += 1;
        wire.taken();
    }
}

/// Small blocks, each with its number, and what the other end must have got.
async fn send_numbered(it: XtpAssociation, user: u8) {
    for at in 0..NUMBERED as u32 {
        let mut text = vec![user; 50];
        text[1..5].copy_from_slice(&at.to_be_bytes());
        let text = Bytes::from(text);
        it.send(text, &SendOptions::default()).await.unwrap();
    }
    it.close_write().unwrap();
    assert!(it.receive(1).await.unwrap().is_none());
}

async fn take_numbered(it: XtpAssociation) {
    let mut got = Vec::new();
    while let Some(chunk) = it.receive(usize::MAX).await.unwrap() {
        chunk.data.append_to(&mut got);
    }
    let (blocks, rest) = got.as_chunks::<50>();
    assert!(rest.is_empty() && blocks.len() == NUMBERED);
    for (at, block) in blocks.iter().enumerate() {
        assert_eq!(block[1..5], (at as u32).to_be_bytes());
    }
    it.close().await.unwrap();
}

/// The users run in threads other than that of the sockets, as the tasks of a runtime of many threads do.
#[tokio::test]
async fn small_blocks_arrive_whatever_threads_send_them() {
    let host = || XtpHost::new(XtpNode::udp(localhost()).unwrap());
    let (near, far) = (host(), host());
    let listener = far.register(XtpService::STREAM).bind(PORT).listen(USERS);
    let listener = listener.await.unwrap();
    let users: Vec<_> = (0..USERS as u8)
        .map(|user| {
            let stream = near.register(XtpService::STREAM);
            let it = stream.connect(far.local_addr(), PORT).unwrap();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                runtime.unwrap().block_on(send_numbered(it, user));
            })
        })
        .collect();
    in_time(async {
        let mut takers = Vec::new();
        for _ in 0..USERS {
            takers.push(tokio::spawn(take_numbered(
                listener.accept().await.unwrap(),
            )));
        }
        for taker in takers {
            taker.await.unwrap();
        }
        while !users.iter().all(|it| it.is_finished()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    for user in users {
        user.join().unwrap();
    }
}
