//! SandiaXTP on ORL's boards of 1995 in virtual time (specs/xtp.md O1 to O5): the machine that runs on sockets, on two
//! hosts whose processors take the time that the specification's model of them says (specs/xtp.md 5.3), over ATM of 100
//! Mbit/s.
//!
//! The model knows how long a call, a packet and a byte take the sender, and how much longer a block takes that is waited
//! for. What it does not say, and is ours: the daemon of the receiver answers before it copies; a packet takes it half of what
//! it takes the sender, a byte as much; status takes both ends the same, so that the wait for a block of 512 bytes is the model's.

use core::net::{Ipv4Addr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use layercast_core::{Machine, Off, Span, Time, aal5_cells};
use layercast_wire::{Payload, XTP_HEADER, XtpBody, XtpService};
use layercast_xtp::{
    Ask, ContextId, Endpoint, SendOptions, XtpConfig, XtpDatagram, XtpEvent, XtpSocket,
};
use serde_json::{Value, json};

use crate::Failed;
use crate::orl::{BLOCKS, BUFFERS, MODES, Mode};

const PORT: u16 = 7_000;
/// Bytes of a run; nothing in it is random, so that the paper's 100 MB would give the same.
const TOTAL: u64 = 10_000_000;
/// c, a and b of the model, in nanoseconds: a call of the user, a packet, a byte that is copied twice.
const CALL: u64 = 209_000;
const PACKET: u64 = 432_000;
const BYTE: f64 = 267.0;
/// k: what a byte takes longer that is summed while it is copied.
const SUM: f64 = 51.9;
/// L of a block of 512 bytes.
const WAIT: u64 = 654_000;
/// A cell on 100 Mbit/s.
const CELL: u64 = 4_240;
/// Cells of 512 bytes with both headers, and of a status.
const LEAST_CELLS: u64 = 12;
const STATUS_CELLS: u64 = 2;
/// What a status takes each end.
const STATUS: u64 = (WAIT - (LEAST_CELLS + STATUS_CELLS) * CELL - PACKET / 2) / 2;

/// Something that takes the processor of a host.
enum Job {
    /// The user hands a block to the daemon.
    Call,
    Send(XtpDatagram),
    Take(XtpDatagram),
    /// Data go to the receiving user.
    Copy(usize),
}

/// A machine: one processor shared by user, daemon and driver.
struct Board {
    endpoint: Endpoint,
    jobs: VecDeque<Job>,
    /// The one at the head is done then.
    done: Option<Time>,
    busy: Span,
    /// The link from it is free again.
    link: Time,
}

struct Run {
    now: Time,
    mode: Mode,
    block: usize,
    boards: [Board; 2],
    flying: BTreeMap<(Time, u64), (usize, XtpDatagram)>,
    order: u64,
    near: Option<ContextId>,
    far: Option<ContextId>,
    sent: u64,
    received: u64,
    began: Option<Time>,
    busy_before: [Span; 2],
}

pub fn run() -> Result<Value, Failed> {
    let mut points = Vec::new();
    for buffer in BUFFERS {
        for (name, mode) in MODES {
            for block in BLOCKS {
                let mut point = Run::new(buffer, mode, block)?.finish()?;
                point["network_buffer"] = json!(buffer);
                point["mode"] = json!(name);
                point["block"] = json!(block);
                points.push(point);
            }
        }
    }
    Ok(json!({ "points": points }))
}

fn socket(n: u8) -> XtpSocket {
    XtpSocket {
        net: SocketAddr::new(Ipv4Addr::new(10, 0, 0, 1 + n).into(), 0),
        port: PORT,
    }
}

impl Run {
    fn new(buffer: u32, mode: Mode, block: usize) -> Result<Run, Failed> {
        let board = |name| Board {
            endpoint: Endpoint::new(4, name, &[1; 32]),
            jobs: VecDeque::new(),
            done: None,
            busy: Span::ZERO,
            link: Time::ZERO,
        };
        let mut config = XtpConfig {
            // The last packet of a block asks, and no other.
            ask: Ask::Every(u32::MAX),
            ..XtpConfig::new(XtpService::STREAM)
        };
        crate::orl::configure(&mut config, buffer, mode, block);
        if mode == Mode::BlastUn {
            config.ask = Ask::Never;
        }
        let mut run = Run {
            now: Time::ZERO,
            mode,
            block,
            boards: [board("sender"), board("receiver")],
            flying: BTreeMap::new(),
            order: 0,
            near: None,
            far: None,
            sent: 0,
            received: 0,
            began: None,
            busy_before: [Span::ZERO; 2],
        };
        run.boards[1].endpoint.listen(PORT, 1, config.clone())?;
        let sender = &mut run.boards[0].endpoint;
        run.near = Some(sender.connect(Time::ZERO, socket(0), socket(1), &config)?);
        run.settle(0);
        Ok(run)
    }

    fn finish(mut self) -> Result<Value, Failed> {
        while self.received < TOTAL {
            let done = self.boards.iter().filter_map(|it| it.done).min();
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let timers = self
                .boards
                .iter()
                .filter_map(|it| it.endpoint.next_timeout());
            let next = done.into_iter().chain(arrival).chain(timers).min();
            self.now = next.ok_or("nothing is scheduled")?.max(self.now);
            for side in 0..2 {
                if self.boards[side].done.is_some_and(|at| at <= self.now) {
                    self.complete(side)?;
                }
                let endpoint = &mut self.boards[side].endpoint;
                if endpoint.next_timeout().is_some_and(|at| at <= self.now) {
                    endpoint.on_timeout(self.now, &mut Off);
                    self.settle(side);
                }
            }
            if arrival.is_some_and(|at| at <= self.now)
                && let Some((_, (to, datagram))) = self.flying.pop_first()
            {
                self.queue(to, Job::Take(datagram));
            }
        }
        let began = self.began.ok_or("nothing was sent")?;
        let seconds = self.now.since(began).as_secs_f64();
        let share = |n: usize| (self.boards[n].busy - self.busy_before[n]).as_secs_f64() / seconds;
        Ok(json!({
            "mbit_s": self.received as f64 * 8e-6 / seconds,
            "sender_cpu": share(0),
            "receiver_cpu": share(1),
        }))
    }

    fn queue(&mut self, side: usize, job: Job) {
        self.boards[side].jobs.push_back(job);
        self.begin(side);
    }

    /// The processor takes the next job if it is free.
    fn begin(&mut self, side: usize) {
        let cost = match self.boards[side].jobs.front() {
            Some(job) if self.boards[side].done.is_none() => self.cost(side, job),
            _ => return,
        };
        let board = &mut self.boards[side];
        board.busy += cost;
        board.done = Some(self.now + cost);
    }

    fn cost(&self, side: usize, job: &Job) -> Span {
        let per_byte = |len: usize, ns: f64| (len as f64 * ns) as u64;
        let sum = match self.mode {
            Mode::AckRel => SUM,
            Mode::AckUn | Mode::BlastUn => 0.0,
        };
        let data = |it: &XtpDatagram| match &it.packet.body {
            XtpBody::Data(data) => Some(data.len()),
            _ => None,
        };
        Span::from_ns(match job {
            Job::Call => CALL,
            Job::Send(it) => match data(it) {
                Some(len) => PACKET + per_byte(len, BYTE + sum),
                None => STATUS,
            },
            Job::Take(it) => match data(it) {
                Some(len) if side == 1 => PACKET / 2 + per_byte(len, sum),
                _ => STATUS,
            },
            Job::Copy(len) => per_byte(*len, BYTE),
        })
    }

    fn complete(&mut self, side: usize) -> Result<(), Failed> {
        let board = &mut self.boards[side];
        board.done = None;
        let Some(job) = board.jobs.pop_front() else {
            return Ok(());
        };
        match job {
            Job::Call => self.give()?,
            Job::Send(datagram) => {
                let cells = aal5_cells(XTP_HEADER + datagram.packet.body.encoded_len());
                let begins = board.link.max(self.now);
                board.link = begins + Span::from_ns(CELL * u64::from(cells));
                self.order += 1;
                self.flying
                    .insert((board.link, self.order), (1 - side, datagram));
                // A sender that does not wait makes its next call when the block has left.
                let more = |it: &Job| matches!(it, Job::Call | Job::Send(_));
                let free = !board.jobs.iter().any(more);
                if side == 0 && self.mode == Mode::BlastUn && free {
                    self.call();
                }
            }
            Job::Take(datagram) => {
                board.endpoint.handle(self.now, datagram, &mut Off);
                self.settle(side);
            }
            Job::Copy(len) => self.received += len as u64,
        }
        self.begin(side);
        Ok(())
    }

    /// The user of the sender makes its next call.
    fn call(&mut self) {
        if self.began.is_none() {
            self.began = Some(self.now);
            self.busy_before = [self.boards[0].busy, self.boards[1].busy];
        }
        self.boards[0].jobs.push_back(Job::Call);
    }

    fn give(&mut self) -> Result<(), Failed> {
        let Some(id) = self.near else {
            return Ok(());
        };
        let block = Payload::Bytes(Bytes::from(vec![0; self.block]));
        let endpoint = &mut self.boards[0].endpoint;
        let taken = endpoint.send(id, &block, &SendOptions::default())?;
        if taken < self.block {
            return Err(format!("{taken} of {} bytes fit", self.block).into());
        }
        self.sent += taken as u64;
        if self.mode != Mode::BlastUn {
            endpoint.tell_settled(id)?;
        }
        self.settle(0);
        Ok(())
    }

    /// The output of a host, and the events for its user.
    fn settle(&mut self, side: usize) {
        while let Some(event) = self.boards[side].endpoint.poll_event() {
            match event {
                XtpEvent::Connected(_) | XtpEvent::Settled(_) if side == 0 => self.call(),
                XtpEvent::Incoming(port) => {
                    let new = self.boards[side].endpoint.accept(port);
                    self.far = new.map(|(id, _)| id).or(self.far);
                }
                _ => {}
            }
        }
        while let Some(datagram) = self.boards[side].endpoint.poll_transmit(self.now, &mut Off) {
            self.boards[side].jobs.push_back(Job::Send(datagram));
        }
        if let Some(id) = self.far.filter(|_| side == 1) {
            while let Ok(Some(chunk)) = self.boards[1].endpoint.receive(id, usize::MAX) {
                self.boards[1].jobs.push_back(Job::Copy(chunk.data.len()));
            }
            // Room may be worth telling.
            while let Some(datagram) = self.boards[1].endpoint.poll_transmit(self.now, &mut Off) {
                self.boards[1].jobs.push_back(Job::Send(datagram));
            }
        }
        self.begin(side);
    }
}
