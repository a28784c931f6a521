use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use layercast_core::{Layer, PerLayer, Span, Time};
use layercast_mets::{Explanation, Fate, Sink};
use serde::Serialize;

use crate::error::NetError;

/// A file with one JSON object for each frame of the flow, or for consecutive frames that are missing: what became of it, and
/// what held it.
pub(crate) struct Explained {
    path: PathBuf,
    out: BufWriter<File>,
    epoch: Time,
    /// Number of the next explanation.
    next: u64,
    error: Option<(String, io::ErrorKind)>,
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'a> {
    /// Number of the frame, or of the first one.
    first: u32,
    /// Number of the last one.
    last: u32,
    #[serde(flatten)]
    fate: FateLine<'a>,
}

#[derive(Serialize)]
#[serde(tag = "fate", rename_all = "snake_case")]
enum FateLine<'a> {
    Played {
        layer: Layer,
        sound: bool,
        /// When it was complete.
        arrived_s: f64,
        /// How long the playout delay held it.
        playout_ms: f64,
        /// How long missing frames before it held it, after that.
        order_ms: f64,
        /// These frames.
        #[serde(skip_serializing_if = "Option::is_none")]
        awaited: Option<Awaited<'a>>,
        fast_start: bool,
    },
    Late {
        layer: Layer,
        arrived_s: f64,
        late_ms: f64,
    },
    Missing {
        lost: &'a PerLayer<u32>,
        withheld: &'a PerLayer<u32>,
    },
}

#[derive(Serialize)]
struct Awaited<'a> {
    first: u32,
    last: u32,
    missing: &'a PerLayer<u32>,
}

impl Explained {
    /// Creates the file; times count from `epoch`.
    pub fn create(path: PathBuf, epoch: Time) -> Result<Explained, NetError> {
        let failed = |source| NetError::Output {
            path: path.clone(),
            source,
        };
        let out = BufWriter::new(File::create(&path).map_err(failed)?);
        Ok(Explained {
            path,
            out,
            epoch,
            next: 0,
            error: None,
        })
    }

    /// Writes what the sink can explain since the last call. When that first fails, gives what was wrong, in words and as
    /// a kind; nothing is written after it.
    pub fn write(&mut self, sink: &Sink) -> Option<(String, io::ErrorKind)> {
        let (new, next) = sink.explanations(self.next);
        self.next = next;
        if self.error.is_some() {
            return None;
        }
        for explanation in new {
            if let Err(error) = write_line(&mut self.out, self.epoch, explanation) {
                self.error = Some(self.in_words(error));
                return self.error.clone();
            }
        }
        None
    }

    /// Ends the file; gives what was wrong with it, in words and as a kind.
    pub fn finish(mut self) -> Option<(String, io::ErrorKind)> {
        if self.error.is_some() {
            return self.error;
        }
        let flushed = self.out.flush();
        flushed.err().map(|error| self.in_words(error))
    }

    fn in_words(&self, source: io::Error) -> (String, io::ErrorKind) {
        let (path, kind) = (self.path.clone(), source.kind());
        (NetError::Output { path, source }.to_string(), kind)
    }
}

fn write_line(out: &mut impl Write, epoch: Time, explanation: &Explanation) -> io::Result<()> {
    let arrived_s = |arrived: Time| arrived.since(epoch).as_secs_f64();
    let line = Line {
        first: explanation.first.0,
        last: explanation.last.0,
        fate: match &explanation.fate {
            Fate::Played {
                layer,
                sound,
                arrived,
                playout,
                order,
                awaited,
                again,
            } => FateLine::Played {
                layer: *layer,
                sound: *sound,
                arrived_s: arrived_s(*arrived),
                playout_ms: playout.as_ms_f64(),
                order_ms: order.as_ms_f64(),
                awaited: awaited.as_ref().map(|awaited| Awaited {
                    first: awaited.first.0,
                    last: awaited.last.0,
                    missing: &awaited.frames,
                }),
                fast_start: *again,
            },
            Fate::Late { layer, arrived, by } => FateLine::Late {
                layer: *layer,
                arrived_s: arrived_s(*arrived),
                late_ms: Span::as_ms_f64(*by),
            },
            Fate::Missing { lost, withheld } => FateLine::Missing { lost, withheld },
        },
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use layercast_core::Serial;

    use super::*;

    #[test]
    fn each_fate_has_its_line() {
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let frames = PerLayer {
            base: 1,
            e1: 0,
            e2: 0,
        };
        let awaited = layercast_mets::Awaited {
            first: Serial(5),
            last: Serial(5),
            frames,
        };
        let fates = [
            Fate::Played {
                layer: Layer::E1,
                sound: false,
                arrived: at(1_250),
                playout: Span::from_ms(10),
                order: Span::from_ms(60),
                awaited: Some(awaited),
                again: false,
            },
            Fate::Late {
                layer: Layer::E2,
                arrived: at(1_500),
                by: Span::from_ms(3),
            },
            Fate::Missing {
                lost: frames,
                withheld: PerLayer::default(),
            },
        ];
        let mut out = Vec::new();
        for fate in fates {
            let explanation = Explanation {
                first: Serial(6),
                last: Serial(6),
                fate,
            };
            write_line(&mut out, at(1_000), &explanation).unwrap();
        }
        let lines = [
            r#"{"first":6,"last":6,"fate":"played","layer":"E1","sound":false,"arrived_s":0.25,"playout_ms":10.0,"order_ms":60.0,"awaited":{"first":5,"last":5,"missing":{"BL":1,"E1":0,"E2":0}},"fast_start":false}"#,
            r#"{"first":6,"last":6,"fate":"late","layer":"E2","arrived_s":0.5,"late_ms":3.0}"#,
            r#"{"first":6,"last":6,"fate":"missing","lost":{"BL":1,"E1":0,"E2":0},"withheld":{"BL":0,"E1":0,"E2":0}}"#,
        ];
        assert_eq!(String::from_utf8(out).unwrap(), lines.join("\n") + "\n");
    }
}
