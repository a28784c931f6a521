use layercast_core::{Span, Time};

use super::thread::{Job, Thread};
use super::{ThreadId, ThreadSpec, ThreadUse};

/// Threads whose work is done by the caller, in real time: it says which is next, by the rules of a [`Cpu`](super::Cpu) whose
/// threads do not interrupt one another.
///
/// ```
/// use layercast_core::{Span, Time};
/// use layercast_nif::cpu::{Dispatcher, ThreadSpec};
///
/// let mut ready = Dispatcher::new();
/// let bulk = ready.add_thread(ThreadSpec::default());
/// let video = ready.add_thread(ThreadSpec { priority: 200, ..ThreadSpec::default() });
/// let ms = |n| Time::ZERO + Span::from_ms(n);
/// ready.push(ms(0), bulk, "bulk");
/// ready.push(ms(1), video, "video");
/// assert_eq!(ready.next(ms(2)), Some((video, "video")));
/// // It took 3 ms.
/// assert_eq!(ready.next(ms(5)), Some((bulk, "bulk")));
/// assert_eq!(ready.next(ms(9)), None);
/// assert_eq!(ready.thread_use(video).used, Span::from_ms(3));
/// ```
#[derive(Debug, Default)]
pub struct Dispatcher<J> {
    threads: Vec<Thread<J>>,
    /// The thread whose job is being done, and since when.
    running: Option<(usize, Time)>,
    seq: u64,
}

impl<J> Dispatcher<J> {
    /// No threads.
    pub fn new() -> Dispatcher<J> {
        Dispatcher {
            threads: Vec::new(),
            running: None,
            seq: 0,
        }
    }

    /// Adds a thread.
    pub fn add_thread(&mut self, spec: ThreadSpec) -> ThreadId {
        self.threads.push(Thread::new(spec));
        ThreadId(self.threads.len() as u32 - 1)
    }

    /// A job of a thread came.
    pub fn push(&mut self, now: Time, thread: ThreadId, job: J) {
        self.seq += 1;
        let seq = self.seq;
        if let Some(thread) = self.threads.get_mut(thread.0 as usize) {
            thread.push(now, seq, Job::new(now, seq, Span::ZERO, None, job));
        }
    }

    /// The job before is done; gives the next one, which the caller does before it asks again.
    pub fn next(&mut self, now: Time) -> Option<(ThreadId, J)> {
        let took = self.running.take();
        for (at, thread) in self.threads.iter_mut().enumerate() {
            match took {
                Some((ran, since)) if ran == at => thread.ran(now.since(since)),
                Some((_, since)) => thread.waited(now.since(since)),
                None => {}
            }
            thread.replenish(now);
        }
        let ranked = self.threads.iter().enumerate();
        let ranked = ranked.filter_map(|(at, thread)| Some((thread.rank(now, false)?, at)));
        let (_, at) = ranked.min()?;
        let job = self.threads.get_mut(at)?.queue.pop_front()?;
        self.running = Some((at, now));
        Some((ThreadId(at as u32), job.job))
    }

    /// What a thread took until its last job was done.
    pub fn thread_use(&self, thread: ThreadId) -> ThreadUse {
        let thread = self.threads.get(thread.0 as usize);
        thread.map_or_else(ThreadUse::default, |it| it.usage)
    }
}
