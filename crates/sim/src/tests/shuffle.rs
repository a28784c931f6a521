//! What one event schedules is scheduled in a random order, over the golden corpus: every report is the same.
//!
//! Timers are in a heap with a place for each that acts; `kernel` tests that the order of scheduling changes nothing there.

use super::corpus;
use crate::calendar::shuffle::shuffled;

#[test]
fn groups_do_not_depend_on_the_order_of_scheduling() {
    shuffled(1, || corpus::group::corpus().check());
}

#[test]
fn internetworks_do_not_depend_on_the_order_of_scheduling() {
    shuffled(2, || corpus::internet::corpus().check());
}

#[test]
fn layered_flows_do_not_depend_on_the_order_of_scheduling() {
    shuffled(3, || corpus::mets::corpus().check());
}
