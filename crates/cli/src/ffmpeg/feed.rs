//! The bytes that ffmpeg makes of an input, over its restarts.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};
use tokio::sync::mpsc;

use super::Ffmpeg;
use super::complaint::{self, Complaint};
use super::file;
use super::input::{Carries, Input, Kind};
use crate::child::{self, Child, Said, signal_group};
use crate::failure::Failure;

/// Bytes by which a transport stream is recognised, including bytes before its first packet.
const SNIFF: usize = 2_048;
/// Least time between two starts, and the most that it grows to while nothing comes.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Starts without media, one right after the other, before the first media: then it is no use.
const HOPELESS: u32 = 5;
/// Time that a child gets to exit once its output has ended.
const EXIT_WITHIN: Duration = Duration::from_secs(2);
/// Time in which ffmpeg says of the first bytes of a transport stream that it does not carry their codec.
const SAID_WITHIN: Duration = Duration::from_millis(50);
/// Messages that wait to be reported.
const MESSAGES: usize = 32;

/// How an input is to be read.
pub struct Plan {
    /// The program.
    pub ffmpeg: Ffmpeg,
    /// What it opens.
    pub input: Input,
    /// Arguments of the whole call, in place of those that keep the media as they are: what encodes, for example.
    pub args: Option<Vec<OsString>>,
    /// What it reads on standard input, if that is its input.
    pub stdin: Option<Box<dyn Read + Send>>,
    /// After a failure a caller calls again for this time.
    pub patience: Duration,
    /// For how long nothing may come, if that is limited: then the program is killed.
    pub silence: Option<Duration>,
}

/// What a feed and its owner know of one another.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopping: bool,
    /// The groups of processes that run.
    groups: Vec<Pid>,
    /// What the program said that makes the stream.
    said: Option<Said>,
    failure: Option<Failure>,
    restarts: u64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That the input ends or breaks off inside a packet, if the program said so.
    fn torn(&self, name: &str) -> Option<String> {
        let said = self.state().said.clone();
        complaint::torn(name, &said?.lines())
    }
}

/// The owner's end of a feed.
pub struct Control {
    shared: Arc<Shared>,
    messages: mpsc::Receiver<String>,
}

impl Control {
    /// The next message: senders that come and go. Never, if there are no more.
    pub async fn message(&mut self) -> String {
        match self.messages.recv().await {
            Some(text) => text,
            None => std::future::pending().await,
        }
    }

    /// Why the feed ended, if it failed.
    pub fn failure(&self) -> Option<Failure> {
        self.shared.state().failure.take()
    }

    /// Codecs of the input that a transport stream does not carry so that players understand it.
    pub fn foreign_codecs(&self) -> Vec<String> {
        let said = self.shared.state().said.clone();
        said.map_or_else(Vec::new, |said| complaint::foreign_codecs(&said.lines()))
    }

    /// That the input ends or breaks off inside a packet, if the program said so; to be asked when the feed is over.
    pub fn torn(&self, name: &str) -> Option<String> {
        self.shared.torn(name)
    }

    /// The process that is stopped by a signal (SIGSTOP, Ctrl-Z), if one is.
    pub fn stopped(&self) -> Option<i32> {
        let state = self.shared.state();
        let processes = state.groups.iter().map(|it| it.as_raw_nonzero().get());
        processes
            .into_iter()
            .find(|&process| process > 0 && child::is_stopped(process.cast_unsigned()))
    }

    /// How often the program was started again.
    pub fn restarts(&self) -> u64 {
        self.shared.state().restarts
    }

    /// Ends the program; the feed ends with it.
    pub fn stop(&self) {
        let mut state = self.shared.state();
        state.stopping = true;
        for group in state.groups.drain(..) {
            signal_group(group, Signal::KILL);
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The program at work.
struct Life {
    children: Vec<Child>,
    output: Output,
    /// Bytes that were looked at and not yet given.
    first: io::Cursor<Vec<u8>>,
    began: Instant,
    came: bool,
}

/// What a program writes, for which a limited time is waited.
struct Output {
    pipe: ChildStdout,
    silence: Option<Duration>,
    /// Nothing came for that time.
    hangs: bool,
}

/// What ffmpeg makes of an input: a transport stream, or IVF. It is read on one thread from start to end, and the program ends
/// with that thread.
pub struct Feed {
    plan: Plan,
    shared: Arc<Shared>,
    messages: mpsc::Sender<String>,
    life: Option<Life>,
    /// Media came in some life.
    came: bool,
    last_came: Instant,
    /// When the program was started last.
    started: Option<Instant>,
    /// Lives in a row without media.
    barren: u32,
    /// The bytes of the input are no transport stream: its media are asked for.
    is_remuxed: bool,
    over: bool,
    /// That it failed was returned.
    told: bool,
}

impl Feed {
    /// A feed that starts when it is read.
    pub fn new(plan: Plan) -> (Feed, Control) {
        let shared = Arc::<Shared>::default();
        let (messages, heard) = mpsc::channel(MESSAGES);
        let control = Control {
            shared: Arc::clone(&shared),
            messages: heard,
        };
        let feed = Feed {
            plan,
            shared,
            messages,
            life: None,
            came: false,
            last_came: Instant::now(),
            started: None,
            barren: 0,
            is_remuxed: false,
            over: false,
            told: false,
        };
        (feed, control)
    }

    fn tell(&self, text: String) {
        // Somebody who does not listen has other worries.
        let _ = self.messages.try_send(text);
    }

    /// Waits until the program may be started; `false` if it is to end.
    fn may_start(&self) -> bool {
        let pause = (PAUSE * (1 << self.barren.min(3))).min(LONGEST_PAUSE);
        let due = self.started.map(|at| at + pause);
        let mut state = self.shared.state();
        loop {
            if state.stopping {
                return false;
            }
            let left = due.map_or(Duration::ZERO, |at| {
                at.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return true;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Starts ffmpeg, which [`Control::stop`] can end from then on.
    fn spawn(&self, args: &[OsString], stdin: Stdio) -> Result<Child, Failure> {
        let child = self.plan.ffmpeg.start(args, (stdin, Stdio::piped()))?;
        let mut state = self.shared.state();
        state.said = Some(child.said());
        if let Some(group) = child.group() {
            state.groups.push(group);
            if state.stopping {
                signal_group(group, Signal::KILL);
            }
        }
        Ok(child)
    }

    /// Begins a life.
    fn begin(&mut self) -> Result<Life, Failure> {
        self.started = Some(Instant::now());
        let input = &self.plan.input;
        let passes =
            self.plan.args.is_none() && !self.is_remuxed && input.carries != Carries::Media;
        let args = match &self.plan.args {
            Some(args) => args.clone(),
            None if passes => input.passed(),
            None => input.remuxed(),
        };
        let source = self.plan.stdin.take();
        let stdin = match source {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        };
        let mut child = self.spawn(&args, stdin)?;
        if let (Some(source), Some(stdin)) = (source, child.stdin()) {
            pump(source, stdin)?;
        }
        let mut life = Life::new(child, self.plan.silence)?;
        if passes {
            life.sniff();
            if !life.is_served() {
                self.reinterpret(&mut life)?;
            }
        }
        Ok(life)
    }

    /// What came is no transport stream: has its media put into one, or into IVF.
    fn reinterpret(&mut self, life: &mut Life) -> Result<(), Failure> {
        let name = &self.plan.input.name;
        if let Some(said) = file::silence_of(name, life.first.get_ref()) {
            self.tell(said);
        }
        let is_bare = file::is_bare(life.first.get_ref()) == Some(true);
        if self.plan.input.carries == Carries::Seekable {
            self.is_remuxed = true;
            self.plan.input.is_bare = is_bare;
            let child = self.spawn(&self.plan.input.remuxed(), Stdio::null())?;
            *life = Life::new(child, self.plan.silence)?;
            return Ok(());
        }
        let mut piped = Input::piped(&self.plan.input.name);
        piped.is_bare = is_bare;
        let mut child = self.spawn(&piped.remuxed(), Stdio::piped())?;
        let mut inner = Output::of(&mut child, self.plan.silence)?;
        std::mem::swap(&mut inner, &mut life.output);
        let first = std::mem::take(&mut life.first);
        if let Some(stdin) = child.stdin() {
            pump(Box::new(first.chain(inner)), stdin)?;
        }
        life.children.push(child);
        Ok(())
    }

    /// Whether the media that begin to come are of a codec that a transport stream does not carry, and IVF does: then they are
    /// asked for again, if that is possible.
    fn turns_to_ivf(&mut self) -> bool {
        let input = &self.plan.input;
        let is_remuxed = self.is_remuxed || input.carries == Carries::Media;
        let can_turn = self.plan.args.is_none() && is_remuxed && !input.is_bare;
        if !can_turn || input.kind == Kind::Stored || self.came {
            return false;
        }
        thread::sleep(SAID_WITHIN);
        let said = self.shared.state().said.clone();
        let codecs = said.map_or_else(Vec::new, |it| complaint::foreign_codecs(&it.lines()));
        let Some(silence) = file::silence_of_codecs(&input.name, &codecs) else {
            return false;
        };
        self.tell(silence);
        self.plan.input.is_bare = true;
        for group in self.shared.state().groups.drain(..) {
            signal_group(group, Signal::KILL);
        }
        true
    }

    /// A life ended; `true` if another one is to begin.
    fn ended(&mut self, life: Life) -> bool {
        let (came, began) = (life.came, life.began);
        let complaints = life.end();
        {
            let mut state = self.shared.state();
            state.groups.clear();
            if state.stopping {
                return false;
            }
        }
        self.barren = match came {
            true => 0,
            false => self.barren + 1,
        };
        // The last one reads what the one before it gives.
        let failed = complaints.iter().rev().find(|it| !it.is_fine());
        let name = &self.plan.input.name;
        let why = |it: Option<&Complaint>| {
            it.map_or_else(String::new, |it| format!(": {}", it.in_words()))
        };
        match self.plan.input.kind {
            Kind::Stored => {
                if let Some(torn) = self.shared.torn(name) {
                    self.tell(torn);
                }
                self.fail_if(failed)
            }
            Kind::Caller => {
                let is_over = failed.is_none();
                let has_patience = self.came && self.last_came.elapsed() < self.plan.patience;
                if is_over || !has_patience {
                    return self.fail_if(failed);
                }
                if came {
                    self.tell(format!("{name} was lost{}; calling it again", why(failed)));
                }
                self.again()
            }
            Kind::Listener => {
                let is_quick = began.elapsed() < PAUSE;
                let is_hopeless = failed.is_some_and(Complaint::is_final)
                    || failed.is_some() && is_quick && self.barren >= HOPELESS;
                if !self.came && is_hopeless {
                    return self.fail_if(failed);
                }
                let killed = failed.filter(|it| it.was_killed());
                match (came, killed) {
                    (true, Some(killed)) => self.tell(format!(
                        "{name} is not received any more: {} ({}); waiting for the sender again",
                        killed.in_words(),
                        killed.remedy(&self.plan.ffmpeg, name)
                    )),
                    (true, None) => self.tell(format!(
                        "the sender at {name} left; waiting for the next one"
                    )),
                    // It is tried again and again; what is wrong is said once.
                    (false, _) if self.barren == 1 => {
                        self.tell(format!(
                            "no media came at {name}{}; waiting again",
                            why(failed)
                        ));
                    }
                    (false, _) => {}
                }
                self.again()
            }
        }
    }

    fn again(&self) -> bool {
        self.shared.state().restarts += 1;
        true
    }

    /// The end; a failure if there was one.
    fn fail_if(&self, complaint: Option<&Complaint>) -> bool {
        if let Some(complaint) = complaint {
            let failure = complaint.failure(&self.plan.ffmpeg, "read", &self.plan.input.name);
            self.shared.state().failure = Some(failure);
        }
        false
    }
}

impl Read for Feed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.over {
            let Some(life) = &mut self.life else {
                if !self.may_start() {
                    self.over = true;
                    break;
                }
                match self.begin() {
                    Ok(life) => self.life = Some(life),
                    Err(failure) => {
                        self.shared.state().failure = Some(failure);
                        self.over = true;
                    }
                }
                continue;
            };
            let is_first = !life.came;
            match life.read(buffer) {
                Ok(1..) if is_first && self.turns_to_ivf() => {
                    if let Some(life) = self.life.take() {
                        life.end();
                    }
                }
                Ok(len @ 1..) => {
                    if let Some(life) = &mut self.life {
                        life.came = true;
                    }
                    if is_first && std::mem::replace(&mut self.came, true) {
                        let name = &self.plan.input.name;
                        let restarts = self.shared.state().restarts;
                        self.tell(format!("media come at {name} again (restart {restarts})"));
                    }
                    self.last_came = Instant::now();
                    return Ok(len);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => {
                    if let Some(life) = self.life.take() {
                        self.over = !self.ended(life);
                    }
                }
            }
        }
        // A failure is not the end of the media; its owner says what it is.
        match self.shared.state().failure.is_some() && !std::mem::replace(&mut self.told, true) {
            true => Err(io::Error::other("ffmpeg failed")),
            false => Ok(0),
        }
    }
}

impl Life {
    fn new(mut child: Child, silence: Option<Duration>) -> Result<Life, Failure> {
        Ok(Life {
            output: Output::of(&mut child, silence)?,
            children: vec![child],
            first: io::Cursor::default(),
            began: Instant::now(),
            came: false,
        })
    }

    /// Reads the first bytes, and keeps them.
    fn sniff(&mut self) {
        let mut first = Vec::new();
        // An error comes again when it is read on.
        let _ = (&mut self.output)
            .take(SNIFF as u64)
            .read_to_end(&mut first);
        self.first = io::Cursor::new(first);
    }

    /// Whether the first bytes are those of a transport stream, or of IVF; nothing at all is no other form.
    fn is_served(&self) -> bool {
        let first = self.first.get_ref();
        first.is_empty() || layercast_media::comes_live(first)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.first.read(buffer)? {
            0 => self.output.read(buffer),
            len => Ok(len),
        }
    }

    /// Waits for the end of the programs, and says how they ended.
    fn end(self) -> Vec<Complaint> {
        let waited = self.output.silence.filter(|_| self.output.hangs);
        drop(self.output);
        let ended = self.children.into_iter().filter_map(|child| {
            let within = waited.map_or(EXIT_WITHIN, |_| Duration::ZERO);
            let mut ended = child.wait_within(within).ok()?;
            if let (Some(kill), Some(waited)) = (&mut ended.kill, waited) {
                kill.after = waited;
            }
            Some(Complaint::new(&ended))
        });
        ended.collect()
    }
}

impl Output {
    fn of(child: &mut Child, silence: Option<Duration>) -> Result<Output, Failure> {
        let pipe = child.stdout();
        Ok(Output {
            pipe: pipe.ok_or_else(|| Failure::new("ffmpeg has no standard output"))?,
            silence,
            hangs: false,
        })
    }
}

impl Read for Output {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(silence) = self.silence {
            let mut pipe = [PollFd::new(&self.pipe, PollFlags::IN)];
            let limit = Timespec::try_from(silence).map_err(io::Error::other)?;
            if poll(&mut pipe, Some(&limit))? == 0 {
                self.hangs = true;
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        self.pipe.read(buffer)
    }
}

/// Writes all of `source` to the standard input of a program, on a thread of its own.
fn pump(mut source: Box<dyn Read + Send>, mut stdin: ChildStdin) -> Result<(), Failure> {
    let thread = thread::Builder::new().name("pump".into());
    thread
        .spawn(move || {
            // Flushed piece by piece: media are to come now.
            let mut buffer = [0; 16 * 1_024];
            while let Ok(len @ 1..) = source.read(&mut buffer) {
                if stdin.write_all(&buffer[..len]).is_err() {
                    return;
                }
            }
        })
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    Ok(())
}
