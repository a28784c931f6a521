use layercast_core::{Observer, Span, Time};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::connection::PeerEvent;
use crate::error::NetError;
use crate::timer::{Lateness, Timer};

/// Signals and commands served before the next look at the sockets.
const INPUTS_PER_ITERATION: usize = 64;

/// How often an iteration looks for more before the timers run, so that a flood cannot stop them; and one that is late.
const TURNS: usize = 4;
const CATCH_UP: usize = 64;
/// An iteration is late from here on.
const LATE: Span = Span::from_ms(20);
/// A loop that is later than this was stopped, as its process or the host was, or starved of the processor.
const STOPPED: Span = Span::from_ms(100);
/// An iteration, or the reading of the sockets in it, that takes this time was held up: what it sent left later than it knew,
/// and what it read came later.
const HELD_UP: Span = Span::from_ms(1);

/// A node or a receiving host, as the loop that runs it sees it.
pub(crate) trait Actor {
    /// What its user asks of it while it runs.
    type Command: Send;

    /// Runs every timer that is due.
    fn on_timeout<O: Observer>(&mut self, now: Time, obs: &mut O);

    /// Takes what a neighbour says, with how late the timers ran so far; an error ends the run.
    fn on_peer<O: Observer>(
        &mut self,
        now: Time,
        event: PeerEvent,
        timers: &Lateness,
        obs: &mut O,
    ) -> Result<(), NetError>;

    /// Does what the user asks.
    fn on_command<O: Observer>(&mut self, now: Time, command: Self::Command, obs: &mut O);

    /// Takes what the sockets have, but not forever; says whether there may be more.
    fn receive<O: Observer>(&mut self, now: Time, obs: &mut O) -> bool;

    /// Hands everything that is due to the kernel; `false` if the kernel takes no more now.
    fn flush(&mut self) -> bool;

    /// What was received at `now` may have come later: the host was held up while it read.
    fn read_late<O: Observer>(&mut self, now: Time, obs: &mut O);

    /// What was sent at `since` or later was handed to the kernel by `now`: the host was held up in between.
    fn held_up<O: Observer>(&mut self, since: Time, now: Time, obs: &mut O);

    /// This host ran the loop `late` after a timer was due, or for this time did not continue an iteration.
    fn late(&mut self, now: Time, late: Span);

    /// This host did not run the loop from `since` until `now`, although a timer was due: what came meanwhile is read from now on.
    fn stopped(&mut self, since: Time, now: Time);

    /// Looks whether this was the last iteration, `stopping` if the user wants it to be, with how late the timers ran so far.
    fn end_iteration<O: Observer>(
        &mut self,
        now: Time,
        stopping: bool,
        timers: &Lateness,
        obs: &mut O,
    ) -> Result<Iteration, NetError>;

    /// Waits for the sockets, to write too if `blocked`, and for whatever else brings work.
    async fn ready(&mut self, blocked: bool);
}

/// The next step after an iteration.
pub(crate) enum Iteration {
    /// Nothing.
    Over,
    /// The next one, at the latest then.
    Next(Option<Time>),
}

/// Where neighbours and the user of an actor are heard.
pub(crate) struct Inbox<C> {
    pub peers: mpsc::Receiver<PeerEvent>,
    pub commands: Option<mpsc::Receiver<C>>,
}

enum Said<C> {
    Peer(PeerEvent),
    User(C),
}

impl<C> Inbox<C> {
    fn try_next(&mut self) -> Option<Said<C>> {
        let mut command = || self.commands.as_mut()?.try_recv().ok();
        let peer = self.peers.try_recv().ok().map(Said::Peer);
        peer.or_else(|| command().map(Said::User))
    }

    async fn next(&mut self) -> Said<C> {
        let commands = &mut self.commands;
        let command = async {
            match commands {
                Some(commands) => commands.recv().await,
                None => None,
            }
        };
        tokio::select! {
            Some(event) = self.peers.recv() => Said::Peer(event),
            Some(command) = command => Said::User(command),
            else => std::future::pending().await,
        }
    }
}

/// Serves whatever is due, waits for more, and again: until the actor is done.
pub(crate) async fn run_event_loop<A: Actor, O: Observer>(
    actor: &mut A,
    inbox: &mut Inbox<A::Command>,
    timer: &mut Timer,
    shutdown: &CancellationToken,
    obs: &mut O,
) -> Result<(), NetError> {
    let failed = |source| NetError::System {
        what: "setting a timer",
        source,
    };
    let clock = Clock::get();
    let mut next = None;
    let mut ran = clock.now();
    loop {
        let now = clock.now();
        let late = timer.served(now);
        if late > LATE {
            actor.late(now, late);
        }
        if late > STOPPED {
            actor.stopped(ran, now);
        }
        let turns = match late > LATE {
            true => CATCH_UP,
            false => TURNS,
        };
        // The sockets come first: code that judges silence must see what has arrived by now, and reports to neighbours say
        // what has not.
        let more = (0..turns).all(|_| actor.receive(now, obs));
        if clock.now().since(now) >= HELD_UP {
            actor.read_late(now, obs);
        }
        actor.on_timeout(now, obs);
        let mut served = 0;
        while let Some(said) = next.take().or_else(|| inbox.try_next()) {
            match said {
                Said::Peer(event) => actor.on_peer(now, event, timer.lateness(), obs)?,
                Said::User(command) => actor.on_command(now, command, obs),
            }
            served += 1;
            if served >= INPUTS_PER_ITERATION {
                break;
            }
        }
        let blocked = !actor.flush();
        let left = clock.now();
        if left.since(now) >= HELD_UP {
            actor.held_up(now, left, obs);
        }
        let stopping = shutdown.is_cancelled();
        let wake = match actor.end_iteration(now, stopping, timer.lateness(), obs)? {
            Iteration::Over => return Ok(()),
            Iteration::Next(wake) => wake,
        };
        ran = clock.now();
        if ran.since(now) > STOPPED {
            // In the midst of an iteration: no timer shows it.
            actor.late(ran, ran.since(now));
            actor.stopped(now, ran);
        }
        if more || served >= INPUTS_PER_ITERATION {
            // There is more to do immediately, but other tasks want to run too.
            yield_now().await;
            continue;
        }
        timer.arm(wake).map_err(failed)?;
        tokio::select! {
            expired = timer.expired() => expired.map_err(failed)?,
            () = actor.ready(blocked) => {}
            said = inbox.next() => next = Some(said),
            () = shutdown.cancelled(), if !stopping => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Off;

    use super::*;

    /// Is held up while it waits for the first time, with a timer due.
    #[derive(Default)]
    struct Sleepy {
        iterations: u32,
        calls: Vec<(u32, &'static str)>,
    }

    impl Actor for Sleepy {
        type Command = ();

        fn on_timeout<O: Observer>(&mut self, _: Time, _: &mut O) {
            self.calls.push((self.iterations, "timers"));
        }

        fn on_peer<O: Observer>(
            &mut self,
            _: Time,
            _: PeerEvent,
            _: &Lateness,
            _: &mut O,
        ) -> Result<(), NetError> {
            Ok(())
        }

        fn on_command<O: Observer>(&mut self, _: Time, (): (), _: &mut O) {}

        fn receive<O: Observer>(&mut self, _: Time, _: &mut O) -> bool {
            self.calls.push((self.iterations, "sockets"));
            if self.iterations == 1 {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            false
        }

        fn flush(&mut self) -> bool {
            let ms = [0, 2, 120, 0][self.iterations as usize];
            std::thread::sleep(std::time::Duration::from_millis(ms));
            true
        }

        fn read_late<O: Observer>(&mut self, _: Time, _: &mut O) {
            self.calls.push((self.iterations, "read late"));
        }

        fn held_up<O: Observer>(&mut self, since: Time, now: Time, _: &mut O) {
            assert!(now.since(since) >= HELD_UP);
            self.calls.push((self.iterations, "held up"));
        }

        fn late(&mut self, _: Time, late: Span) {
            assert!(late > LATE);
            self.calls.push((self.iterations, "late"));
        }

        fn stopped(&mut self, since: Time, now: Time) {
            assert!(now.since(since) > STOPPED);
            self.calls.push((self.iterations, "stopped"));
        }

        fn end_iteration<O: Observer>(
            &mut self,
            now: Time,
            _: bool,
            _: &Lateness,
            _: &mut O,
        ) -> Result<Iteration, NetError> {
            self.iterations += 1;
            Ok(match self.iterations {
                1..=3 => Iteration::Next(Some(now.saturating_add(Span::from_ms(1)))),
                _ => Iteration::Over,
            })
        }

        async fn ready(&mut self, _: bool) {
            std::thread::sleep(std::time::Duration::from_millis(120));
        }
    }

    #[tokio::test]
    async fn what_came_is_heard_before_silence_is_judged_and_late_departures_are_told() {
        let mut actor = Sleepy::default();
        let (_peer, peers) = mpsc::channel(1);
        let mut inbox = Inbox {
            peers,
            commands: None,
        };
        let mut timer = Timer::new().unwrap();
        let shutdown = CancellationToken::new();
        run_event_loop(&mut actor, &mut inbox, &mut timer, &shutdown, &mut Off)
            .await
            .unwrap();
        let calls = |iteration| {
            let calls = actor.calls.iter().filter(move |call| call.0 == iteration);
            calls.map(|call| call.1).collect::<Vec<_>>()
        };
        assert_eq!(calls(0)[..2], ["sockets", "timers"]);
        let second = [
            "late",
            "stopped",
            "sockets",
            "read late",
            "timers",
            "held up",
        ];
        assert_eq!(calls(1), second);
        // In the midst of the third iteration, and while it waits after that.
        let fourth = ["late", "stopped", "late", "stopped", "sockets"];
        assert_eq!(calls(3)[..5], fourth);
    }
}
