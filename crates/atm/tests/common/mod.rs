//! A link that sends the cells of a queue.

use layercast_atm::{Cell, OutputQueue};
use layercast_core::Time;

/// Adds a best-effort cell if none waits.
fn keep_busy(queue: &mut OutputQueue, now: Time, filler: Cell) {
    let best_effort = queue.stats().classes[5];
    if best_effort.received == best_effort.sent {
        queue.enqueue(now, filler).expect("room");
    }
}

/// Sends cells from `start` until nothing is left. `arrivals` are in the order of time; until the last of them is
/// sent, a best-effort `filler` is always waiting. Each cell and the time of its begin are passed to `sent`.
pub fn transmit(
    queue: &mut OutputQueue,
    start: Time,
    arrivals: impl IntoIterator<Item = (Time, Cell)>,
    filler: Option<Cell>,
    mut sent: impl FnMut(Cell, Time),
) {
    let mut arrivals = arrivals.into_iter().peekable();
    let mut free = start;
    loop {
        while let Some((at, cell)) = arrivals.next_if(|(at, _)| *at <= free) {
            queue.enqueue(at, cell).expect("room");
        }
        let next = arrivals.peek().map(|(at, _)| *at);
        if let Some(filler) = filler
            && (next.is_some() || !queue.is_empty())
        {
            keep_busy(queue, free, filler);
        }
        if let Some(cell) = queue.dequeue(free) {
            sent(cell, free);
            free += queue.config().cell_time;
        } else {
            let wakes = [next, queue.next_eligible()];
            match wakes.into_iter().flatten().min() {
                Some(wake) => free = wake,
                None => return,
            }
        }
    }
}
