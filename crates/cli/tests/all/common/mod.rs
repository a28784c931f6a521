//! Running the binary, and the clip that the tests stream.
#![allow(
    dead_code,
    unused_imports,
    reason = "every test file uses its own part"
)]

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// For tests whose answer is that of a machine in time: one that has something else to do may miss it, three times in a row it does
/// not. What does not depend on the clock is tested in virtual time.
pub use flaky_test::flaky_test as real_time;

/// A port of TCP and UDP that is free, and stays free until a program listens there: no system gives ports below 32768 to a socket
/// that asks for any. It is even, as RTP wants it.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Other test programs run beside this one.
    let begin = std::process::id() % 4_096;
    loop {
        let next = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + 2 * ((begin + next) % 6_000) as u16;
        let address = ("127.0.0.1", port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return port;
        }
    }
}

/// The `layercast` command.
pub fn layercast() -> Command {
    Command::new(env!("CARGO_BIN_EXE_layercast"))
}

/// Runs `layercast` with `args` to its end, which has to come within two minutes.
pub fn run(args: &[&str]) -> Output {
    let child = layercast()
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let id = child.id();
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let args = format!("{args:?}");
    let watchdog = std::thread::spawn(move || {
        if ended.recv_timeout(Duration::from_secs(120)).is_err() {
            let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
            panic!("still running after two minutes: {args}");
        }
    });
    let output = child.wait_with_output().expect("the binary ends");
    let _ = done.send(());
    watchdog.join().expect("the end in time");
    output
}

/// Standard output as JSON.
pub fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!(
            "{error} in {text:?}, {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// A result on standard output, but for the one value in which two runs of the same differ.
pub fn without_clock(output: &Output) -> Value {
    let mut result = json(output);
    result["wall_seconds"] = Value::Null;
    result
}

/// The length of the next datagram; a machine that was halted meanwhile is no reason to fail.
pub fn recv(socket: &UdpSocket, buffer: &mut [u8]) -> usize {
    loop {
        match socket.recv(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            got => return got.expect("a datagram in time"),
        }
    }
}

/// The records of a trace.
pub fn records(trace: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(trace).expect("the trace");
    let records = text.split('\u{1e}').skip(1);
    records
        .map(|it| serde_json::from_str(it).expect("JSON"))
        .collect()
}

/// Standard error as text.
pub fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A path in the repository.
pub fn repository(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

/// A folder of its own for the test `name`, empty.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// Whether ffmpeg can be used; a test that needs it says so and is left out otherwise.
pub fn have_ffmpeg() -> bool {
    let found = Command::new("ffmpeg").arg("-version").output().is_ok();
    let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(found || !required, "ffmpeg is missing");
    if !found {
        eprintln!("left out: ffmpeg is missing");
    }
    found
}

/// A clip of MPEG-1 video with GOPs of 12 pictures and two B pictures, 25 pictures a second.
pub fn make_clip(folder: &Path, seconds: u32) -> String {
    let clip = folder.join("clip.m1v");
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y", "-f", "lavfi"])
        .args([
            "-i",
            &format!("testsrc2=size=160x120:rate=25:duration={seconds}"),
        ])
        .args(["-c:v", "mpeg1video", "-q:v", "8", "-g", "12", "-bf", "2"])
        .args(["-sc_threshold", "1000000000"])
        .arg(&clip)
        .status();
    assert!(made.expect("ffmpeg runs").success());
    clip.display().to_string()
}

/// The messages of ffmpeg in strict mode about `stream`, and the number of pictures it decodes.
pub fn decode(stream: &Path) -> (String, u64) {
    let file = std::fs::File::open(stream).expect("the stream is there");
    let output = Command::new("ffmpeg")
        .args(["-v", "warning", "-xerror", "-progress", "pipe:1"])
        .args(["-i", "pipe:0", "-map", "0:v"])
        .args(["-fps_mode", "passthrough", "-f", "null", "-"])
        .stdin(file)
        .output()
        .expect("ffmpeg runs");
    let progress = String::from_utf8_lossy(&output.stdout);
    let mut frames = progress
        .lines()
        .filter_map(|line| line.strip_prefix("frame="));
    let pictures = frames.next_back().and_then(|n| n.trim().parse().ok());
    (complaint(&output), pictures.unwrap_or(0))
}

/// A running node; killed when the test ends.
pub struct Running {
    pub child: Child,
    /// Where it listens.
    pub address: String,
    /// How to call it, if it is a node.
    pub url: String,
    lines: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a server or switch with `--json`, and waits until it is ready.
    pub fn start(args: &[&str]) -> Running {
        Running::start_with(args, Stdio::null())
    }

    /// The same at an address of its own, as after a restart.
    pub fn start_at(args: &[&str], address: &str) -> Running {
        Running::launch(layercast(), args, address, Stdio::null())
    }

    /// The same with something on its standard input.
    pub fn start_with(args: &[&str], stdin: Stdio) -> Running {
        Running::launch(layercast(), args, "127.0.0.1:0", stdin)
    }

    /// The same by a command that runs the binary.
    pub fn start_by(command: Command, args: &[&str]) -> Running {
        Running::launch(command, args, "127.0.0.1:0", Stdio::null())
    }

    fn launch(mut command: Command, args: &[&str], address: &str, stdin: Stdio) -> Running {
        let mut child = command
            .args(args)
            .args(["--listen", address, "--json"])
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stdout = child.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(stdout);
        let ready = loop {
            let mut line = String::new();
            lines.read_line(&mut line).expect("a line");
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
                let mut stderr = String::new();
                if let Some(mut pipe) = child.stderr.take() {
                    let _ = pipe.read_to_string(&mut stderr);
                }
                panic!("{error} in {line:?}; {stderr}")
            });
            // A live input is looked at first, and tells so.
            if line["report"] == "ready" {
                break line;
            }
            assert_eq!(line["report"], "event");
        };
        let address = ready["address"].as_str().expect("an address").to_owned();
        let url = ready["url"].as_str().unwrap_or_default().to_owned();
        Running {
            child,
            address,
            url,
            lines,
        }
    }

    /// Waits for an event whose text contains `part`, and gives the text.
    pub fn wait_for_event(&mut self, part: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("a line");
            assert!(read > 0, "ended before {part:?}");
            let line: Value = serde_json::from_str(&line).expect("JSON");
            if let Some(text) = line["text"].as_str().filter(|text| text.contains(part)) {
                return text.to_owned();
            }
        }
    }
}

impl Running {
    /// Waits for a line of the kind `report` that `fits`, and gives it.
    pub fn wait_for_report(&mut self, report: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("a line");
            assert!(read > 0, "ended before {report:?}");
            let line: Value = serde_json::from_str(&line).expect("JSON");
            if line["report"] == report && fits(&line) {
                return line;
            }
        }
    }

    /// Waits for the end of its output, and gives the last line.
    pub fn last_line(&mut self) -> Value {
        let lines = self.lines.by_ref().lines().map_while(Result::ok);
        serde_json::from_str(&lines.last().expect("a line")).expect("JSON")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends the signal `name` to `child`.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
}

/// The exit code of `child`, which has to end within `limit`.
pub fn ends_within(child: &mut Child, limit: Duration) -> Option<i32> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status.code();
        }
        if started.elapsed() > limit {
            let _ = child.kill();
            panic!("still running after {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
