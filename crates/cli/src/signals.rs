//! SIGINT and SIGTERM.

use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Duration, timeout};

use crate::failure::{Failure, Outcome};
use crate::node::check_descriptors;

/// Exit code after SIGINT (128 + 2), and of a command that was stopped in another way.
const INTERRUPTED: u8 = 130;
/// Exit code after SIGTERM (128 + 15).
const TERMINATED: u8 = 143;
/// Time that a command has, after the first signal, to write its summary and end. Then the process is ended: something that the
/// command writes to does not take the data.
const GRACE: Duration = Duration::from_secs(10);

/// The exit code of the first signal; 0 before it.
static FIRST: AtomicU8 = AtomicU8::new(0);

/// The exit code of a command that a signal stopped.
pub fn code() -> u8 {
    match FIRST.load(Ordering::Relaxed) {
        0 => INTERRUPTED,
        code => code,
    }
}

/// Whether a signal came that stops the command.
pub fn is_received() -> bool {
    FIRST.load(Ordering::Relaxed) != 0
}

/// Runs `stop` at the first SIGINT or SIGTERM. A second one ends the process, and so does [`GRACE`].
///
/// The signals are read on a thread of their own: they work while the command waits in a system call.
///
/// # Errors
/// The system refuses the thread or the signal handlers.
pub fn on_first(stop: impl FnOnce() + Send + 'static) -> Outcome {
    set(Some(Box::new(stop)));
    watch()
}

/// Ends the process at the first SIGINT or SIGTERM, unless [`on_first`] is called: for commands that have nothing to finish,
/// or not yet.
///
/// # Errors
/// The system refuses the thread or the signal handlers.
pub fn exit_on_first() -> Outcome {
    watch()
}

/// What the first signal does, before the process ends.
type Stopping = Box<dyn FnOnce() + Send>;

static STOP: Mutex<Option<Stopping>> = Mutex::new(None);
/// Whether the thread runs.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Sets what the first signal does; gives what it did before.
fn set(stop: Option<Stopping>) -> Option<Stopping> {
    let mut place = STOP.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut place, stop)
}

/// Starts the thread that waits for signals and ends the process, if it does not run.
fn watch() -> Outcome {
    if IS_WATCHED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    check_descriptors()?;
    let failed = |error| Failure::new(format!("cannot listen for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals {
            interrupted: signal(SignalKind::interrupt()).map_err(failed)?,
            terminated: signal(SignalKind::terminate()).map_err(failed)?,
        }
    };
    let thread = thread::Builder::new().name("signals".into());
    thread
        .spawn(move || {
            runtime.block_on(async {
                signals.next().await;
                if let Some(stop) = set(None) {
                    stop();
                    let _ = timeout(GRACE, signals.next()).await;
                }
            });
            exit(i32::from(code()));
        })
        .map_err(failed)?;
    Ok(())
}

/// The signals that stop a command.
struct Signals {
    interrupted: tokio::signal::unix::Signal,
    terminated: tokio::signal::unix::Signal,
}

impl Signals {
    /// Waits for the next signal.
    async fn next(&mut self) {
        let code = tokio::select! {
            _ = self.interrupted.recv() => INTERRUPTED,
            _ = self.terminated.recv() => TERMINATED,
        };
        // The first signal gives the exit code.
        let _ = FIRST.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }
}
