use std::collections::VecDeque;

use layercast_core::{Layer, Time};

use super::super::splitter::TsSplitter;
use super::MOST;
use super::note::RenditionId;
use crate::live::{Stamp, TimedFrame};

/// Ticks between two pictures that are no jump of the clock.
pub(super) const JUMP: i64 = 90_000 * 5;
/// Ticks by which a picture is decoded before the one before it, where the clock begins again.
const BACK: i64 = 90_000 / 2;
/// Ticks of a picture where nothing tells.
const PICTURE: i64 = 3_600;

/// Key frames by which the time bases of renditions are compared.
const KEYS: usize = 16;

/// One rendition on its way to the others.
#[derive(Debug)]
pub(super) struct Lane {
    pub id: RenditionId,
    pub splitter: TsSplitter,
    /// Sound comes from here, and so do the tables.
    pub is_main: bool,
    pub layer: Layer,
    /// Pictures, and sound of the main one.
    pub queue: VecDeque<Queued>,
    /// Of the pictures in `queue`.
    pub queued: usize,
    /// Media time of them, in ticks, without jumps of the clock.
    pub waiting: i64,
    pub octets: usize,
    /// No picture came for some time of the others.
    pub is_stopped: bool,
    /// It has begun at a common key frame, and continues from there.
    pub is_in: bool,
    pub is_over: bool,
    /// It is further ahead of the others than they are waited for.
    pub is_ahead: bool,
    /// What the others had received when the first of the pictures came that are left out because they come late; and by how
    /// much the last of these was late, in ticks.
    pub late: Option<(i64, i64)>,
    /// It was said that they come late.
    pub is_late_told: bool,
    /// Media time of its pictures in all, in ticks, without those that came too late.
    pub received: i64,
    /// The same when it was last looked at.
    pub reported: i64,
    /// What each of the others had received when its last picture came.
    pub heard: [i64; MOST],
    /// Octets of its pictures in all.
    pub seen: u64,
    pub aligned: u64,
    pub alone: u64,
    /// Times of its first key frames.
    pub keys: Vec<Stamp>,
    epoch: u32,
    last: Option<Stamp>,
    step: i64,
}

/// A frame that waits.
#[derive(Debug)]
pub(super) struct Queued {
    pub frame: TimedFrame,
    /// How often the clock of the rendition has jumped before.
    pub epoch: u32,
    pub stamp: Stamp,
    /// Ticks since the picture before; none of sound, and where the clock jumps.
    step: i64,
}

impl Lane {
    /// A rendition whose input begins with `held`.
    pub fn new(id: RenditionId, is_main: bool, held: &[u8]) -> Lane {
        let mut splitter = TsSplitter::of_program(Some(id.program));
        splitter.look_ahead(held);
        Lane {
            id,
            splitter,
            is_main,
            layer: Layer::Base,
            queue: VecDeque::new(),
            queued: 0,
            waiting: 0,
            octets: 0,
            is_stopped: false,
            is_in: false,
            is_over: false,
            is_ahead: false,
            late: None,
            is_late_told: false,
            received: 0,
            reported: 0,
            heard: [0; MOST],
            seen: 0,
            aligned: 0,
            alone: 0,
            keys: Vec::new(),
            epoch: 0,
            last: None,
            step: PICTURE,
        }
    }

    pub fn push(&mut self, now: Option<Time>, bytes: &[u8]) {
        match now {
            Some(now) => self.splitter.push_at(now, bytes),
            None => self.splitter.push(bytes),
        }
        self.take();
    }

    pub fn finish(&mut self) {
        self.splitter.finish();
        self.take();
        self.is_over = true;
    }

    fn take(&mut self) {
        while let Some(frame) = self.splitter.poll() {
            if frame.frame.sound {
                if self.is_main {
                    let stamp = frame.stamp.or(self.last).unwrap_or(Stamp::pes(0));
                    self.put(frame, stamp, 0);
                }
                continue;
            }
            let mut step = 0;
            let stamp = match (frame.stamp, self.last) {
                (Some(stamp), Some(last)) => {
                    step = stamp.since(last);
                    if !(-BACK..=JUMP).contains(&step) {
                        (self.epoch, step) = (self.epoch + 1, 0);
                    } else if step > 0 {
                        self.step = step;
                    }
                    stamp
                }
                (Some(stamp), None) => stamp,
                (None, last) => {
                    step = self.step;
                    last.map_or(Stamp::pes(0), |last| last.plus(step.unsigned_abs()))
                }
            };
            if frame.frame.gop_start && self.keys.len() < KEYS {
                self.keys.push(stamp);
            }
            self.last = Some(stamp);
            self.seen += u64::from(frame.frame.size);
            self.queued += 1;
            self.received += step;
            self.put(frame, stamp, step);
        }
    }

    fn put(&mut self, frame: TimedFrame, stamp: Stamp, step: i64) {
        self.octets += frame.frame.size as usize;
        self.waiting += step;
        self.queue.push_back(Queued {
            frame,
            epoch: self.epoch,
            stamp,
            step,
        });
    }

    /// Leaves out the pictures that are to be shown before `last`, which was passed on, and counts them as not received. The others
    /// have received `received`.
    pub fn drop_late(&mut self, (epoch, last): (u32, Stamp), received: i64) {
        let tolerance = self.tolerance();
        let is_late = |it: &Queued| {
            !it.frame.frame.sound && it.epoch == epoch && last.since(it.stamp) > tolerance
        };
        let mut queue = std::mem::take(&mut self.queue);
        queue.retain(|it| {
            let is_late = is_late(it);
            if is_late {
                self.forget(it);
                self.received -= it.step;
                let since = self.late.map_or(received, |it| it.0);
                self.late = Some((since, last.since(it.stamp)));
            }
            !is_late
        });
        self.queue = queue;
        if self.queued > 0 {
            self.late = None;
        }
    }

    /// Leaves out the first pictures, until those that wait take no more than `span` ticks.
    pub fn shorten(&mut self, span: i64) {
        while self.waiting > span {
            let first = self.queue.iter().position(|it| !it.frame.frame.sound);
            let Some(queued) = first.and_then(|at| self.queue.remove(at)) else {
                return;
            };
            self.forget(&queued);
        }
    }

    fn forget(&mut self, queued: &Queued) {
        self.octets -= queued.frame.frame.size as usize;
        self.waiting -= queued.step;
        self.queued -= usize::from(!queued.frame.frame.sound);
    }

    /// The first frame that waits.
    pub fn pop(&mut self) -> Option<Queued> {
        let queued = self.queue.pop_front()?;
        self.forget(&queued);
        Some(queued)
    }

    /// Sound before the next picture.
    pub fn pop_sound(&mut self) -> Option<Queued> {
        let is_sound = self.queue.front().is_some_and(|it| it.frame.frame.sound);
        is_sound.then(|| self.pop()).flatten()
    }

    /// The next picture; sound before it is taken out first.
    pub fn head(&self) -> Option<&Queued> {
        self.queue.iter().find(|it| !it.frame.frame.sound)
    }

    /// The clock that jumps alone does not keep the others.
    pub fn set_epoch(&mut self, epoch: u32) {
        for queued in &mut self.queue {
            queued.epoch = epoch;
        }
        self.epoch = epoch;
    }

    /// How often its clock has jumped.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Half of the time of a picture, in ticks.
    pub fn tolerance(&self) -> i64 {
        self.step.min(90_000) / 2
    }

    /// Media time of the pictures that wait, in ticks.
    pub fn span(&self) -> i64 {
        match (self.head(), self.last) {
            (Some(head), Some(last)) if head.epoch == self.epoch => last.since(head.stamp),
            (Some(_), _) => i64::MAX,
            _ => 0,
        }
    }

    /// A picture to start at waits, so that its size is known.
    pub fn has_start(&self) -> bool {
        self.queue.iter().any(|it| it.frame.frame.gop_start)
    }

    /// Pixels of a picture.
    pub fn pixels(&self) -> u64 {
        let format = self.splitter.format();
        format.map_or(0, |(width, height, _)| u64::from(width) * u64::from(height))
    }
}
