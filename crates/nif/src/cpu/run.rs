use layercast_core::{Span, Time};

use super::Cpu;
use super::thread::Rank;

/// What runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Irq,
    Softirq,
    Thread(usize),
}

impl<J> Cpu<J> {
    /// Works until `now`.
    pub(super) fn advance(&mut self, now: Time) {
        loop {
            for thread in &mut self.threads {
                thread.replenish(self.now);
            }
            if self.held > Span::ZERO {
                let span = self.held.min(now.since(self.now));
                self.now += span;
                self.held -= span;
                for thread in &mut self.threads {
                    thread.waited(span);
                }
                if self.held > Span::ZERO {
                    return;
                }
                continue;
            }
            let Some(choice) = self.choose() else {
                self.now = self.now.max(now);
                return;
            };
            let end = self.end_of(choice);
            if end > now {
                self.work(choice, now.since(self.now));
                return;
            }
            self.work(choice, end.since(self.now));
            self.finish(choice);
        }
    }

    /// When what runs now is done, or something else is to be chosen.
    pub(super) fn next_change(&self) -> Option<Time> {
        let choice = self.choose()?;
        Some(self.end_of(choice))
    }

    fn choose(&self) -> Option<Choice> {
        if !self.irq.is_empty() {
            return Some(Choice::Irq);
        }
        if !self.softirq.is_empty() {
            return Some(Choice::Softirq);
        }
        let is_kept = |at: &usize| !self.is_interruptible(*at) && self.is_started(*at);
        if let Some(at) = self.running.filter(is_kept) {
            return Some(Choice::Thread(at));
        }
        let ranked = (0..self.threads.len()).filter_map(|at| Some((self.effective(at)?, at)));
        ranked.min().map(|(_, at)| Choice::Thread(at))
    }

    fn is_interruptible(&self, at: usize) -> bool {
        self.config.is_preemptive || self.threads.get(at).is_some_and(|it| it.spec.is_user)
    }

    fn is_started(&self, at: usize) -> bool {
        let job = self.threads.get(at).and_then(|it| it.queue.front());
        job.is_some_and(|it| it.is_started)
    }

    fn rank(&self, at: usize) -> Option<Rank> {
        self.threads
            .get(at)?
            .rank(self.now, self.config.quantum.is_some())
    }

    /// The thread that has the lock which the next job of this one needs.
    fn waits_for(&self, at: usize) -> Option<usize> {
        let job = self.threads.get(at)?.queue.front()?;
        self.locks.holder(job.lock, at)
    }

    /// The rank of a thread that can run, with what it inherits.
    fn effective(&self, at: usize) -> Option<Rank> {
        let own = self.rank(at)?;
        if self.waits_for(at).is_some() {
            return None;
        }
        if !self.config.inherits {
            return Some(own);
        }
        // A job holds one lock and needs no other: there are no chains.
        let waiters = (0..self.threads.len()).filter(|it| self.waits_for(*it) == Some(at));
        waiters.filter_map(|it| self.rank(it)).chain([own]).min()
    }

    fn end_of(&self, choice: Choice) -> Time {
        let start = self.now.saturating_add(self.held);
        let after = |left: Option<Span>| start.saturating_add(left.unwrap_or(Span::ZERO));
        let at = match choice {
            Choice::Irq => return after(self.irq.front().map(|it| it.left)),
            Choice::Softirq => return after(self.softirq.front().map(|it| it.left)),
            Choice::Thread(at) => at,
        };
        let Some(thread) = self.threads.get(at) else {
            return self.now;
        };
        let done = after(thread.queue.front().map(|it| it.left));
        if !self.is_interruptible(at) {
            return done;
        }
        let turn = self
            .config
            .quantum
            .map(|quantum| after(Some(quantum - thread.slice)));
        let changes = self.threads.iter().enumerate();
        let changes = changes.filter_map(|(it, thread)| thread.next_change(self.now, it == at));
        changes.chain(turn).chain([done]).min().unwrap_or(done)
    }

    fn work(&mut self, choice: Choice, span: Span) {
        self.now += span;
        let mut runs = None;
        match choice {
            Choice::Irq => {
                self.in_irq += span;
                if let Some(job) = self.irq.front_mut() {
                    job.left -= span;
                }
            }
            Choice::Softirq => {
                self.in_softirq += span;
                if let Some(job) = self.softirq.front_mut() {
                    job.left -= span;
                }
            }
            Choice::Thread(at) => {
                (runs, self.running) = (Some(at), Some(at));
                let thread = &mut self.threads[at];
                if let Some(job) = thread.queue.front_mut()
                    && !job.is_started
                {
                    job.is_started = true;
                    self.locks.set(job.lock, Some(at));
                }
                thread.ran(span);
            }
        }
        for (at, thread) in self.threads.iter_mut().enumerate() {
            if runs != Some(at) {
                thread.waited(span);
            }
        }
    }

    /// Ends the job in progress if it is done, and a turn if it is over.
    fn finish(&mut self, choice: Choice) {
        let queue = match choice {
            Choice::Irq => &mut self.irq,
            Choice::Softirq => &mut self.softirq,
            Choice::Thread(at) => &mut self.threads[at].queue,
        };
        let is_done = |job: &mut super::thread::Job<J>| job.left == Span::ZERO;
        let done = queue.pop_front_if(is_done);
        let is_finished = done.is_some();
        if let Some(job) = done {
            self.locks.set(job.lock, None);
            self.done.push_back((self.now, job.job));
        }
        let Choice::Thread(at) = choice else {
            return;
        };
        let turn = self.take_number();
        let thread = &mut self.threads[at];
        let is_over = self.config.quantum.is_some_and(|it| thread.slice >= it);
        if is_finished || is_over {
            (thread.turn, thread.slice) = (turn, Span::ZERO);
        }
        if is_finished {
            self.running = None;
        }
    }
}
