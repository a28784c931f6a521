mod ahead;
mod growth;
mod protected;
mod serving;
mod source;

use std::fmt;
use std::io::{self, Read};
use std::net::SocketAddr;

use bytes::Bytes;
use layercast_core::{Composition, FlowSpec, PerLayer, Rate, Span, Status};
use layercast_fec::SmpteReceiverStats;
use layercast_media::{
    GopWatch, Ingest, IngestStats, InputLoss, LevelSummary, LiveClock, LiveLoad, LongGop, Map,
    MediaTimeline, Overload, PaceChange, Rendition, RenditionNote, Restart, RtpNote, RtpSession,
    SpecMeter, StreamChange, TimedFrame, VideoCodec,
};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, timeout_at};

use crate::clock::Clock;
use crate::error::NetError;
use crate::frames::Frames;
use ahead::Ahead;
use protected::Protected;
use serving::Serving;
use source::{Source, bind, read_pipe, several};

pub use growth::{Growth, LiveFlow};

/// Frames on their way to the source; a live stream that finds no room loses a GOP.
const FRAMES: usize = 512;
/// A stream is offered this time after it was recognised, whatever its GOP, if pictures of it can be read by then;
/// longer if it is to be measured for longer.
const OFFERED_WITHIN: Duration = Duration::from_secs(5);
/// An estimate of a stream is of the pictures of at least this time.
const LEAST_LOOK: Duration = Duration::from_secs(1);
/// A pipe whose media come faster than this, in per cent of real time, holds a stored stream.
const STORED_PERCENT: u32 = 150;
/// After this time without input the user is notified.
const SILENT: Duration = Duration::from_secs(3);
/// While nothing has come at all, the times between two such messages grow to this.
const LONGEST_SILENT: Duration = Duration::from_secs(60);
/// Longer than anybody waits.
const NO_LIMIT: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Where a live stream comes from.
pub enum LiveFrom {
    /// Datagrams to an address of this machine or to a multicast group: MPEG-TS or RTP.
    Udp(SocketAddr),
    /// RTP packets to an address, with parities of SMPTE 2022-1 to the ports 2 and 4 above it, which bring back lost ones.
    Protected(SocketAddr),
    /// An MPEG transport stream from a pipe, or IVF.
    Pipe {
        /// Name of the pipe in messages.
        name: String,
        /// It comes in real time; else how fast it comes tells.
        is_live: bool,
        /// Bytes that were read already.
        first: Bytes,
        /// The bytes that follow; a read may block.
        rest: Box<dyn Read + Send>,
    },
    /// Several of these, a rendition of one flow each, as a transport stream.
    Several(Vec<LiveFrom>),
}

impl fmt::Debug for LiveFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiveFrom::Udp(address) => f.debug_tuple("Udp").field(address).finish(),
            LiveFrom::Protected(address) => f.debug_tuple("Protected").field(address).finish(),
            LiveFrom::Pipe { name, .. } => f.debug_tuple("Pipe").field(name).finish(),
            LiveFrom::Several(all) => f.debug_list().entries(all).finish(),
        }
    }
}

/// How a live stream is taken.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LiveOptions {
    /// How much of it is looked at to learn its rates.
    pub measure: Span,
    /// How much more than seen is reserved, in per cent.
    pub headroom_percent: u32,
    /// Mean rates of the layers, if they are known.
    pub rates: Option<PerLayer<Rate>>,
    /// Most that frames wait so that they leave evenly spaced; zero: they leave as they arrive.
    pub lead: Span,
    /// How long nothing may come at the start.
    pub patience: Span,
    /// Somebody comes when he likes: the first bytes are waited for without a limit.
    pub awaits: bool,
    /// Over how much of it is held against what is reserved.
    pub window: Span,
    /// The program of a transport stream that is served alone.
    pub program: Option<u16>,
    /// Which picture goes into which layer.
    pub map: Map,
    /// The layers are whole renditions: programs of a transport stream, or several inputs.
    pub renditions: bool,
}

/// What was learned of a live stream.
#[derive(Clone, PartialEq, Debug)]
pub struct Learned {
    /// What it needs.
    pub spec: FlowSpec,
    /// Set if no whole GOP was seen: the rates are estimates.
    pub estimated: Option<Estimated>,
    /// Its form, in words.
    pub form: &'static str,
    /// The codec of the video in a bare transport stream.
    pub codec: Option<VideoCodec>,
    /// What each level shows and takes, as seen.
    pub levels: Vec<LevelSummary>,
    /// Of a flow whose layers are whole renditions, these.
    pub renditions: Vec<Rendition>,
}

/// What the rates of a stream are estimated from of which no whole GOP was seen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimated {
    /// The media time that was seen.
    pub seen: Span,
    /// Key frames are at least this far apart.
    pub gop: Span,
}

/// What happens at a live input.
#[derive(Clone, PartialEq, Debug)]
pub enum LiveEvent {
    /// Nothing came for some seconds.
    Silent,
    /// Something comes again.
    Back,
    /// The timeline of the stream begins again.
    Restart(Restart),
    /// Key frames are this far apart, more than [`LONG_GOP`](layercast_media::LONG_GOP).
    LongGop(LongGop),
    /// A source on the RTP port is ignored, or takes the place of another one.
    Source(RtpNote),
    /// Something of the renditions.
    Rendition(RenditionNote),
    /// One of the streams of a transport stream stopped while others continue, or comes again.
    Stream(StreamChange),
    /// The source became slower than real time, or keeps it again.
    Pace(PaceChange),
    /// Packets were lost on the way here, and pictures with them, since the last such event.
    Lost {
        /// How much since the last time.
        loss: InputLoss,
        /// The input is a pipe: no datagrams of it are lost between its sender and this host.
        is_pipe: bool,
    },
    /// Parities of SMPTE 2022-1 brought packets back, or could not, since the last such event; what they did so far.
    Repaired(SmpteReceiverStats),
    /// Frames found no room, up to a frame to start at.
    Dropped {
        /// How many.
        frames: u64,
    },
    /// The first whole GOP of a stream whose rates are estimated was seen; what it takes is asked for.
    Measured {
        /// How long a GOP is.
        gop: Span,
    },
    /// A layer takes more than is reserved for it; what follows is what came of asking for more, unless
    /// its rates are fixed.
    Overload(Overload),
    /// What the stream needs now is reserved.
    Granted(Box<FlowSpec>),
    /// It is not to be had; it is asked for again later, if the stream still needs it.
    Refused(Status),
    /// What was seen of it so far, once a second while it comes.
    Counted {
        /// That.
        stats: IngestStats,
    },
    /// The stream is over.
    End {
        /// What was seen of it.
        stats: IngestStats,
    },
}

/// The time over which a live stream is compared with its reservation, unless another is chosen.
pub const LOAD_WINDOW: Span = Span::from_secs(10);

impl Default for LiveOptions {
    fn default() -> LiveOptions {
        LiveOptions {
            measure: Span::from_secs(3),
            headroom_percent: 25,
            rates: None,
            lead: Span::from_ms(40),
            patience: Span::from_secs(30),
            awaits: false,
            window: LOAD_WINDOW,
            program: None,
            map: Map::Auto,
            renditions: false,
        }
    }
}

/// A live stream coming in: first looked at, then served.
pub struct LiveInput {
    name: String,
    /// How many it is.
    inputs: usize,
    bytes: Source,
    ingest: Ingest,
    /// Puts live frames on the clock; it learns while the stream is looked at.
    clock: LiveClock,
    /// Frames of a stored stream in a pipe that were looked at: nothing of it is lost.
    kept: Vec<TimedFrame>,
    /// It arrives live, not as fast as it is read.
    is_live: bool,
    /// Measures a stream until a whole GOP was seen.
    meter: Option<SpecMeter>,
}

impl LiveInput {
    /// Opens an input; must be called within a runtime.
    ///
    /// # Errors
    /// The address is taken, or not one of this machine; the system refuses.
    pub fn open(from: LiveFrom) -> Result<LiveInput, NetError> {
        let mut inputs = 1;
        let mut is_live = matches!(
            from,
            LiveFrom::Udp(_) | LiveFrom::Protected(_) | LiveFrom::Pipe { is_live: true, .. }
        );
        let (name, bytes, ingest) = match from {
            LiveFrom::Several(all) => {
                inputs = all.len();
                let (mut names, mut sources) = (Vec::new(), Vec::new());
                for from in all {
                    let input = LiveInput::open(from)?;
                    is_live |= input.is_live;
                    names.push(input.name);
                    sources.push(input.bytes);
                }
                (names.join(" and "), several(sources), Ingest::new())
            }
            LiveFrom::Udp(address) => {
                let socket = bind(address)?;
                let buffer = vec![0; 65_536];
                (
                    // The port that the system chose, if none was named.
                    socket.local_addr().unwrap_or(address).to_string(),
                    Source::Udp(socket, buffer),
                    Ingest::new(),
                )
            }
            LiveFrom::Protected(address) => {
                let input = Protected::open(address)?;
                (
                    input.local_addr().unwrap_or(address).to_string(),
                    Source::Protected(Box::new(input)),
                    Ingest::new(),
                )
            }
            LiveFrom::Pipe {
                name, first, rest, ..
            } => (name, Source::Pipe(read_pipe(first, rest)?), Ingest::pipe()),
        };
        Ok(LiveInput {
            name,
            is_live,
            inputs,
            bytes,
            ingest,
            clock: LiveClock::learning(Span::ZERO),
            kept: Vec::new(),
            meter: None,
        })
    }

    /// Takes the RTP stream that a session description names, with the parameter sets in it.
    pub fn describe(&mut self, session: &RtpSession) {
        self.ingest = Ingest::session(session);
    }

    /// When to stop waiting for bytes: at `limit`, or earlier if the input has something to give up.
    fn due(&self, limit: Instant) -> Instant {
        let Some(at) = self.ingest.next_timeout() else {
            return limit;
        };
        let wait = at.since(Clock::get().now()).as_ps().div_ceil(1_000);
        limit.min(Instant::now() + Duration::from_nanos(wait))
    }

    /// Looks at the stream until its rates are known; `tell` hears how far that is.
    ///
    /// # Errors
    /// Nothing comes, or nothing that can be served.
    pub async fn learn(
        &mut self,
        options: &LiveOptions,
        mut tell: impl FnMut(&str),
    ) -> Result<Learned, NetError> {
        self.ingest = match options.renditions {
            true => Ingest::renditions(self.inputs),
            false => std::mem::take(&mut self.ingest).with(options.program, options.map),
        };
        self.clock = LiveClock::learning(options.lead);
        let mut meter = SpecMeter::new(options.measure);
        if options.renditions {
            meter.set_composition(Composition::Alternative);
        }
        let (mut datagrams, mut form) = (0u64, "");
        let measure = Duration::from_millis(options.measure.as_ms());
        let (mut first, mut pictured): (Option<Instant>, Option<Instant>) = (None, None);
        let begun = Instant::now();
        let patience = Duration::from_millis(options.patience.as_ms());
        let mut until = begun + if options.awaits { NO_LIMIT } else { patience };
        let mut pause = SILENT;
        let mut told = begun;
        tell(&format!("waiting for media at {}", self.name));
        loop {
            let offer = offer_at(first, pictured, measure);
            let wake = offer.filter(|at| *at > Instant::now()).unwrap_or(until);
            let limit = wake.min(until).min(told + pause);
            match timeout_at(self.due(limit), self.bytes.next()).await {
                Ok(Ok(Some((input, Some(piece))))) => {
                    if datagrams == 0 {
                        pause = SILENT;
                        until = Instant::now() + patience.max(OFFERED_WITHIN.max(measure));
                    }
                    datagrams += 1;
                    self.ingest.push_from(Clock::get().now(), input, &piece);
                }
                Ok(Ok(Some((input, None)))) => self.ingest.finish_input(input),
                Ok(Ok(None)) => {
                    self.ingest.finish();
                    self.look(&mut meter);
                    return self.learned(meter, options, datagrams, Length::Whole);
                }
                Ok(Err(source)) => return Err(failed(source)),
                Err(_) if Instant::now() < until => self.ingest.on_timeout(Clock::get().now()),
                Err(_) => {
                    let watched = Length::Watched(elapsed(first));
                    return self.learned(meter, options, datagrams, watched);
                }
            }
            self.look(&mut meter);
            let is_known = datagrams > 0 && self.ingest.media().is_some();
            if first.is_none() && is_known {
                first = Some(Instant::now());
            }
            if pictured.is_none() && meter.has_pictures() {
                pictured = Some(Instant::now());
            }
            while let Some(note) = self.ingest.poll_note() {
                tell(&note.to_string());
            }
            while let Some(note) = self.ingest.poll_rendition_note() {
                tell(&note.to_string());
            }
            if let Some(problem) = self.ingest.verdict() {
                let from = self.name.clone();
                return Err(NetError::Unusable { from, problem });
            }
            if form != self.ingest.form() && is_known {
                form = self.ingest.form();
                told = Instant::now();
                let seconds = options.measure.as_ms() as f64 / 1e3;
                tell(&format!("{form} arrives; looking at {seconds:.1} s of it"));
            }
            let is_due = || {
                pictured.is_some()
                    && offer_at(first, pictured, measure).is_some_and(|at| Instant::now() >= at)
            };
            if meter.is_done() || is_due() {
                self.classify(&meter, first);
                let watched = Length::Watched(elapsed(first));
                return self.learned(meter, options, datagrams, watched);
            }
            // Also while media arrive.
            if told.elapsed() >= pause {
                told = Instant::now();
                if datagrams == 0 {
                    pause = (pause * 2).min(LONGEST_SILENT);
                }
                tell(&self.awaited(datagrams, meter.gops(), begun.elapsed()));
            }
        }
    }

    /// What it waits for, after `starts` pictures to start at and some time.
    fn awaited(&self, datagrams: u64, starts: usize, waited: Duration) -> String {
        if datagrams == 0 {
            return format!("nothing arrives at {} yet", self.name);
        }
        let seen = match starts {
            0 => "no key frame came yet".to_owned(),
            1 => "one key frame came, and no whole GOP yet".to_owned(),
            2 => "1 whole GOP seen".to_owned(),
            starts => format!("{} whole GOPs seen", starts - 1),
        };
        // Key frames are close together, and the look takes as long as it is to take.
        if starts > 2 {
            return format!("{seen} after {} s", waited.as_secs());
        }
        format!(
            "{seen} after {} s: a key frame each second makes the start short (ffmpeg: -g 25 at 25 frames/s; elsewhere: \
             keyframe interval)",
            waited.as_secs()
        )
    }

    fn look(&mut self, meter: &mut SpecMeter) {
        while let Some(timed) = self.ingest.poll() {
            meter.push(&timed);
            self.clock.due(Clock::get().now(), timed.stamp);
            if !self.is_live {
                self.kept.push(timed);
            }
        }
    }

    /// Tells a live stream in a pipe from a stored one by how fast it came. What was looked at of a live one is not
    /// replayed: it would delay all that follows.
    fn classify(&mut self, meter: &SpecMeter, first: Option<Instant>) {
        let took = first.map_or(Duration::ZERO, |first| first.elapsed());
        let real_time = took * STORED_PERCENT / 100;
        if Duration::from_millis(meter.seen().as_ms()) <= real_time {
            self.is_live = true;
            self.kept = Vec::new();
        }
    }

    fn learned(
        &mut self,
        meter: SpecMeter,
        options: &LiveOptions,
        datagrams: u64,
        length: Length,
    ) -> Result<Learned, NetError> {
        let from = self.name.clone();
        let unusable = |problem: &str| NetError::Unusable {
            from: from.clone(),
            problem: problem.to_owned(),
        };
        let came = datagrams > 0 && meter.gops() == 0;
        if let Some(problem) = self.ingest.problem().filter(|_| came) {
            return Err(unusable(&problem));
        }
        // What it is may be known before anything comes.
        let Some(media) = self.ingest.media().filter(|_| datagrams > 0) else {
            return Err(match datagrams {
                0 => NetError::Silent {
                    from,
                    waited: options.patience,
                },
                _ => unusable("too little of it came to tell what it carries"),
            });
        };
        if let Some(problem) = self.ingest.misfit() {
            return Err(unusable(&problem));
        }
        let levels = meter.levels(media);
        let (headroom, rates) = (options.headroom_percent, options.rates);
        let measured = meter.flow_spec(media, headroom, rates);
        let estimate = match length {
            Length::Watched(watched) if measured.is_none() => {
                meter.estimate(media, headroom, rates, watched)
            }
            _ => None,
        };
        let estimated = estimate.as_ref().map(|it| Estimated {
            seen: it.seen,
            gop: it.gop,
        });
        match measured.or(estimate.map(|it| it.spec)) {
            Some(spec) => {
                // Rates that were given are not measured.
                self.meter = (estimated.is_some() && rates.is_none()).then_some(meter);
                Ok(Learned {
                    spec,
                    estimated,
                    form: self.ingest.form(),
                    codec: self.ingest.codec(),
                    levels,
                    renditions: self.ingest.levels(),
                })
            }
            None if meter.gops() == 0 => Err(unusable(
                "no picture to start at came; let the encoder make a key frame every second or two, with \
                 its headers (ffmpeg: -g 25)",
            )),
            None => Err(unusable(
                "it ended, or had one key frame only; a key frame every second or two is needed",
            )),
        }
    }

    /// Serves the stream as `spec` says: its frames, each with its time, and what happens to it. Events are
    /// dropped if the channel is full.
    ///
    /// A stream that outgrows `spec` has `flow` renegotiated, unless its rates were given. So has one whose encoder has to
    /// send at another share of its rate: at that share its layers find room on links that do not carry all of it.
    pub fn start(
        mut self,
        options: &LiveOptions,
        spec: &FlowSpec,
        flow: LiveFlow,
    ) -> (Frames, mpsc::Receiver<LiveEvent>) {
        self.clock.settle();
        // What happened while the stream was looked at is over.
        self.clock.poll_restart();
        let (frames, taken) = mpsc::channel(FRAMES);
        let (events, heard) = mpsc::channel(64);
        let headroom = options.headroom_percent;
        let grows = options.rates.is_none();
        let asks = grows || flow.share.is_some();
        let growth = asks.then(|| Growth::new(flow.clone(), headroom));
        let serving = Serving {
            clock: self.clock.clone(),
            gops: GopWatch::known(spec.gop()),
            timeline: MediaTimeline::default(),
            load: LiveLoad::new(spec, options.window),
            growth,
            grows,
            full: spec.clone(),
            flow,
            pace: None,
            damaged: 0,
            loss: InputLoss::default(),
            frames,
            events,
            first_due: None,
            started: false,
            pictures: true,
            waiting: true,
            dropped: 0,
            lost: 0,
            ahead: Ahead::new(options.lead),
            resyncs: self.clock.resyncs(),
            clock_jumps: self.clock.clock_jumps(),
            repaired: self.bytes.repaired(),
            meter: self.meter.take(),
            media: self.ingest.media(),
            is_pipe: match self.bytes {
                Source::Pipe(_) => true,
                Source::Udp(..) | Source::Protected(_) => false,
                Source::Several(_) => !self.is_live,
            },
        };
        tokio::spawn(serving.run(self));
        (Frames::Live(taken), heard)
    }
}

/// How much of a stream was looked at.
enum Length {
    /// All of it: it is over.
    Whole,
    /// The time since it was recognised.
    Watched(Span),
}

/// When a stream is offered of which no whole GOP has come: `first` is when it was recognised, `pictured` when its
/// first picture came.
fn offer_at(
    first: Option<Instant>,
    pictured: Option<Instant>,
    measure: Duration,
) -> Option<Instant> {
    let offer = first? + OFFERED_WITHIN.max(measure);
    Some(pictured.map_or(offer, |at| offer.max(at + LEAST_LOOK.min(measure))))
}

fn elapsed(since: Option<Instant>) -> Span {
    let elapsed = since.map_or(Duration::ZERO, |since| since.elapsed());
    Span::from_us(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX))
}

fn failed(source: io::Error) -> NetError {
    NetError::System {
        what: "reading live media",
        source,
    }
}
