//! How losses are repaired: which contents are sent again, as copies or parities, and which get parities before their loss is known.

use std::cmp::Reverse;

use bytes::Bytes;
use layercast_core::{Cause, Observer, Span, Time};

use super::ahead::{self, Path};
use super::history::Content;
use super::pacer::Waiting;
use super::{
    Due, MAX_COPIES, MAX_SCHEDULED, Means, OVERDUE, QUEUE, RESIDUAL, Repair, Repairer, SPREAD,
    UNHEARD, Unit,
};
use crate::calm::ROUND;
use crate::parity::{Gathered, extra, parity_octets};

impl<T: Clone> Repairer<T> {
    pub(super) fn repair_due<O: Observer>(&mut self, now: Time, due: Due, obs: &mut O) {
        for number in due.blocks {
            self.repair_block(now, number, obs);
        }
        self.repair(now, due.contents, obs);
    }

    /// Sends the parities that a block still needs, if that is of use.
    fn repair_block<O: Observer>(&mut self, now: Time, number: u64, obs: &mut O) {
        let Some(block) = self.blocks.get(number).filter(|it| !it.state.closed) else {
            return;
        };
        let passes = !self.lengths.blocks(now, block.octets);
        let (mut missing, mut open) = (Vec::new(), false);
        let mut latest = None;
        for of in block.contents() {
            if let Some(content) = self.history.content(of).filter(|it| !it.delivered) {
                open |= content.in_flight > 0;
                if content.in_flight == 0 {
                    latest = latest.max(Some((content.nominal, of)));
                    missing.push(of);
                }
            }
        }
        let arrived = block.state.arrived;
        if missing.len() as u32 <= arrived && !open {
            for of in missing {
                if let Some(content) = self.history.content(of) {
                    content.delivered = true;
                    self.history.release(of);
                }
            }
            return;
        }
        if !passes {
            if let Some(block) = self.blocks.get_mut(number) {
                block.state.closed = true;
            }
            return self.repair(now, missing, obs);
        }
        let lacking = missing.len() as u32;
        let deficit = lacking.saturating_sub(arrived + block.under_way());
        let Some((nominal, _)) = latest.filter(|_| deficit > 0) else {
            return;
        };
        let (unit, room) = (block.unit(), block.room());
        let layer = &mut self.stats.layers[unit.layer];
        let deadline = nominal.saturating_add(unit.lasts.unwrap_or(self.there.budget));
        let leaves = self.pacer.start(now, unit.layer);
        let again = self.config.means != Means::Parities;
        if !again || leaves > deadline || room < deficit {
            match again {
                true => layer.too_late += u64::from(deficit),
                false => layer.uncovered += u64::from(deficit),
            }
            if let Some(block) = self.blocks.get_mut(number) {
                block.state.closed = true;
            }
            return self.lost(now, &unit, Cause::Late, obs);
        }
        let extra = match self.is_last_chance(leaves, deadline) {
            true => self.extra(deficit).min(room - deficit),
            false => 0,
        };
        self.send_parities(now, number, (deficit, extra), deadline, obs);
    }

    /// How many parities a block gets beyond its deficit if it has no second chance: those that one burst of losses takes, too.
    fn extra(&self, deficit: u32) -> u32 {
        let loss = self.there.line.repair_loss().max(self.there.line.loss());
        let burst = self.losses.burst().map_or(0, |(length, _)| 3 * length);
        extra(deficit, loss).max(burst.min(deficit * (MAX_COPIES - 1)))
    }

    /// Whether no second repair fits before the deadline of one that leaves at `leaves`, and more of them would not make the
    /// path worse.
    fn is_last_chance(&self, leaves: Time, deadline: Time) -> bool {
        let spans = [self.rtt(), self.there.window, ROUND];
        let again = spans
            .iter()
            .fold(leaves, |at, span| at.saturating_add(*span));
        again > deadline && self.there.line.queue() < QUEUE
    }

    fn rtt(&self) -> Span {
        self.there.line.rtt().unwrap_or(ROUND.times(4))
    }

    /// Over what time repairs are spread that leave from `leaves` on: copies that leave together are lost together.
    fn spread(&self, leaves: Time, deadline: Time) -> Span {
        let burst = self.losses.burst().map_or(Span::ZERO, |(_, span)| span);
        let wanted = SPREAD.max(burst.times(2));
        wanted.min(deadline.since(leaves))
    }

    /// Sends parities of a block: the first number of them now, the second one spread over time until `deadline`.
    fn send_parities<O: Observer>(
        &mut self,
        now: Time,
        number: u64,
        (now_due, spread): (u32, u32),
        deadline: Time,
        obs: &mut O,
    ) {
        let Some(block) = self.blocks.get(number) else {
            return;
        };
        let unit = block.unit();
        let is_ahead = block.sent.len() as u32 + block.queued < block.state.ahead;
        let span = self.spread(self.pacer.start(now, unit.layer), deadline);
        for parity in 0..now_due + spread {
            if !self.pacer.spend(unit.octets) {
                // One that is sent ahead, or as a further one, repairs no loss that is known.
                if parity < now_due && !is_ahead {
                    self.stats.layers[unit.layer].over_grant += 1;
                    self.lost(now, &unit, Cause::ShaperFull, obs);
                }
                continue;
            }
            if let Some(block) = self.blocks.get_mut(number) {
                block.queued += 1;
            }
            let after = (parity + 1).saturating_sub(now_due);
            let after = span.mul_div(after.into(), spread.max(1).into());
            self.plan(now, after, Repair::Parity(number), unit, obs);
        }
    }

    /// Sends lost contents again if that is of use: once, or if there is no second chance more often. The order of the counters
    /// is that of the deadlines.
    fn repair<O: Observer>(&mut self, now: Time, mut contents: Vec<u64>, obs: &mut O) {
        contents.sort_unstable();
        let mut rest = &contents[..];
        while let Some((&of, after)) = rest.split_first() {
            rest = after;
            let Some(content) = self.history.content(of) else {
                continue;
            };
            content.block = None;
            let (unit, nominal) = (content.unit, content.nominal);
            let deadline = self.deadline(&unit, nominal);
            let leaves = self.pacer.start(now, unit.layer);
            let parities = self.config.means == Means::Auto && self.parities_pass(now, &unit);
            let layer = &mut self.stats.layers[unit.layer];
            if self.config.means == Means::Parities {
                layer.uncovered += 1;
                self.lost(now, &unit, Cause::Late, obs);
            } else if leaves > deadline {
                layer.too_late += 1;
                self.lost(now, &unit, Cause::Late, obs);
            } else if !self.is_last_chance(leaves, deadline) {
                self.send_copies(now, of, 1, obs);
            } else {
                let copies = self.there.line.copies(MAX_COPIES, RESIDUAL);
                let mut taken = 0;
                if parities && copies > 1 {
                    taken = self.send_as_block(now, of, rest, obs);
                }
                if taken == 0 {
                    self.send_copies(now, of, copies, obs);
                }
                rest = &rest[taken..];
            }
        }
    }

    /// Sends parities of a missing content and of those of its frame that follow in `rest`; gives how many. A frame is complete
    /// or of no use, and each has a deadline of its own.
    fn send_as_block<O: Observer>(
        &mut self,
        now: Time,
        of: u64,
        rest: &[u64],
        obs: &mut O,
    ) -> usize {
        let Some((unit, nominal, payload)) = self.payload(of) else {
            return 0;
        };
        let mut block = Gathered::new(of, unit, nominal, payload);
        let mut taken = 0;
        for &of in rest {
            let Some((other, at, payload)) = self.payload(of) else {
                break;
            };
            // A parity is as long as the longest content: where that does not pass, copies go.
            let fits = block.is_of(&other, at) && self.parities_pass(now, &other);
            if !fits || block.add(of, other, at, payload).is_err() {
                break;
            }
            taken += 1;
        }
        if taken > 0 {
            match self.form(block) {
                Some(number) => self.repair_block(now, number, obs),
                None => taken = 0,
            }
        }
        taken
    }

    /// Whether the path carries parities of such contents: they are a little longer.
    fn parities_pass(&self, now: Time, of: &Unit) -> bool {
        !self.lengths.blocks(now, parity_octets(of.octets))
    }

    /// A content as parities are made of it.
    fn payload(&mut self, of: u64) -> Option<(Unit, Time, Bytes)> {
        let encode = self.config.codec.encode;
        let content = self.history.content(of)?;
        let payload = encode(content.item.as_ref()?);
        Some((content.unit, content.nominal, payload))
    }

    /// Makes a block; gives its number.
    fn form(&mut self, block: Gathered) -> Option<u64> {
        let contents = block.contents();
        let number = self.blocks.form(block)?;
        for of in contents {
            if let Some(content) = self.history.content(of) {
                content.block = Some(number);
            }
        }
        Some(number)
    }

    /// Sends a content again, in this number of copies.
    fn send_copies<O: Observer>(&mut self, now: Time, of: u64, copies: u32, obs: &mut O) {
        let Some(content) = self.history.content(of) else {
            return;
        };
        let (unit, nominal) = (content.unit, content.nominal);
        let deadline = self.deadline(&unit, nominal);
        let span = self.spread(self.pacer.start(now, unit.layer), deadline);
        for copy in 0..copies {
            let after = span.mul_div(copy.into(), copies.saturating_sub(1).max(1).into());
            if !self.pacer.spend(unit.octets) {
                self.stats.layers[unit.layer].over_grant += 1;
                self.lost(now, &unit, Cause::ShaperFull, obs);
                return;
            }
            if let Some(content) = self.history.content(of) {
                content.in_flight += 1;
            }
            self.plan(now, after, Repair::Copy(of), unit, obs);
        }
    }

    /// Sends parities of the contents of which a request would come too late.
    pub(super) fn send_ahead<O: Observer>(&mut self, now: Time, obs: &mut O) {
        while let Some(gathering) = self.ahead.close(now) {
            self.send_gathered(now, gathering, obs);
        }
    }

    fn send_gathered<O: Observer>(&mut self, now: Time, gathering: ahead::Gathering, obs: &mut O) {
        let history = &mut self.history;
        let mut contents = gathering.of.contents();
        let open = |of| history.content(of).is_some_and(|it| !it.delivered);
        if !contents.any(open) {
            return;
        }
        let parities = ahead::parities(&gathering.of, &self.path(now));
        let deadline = gathering.deadline;
        let Some(number) = self.form(gathering.of).filter(|_| parities > 0) else {
            return;
        };
        // In a burst, all that leaves together is lost together.
        let how = match self.losses.burst() {
            None => (parities, 0),
            Some(_) => (0, parities),
        };
        self.send_first(now, number, how, deadline, obs);
    }

    /// Sends the first parities of a block of which no loss is known.
    fn send_first<O: Observer>(
        &mut self,
        now: Time,
        number: u64,
        how: (u32, u32),
        deadline: Time,
        obs: &mut O,
    ) {
        if let Some(block) = self.blocks.get_mut(number) {
            block.state.ahead = how.0 + how.1;
        }
        self.send_parities(now, number, how, deadline, obs);
        if let Some(block) = self.blocks.get_mut(number) {
            block.state.ahead = block.sent.len() as u32 + block.queued;
        }
    }

    fn path(&self, now: Time) -> Path {
        Path {
            rtt: self.rtt(),
            window: self.there.window,
            loss: self.there.line.loss().max(self.losses.share()),
            burst: self.losses.burst().map(|(length, _)| length),
            backlog: self.pacer.backlog(now),
        }
    }

    /// Puts a content that has just left into a block, if it needs parities ahead.
    pub(super) fn gather<O: Observer>(&mut self, now: Time, counter: u64, sent: Time, obs: &mut O) {
        if self.config.means == Means::Requests || !self.losses.is_lossy(now) {
            return;
        }
        let Some(content) = self.history.content(counter) else {
            return;
        };
        let (unit, nominal) = (content.unit, content.nominal);
        let deadline = self.deadline(&unit, nominal);
        let too_long = self.path(now).is_too_long(sent, deadline);
        let wanted = too_long || self.config.means == Means::Parities;
        if deadline <= sent || !wanted || !self.parities_pass(now, &unit) {
            return;
        }
        let Some((unit, nominal, payload)) = self.payload(counter) else {
            return;
        };
        let content = (counter, unit, nominal);
        if let Some(full) = self.ahead.take(sent, deadline, content, payload) {
            self.send_gathered(now, full, obs);
        }
    }

    /// Sends a repair after this time.
    fn plan<O: Observer>(
        &mut self,
        now: Time,
        after: Span,
        repair: Repair,
        unit: Unit,
        obs: &mut O,
    ) {
        if after == Span::ZERO {
            self.queue(now, now, repair, unit, obs);
        } else if self.later.len() < MAX_SCHEDULED {
            self.later
                .push(Reverse((now.saturating_add(after), repair)));
        } else {
            self.drop_repair(now, repair, &unit, obs);
        }
    }

    pub(super) fn queue<O: Observer>(
        &mut self,
        now: Time,
        at: Time,
        repair: Repair,
        unit: Unit,
        obs: &mut O,
    ) {
        let waiting = match repair {
            Repair::Copy(of) => Waiting::Copy { at, of, unit },
            Repair::Parity(of) => Waiting::Parity { at, of, unit },
        };
        if let Some(dropped) = self.pacer.push(unit.layer, waiting) {
            self.unsent(now, dropped, Cause::QueueFull, obs);
        }
    }

    /// Repeats what no feedback speaks of, shortly before its deadline, if feedback is overdue: most of it has arrived, so parities
    /// of a frame are fewer than copies.
    pub(super) fn repeat_unheard<O: Observer>(&mut self, now: Time, obs: &mut O) {
        let mut frame: Option<Gathered> = None;
        while let Some(at) = self.unheard_at().filter(|at| *at <= now) {
            let of = self.unheard;
            self.unheard += 1;
            let heard = self.there.heard();
            let overdue = heard.is_some_and(|heard| now > self.overdue_from(heard, OVERDUE));
            let is_open =
                |it: &&Content<T>| !it.delivered && it.in_flight == 1 && it.block.is_none();
            let open = self.history.content_ref(of).filter(is_open).is_some();
            // Late timers repair nothing.
            let repeat = overdue && open && now.since(at) < UNHEARD;
            if !repeat || self.config.means == Means::Parities {
                continue;
            }
            let Some((unit, nominal, payload)) = self.payload(of) else {
                continue;
            };
            let rest = match &mut frame {
                Some(frame) if frame.is_of(&unit, nominal) => {
                    frame.add(of, unit, nominal, payload).err()
                }
                _ => Some(payload),
            };
            if let Some(payload) = rest {
                let full = frame.replace(Gathered::new(of, unit, nominal, payload));
                self.repeat_frame(now, full, obs);
            }
        }
        self.repeat_frame(now, frame, obs);
    }

    fn repeat_frame<O: Observer>(&mut self, now: Time, frame: Option<Gathered>, obs: &mut O) {
        let Some(frame) = frame else { return };
        let contents: Vec<u64> = frame.contents().collect();
        let deadline = now.saturating_add(UNHEARD);
        // A burst takes a whole frame, and half as many parities are none. On a calm link the other end keeps no contents.
        let few = self.losses.is_lossy(now) && self.losses.burst().is_none();
        let passes = !self.lengths.blocks(now, frame.parity_octets());
        let parities = match self.config.means {
            Means::Auto if few && passes => ahead::parities(&frame, &self.path(now)),
            _ => 0,
        };
        let number = match parities {
            0 => None,
            _ => Some(frame)
                .filter(|it| it.len() > 1)
                .and_then(|it| self.form(it)),
        };
        match number {
            Some(number) => self.send_first(now, number, (parities, 0), deadline, obs),
            None => {
                for of in contents {
                    self.send_copies(now, of, 1, obs);
                }
            }
        }
    }
}
