use proptest::prelude::*;

use super::*;

/// A step of a random sequence.
#[derive(Clone, Debug)]
enum Step {
    Open(u16, Class, Option<TrafficSpec>),
    Close(u16),
    Enqueue(u16, u32),
    Dequeue,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let class = prop_oneof![
        (0u8..5).prop_map(Class::Level),
        Just(Class::Signalling),
        Just(Class::BestEffort)
    ];
    let spec = (0u64..30, 0u64..30, 0u64..300).prop_map(|(min, ave, i)| traffic(min, ave, i));
    prop_oneof![
        1 => (0u16..6, class, prop::option::of(spec)).prop_map(|(vc, c, t)| Step::Open(vc, c, t)),
        1 => (0u16..6).prop_map(Step::Close),
        6 => (0u16..6, 1u32..6).prop_map(|(vc, cells)| Step::Enqueue(vc, cells)),
        6 => Just(Step::Dequeue),
        2 => (0u64..40).prop_map(Step::Wait),
    ]
}

fn config() -> impl Strategy<Value = QueueConfig> {
    let discard = prop_oneof![
        Just(Discard::None),
        Just(Discard::Ppd),
        (0u32..9).prop_map(|threshold| Discard::Epd { threshold })
    ];
    let limits = (1u32..9, 1u32..20, 1u64..400);
    (discipline(), discard, limits).prop_map(|(discipline, discard, limits)| QueueConfig {
        discipline,
        discard,
        per_vc_limit: limits.0,
        port_limit: limits.1,
        horizon: Span::from_ms(limits.2),
        ..QueueConfig::new(T1)
    })
}

proptest! {
    #[test]
    fn cells_are_conserved_and_keep_their_order(
        config in config(), steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut queue = queue_with(config);
        let mut now = Time::ZERO;
        let mut frame = 0;
        let mut last = [None; 6];
        let mut reopened = [false; 6];
        for step in steps {
            match step {
                Step::Open(vc, class, traffic) => {
                    reopened[usize::from(vc)] = true;
                    queue.open(Vcid(vc), class, traffic);
                }
                Step::Close(vc) => queue.close(Vcid(vc)),
                Step::Enqueue(vc, cells) => {
                    frame += 1;
                    put(&mut queue, now, Vcid(vc), frame, cells);
                }
                Step::Dequeue => match queue.dequeue(now) {
                    Some(cell) => {
                        let vc = usize::from(cell.vc.0);
                        // A circuit whose class was changed meanwhile may overtake itself.
                        prop_assert!(reopened[vc] || last[vc] <= Some(cell.frame.0));
                        last[vc] = Some(cell.frame.0);
                    }
                    None if queue.is_empty() => prop_assert_eq!(queue.next_eligible(), None),
                    None => {
                        prop_assert_eq!(config.discipline, Discipline::RcspNwc);
                        prop_assert!(queue.next_eligible() > Some(now));
                    }
                },
                Step::Wait(ms) => now += Span::from_ms(ms),
            }
            let stats = queue.stats();
            let held = u64::from(queue.len());
            prop_assert_eq!(stats.received, stats.sent + stats.dropped.total() + held);
            prop_assert_eq!(queue.count_held() as u64, held);
            prop_assert!(queue.shared <= config.port_limit);
            let classes = stats.classes.iter();
            let known: u64 = classes.map(|class| class.received).sum();
            prop_assert_eq!(known + stats.dropped.unknown_vc, stats.received);
            for (vc, reopened) in reopened.iter_mut().enumerate() {
                let gone = |circuit: &Circuit| circuit.count == 0;
                if queue.circuits.get(vc).is_none_or(gone) {
                    *reopened = false;
                }
            }
        }
        let open: Vec<_> = (0..6).map(Vcid).collect();
        open.iter().for_each(|vc| queue.close(*vc));
        drain(&mut queue, now);
        prop_assert_eq!(queue.count_held(), 0);
        prop_assert!(queue.circuits.iter().all(|circuit| circuit.regulator.is_none()));
        let ends = queue.stats().classes;
        prop_assert!(ends.iter().all(|class| class.received == class.sent + class.dropped));
    }
}
