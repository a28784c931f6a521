//! `layercast serve`: a clip or a live stream as a layered flow.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::pin::pin;

use layercast_core::quantity::QueueSize;
use layercast_core::{
    CELL_SIZE, FlowSpec, Layer, Level, Mediation, NodeId, QosPolicy, Rate, Span, Time,
};
use layercast_link::{LatePromise, LinkConfig, Loss, QueueConfig};
use layercast_media::{Advice, Clip, advice};
use layercast_mets::switch::{PortConfig, SwitchConfig};
use layercast_mets::{AppFrame, Shaping, Source, SourceConfig, SourceProtection};
use layercast_net::{
    Clock, Frames, Identity, LiveEvent, LiveFlow, LiveInput, LocalSource, NetError, NodeConfig,
    check_name, clock_name, flow_epoch, media_rate, random_seed, source_protection, wall_clock,
};
use layercast_protect::Signer;
use layercast_wire::{Carriage, FlowInfo, Payload};
use tokio::sync::{mpsc, watch};

use crate::address;
use crate::args::{self, IdentityArgs, LinkArgs, RepairMode};
use crate::drive::{self, Drive};
use crate::encoder::{self, Encoder, Guided};
use crate::failure::{Failure, Outcome};
use crate::ffmpeg::file;
use crate::input;
use crate::live::{self, Input, Through};
use crate::metrics::Metrics;
use crate::name;
use crate::node::{Place, Stop, check_output, runtime};
use crate::output::Lines;
use crate::probe::{damaged, describe, ends_inside, notes};
use crate::renditions::{self, Renditions};
use crate::reporter::Reporter;
use crate::scheme;
use crate::signals;
use crate::trace::Trace;
use crate::units::{self, LinkRate, PACKET_CELLS};

/// The queue of a port that names none, in time of its line: as long as a frame may take to be played.
const QUEUE: Span = Span::from_secs(1);
/// Requests of a live stream on their way to its flow.
const COMMANDS: usize = 4;

/// Runs the command.
pub fn run(args: &args::Serve) -> Outcome {
    if let (Some(place), Some(node)) = (Place::load(&args.role)?, &args.role.node) {
        return drive::child(&place, node, args.trace.as_deref());
    }
    let path = args.clip.as_deref().ok_or(Failure::Usage(
        "serve needs a clip: a file, - (standard input), udp://HOST:PORT, rtp://HOST:PORT or another URL that ffmpeg \
         opens"
            .into(),
    ))?;
    if args.reading.via == args::Via::None || !scheme::is_foreign(path, scheme::Place::Input) {
        scheme::check_path(path, scheme::Place::Input)?;
    }
    check_output(args.trace.as_deref())?;
    let others = args.rendition.iter().map(|it| it.as_path());
    let read = std::iter::once(path)
        .chain(others)
        .chain(args.sdp.as_deref());
    let _locks: Vec<File> = read.filter_map(lock).collect();
    signals::exit_on_first()?;
    let of_server = |identity: Option<&Identity>| name::of_server(&args.own, identity, args.listen);
    let mut config = node(
        args.name.as_deref(),
        of_server,
        args.listen,
        &args.link,
        &args.own,
    )?;
    config.until_finished = !args.repeat;
    let (node_commands, commands) = mpsc::channel(COMMANDS);
    config.commands = Some(commands);
    let protection = protection(args, &config)?;
    config.switch.require_tokens = args.require_tokens;
    // The ports are taken before the input is read or measured: a port in use is reported immediately.
    let runtime = runtime()?;
    let mut node = runtime.block_on(drive::bind(config))?;
    let trace = Trace::open(args.trace.as_deref(), &node.config().switch.name)?;
    let input = open(path, args)?;
    let is_live = matches!(input, Input::Live(..));
    if is_live && (args.repeat || args.start_when_joined.is_some() || args.start_in.is_some()) {
        let what = match args.renditions {
            Some(Renditions::Encoded(_)) => {
                "renditions that ffmpeg encodes are live media, which cannot be repeated (--loop) or held back \
                 (--start-when-joined, --start-in): encode them into a file, and serve that with --renditions programs"
            }
            _ => {
                "live media cannot be repeated (--loop) or held back (--start-when-joined, --start-in)"
            }
        };
        return Err(Failure::Usage(what.into()));
    }
    if let Some(option) = live_only(args).filter(|_| !is_live) {
        let what = format!("{option} is for live media: a pipe or a URL");
        return Err(Failure::Usage(what));
    }
    if let Some(rates) = args.rates.as_ref().filter(|it| it.len() > Layer::ALL.len()) {
        return Err(Failure::Usage(format!(
            "--rates: {} rates are given, and there are three layers: BL, E1 and E2",
            rates.len()
        )));
    }
    if !is_live && args.sdp.is_some() {
        return Err(Failure::Usage(
            "--sdp describes a live RTP stream: serve rtp://HOST:PORT --sdp FILE".into(),
        ));
    }
    let is_rtp = path.to_str().is_some_and(|it| it.starts_with("rtp://"));
    if args.rtp_fec && !is_rtp {
        return Err(Failure::Usage(
            "--rtp-fec takes parities of a live RTP stream: serve rtp://HOST:PORT --rtp-fec".into(),
        ));
    }
    let flow = match &args.flow {
        Some(name) => name.clone(),
        None if is_live && !path.is_file() => "live".to_owned(),
        None => stem(path),
    };
    check_name(&flow).map_err(|error| {
        let what = format!("the file name is no name for a flow: {error}");
        Failure::new(what).hint("--flow NAME gives the flow another name")
    })?;
    runtime.block_on(async {
        let stop = Stop::listen()?;
        let reporter = Reporter::new(
            args.json,
            Lines::Stdout,
            Metrics::open(&args.metrics, "serve")?,
        );
        let clock = Clock::get();
        let epoch = clock.now();
        let command = args.encoder_cmd.as_deref();
        let mut encoder = command.map(Encoder::start).transpose()?;
        if let (Some(encoder), Some(rates)) = (&encoder, &args.rates) {
            // The stream may come from it, and is not known before it sends.
            encoder.send_at(media_rate(&declared(rates)));
        }
        let (share, shares) = watch::channel(1.0);
        let live = LiveFlow {
            name: flow.clone(),
            node: node_commands,
            share: command.map(|_| shares),
        };
        let mut offering = pin!(offer(input, args, path, live, epoch, &stop, &reporter));
        let offered = loop {
            tokio::select! {
                offered = &mut offering => break offered?,
                text = encoder::ended(&mut encoder) => {
                    reporter.event(clock.now().since(epoch).as_secs_f64(), &text)?;
                }
            }
        };
        let Some(offer) = offered else {
            if let Some(encoder) = encoder {
                encoder.end().await;
            }
            return stop.outcome();
        };
        let target = is_live.then(|| media_rate(&offer.spec));
        let start = clock
            .now()
            .saturating_add(args.start_in.unwrap_or_default());
        let config = node.config_mut();
        let signed_by = protection
            .as_ref()
            .map(|protection| Signer::from_seed(&protection.identity.0).public().0);
        let own = config.identity.as_ref();
        let key = own.map_or_else(Vec::new, |own| own.fingerprint().to_string().into_bytes());
        let pacing = args.pacing.unwrap_or(match is_live {
            // Frames arrive paced by their encoder, and leave paced by the link.
            true => args::Pacing::Off,
            false => args::Pacing::Paper,
        });
        // A live stream may begin without the pictures of a layer, and have them later.
        let max_level = match is_live {
            true => Level::FULL,
            false => offer.spec.top_level(),
        };
        let spec = (offer.spec, max_level);
        config.sources.push(LocalSource {
            config: SourceConfig {
                protection,
                shaping: shaping(pacing),
                ..source(args, &config.switch.name, &key, &flow, spec, start)
            },
            frames: offer.frames,
            start_when_joined: args.start_when_joined.unwrap_or(0),
        });
        let source = config.sources.first();
        let source = source.and_then(|it| Source::new(it.config.clone()).ok());
        let served = source.as_ref().map(Source::flow);
        let slow = served.and_then(|flow| too_slow(flow, &args.link));
        for text in slow.into_iter().chain(served.and_then(promises_more)) {
            reporter.event(clock.now().since(epoch).as_secs_f64(), &text)?;
        }
        let drive = Drive {
            node,
            epoch,
            greeting: offer.greeting,
            flow: Some(flow),
            signed_by,
            live: offer.events,
            through: offer.through,
            encoder: Guided {
                encoder,
                share,
                target,
            },
            trace,
            web: args.web,
        };
        drive.run(&stop, &reporter).await
    })
}

/// A flow whose layers take `rates`.
fn declared(rates: &[Rate]) -> FlowSpec {
    let mut spec = FlowSpec::default();
    for (layer, rate) in Layer::ALL.into_iter().zip(rates) {
        spec.layers[layer].mean = rate.cells();
    }
    spec
}

/// Opens what is to be served.
fn open(path: &Path, args: &args::Serve) -> Result<Input, Failure> {
    let one = |path: &Path| live::open(path, args);
    match &args.renditions {
        None if args.rendition.is_empty() => one(path),
        Some(Renditions::Encoded(wanted)) => live::encoded(path, wanted, args),
        _ => {
            let others = args.rendition.iter().map(|it| it.as_path());
            let all: Vec<&Path> = std::iter::once(path).chain(others).collect();
            renditions::open(&all, one)
        }
    }
}

/// Locks a file that is served, or describes what is, until the handle is dropped: `join --out` refuses to overwrite it.
fn lock(path: &Path) -> Option<File> {
    if input::is_stream(path) {
        return None;
    }
    let file = File::open(path).ok()?;
    // A file system without locks, or a file that is being written, can be served all the same.
    file.try_lock_shared().ok().map(|()| file)
}

/// What to say before the first receiver is refused, if the largest key frame cannot keep the delay bound: its way
/// out of the source, and over the slowest line of this node.
fn too_slow(flow: &FlowInfo, link: &LinkArgs) -> Option<String> {
    let burst = flow.spec.layers.base.burst;
    let bytes = f64::from(burst) * 48.0;
    let line = known_rates(link).min_by_key(|rate| rate.as_bps());
    let on_line = line.map_or(Span::ZERO, |rate| {
        rate.time_for(CELL_SIZE as u64).times(u64::from(burst))
    });
    let needed = Span::from_us(flow.path_delay_us) + on_line;
    let bound = Span::from_ms(u64::from(flow.spec.delay_max_ms));
    let promised = flow.contract.and_then(|it| it.delay);
    let promised = promised.map(|it| Span::from_us((it.agreed * 1e6) as u64));
    let at = line.map_or_else(String::new, |rate| format!(" at {rate}"));
    let takes = format!(
        "warning: the largest key frame ({:.1} kB) takes {} ms{at}",
        bytes / 1e3,
        needed.as_ms()
    );
    match promised.filter(|&it| needed > it) {
        Some(promised) => Some(format!(
            "{takes}, more than the {} ms that --profile promises of the network: receivers with a profile of no more will not join. \
             Raise delay_ms of the profile, encode smaller key frames, or raise --rate",
            promised.as_ms()
        )),
        None if bound > Span::ZERO && needed > bound => Some(format!(
            "{takes}, more than --delay-max {} ms: receivers will be refused. Raise --delay-max to at least {} ms, encode smaller \
             key frames, or raise --rate",
            bound.as_ms(),
            needed.as_ms() + 1
        )),
        None => None,
    }
}

/// What to say of a promise that a receiver of the base layer alone does not get.
fn promises_more(flow: &FlowInfo) -> Option<String> {
    let promised = Rate::from_bps(flow.contract?.throughput?.agreed as u64);
    let base = flow.spec.layers.base.mean.rate();
    (base > Rate::from_bps(0) && promised > base).then(|| {
        format!(
            "warning: --profile promises {promised} at least, the base layer takes {base}: receivers whose line has no room for more \
             layers get less than is promised. Lower the first value of rate_bps to that"
        )
    })
}

/// What is served.
struct Offer {
    spec: FlowSpec,
    frames: Frames,
    events: Option<mpsc::Receiver<LiveEvent>>,
    /// The ffmpeg that it comes through.
    through: Option<Through>,
    greeting: String,
}

/// How the media are sealed, if they are.
fn protection(
    args: &args::Serve,
    config: &NodeConfig,
) -> Result<Option<SourceProtection>, Failure> {
    if !args.seal && !args.require_tokens {
        return Ok(None);
    }
    let kept = args.own.identity.is_some() || args.own.key.is_some();
    if args.require_tokens && args.own.insecure {
        return Err(Failure::Usage(
            "--require-tokens needs --identity FILE, with which layercast token signs, and so links that \
             are protected: leave out --insecure (and --control)"
                .into(),
        ));
    }
    if args.require_tokens && !kept {
        return Err(Failure::Usage(
            "--require-tokens needs --identity FILE: layercast token signs with it".into(),
        ));
    }
    let own = config.identity.as_ref();
    let identity = own.map_or_else(random_seed, |own| own.source_seed());
    Ok(Some(source_protection(identity, args.require_tokens)))
}

/// Makes ready what is to be served; `None` if the user had enough of waiting for it.
async fn offer(
    input: Input,
    args: &args::Serve,
    path: &Path,
    flow: LiveFlow,
    epoch: Time,
    stop: &Stop,
    reporter: &Reporter,
) -> Result<Option<Offer>, Failure> {
    let name = path.display();
    let from = match input {
        Input::Clip(clip) => {
            let advice = clip.advice();
            tell_advice(&advice, reporter);
            tell_damage(&clip, reporter);
            let greeting = format!("{name}\n{}{}", describe(&clip), notes(&advice));
            return Ok(Some(Offer {
                spec: clip.flow_spec(),
                frames: Frames::Iter(frames(*clip, args.repeat)),
                events: None,
                through: None,
                greeting,
            }));
        }
        Input::Renditions(stored) => {
            let described = renditions::describe(&stored);
            for note in &stored.notes {
                reporter.event(0.0, &note.to_string())?;
            }
            let advice = stored.clip.advice();
            tell_advice(&advice, reporter);
            let greeting = format!("{name}\n{}{described}", describe(&stored.clip));
            return Ok(Some(Offer {
                spec: stored.clip.flow_spec(),
                frames: Frames::Iter(frames(stored.clip, args.repeat)),
                events: None,
                through: None,
                greeting,
            }));
        }
        Input::Live(from, through) => (from, through),
    };
    let (from, mut through) = from;
    let mut options = live::options(args);
    options.awaits = through.as_ref().is_some_and(|it| it.awaits);
    let mut input = LiveInput::open(from).map_err(|error| input_in_use(error, path))?;
    if let Some(path) = &args.sdp {
        input.describe(&live::session(path)?);
    }
    let tell = |text: &str| {
        let t_s = Clock::get().now().since(epoch).as_secs_f64();
        // If it cannot be printed, the final result still is.
        let _ = reporter.event(t_s, text);
    };
    let learned = {
        let mut learning = pin!(input.learn(&options, tell));
        loop {
            tokio::select! {
                learned = &mut learning => break learned,
                text = live::message(&mut through) => tell(&text),
                () = stop.token.cancelled() => return Ok(None),
            }
        }
    };
    let learned = learned.map_err(|error| live::unlearned(error, path, through.as_ref()))?;
    if let Some(through) = &through {
        file::not_carried(&name.to_string(), &through.control.foreign_codecs())?;
    }
    let mut advice = advice(&learned.spec, learned.codec);
    if learned.estimated.is_some() {
        for found in &mut advice {
            if let Advice::LongGop { or_more, .. } = found {
                *or_more = true;
            }
        }
    }
    tell_advice(&advice, reporter);
    let described = live::describe(&learned);
    let greeting = format!("{name}\n{described}{}", notes(&advice));
    let (frames, events) = input.start(&options, &learned.spec, flow);
    Ok(Some(Offer {
        spec: learned.spec,
        frames,
        events: Some(events),
        through,
        greeting,
    }))
}

/// A live input that cannot be opened: its port is the one in the URL, not that of --listen.
fn input_in_use(error: NetError, path: &Path) -> Failure {
    match error {
        NetError::PortInUse { addr } => {
            let what = format!("{} cannot be received: {addr} is in use", path.display());
            Failure::new(what).hint(
                "stop the other program that listens there, or let the encoder send to another port and name that one",
            )
        }
        error => Failure::net(error),
    }
}

/// The same of a file that ends inside a picture, or has damaged ones.
fn tell_damage(clip: &Clip, reporter: &Reporter) {
    if reporter.is_json() {
        let end = clip.info.truncated;
        let end = end.map(|offset| ends_inside(clip.info.container, offset));
        for text in damaged(clip.damaged()).into_iter().chain(end) {
            let _ = reporter.event(0.0, &format!("warning: {text}"));
        }
    }
}

/// Programs get as events what people read in the greeting.
fn tell_advice(advice: &[Advice], reporter: &Reporter) {
    if reporter.is_json() {
        for advice in advice {
            // If it cannot be printed, the final result still is.
            let text = match advice.is_warning() {
                true => format!("warning: {advice}"),
                false => advice.to_string(),
            };
            let _ = reporter.event(0.0, &text);
        }
    }
}

fn stem(path: &Path) -> String {
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    stem.unwrap_or_else(|| "flow".to_owned())
}

/// A node of its own, without a scenario; `unique` names it by its identity if it is given no `name`.
pub fn node(
    name: Option<&str>,
    unique: impl FnOnce(Option<&Identity>) -> String,
    listen: std::net::SocketAddr,
    link: &LinkArgs,
    own: &IdentityArgs,
) -> Result<NodeConfig, Failure> {
    check_names("--port", link.ports.iter().map(|port| &*port.name))?;
    check_names("--reserve", own.reserved.iter().map(|it| &*it.0))?;
    let identity = address::identity(own)?;
    let name = match name {
        Some(name) => name.to_owned(),
        None => unique(identity.as_deref()),
    };
    let switch = SwitchConfig {
        id: node_id(&name),
        name,
        seed: layercast_net::random_number(),
        clock: wall_clock(),
        ..SwitchConfig::default()
    };
    check_auto(link)?;
    let measured = promise(link)?;
    let port = |name: &str, rate, queue| PortConfig {
        measured,
        ..port(name, rate, queue)
    };
    let mut config = NodeConfig::new(switch, listen, port("", link.rate, None));
    config.identity = identity;
    config.control = address::control(own)?;
    config.identities = own.reserved.iter().cloned().collect();
    config.max_connections = usize::from(link.max_neighbours);
    config.repair = link.repair.means();
    config.estimate_elsewhere = link.rate.is_none() && measured.is_none();
    config.switch.fast_start = link.fast_start == args::FastStart::On;
    for named in &link.ports {
        let loss = match named.loss {
            p if p > 0.0 => Loss::Bernoulli { p },
            _ => Loss::None,
        };
        let neighbour = layercast_net::Neighbour {
            // A delay that is known counts when a flow that promises one is joined over the link.
            port: PortConfig {
                delay: named.delay,
                discard: named.discard,
                adapts: named.adapts,
                ..port(&named.name, Some(named.rate), named.queue)
            },
            link: LinkConfig {
                delay: named.delay,
                loss,
                ..LinkConfig::default()
            },
        };
        let schedule = (named.name.clone(), named.schedule.clone());
        config.schedules.extend([schedule]);
        config.ports.insert(named.name.clone(), neighbour);
    }
    Ok(config)
}

/// Refuses a name that a repeatable option has twice: only one of the values could count.
fn check_names<'a>(option: &str, names: impl Iterator<Item = &'a str>) -> Outcome {
    let mut known = BTreeSet::new();
    for name in names {
        if !known.insert(name) {
            return Err(Failure::Usage(format!(
                "{option} has {name} twice: give one value for each name"
            )));
        }
    }
    Ok(())
}

/// The rates that links are given.
fn rates(link: &LinkArgs) -> impl Iterator<Item = LinkRate> {
    link.ports.iter().map(|port| port.rate).chain(link.rate)
}

/// Those that are known.
fn known_rates(link: &LinkArgs) -> impl Iterator<Item = Rate> {
    rates(link).filter_map(LinkRate::known)
}

/// Whether the rate of a link is to be found out, and what speaks against that.
fn check_auto(link: &LinkArgs) -> Result<(), Failure> {
    let is_auto = rates(link).any(|rate| rate == LinkRate::Auto);
    if is_auto && link.repair == RepairMode::Off {
        return Err(Failure::Usage(
            "a link with the rate auto is measured by the reports of link repair: leave out --repair off, or give a rate".to_owned(),
        ));
    }
    if is_auto && link.admission == args::Admission::Measured {
        return Err(Failure::Usage(
            "--admission measured needs links with known rates: give a rate instead of auto"
                .to_owned(),
        ));
    }
    Ok(())
}

/// The promise of links that admit base layers by measurement.
fn promise(link: &LinkArgs) -> Result<Option<LatePromise>, Failure> {
    let given = link.late_target.is_some() || link.within.is_some() || link.period.is_some();
    if link.admission == args::Admission::Declared {
        return match given {
            true => Err(Failure::Usage(
                "--late-target, --within and --period are promises of links with --admission measured: add that".to_owned(),
            )),
            false => Ok(None),
        };
    }
    let default = LatePromise::default();
    let promise = LatePromise {
        late_ppm: link.late_target.unwrap_or(default.late_ppm),
        within: link.within.unwrap_or(default.within),
        period: link.period.unwrap_or(default.period),
    };
    promise.validate().map_err(|error| {
        let option = match error.field {
            "late" => "--late-target",
            "within" => "--within",
            _ => "--period",
        };
        Failure::Usage(format!("{option} {}", error.problem))
    })?;
    if known_rates(link).next().is_none() {
        return Err(Failure::Usage(
            "--admission measured needs links with a rate: add --rate RATE or --port NAME=RATE"
                .to_owned(),
        ));
    }
    Ok(Some(promise))
}

/// Numbers have to differ between nodes, and there is no authority that assigns them: a hash of name and
/// process.
pub fn node_id(name: &str) -> NodeId {
    let bytes = name.bytes().chain(std::process::id().to_le_bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    NodeId(hash)
}

/// How many cells a queue holds in front of a line of `rate`: `least` at least, since in time of a slow line it may hold no packet.
pub fn cells_of(queue: QueueSize, rate: Option<Rate>, least: u32) -> u32 {
    // Without a rate units leave immediately, and the queue is only there for form.
    let line = rate.unwrap_or(Rate::from_bps(1_000_000_000));
    units::cells(queue, line).clamp(u64::from(least), 1 << 20) as u32
}

fn port(name: &str, rate: Option<LinkRate>, queue: Option<QueueSize>) -> PortConfig {
    let estimated = rate == Some(LinkRate::Auto);
    let rate = rate.and_then(LinkRate::known);
    let limit = cells_of(queue.unwrap_or(QueueSize::Time(QUEUE)), rate, PACKET_CELLS);
    PortConfig {
        name: name.to_owned(),
        rate,
        estimated,
        // An I picture alone fills a quarter of such a queue; that is no congestion yet.
        queue: QueueConfig {
            efci_on: limit / 2,
            efci_off: limit / 4,
            ..QueueConfig::of_limit(limit)
        },
        ..PortConfig::default()
    }
}

/// An option that is given and does nothing for stored media.
fn live_only(args: &args::Serve) -> Option<&'static str> {
    [
        ("--measure", args.measure.is_some()),
        ("--headroom", args.headroom.is_some()),
        ("--rates", args.rates.is_some()),
        ("--lead", args.lead.is_some()),
        ("--encoder-cmd", args.encoder_cmd.is_some()),
    ]
    .iter()
    .find_map(|&(option, is_given)| is_given.then_some(option))
}

fn source(
    args: &args::Serve,
    name: &str,
    key: &[u8],
    flow: &str,
    (mut spec, max_level): (FlowSpec, Level),
    start: Time,
) -> SourceConfig {
    let id = node_id(name);
    let id_of_flow = FlowInfo::id_of(name, key, flow);
    spec.flow_id = id_of_flow;
    let promise = args.profile;
    let bound = promise.map_or(args.delay_max, |it| it.bound);
    spec.delay_max_ms = u32::try_from(bound.as_ms()).unwrap_or(u32::MAX);
    let policy = QosPolicy {
        max_level,
        adapt: args.adapt,
        ..QosPolicy::default()
    };
    let info = FlowInfo {
        policy,
        spec,
        contract: promise.map(|it| it.contract),
        mediation: promise.map(|_| match args.group {
            args::GroupContract::PerMember => Mediation::PerMember,
            args::GroupContract::SingleRate => Mediation::SingleRate,
        }),
        clock: clock_name(),
        epoch: flow_epoch(),
        core: args.core.as_ref().map(|core| match core.as_str() {
            // No member is known when a flow opens here, and this node is nearest to the source.
            "auto" => name.to_owned(),
            core => core.to_owned(),
        }),
        ..FlowInfo::new(id_of_flow, flow, name)
    };
    SourceConfig {
        start,
        parities: args.protect_base,
        all_layers: args.link.fast_start == args::FastStart::On,
        ..SourceConfig::new(name, id, info, Carriage::Datagrams)
    }
}

fn shaping(pacing: args::Pacing) -> Shaping {
    match pacing {
        args::Pacing::Paper => Shaping::default(),
        args::Pacing::Serial => Shaping::SERIAL,
        args::Pacing::Off => Shaping::Off,
    }
}

fn frames(clip: Clip, repeat: bool) -> Box<dyn Iterator<Item = AppFrame> + Send> {
    let to_app = |frame: layercast_media::Frame| AppFrame {
        layer: frame.layer(),
        gop_start: frame.gop_start,
        sound: frame.sound,
        time: frame.time,
        payload: match frame.data {
            Some(data) => Payload::Bytes(data),
            None => Payload::Zeros(frame.size),
        },
    };
    match repeat {
        true => Box::new(clip.repeated().map(to_app)),
        false => Box::new(clip.frames.into_iter().map(to_app)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_of_more_than_the_base_layer_takes_is_told() {
        let mut flow = FlowInfo::new(layercast_core::FlowId(1), "talk", "dwp");
        let promise = |least| {
            Some(layercast_core::Contract {
                throughput: Some(layercast_core::Term::agreed(least)),
                ..layercast_core::Contract::default()
            })
        };
        flow.contract = promise(150e3);
        // What a live stream takes is not known before it comes.
        assert_eq!(promises_more(&flow), None);
        flow.spec.layers.base.mean = layercast_core::CellRate(335);
        let text = promises_more(&flow).unwrap();
        assert!(
            text.contains("promises 150.0 kbit/s at least, the base layer takes 142.0 kbit/s"),
            "{text}"
        );
        flow.contract = promise(140e3);
        assert_eq!(promises_more(&flow), None);
        flow.contract = None;
        assert_eq!(promises_more(&flow), None);
    }

    #[test]
    fn an_option_has_one_value_for_each_name() {
        assert!(check_names("--port", ["ann", "bob"].into_iter()).is_ok());
        let failure = check_names("--port", ["ann", "bob", "ann"].into_iter()).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(
            failure.to_string().contains("--port has ann twice"),
            "{failure}"
        );
    }
}
