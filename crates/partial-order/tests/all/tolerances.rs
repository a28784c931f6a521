use layercast_partial_order::{Order, Policy, Tolerance};

use crate::wire::{config, data, events, ms, receiver};

/// Loses the given numbers of a flow in total order; gives what is declared lost.
fn lose(tolerance: Tolerance, lost: &[u32], until: u32) -> Vec<u64> {
    let mut receiver = receiver(config(Order::total(), Policy::PerGroup, &[tolerance]));
    for number in (0..until).filter(|it| !lost.contains(it)) {
        receiver.handle(ms(u64::from(number)), data(0, number, false));
    }
    events(&mut receiver)
        .lost
        .into_iter()
        .map(|it| it.1)
        .collect()
}

#[test]
fn consecutive_losses_are_counted_by_run() {
    let two = Tolerance::Consecutive(2);
    assert_eq!(lose(two, &[1, 2, 4, 5], 8), [1, 2, 4, 5]);
    assert_eq!(lose(two, &[1, 2, 3], 8), [0; 0]);
    // A loss beside those that were declared continues their run.
    assert_eq!(lose(Tolerance::Consecutive(0), &[1], 4), [0; 0]);
    assert_eq!(lose(Tolerance::Full, &[1], 4), [0; 0]);
    assert_eq!(
        lose(Tolerance::None, &[1, 2, 3, 4, 5, 6], 8),
        [1, 2, 3, 4, 5, 6]
    );
}

#[test]
fn a_rate_is_taken_over_the_last_settled() {
    let rate = |share, window| Tolerance::Rate {
        ppm: (share * 1e6) as u32,
        window,
    };
    // Two of the last ten: the third waits until the first is ten SDUs ago.
    assert_eq!(lose(rate(0.2, 10), &[1, 3, 5], 8), [1, 3]);
    assert_eq!(lose(rate(0.2, 10), &[1, 3, 15], 18), [1, 3, 15]);
    assert_eq!(lose(rate(0.05, 10), &[1], 8), [0; 0]);
    assert_eq!(
        lose(rate(1.0, 4), &[1, 2, 3, 4, 5, 6], 8),
        [1, 2, 3, 4, 5, 6]
    );
}

#[test]
fn a_cumulative_share_grows_with_what_was_settled() {
    let tolerance = Tolerance::cumulative(0.1);
    // 1 <= 0.1 (1 + 8 + 1): after eight deliveries.
    assert_eq!(lose(tolerance, &[7], 12), [0; 0]);
    assert_eq!(lose(tolerance, &[8], 12), [8]);
}

#[test]
fn renegotiation_applies_to_later_losses() {
    let mut receiver = receiver(config(Order::total(), Policy::PerGroup, &[Tolerance::None]));
    receiver.handle(ms(0), data(0, 1, false));
    assert_eq!(events(&mut receiver).lost, [(0, 0)]);
    assert!(receiver.renegotiate(0, Tolerance::Full));
    assert!(!receiver.renegotiate(1, Tolerance::Full));
    assert!(!receiver.renegotiate(0, Tolerance::Rate { ppm: 1, window: 0 }));
    receiver.handle(ms(1), data(0, 3, false));
    let seen = events(&mut receiver);
    assert!(seen.lost.is_empty() && seen.delivered.is_empty());
}
