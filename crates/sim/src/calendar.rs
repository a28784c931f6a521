//! A calendar queue (Brown 1988): what happens at its time, once, and is never put off.
//!
//! Adding and taking cost the same however many items wait: an item lies with those of its day, and on most
//! days a few are due.

#[cfg(test)]
pub(crate) mod shuffle;

use std::cmp::Reverse;

use layercast_core::{Time, prefetch};

/// Items by the time they are due.
#[derive(Debug)]
pub(crate) struct Calendar<T: Waits> {
    /// What is due today, the earliest last.
    due: Vec<(Time, T)>,
    /// Days since time zero, of two to the power of `shift` picoseconds each.
    today: u64,
    shift: u32,
    /// The newest entry of each day of the year, or `NONE`; a power of two many.
    days: Vec<u32>,
    /// A bit for each day that has entries.
    busy: Vec<u64>,
    /// What is due after today; those of a day hang together, as do the free ones.
    entries: Vec<Entry<T>>,
    free: u32,
    waiting: usize,
    /// Its days do not stay in the caches.
    is_large: bool,
    /// What was added last, for days after today, and their days: they are filed when where is loaded.
    added: Vec<(u64, Time, T)>,
    /// How far [`soon`](Self::soon) has looked: the day, and what of it is next.
    scouted: (u64, u32),
    /// Items taken since the bucket width was last checked, and the time of that check; it is repeated after a
    /// number of items.
    taken: u32,
    since: Time,
    look_after: u32,
    /// Since then, how many items of a day gave way to others that were added on it, and days that began.
    moved: u64,
    begun: u32,
    /// By which power of two a day is shorter than the time between items says.
    shorter: u32,
    /// Decides between those that are due at one instant.
    pub turns: T::Turns,
    #[cfg(test)]
    shuffled: shuffle::Shuffled<T>,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    at: Time,
    item: T,
    next: u32,
}

const NONE: u32 = u32::MAX;
/// Days of a year.
const DAYS: std::ops::RangeInclusive<usize> = 256..=1 << 20;
/// Picoseconds a day has at least, so that days can be counted to the end of time.
const LEAST_DAY: u64 = 1 << 10;
/// How many days [`Calendar::soon`] is ahead at most.
const SCOUTED: u64 = 8;
/// How many are added before they are filed, if there are more days than these.
const ADDED: usize = 8;
const LARGE: usize = 1 << 13;
/// How many give way to an item where days are too long, and how many a day has where they are too short.
const MANY: u64 = 4;
const FEW: u32 = 2;
/// How often the length of a day is looked at, in items taken: at first, and after a while.
const LOOK: std::ops::RangeInclusive<u32> = 64..=4_096;

/// An item in a calendar.
pub(crate) trait Waits: Copy {
    /// What is known of those that items come from.
    type Turns;

    /// Of items that are due at one instant the least goes first, in whatever order they were added; equals are of one sender and
    /// keep the order of sending.
    fn turn(self, at: Time, turns: &Self::Turns) -> u64;
}

impl<T: Waits> Calendar<T> {
    /// An empty calendar.
    pub fn new(turns: T::Turns) -> Calendar<T> {
        let mut calendar = Calendar {
            due: Vec::new(),
            today: 0,
            // A microsecond, until the items tell.
            shift: 20,
            days: Vec::new(),
            busy: Vec::new(),
            entries: Vec::new(),
            free: NONE,
            waiting: 0,
            is_large: false,
            added: Vec::with_capacity(ADDED),
            scouted: (0, NONE),
            taken: 0,
            since: Time::ZERO,
            look_after: *LOOK.start(),
            moved: 0,
            begun: 0,
            shorter: 0,
            turns,
            #[cfg(test)]
            shuffled: shuffle::Shuffled::default(),
        };
        calendar.set_year(*DAYS.start());
        calendar
    }

    /// Adds an item.
    #[inline]
    pub fn add(&mut self, at: Time, item: T) {
        #[cfg(test)]
        let Some((at, item)) = self.shuffled.keep(at, item) else {
            return;
        };
        self.insert(at, item);
    }

    #[inline]
    fn insert(&mut self, at: Time, item: T) {
        let day = at.as_ps() >> self.shift;
        if day > self.today {
            self.waiting += 1;
            if !self.is_large {
                return self.file(day, at, item);
            }
            let place = day as usize & (self.days.len() - 1);
            self.days.get(place).map(prefetch);
            self.added.push((day, at, item));
            if self.added.len() == ADDED {
                self.file_added();
            }
            return;
        }
        if day < self.today {
            self.go_back_to(day);
        }
        self.add_today(at, item);
    }

    /// When the next item is due.
    #[inline]
    pub fn next(&mut self) -> Option<Time> {
        #[cfg(test)]
        for (at, item) in self.shuffled.take(&self.turns) {
            self.insert(at, item);
        }
        if self.due.is_empty() && self.waiting > 0 {
            self.begin_day();
        }
        self.due.last().map(|&(at, _)| at)
    }

    /// Takes the item that [`next`](Self::next) returned.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        let (at, item) = self.due.pop()?;
        self.taken += 1;
        if self.taken >= self.look_after {
            self.look(at);
        }
        Some(item)
    }

    /// Something that will be taken in a while, most likely: a hint for those that would prepare for it. Of most items it
    /// tells once, if it is asked for each that is taken, and once more where it is [late](Self::is_late).
    #[inline]
    pub fn soon(&mut self) -> Option<T> {
        if self.scouted.0 <= self.today {
            // What it was looking at may be no longer there.
            self.scouted.0 = self.today;
            self.scout_next_day();
        } else if self.scouted.0 > self.today + SCOUTED {
            return None;
        }
        let &Entry { item, next, .. } = self.entries.get(self.scouted.1 as usize)?;
        self.scouted.1 = next;
        if next == NONE {
            self.scout_next_day();
        }
        if let Some(entry) = self.entries.get(self.scouted.1 as usize) {
            prefetch(entry);
        }
        Some(item)
    }

    /// Whether [`soon`](Self::soon) tells of what is taken sooner than it should.
    #[inline]
    pub fn is_late(&self) -> bool {
        self.scouted.0 < self.today + SCOUTED / 2
    }

    fn scout_next_day(&mut self) {
        self.scouted.1 = NONE;
        if self.waiting > 0 {
            let last = self.days.len() - 1;
            let day = self.scouted.0 + self.to_next_busy(self.scouted.0 as usize & last);
            self.scouted = (day, self.days[day as usize & last]);
        }
    }

    fn add_today(&mut self, at: Time, item: T) {
        let place = put_after_later(&mut self.due, (at, item));
        self.moved += (self.due.len() - 1 - place) as u64;
        let equals = self.due[..place].iter().rev();
        let equals = equals.take_while(|&&(other, _)| other == at);
        let has_equals = place > 0 && self.due[place - 1].0 == at;
        let back = match has_equals {
            false => 0,
            true => {
                let turn = item.turn(at, &self.turns);
                let before = |it: &&(Time, T)| it.1.turn(at, &self.turns) <= turn;
                equals.take_while(before).count()
            }
        };
        self.due[place - back..=place].rotate_right(1);
    }

    /// Puts all that was added to those of their days.
    #[inline]
    fn file_added(&mut self) {
        for n in 0..self.added.len() {
            let (day, at, item) = self.added[n];
            self.file(day, at, item);
        }
        self.added.clear();
    }

    /// Puts an item, which is counted, to those of its day.
    #[inline]
    fn file(&mut self, day: u64, at: Time, item: T) {
        let day = day as usize & (self.days.len() - 1);
        let next = self.days[day];
        let entry = Entry { at, item, next };
        match self.entries.get_mut(self.free as usize) {
            Some(free) => {
                self.days[day] = self.free;
                self.free = std::mem::replace(free, entry).next;
            }
            None => {
                self.days[day] = self.entries.len() as u32;
                self.entries.push(entry);
            }
        }
        self.busy[day / 64] |= 1 << (day % 64);
    }

    /// Advances to the first bucket with a due item; there is one.
    fn begin_day(&mut self) {
        self.file_added();
        let year = self.days.len() as u64;
        let mut day = self.today;
        loop {
            day += self.to_next_busy(day as usize & (self.days.len() - 1));
            if day > self.today + year {
                day = self.first_day();
            }
            if self.take_from(day) {
                break;
            }
        }
        self.today = day;
        self.begun += 1;
    }

    /// Days from one to the next after it that has entries, in the round of the year.
    fn to_next_busy(&self, day: usize) -> u64 {
        let start = day + 1;
        let (word, bit) = ((start / 64) & (self.busy.len() - 1), start % 64);
        let first = self.busy[word] >> bit;
        if first != 0 {
            return 1 + u64::from(first.trailing_zeros());
        }
        let mut days = 1 + 64 - bit as u64;
        // As far as the first word again, for the days before the start.
        for n in 1..=self.busy.len() {
            let bits = self.busy[(word + n) & (self.busy.len() - 1)];
            if bits != 0 {
                return days + u64::from(bits.trailing_zeros());
            }
            days += 64;
        }
        days
    }

    /// The first day of all with entries.
    #[cold]
    fn first_day(&self) -> u64 {
        let mut first = u64::MAX;
        for &day in &self.days {
            let mut at = day;
            while let Some(entry) = self.entries.get(at as usize) {
                first = first.min(entry.at.as_ps() >> self.shift);
                at = entry.next;
            }
        }
        first
    }

    /// Makes the items of a bucket due; those of other years stay. Returns whether there were any.
    fn take_from(&mut self, day: u64) -> bool {
        let slot = day as usize & (self.days.len() - 1);
        let mut at = std::mem::replace(&mut self.days[slot], NONE);
        let mut last_kept = NONE;
        let mut has_equals = false;
        while let Some(entry) = self.entries.get_mut(at as usize) {
            let this = at;
            at = entry.next;
            if entry.at.as_ps() >> self.shift == day {
                let due = (entry.at, entry.item);
                entry.next = std::mem::replace(&mut self.free, this);
                self.waiting -= 1;
                // What came before among equals is met after, and due before.
                let place = put_after_later(&mut self.due, due);
                has_equals |= place > 0 && self.due[place - 1].0 == due.0;
                continue;
            }
            entry.next = NONE;
            match self.entries.get_mut(last_kept as usize) {
                Some(kept) => kept.next = this,
                None => self.days[slot] = this,
            }
            last_kept = this;
        }
        if self.days[slot] == NONE {
            self.busy[slot / 64] &= !(1 << (slot % 64));
        }
        if has_equals {
            self.order_equals();
        }
        !self.due.is_empty()
    }

    fn order_equals(&mut self) {
        let turns = &self.turns;
        for equals in self.due.chunk_by_mut(|a, b| a.0 == b.0) {
            if equals.len() > 1 {
                equals.sort_by_key(|&(at, item)| Reverse(item.turn(at, turns)));
            }
        }
    }

    /// Something is due before today, which was only looked at.
    #[cold]
    fn go_back_to(&mut self, day: u64) {
        self.file_added();
        let due = std::mem::take(&mut self.due);
        self.today = day;
        self.waiting += due.len();
        // The latest was first; among equals, too.
        for &(at, item) in due.iter().rev() {
            self.file(at.as_ps() >> self.shift, at, item);
        }
        self.due = due;
        self.due.clear();
    }

    /// Makes days as long as the time between a few items, and the year as long as items wait.
    ///
    /// Where items come in bursts, that is mostly the time between bursts: days are shorter while many items give way, as long as
    /// some are due on each (the costs decide, as in the SNOOPy queue of Tan and Thng 2000).
    #[cold]
    fn look(&mut self, now: Time) {
        let between = now.since(self.since).as_ps() / u64::from(self.taken);
        let moved = self.moved / u64::from(self.taken);
        if moved >= MANY {
            self.shorter += moved.ilog2();
        } else if self.taken < FEW * self.begun {
            self.shorter = self.shorter.saturating_sub(1);
        }
        (self.taken, self.since, self.moved, self.begun) = (0, now, 0, 0);
        self.look_after = (2 * self.look_after).min(*LOOK.end());
        let longest = between.max(LEAST_DAY).ilog2() + 2;
        let shift = longest.saturating_sub(self.shorter).max(LEAST_DAY.ilog2());
        self.shorter = longest - shift;
        let days = self
            .waiting
            .next_power_of_two()
            .clamp(*DAYS.start(), *DAYS.end());
        let is_near = shift.abs_diff(self.shift) <= 1;
        if is_near && days <= 2 * self.days.len() && 8 * days > self.days.len() {
            return;
        }
        self.file_added();
        // In the order they were added, as far as their times are the same.
        let mut all = std::mem::take(&mut self.due);
        all.reverse();
        for day in 0..self.days.len() {
            let first = all.len();
            let mut at = self.days[day];
            while let Some(entry) = self.entries.get(at as usize) {
                all.push((entry.at, entry.item));
                at = entry.next;
            }
            all[first..].reverse();
        }
        (self.shift, self.today) = (shift, now.as_ps() >> shift);
        (self.entries, self.free, self.waiting) = (Vec::new(), NONE, 0);
        self.scouted = (0, NONE);
        self.set_year(days);
        for (at, item) in all {
            self.insert(at, item);
        }
    }

    fn set_year(&mut self, days: usize) {
        self.days = vec![NONE; days];
        self.is_large = days > LARGE;
        self.busy = vec![0; days / 64];
    }
}

/// Puts an item before all that are due sooner, the last of all others; gives its place.
#[inline]
fn put_after_later<T: Copy>(due: &mut Vec<(Time, T)>, item: (Time, T)) -> usize {
    let mut place = due.len();
    due.push(item);
    while place > 0 && due[place - 1].0 < item.0 {
        due[place] = due[place - 1];
        place -= 1;
    }
    due[place] = item;
    place
}

#[cfg(test)]
mod tests {
    use layercast_core::{Stream, Who};
    use proptest::prelude::*;

    use super::*;

    /// Numbers are those of senders, if these take turns; else all are of one sender.
    impl Waits for u32 {
        type Turns = Option<Who>;

        fn turn(self, at: Time, turns: &Option<Who>) -> u64 {
            turns.map_or(0, |who| who.with(self.into()).draw(at))
        }
    }

    fn calendar(takes_turns: bool) -> Calendar<u32> {
        Calendar::new(takes_turns.then(|| Who::of(1, "calendar")))
    }

    fn drain(calendar: &mut Calendar<u32>) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| {
            let at = calendar.next()?;
            Some((at.as_ps(), calendar.take()?))
        })
        .collect()
    }

    /// As cells of frames over a few links in a row: most of the time there is nothing.
    #[test]
    fn days_are_short_where_items_come_in_bursts() {
        const DELAY: u64 = 10_000_000;
        let mut calendar = calendar(false);
        let (mut last, mut taken) = (0, 0);
        for burst in 1..=400_u64 {
            for n in 0..30 {
                let at = burst * 4_000_000_000 + n * 424_000;
                calendar.add(Time::from_ps(at), 0);
            }
            while let Some(at) = calendar.next() {
                let at = at.as_ps();
                let link = calendar.take().unwrap();
                assert!(at >= last);
                (last, taken) = (at, taken + 1);
                if link < 3 {
                    calendar.add(Time::from_ps(at + DELAY), link + 1);
                }
            }
        }
        assert_eq!(taken, 400 * 30 * 4);
        // What passes a link comes on another day.
        assert!(1 << calendar.shift <= DELAY, "{}", calendar.shift);
    }

    #[test]
    fn ties_favour_nobody() {
        let mut calendar = calendar(true);
        let mut firsts = [0; 3];
        for round in 0..3_000_u64 {
            // Two that wait for their day, and one that comes on it.
            let at = Time::from_ps(round << 30);
            calendar.add(at, 0);
            calendar.add(at, 1);
            calendar.next();
            calendar.add(at, 2);
            firsts[drain(&mut calendar)[0].1 as usize] += 1;
        }
        assert!(
            firsts.iter().all(|n| (900..1_100).contains(n)),
            "{firsts:?}"
        );
    }

    #[test]
    fn the_same_goes_first_whenever_it_was_added() {
        let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]].map(|order| {
            // Some wait for their day, the others come on it.
            [0, 2, 4].map(|waiting| {
                let mut calendar = calendar(true);
                let at = Time::from_ps(1 << 40);
                for (n, item) in order.into_iter().enumerate() {
                    if n == waiting {
                        calendar.next();
                    }
                    calendar.add(at, item);
                }
                drain(&mut calendar)
            })
        });
        let all: Vec<_> = orders.into_iter().flatten().collect();
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:?}");
    }

    #[test]
    fn tells_of_most_items_before_they_are_taken() {
        let mut calendar = calendar(true);
        let mut told = std::collections::BTreeSet::new();
        let mut gaps = Stream::new(1, "gaps");
        let mut known = 0;
        for n in 0..100_000 {
            let now = calendar.next().unwrap_or(Time::ZERO).as_ps();
            let at = now + 100_000_000 + gaps.below(900_000_000);
            calendar.add(Time::from_ps(at), n);
            // A thousand are always waiting.
            if n >= 1_000 {
                told.extend(calendar.soon());
                if calendar.is_late() {
                    told.extend(calendar.soon());
                }
                known += u32::from(calendar.take().is_some_and(|item| told.contains(&item)));
            }
        }
        assert!(known > 95_000, "{known}");
    }

    /// Distances from the last item taken at which items are added, and whether one is taken then.
    fn steps() -> impl Strategy<Value = Vec<(u64, bool)>> {
        let ahead = prop_oneof![
            Just(0),
            0..4_u64,
            0..1_u64 << 21,
            0..1_u64 << 34,
            0..1_u64 << 50
        ];
        prop::collection::vec((ahead, any::<bool>()), 1..60)
    }

    proptest! {
        /// Long enough for days and years to change their lengths more than once.
        #[test]
        fn gives_all_in_order_and_equals_as_they_came(steps in steps(), scale in 0..20_u32) {
            let mut calendar = calendar(false);
            let mut model = std::collections::BTreeSet::new();
            let mut now = 0;
            for (n, &(ahead, takes)) in steps.iter().cycle().take(12_000).enumerate() {
                let at = now + (ahead >> scale);
                calendar.add(Time::from_ps(at), n as u32);
                calendar.soon();
                model.insert((at, n as u32));
                if n % 7 == 0 {
                    let first = model.first().map(|it| it.0);
                    prop_assert_eq!(calendar.next().map(Time::as_ps), first);
                }
                if takes || n > 8_000 {
                    let at = calendar.next().map(Time::as_ps);
                    let item = calendar.take();
                    let (first, expected) = model.pop_first().unwrap();
                    prop_assert_eq!((at, item), (Some(first), Some(expected)));
                    now = first;
                }
            }
            let left: Vec<_> = model.into_iter().collect();
            prop_assert_eq!(drain(&mut calendar), left);
        }
    }
}
