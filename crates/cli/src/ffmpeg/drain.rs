//! A stream that ffmpeg writes somewhere.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use layercast_media::{OutputForm, has_aac};
use layercast_net::lock_output;

use super::complaint::Complaint;
use super::{Ffmpeg, input};
use crate::child::{Child, OnDeath};
use crate::failure::Failure;
use crate::{scheme, secret};

/// Time that ffmpeg gets to write the end of a file, or to close a connection.
const CLOSES_WITHIN: Duration = Duration::from_secs(30);

/// An output of ffmpeg.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// What the user wrote, without passwords.
    pub name: String,
    /// Frames are shown as they arrive.
    pub is_player: bool,
    /// What is written to it.
    pub form: OutputForm,
    /// The file that is written, if it is one.
    file: Option<PathBuf>,
    /// Sound is described before it comes, and AAC in transport streams describes itself.
    describes_sound: bool,
    args: Vec<OsString>,
}

/// The form of the media on standard input: by the first bytes it is another one.
const TRANSPORT: &str = "mpegts";
const IVF: &str = "ivf";
/// Options that read media from standard input, for as long as their streams need to be known.
///
/// Time stamps begin again where the source does. ffmpeg moves them where those of one stream go back, and undoes that for the
/// last picture of before, which it reads behind the first sound of after, only from a threshold on (10 s by default):
/// below it, it moves them twice, and all of the file is that much later.
const READ: [&str; 10] = [
    "-dts_delta_threshold",
    "3",
    "-fpsprobesize",
    "0",
    "-f",
    TRANSPORT,
    "-i",
    "pipe:0",
    "-c",
    "copy",
];
/// Options that pass a transport stream on as it is, in datagrams of seven packets.
const PASS: [&str; 14] = [
    "-f",
    "data",
    "-raw_packet_size",
    "1316",
    "-i",
    "pipe:0",
    "-map",
    "0",
    "-c",
    "copy",
    "-flush_packets",
    "1",
    "-f",
    "data",
];

/// The filter and the format of ffmpeg for video without a container, by the ending of the name of the file; the filters refuse another codec.
pub fn bare_video(extension: &str) -> Option<(&'static str, &'static str)> {
    match &*extension.to_ascii_lowercase() {
        "h264" | "264" | "avc" => Some(("h264_mp4toannexb", "h264")),
        "h265" | "265" | "hevc" => Some(("hevc_mp4toannexb", "hevc")),
        "m2v" => Some(("mpeg2_metadata", "mpeg2video")),
        _ => None,
    }
}

impl Target {
    /// A file of another container, or a URL of any protocol.
    pub fn new(out: &Path) -> Target {
        let name = out.display().to_string();
        let Some(scheme) = out.to_str().and_then(scheme::scheme) else {
            let bare = out.extension().and_then(|it| bare_video(it.to_str()?));
            let all: &[&str] = match bare {
                Some((filter, format)) => &["-map", "0:v:0", "-bsf:v", filter, "-f", format, "-y"],
                None => &["-map", "0:v?", "-map", "0:a?", "-y"],
            };
            return Target {
                name,
                is_player: false,
                form: OutputForm::Container,
                file: Some(out.to_owned()),
                describes_sound: false,
                // Not a protocol, whatever the file is called.
                args: with(&[&READ, all], input::file_name(out)),
            };
        };
        let scheme = scheme.to_ascii_lowercase();
        let url = input::opened(&name);
        let name = secret::hidden(&name).into_owned();
        let rtsp = ["-rtsp_transport", "tcp", "-f", "rtsp"];
        let (form, args) = match &*scheme {
            _ if scheme.starts_with("rtmp") => {
                let live = ["-flvflags", "no_duration_filesize", "-f", "flv"];
                (OutputForm::Transport, with(&[&READ, &live], url))
            }
            "rtsp" | "rtsps" => (OutputForm::Container, with(&[&READ, &rtsp], url)),
            _ => (OutputForm::Transport, with(&[&PASS], url)),
        };
        Target {
            name,
            is_player: true,
            form,
            file: None,
            describes_sound: scheme.starts_with("rtsp"),
            args,
        }
    }
}

impl Target {
    /// The arguments for media that begin with these bytes.
    fn args(&self, first: &[u8]) -> Vec<OsString> {
        let is_ivf = first.starts_with(b"DKIF");
        let of = |arg: &OsString| match is_ivf && arg == TRANSPORT {
            true => IVF.into(),
            false => arg.clone(),
        };
        let mut args: Vec<OsString> = self.args.iter().map(of).collect();
        // Its filter aac_adtstoasc gives the description with the first packet, which is too late for RTSP.
        if self.describes_sound && has_aac(first) {
            let encoded = ["-c:a", "aac"].map(OsString::from);
            args.splice(args.len() - 1..args.len() - 1, encoded);
        }
        args
    }
}

fn with(options: &[&[&str]], last: OsString) -> Vec<OsString> {
    let options = options.iter().copied().flatten().map(OsString::from);
    options.chain([last]).collect()
}

#[derive(Default)]
struct State {
    child: Option<Child>,
    stdin: Option<ChildStdin>,
    /// The file that ffmpeg writes: no other command of Layercast writes or serves it meanwhile.
    locked: Option<File>,
    failure: Option<Failure>,
    /// Nothing is written any more.
    is_over: bool,
}

/// The owner's end of an output of ffmpeg.
#[derive(Clone)]
pub struct Drain {
    ffmpeg: Ffmpeg,
    target: Target,
    state: Arc<Mutex<State>>,
}

impl Drain {
    /// An output that begins when something is written.
    ///
    /// # Errors
    /// ffmpeg is missing.
    pub fn new(target: Target) -> Result<Drain, Failure> {
        let ffmpeg = Ffmpeg::find(&format!("--out {}", target.name))?;
        Ok(Drain {
            ffmpeg,
            target,
            state: Arc::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the output, waits until ffmpeg has written its end, and says what failed.
    ///
    /// # Errors
    /// ffmpeg did not start, or ended with an error, or before the stream.
    pub fn finish(&self) -> Result<(), Failure> {
        let (child, was_over, _locked) = {
            let mut state = self.state();
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            state.stdin = None;
            (
                state.child.take(),
                std::mem::replace(&mut state.is_over, true),
                // Until ffmpeg has ended.
                state.locked.take(),
            )
        };
        let Some(child) = child else { return Ok(()) };
        let name = &self.target.name;
        let ended = child
            .wait_within(CLOSES_WITHIN)
            .map_err(|error| Failure::new(format!("cannot write {name}: {error}")))?;
        let complaint = Complaint::new(&ended);
        if complaint.is_fine() && !was_over {
            return Ok(());
        }
        self.remove_empty();
        Err(complaint.failure(&self.ffmpeg, "write", name))
    }

    /// Removes a file in which ffmpeg has written nothing: it fails before the header of a container that does not carry the codec.
    fn remove_empty(&self) {
        let Some(path) = &self.target.file else {
            return;
        };
        let is_empty = |meta: Metadata| meta.is_file() && meta.len() == 0;
        if path.symlink_metadata().is_ok_and(is_empty) {
            // What stays is an empty file.
            let _ = fs::remove_file(path);
        }
    }

    /// The writer of the stream; [`Drain::finish`] says how it ended.
    pub fn writer(&self) -> impl Write + Send + 'static {
        Pour(self.clone())
    }

    /// Starts ffmpeg: it ends by the end of its input, also if this process is killed, and so a file is whole.
    fn start(&self, first: &[u8]) -> Result<(Child, ChildStdin, Option<File>), Failure> {
        let locked = match &self.target.file {
            Some(path) => {
                lock_output(path).map_err(|error| Failure::file(path, "write", &error))?
            }
            None => None,
        };
        let streams = (Stdio::piped(), Stdio::null());
        let args = self.target.args(first);
        let mut child = self.ffmpeg.start_with(args, streams, OnDeath::InputEnds)?;
        let none = || Failure::new("ffmpeg has no standard input");
        let stdin = child.stdin().ok_or_else(none)?;
        Ok((child, stdin, locked))
    }
}

/// Writes to ffmpeg.
struct Pour(Drain);

impl Write for Pour {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stdin = {
            let mut state = self.0.state();
            if state.is_over {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if state.child.is_none() {
                match self.0.start(bytes) {
                    Ok((child, stdin, locked)) => {
                        state.locked = locked;
                        state.child = Some(child);
                        state.stdin = Some(stdin);
                    }
                    Err(failure) => {
                        state.failure = Some(failure);
                        state.is_over = true;
                        return Err(io::ErrorKind::BrokenPipe.into());
                    }
                }
            }
            state.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?
        };
        // Without the lock: it waits for a slow program.
        let written = stdin.write(bytes);
        let mut state = self.0.state();
        match &written {
            // The owner has closed it meanwhile.
            Ok(_) if state.is_over => {}
            Ok(_) => state.stdin = Some(stdin),
            Err(_) => state.is_over = true,
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pour {
    fn drop(&mut self) {
        self.0.state().stdin = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transport stream of 5 s with pictures and sound, by ffmpeg.
    fn life(ffmpeg: &Ffmpeg) -> Vec<u8> {
        let lavfi = ["-f", "lavfi", "-i"];
        let video = ["testsrc=s=160x120:r=25:d=5"];
        let sound = ["sine=d=5"];
        let coded = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "1"];
        let muxed = ["-c:a", "aac", "-f", "mpegts", "pipe:1"];
        let args = [&lavfi[..], &video, &lavfi, &sound, &coded, &muxed].concat();
        let streams = (Stdio::null(), Stdio::piped());
        let mut child = ffmpeg
            .start_with(args, streams, OnDeath::InputEnds)
            .expect("ffmpeg starts");
        let mut made = Vec::new();
        let mut stdout = child.stdout().expect("a pipe");
        io::Read::read_to_end(&mut stdout, &mut made).expect("a stream");
        made
    }

    #[test]
    fn a_file_over_a_restart_of_its_source_has_no_hole() {
        let Ok(ffmpeg) = Ffmpeg::find("a test") else {
            println!("left out: there is no ffmpeg");
            return;
        };
        let first = life(&ffmpeg);
        // The second life comes with sound first: the last picture of the first one is read behind it.
        let pid = |packet: &[u8]| u16::from(packet[1] & 31) << 8 | u16::from(packet[2]);
        let packets = || first.chunks_exact(188);
        let sound = packets().position(|it| pid(it) == 0x101);
        let sound = sound.expect("sound");
        let second = packets().enumerate();
        let second = second.filter(|&(at, it)| at >= sound || pid(it) != 0x100);
        let second: Vec<u8> = second.flat_map(|(_, it)| it).copied().collect();
        let out =
            std::env::temp_dir().join(format!("layercast-restart-{}.mp4", std::process::id()));
        let drain = Drain::new(Target::new(&out)).expect("ffmpeg is there");
        let mut pour = drain.writer();
        pour.write_all(&first).expect("it is read");
        pour.write_all(&second).expect("it is read");
        drop(pour);
        let finished = drain.finish();
        let asked = std::process::Command::new("ffprobe")
            .args([
                "-v",
                "error",
                "-show_entries",
                "format=duration",
                "-of",
                "csv=p=0",
            ])
            .arg(&out)
            .output();
        let _ = fs::remove_file(&out);
        finished.expect("it is whole");
        let asked = asked.expect("ffprobe runs").stdout;
        let seconds = String::from_utf8_lossy(&asked);
        let seconds: f64 = seconds.trim().parse().expect("a duration");
        assert!((9.0..10.5).contains(&seconds), "{seconds} s");
    }

    #[test]
    fn an_output_goes_where_its_name_says() {
        let args = |out: &str| {
            let target = Target::new(Path::new(out));
            let args: Vec<String> = target
                .args
                .iter()
                .map(|it| it.to_string_lossy().into_owned())
                .collect();
            (target.is_player, args.join(" "))
        };
        let url = "rtmp://ann:pw@host/live?token=x";
        let target = Target::new(Path::new(url));
        assert_eq!(target.name, "rtmp://ann:***@host/live?token=***");
        assert_eq!(target.args.last(), Some(&url.into()));
        let file = Target::new(Path::new("mpegts.webm"));
        assert_eq!(file.form, OutputForm::Container);
        assert_eq!(file.args(b"DKIF")[5], "ivf");
        assert_eq!(file.args(b"G@\0\x10")[5], "mpegts");
        let (is_player, said) = args("tee:a.mp4");
        assert!(!is_player && said.ends_with("-y file:tee:a.mp4"), "{said}");
        let (is_player, said) = args("rtmp://host/live");
        assert!(
            is_player && said.ends_with("-f flv rtmp://host/live"),
            "{said}"
        );
        let (_, said) = args("srt://:9000");
        assert!(
            said.ends_with("-f data srt://0.0.0.0:9000?mode=listener"),
            "{said}"
        );
        assert!(
            said.starts_with("-f data -raw_packet_size 1316 -i pipe:0"),
            "{said}"
        );
    }
}
