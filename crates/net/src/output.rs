use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use layercast_media::{StreamWriter, WriterStats};
use layercast_transport::mets::PlayedFrame;
use layercast_wire::Payload;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::NetError;

/// Frames that wait for a slow reader, some seconds of video; more are dropped.
const QUEUE: usize = 256;
/// How long a reader that does not read gets at the end.
const FINISH_WITHIN: Duration = Duration::from_secs(2);

/// Where the media of a receiver go.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Output {
    /// Nowhere.
    #[default]
    Discard,
    /// Standard output, to be piped into a player.
    Stdout,
    /// A file.
    File(PathBuf),
}

/// What became of the frames that were played.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct OutputStats {
    /// Bytes written.
    pub bytes: u64,
    /// Frames dropped because the reader was too slow, or gone.
    pub dropped: u64,
    /// The stream as written.
    pub stream: WriterStats,
    /// Why writing ended early.
    pub error: Option<String>,
}

/// Writes played frames as a video stream, on a thread of its own so that a slow reader never
/// stalls the protocol.
pub(crate) struct FrameOut {
    writer: Option<(SyncSender<PlayedFrame>, oneshot::Receiver<OutputStats>)>,
    dropped: u64,
}

impl FrameOut {
    pub fn open(output: &Output) -> Result<FrameOut, NetError> {
        let out: Box<dyn Write + Send> = match output {
            Output::Discard => {
                return Ok(FrameOut {
                    writer: None,
                    dropped: 0,
                });
            }
            Output::Stdout => Box::new(io::stdout()),
            Output::File(path) => {
                Box::new(File::create(path).map_err(|source| NetError::Output {
                    path: path.clone(),
                    source,
                })?)
            }
        };
        let (frames, queue) = sync_channel(QUEUE);
        let (done, stats) = oneshot::channel();
        thread::Builder::new()
            .name("output".into())
            .spawn(move || {
                // Nobody waits any more if the reader took too long to take the end.
                let _ = done.send(write_stream(queue, out));
            })
            .map_err(NetError::system("starting the output thread"))?;
        Ok(FrameOut {
            writer: Some((frames, stats)),
            dropped: 0,
        })
    }

    /// Hands over a frame, or drops it if the reader is behind.
    pub fn write(&mut self, frame: &PlayedFrame) {
        let Some((frames, _)) = &self.writer else {
            return;
        };
        if frames.try_send(frame.clone()).is_err() {
            self.dropped += 1;
        }
    }

    /// Frames dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Ends the stream so that what was written is whole, and says what was written.
    pub async fn finish(self) -> OutputStats {
        let dropped = self.dropped;
        let Some((frames, stats)) = self.writer else {
            return OutputStats::default();
        };
        drop(frames);
        let stats = match timeout(FINISH_WITHIN, stats).await {
            Ok(Ok(stats)) => stats,
            _ => OutputStats {
                error: Some("the reader of the output stopped reading".into()),
                ..OutputStats::default()
            },
        };
        OutputStats { dropped, ..stats }
    }
}

fn write_stream(queue: Receiver<PlayedFrame>, mut out: impl Write) -> OutputStats {
    let mut stream = StreamWriter::new();
    let mut stats = OutputStats::default();
    let mut bytes = Vec::new();
    let mut written = Ok(());
    for frame in &queue {
        bytes.clear();
        // Synthetic frames are no video.
        if let Payload::Bytes(data) = &frame.payload {
            stream.frame(frame.seq, frame.layer, frame.gop_start, data, &mut bytes);
        }
        // Each frame at once: a player wants it now, and a killed process leaves whole pictures.
        written = out.write_all(&bytes).and_then(|()| out.flush());
        if written.is_err() {
            break;
        }
        stats.bytes += bytes.len() as u64;
    }
    if written.is_ok() {
        bytes.clear();
        stream.finish(&mut bytes);
        written = out.write_all(&bytes).and_then(|()| out.flush());
        stats.bytes += bytes.len() as u64;
    }
    stats.stream = stream.stats();
    stats.error = written.err().map(|error| error.to_string());
    stats
}
