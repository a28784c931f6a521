//! Two servers, a user at each, and a hostile one: messages arrive unchanged, and queues are bounded.

use bytes::BytesMut;
use layercast_core::{Machine, Off, Span, Stream, Time};
use layercast_wire::{Payload, XtpService};
use layercast_xtp::remote::{Changed, Link, Server, ServerLimits, take_frame};
use layercast_xtp::{ContextId, Endpoint, SendOptions, XtpConfig};
use proptest::prelude::*;

use super::samples::{bytes, conversations};
use crate::net::{PORT, socket};

/// The bound of the waiting data: the limit of a server, and one frame of data.
const MOST_WAITING: usize = (256 << 10) + (80 << 10);

/// A host with a daemon and a client.
struct Side {
    machine: Endpoint,
    server: Server,
    client: u32,
    link: Link,
    /// On its way to the server, and from it.
    up: BytesMut,
    down: BytesMut,
}

impl Side {
    fn new(host: usize) -> Side {
        let mut server = Server::new(socket(host).net, 1_448, Span::ZERO, ServerLimits::default());
        Side {
            machine: Endpoint::new(64, ["a", "b"][host], &[7; 32]),
            client: server.enter(None).unwrap(),
            server,
            link: Link::new(),
            up: BytesMut::new(),
            down: BytesMut::new(),
        }
    }

    /// Moves at most `most` bytes each way.
    fn carry(&mut self, now: Time, most: usize) {
        self.up.extend_from_slice(&bytes(self.link.frames()));
        let mut some = self.up.split_to(most.min(self.up.len()));
        // What is not whole waits for the rest.
        while let Some(frame) = take_frame(&mut some).unwrap() {
            let handled = self
                .server
                .handle(now, &mut self.machine, self.client, frame);
            handled.expect("a link says nothing that it may not");
        }
        some.unsplit(self.up.split());
        self.up = some;
        let frames = self.server.frames(&mut self.machine, self.client).unwrap();
        assert!(frames.len() <= MOST_WAITING, "{} bytes wait", frames.len());
        if self.down.len() < most {
            self.down.extend_from_slice(&bytes(frames));
        }
        let mut some = self.down.split_to(most.min(self.down.len()));
        while let Some(frame) = take_frame(&mut some).unwrap() {
            let changed = self.link.handle(frame).unwrap();
            assert!(!matches!(changed, Changed::Parted(_)));
        }
        some.unsplit(self.down.split());
        self.down = some;
    }
}

/// Delivers packets both ways until there are none, and advances the time if there were none.
fn deliver(sides: &mut [Side; 2], now: &mut Time) {
    let mut some = false;
    for from in 0..2 {
        while let Some(packet) = sides[from].machine.poll_transmit(*now, &mut Off) {
            some = true;
            if packet.dst == socket(1 - from).net {
                sides[1 - from].machine.handle(*now, packet, &mut Off);
            }
        }
        while let Some(event) = sides[from].machine.poll_event() {
            let Side {
                server, machine, ..
            } = &mut sides[from];
            server.on_event(*now, machine, &event);
        }
    }
    if !some {
        *now = now.saturating_add(Span::from_ms(1));
        for side in sides {
            side.machine.on_timeout(*now, &mut Off);
        }
    }
}

fn run(seed: u64) {
    let mut random = Stream::new(seed, "schedule");
    let mut sides = [Side::new(0), Side::new(1)];
    let mut now = Time::ZERO;
    let config = XtpConfig {
        window: 1_024 << random.below(8),
        send_buffer: 1_024 << random.below(8),
        ..XtpConfig::new(XtpService::STREAM)
    };
    let [near, far] = &mut sides;
    far.link.listen(PORT, 2, config.clone()).unwrap();
    let messages: Vec<(Vec<u8>, Option<[u8; 8]>)> = (0..random.below(20) + 1)
        .map(|n| {
            let len = 1 << random.below(19);
            let tag = (random.below(2) == 0).then(|| n.to_be_bytes());
            (
                (0..len).map(|at| (at * 31 + n as usize) as u8).collect(),
                tag,
            )
        })
        .collect();
    let (mut id, mut there): (Option<ContextId>, Option<ContextId>) = (None, None);
    let mut sending = messages.iter();
    let mut rest: Option<(Payload, SendOptions)> = None;
    let mut got: Vec<(Vec<u8>, Option<[u8; 8]>)> = vec![Default::default()];
    let (mut settled, mut hostile) = (None, Some(near.server.enter(None).unwrap()));
    let mut closed = false;
    let nonsense = conversations();
    for step in 0.. {
        assert!(
            step < 400_000,
            "it does not end: {} of {}",
            got.len(),
            messages.len()
        );
        match random.below(8) {
            0 if id.is_none() && sides[1].link.listening(PORT) == Some(Ok(())) => {
                let to = socket(1);
                id = sides[0].link.connect(0, to, config.clone()).ok();
            }
            1 if there.is_none() => there = sides[1].link.accept(PORT),
            2 | 3 => {
                if let Some(id) = id {
                    if rest.is_none() {
                        rest = sending.next().map(|(data, tag)| {
                            let how = SendOptions {
                                tag: *tag,
                                ..SendOptions::MESSAGE
                            };
                            (Payload::Bytes(data.clone().into()), how)
                        });
                    }
                    if let Some((data, how)) = &mut rest {
                        if sides[0].link.offer(id, data, how).unwrap() {
                            rest = None;
                        }
                    } else if settled.is_none() {
                        settled = sides[0].link.tell_settled(id).ok();
                        sides[0].link.close_write(id).unwrap();
                    }
                }
            }
            4 if !closed => {
                let max = 1 << random.below(20);
                let chunk = there.and_then(|id| sides[1].link.receive(id, max).unwrap());
                if let Some(chunk) = chunk {
                    let last = got.last_mut().unwrap();
                    chunk.data.append_to(&mut last.0);
                    last.1 = last.1.or(chunk.tag);
                    assert!(!chunk.gap);
                    if chunk.end_of_message {
                        got.push(Default::default());
                    }
                } else if let Some(id) = there
                    && sides[1].link.status(id).peer_closed
                {
                    closed = true;
                    sides[1].link.close(id);
                }
            }
            5 => {
                let most = 1 << random.below(20);
                let side = random.below(2) as usize;
                sides[side].carry(now, most);
            }
            6 => deliver(&mut sides, &mut now),
            7 => {
                // Somebody else at the same server.
                let Some(client) = hostile else { continue };
                let Side {
                    server, machine, ..
                } = &mut sides[0];
                let mut said = nonsense[random.below(nonsense.len() as u64) as usize]
                    .1
                    .clone();
                let at = random.below(said.len() as u64) as usize;
                said[at] ^= 1 << random.below(8);
                let mut said = BytesMut::from(&said[..]);
                let wrong = loop {
                    match take_frame(&mut said) {
                        Ok(Some(frame)) => {
                            if server.handle(now, machine, client, frame).is_err() {
                                break true;
                            }
                        }
                        Ok(None) => break false,
                        Err(_) => break true,
                    }
                };
                if wrong {
                    server.leave(now, machine, client);
                    hostile = server.enter(None).ok();
                }
            }
            _ => {}
        }
        let over = id.map(|id| sides[0].link.status(id));
        if closed && over.is_some_and(|status| status.over.is_some()) {
            break;
        }
    }
    got.pop();
    assert!(got == messages, "seed {seed}");
    let status = sides[0].link.status(id.unwrap());
    assert_eq!((status.over, status.refused), (Some(Ok(())), None));
    assert!(Some(status.settled) >= settled);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_is_sent_through_daemons_arrives_as_it_was(seed in any::<u64>()) {
        run(seed);
    }
}
