//! Programs that a command starts: they end with the command, however it ends, and what they complained of is kept.
//!
//! A program is started by this binary, executed again: it asks the kernel for a signal at the death of its parent, and
//! becomes the program ([`become_child`]). So a command that is killed leaves nothing behind.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{self, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal};

/// The first argument of this binary that is to become another program.
const BECOME: &str = "--become-child-of";
/// Exit code of a program that cannot be executed, as a shell gives it.
const NOT_EXECUTED: i32 = 127;
/// Time from SIGTERM to SIGKILL.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two looks at a program that is to end.
const LOOK: Duration = Duration::from_millis(10);
/// Lines of standard error that are kept: the first ones, and all with the last ones; and bytes of each.
const FIRST: usize = 4;
const LINES: usize = 12;
const LINE: u64 = 500;

/// The program `name` with `args`, which the kernel ends when the thread that starts it ends. Its process group is its
/// own: Ctrl-C in the terminal is for the command, which then ends its children in order.
pub fn command(name: impl AsRef<OsStr>, args: impl IntoIterator<Item: AsRef<OsStr>>) -> Command {
    // Not the path: the file may have been replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(BECOME)
        .arg(process::id().to_string())
        .arg(name)
        .args(args)
        .process_group(0);
    command
}

/// Becomes another program, if the arguments of this process say so ([`command`]).
pub fn become_child(args: impl IntoIterator<Item = OsString>) {
    let mut args = args.into_iter().skip(1);
    if args.next().as_deref() != Some(OsStr::new(BECOME)) {
        return;
    }
    let (Some(parent), Some(name)) = (args.next(), args.next()) else {
        process::exit(2);
    };
    let refused = set_parent_process_death_signal(Some(Signal::KILL)).err();
    // It may have died before.
    let here = getppid().map(|it| it.as_raw_nonzero().to_string());
    if here.as_deref().map(str::as_bytes) != Some(parent.as_bytes()) {
        process::exit(0);
    }
    let error = match refused {
        Some(errno) => io::Error::from(errno),
        None => Command::new(&name).args(args).exec(),
    };
    eprintln!("{}: {error}", name.display());
    process::exit(NOT_EXECUTED);
}

/// What ends a program when this process dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnDeath {
    /// The kernel kills it.
    Killed,
    /// Its standard input ends, and it writes what is left.
    InputEnds,
}

/// Sends `signal` to the processes of a group; those that are gone already are as good.
pub fn signal_group(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}

/// What a program writes to standard error: its first and its last lines.
#[derive(Clone, Default, Debug)]
pub struct Said(Arc<Mutex<VecDeque<String>>>);

impl Said {
    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.held().iter().cloned().collect()
    }

    fn held(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &str) {
        let mut lines = self.held();
        if lines.len() == LINES {
            lines.remove(FIRST);
        }
        lines.push_back(line.to_owned());
    }
}

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Lines of its standard error.
    pub said: Vec<String>,
    /// This process ended it, for it did not end by itself.
    pub kill: Option<Kill>,
}

/// Why a program had to be ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kill {
    /// For this time it was waited for.
    pub after: Duration,
    /// It was stopped by a signal (SIGSTOP, Ctrl-Z).
    pub was_stopped: bool,
}

/// A running program whose standard error is kept. Dropping it ends it.
#[derive(Debug)]
pub struct Child {
    process: process::Child,
    group: Option<Pid>,
    said: Said,
    listener: Option<JoinHandle<()>>,
}

impl Child {
    /// Starts `name` with `args`. One that is to be killed ends with the thread that calls this.
    ///
    /// # Errors
    /// The system refuses a process or a thread.
    pub fn start(
        name: impl AsRef<OsStr>,
        args: impl IntoIterator<Item: AsRef<OsStr>>,
        (stdin, stdout): (Stdio, Stdio),
        on_death: OnDeath,
    ) -> io::Result<Child> {
        let mut command = match on_death {
            OnDeath::Killed => command(name, args),
            OnDeath::InputEnds => {
                let mut command = Command::new(name);
                command.args(args).process_group(0);
                command
            }
        };
        let mut process = command
            .stdin(stdin)
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()?;
        let group = Pid::from_raw(process.id().cast_signed());
        let said = Said::default();
        let stderr = process.stderr.take();
        let mut child = Child {
            process,
            group,
            said: said.clone(),
            listener: None,
        };
        if let Some(stderr) = stderr {
            let thread = thread::Builder::new().name("child".into());
            child.listener = Some(thread.spawn(move || keep(stderr, &said))?);
        }
        Ok(child)
    }

    /// What it reads, if that is a pipe.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.process.stdin.take()
    }

    /// What it writes, if that is a pipe.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.process.stdout.take()
    }

    /// The group of its processes, with which another thread can end it.
    pub fn group(&self) -> Option<Pid> {
        self.group
    }

    /// What it writes to standard error, now and later.
    pub fn said(&self) -> Said {
        self.said.clone()
    }

    /// Waits until it exits, for `limit` at most, and ends it then.
    ///
    /// # Errors
    /// The system refuses.
    pub fn wait_within(mut self, limit: Duration) -> io::Result<Ended> {
        let mut kill = None;
        if !self.exits_within(limit)? {
            kill = Some(Kill {
                after: limit,
                was_stopped: is_stopped(self.process.id()),
            });
            self.stop();
        }
        let status = self.process.wait()?;
        self.over();
        Ok(Ended {
            status,
            said: self.said.lines(),
            kill,
        })
    }

    fn exits_within(&mut self, limit: Duration) -> io::Result<bool> {
        let until = Instant::now() + limit;
        loop {
            if self.process.try_wait()?.is_some() {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            thread::sleep(LOOK);
        }
    }

    /// Asks it to end, and kills what does not follow.
    fn stop(&mut self) {
        let Some(group) = self.group else { return };
        signal_group(group, Signal::TERM);
        if !self.exits_within(PATIENCE).unwrap_or(false) {
            signal_group(group, Signal::KILL);
            let _ = self.process.wait();
        }
    }

    /// It has exited: what it started, and left running, is ended, so that standard error ends, too.
    fn over(&mut self) {
        if let Some(group) = self.group.take() {
            signal_group(group, Signal::KILL);
        }
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.stop();
        self.over();
    }
}

/// Whether a process is stopped by a signal, as Linux says in `/proc/PID/stat`, behind the name.
pub fn is_stopped(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|it| it.starts_with(['T', 't']))
}

/// Keeps lines of standard error, the beginning of each: a program may write without an end.
fn keep(stderr: ChildStderr, said: &Said) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut stderr).take(LINE).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            return;
        }
        if line.last() != Some(&b'\n') && stderr.skip_until(b'\n').is_err() {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if !text.is_empty() {
            said.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn shell(text: &str) -> Child {
        // The binary of the tests is not that of the command: what is started here does not go through it.
        let mut process = Command::new("sh")
            .args(["-c", text])
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let group = Pid::from_raw(process.id().cast_signed());
        let said = Said::default();
        let (stderr, kept) = (process.stderr.take().unwrap(), said.clone());
        Child {
            process,
            group,
            said,
            listener: Some(thread::spawn(move || keep(stderr, &kept))),
        }
    }

    #[test]
    fn the_first_lines_the_last_ones_and_the_status_are_known() {
        let child = shell("for i in $(seq 100); do echo line $i >&2; done; exit 3");
        let Ended { status, said, kill } = child.wait_within(SOON).unwrap();
        assert_eq!(kill, None);
        assert_eq!(status.code(), Some(3));
        assert_eq!(said.len(), LINES);
        assert_eq!([&*said[0], &*said[LINES - 1]], ["line 1", "line 100"]);
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let child = shell("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo last >&2");
        let Ended { said, .. } = child.wait_within(SOON).unwrap();
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!((said[0].len() as u64, &*said[1]), (LINE, "last"));
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_and_what_it_left_running_too() {
        let begun = Instant::now();
        let child = shell("trap '' TERM; sleep 60 & while :; do sleep 1; done");
        thread::sleep(Duration::from_millis(200));
        let Ended { status, kill, .. } = child.wait_within(Duration::ZERO).unwrap();
        assert_eq!(status.code(), None);
        assert!(kill.is_some_and(|kill| !kill.was_stopped));
        assert!(begun.elapsed() < SOON);
        // What it started holds its standard error: without its end `wait` would not have returned.
        let begun = Instant::now();
        let Ended { status, .. } = shell("sleep 60 & exit 0").wait_within(SOON).unwrap();
        assert!(status.success() && begun.elapsed() < SOON);
    }

    #[test]
    fn a_program_that_is_stopped_is_killed_and_said_to_be_stopped() {
        let child = shell("kill -STOP $$");
        let until = Instant::now() + SOON;
        while !is_stopped(child.process.id()) {
            assert!(Instant::now() < until);
            thread::sleep(LOOK);
        }
        let ended = child.wait_within(Duration::from_millis(10)).unwrap();
        assert!(ended.kill.is_some_and(|kill| kill.was_stopped), "{ended:?}");
    }
}
