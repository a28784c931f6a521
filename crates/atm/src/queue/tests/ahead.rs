//! Predictions about cells before they leave, and departures of many cells at a time.

use super::*;

/// Circuits of all kinds, by number: two of level 1, the second with a contract; signalling; two of best effort.
fn mixed(discipline: Discipline) -> OutputQueue {
    let mut queue = queue(discipline);
    queue.open(Vcid(0), Class::Level(1), None);
    queue.open(Vcid(1), Class::Level(1), Some(traffic(2, 2, 20)));
    queue.open(Vcid(2), Class::Signalling, None);
    queue.open(Vcid(3), Class::BestEffort, None);
    queue.open(Vcid(4), Class::BestEffort, None);
    queue
}

/// Arrivals: circuit, and cell times since the previous arrival.
fn arrivals() -> impl Strategy<Value = Vec<(u16, u64)>> {
    prop::collection::vec((0..5_u16, prop_oneof![4 => Just(0), 1 => 0..4_u64]), 1..80)
}

proptest! {
    #[test]
    fn no_cell_leaves_before_it_was_said_to(discipline in discipline(), arrivals in arrivals()) {
        let mut queue = mixed(discipline);
        let gap = queue.config().cell_time;
        let (mut now, mut leaves, mut free) = (Time::ZERO, Time::ZERO, Time::ZERO);
        // By frame, a lower bound of the departures before it, among all cells that leave.
        let mut bounds = Vec::new();
        let mut sent = Vec::new();
        for (n, &(vc, after)) in arrivals.iter().enumerate() {
            now += gap.times(after);
            queue.drain(leaves, now, |at, cell| {
                sent.push(cell.frame.0);
                free = at + gap;
            });
            leaves = now.max(free);
            let cell = Cell::of(FrameId(n as u32), Vcid(vc), 0, 1);
            prop_assert!(queue.enqueue(now, cell).is_ok());
            bounds.push(queue.stats().sent + u64::from(queue.ahead(Vcid(vc))));
            for kind in 0..5 {
                let first = queue.stats().sent + u64::from(queue.ahead_of(|cell| cell.vc.0 == kind));
                let all = arrivals[..=n].iter().enumerate();
                for (frame, _) in all.filter(|(frame, it)| it.0 == kind && !sent.contains(&(*frame as u32))) {
                    bounds[frame] = bounds[frame].max(first);
                }
            }
        }
        queue.drain(leaves, Time::MAX, |_, cell| sent.push(cell.frame.0));
        prop_assert_eq!(sent.len(), arrivals.len());
        for (place, frame) in sent.iter().enumerate() {
            prop_assert!(bounds[*frame as usize] <= place as u64, "{} of {:?}", frame, sent);
        }
    }

    #[test]
    fn many_leave_as_one_by_one(discipline in discipline(), arrivals in arrivals(), rest in 0..30_u64) {
        let (mut queue, mut slow) = (mixed(discipline), mixed(discipline));
        let gap = queue.config().cell_time;
        for (n, &(vc, _)) in arrivals.iter().enumerate() {
            let cell = Cell::of(FrameId(n as u32), Vcid(vc), 0, 1);
            prop_assert_eq!(queue.enqueue(Time::ZERO, cell), slow.enqueue(Time::ZERO, cell));
        }
        let mut sent = Vec::new();
        let until = Time::ZERO + gap.times(rest);
        let leaves = queue.drain(Time::ZERO, until, |at, cell| sent.push((cell.frame.0, at)));
        queue.drain(leaves, Time::MAX, |at, cell| sent.push((cell.frame.0, at)));
        prop_assert_eq!(sent, drain(&mut slow, Time::ZERO));
        prop_assert_eq!(queue.stats(), slow.stats());
    }
}
