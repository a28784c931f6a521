use std::collections::BTreeMap;
use std::sync::Arc;

use layercast_core::{Rate, Span};
use serde::Deserialize;

use crate::app::{
    AudioModel, FtpModel, HttpModel, MAX_DATAGRAM, Messages, PushModel, TelnetModel, Trace,
    TraceError, VideoModel,
};
use crate::dist::{Dimension, DistError, Distribution};

/// A composite workload (specs/insane-workloads.md 2.8, 2.9).
#[derive(Clone, Debug)]
pub struct Workload {
    pub(crate) apps: Vec<App>,
}

/// What is wrong with a workload file.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum WorkloadError {
    /// Not the TOML it should be; the text names line and column.
    #[error("{0}")]
    Toml(String),
    /// One of its distributions.
    #[error("app.{app}.dist.{key}: {problem}")]
    Dist {
        /// Application.
        app: String,
        /// Which.
        key: &'static str,
        /// What.
        problem: DistError,
    },
    /// Its trace.
    #[error("app.{app}.trace: {problem}")]
    Trace {
        /// Application.
        app: String,
        /// What.
        problem: TraceError,
    },
    /// A file that cannot be read.
    #[error("app.{app}.{key}: {problem}")]
    Read {
        /// Application.
        app: String,
        /// Which.
        key: &'static str,
        /// What.
        problem: String,
    },
    /// A value that cannot be.
    #[error("app.{app}.{key}: {problem}")]
    Value {
        /// Application.
        app: String,
        /// Which.
        key: &'static str,
        /// What.
        problem: &'static str,
    },
    /// A key the model does not have, or needs.
    #[error("app.{app}: the model {model:?} {problem} {key:?}")]
    Key {
        /// Application.
        app: String,
        /// Its model.
        model: String,
        /// Which.
        key: String,
        /// Whether it is missing or not known.
        problem: &'static str,
    },
    /// No applications.
    #[error("there is no application: add a table [app.NAME]")]
    Empty,
}

#[derive(Clone, Debug)]
pub(crate) struct App {
    pub name: String,
    pub process: Process,
    pub mean: Span,
    pub placement: Placement,
    pub from: Role,
    pub to: Role,
    pub choose: Choose,
    pub model: Model,
}

#[derive(Clone, Debug)]
pub(crate) enum Model {
    Telnet(Arc<TelnetModel>),
    Ftp(Arc<FtpModel>),
    Http(Arc<HttpModel>),
    Push(Arc<PushModel>),
    Audio(Arc<AudioModel>),
    Video(Arc<VideoModel>),
    Trace(Arc<Trace>, Span),
}

/// When instances start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Process {
    Poisson,
    /// Equal times, from a uniform start on.
    Periodic,
    /// Times uniform from nothing to twice the mean.
    UniformIid,
}

/// On which hosts instances start that stay forever.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Placement {
    /// Any host, each time.
    #[default]
    Any,
    /// Any host; where there is one already, nothing happens.
    Coupon,
    /// A host that has none.
    Distinct,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Workstation,
    Server,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Choose {
    /// Any other site, any host of it.
    #[default]
    Uniform,
    /// Servers of other sites, by rank.
    Zipf,
    /// Each other site in turn.
    Rotate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    app: BTreeMap<String, FileApp>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileApp {
    model: FileModel,
    arrival: FileArrival,
    from: Role,
    to: Role,
    #[serde(default)]
    choose: Choose,
    #[serde(default)]
    dist: BTreeMap<String, String>,
    port: Option<u16>,
    parallel: Option<u32>,
    payload: Option<u32>,
    period_ms: Option<f64>,
    overdue_ms: Option<f64>,
    rate_bps: Option<u64>,
    frames_per_s: Option<f64>,
    trace: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FileModel {
    Telnet,
    Ftp,
    Http,
    Push,
    Audio,
    Video,
    Trace,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileArrival {
    process: Process,
    mean_s: f64,
    #[serde(default)]
    placement: Placement,
}

/// A time in a file: longer than nothing, shorter than a year.
fn span(seconds: f64) -> Option<Span> {
    (seconds > 0.0 && seconds < 3.2e7).then(|| Span::from_secs_f64(seconds))
}

impl Workload {
    /// The composite workload of Mah's thesis, which comes with the program.
    pub const MAH96: &str = include_str!("../../data/mah96.toml");

    /// Parses a workload file; distributions and traces it names are read with `read`.
    pub fn parse(
        text: &str,
        read: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Workload, WorkloadError> {
        let file: File = toml::from_str(text).map_err(|err| {
            let err = err.to_string();
            WorkloadError::Toml(err.trim_end().to_owned())
        })?;
        let apps: Result<Vec<App>, _> = file
            .app
            .into_iter()
            .map(|(name, app)| Reader::new(name, app).app(read))
            .collect();
        match apps? {
            apps if apps.is_empty() => Err(WorkloadError::Empty),
            apps => Ok(Workload { apps }),
        }
    }

    /// The names of its applications.
    pub fn apps(&self) -> impl Iterator<Item = &str> {
        self.apps.iter().map(|app| app.name.as_str())
    }
}

/// Takes one application out of a file, key by key: what is left at the end is not known.
struct Reader {
    name: String,
    model: &'static str,
    file: FileApp,
}

impl Reader {
    fn new(name: String, file: FileApp) -> Reader {
        let model = match file.model {
            FileModel::Telnet => "telnet",
            FileModel::Ftp => "ftp",
            FileModel::Http => "http",
            FileModel::Push => "push",
            FileModel::Audio => "audio",
            FileModel::Video => "video",
            FileModel::Trace => "trace",
        };
        Reader { name, model, file }
    }

    fn app(mut self, read: &dyn Fn(&str) -> Result<String, String>) -> Result<App, WorkloadError> {
        let mean = span(self.file.arrival.mean_s);
        let mean =
            mean.ok_or_else(|| self.value("arrival.mean_s", "must be above 0 and below a year"))?;
        let model = match self.file.model {
            FileModel::Telnet => Model::Telnet(Arc::new(TelnetModel {
                interarrival: self.dist(read, "interarrival", Dimension::Time)?,
                replysize: self.dist(read, "replysize", Dimension::Size)?,
                duration: self.dist(read, "duration", Dimension::Time)?,
            })),
            FileModel::Ftp => Model::Ftp(Arc::new(FtpModel {
                nitems: self.dist(read, "nitems", Dimension::Count)?,
                itemsize: self.dist(read, "itemsize", Dimension::Size)?,
                ctlsize: self.dist(read, "ctlsize", Dimension::Size)?,
            })),
            FileModel::Http => Model::Http(Arc::new(self.http(read)?)),
            FileModel::Push => Model::Push(Arc::new(PushModel {
                nitems: self.dist(read, "nitems", Dimension::Count)?,
                itemsize: self.dist(read, "itemsize", Dimension::Size)?,
                port: self.file.port.take().ok_or_else(|| self.missing("port"))?,
            })),
            FileModel::Audio => Model::Audio(Arc::new(AudioModel {
                talkspurt: self.dist(read, "talkspurt", Dimension::Time)?,
                pause: self.dist(read, "pause", Dimension::Time)?,
                duration: self.dist(read, "duration", Dimension::Time)?,
                payload: self.payload()?,
                period: self.period()?,
                bound: self.bound()?,
            })),
            FileModel::Video => Model::Video(Arc::new(VideoModel {
                size_cr: self.packet(read, "size_cr")?,
                size_bg: self.packet(read, "size_bg")?,
                packets_cr: self.dist(read, "packets_cr", Dimension::Count)?,
                packets_bg: self.dist(read, "packets_bg", Dimension::Count)?,
                duration: self.dist(read, "duration", Dimension::Time)?,
                rate: self.rate()?,
                frame: self.frame()?,
                bound: self.bound()?,
            })),
            FileModel::Trace => Model::Trace(Arc::new(self.trace(read)?), self.bound()?),
        };
        self.nothing_left()?;
        let file = &self.file;
        if file.choose == Choose::Zipf && file.to == Role::Workstation {
            return Err(self.value("choose", "zipf ranks servers: it needs to = \"server\""));
        }
        if matches!(file.model, FileModel::Http) && file.choose != Choose::Zipf {
            return Err(self.value(
                "choose",
                "browsers choose among servers: \"zipf\" is needed",
            ));
        }
        Ok(App {
            process: file.arrival.process,
            mean,
            placement: file.arrival.placement,
            from: file.from,
            to: file.to,
            choose: file.choose,
            model,
            name: self.name,
        })
    }

    fn http(
        &mut self,
        read: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<HttpModel, WorkloadError> {
        let first = Messages {
            request: self.dist(read, "request", Dimension::Size)?,
            reply: self.dist(read, "reply", Dimension::Size)?,
        };
        // The refinement of INFOCOM 1997: other files of a page are not like its first.
        let others = match self.file.dist.keys().any(|key| key.starts_with("other_")) {
            true => Messages {
                request: self.dist(read, "other_request", Dimension::Size)?,
                reply: self.dist(read, "other_reply", Dimension::Size)?,
            },
            false => first.clone(),
        };
        let parallel = self.file.parallel.take().unwrap_or(1);
        if !(1..=64).contains(&parallel) {
            return Err(self.value("parallel", "must be 1 to 64"));
        }
        Ok(HttpModel {
            first,
            others,
            files_per_page: self.dist(read, "files_per_page", Dimension::Count)?,
            think: self.dist(read, "think", Dimension::Time)?,
            consecutive_pages: self.dist(read, "consecutive_pages", Dimension::Count)?,
            parallel,
        })
    }

    fn trace(
        &mut self,
        read: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Trace, WorkloadError> {
        let path = self
            .file
            .trace
            .take()
            .ok_or_else(|| self.missing("trace"))?;
        let app = || self.name.clone();
        let text = read(&path).map_err(|problem| WorkloadError::Read {
            app: app(),
            key: "trace",
            problem,
        })?;
        Trace::parse(&text).map_err(|problem| WorkloadError::Trace {
            app: app(),
            problem,
        })
    }

    fn dist(
        &mut self,
        read: &dyn Fn(&str) -> Result<String, String>,
        key: &'static str,
        dimension: Dimension,
    ) -> Result<Distribution, WorkloadError> {
        let name = self
            .file
            .dist
            .remove(key)
            .ok_or_else(|| Self::key(self, key, "needs dist"))?;
        let found = Distribution::find(&name, read).and_then(|dist| dist.of(dimension));
        found.map_err(|problem| WorkloadError::Dist {
            app: self.name.clone(),
            key,
            problem,
        })
    }

    /// Sizes that fit into a datagram.
    fn packet(
        &mut self,
        read: &dyn Fn(&str) -> Result<String, String>,
        key: &'static str,
    ) -> Result<Distribution, WorkloadError> {
        let dist = self.dist(read, key, Dimension::Size)?;
        match dist.quantile(1.0) <= f64::from(MAX_DATAGRAM) {
            true => Ok(dist),
            false => Err(self.value(key, "must fit into a UDP datagram: at most 65507 B")),
        }
    }

    fn payload(&mut self) -> Result<u32, WorkloadError> {
        let payload = self
            .file
            .payload
            .take()
            .ok_or_else(|| self.missing("payload"))?;
        match (1..=MAX_DATAGRAM).contains(&payload) {
            true => Ok(payload),
            false => Err(self.value("payload", "must be 1 to 65507 bytes")),
        }
    }

    fn period(&mut self) -> Result<Span, WorkloadError> {
        let period = self
            .file
            .period_ms
            .take()
            .ok_or_else(|| self.missing("period_ms"))?;
        span(period / 1e3).ok_or_else(|| self.value("period_ms", "must be above 0"))
    }

    fn bound(&mut self) -> Result<Span, WorkloadError> {
        let bound = self
            .file
            .overdue_ms
            .take()
            .ok_or_else(|| self.missing("overdue_ms"))?;
        span(bound / 1e3).ok_or_else(|| self.value("overdue_ms", "must be above 0"))
    }

    fn rate(&mut self) -> Result<Rate, WorkloadError> {
        let rate = self
            .file
            .rate_bps
            .take()
            .ok_or_else(|| self.missing("rate_bps"))?;
        match rate > 0 {
            true => Ok(Rate::from_bps(rate)),
            false => Err(self.value("rate_bps", "must be above 0")),
        }
    }

    fn frame(&mut self) -> Result<Span, WorkloadError> {
        let rate = self
            .file
            .frames_per_s
            .take()
            .ok_or_else(|| self.missing("frames_per_s"))?;
        let fine = (0.001..=1000.0).contains(&rate);
        let frame = fine.then(|| Span::from_secs_f64(1.0 / rate));
        frame.ok_or_else(|| self.value("frames_per_s", "must be 0.001 to 1000"))
    }

    fn nothing_left(&self) -> Result<(), WorkloadError> {
        let file = &self.file;
        let left = [
            ("port", file.port.is_some()),
            ("parallel", file.parallel.is_some()),
            ("payload", file.payload.is_some()),
            ("period_ms", file.period_ms.is_some()),
            ("overdue_ms", file.overdue_ms.is_some()),
            ("rate_bps", file.rate_bps.is_some()),
            ("frames_per_s", file.frames_per_s.is_some()),
            ("trace", file.trace.is_some()),
        ];
        if let Some((key, _)) = left.iter().find(|(_, there)| *there) {
            return Err(self.key(key, "has no"));
        }
        match file.dist.keys().next() {
            Some(key) => Err(self.key(key, "has no dist")),
            None => Ok(()),
        }
    }

    fn value(&self, key: &'static str, problem: &'static str) -> WorkloadError {
        let app = self.name.clone();
        WorkloadError::Value { app, key, problem }
    }

    fn missing(&self, key: &str) -> WorkloadError {
        self.key(key, "needs")
    }

    fn key(&self, key: &str, problem: &'static str) -> WorkloadError {
        WorkloadError::Key {
            app: self.name.clone(),
            model: self.model.to_owned(),
            key: key.to_owned(),
            problem,
        }
    }
}
