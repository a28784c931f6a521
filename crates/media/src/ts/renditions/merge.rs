use std::collections::VecDeque;

use layercast_core::{Layer, Span, Time};

use super::super::codec::VideoCodec;
use super::super::silence::StreamChange;
use super::super::splitter::TsStats;
use super::adopt::{adopted, shown_at};
use super::lane::{JUMP, Lane, Queued};
use super::note::{REMEDY, RenditionId, RenditionNote, names};
use super::{MOST, Rendition};
use crate::live::{Stamp, TimedFrame, span_of};

/// For this media time, in ticks, the others wait for a picture of a rendition.
const PATIENCE: i64 = 90_000 * 7 / 10;
/// A live rendition may be ahead of the others by this media time: its pictures wait for theirs.
const MOST_AHEAD: i64 = 90_000 * 5;
/// Media time of a file that may be left where another ends.
const MOST_LEFT: i64 = 90_000 / 2;
/// For this time of the others all pictures of a rendition come too late until that is reported.
const LATE_FOR: i64 = 90_000;
/// For this one they wait for the first key frame of each.
const FIRST_PATIENCE: i64 = 90_000 * 10;
/// Octets that wait, of all renditions.
const MOST_WAITING: usize = 64 << 20;
/// Key frames of each rendition after which those of all are in vain.
const TRIES: u64 = 4;
/// Frames and notes that wait for a caller.
const MOST_FRAMES: usize = 1 << 15;
const MOST_NOTES: usize = 64;

/// Puts the frames of renditions in one order.
#[derive(Debug)]
pub(super) struct Merge {
    lanes: Vec<Lane>,
    /// Each is a file: the others wait for it, and end with it.
    are_files: bool,
    /// Lanes are in the order of their levels.
    is_ordered: bool,
    /// There was a common key frame: media time counts from here.
    begun: Option<Stamp>,
    now: Span,
    /// The latest picture that was passed on, and how often its clock had jumped.
    last: Option<(u32, Stamp)>,
    apart: u64,
    shown: u64,
    frames: VecDeque<TimedFrame>,
    notes: VecDeque<RenditionNote>,
    /// Why there is no flow.
    pub problem: Option<String>,
}

impl Merge {
    pub fn new(lanes: Vec<Lane>, are_files: bool) -> Merge {
        Merge {
            lanes,
            are_files,
            is_ordered: false,
            begun: None,
            now: Span::ZERO,
            last: None,
            apart: 0,
            shown: 0,
            frames: VecDeque::new(),
            notes: VecDeque::new(),
            problem: None,
        }
    }

    pub fn push(&mut self, now: Option<Time>, input: usize, bytes: &[u8]) {
        for lane in &mut self.lanes {
            if lane.id.input.unwrap_or(0) == input {
                lane.push(now, bytes);
            }
        }
        self.settle();
        self.advance();
    }

    /// Leaves out pictures of a rendition that stopped and comes back with what it has kept: it is in again when it has reached
    /// the others. And notes which renditions have received something.
    fn settle(&mut self) {
        if let Some(last) = self.last
            && self.begun.is_some()
            && !self.are_files
        {
            for index in 0..self.lanes.len() {
                if !self.lanes[index].is_in {
                    let received = self.received_beside(index);
                    self.lanes[index].drop_late(last, received);
                    self.tell_late(index, received);
                }
            }
        }
        let received = self.received();
        for (lane, now) in self.lanes.iter_mut().zip(received) {
            let own = std::mem::replace(&mut lane.reported, now);
            if own != now {
                lane.heard = received;
            }
        }
    }

    /// What each rendition has received.
    fn received(&self) -> [i64; MOST] {
        let mut received = [0; MOST];
        for (lane, found) in self.lanes.iter().zip(&mut received) {
            *found = lane.received;
        }
        received
    }

    /// The most that others have received.
    fn received_beside(&self, index: usize) -> i64 {
        let lanes = self.lanes.iter().enumerate();
        let others = lanes.filter(|(it, _)| *it != index);
        others.map(|it| it.1.received).max().unwrap_or(0)
    }

    /// Says once of a rendition that was away that its pictures come, but too late all the time.
    fn tell_late(&mut self, index: usize, received: i64) {
        let lane = &mut self.lanes[index];
        let Some((_, by)) = lane.late.filter(|(since, _)| received - since > LATE_FOR) else {
            return;
        };
        if !std::mem::replace(&mut lane.is_late_told, true) {
            let (at, id) = (self.now, lane.id);
            let by = span_of(by);
            self.note(RenditionNote::Late { at, id, by });
        }
    }

    /// Whether others have received more than `patience` since the last picture of a rendition: it has stopped. If not, one that
    /// has many pictures waiting is ahead.
    fn has_stopped(&self, index: usize, patience: i64) -> bool {
        let heard = self.lanes[index].heard;
        let mut others = self.lanes.iter().zip(heard);
        others.any(|(other, then)| other.received - then > patience)
    }

    pub fn finish(&mut self, input: usize) {
        if self.lanes.iter().all(|it| it.is_over) {
            return;
        }
        for lane in &mut self.lanes {
            if lane.id.input.unwrap_or(0) == input && !lane.is_over {
                lane.finish();
            }
        }
        self.advance();
        if self.lanes.iter().all(|it| it.is_over) {
            self.end();
        }
    }

    /// All inputs are over.
    fn end(&mut self) {
        self.look_for_common();
        if !self.are_files || self.lanes.iter().all(|it| it.span() < MOST_LEFT) {
            return;
        }
        let first = self.lanes.iter().find(|it| it.queued == 0);
        if let Some(id) = first.map(|it| it.id) {
            self.note(RenditionNote::Ended { at: self.now, id });
        }
    }

    /// The input whose pictures are behind those of the others.
    pub fn awaited(&self) -> Option<usize> {
        let lanes = self.lanes.iter().filter(|it| !it.is_over);
        let first = lanes.min_by_key(|it| (it.queued > 0, it.span()));
        first.map(|it| it.id.input.unwrap_or(0))
    }

    pub fn poll(&mut self) -> Option<TimedFrame> {
        self.frames.pop_front()
    }

    pub fn poll_note(&mut self) -> Option<RenditionNote> {
        self.notes.pop_front()
    }

    pub fn poll_change(&mut self) -> Option<StreamChange> {
        let main = self.lanes.iter_mut().find(|it| it.is_main)?;
        main.splitter.poll_change()
    }

    pub fn inputs(&self) -> usize {
        let inputs = self.lanes.iter().map(|it| it.id.input.unwrap_or(0) + 1);
        inputs.max().unwrap_or(0)
    }

    pub fn codec(&self) -> Option<VideoCodec> {
        self.lanes.first()?.splitter.codec()
    }

    pub fn stats(&self) -> TsStats {
        let first = self.lanes.iter().min_by_key(|it| it.id.input);
        let mut stats = first.map_or_else(TsStats::default, |it| it.splitter.stats());
        // Of programs of one stream, each sees its own pictures only.
        stats.damaged = self
            .lanes
            .iter()
            .map(|it| it.splitter.stats().damaged)
            .sum();
        stats
    }

    pub fn ends_inside(&self) -> Option<u64> {
        let lanes = self.lanes.iter();
        lanes.filter_map(|it| it.splitter.ends_inside()).min()
    }

    pub fn renditions(&self) -> Vec<Rendition> {
        if !self.is_ordered {
            return Vec::new();
        }
        let of = |lane: &Lane| {
            let (width, height, _) = lane.splitter.format().unwrap_or((0, 0, None));
            Rendition {
                id: lane.id,
                layer: lane.layer,
                width,
                height,
                aligned: lane.aligned,
                alone: lane.alone,
            }
        };
        self.lanes.iter().map(of).collect()
    }

    /// What it still waits for before the first frame.
    pub fn pending(&self) -> Option<String> {
        if self.begun.is_some() {
            return None;
        }
        let without: Vec<RenditionId> = self.missing_starts().collect();
        Some(match (self.is_ordered, without.is_empty()) {
            (false, false) => no_key_frame(&without),
            _ => self.other_clock().unwrap_or_else(|| {
                format!("there is no time at which each rendition has a key frame; {REMEDY}")
            }),
        })
    }

    fn missing_starts(&self) -> impl Iterator<Item = RenditionId> + '_ {
        let lanes = self.lanes.iter().filter(|it| !it.has_start());
        lanes.map(|it| it.id)
    }

    fn advance(&mut self) {
        if !self.is_ordered && !self.order() {
            return;
        }
        while self.problem.is_none() && self.step() {}
    }

    /// Whether the frames that wait reach their bound, so that what is missing is not waited for.
    fn is_overdue(&self, patience: i64) -> bool {
        let waiting: usize = self.lanes.iter().map(|it| it.octets).sum();
        waiting > MOST_WAITING || self.lanes.iter().any(|it| it.span() > patience)
    }

    /// Orders the renditions by their size, then by what they take, once each has shown a key frame.
    fn order(&mut self) -> bool {
        let without: Vec<RenditionId> = self.missing_starts().collect();
        if !without.is_empty() {
            let over = self.lanes.iter().all(|it| it.is_over);
            if over || self.is_overdue(FIRST_PATIENCE) {
                self.problem = Some(no_key_frame(&without));
            }
            return false;
        }
        self.lanes.sort_by_key(|it| (it.pixels(), it.seen));
        for (lane, layer) in self.lanes.iter_mut().zip(Layer::ALL) {
            lane.layer = layer;
        }
        // Places of renditions change here.
        let received = self.received();
        self.lanes.iter_mut().for_each(|lane| lane.heard = received);
        self.is_ordered = true;
        true
    }

    /// Passes on the pictures of one time; `false`: nothing can be done yet.
    fn step(&mut self) -> bool {
        self.pass_sound();
        for lane in &mut self.lanes {
            lane.is_stopped &= lane.queued == 0;
        }
        let has_ended = |it: &Lane| it.queued == 0 && it.is_over;
        if self.are_files && self.lanes.iter().any(has_ended) {
            return false;
        }
        let patience = match self.begun {
            _ if self.are_files => i64::MAX,
            Some(_) => PATIENCE,
            None => FIRST_PATIENCE,
        };
        if self.is_overdue(patience) {
            self.give_up(patience);
        }
        if self.lanes.iter().any(is_waited_for) {
            return false;
        }
        let heads = self.lanes.iter().filter_map(Lane::head);
        let Some((epoch, stamp)) = earliest(heads) else {
            return false;
        };
        let tolerance = self.lanes.iter().map(Lane::tolerance).min().unwrap_or(0);
        let is_of_it = |it: &Queued| it.epoch == epoch && it.stamp.since(stamp) <= tolerance;
        let mut group = Vec::with_capacity(self.lanes.len());
        for index in 0..self.lanes.len() {
            let lane = &mut self.lanes[index];
            if lane.head().is_some_and(is_of_it)
                && let Some(queued) = lane.pop()
            {
                group.push((index, queued.frame));
            }
        }
        self.group(group, (epoch, stamp));
        true
    }

    /// Pictures wait too long: those that wait for a rendition that has stopped continue without it, and a rendition that is ahead
    /// of the others loses what is too far ahead.
    fn give_up(&mut self, patience: i64) {
        let newest = self.lanes.iter().map(Lane::epoch).max().unwrap_or(0);
        let before = self.last.map_or(newest, |it| it.0);
        if let Some((epoch, _)) = &mut self.last {
            *epoch = newest;
        }
        // A clock that jumped back alone has no place among the others.
        let stays = |it: usize| self.lanes[it].epoch() == before && !self.has_stopped(it, patience);
        let some_stay = (0..self.lanes.len()).any(stays);
        let is_full = self.is_overdue(i64::MAX);
        for index in 0..self.lanes.len() {
            let has_stopped = is_full || self.has_stopped(index, patience);
            let lane = &mut self.lanes[index];
            let jumped_alone = some_stay && lane.epoch() != before;
            lane.set_epoch(newest);
            let id = lane.id;
            if let Some(last) = self.last.filter(|_| jumped_alone && !self.are_files) {
                let received = self.received_beside(index);
                let lane = &mut self.lanes[index];
                lane.drop_late(last, received);
                lane.is_in &= lane.late.is_none();
            }
            let lane = &mut self.lanes[index];
            if has_stopped && is_waited_for(lane) {
                (lane.is_stopped, lane.is_in) = (true, false);
                if lane.late.is_some() {
                    // Its pictures come, and are of no use.
                    continue;
                }
                self.note(RenditionNote::Stopped { at: self.now, id });
                continue;
            }
            let ahead = lane.waiting > MOST_AHEAD;
            if ahead {
                lane.shorten(MOST_AHEAD);
                lane.is_in = false;
            }
            if ahead && !std::mem::replace(&mut self.lanes[index].is_ahead, ahead) {
                self.note(RenditionNote::Ahead { at: self.now, id });
            }
        }
    }

    /// Passes on sound that is before the next picture of its program.
    fn pass_sound(&mut self) {
        let Some(main) = self.lanes.iter_mut().find(|it| it.is_main) else {
            return;
        };
        while let Some(sound) = main.pop_sound() {
            // No receiver starts before the first key frame.
            if self.begun.is_some() && self.frames.len() < MOST_FRAMES {
                let mut frame = sound.frame;
                frame.frame.layer = Layer::Base;
                frame.frame.gop_start = false;
                self.frames.push_back(frame);
            }
        }
    }

    /// Passes on pictures of one time, from the lowest rendition upwards.
    fn group(&mut self, group: Vec<(usize, TimedFrame)>, (epoch, stamp): (u32, Stamp)) {
        let step = self.last.map_or(0, |(_, last)| stamp.since(last));
        // Pictures of a rendition that comes late take no time again.
        if !(-JUMP..0).contains(&step) {
            self.last = Some((epoch, stamp));
            if self.begun.is_some() {
                self.now += span_of(step.clamp(0, PATIENCE));
            }
        }
        let is_common = self.is_common(&group);
        if is_common {
            self.begun.get_or_insert(stamp);
        }
        for (index, timed) in &group {
            let lane = &mut self.lanes[*index];
            if timed.frame.gop_start {
                lane.aligned += u64::from(is_common);
                lane.alone += u64::from(!is_common);
            }
            if is_common && timed.frame.gop_start && !std::mem::replace(&mut lane.is_in, true) {
                let id = lane.id;
                (lane.is_ahead, lane.is_late_told) = (false, false);
                // From the second common key frame on.
                if self.lanes.iter().any(|it| it.aligned > 1) {
                    self.note(RenditionNote::Back { at: self.now, id });
                }
            }
        }
        self.look_for_common();
        if self.begun.is_none() {
            return;
        }
        let Some(main) = self.lanes.iter().find(|it| it.is_main) else {
            return;
        };
        let tables = main.splitter.tables().to_vec();
        let to = main.splitter.video_pid();
        for (index, mut timed) in group {
            let lane = &self.lanes[index];
            let (Some(from), Some(to)) = (lane.splitter.video_pid(), to) else {
                continue;
            };
            if !lane.is_in || self.frames.len() >= MOST_FRAMES {
                continue;
            }
            timed.frame.gop_start &= is_common;
            timed.frame.layer = lane.layer;
            timed.stamp = Some(stamp);
            if !lane.is_main
                && let Some(data) = timed.frame.data.take()
            {
                let tables = match timed.frame.gop_start {
                    true => &tables[..],
                    false => &[],
                };
                timed = timed.with_data(adopted(&data, from, to, tables));
            }
            self.frames.push_back(timed);
        }
    }

    /// Whether these pictures are a key frame of each rendition that comes, shown at one time.
    fn is_common(&mut self, group: &[(usize, TimedFrame)]) -> bool {
        let is_key = |index: usize| {
            let mut found = group.iter();
            found.any(|(it, timed)| *it == index && timed.frame.gop_start)
        };
        let ids = |wanted: bool, lanes: &[Lane]| -> Vec<RenditionId> {
            let counts = |it: &Lane| it.is_in || self.begun.is_none() && !it.is_stopped;
            let all = lanes.iter().enumerate();
            let chosen =
                all.filter(|(index, it)| is_key(*index) == wanted && (wanted || counts(it)));
            chosen.map(|(_, it)| it.id).collect()
        };
        let (with, without) = (ids(true, &self.lanes), ids(false, &self.lanes));
        if with.is_empty() {
            return false;
        }
        if !without.is_empty() {
            self.apart += 1;
            let (at, times) = (self.now, self.apart);
            if times.is_power_of_two() && self.begun.is_some() {
                self.note(RenditionNote::Apart {
                    at,
                    with,
                    without,
                    times,
                });
            }
            return false;
        }
        let mut first = None;
        let mut others = Vec::new();
        for (index, timed) in group {
            let lane = &self.lanes[*index];
            let pid = lane.splitter.video_pid();
            let shown = timed.frame.data.as_deref().zip(pid);
            let Some(shown) = shown.and_then(|(data, pid)| shown_at(data, pid)) else {
                continue;
            };
            let shown = Stamp::pes(shown);
            let first = *first.get_or_insert(shown);
            if shown.since(first).abs() > lane.tolerance() {
                others.push(lane.id);
            }
        }
        if others.is_empty() {
            return true;
        }
        self.shown += 1;
        let (at, times) = (self.now, self.shown);
        if times.is_power_of_two() {
            self.note(RenditionNote::Shown { at, others, times });
        }
        false
    }

    /// Whether there are common key frames behind the first pictures, where every stream has one.
    fn look_for_common(&mut self) {
        let is_over = self.lanes.iter().all(|it| it.is_over);
        let tries = if is_over { 1 } else { TRIES };
        let fails = |it: &Lane| it.aligned < 2 && it.alone >= tries;
        if !self.lanes.iter().all(fails) {
            return;
        }
        let ids: Vec<RenditionId> = self.lanes.iter().map(|it| it.id).collect();
        self.problem = Some(self.other_clock().unwrap_or_else(|| {
            format!(
                "key frames of the renditions ({}) do not come at common times: receivers could never change; {REMEDY}",
                names(&ids)
            )
        }));
    }

    /// That the time stamps of two renditions differ, if their key frames are equally far apart: it is not the key frames.
    fn other_clock(&self) -> Option<String> {
        let first = self.lanes.first()?;
        let of_other = |it: &&Lane| shift(&first.keys, &it.keys).is_some_and(|shift| shift != 0);
        let other = self.lanes.iter().find(of_other)?;
        let shift = shift(&first.keys, &other.keys)?;
        let (ahead, behind) = match shift > 0 {
            true => (other.id, first.id),
            false => (first.id, other.id),
        };
        Some(format!(
            "the key frames of {ahead} and of {behind} are equally far apart, but the time stamps of {ahead} are {:.2} s ahead: they have no \
             common time base. Let one encoder make them (serve --renditions does), or shift one by this time (ffmpeg -itsoffset)",
            shift.unsigned_abs() as f64 / HZ
        ))
    }

    fn note(&mut self, note: RenditionNote) {
        if self.notes.len() < MOST_NOTES {
            self.notes.push_back(note);
        }
    }
}

/// Ticks per second of the stamps.
const HZ: f64 = 90_000.0;
/// Key frames that are this many ticks apart are those of one time.
const SAME: i64 = 90_000 / 50;
/// Distances between key frames that must agree.
const DISTANCES: usize = 3;

/// How many ticks the second key frames are behind the first ones, if these are as far apart as those, and are those of a whole GOP or
/// more. What is shifted by less than a GOP may be no other time base.
fn shift(one: &[Stamp], other: &[Stamp]) -> Option<i64> {
    let count = one.len().min(other.len());
    let shifts = one.iter().zip(other).map(|(one, other)| other.since(*one));
    let shifts: Vec<i64> = shifts.collect();
    let first = *shifts.first().filter(|_| count > DISTANCES)?;
    let gop = one[1].since(one[0]);
    let is_one = shifts.iter().all(|it| (it - first).abs() <= SAME);
    (is_one && first.abs() >= gop).then_some(first)
}

/// The others wait for a picture of it.
fn is_waited_for(lane: &Lane) -> bool {
    lane.queued == 0 && !lane.is_stopped && !lane.is_over
}

fn no_key_frame(ids: &[RenditionId]) -> String {
    format!(
        "no key frame that a receiver can start at came of {}; {REMEDY}",
        names(ids)
    )
}

/// The first of these times.
fn earliest<'a>(heads: impl Iterator<Item = &'a Queued>) -> Option<(u32, Stamp)> {
    heads.map(|it| (it.epoch, it.stamp)).reduce(|first, other| {
        let is_earlier = other.0 < first.0 || other.0 == first.0 && other.1.since(first.1) < 0;
        if is_earlier { other } else { first }
    })
}
