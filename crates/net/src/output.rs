use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use layercast_core::{PerLayer, Serial};
use layercast_fec::SmpteConfig;
use layercast_media::{OutputForm, Undecodable, WriterStats};
use layercast_mets::{PlayedFrame, StreamKind};
use layercast_wire::FlowInfo;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::error::NetError;
use crate::file_out::FileOut;
use crate::writing::{DatagramOut, Item, Outlet, Parities, write_stream};

/// Frames that wait for a slow reader, some seconds of video; more are dropped.
const QUEUE: usize = 256;
/// How long a reader that does not read gets at the end.
const FINISH_WITHIN: Duration = Duration::from_secs(2);

/// Where the media of a receiver go.
#[derive(Clone, Default, Debug)]
pub enum Output {
    /// Nowhere.
    #[default]
    Discard,
    /// Standard output, to be piped into a player.
    Stdout,
    /// A file or a FIFO: a transport stream if its name ends in `.ts`, AV1 without a container if
    /// in `.obu`, else as the flow is. It is created, or emptied,
    /// when the first bytes are there.
    File(PathBuf),
    /// An MPEG transport stream in UDP datagrams.
    Udp(SocketAddr),
    /// RTP packets, and the session description with which players open them.
    Rtp {
        /// Where they go.
        to: SocketAddr,
        /// The file of the description, written when the first picture is.
        sdp: Option<PathBuf>,
        /// Parities of SMPTE 2022-1, to the ports 2 and 4 above that of the media.
        parities: Option<SmpteConfig>,
    },
    /// A stream into a writer, in the form that it names.
    Stream(StreamOut),
    /// A program that takes frames one by one; those it is too slow for are dropped and counted.
    Channel(mpsc::Sender<PlayedFrame>),
}

/// A writer that is given to an output. What is written is flushed frame by frame; an error ends the output. The writer is
/// dropped at its end.
#[derive(Clone)]
pub struct StreamOut {
    writer: Arc<Mutex<Option<Box<dyn Write + Send>>>>,
    is_player: bool,
    form: OutputForm,
}

impl StreamOut {
    /// An output into `writer` in this form; `is_player`: it shows frames as they come, and wants none of a fast start.
    pub fn new(
        writer: impl Write + Send + 'static,
        is_player: bool,
        form: OutputForm,
    ) -> StreamOut {
        StreamOut {
            writer: Arc::new(Mutex::new(Some(Box::new(writer)))),
            is_player,
            form,
        }
    }

    /// The writer, once.
    fn take(&self) -> Option<Box<dyn Write + Send>> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.take()
    }
}

impl fmt::Debug for StreamOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamOut")
            .field("is_player", &self.is_player)
            .finish_non_exhaustive()
    }
}

/// What became of the frames that were played.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct OutputStats {
    /// Bytes written.
    pub bytes: u64,
    /// Frames written; with those that are dropped, all that were played.
    #[serde(skip)]
    pub frames: u64,
    /// Frames dropped because the reader was too slow, or gone.
    pub dropped: u64,
    /// The stream as written.
    pub stream: WriterStats,
    /// Why writing ended early.
    pub error: Option<String>,
    /// The kind of that error; `BrokenPipe` if the reader has closed its end, `TimedOut` if it takes nothing more.
    #[serde(skip)]
    pub error_kind: Option<io::ErrorKind>,
}

/// Passes on played frames without waiting for their consumer.
pub(crate) struct FrameOut {
    taker: Taker,
    /// Frames that were to be written, and those of them that found no room.
    offered: u64,
    dropped: u64,
    /// Pictures, and frames of sound, that found no room or were missing before those, since the last one that did.
    unsent: [PerLayer<u32>; 2],
    broken: bool,
    /// Frames of a fast start are not for this output.
    skips_again: bool,
}

enum Taker {
    Nobody,
    /// Writes a video stream, on a thread of its own so that a slow reader never stalls the
    /// protocol.
    Writer(
        SyncSender<Item>,
        oneshot::Receiver<OutputStats>,
        Ended,
        Written,
    ),
    Program(mpsc::Sender<PlayedFrame>),
}

/// What a writer has written so far: it may never come to its end.
pub(crate) type Written = Arc<Mutex<OutputStats>>;

/// Tells the writer, when it is dropped, that no more frames come.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl FrameOut {
    /// Opens an output; `seed` gives what RTP wants at random.
    pub fn open(
        output: &Output,
        (undecodable, fast_start): (Undecodable, Option<bool>),
        seed: u64,
    ) -> Result<FrameOut, NetError> {
        let is_player = match output {
            Output::Stdout | Output::Udp(_) | Output::Rtp { .. } => true,
            Output::Stream(out) => out.is_player,
            Output::Discard | Output::File(_) | Output::Channel(_) => false,
        };
        let skips_again = !fast_start.unwrap_or(!is_player);
        let out = FrameOut::open_whole(output, undecodable, seed)?;
        Ok(FrameOut { skips_again, ..out })
    }

    fn open_whole(
        output: &Output,
        undecodable: Undecodable,
        seed: u64,
    ) -> Result<FrameOut, NetError> {
        let ended = Arc::new(AtomicBool::new(false));
        let (form, outlet) = match output {
            Output::Discard => return Ok(FrameOut::new(Taker::Nobody)),
            Output::Channel(frames) => {
                return Ok(FrameOut::new(Taker::Program(frames.clone())));
            }
            Output::Stdout => (OutputForm::Native, Outlet::stream(io::stdout())),
            Output::File(path) => {
                let failed = |source| NetError::Output {
                    path: path.clone(),
                    source,
                };
                let file = FileOut::new(path.clone(), Arc::clone(&ended)).map_err(failed)?;
                (form_of(path), Outlet::stream(file))
            }
            Output::Stream(out) => {
                let taken = || NetError::System {
                    what: "taking the writer of an output",
                    source: io::Error::new(io::ErrorKind::AlreadyExists, "it was taken before"),
                };
                (out.form, Outlet::Stream(out.take().ok_or_else(taken)?))
            }
            Output::Udp(to) => (
                OutputForm::Transport,
                Outlet::Datagrams(DatagramOut::open(*to, None, None)?),
            ),
            Output::Rtp { to, sdp, parities } => {
                let parities = parities
                    .map(|it| Parities::new(*to, it, seed))
                    .transpose()?;
                let out = DatagramOut::open(*to, sdp.clone(), parities)?;
                (OutputForm::Rtp(seed), Outlet::Datagrams(out))
            }
        };
        FrameOut::spawn((form, undecodable), outlet, Ended(ended))
    }

    fn spawn(
        form: (OutputForm, Undecodable),
        outlet: Outlet,
        ended: Ended,
    ) -> Result<FrameOut, NetError> {
        let (frames, queue) = sync_channel(QUEUE);
        let (done, stats) = oneshot::channel();
        let written = Written::default();
        let known = Arc::clone(&written);
        thread::Builder::new()
            .name("output".into())
            .spawn(move || {
                // There is no waiter any more if the reader took too long to take the end.
                let _ = done.send(write_stream(&queue, form, outlet, &known));
            })
            .map_err(NetError::system("starting the output thread"))?;
        Ok(FrameOut::new(Taker::Writer(frames, stats, ended, written)))
    }

    fn new(taker: Taker) -> FrameOut {
        FrameOut {
            taker,
            offered: 0,
            dropped: 0,
            unsent: [PerLayer::default(); 2],
            broken: false,
            skips_again: false,
        }
    }

    /// What the frames to come belong to.
    pub fn set_flow(&mut self, flow: &FlowInfo) {
        if let Taker::Writer(frames, ..) = &self.taker {
            let item = Item::Flow(flow.name.clone(), StreamKind::of(flow));
            // Frames follow, and those that do not get through either are counted.
            let _ = frames.try_send(item);
        }
    }

    /// Hands over a frame, or drops it if the reader is behind.
    pub fn write(&mut self, frame: &PlayedFrame) {
        if frame.again && self.skips_again {
            return;
        }
        if matches!(self.taker, Taker::Nobody) {
            return;
        }
        let unsent = &mut self.unsent[usize::from(frame.sound)];
        let mut missing = frame.missing;
        for (layer, &count) in unsent.iter() {
            missing[layer] += count;
        }
        let next = PlayedFrame {
            missing,
            ..frame.clone()
        };
        let gone = match &self.taker {
            Taker::Nobody => return,
            Taker::Writer(frames, ..) => frames
                .try_send(Item::Frame(next))
                .map_err(|error| matches!(error, TrySendError::Disconnected(_))),
            Taker::Program(frames) => frames
                .try_send(next)
                .map_err(|error| matches!(error, mpsc::error::TrySendError::Closed(_))),
        };
        self.offered += 1;
        match gone {
            Ok(()) => *unsent = PerLayer::default(),
            Err(gone) => {
                *unsent = missing;
                unsent[frame.layer] += 1;
                self.dropped += 1;
                self.broken |= gone;
            }
        }
    }

    /// The flow is over, and `last` was its last frame.
    pub fn end(&mut self, last: Serial) {
        if let Taker::Writer(frames, ..) = &self.taker {
            // Where there is no room, frames were dropped and counted too.
            let _ = frames.try_send(Item::End(last));
        }
    }

    /// Whether nothing can be written any more: the reader is gone, or the disk is full.
    pub fn broken(&self) -> bool {
        self.broken
    }

    /// Frames dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What became of the frames so far.
    pub fn stats(&self) -> OutputStats {
        let dropped = self.dropped;
        let Taker::Writer(_, _, _, written) = &self.taker else {
            return OutputStats {
                frames: self.offered - dropped,
                dropped,
                ..OutputStats::default()
            };
        };
        let written = written.lock().unwrap_or_else(PoisonError::into_inner);
        OutputStats {
            dropped,
            ..written.clone()
        }
    }

    /// Ends the stream so that what was written is whole, and says what was written.
    pub async fn finish(self) -> OutputStats {
        let counted = self.stats();
        let offered = self.offered;
        let Taker::Writer(frames, stats, ended, written) = self.taker else {
            return counted;
        };
        drop(frames);
        drop(ended);
        let stats = match timeout(FINISH_WITHIN, stats).await {
            Ok(Ok(stats)) => stats,
            _ => OutputStats {
                error: Some(format!(
                    "its reader did not take the rest within {} s",
                    FINISH_WITHIN.as_secs()
                )),
                error_kind: Some(io::ErrorKind::TimedOut),
                ..written
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone()
            },
        };
        // Frames in the queue of a reader that does not come are dropped, too.
        debug_assert!(stats.frames <= offered, "what is written was offered");
        let dropped = offered.saturating_sub(stats.frames);
        OutputStats { dropped, ..stats }
    }
}

/// In what form a file is written, by its name.
pub fn form_of(path: &Path) -> OutputForm {
    match path.extension().and_then(|it| it.to_str()) {
        Some("ts") => OutputForm::Transport,
        Some("obu") => OutputForm::Obu,
        _ => OutputForm::Native,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use bytes::Bytes;
    use layercast_core::{Layer, Span, Time};

    use layercast_wire::{Payload, Waited};

    use super::*;

    fn frame(seq: u32) -> PlayedFrame {
        PlayedFrame {
            seq: Serial(seq),
            count: 0,
            layer: Layer::Base,
            gop_start: true,
            sound: false,
            missing: PerLayer::default(),
            again: false,
            awaited: None,
            payload: Payload::Bytes(Bytes::from_static(b"no video at all")),
            damaged: false,
            emitted: Time::ZERO,
            arrived: Time::ZERO,
            deadline: Time::ZERO,
            delay: Span::ZERO,
            waited: Waited::default(),
        }
    }

    /// A reader that takes nothing until it is released.
    struct Slow(mpsc::Receiver<()>, Arc<Mutex<u64>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            let _ = self.0.recv();
            *self.1.lock().unwrap() += 1;
            Ok(())
        }
    }

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    fn spawn(out: impl Write + Send + 'static) -> FrameOut {
        let ended = Ended(Arc::default());
        FrameOut::spawn(
            (OutputForm::Native, Undecodable::LeaveOut),
            Outlet::stream(out),
            ended,
        )
        .unwrap()
    }

    #[tokio::test]
    async fn frames_of_a_fast_start_reach_programs_and_no_player() {
        let here = SocketAddr::from(([127, 0, 0, 1], 9));
        let opened = |output: &Output, fast_start| {
            FrameOut::open(output, (Undecodable::LeaveOut, fast_start), 0).unwrap()
        };
        assert!(opened(&Output::Udp(here), None).skips_again);
        assert!(!opened(&Output::Udp(here), Some(true)).skips_again);
        for (fast_start, expected) in [(None, 2), (Some(false), 1)] {
            let (sender, mut frames) = tokio::sync::mpsc::channel(2);
            let mut out = opened(&Output::Channel(sender), fast_start);
            out.write(&PlayedFrame {
                again: true,
                ..frame(0)
            });
            out.write(&frame(1));
            drop(out);
            let mut came = 0;
            while frames.recv().await.is_some() {
                came += 1;
            }
            assert_eq!(came, expected);
        }
    }

    #[tokio::test]
    async fn the_frame_behind_dropped_ones_says_what_is_missing_before_it() {
        let (sender, mut frames) = tokio::sync::mpsc::channel(1);
        let here = Output::Channel(sender);
        let mut out = FrameOut::open(&here, (Undecodable::LeaveOut, None), 0).unwrap();
        let of = |seq, layer, sound| PlayedFrame {
            layer,
            sound,
            ..frame(seq)
        };
        out.write(&of(0, Layer::Base, false));
        // No room for these; before the last of them one of E2 was lost on the way.
        out.write(&of(1, Layer::E1, false));
        out.write(&of(2, Layer::Base, true));
        let mut late = of(4, Layer::Base, false);
        late.missing.e2 = 1;
        out.write(&late);
        assert_eq!(frames.recv().await.unwrap().missing, PerLayer::default());
        out.write(&of(5, Layer::E2, false));
        let all = PerLayer {
            base: 1,
            e1: 1,
            e2: 1,
        };
        assert_eq!(frames.recv().await.unwrap().missing, all);
        out.write(&of(6, Layer::Base, true));
        let sound = frames.recv().await.unwrap().missing;
        assert_eq!((sound.base, sound.e1), (1, 0));
        out.write(&of(7, Layer::Base, false));
        assert_eq!(frames.recv().await.unwrap().missing, PerLayer::default());
        assert_eq!(out.dropped(), 3);
    }

    #[tokio::test]
    async fn a_slow_reader_costs_frames_and_never_a_wait() {
        let (go, wait) = mpsc::channel();
        let flushed = Arc::new(Mutex::new(0));
        let mut out = spawn(Slow(wait, Arc::clone(&flushed)));
        for seq in 0..1_000 {
            out.write(&frame(seq));
        }
        let dropped = out.dropped();
        // The queue, and at most one frame in the hands of the writer.
        assert!((743..=744).contains(&dropped), "{dropped}");
        drop(go);
        let stats = out.finish().await;
        assert_eq!((stats.dropped, stats.error), (dropped, None));
        assert_eq!(stats.frames, 1_000 - dropped);
        assert_eq!(*flushed.lock().unwrap(), 1_000 - dropped);
    }

    #[tokio::test]
    async fn a_broken_pipe_ends_the_output_and_nothing_else() {
        let mut out = spawn(Broken);
        for seq in 0..1_000 {
            out.write(&frame(seq));
        }
        let stats = out.finish().await;
        assert!(stats.error.is_some());
        assert_eq!(stats.error_kind, Some(io::ErrorKind::BrokenPipe));
        assert_eq!((stats.frames, stats.dropped), (0, 1_000));
    }

    /// Takes some frames, and then fails or takes no more.
    struct Limited {
        frames: u32,
        stalls: bool,
        end: mpsc::Receiver<()>,
    }

    impl Write for Limited {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            if self.frames == 0 && self.stalls {
                let _ = self.end.recv();
            }
            let left = self.frames.checked_sub(1);
            self.frames = left.ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(())
        }
    }

    /// Each frame that is offered is written or dropped, whenever the reader stalls or goes.
    #[tokio::test]
    async fn each_frame_is_written_or_dropped() {
        for (offered, frames, stalls) in [
            (0, 5_000, false),
            (1, 0, false),
            (10, 4, false),
            (10, 4, true),
            (100, 5_000, false),
            (600, 7, false),
            (600, 100, true),
            (600, 5_000, false),
        ] {
            let (_end, end) = mpsc::channel();
            let mut out = spawn(Limited {
                frames,
                stalls,
                end,
            });
            for seq in 0..offered {
                out.write(&frame(seq));
            }
            let stats = out.finish().await;
            let told = format!("{offered} {frames} {stalls}: {stats:?}");
            assert_eq!(stats.frames + stats.dropped, u64::from(offered), "{told}");
            assert!(stats.frames <= u64::from(frames), "{told}");
            let failed = frames < offered;
            let kind = match stalls {
                true => io::ErrorKind::TimedOut,
                false => io::ErrorKind::BrokenPipe,
            };
            let expected = failed.then_some(kind);
            assert_eq!(
                (stats.error.is_some(), stats.error_kind),
                (failed, expected),
                "{told}"
            );
            if offered <= 256 {
                assert_eq!(stats.frames, u64::from(frames.min(offered)), "{told}");
            }
        }
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    #[tokio::test]
    async fn a_full_device_and_a_closed_pipe_differ() {
        let mut out = spawn(Full);
        out.write(&frame(0));
        let stats = out.finish().await;
        assert!(stats.error.is_some());
        assert_eq!(stats.error_kind, Some(io::ErrorKind::StorageFull));
    }

    #[test]
    fn a_file_that_is_served_or_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("served.m1v");
        std::fs::write(&path, "valuable").unwrap();
        let served = std::fs::File::open(&path).unwrap();
        served.try_lock_shared().unwrap();
        let error = FrameOut::open(
            &Output::File(path.clone()),
            (Undecodable::LeaveOut, None),
            0,
        )
        .err()
        .unwrap();
        assert!(error.to_string().contains("serves or writes"), "{error}");
        drop(served);
        assert!(FrameOut::open(&Output::File(path), (Undecodable::LeaveOut, None), 0).is_ok());
    }

    #[test]
    fn a_file_that_cannot_be_created_is_named() {
        let path = PathBuf::from("/nowhere/at/all.m1v");
        let error = FrameOut::open(&Output::File(path), (Undecodable::LeaveOut, None), 0)
            .err()
            .unwrap();
        assert!(error.to_string().contains("/nowhere/at/all.m1v"));
    }
}
