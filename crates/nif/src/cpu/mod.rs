//! The processor of a host (specs/network-interface-framework.md 2.10 to 2.12): interrupts before software interrupts before
//! threads, and threads by deadline, priority, budget.

mod dispatch;
mod locks;
mod run;
mod thread;

use std::collections::VecDeque;

use layercast_core::{Span, Time};
use serde::{Deserialize, Serialize};

pub use self::dispatch::Dispatcher;
use self::locks::Locks;
use self::thread::{Job, Thread};

/// Names a thread of a processor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ThreadId(u32);

/// Names a lock of a processor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockId(u32);

/// Where work is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Level {
    /// In the interrupt handler: nothing else runs meanwhile.
    Irq,
    /// In the handler of software interrupts, as in BSD: no thread runs until it has done all that is queued.
    Softirq,
    /// In a thread.
    Thread(ThreadId),
}

/// When a thread runs, beside others.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// By its priority.
    #[default]
    Normal,
    /// By deadlines, before all others: its messages come at no less than `interval`, except that as many as `workahead` may come
    /// early, and each is to be done `delay` after it was due (deadline/workahead scheduling). Early ones wait for normal threads.
    Realtime {
        /// 1/R: time between two messages.
        interval: Span,
        /// B: messages that may come early.
        workahead: u32,
        /// D: time for one message.
        delay: Span,
    },
    /// When no other has work.
    Background,
}

/// The time that a thread may take before all others; what it takes beyond that, it takes in the background.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Budget {
    /// Time of the processor.
    pub time: Span,
    /// In each period of this length.
    pub period: Span,
}

/// A thread.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ThreadSpec {
    /// Its priority among normal threads; the highest runs.
    pub priority: u8,
    /// How it is scheduled.
    pub class: Class,
    /// How much it may take.
    pub budget: Option<Budget>,
    /// It runs programs of users: a more urgent thread interrupts it, also where threads do not interrupt one another.
    pub is_user: bool,
}

/// A processor.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CpuConfig {
    /// A thread interrupts one that is less urgent; otherwise each job of a thread is done before another thread runs.
    pub is_preemptive: bool,
    /// Threads of one priority take turns after this time; `None`: the job that came first is done first.
    pub quantum: Option<Span>,
    /// The holder of a lock is as urgent as any thread that waits for it.
    pub inherits: bool,
}

/// What a thread took.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ThreadUse {
    /// Time of the processor.
    pub used: Span,
    /// Longest time that it had work and did not run.
    pub starved_for: Span,
    /// Messages that came earlier than its class permits.
    pub beyond_workahead: u64,
    /// Times that its budget was used up.
    pub exhausted: u64,
}

/// The processor of a host.
///
/// ```
/// use layercast_core::{Span, Time};
/// use layercast_nif::cpu::{Cpu, CpuConfig, Level, ThreadSpec};
///
/// let mut cpu = Cpu::new(CpuConfig { is_preemptive: true, ..CpuConfig::default() });
/// let bulk = cpu.add_thread(ThreadSpec::default());
/// let video = cpu.add_thread(ThreadSpec { priority: 200, ..ThreadSpec::default() });
/// let ms = |n| Time::ZERO + Span::from_ms(n);
/// cpu.push(ms(0), Level::Thread(bulk), Span::from_ms(10), "bulk");
/// cpu.push(ms(4), Level::Thread(video), Span::from_ms(2), "video");
/// assert_eq!(cpu.pop_done(ms(20)), Some((ms(6), "video")));
/// assert_eq!(cpu.pop_done(ms(20)), Some((ms(12), "bulk")));
/// ```
#[derive(Debug)]
pub struct Cpu<J> {
    config: CpuConfig,
    /// Until when its work is done.
    now: Time,
    irq: VecDeque<Job<J>>,
    softirq: VecDeque<Job<J>>,
    threads: Vec<Thread<J>>,
    locks: Locks,
    /// The thread whose job was interrupted or is in progress.
    running: Option<usize>,
    done: VecDeque<(Time, J)>,
    next: u64,
    /// How long it still does something else.
    held: Span,
    in_irq: Span,
    in_softirq: Span,
}

impl<J> Cpu<J> {
    /// An idle processor without threads.
    pub fn new(config: CpuConfig) -> Cpu<J> {
        // Turns of no length would never end.
        let quantum = config.quantum.filter(|it| *it > Span::ZERO);
        Cpu {
            config: CpuConfig { quantum, ..config },
            now: Time::ZERO,
            irq: VecDeque::new(),
            softirq: VecDeque::new(),
            threads: Vec::new(),
            locks: Locks::default(),
            running: None,
            done: VecDeque::new(),
            next: 0,
            held: Span::ZERO,
            in_irq: Span::ZERO,
            in_softirq: Span::ZERO,
        }
    }

    /// Adds a thread.
    pub fn add_thread(&mut self, spec: ThreadSpec) -> ThreadId {
        self.threads.push(Thread::new(spec));
        ThreadId(self.threads.len() as u32 - 1)
    }

    /// Adds a lock.
    pub fn add_lock(&mut self) -> LockId {
        LockId(self.locks.add())
    }

    /// Takes a job of this length.
    pub fn push(&mut self, now: Time, level: Level, demand: Span, job: J) {
        self.take(now, level, demand, None, job);
    }

    /// Takes a job of a thread that holds a lock from its start to its end.
    pub fn push_locked(&mut self, now: Time, thread: ThreadId, demand: Span, lock: LockId, job: J) {
        self.take(now, Level::Thread(thread), demand, Some(lock.0), job);
    }

    /// Does something else for `span` from now on: all work waits, the job in progress too.
    pub fn busy_for(&mut self, now: Time, span: Span) {
        self.advance(now);
        self.held += span;
    }

    fn take(&mut self, now: Time, level: Level, demand: Span, lock: Option<u32>, job: J) {
        self.advance(now);
        let seq = self.take_number();
        let came = self.now.max(now);
        let job = Job::new(came, seq, demand, lock, job);
        match level {
            Level::Irq => self.irq.push_back(job),
            Level::Softirq => self.softirq.push_back(job),
            Level::Thread(ThreadId(id)) => {
                if let Some(thread) = self.threads.get_mut(id as usize) {
                    thread.push(came, seq, job);
                }
            }
        }
    }

    /// Changes a priority: now where threads interrupt one another, else when the next thread is chosen.
    pub fn set_priority(&mut self, now: Time, thread: ThreadId, priority: u8) {
        self.advance(now);
        if let Some(thread) = self.threads.get_mut(thread.0 as usize) {
            thread.spec.priority = priority;
        }
    }

    /// When [`pop_done`](Self::pop_done) has to be asked next: a job may be done then, or another one is to be chosen.
    pub fn next_timeout(&self) -> Option<Time> {
        match self.done.front() {
            Some((at, _)) => Some(*at),
            None => self.next_change(),
        }
    }

    /// The next job that is done by `now`, and when it was.
    pub fn pop_done(&mut self, now: Time) -> Option<(Time, J)> {
        self.advance(now);
        self.done.pop_front_if(|(at, _)| *at <= now)
    }

    /// What a thread took until now.
    pub fn thread_use(&self, thread: ThreadId) -> ThreadUse {
        let thread = self.threads.get(thread.0 as usize);
        thread.map_or_else(ThreadUse::default, |it| it.usage)
    }

    /// Jobs that a thread has to do, the one in progress included.
    pub fn backlog(&self, thread: ThreadId) -> usize {
        self.threads
            .get(thread.0 as usize)
            .map_or(0, |it| it.queue.len())
    }

    /// Time in interrupts and in software interrupts.
    pub fn in_interrupts(&self) -> (Span, Span) {
        (self.in_irq, self.in_softirq)
    }

    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
