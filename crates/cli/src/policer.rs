//! `layercast policer-probe`: rate and burst of a policer on a path.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use layercast_core::{Rate, Span, Time};
use layercast_net::NetError;
use layercast_qos::{NoBucket, Probed, TokenBucket, token_bucket};
use layercast_wire::{ASKED, POLICER_HEADER, PolicerMsg, UDP_IP_HEADER};
use serde::Serialize;

use crate::args;
use crate::failure::{Failure, Outcome};
use crate::output::{count, print, print_json};
use crate::signals;

/// Packets of the first train; each further one has four times as many, until enough are lost.
const FIRST: u32 = 256;
/// Losses from which a first rate is estimated.
const ENOUGH: usize = 32;
/// Packets of a closer train, half of which pass.
const CLOSER: u32 = 1_000;
/// Longest duration of such a train, and most trains.
const LONGEST: Duration = Duration::from_secs(20);
const TRAINS: u32 = 5;
/// One in this number of packets of such a train may be misjudged: with more, a host was too busy for it.
const MISJUDGED: usize = 50;
/// Pause after a train, for what is under way and for the bucket.
const PAUSE: Duration = Duration::from_millis(500);
/// How long an answer is waited for, and how often it is asked for.
const PATIENCE: Duration = Duration::from_millis(250);
const TRIES: u32 = 20;
/// Measurements that the other side keeps, and most packets of one.
const RUNS: usize = 16;
const MOST: u32 = 1 << 20;

/// Runs the command.
pub fn run(args: &args::PolicerProbe) -> Outcome {
    signals::exit_on_first()?;
    match (args.to, args.listen) {
        (_, Some(address)) => answer(address),
        (Some(to), None) => measure(args, to),
        (None, None) => Err(Failure::Usage(
            "give the address of the responder to probe, or --listen ADDRESS to answer".to_owned(),
        )),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(untagged)]
enum Found {
    /// The path has a policer.
    Policer {
        /// True.
        policed: bool,
        /// Rate of the policer, of IP packets.
        rate_bps: u64,
        /// Rates of all policers that contradict at most two packets more than the best fit: the least and the largest.
        rate_bps_range: [u64; 2],
        /// Burst of the policer, in bytes of IP packets.
        burst_bytes: u64,
        /// The least and the largest burst of these policers.
        burst_bytes_range: [u64; 2],
        /// Packets sent in all trains.
        sent: usize,
        /// Packets lost in all trains.
        lost: usize,
        /// Packets that contradict the best fit in the train with the fewest such packets.
        misjudged: usize,
    },
    /// No policer below the probing rate.
    Free {
        /// False.
        policed: bool,
        /// Packets sent in all trains.
        sent: usize,
        /// Packets lost in all trains.
        lost: usize,
        /// The probing rate (`--at`).
        at_bps: u64,
    },
}

/// What arrived of a measurement.
struct Run {
    from: SocketAddr,
    run: u64,
    arrived: Vec<u8>,
}

/// Answers those that probe, forever.
fn answer(address: SocketAddr) -> Outcome {
    let socket =
        UdpSocket::bind(address).map_err(|error| Failure::net(NetError::bind(address, error)))?;
    let local = socket.local_addr().map_err(|error| broken(&error))?;
    print(&format!("listening on {local}\n"))?;
    let mut runs: VecDeque<Run> = VecDeque::new();
    let (mut buffer, mut reply) = (vec![0; 65_536], Vec::new());
    loop {
        let (length, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            // An answer whose requester is gone.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(broken(&error)),
        };
        match PolicerMsg::decode(&buffer[..length]) {
            Ok(PolicerMsg::Probe { run, index, .. }) if index < MOST => {
                let arrived = &mut known(&mut runs, from, run).arrived;
                let place = index as usize / 8;
                if arrived.len() <= place {
                    arrived.resize(place + 1, 0);
                }
                arrived[place] |= 1 << (index % 8);
            }
            Ok(PolicerMsg::Ask { run, from: first }) if first < MOST => {
                let seen = &known(&mut runs, from, run).arrived;
                let mut arrived = [0; ASKED as usize / 8];
                let begin = (first as usize / 8).min(seen.len());
                let seen = &seen[begin..seen.len().min(begin + arrived.len())];
                arrived[..seen.len()].copy_from_slice(seen);
                reply.clear();
                let from_number = first;
                PolicerMsg::Answer {
                    run,
                    from: from_number,
                    arrived,
                }
                .encode(&mut reply);
                // The requester repeats its request without an answer.
                let _ = socket.send_to(&reply, from);
            }
            _ => {}
        }
    }
}

/// The socket cannot be used.
fn broken(error: &io::Error) -> Failure {
    Failure::new(format!("the UDP socket failed: {error}")).hint("start the command again")
}

/// A measurement, which takes the place of the oldest if it is new.
fn known(runs: &mut VecDeque<Run>, from: SocketAddr, run: u64) -> &mut Run {
    let place = runs.iter().position(|it| it.from == from && it.run == run);
    let place = place.unwrap_or_else(|| {
        if runs.len() == RUNS {
            runs.pop_front();
        }
        runs.push_back(Run {
            from,
            run,
            arrived: Vec::new(),
        });
        runs.len() - 1
    });
    &mut runs[place]
}

fn measure(args: &args::PolicerProbe, to: SocketAddr) -> Outcome {
    let mut probe = Prober::new(to, args.packet)?;
    let mut count = FIRST;
    let rough = loop {
        probe.train(count.min(args.packets), args.at)?;
        let last = count >= args.packets;
        if last || probe.lost() >= ENOUGH {
            let rough = token_bucket(&probe.packets);
            if last || rough.is_ok() {
                break rough;
            }
        }
        count *= 4;
    };
    let found = match rough {
        Ok(rough) => closer(args, &mut probe, rough)?,
        Err(error) => Err(error),
    };
    report(args, &probe, found)
}

/// Sends trains at twice the estimated rate until the estimate from the last train agrees, with few packets misjudged. Each
/// train is evaluated alone, because an earlier estimate is wrong if the other host was busy. If none agrees, the result is
/// that of the train with the fewest misjudged packets.
fn closer(
    args: &args::PolicerProbe,
    probe: &mut Prober,
    rough: TokenBucket,
) -> Result<Result<TokenBucket, NoBucket>, Failure> {
    let (mut rate, mut burst) = (rough.rate.as_bps(), rough.burst);
    let mut estimate = Ok(rough);
    // Every other packet finds the bucket empty; the others show how fast it fills.
    let plan = |rate: u64, burst: u64| {
        let to_empty = (2 * burst / u64::from(args.packet)) as u32;
        let count = CLOSER.saturating_add(to_empty);
        let bits = 8 * u64::from(count) * u64::from(args.packet);
        let pace = (2 * rate).max(bits / LONGEST.as_secs());
        (count, pace.min(args.at.as_bps()))
    };
    let mut closest: Option<TokenBucket> = None;
    for _ in 0..TRAINS {
        let (count, pace) = plan(rate, burst);
        let count = count.min(MOST - probe.next);
        if count == 0 {
            break;
        }
        // The bucket is full again by then.
        let full = time_for(Rate::from_bps(rate.max(1)), burst);
        sleep(full.min(LONGEST).saturating_sub(PAUSE));
        let before = probe.packets.len();
        probe.train(count, Rate::from_bps(pace))?;
        estimate = token_bucket(&probe.packets[before..]);
        match estimate {
            Ok(found) => (rate, burst) = (found.rate.as_bps(), found.burst),
            Err(NoBucket::NoLoss) => rate *= 2,
            Err(NoBucket::NoneAfter) => rate /= 2,
        }
        let (_, next) = plan(rate, burst);
        if let Ok(found) = estimate
            && next <= 2 * pace
            && pace <= 2 * next
        {
            if closest.is_none_or(|it| found.misjudged <= it.misjudged) {
                closest = Some(found);
            }
            if found.misjudged <= count as usize / MISJUDGED {
                break;
            }
        }
    }
    Ok(closest.map_or(estimate, Ok))
}

fn time_for(rate: Rate, bytes: u64) -> Duration {
    Duration::from_secs_f64(rate.time_for(bytes).as_secs_f64())
}

fn report(
    args: &args::PolicerProbe,
    probe: &Prober,
    found: Result<TokenBucket, NoBucket>,
) -> Outcome {
    let (sent, lost) = (probe.packets.len(), probe.lost());
    let bucket = match found {
        Ok(bucket) => bucket,
        Err(NoBucket::NoLoss) if args.json => {
            return print_json(&Found::Free {
                policed: false,
                sent,
                lost,
                at_bps: args.at.as_bps(),
            });
        }
        Err(NoBucket::NoLoss) => {
            return print(&format!(
                "no policer below {} and {} of {} bytes: {}\n",
                args.at,
                count(sent, "packet"),
                args.packet,
                match lost {
                    0 => "nothing was lost".to_owned(),
                    lost => format!("{lost} were lost, none of the last train"),
                },
            ));
        }
        Err(error) => return Err(Failure::new(error)),
    };
    if args.json {
        return print_json(&Found::Policer {
            policed: true,
            rate_bps: bucket.rate.as_bps(),
            rate_bps_range: bucket.rates.map(Rate::as_bps),
            burst_bytes: bucket.burst,
            burst_bytes_range: bucket.bursts,
            sent,
            lost,
            misjudged: bucket.misjudged,
        });
    }
    print(&format!(
        "rate   {}  ({} to {})\nburst  {} bytes  ({} to {})\n{} of {} bytes with UDP and IP headers sent, \
         {lost} lost; {} fared otherwise than this bucket says\n",
        bucket.rate,
        bucket.rates[0],
        bucket.rates[1],
        bucket.burst,
        bucket.bursts[0],
        bucket.bursts[1],
        count(sent, "packet"),
        args.packet,
        bucket.misjudged,
    ))
}

/// The end that sends trains and asks for their results.
struct Prober {
    socket: UdpSocket,
    to: SocketAddr,
    run: u64,
    bytes: u32,
    /// The next packet.
    next: u32,
    begun: Instant,
    packets: Vec<Probed>,
}

impl Prober {
    fn new(to: SocketAddr, bytes: u32) -> Result<Prober, Failure> {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
        };
        let open = || {
            let socket = UdpSocket::bind(any)?;
            socket.connect(to)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok(socket)
        };
        let socket = open().map_err(|error: io::Error| {
            Failure::new(format!("cannot send to {to}: {error}"))
                .hint(format!("check the route to it: ip route get {}", to.ip()))
        })?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Ok(Prober {
            socket,
            to,
            // Another one than that of anybody at the same address before.
            run: now.map_or(0, |now| now.as_nanos() as u64),
            bytes,
            next: 0,
            begun: Instant::now(),
            packets: Vec::new(),
        })
    }

    fn lost(&self) -> usize {
        self.packets.iter().filter(|it| !it.passed).count()
    }

    /// Sends `count` packets at a pace, and then finds out which arrived.
    fn train(&mut self, count: u32, pace: Rate) -> Outcome {
        let first = self.next;
        let each = time_for(pace, u64::from(self.bytes));
        let padding = self.bytes as usize - UDP_IP_HEADER - POLICER_HEADER;
        let mut datagram = Vec::new();
        let begun = Instant::now();
        for n in 0..count {
            let due = begun + each * n;
            // Sleep is no finer than that; the rest of the time is waited for.
            if let Some(left) = due.checked_duration_since(Instant::now())
                && left > Duration::from_millis(1)
            {
                sleep(left - Duration::from_millis(1));
            }
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            datagram.clear();
            let (run, index) = (self.run, self.next);
            PolicerMsg::Probe {
                run,
                index,
                padding,
            }
            .encode(&mut datagram);
            let at = Time::ZERO + Span::from_ns(self.begun.elapsed().as_nanos() as u64);
            self.send(&datagram)?;
            self.next += 1;
            let (bytes, passed) = (self.bytes, false);
            self.packets.push(Probed { at, bytes, passed });
        }
        sleep(PAUSE);
        let mut from = first / ASKED * ASKED;
        while from < self.next {
            let arrived = self.ask(from)?;
            for index in from.max(first)..(from + ASKED).min(self.next) {
                let bit = index - from;
                let passed = arrived[bit as usize / 8] >> (bit % 8) & 1 == 1;
                self.packets[index as usize].passed = passed;
            }
            from += ASKED;
        }
        Ok(())
    }

    fn send(&self, datagram: &[u8]) -> Outcome {
        match self.socket.send(datagram) {
            Ok(_) => Ok(()),
            // A drop in a queue of this host is a loss like any other; a missing responder is noticed by the
            // failed answer.
            Err(error) if error.raw_os_error() == Some(105) => Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
            Err(error) => Err(Failure::new(format!("cannot send to {}: {error}", self.to))),
        }
    }

    fn ask(&self, from: u32) -> Result<[u8; ASKED as usize / 8], Failure> {
        let run = self.run;
        let (mut question, mut buffer) = (Vec::new(), [0; 2_048]);
        PolicerMsg::Ask { run, from }.encode(&mut question);
        for _ in 0..TRIES {
            self.send(&question)?;
            let until = Instant::now() + PATIENCE;
            while Instant::now() < until {
                let length = match self.socket.recv(&mut buffer) {
                    Ok(length) => length,
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                        sleep(PATIENCE);
                        break;
                    }
                    Err(_) => break,
                };
                match PolicerMsg::decode(&buffer[..length]) {
                    Ok(PolicerMsg::Answer {
                        run: of,
                        from: first,
                        arrived,
                    }) if (of, first) == (run, from) => return Ok(arrived),
                    _ => {}
                }
            }
        }
        let failure = Failure::new(format!("no answer from {}", self.to));
        Err(failure.hint("run `layercast policer-probe --listen ADDR:PORT` there"))
    }
}
