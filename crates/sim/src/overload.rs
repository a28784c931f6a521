//! Copies of a transport stream that share the queue of a port and offer it more than its line carries
//! (specs/mpeg-picture-quality.md 2.5): which pictures can still be decoded, by what the queue discards.
//!
//! The queue is that of a port of a switch.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use layercast_core::{CELL_PAYLOAD, DataClass, Layer, Rate, Span, Stream, Time};
use layercast_link::{Carried, Discard, FrameFate, Queue, QueueConfig, Unit};
use layercast_picture::{TsDatagram, TsDatagrams};
use thiserror::Error;

/// Most copies.
pub const MOST_COPIES: u16 = 1_000;
/// Most cells of the queue.
const MOST_QUEUED: u64 = 1 << 24;
/// The pass of each copy that is counted: during the first one others may not have begun.
const COUNTED: u32 = 1;

/// One run.
#[derive(Clone, PartialEq, Debug)]
pub struct Overload {
    /// Copies of the stream, each begun at a random time and repeated without a pause, 1 to [`MOST_COPIES`].
    pub copies: u16,
    /// What they offer in parts of what the line carries, above 0.
    pub load: f64,
    /// What a full queue discards.
    pub discard: Discard,
    /// The longest wait in the queue.
    pub queue: Span,
    /// Seed of the times of begin.
    pub seed: u64,
    /// Copies whose delivered datagrams are listed.
    pub watched: u16,
}

/// What a run showed.
#[derive(Clone, PartialEq, Debug)]
pub struct Overloaded {
    /// Rate of the line.
    pub line: Rate,
    /// Lost datagrams of each class, in percent: S, I, P, B.
    pub loss_percent: [f64; 4],
    /// Pictures of all copies.
    pub pictures: u64,
    /// Those that came whole with all that they refer to, in percent.
    pub decodable_percent: f64,
    /// The copy with the fewest of these, in percent.
    pub worst_percent: f64,
    /// Time from arrival to the last bit on the line, median and 99 %.
    pub delay: [Span; 2],
    /// Of each watched copy, the datagrams that were delivered.
    pub watched: Vec<Vec<usize>>,
}

/// Why a run cannot be.
#[derive(Clone, Copy, PartialEq, Debug, Error)]
pub enum OverloadError {
    /// Number of copies.
    #[error("{0} copies: 1 to {MOST_COPIES}")]
    Copies(u16),
    /// Load.
    #[error("a load of {0}: above 0, at most 100; 1.1 is 110 % of the line")]
    Load(f64),
    /// The queue.
    #[error(
        "a queue of {0} ms in front of this line: it holds a datagram at least, and 800 MB at most"
    )]
    Queue(u64),
}

/// A datagram under way.
#[derive(Debug)]
struct Sent {
    copy: u16,
    pass: u32,
    number: u32,
    at: Time,
    octets: u32,
}

impl Carried for Sent {
    fn wire_len(&self) -> usize {
        self.octets as usize
    }

    fn mark_congestion(&mut self) {}
}

/// Where a copy is in the stream.
#[derive(Debug, Default)]
struct Copy {
    begun: Span,
    pass: u32,
    number: usize,
    fate: FrameFate,
    /// Of the counted pass: whether each datagram was delivered.
    delivered: Vec<bool>,
}

impl Overload {
    /// Runs it.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn run(&self, stream: &TsDatagrams) -> Result<Overloaded, OverloadError> {
        if !(1..=MOST_COPIES).contains(&self.copies) {
            return Err(OverloadError::Copies(self.copies));
        }
        if !(self.load > 0.0 && self.load <= 100.0) {
            return Err(OverloadError::Load(self.load));
        }
        let octets: usize = stream.datagrams.iter().map(TsDatagram::octets).sum();
        let mean = octets as f64 * 8.0 / stream.length.as_secs_f64();
        let line = Rate::from_bps((mean * f64::from(self.copies) / self.load).ceil() as u64);
        let cells = line.as_bps() as f64 / 8.0 / CELL_PAYLOAD as f64 * self.queue.as_secs_f64();
        let largest = stream.datagrams.iter().map(cells_of).max().unwrap_or(1);
        if !(f64::from(largest)..=MOST_QUEUED as f64).contains(&cells) {
            return Err(OverloadError::Queue(
                self.queue.as_ps() / Span::from_ms(1).as_ps(),
            ));
        }
        let config = QueueConfig::of_limit(cells as u32);
        let queue = Queue::new(config, self.discard, Some(line));
        Ok(World::new(self, stream, queue).run(line))
    }
}

fn cells_of(datagram: &TsDatagram) -> u32 {
    datagram.octets().div_ceil(CELL_PAYLOAD) as u32
}

/// Copies and queue.
struct World<'a> {
    setting: &'a Overload,
    stream: &'a TsDatagrams,
    queue: Queue<Sent>,
    copies: Vec<Copy>,
    next: BinaryHeap<Reverse<(Time, u16)>>,
    delays: Vec<Span>,
}

impl<'a> World<'a> {
    fn new(setting: &'a Overload, stream: &'a TsDatagrams, queue: Queue<Sent>) -> World<'a> {
        let copies = (0..setting.copies).map(|number| {
            let part = Stream::new(setting.seed, &format!("copy/{number}")).unit();
            Copy {
                begun: Span::from_secs_f64(stream.length.as_secs_f64() * part),
                delivered: vec![false; stream.datagrams.len()],
                ..Copy::default()
            }
        });
        let mut world = World {
            setting,
            stream,
            queue,
            copies: copies.collect(),
            next: BinaryHeap::new(),
            delays: Vec::new(),
        };
        for number in 0..setting.copies {
            world.expect(number);
        }
        world
    }

    fn run(mut self, line: Rate) -> Overloaded {
        let mut counting = self.copies.len();
        while counting > 0
            && let Some(Reverse((now, number))) = self.next.pop()
        {
            self.depart(now);
            self.arrive(now, number);
            let copy = &mut self.copies[usize::from(number)];
            copy.number += 1;
            if copy.number == self.stream.datagrams.len() {
                (copy.number, copy.pass) = (0, copy.pass + 1);
                // Copies continue as load of the others.
                counting -= usize::from(copy.pass == COUNTED + 1);
            }
            self.expect(number);
        }
        self.depart(Time::MAX);
        self.report(line)
    }

    /// The next datagram of a copy will come.
    fn expect(&mut self, number: u16) {
        let copy = &self.copies[usize::from(number)];
        let at = Time::ZERO
            + copy.begun
            + self.stream.length.times(copy.pass.into())
            + self.stream.datagrams[copy.number].at;
        self.next.push(Reverse((at, number)));
    }

    fn arrive(&mut self, now: Time, number: u16) {
        let copy = &mut self.copies[usize::from(number)];
        let datagram = &self.stream.datagrams[copy.number];
        let class = datagram.class();
        let pictures = self.stream.pictures.len() as u32;
        let unit = Unit {
            layer: match class {
                DataClass::System | DataClass::Intra => Layer::Base,
                DataClass::Predicted => Layer::E1,
                DataClass::Bidirectional => Layer::E2,
            },
            frame_start: datagram.picture.is_some() && datagram.marking.start,
            packet_start: true,
            delimiter: false,
            class,
            is_key: class == DataClass::Intra,
            frame: copy.pass.wrapping_mul(pictures) + datagram.picture.unwrap_or(0),
            flow: number.into(),
        };
        let mut alone = FrameFate::default();
        let fate = match datagram.picture {
            Some(_) => &mut copy.fate,
            None => &mut alone,
        };
        let cells = cells_of(datagram);
        if self.queue.admit(now, cells, unit, fate).is_ok() {
            let sent = Sent {
                copy: number,
                pass: copy.pass,
                number: copy.number as u32,
                at: now,
                octets: datagram.octets() as u32,
            };
            self.queue.push(now, sent, cells, unit.layer == Layer::Base);
        }
    }

    fn depart(&mut self, now: Time) {
        while let Some(unit) = self.queue.depart(now) {
            let sent = &unit.pdu;
            if sent.pass == COUNTED {
                let copy = &mut self.copies[usize::from(sent.copy)];
                copy.delivered[sent.number as usize] = true;
                self.delays.push((unit.start + unit.tx).since(sent.at));
            }
        }
    }

    fn report(mut self, line: Rate) -> Overloaded {
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let mut sums = [[0_u64; 2]; 4];
        let mut decodable = Vec::with_capacity(self.copies.len());
        for copy in &self.copies {
            let mut is_whole = vec![true; self.stream.pictures.len()];
            for (datagram, &came) in self.stream.datagrams.iter().zip(&copy.delivered) {
                let [sent, lost] = &mut sums[datagram.class().index()];
                (*sent, *lost) = (*sent + 1, *lost + u64::from(!came));
                if let Some(picture) = datagram.picture {
                    is_whole[picture as usize] &= came;
                }
            }
            decodable.push(decodable_of(&self.stream.pictures, &is_whole));
        }
        let each = self.stream.pictures.len() as u64;
        let all = each * self.copies.len() as u64;
        self.delays.sort_unstable();
        let quantile = |part: f64| {
            let last = self.delays.len().saturating_sub(1);
            let place = (last as f64 * part) as usize;
            self.delays.get(place).copied().unwrap_or(Span::ZERO)
        };
        let watched = self.copies.iter().take(self.setting.watched.into());
        let delivered = |copy: &Copy| {
            let came = copy.delivered.iter().enumerate().filter(|(_, came)| **came);
            came.map(|(number, _)| number).collect()
        };
        Overloaded {
            line,
            loss_percent: sums.map(|[sent, lost]| percent(lost, sent)),
            pictures: all,
            decodable_percent: percent(decodable.iter().sum(), all),
            worst_percent: percent(decodable.iter().min().copied().unwrap_or(0), each),
            delay: [quantile(0.5), quantile(0.99)],
            watched: watched.map(delivered).collect(),
        }
    }
}

/// How many pictures can be decoded: an I picture alone, a P picture with the reference before it, a B picture with the two before
/// it. Pictures before the first reference count as if they had theirs.
pub fn decodable_of(classes: &[DataClass], is_whole: &[bool]) -> u64 {
    let mut references = [true; 2];
    let mut count = 0;
    for (class, &is_whole) in classes.iter().zip(is_whole) {
        let [older, younger] = references;
        let can_decode = is_whole
            && match class {
                DataClass::System | DataClass::Intra => true,
                DataClass::Predicted => younger,
                DataClass::Bidirectional => older && younger,
            };
        if *class != DataClass::Bidirectional {
            references = [younger, can_decode];
        }
        count += u64::from(can_decode);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_atm::SharedPolicy;
    use layercast_picture::FrameMarking;

    /// A GOP of 12 pictures in 0.48 s, with the shares of the paper, evenly spread, twice; after each picture some sound.
    fn stream() -> TsDatagrams {
        use DataClass::{Bidirectional as B, Intra as I, Predicted as P};
        let gop = [
            (I, 40),
            (B, 2),
            (B, 2),
            (P, 8),
            (B, 2),
            (B, 2),
            (P, 8),
            (B, 2),
            (B, 2),
            (P, 8),
            (B, 2),
            (B, 2),
        ];
        let mut datagrams = Vec::new();
        let mut pictures = Vec::new();
        let all = 2 * (80 + 12);
        let length = Span::from_ms(960);
        for (class, count) in [gop, gop].concat() {
            let picture = pictures.len() as u32;
            pictures.push(class);
            for number in 0..=count {
                let is_sound = number == count;
                let sent = datagrams.len() as u64;
                datagrams.push(TsDatagram {
                    first: 7 * datagrams.len(),
                    packets: 7,
                    marking: FrameMarking::of(class, number == 0, number + 1 == count),
                    picture: (!is_sound).then_some(picture),
                    at: length.mul_div(sent, all),
                });
            }
        }
        TsDatagrams {
            datagrams,
            pictures,
            length,
        }
    }

    fn run(policy: Option<SharedPolicy>, load: f64) -> Overloaded {
        let setting = Overload {
            copies: 40,
            load,
            discard: Discard {
                classes: policy,
                ..Discard::default()
            },
            queue: Span::from_ms(50),
            seed: 1,
            watched: 2,
        };
        setting.run(&stream()).expect("a good setting")
    }

    #[test]
    fn below_the_rate_of_the_line_all_arrives() {
        for policy in [
            None,
            Some(SharedPolicy::Fifo),
            Some(SharedPolicy::WholeGops),
        ] {
            let run = run(policy, 0.9);
            assert_eq!(run.loss_percent, [0.0; 4], "{policy:?}");
            assert_eq!((run.decodable_percent, run.pictures), (100.0, 40 * 24));
            assert_eq!(run.watched, vec![(0..184).collect::<Vec<_>>(); 2]);
            assert!(run.delay[1] < Span::from_ms(10), "{:?}", run.delay);
        }
    }

    #[test]
    fn policies_that_know_classes_keep_sound_within_the_delay_of_the_queue() {
        let of = |policy| run(Some(policy), 1.1);
        let fifo = of(SharedPolicy::Fifo);
        let lost = fifo.loss_percent.iter().sum::<f64>() / 4.0;
        assert!((5.0..15.0).contains(&lost), "{fifo:?}");
        let known = [
            SharedPolicy::ExClpEpd,
            SharedPolicy::Dependent,
            SharedPolicy::WholeGops,
        ];
        for run in known.map(of) {
            assert_eq!(run.loss_percent[0], 0.0, "{run:?}");
            assert!(run.delay[1] <= Span::from_ms(52), "{run:?}");
        }
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let refused = |change: fn(&mut Overload)| {
            let mut setting = Overload {
                copies: 2,
                load: 1.0,
                discard: Discard::default(),
                queue: Span::from_ms(50),
                seed: 1,
                watched: 0,
            };
            change(&mut setting);
            setting.run(&stream()).expect_err("refused").to_string()
        };
        assert!(refused(|it| it.copies = 0).contains("copies"));
        assert!(refused(|it| it.load = f64::NAN).contains("load"));
        assert!(refused(|it| it.queue = Span::ZERO).contains("queue"));
    }
}
