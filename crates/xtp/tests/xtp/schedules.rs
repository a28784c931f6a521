//! A channel that loses, reorders, duplicates, delays and damages, and users that send, wait, read, close and
//! abort at random: received data equal sent data, or both sides get an error; and every schedule ends.
//!
//! `PROPTEST_CASES=10000 cargo test -p layercast-xtp --test xtp schedules` runs 10,000 schedules.

use bytes::Bytes;
use layercast_core::{Span, Stream, Time};
use layercast_wire::{Payload, XtpPacket, XtpService};
use layercast_xtp::{
    ContextId, RateCounts, SendOptions, XtpConfig, XtpDatagram, XtpEvent, XtpRate,
};
use proptest::prelude::*;

use super::net::{Channel, Net, PORT, ask, retransmission};

/// A message that a user sends; in a loose stream its number is its tag.
#[derive(Clone, Debug)]
struct Message {
    bytes: Vec<u8>,
    loose: bool,
    tag: Option<[u8; 8]>,
}

/// What was received, message after message; `whole` if the end came and nothing was lost on the way.
#[derive(Clone, Default, Debug)]
struct Received {
    bytes: Vec<u8>,
    tag: Option<[u8; 8]>,
    whole: bool,
    ended: bool,
}

/// One side's user.
struct User {
    host: usize,
    id: Option<ContextId>,
    messages: Vec<Message>,
    /// The message that is being sent, and how much of it was taken.
    at: (usize, usize),
    got: Vec<Received>,
    closed_write: bool,
    /// How likely it reads when it could.
    reads: f64,
    aborts: f64,
    aborted: bool,
}

impl User {
    fn new(host: usize, random: &mut Stream, messages: u64, loose: f64) -> User {
        let count = random.below(messages + 1);
        let message = |number: u64, random: &mut Stream| {
            let len = match random.below(4) {
                0 => 1 + random.below(10),
                1 => 1 + random.below(20_000),
                _ => 1 + random.below(3_000),
            };
            let bytes = (0..len).map(|at| (at * 31 + number * 7) as u8).collect();
            Message {
                bytes,
                loose: random.chance(loose),
                tag: (loose > 0.0 || random.chance(0.2)).then(|| number.to_be_bytes()),
            }
        };
        User {
            host,
            id: None,
            messages: (0..count).map(|number| message(number, random)).collect(),
            at: (0, 0),
            got: Vec::new(),
            closed_write: false,
            reads: 0.05 + random.unit(),
            aborts: if random.chance(0.1) { 0.01 } else { 0.0 },
            aborted: false,
        }
    }

    fn turn(&mut self, net: &mut Net, random: &mut Stream) {
        let Some(id) = self.id.filter(|_| !self.aborted) else {
            return;
        };
        if random.chance(self.aborts) {
            self.aborted = true;
            let now = net.now;
            net.hosts[self.host].abort(now, id).unwrap();
            return;
        }
        if random.chance(0.7) {
            self.write(net, id);
        }
        if random.chance(self.reads) {
            self.read(net, id, 1 + random.below(5_000) as usize);
        }
    }

    fn write(&mut self, net: &mut Net, id: ContextId) {
        while let Some(message) = self.messages.get(self.at.0) {
            let from = self.at.1;
            let how = SendOptions {
                end_of_message: true,
                tag: message.tag.filter(|_| from == 0),
                no_error_control: message.loose,
                ..SendOptions::default()
            };
            let data = Payload::Bytes(Bytes::copy_from_slice(&message.bytes[from..]));
            let Ok(taken) = net.hosts[self.host].send(id, &data, &how) else {
                return;
            };
            if taken < data.len() {
                self.at.1 += taken;
                return;
            }
            self.at = (self.at.0 + 1, 0);
        }
        if !std::mem::replace(&mut self.closed_write, true) {
            let _ = net.hosts[self.host].close_write(id);
        }
    }

    fn read(&mut self, net: &mut Net, id: ContextId, max: usize) {
        while let Ok(Some(chunk)) = net.hosts[self.host].receive(id, max) {
            let begins = self.got.last().is_none_or(|it| it.ended) || chunk.tag.is_some();
            if begins {
                self.got.push(Received {
                    whole: true,
                    tag: chunk.tag,
                    ..Received::default()
                });
            }
            let last = self.got.last_mut().unwrap();
            last.whole &= !chunk.gap || begins && chunk.tag.is_some();
            chunk.data.append_to(&mut last.bytes);
            last.ended = chunk.end_of_message;
        }
    }

    /// Whether success was reported, or failure; never both.
    fn outcome(&self, net: &Net) -> Option<bool> {
        let ours = |event: &&XtpEvent| matches!(event, XtpEvent::Closed(_) | XtpEvent::Failed(..));
        let told: Vec<_> = net.events[self.host].iter().filter(ours).collect();
        assert!(told.len() < 2, "{told:?}");
        match told.first() {
            Some(XtpEvent::Closed(_)) => Some(true),
            Some(_) => Some(false),
            None => self.aborted.then_some(false),
        }
    }

    fn reader_gone(&self, net: &Net) -> bool {
        let gone = |event: &XtpEvent| matches!(event, XtpEvent::ReaderGone(..));
        net.events[self.host].iter().any(gone)
    }
}

/// A channel, and whether everything arrives over it.
fn channel(random: &mut Stream) -> (Channel, bool) {
    let bad = random.below(4) as f64 / 3.0;
    let mut weather = Stream::new(random.below(u64::MAX), "weather");
    let rates: Vec<f64> = (0..4).map(|_| bad * random.unit()).collect();
    let (loss, twice, damage, late) = (
        0.25 * rates[0],
        0.2 * rates[1],
        0.1 * rates[2],
        0.5 * rates[3],
    );
    let delay = 1_000 + random.below(50_000);
    // Sometimes the path goes away for good, or for a while.
    let (from, until) = match random.below(8) {
        0 => (random.below(3_000), u64::MAX),
        1 => (random.below(3_000), 3_000 + random.below(20_000)),
        _ => (0, 0),
    };
    let fair = bad == 0.0 && until == 0;
    let mut count = 0;
    let channel = move |_, datagram: XtpDatagram| {
        count += 1;
        let gone = (from..until).contains(&(count * 2));
        if gone || weather.chance(loss) {
            return Vec::new();
        }
        let copies = if weather.chance(twice) { 2 } else { 1 };
        let mut out = Vec::new();
        for _ in 0..copies {
            let mut after = delay;
            if weather.chance(late) {
                after += weather.below(3 * delay);
            }
            let mut bytes = Vec::new();
            datagram.packet.encode_into(&mut bytes);
            if weather.chance(damage) {
                let bit = weather.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            let (src, dst) = (datagram.src, datagram.dst);
            if let Ok(packet) = XtpPacket::decode(bytes.into()) {
                out.push((Span::from_us(after), XtpDatagram { src, dst, packet }));
            }
        }
        out
    };
    (Box::new(channel), fair)
}

fn config(random: &mut Stream, service: XtpService) -> XtpConfig {
    let config = XtpConfig::new(service);
    let limit = match random.below(3) {
        0 => XtpRate {
            rate: 100_000 + random.below(10_000_000),
            burst: 1_000 + random.below(20_000),
        },
        _ => XtpRate::UNLIMITED,
    };
    XtpConfig {
        max_data: 64 + random.below(3_000) as u32,
        window: 1_024 + random.below(70_000) as u32,
        send_buffer: 1_024 + random.below(70_000) as u32,
        flow_control: random.chance(0.8),
        fast_nak: random.chance(0.5),
        retransmission: retransmission(random),
        hold: random.chance(0.7),
        ask: ask(random),
        edge: random.chance(0.3),
        single_timer: random.chance(0.3),
        out_limit: limit,
        rate_counts: RateCounts::Wire(28),
        key_exchange: random.chance(0.7),
        ..config
    }
}

/// Runs one schedule; panics with what went wrong.
fn schedule(seed: u64) {
    let mut random = Stream::new(seed, "schedule");
    let service = match random.below(4) {
        0 => XtpService::TRANSACTION,
        _ => XtpService::STREAM,
    };
    let loose = if random.chance(0.3) {
        random.unit()
    } else {
        0.0
    };
    let (a, b) = (config(&mut random, service), config(&mut random, service));
    let (channel, fair) = channel(&mut random);
    let mut net = Net::new(channel);
    let mut near = User::new(0, &mut random, 12, loose);
    let mut far = User::new(1, &mut random, 12, loose);
    near.id = Some(net.connect(&a, &b));
    let end = Time::ZERO + Span::from_secs(3_000);
    // An association that breaks off too early leaves the other side to its timers.
    let mut slow = 0;
    loop {
        if far.id.is_none() {
            far.id = net.hosts[1].accept(PORT).map(|(id, _)| id);
        }
        near.turn(&mut net, &mut random);
        far.turn(&mut net, &mut random);
        let known = far.id.is_none() || far.outcome(&net).is_some();
        if near.outcome(&net).is_some() && known {
            break;
        }
        let next = net.now + Span::from_ms(20);
        while net.step(next) {}
        slow += 1;
        assert!(net.now < end, "no end after {slow} turns\n{}", tail(&net));
    }
    for user in [&mut near, &mut far] {
        if let Some(id) = user.id {
            user.read(&mut net, id, usize::MAX);
        }
    }
    if fair && near.aborts + far.aborts == 0.0 {
        let both = (near.outcome(&net), far.outcome(&net));
        assert_eq!(both, (Some(true), Some(true)), "{}", tail(&net));
    }
    check(&near, &far, loose, &net);
    check(&far, &near, loose, &net);
}

fn tail(net: &Net) -> String {
    net.log[net.log.len().saturating_sub(40)..].join("\n")
}

/// What `to` got of what `from` sent.
fn check(from: &User, to: &User, loose: f64, net: &Net) {
    let (sent, got) = (&from.messages, &to.got);
    let all_said = from.closed_write;
    if loose == 0.0 {
        for (number, received) in got.iter().enumerate() {
            let message = &sent[number];
            let len = received.bytes.len();
            assert_eq!(
                received.bytes,
                message.bytes[..len.min(message.bytes.len())],
                "{number}"
            );
            assert_eq!(received.tag, message.tag, "{number}");
            assert!(
                received.whole && received.ended == (len == message.bytes.len())
                    || number + 1 == got.len()
            );
        }
    } else {
        for received in got.iter().filter(|it| it.whole && it.ended) {
            let Some(tag) = received.tag else {
                continue;
            };
            let message = &sent[u64::from_be_bytes(tag) as usize];
            assert_eq!(received.bytes, message.bytes);
        }
    }
    let complete = || {
        let has = |message: &Message| {
            let same = |it: &&Received| it.tag == message.tag && it.bytes == message.bytes;
            got.iter().filter(same).count() > 0
        };
        sent.iter().filter(|it| !it.loose).all(has)
    };
    // Both know, or one of them got another result.
    if from.outcome(net) == Some(true) && !from.reader_gone(net) {
        assert!(
            all_said && complete(),
            "the sender thinks it is all there\n{}",
            tail(net)
        );
    }
    let ended = |event: &XtpEvent| matches!(event, XtpEvent::PeerClosed(_));
    if net.events[to.host].iter().any(ended) && !to.aborted {
        assert!(
            all_said && complete(),
            "the receiver thinks it is all there\n{}",
            tail(net)
        );
    }
}

/// The number of schedules requested by the environment, or `few`.
pub fn cases(few: u32) -> ProptestConfig {
    let standard = ProptestConfig::default();
    let wanted = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig {
        cases: if wanted { standard.cases } else { few },
        // A seed has no smaller one.
        max_shrink_iters: 0,
        ..standard
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn all_arrives_or_an_error_is_told_and_it_always_ends(seed in any::<u64>()) {
        schedule(seed);
    }
}
