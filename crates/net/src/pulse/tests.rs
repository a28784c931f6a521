use std::future::pending;
use std::thread;

use tokio::time::{Instant, sleep};

use super::*;

const EVERY: Duration = Duration::from_millis(40);

fn pulse(answers: bool) -> Pulse {
    Pulse {
        every: EVERY,
        ..Pulse::new(answers)
    }
}

/// Everything that is to be sent, until `work` ends.
async fn asked_until<T>(pulse: &Pulse, work: impl Future<Output = T>) -> (T, Vec<Signal>) {
    let mut work = pin!(work);
    let mut asked = Vec::new();
    loop {
        tokio::select! {
            biased;
            outcome = &mut work => return (outcome, asked),
            signal = pulse.due() => asked.push(signal),
        }
    }
}

#[tokio::test]
async fn a_neighbour_that_does_not_answer_is_asked_and_given_up() {
    let pulse = pulse(true);
    let began = Instant::now();
    let (heard, asked) = asked_until(&pulse, pulse.hear(pending::<Result<(), _>>())).await;
    assert!(matches!(heard, Err(ChannelError::Silent)), "{heard:?}");
    assert_eq!(asked, [Signal::Ping, Signal::Ping]);
    assert!(began.elapsed() >= EVERY * 3);
}

#[tokio::test]
async fn one_that_cannot_answer_may_be_silent() {
    let pulse = pulse(false);
    let waits = timeout(EVERY * 5, pulse.hear(pending::<Result<(), _>>()));
    let (heard, asked) = asked_until(&pulse, waits).await;
    assert!(heard.is_err() && asked.is_empty(), "{heard:?} {asked:?}");
}

#[tokio::test]
async fn a_host_that_did_not_run_itself_gives_up_nobody() {
    let pulse = pulse(true);
    let answer = async {
        thread::sleep(EVERY * 10);
        sleep(EVERY / 2).await;
        Ok(7)
    };
    let heard = pulse.hear(answer).await;
    assert!(matches!(heard, Ok(7)), "{heard:?}");
}

#[tokio::test]
async fn questions_are_answered_once_each_time_something_leaves() {
    let pulse = pulse(true);
    assert!(pulse.takes(&Signal::Ping) && pulse.takes(&Signal::Ping));
    assert!(pulse.takes(&Signal::Pong));
    assert!(!pulse.takes(&Signal::ListFlows));
    assert_eq!(pulse.due().await, Signal::Pong);
    assert!(timeout(EVERY, pulse.due()).await.is_err());
}
