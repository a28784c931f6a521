//! The processor: levels, priorities, turns, budgets, deadlines, locks.

use layercast_core::{Span, Stream, Time};
use layercast_nif::cpu::{Budget, Class, Cpu, CpuConfig, Level, ThreadSpec};
use proptest::prelude::*;

use crate::common::ms;

const PREEMPTIVE: CpuConfig = CpuConfig {
    is_preemptive: true,
    quantum: None,
    inherits: true,
};
const COOPERATIVE: CpuConfig = CpuConfig {
    is_preemptive: false,
    ..PREEMPTIVE
};

fn span(n: u64) -> Span {
    Span::from_ms(n)
}

fn normal(priority: u8) -> ThreadSpec {
    ThreadSpec {
        priority,
        ..ThreadSpec::default()
    }
}

/// When each job is done, in ms.
fn drain(cpu: &mut Cpu<&'static str>) -> Vec<(&'static str, f64)> {
    let mut done = Vec::new();
    while let Some(at) = cpu.next_timeout() {
        while let Some((at, job)) = cpu.pop_done(at) {
            done.push((job, at.as_secs_f64() * 1e3));
        }
    }
    done
}

#[test]
fn interrupts_come_before_software_interrupts_and_those_before_threads() {
    for config in [PREEMPTIVE, COOPERATIVE] {
        let mut cpu = Cpu::new(config);
        let thread = Level::Thread(cpu.add_thread(normal(255)));
        cpu.push(ms(0), thread, span(10), "thread");
        cpu.push(ms(2), Level::Softirq, span(5), "softirq");
        cpu.push(ms(3), Level::Irq, span(1), "irq");
        cpu.push(ms(3), Level::Softirq, span(1), "second softirq");
        let told = [
            ("irq", 4.0),
            ("softirq", 8.0),
            ("second softirq", 9.0),
            ("thread", 17.0),
        ];
        assert_eq!(drain(&mut cpu), told);
        assert_eq!(cpu.in_interrupts(), (span(1), span(6)));
    }
}

#[test]
fn a_change_of_priority_counts_now_or_at_the_next_choice() {
    for (config, told) in [
        (PREEMPTIVE, [("b", 14.0), ("a", 20.0)]),
        (COOPERATIVE, [("a", 10.0), ("b", 20.0)]),
    ] {
        let mut cpu = Cpu::new(config);
        let (a, b) = (cpu.add_thread(normal(5)), cpu.add_thread(normal(5)));
        cpu.push(ms(0), Level::Thread(a), span(10), "a");
        cpu.push(ms(0), Level::Thread(b), span(10), "b");
        cpu.set_priority(ms(4), b, 6);
        assert_eq!(drain(&mut cpu), told);
    }
}

#[test]
fn a_program_is_interrupted_also_where_threads_are_not() {
    let mut cpu = Cpu::new(COOPERATIVE);
    let program = cpu.add_thread(ThreadSpec {
        is_user: true,
        ..normal(5)
    });
    let [equal, urgent] = [5, 6].map(|it| cpu.add_thread(normal(it)));
    cpu.push(ms(0), Level::Thread(program), span(10), "program");
    cpu.push(ms(1), Level::Thread(equal), span(3), "equal");
    cpu.push(ms(2), Level::Thread(urgent), span(4), "urgent");
    assert_eq!(
        drain(&mut cpu),
        [("urgent", 6.0), ("program", 14.0), ("equal", 17.0)]
    );
}

/// A handler that takes its next packet when it is done with one leaves no time between them.
#[test]
fn a_thread_that_is_chosen_and_does_not_run_starves() {
    let mut cpu = Cpu::new(PREEMPTIVE);
    let program = cpu.add_thread(normal(5));
    cpu.push(ms(0), Level::Softirq, span(2), "packet");
    cpu.push(ms(0), Level::Thread(program), span(1), "program");
    for n in 1..10 {
        assert_eq!(cpu.pop_done(ms(2 * n)), Some((ms(2 * n), "packet")));
        cpu.push(ms(2 * n), Level::Softirq, span(2), "packet");
    }
    assert_eq!(drain(&mut cpu), [("packet", 20.0), ("program", 21.0)]);
    assert_eq!(cpu.thread_use(program).starved_for, span(20));
}

#[test]
fn threads_of_one_priority_are_served_in_order_or_in_turns() {
    for (quantum, told) in [
        (None, [("a", 4.0), ("b", 5.0), ("A", 9.0)]),
        (Some(span(2)), [("b", 3.0), ("a", 5.0), ("A", 9.0)]),
        // Turns of no length are none.
        (Some(Span::ZERO), [("a", 4.0), ("b", 5.0), ("A", 9.0)]),
    ] {
        let mut cpu = Cpu::new(CpuConfig {
            quantum,
            ..PREEMPTIVE
        });
        let (a, b) = (cpu.add_thread(normal(0)), cpu.add_thread(normal(0)));
        cpu.push(ms(0), Level::Thread(a), span(4), "a");
        cpu.push(ms(0), Level::Thread(b), span(1), "b");
        cpu.push(ms(0), Level::Thread(a), span(4), "A");
        assert_eq!(drain(&mut cpu), told);
    }
}

/// 11.
#[test]
fn a_budget_leaves_time_for_others() {
    for budget in [
        None,
        Some(Budget {
            time: span(60),
            period: span(100),
        }),
    ] {
        let mut cpu = Cpu::new(PREEMPTIVE);
        let hog = cpu.add_thread(ThreadSpec {
            budget,
            ..normal(200)
        });
        let other = cpu.add_thread(normal(1));
        for _ in 0..100 {
            cpu.push(ms(0), Level::Thread(hog), span(10), ());
            cpu.push(ms(0), Level::Thread(other), span(10), ());
        }
        while cpu.pop_done(ms(1_000)).is_some() {}
        let (used, exhausted) = match budget {
            None => ((span(1_000), Span::ZERO), 0),
            Some(_) => ((span(600), span(400)), 10),
        };
        assert_eq!((cpu.thread_use(hog).used, cpu.thread_use(other).used), used);
        let starved = if budget.is_some() {
            span(60)
        } else {
            span(1_000)
        };
        assert_eq!(cpu.thread_use(other).starved_for, starved);
        assert_eq!(cpu.thread_use(hog).exhausted, exhausted);
        // Alone, it takes what is left, too.
        while cpu.pop_done(ms(3_000)).is_some() {}
        assert_eq!(
            (cpu.thread_use(hog).used, cpu.thread_use(other).used),
            (span(1_000), span(1_000))
        );
    }
}

/// 13.
#[test]
fn the_holder_of_a_lock_is_as_urgent_as_those_that_wait_for_it() {
    for (inherits, told) in [
        (true, [("low", 10.0), ("high", 12.0), ("middle", 112.0)]),
        (false, [("middle", 102.0), ("low", 110.0), ("high", 112.0)]),
    ] {
        let mut cpu = Cpu::new(CpuConfig {
            inherits,
            ..PREEMPTIVE
        });
        let lock = cpu.add_lock();
        let [low, middle, high] = [1, 5, 9].map(|it| cpu.add_thread(normal(it)));
        cpu.push_locked(ms(0), low, span(10), lock, "low");
        cpu.push(ms(2), Level::Thread(middle), span(100), "middle");
        cpu.push_locked(ms(2), high, span(2), lock, "high");
        assert_eq!(drain(&mut cpu), told);
    }
}

/// specs/network-interface-framework.md 2.10: what is due comes first, what is early last.
#[test]
fn messages_are_critical_when_they_are_due_and_wait_for_others_before() {
    let mut cpu = Cpu::new(PREEMPTIVE);
    let class = |delay| Class::Realtime {
        interval: span(10),
        workahead: 1,
        delay: span(delay),
    };
    let video = cpu.add_thread(ThreadSpec {
        class: class(20),
        ..normal(0)
    });
    let sound = cpu.add_thread(ThreadSpec {
        class: class(5),
        ..normal(0)
    });
    let shell = cpu.add_thread(normal(255));
    let idle = cpu.add_thread(ThreadSpec {
        class: Class::Background,
        ..normal(255)
    });
    cpu.push(ms(0), Level::Thread(idle), span(1), "background");
    // The second and the third are due at 10 and 20 ms.
    for name in ["video 1", "video 2", "video 3"] {
        cpu.push(ms(0), Level::Thread(video), span(2), name);
    }
    // Its deadline is at 6 ms, that of the video at 20.
    cpu.push(ms(1), Level::Thread(sound), span(2), "sound");
    cpu.push(ms(1), Level::Thread(shell), span(9), "shell");
    let told = [
        ("sound", 3.0),
        ("video 1", 4.0),
        // Due at 10, and before the shell.
        ("video 2", 12.0),
        ("shell", 15.0),
        // Early, and before the background.
        ("video 3", 17.0),
        ("background", 18.0),
    ];
    assert_eq!(drain(&mut cpu), told);
    assert_eq!(cpu.thread_use(video).beyond_workahead, 1);
}

#[test]
fn a_late_driver_changes_nothing() {
    let run = |is_late: bool| {
        let mut cpu = Cpu::new(PREEMPTIVE);
        let threads = [normal(1), normal(9)].map(|it| cpu.add_thread(it));
        let mut stream = Stream::new(1, "cpu");
        let mut done = Vec::new();
        for n in 0..500 {
            let level = Level::Thread(threads[stream.below(2) as usize]);
            cpu.push(ms(n), level, Span::from_us(stream.below(1_900)), n);
            if !is_late {
                while let Some(one) = cpu.pop_done(ms(n)) {
                    done.push(one);
                }
            }
        }
        while let Some(one) = cpu.pop_done(ms(10_000)) {
            done.push(one);
        }
        done
    };
    let done = run(false);
    assert_eq!(done.len(), 500);
    assert_eq!(run(true), done);
}

proptest! {
    /// Each job is done once, takes at least its time, and the processor is never idle beside work.
    #[test]
    fn no_work_is_lost_and_no_time_wasted(
        jobs in prop::collection::vec((0..20_000_u64, 0..8_u8, 0..3_000_u64, any::<bool>()), 1..60),
        is_preemptive in any::<bool>(),
        inherits in any::<bool>(),
        quantum in prop::option::of(0..2_000_u64),
    ) {
        let quantum = quantum.map(Span::from_us);
        let mut cpu = Cpu::new(CpuConfig { is_preemptive, quantum, inherits });
        let lock = cpu.add_lock();
        let realtime = Class::Realtime { interval: span(1), workahead: 2, delay: span(3) };
        let budget = Some(Budget { time: Span::from_us(700), period: Span::from_us(2_100) });
        let threads = [
            normal(3),
            normal(3),
            ThreadSpec { budget, ..normal(9) },
            ThreadSpec { class: realtime, ..normal(0) },
            ThreadSpec { class: realtime, budget, ..normal(0) },
            ThreadSpec { class: Class::Background, ..normal(0) },
        ].map(|it| cpu.add_thread(it));
        let mut jobs = jobs;
        jobs.sort_unstable();
        // When a processor that is never idle beside work has done all.
        let mut end = Time::ZERO;
        for (n, (at, level, us, locked)) in jobs.iter().enumerate() {
            let (now, demand) = (Time::ZERO + Span::from_us(*at), Span::from_us(*us));
            end = end.max(now) + demand;
            match (threads.get(usize::from(*level)), locked) {
                (Some(thread), true) => cpu.push_locked(now, *thread, demand, lock, n),
                (Some(thread), false) => cpu.push(now, Level::Thread(*thread), demand, n),
                (None, true) => cpu.push(now, Level::Irq, demand, n),
                (None, false) => cpu.push(now, Level::Softirq, demand, n),
            }
        }
        let (mut done, mut last) = (Vec::new(), Time::ZERO);
        for steps in 0.. {
            let Some(at) = cpu.next_timeout() else { break };
            prop_assert!(steps < 100_000, "no end");
            while let Some((at, n)) = cpu.pop_done(at) {
                prop_assert!(at >= last && at >= Time::ZERO + Span::from_us(jobs[n].0 + jobs[n].2));
                last = at;
                done.push(n);
            }
        }
        done.sort_unstable();
        prop_assert_eq!(done, (0..jobs.len()).collect::<Vec<_>>());
        prop_assert_eq!(last, end);
    }
}

/// What else the processor does delays the job in progress and the next ones, at every level.
#[test]
fn all_work_waits_while_the_processor_does_something_else() {
    for config in [PREEMPTIVE, COOPERATIVE] {
        for is_thread in [false, true] {
            let mut cpu = Cpu::new(config);
            let thread = cpu.add_thread(normal(0));
            let level = match is_thread {
                true => Level::Thread(thread),
                false => Level::Irq,
            };
            cpu.push(ms(0), level, span(5), "a");
            cpu.busy_for(ms(3), span(100));
            cpu.push(ms(4), level, span(5), "b");
            assert_eq!(cpu.next_timeout(), Some(ms(105)));
            // What it does else is one after the other, too.
            cpu.busy_for(ms(50), span(10));
            assert_eq!(drain(&mut cpu), [("a", 115.0), ("b", 120.0)]);
            let starved = if is_thread { span(110) } else { Span::ZERO };
            assert_eq!(cpu.thread_use(thread).starved_for, starved);
            // Nothing is to be done: there is no time-out.
            cpu.busy_for(ms(200), span(7));
            assert_eq!(cpu.next_timeout(), None);
            cpu.push(ms(201), level, span(5), "c");
            assert_eq!(drain(&mut cpu), [("c", 212.0)]);
        }
    }
}

/// A late question changes no time: jobs are done one after the other, in their order.
#[test]
fn jobs_are_done_when_they_are_due_however_late_the_question_comes() {
    let mut cpu = Cpu::new(CpuConfig::default());
    cpu.push(ms(50), Level::Irq, span(5), "a");
    cpu.push(ms(70), Level::Irq, span(5), "b");
    assert_eq!(cpu.next_timeout(), Some(ms(55)));
    assert_eq!(cpu.pop_done(ms(54)), None);
    assert_eq!(cpu.pop_done(ms(80)), Some((ms(55), "a")));
    assert_eq!(cpu.pop_done(ms(80)), Some((ms(75), "b")));
    assert_eq!(cpu.next_timeout(), None);
}
