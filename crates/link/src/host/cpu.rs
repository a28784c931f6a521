use std::collections::VecDeque;

use layercast_core::{Span, Time};

/// The processor of a host or switch: a FIFO server with a cost per job. It can be suspended, and kept
/// busy after a job.
#[derive(Debug)]
pub struct Cpu<T> {
    /// When each came, what it costs.
    jobs: VecDeque<(Time, Span, T)>,
    /// When the job at the head is done, or, with no job, when the next one may start.
    free_at: Time,
}

impl<T> Default for Cpu<T> {
    fn default() -> Cpu<T> {
        Cpu::new()
    }
}

impl<T> Cpu<T> {
    /// An idle CPU.
    pub fn new() -> Cpu<T> {
        Cpu {
            jobs: VecDeque::new(),
            free_at: Time::ZERO,
        }
    }

    /// Takes a job.
    pub fn push(&mut self, now: Time, cost: Span, job: T) {
        if self.jobs.is_empty() {
            self.free_at = self.free_at.max(now).saturating_add(cost);
        }
        self.jobs.push_back((now, cost, job));
    }

    /// When the next job is done.
    pub fn next_done(&self) -> Option<Time> {
        (!self.jobs.is_empty()).then_some(self.free_at)
    }

    /// The next job that is done by `now`, and when it was: a driver in real time asks late.
    pub fn pop_done(&mut self, now: Time) -> Option<(Time, T)> {
        let done = self.free_at;
        if done > now {
            return None;
        }
        let (_, _, job) = self.jobs.pop_front()?;
        if let Some((came, cost, _)) = self.jobs.front() {
            self.free_at = done.max(*came).saturating_add(*cost);
        }
        Some((done, job))
    }

    /// Does something else for `span` from now on; the job in progress waits.
    pub fn busy_for(&mut self, now: Time, span: Span) {
        self.free_at = self.free_at.max(now).saturating_add(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Time {
        Time::ZERO + Span::from_us(n)
    }

    #[test]
    fn jobs_are_done_in_order_one_after_the_other() {
        let mut cpu = Cpu::new();
        cpu.push(us(10), Span::from_us(5), 'a');
        cpu.push(us(11), Span::from_us(5), 'b');
        assert_eq!(cpu.next_done(), Some(us(15)));
        assert_eq!(cpu.pop_done(us(14)), None);
        assert_eq!(cpu.pop_done(us(15)), Some((us(15), 'a')));
        assert_eq!(cpu.next_done(), Some(us(20)));
        assert_eq!(cpu.pop_done(us(21)), Some((us(20), 'b')));
        assert_eq!(cpu.next_done(), None);
        cpu.push(us(50), Span::from_us(5), 'c');
        assert_eq!(cpu.next_done(), Some(us(55)));
        cpu.push(us(70), Span::from_us(5), 'd');
        assert_eq!(cpu.pop_done(us(80)), Some((us(55), 'c')));
        assert_eq!(cpu.pop_done(us(80)), Some((us(75), 'd')));
    }

    #[test]
    fn a_stall_delays_what_is_in_progress_and_what_comes_next() {
        let mut cpu = Cpu::new();
        cpu.push(us(0), Span::from_us(5), 'a');
        cpu.busy_for(us(3), Span::from_us(100));
        assert_eq!(cpu.next_done(), Some(us(105)));
        assert_eq!(cpu.pop_done(us(105)), Some((us(105), 'a')));
        cpu.busy_for(us(200), Span::from_us(7));
        cpu.push(us(201), Span::from_us(5), 'b');
        assert_eq!(cpu.next_done(), Some(us(212)));
    }
}
