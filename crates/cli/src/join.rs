//! `layercast join`: a receiver.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use layercast_core::{
    CELL_SIZE, CellRate, Layer, Level, Media, PerLayer, Rate, Refusal, Resource, Span,
};
use layercast_media::{OutputForm, Undecodable, misnamed};
use layercast_mets::{PlayoutConfig, SinkConfig, SinkEvent, SinkStats};
use layercast_net::{
    Bearer, Clock, Identity, JoinConfig, JoinEvent, JoinSummary, NetError, Output, OutputStats,
    Progress, Remote, StreamOut, await_flows, run_join, sink_protection,
};
use layercast_protect::{Claims, JoinUrl};
use layercast_wire::{Carriage, FlowInfo, Silence};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::address;
use crate::args::{self, Via};
use crate::below::Below;
use crate::failure::{Failure, Outcome};
use crate::ffmpeg::{Drain, Target, bare_video};
use crate::line::{Line, ReceiverStatus};
use crate::live;
use crate::metrics::Metrics;
use crate::name;
use crate::node::{Place, Stop, after, check_output, parent, runtime, wait_until};
use crate::output::{Lines, are, complain, count};
use crate::playout::PlayoutMoves;
use crate::reasons::{Arrivals, STATED_WAIT_MS};
use crate::repeats::Repeats;
use crate::reporter::Reporter;
use crate::scheme;
use crate::secret;
use crate::serve::node_id;
use crate::signals;
use crate::source_clock::{Following, in_brief, synchronised};
use crate::stats;
use crate::trace::Trace;
use crate::zones;

/// The kind of messages about the playout delay.
const PLAYOUT: &str = "changes of the playout delay";
/// The kind of messages about what was agreed.
const ZONES: &str = "deviations from what was agreed";
/// Pause before a name without an address is resolved again.
const RESOLVE_AGAIN: Duration = Duration::from_millis(500);
/// The environment variable that may hold a token.
const TOKEN_VARIABLE: &str = "LAYERCAST_TOKEN";

/// The token of a receiver is none: names where it comes from.
fn no_token(args: &args::Join, printed: &JoinUrl, error: impl fmt::Display) -> Failure {
    let from = match (&args.token_file, &printed.token) {
        (Some(path), _) => format!("--token-file {}", path.display()),
        (None, None) => format!("the environment variable {TOKEN_VARIABLE}"),
        (None, Some(_)) => "the URL".to_owned(),
    };
    Failure::wrong_use(format!("no token in {from}: {error}")).hint(
        "the owner of the flow makes one: layercast token ... > FILE (layercast token --help)",
    )
}

/// Runs the command.
pub fn run(args: &args::Join) -> Outcome {
    if let (Some(place), Some(receiver)) = (Place::load(&args.role)?, &args.receiver) {
        return child(&place, receiver, args);
    }
    check_outputs(args)?;
    // A URL in a file may have to be waited for.
    signals::exit_on_first()?;
    let address = args.address.as_deref().unwrap_or_default();
    let mut url = address::parse(address)?;
    let printed = url.clone();
    match (
        secret::text(args.token_file.as_deref(), TOKEN_VARIABLE)?,
        &url.token,
    ) {
        (Some(_), Some(_)) if args.token_file.is_some() => {
            let what = "the URL has a token, and so has --token-file: give one of them";
            return Err(Failure::Usage(what.to_owned()));
        }
        (Some(token), None) => url.token = Some(token),
        _ => {}
    }
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        if args.list {
            let node = address::resolve(&url, args.ca.as_deref()).await?;
            return stats::list(node, args.json).await;
        }
        let reporter = reporter(args)?;
        let clock = Clock::get();
        let mut start = Start::new(args, &reporter);
        let mut upstream = start.resolve(&url, args.ca.as_deref()).await?;
        let token = url.token.as_deref().filter(|_| printed.token.is_none());
        upstream.renewal = address::renewal(address, &printed, args.ca.as_deref(), token);
        let flow = match &url.flow {
            Some(flow) => flow.clone(),
            None => start.only_flow(&upstream, &url).await?,
        };
        let own = args.identity.as_deref().map(Identity::load_or_create);
        let own = own.map(address::own).transpose()?;
        let protection = sink_protection(&url).map_err(|error| no_token(args, &printed, error))?;
        let token = protection.token.as_ref();
        let name = match (
            &args.name,
            token.and_then(|token| token.claims().member.clone()),
        ) {
            (Some(name), _) => name.clone(),
            (None, Some(name)) => name,
            (None, None) => name::unique("receiver", own.as_deref()),
        };
        let stop = Stop::listen()?;
        let epoch = clock.now();
        let id = node_id(&name);
        let mut sink = SinkConfig::new(&name, id, &flow, Carriage::Datagrams);
        sink.drain = args.drain.map(Rate::cells).unwrap_or_default();
        sink.level = args.level;
        sink.wishes = args.profile.as_deref().copied();
        sink.asks_at_once = true;
        sink.seed = u64::from(id.0);
        sink.protection = Some(protection);
        sink.playout = PlayoutConfig {
            delay: args.sync.or(args.playout),
            ..PlayoutConfig::live()
        };
        sink.follows_clock = args.sync.is_some();
        let own_policy = args.on_scarce.is_some() || args.on_plenty.is_some();
        sink.policy.on_scarce = args.on_scarce.unwrap_or_default();
        sink.policy.on_plenty = args.on_plenty.unwrap_or_default();
        let via = match args.via {
            Via::Auto if is_bare_video(args) && start.is_transport(&upstream, &flow).await => {
                Via::Ffmpeg
            }
            via => via,
        };
        let args = &args::Join {
            via,
            ..args.clone()
        };
        let (output, drain) = output(args, &flow)?;
        let config = JoinConfig {
            policy_of_flow: !own_policy,
            group: args
                .multicast
                .map(|group| (group, interface(args, upstream.addr))),
            identity: own,
            repair: args.repair == args::JoinRepair::Auto,
            output,
            undecodable: match args.undecodable {
                args::Undecodable::Drop => Undecodable::LeaveOut,
                args::Undecodable::Mark => Undecodable::Mark,
            },
            fast_start: match args.fast_start {
                args::JoinFastStart::Auto => None,
                args::JoinFastStart::On => Some(true),
                args::JoinFastStart::Off => Some(false),
            },
            explain: args.explain.clone(),
            leave_at: args.leave_after.map(|span| epoch.saturating_add(span)),
            start_within: Some(start.rest()),
            must_receive: true,
            patience: Some(args.patience),
            link_name: url.host.clone(),
            ..JoinConfig::new(upstream, sink, epoch)
        };
        receive(config, drain, args, &stop, &reporter).await
    });
    // The system may still look for the address of a name that is not needed any more.
    runtime.shutdown_background();
    outcome
}

/// Waits at the start, for `--patience` or the time of `--for` in all, for a node that is about to start.
struct Start<'a> {
    begun: Instant,
    within: Duration,
    reporter: &'a Reporter,
    /// What was reported last.
    told: String,
}

impl<'a> Start<'a> {
    fn new(args: &args::Join, reporter: &'a Reporter) -> Start<'a> {
        let within = args
            .leave_after
            .map_or(args.patience, |it| it.min(args.patience));
        Start {
            begun: Instant::now(),
            within: Duration::from_millis(within.as_ms()),
            reporter,
            told: String::new(),
        }
    }

    /// What is left of the time.
    fn rest(&self) -> Span {
        let rest = self.within.saturating_sub(self.begun.elapsed());
        Span::from_secs_f64(rest.as_secs_f64())
    }

    /// Reports what it waits for, if that is new.
    fn tell(&mut self, what: &str) {
        if self.told != what {
            what.clone_into(&mut self.told);
            // A reader of the output that is gone ends the command when it receives.
            let _ = self
                .reporter
                .event(self.begun.elapsed().as_secs_f64(), what);
        }
    }

    /// The node to call, once its name has an address.
    async fn resolve(&mut self, url: &JoinUrl, ca: Option<&Path>) -> Result<Remote, Failure> {
        let trust = address::trust(url, ca)?;
        let host = &url.host;
        let until = self.begun + self.within;
        let mut last = "no answer".to_owned();
        loop {
            match timeout_at(until, address::first_of(host)).await {
                Ok(Ok(addr)) => return Ok(Remote::new(addr, Bearer::new(trust, url.control))),
                Ok(Err(why)) => {
                    self.tell(&format!(
                        "not connected: cannot resolve {host}: {why}; trying again"
                    ));
                    last = why;
                }
                Err(_) => return Err(address::unresolved(host, &last)),
            }
            sleep_until(until.min(Instant::now() + RESOLVE_AGAIN)).await;
            if Instant::now() >= until {
                return Err(address::unresolved(host, &last));
            }
        }
    }

    /// The flows of a node, which messages call `name`.
    async fn flows(&mut self, node: &Remote, name: &str) -> Result<Vec<FlowInfo>, NetError> {
        let within = self.within.saturating_sub(self.begun.elapsed());
        let tell = |why: &str| self.tell(&format!("waiting for {name}: {why}; asking again"));
        await_flows(node.clone(), within, tell).await
    }

    /// Whether the flow is a transport stream.
    async fn is_transport(&mut self, node: &Remote, flow: &str) -> bool {
        // Joining it says what is wrong with it.
        let flows = self.flows(node, "the node").await.unwrap_or_default();
        flows
            .iter()
            .any(|it| it.name == flow && it.spec.media == Media::MpegTs)
    }

    /// The name of the flow, where there is only one to choose.
    async fn only_flow(&mut self, node: &Remote, url: &JoinUrl) -> Result<String, Failure> {
        let address = &url.host;
        let flows = self.flows(node, address).await.map_err(Failure::net)?;
        match flows.as_slice() {
            [flow] => Ok(flow.name.clone()),
            [] => Err(
                Failure::new(format!("{address} has no flows on offer")).hint(
                    "is the server up? a switch knows a flow once its upstream has announced it",
                ),
            ),
            many => {
                let names: Vec<&str> = many.iter().map(|flow| flow.name.as_str()).collect();
                Err(
                    Failure::new(format!("{address} has several flows: {}", names.join(", ")))
                        .hint(format!(
                            "name one: layercast join '{}'",
                            named(url, names[0])
                        )),
                )
            }
        }
    }
}

/// Whether the output is video without a container, which ffmpeg takes out of a transport stream.
fn is_bare_video(args: &args::Join) -> bool {
    let out = args.out.as_deref().filter(|out| !scheme::is_url(out));
    let extension = out.and_then(|out| out.extension()?.to_str());
    extension.is_some_and(|it| bare_video(it).is_some())
}

fn reporter(args: &args::Join) -> Result<Reporter, Failure> {
    // With --out - standard output is the stream.
    let lines = match args.out.as_deref() {
        Some(out) if out == Path::new("-") => Lines::Stderr,
        _ => Lines::Stdout,
    };
    let metrics = Metrics::open(&args.metrics, "join")?;
    Ok(Reporter::new(args.json, lines, metrics))
}

/// Checks before anything starts that all outputs can be written.
fn check_outputs(args: &args::Join) -> Outcome {
    check_output(args.trace.as_deref())?;
    check_output(args.explain.as_deref())?;
    match output(args, "flow")? {
        (Output::File(path), _) => check_output(Some(&path)),
        (Output::Rtp { sdp, .. }, _) => check_output(sdp.as_deref()),
        (_, Some(_)) => check_output(args.out.as_deref().filter(|out| !scheme::is_url(out))),
        _ => Ok(()),
    }
}

/// Where the media go, and the ffmpeg that takes them there, if it does.
fn output(args: &args::Join, flow: &str) -> Result<(Output, Option<Drain>), Failure> {
    let Some(out) = args.out.as_deref() else {
        return Ok((Output::Discard, None));
    };
    if is_through(out, args.via) {
        refuse_options_of_rtp(args)?;
        let target = Target::new(out);
        let (is_player, form) = (target.is_player, target.form);
        let drain = Drain::new(target)?;
        let stream = StreamOut::new(drain.writer(), is_player, form);
        return Ok((Output::Stream(stream), Some(drain)));
    }
    own_output(args, flow, out).map(|output| (output, None))
}

/// Refuses the options of an output of RTP for another one.
fn refuse_options_of_rtp(args: &args::Join) -> Outcome {
    let refused = match (args.sdp.is_some(), args.rtp_fec.is_some()) {
        (true, _) => "--sdp describes an output of RTP: join URL --out rtp://HOST:PORT --sdp FILE",
        (false, true) => {
            "--rtp-fec protects an output of RTP: join URL --out rtp://HOST:PORT --rtp-fec 5x5"
        }
        (false, false) => return Ok(()),
    };
    Err(Failure::Usage(refused.into()))
}

/// Whether ffmpeg writes the output.
fn is_through(out: &Path, via: Via) -> bool {
    let is_stdout = out == Path::new("-");
    match via {
        Via::None => false,
        Via::Ffmpeg => !is_stdout,
        Via::Auto => {
            scheme::is_foreign(out, scheme::Place::Output)
                || !scheme::is_url(out) && other_form(out).is_some()
        }
    }
}

/// An output that Layercast writes itself.
fn own_output(args: &args::Join, flow: &str, out: &Path) -> Result<Output, Failure> {
    let is_stdout = out == Path::new("-");
    let form = match is_stdout {
        true => None,
        false => {
            scheme::check_path(out, scheme::Place::Output)?;
            writable(out)?;
            live::output(out)?
        }
    };
    if !matches!(form, Some((_, true))) {
        refuse_options_of_rtp(args)?;
    }
    Ok(match form {
        None if is_stdout => Output::Stdout,
        None => Output::File(out.to_owned()),
        Some((to, false)) => Output::Udp(to),
        Some((to, true)) => {
            let named = flow.replace(['/', '\\'], "_") + ".sdp";
            let sdp = args.sdp.clone().unwrap_or_else(|| named.into());
            Output::Rtp {
                to,
                sdp: Some(sdp),
                parities: args.rtp_fec,
            }
        }
    })
}

/// Names of files in forms that ffmpeg writes.
const OTHER_FORMS: [&str; 21] = [
    "mp4", "m4s", "m4v", "mov", "mkv", "webm", "avi", "flv", "f4v", "wmv", "asf", "3gp", "3g2",
    "m3u8", "mpd", "nut", "mpg", "mpeg", "vob", "mxf", "ogv",
];

/// Whether an output can be written in the form that its name asks for.
fn writable(out: &Path) -> Outcome {
    let name = out.to_string_lossy();
    if scheme::scheme(&name).is_some() {
        return Ok(());
    }
    match other_form(out) {
        None => Ok(()),
        Some(extension) => Err(Failure::Usage(format!(
            "--out {name}: files of the form {extension} are written by ffmpeg: leave out --via none; --out NAME.ts is a \
             transport stream with all that the flow has"
        ))),
    }
}

/// The ending of the name of a file, if ffmpeg writes such.
fn other_form(out: &Path) -> Option<&str> {
    let extension = out.extension().and_then(|it| it.to_str())?;
    OTHER_FORMS
        .contains(&extension.to_ascii_lowercase().as_str())
        .then_some(extension)
}

/// The failure of an output whose name is for other media than the flow has. What ffmpeg is asked to write is its own affair, but for containers
/// that it starts to write and cannot.
fn contradicted(args: &args::Join, flow: &FlowInfo) -> Option<Failure> {
    let out = args.out.as_deref()?;
    let media = flow.spec.media;
    let problem = form(out, args.via).misfit(media).or_else(|| {
        let extension = out.extension().filter(|_| !scheme::is_url(out))?;
        let is_ours = args.via != Via::Ffmpeg || other_form(out).is_some();
        misnamed(extension.to_str().filter(|_| is_ours)?, media)
    })?;
    let shown = secret::hidden(&out.to_string_lossy()).into_owned();
    Some(Failure::Usage(format!("--out {shown}: {problem}")))
}

/// In what form an output is written, by its name.
fn form(out: &Path, via: Via) -> OutputForm {
    if is_through(out, via) {
        return Target::new(out).form;
    }
    match live::output(out) {
        Ok(Some((_, false))) => OutputForm::Transport,
        _ => layercast_net::form_of(out),
    }
}

/// The interface on which to join a group: the one that leads to `upstream`, if none is named.
fn interface(args: &args::Join, upstream: SocketAddr) -> Ipv4Addr {
    let towards = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect(upstream).ok()?;
        match socket.local_addr().ok()?.ip() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }
    };
    args.interface
        .or_else(towards)
        .unwrap_or(Ipv4Addr::UNSPECIFIED)
}

/// The same address with the name of a flow.
fn named(url: &JoinUrl, flow: &str) -> JoinUrl {
    JoinUrl {
        flow: Some(flow.to_owned()),
        ..url.clone()
    }
}

/// Runs the receiver `name` of a scenario as a child of a demo.
fn child(place: &Place, name: &str, args: &args::Join) -> Outcome {
    runtime()?.block_on(async {
        let stop = Stop::listen()?;
        let reporter = reporter(args)?;
        let begun = parent(&stop);
        reporter.ready(name, None, "")?;
        let Ok(epoch) = begun.await else {
            return Ok(());
        };
        let network = &place.network;
        let unknown = || Failure::new(format!("the scenario has no receiver {name}"));
        let receiver = network
            .receivers
            .iter()
            .find(|receiver| receiver.name == name);
        let receiver = receiver.ok_or_else(unknown)?;
        let node = &network.nodes[receiver.node];
        let no_link = || Failure::new(format!("{name}: node {} has no link", node.name));
        let port = node.ports.first().ok_or_else(no_link)?;
        let (output, drain) = output(args, name)?;
        let config = JoinConfig {
            rate: port.config.rate,
            link: port.out,
            output,
            leave_at: receiver.leave.map(|leave| after(epoch, leave)),
            identity: place.identity(name)?,
            until_closed: false,
            stop_if_refused: false,
            link_name: format!("{}-{}", port.config.name, node.name),
            ..JoinConfig::new(
                place.remote(port.neighbour)?,
                receiver.config.clone(),
                epoch,
            )
        };
        wait_until(after(epoch, receiver.join), &stop).await;
        receive(config, drain, args, &stop, &reporter).await
    })
}

async fn receive(
    config: JoinConfig,
    drain: Option<Drain>,
    args: &args::Join,
    stop: &Stop,
    reporter: &Reporter,
) -> Outcome {
    let epoch = config.epoch;
    let leave_at = config.leave_at;
    let flow = config.sink.flow.clone();
    let protection = config.sink.protection.as_ref();
    let token = protection.and_then(|it| it.token.as_ref());
    let allowed = token.map_or(Level::FULL, |token| token.claims().level);
    let claims = token.map(|token| token.claims().clone());
    let name = config.sink.node.clone();
    let mut trace = Trace::open(args.trace.as_deref(), &config.sink.node)?;
    let (events, mut heard) = mpsc::channel(1_024);
    let running = run_join(config, stop.token.clone(), events, trace.observer());
    let mut running = Box::pin(running);
    let clock = Clock::get();
    let (mut joined, mut gave_up, mut offer) = (false, false, None);
    let mut trouble = None;
    let (mut below, mut arrivals) = (Below::new(args.level, allowed), Arrivals::default());
    let (mut playout, mut repeats) = (PlayoutMoves::default(), Repeats::default());
    let mut following = Following::new(args.sync);
    let (mut unfit, mut unexplained) = (None, false);
    let summary = loop {
        tokio::select! {
            summary = &mut running => {
                let t_s = clock.now().since(epoch).as_secs_f64();
                while let Ok(event) = heard.try_recv() {
                    if let JoinEvent::GaveUp { .. } = &event {
                        tell(reporter, t_s, joined, &event)?;
                    }
                    offer = offered(event).or(offer);
                }
                if let Some(failure) = unfit.take() {
                    return Err(failure);
                }
                let failure = match summary {
                    Ok(summary) => break summary,
                    Err(failure) => failure,
                };
                if let Some(summary) = failure.summary.filter(|_| reporter.is_json()) {
                    reporter.summary(&in_json(&summary, &flow)?, "")?;
                }
                let wanted = Wanted { flow: &flow, name: &name, claims: claims.as_ref() };
                let error = match (failure.error, arrivals.blocked()) {
                    (NetError::Nothing { upstream, .. }, Some(why)) => {
                        NetError::Nothing { upstream, why: why.to_owned() }
                    }
                    (error, _) => error,
                };
                return Err(explain(error, offer.as_deref(), args, &wanted));
            }
            Some(event) = heard.recv() => {
                match &event {
                    JoinEvent::Connected { upstream, .. } => below.connected(upstream),
                    JoinEvent::Sink(SinkEvent::Agreed { level, .. }) => below.agreed(*level),
                    JoinEvent::Joined(_) => {
                        joined = true;
                        arrivals.joined();
                        below.joined();
                    }
                    JoinEvent::Disconnected { .. }
                    | JoinEvent::Closed { .. }
                    | JoinEvent::Sink(SinkEvent::Disconnected | SinkEvent::Released { .. }) => joined = false,
                    _ => {}
                }
                let now = clock.now();
                let t_s = now.since(epoch).as_secs_f64();
                if matches!(&event, JoinEvent::Second(progress) if progress.output_broken) {
                    stop.token.cancel();
                }
                gave_up |= matches!(&event, JoinEvent::GaveUp { .. });
                let over = gave_up || stop.token.is_cancelled() || leave_at.is_some_and(|at| at <= now);
                if let JoinEvent::Advertised(flow) = &event
                    && let Some(failure) = contradicted(args, flow)
                {
                    // Before anything is written.
                    unfit = Some(failure);
                    stop.token.cancel();
                    continue;
                }
                if let JoinEvent::Unexplained { error, kind } = &event {
                    unexplained = true;
                    tell_unexplained(args, error, *kind);
                    continue;
                }
                if is_offer(&event) {
                    // What was said of its levels may hold no more.
                    below.joined();
                    offer = offered(event);
                    continue;
                }
                if let JoinEvent::Second(progress) = &event
                    && let Some(text) = following.look(progress, offer.as_deref(), joined)
                {
                    reporter.event(t_s, &text)?;
                }
                let (report, kind) = match &event {
                    JoinEvent::Second(progress) if joined => (arrivals.look(progress), "missing media"),
                    JoinEvent::Second(progress) => {
                        arrivals.apart(progress);
                        (None, "")
                    }
                    JoinEvent::Sink(SinkEvent::Playout { from, to, cause }) => {
                        (playout.look(*from, *to, *cause), PLAYOUT)
                    }
                    JoinEvent::Sink(SinkEvent::MissedDeadline { missed, window }) => {
                        arrivals.missed_deadlines(*missed, *window);
                        (None, "")
                    }
                    JoinEvent::Zone(signal) if joined => (Some(zones::changed(signal)), ZONES),
                    _ => (None, ""),
                };
                if let Some(text) = report.filter(|_| repeats.prints(now, kind)) {
                    reporter.event(t_s, &text)?;
                }
                if let JoinEvent::Second(progress) = &event {
                    let rise = playout.second(progress.source_late_ms);
                    if let Some(text) = rise.filter(|_| repeats.prints(now, PLAYOUT)) {
                        reporter.event(t_s, &text)?;
                    }
                    for text in repeats.over(now) {
                        reporter.event(t_s, &text)?;
                    }
                }
                if let (JoinEvent::Second(progress), Some(flow), true) = (&event, &offer, joined)
                    && let Some(text) = below.look(progress, flow, arrivals.silent())
                    && repeats.prints(now, "reasons for the level")
                {
                    reporter.event(t_s, &text)?;
                }
                match &event {
                    // It is called again and again; what is wrong is reported once.
                    JoinEvent::Disconnected { reason }
                        if trouble.replace(reason.clone()).as_ref() == Some(reason) =>
                    {
                        continue;
                    }
                    JoinEvent::Connected { .. } => trouble = None,
                    _ => {}
                }
                match event {
                    JoinEvent::Closed { .. } if gave_up => {}
                    JoinEvent::Closed { .. } if over => reporter.event(t_s, "left the flow")?,
                    // That the level falls with the flow goes without saying.
                    JoinEvent::Level { .. } if over => {}
                    JoinEvent::Sink(SinkEvent::Released { .. }) if over => {}
                    JoinEvent::Level { from, to } if args.multicast.is_some() && to > args.level => {
                        let text = format!(
                            "level {from} -> {to}, more than --level {}: a group gets the highest level that one of its \
                             members wants (a receiver outside the group gets its own: leave --multicast out)",
                            args.level.get()
                        );
                        reporter.event(t_s, &text)?;
                    }
                    event => tell(reporter, t_s, joined, &event)?,
                }
            }
        }
    };
    drop(running);
    let traced = trace.finish();
    let t_s = clock.now().since(epoch).as_secs_f64();
    for text in repeats.rest() {
        reporter.event(t_s, &text)?;
    }
    let to_stdout = args.out.as_deref() == Some(Path::new("-"));
    reporter.summary(&in_json(&summary, &flow)?, &in_words(&summary))?;
    let mut unwritten = Vec::from_iter(traced.err());
    // What ffmpeg says is the cause of what its pipe says.
    let drained = drain.as_ref().map(Drain::finish);
    let written = match &drained {
        Some(Err(_)) => (&None, None, &args.out),
        _ => (&summary.output.error, summary.output.error_kind, &args.out),
    };
    unwritten.extend(drained.and_then(Result::err));
    if let (Some(error), Some(kind), Some(path)) = written {
        let error = io::Error::new(kind, error.as_str());
        unwritten.push(match to_stdout {
            true => Failure::output("standard output", &error),
            false => Failure::file(path, "write", &error),
        });
    }
    let written = (
        &summary.explain_error,
        summary.explain_error_kind,
        &args.explain,
    );
    if let (Some(error), Some(kind), Some(path)) = written {
        unwritten.push(match unexplained {
            true => Failure::Unsatisfied,
            false => Failure::new(error).hint(Failure::remedy(path, "write", &kind.into())),
        });
    }
    if let Some(last) = unwritten.pop() {
        let tell = |it: &Failure| {
            if !it.is_told() {
                complain(&it.to_string());
            }
        };
        unwritten.iter().for_each(tell);
        if !matches!(last, Failure::BrokenPipe) {
            // A signal gives the exit code; the error is printed all the same.
            stop.outcome().inspect_err(|_| tell(&last))?;
        }
        return Err(last);
    }
    // A demo judges the files of its receivers itself.
    let asked = args.out.as_deref().filter(|_| args.receiver.is_none());
    if let Some(failure) = asked.and_then(|to| nothing_written(&summary.output, to)) {
        stop.outcome()
            .inspect_err(|_| complain(&failure.to_string()))?;
        return Err(failure);
    }
    if let Some(missing) = &summary.missing {
        complain(&format!(
            "layercast: {missing}; what came until then is complete"
        ));
        return Err(Failure::Partial);
    }
    stop.outcome()
}

/// Says when it happens that the file of `--explain` cannot be written.
fn tell_unexplained(args: &args::Join, error: &str, kind: io::ErrorKind) {
    let path = args.explain.as_deref().unwrap_or(Path::new(""));
    let remedy = Failure::remedy(path, "write", &kind.into());
    let failure = Failure::new(error).hint(format!(
        "{remedy}; the explanations end here, and the command continues without them"
    ));
    complain(&failure.to_string());
}

/// Whether an event says what the flow is from now on.
fn is_offer(event: &JoinEvent) -> bool {
    matches!(
        event,
        JoinEvent::Advertised(_) | JoinEvent::Sink(SinkEvent::Renegotiated { .. })
    )
}

/// The flow as it is from an event on, if that says so ([`is_offer`]).
fn offered(event: JoinEvent) -> Option<Box<FlowInfo>> {
    match event {
        JoinEvent::Advertised(flow) | JoinEvent::Sink(SinkEvent::Renegotiated { flow }) => {
            Some(flow)
        }
        _ => None,
    }
}

fn tell(reporter: &Reporter, t_s: f64, joined: bool, event: &JoinEvent) -> Outcome {
    let text = match event {
        JoinEvent::Second(progress) => {
            let status = status(progress, joined);
            return reporter.status(&Line::Receiver(Box::new(status)), || {
                moving(progress, joined)
            });
        }
        JoinEvent::Counted(counters) => {
            reporter.metrics().counted(counters);
            return Ok(());
        }
        JoinEvent::Connected {
            upstream,
            protected,
        } => match protected {
            true => format!("connected with {upstream}"),
            false => {
                format!("connected with {upstream}, in the clear: unencrypted, anybody can forge")
            }
        },
        JoinEvent::NotInGroup {
            upstream,
            name,
            group,
        } => format!(
            "{name} is not in the list of the group {group} at {upstream}: its media come by unicast; join at a switch \
             that has it there (switch --multicast {group}=NAMES,{name}; a server sends none by multicast), or leave \
             --multicast out"
        ),
        JoinEvent::NoSuchFlow {
            upstream,
            flow,
            known,
        } => format!(
            "{upstream} has no flow {flow:?}; it has: {known}; waiting for the flow (--patience says for how long)"
        ),
        JoinEvent::Disconnected { reason } => format!("not connected: {reason}; calling again"),
        JoinEvent::Renewed { upstream } => format!("the file has another URL: calling {upstream}"),
        JoinEvent::Joined(_) => "joined".to_owned(),
        // The member itself refuses what is offered.
        JoinEvent::Refused(refusal) if refusal.resource.parameter().is_some() => {
            format!("refuses the flow: {refusal}")
        }
        JoinEvent::Refused(refusal) => format!("refused by {refusal}"),
        JoinEvent::Sink(SinkEvent::Agreed {
            answer,
            contract,
            level,
            committed,
        }) => zones::agreed(*answer, contract, *level, *committed),
        JoinEvent::Level { from, to } => format!("level {from} -> {to}"),
        JoinEvent::Closed { .. } => "the flow is over".to_owned(),
        JoinEvent::GaveUp { away, silent } => {
            let packet = silent.map_or_else(String::new, |silent| {
                format!("; its last packet came {:.1} s ago", silent.as_secs_f64())
            });
            format!(
                "the flow has been known to be away for {:.1} s (--patience){packet}: left the flow",
                away.as_secs_f64()
            )
        }
        JoinEvent::Sink(SinkEvent::Released { reason }) => format!(
            "the flow is gone: {reason}; it is joined again when it is back (--patience says for how long to wait)"
        ),
        JoinEvent::Sink(SinkEvent::Synchronised { by }) => synchronised(*by),
        JoinEvent::Advertised(_)
        | JoinEvent::Sink(_)
        | JoinEvent::Unexplained { .. }
        | JoinEvent::Zone(_) => return Ok(()),
    };
    reporter.event(t_s, &text)
}

fn status(progress: &Progress, joined: bool) -> ReceiverStatus {
    let played = progress.highest.is_some();
    ReceiverStatus {
        t_s: progress.t,
        joined,
        level: progress.level.get(),
        rate_bps: progress.rate.as_bps(),
        delay_ms: played.then(|| progress.delay.as_ms_f64()),
        end_to_end_ms: progress.end_to_end.map(Into::into),
        frames: progress.frames,
        lost: progress.lost,
        outage: progress.outage,
        late: progress.late.total(),
        link_repair: progress.link_repair,
        outage_ms: progress.outage_ms,
        silence: progress.silence,
        source_clock: progress.source_clock,
        quality: progress.quality,
    }
}

fn moving(progress: &Progress, joined: bool) -> String {
    if !joined {
        return format!("{:8.0} s  waiting for the flow", progress.t);
    }
    let late = progress.late.total();
    // Of live media the delay since they arrived at the source, which is what a viewer has.
    let delay = match &progress.end_to_end {
        Some(delay) => delay.total(),
        None => progress.delay,
    };
    let silent = progress.silence.map(|it| format!("  {}", silence(&it)));
    format!(
        "{:8.0} s  {}  {}  delay {:.0} ms  late {late}  lost {}/{}/{}{}",
        progress.t,
        progress.level,
        progress.rate,
        delay.as_ms_f64(),
        progress.lost.base,
        progress.lost.e1,
        progress.lost.e2,
        silent.unwrap_or_default()
    )
}

/// That no packet comes, and what is missing.
pub fn silence(silence: &Silence) -> String {
    format!(
        "no packet for {:.0} s, {} overdue",
        silence.ms as f64 / 1e3,
        count(silence.overdue.total(), "frame")
    )
}

/// The summary of a receiver of `flow`.
fn in_json(summary: &JoinSummary, flow: &str) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(summary).map_err(Failure::new)?;
    value["receiver"]["flow"] = flow.into();
    value["outage_ms"] = summary.sink.outage_ms.into();
    value["first_picture"] = value["output"]["stream"]["first"].clone();
    Ok(value)
}

fn in_words(summary: &JoinSummary) -> String {
    let receiver = &summary.receiver;
    let counts = [&receiver.frames, &receiver.lost, &receiver.outage];
    let layers = Layer::ALL.map(|layer| frames_in_words(layer, counts, &summary.sink));
    let mut text = layers.concat();
    if let Some(delay) = &receiver.end_to_end_ms {
        // Packets do not state more.
        let cut = if delay.ingest >= STATED_WAIT_MS as f64 {
            " or more"
        } else {
            ""
        };
        text += &format!(
            "  end to end p50 {:.0} ms, p99 {:.0} ms; mean {:.0} ms = ingest {:.0}{cut} + queue {:.0} + path {:.0} + playout \
             {:.0}\n",
            delay.p50, delay.p99, delay.mean, delay.ingest, delay.queue, delay.path, delay.playout
        );
    }
    if let Some(clock) = &summary.sink.source_clock {
        text += &format!("  {}\n", in_brief(clock));
    }
    text += &format!(
        "  late {}, delay p50 {:.1} ms, p99 {:.1} ms, outage {:.1} s, {} bytes written",
        receiver.late,
        receiver.delay_ms.p50,
        receiver.delay_ms.p99,
        summary.sink.outage_ms as f64 / 1e3,
        summary.output.bytes
    );
    let stream = &summary.output.stream;
    if summary.output.dropped > 0 {
        text += &format!(
            "\n  {} dropped, because the output {}",
            count(summary.output.dropped, "frame"),
            // Before it ended, it may have been slow too.
            match (&summary.output.error, summary.output.error_kind) {
                (None, _) | (_, Some(io::ErrorKind::TimedOut)) =>
                    "takes them too slowly, or not at all",
                (Some(_), _) => "ended before the stream",
            }
        );
    }
    if stream.repeated > 0 {
        text += &format!(
            "\n  {} of {} pictures written are repeats, in place of frames that are missing or cannot be decoded",
            stream.repeated,
            stream.written + stream.repeated
        );
    } else if stream.undecodable > 0 {
        let referring = stream.undecodable.saturating_sub(stream.damaged);
        let causes = [
            (stream.damaged, "damaged on the way into the source"),
            (referring, "for want of a picture to which they refer"),
        ];
        let causes: Vec<_> = causes.iter().filter(|(count, _)| *count > 0).collect();
        let causes: Vec<_> = causes
            .iter()
            .map(|(count, why)| format!("{count} {why}"))
            .collect();
        text += &format!(
            "\n  {} {} left out or marked: {}",
            count(stream.undecodable, "frame"),
            are(stream.undecodable),
            causes.join(", ")
        );
    }
    if let Some(link) = summary.link_repair {
        let (got, repaired) = (link.receiving, link.receiving.repaired);
        text += &format!(
            "\n  packets repaired on the link: {} BL, {} E1, {} E2; {} requested, {} repaired in vain",
            repaired.base, repaired.e1, repaired.e2, got.requested, got.spurious
        );
        let (parities, surplus) = (got.parities.total(), got.surplus.total());
        if parities > 0 {
            text += &format!("; {parities} parities, {surplus} in vain");
        }
    }
    text
}

/// The frames of a layer: those played, those lost, those that passed by while the session channel was down, and those not sent to here.
fn frames_in_words(
    layer: Layer,
    [played, lost, outage]: [&PerLayer<u64>; 3],
    sink: &SinkStats,
) -> String {
    let mut text = format!(
        "  {layer}  {:>7} frames played, {} lost",
        played[layer], lost[layer]
    );
    let others = [
        ("sent while the session was down", outage[layer]),
        ("not sent by the source", sink.withheld_by_source[layer]),
        // The server is a node of the path, too, and there may be no switch.
        ("above the level granted", sink.withheld_by_switch[layer]),
    ];
    for (why, count) in others.iter().filter(|(_, count)| *count > 0) {
        text += &format!(", {count} {why}");
    }
    text + "\n"
}

/// What a receiver asked for.
struct Wanted<'a> {
    flow: &'a str,
    name: &'a str,
    /// Of its token.
    claims: Option<&'a Claims>,
}

impl Wanted<'_> {
    /// What does not match of a token that is refused.
    fn token_fault(&self) -> String {
        let Wanted { flow, name, claims } = self;
        match claims {
            None => "no token was given".to_owned(),
            Some(claims) if claims.flow != *flow => {
                format!("the token is for flow {:?}, not for {flow:?}", claims.flow)
            }
            Some(Claims {
                member: Some(member),
                ..
            }) if member != name => format!(
                "the token is for the receiver {member:?}, and this one is {name:?} (--name)"
            ),
            Some(_) => {
                "flow and name match: the token was made with another identity than that of the server".to_owned()
            }
        }
    }
}

/// Why an output that was asked for is empty; `None` if it is not.
fn nothing_written(output: &OutputStats, to: &Path) -> Option<Failure> {
    if output.bytes > 0 {
        return None;
    }
    let stream = &output.stream;
    let why = match (stream.skipped + stream.undecodable, output.dropped) {
        (0, 0) => "no frame came that can be written".to_owned(),
        (0, dropped) => format!("its reader was too slow for {}", count(dropped, "frame")),
        (frames, _) => format!(
            "{} came, and none is, or follows, a key frame at which the output can start",
            count(frames, "frame")
        ),
    };
    let failure = Failure::new(format!("nothing was written to {}: {why}", to.display()));
    Some(failure.hint(
        "receive for longer (--for); key frames every second or two, and join --explain FILE, which shows what became of \
         each frame, help too",
    ))
}

/// What went wrong, and what to do about the things a user can do something about.
fn explain(
    error: NetError,
    offer: Option<&FlowInfo>,
    args: &args::Join,
    wanted: &Wanted<'_>,
) -> Failure {
    let hint = match &error {
        NetError::NoSuchFlow { .. } => {
            let address = args.address.as_deref().unwrap_or("URL");
            format!("list the flows of this node: layercast join '{address}' --list")
        }
        NetError::Refused(refusal) if refusal.resource == Resource::Delay => {
            let key_frame = offer.map_or_else(String::new, |flow| {
                let kbytes = f64::from(flow.spec.layers.base.burst) * 48.0 / 1e3;
                format!(" (its largest key frame has {kbytes:.1} kB)")
            });
            format!(
                "sending the largest picture{key_frame} and the way take longer than the source promises: serve it \
                 with a --delay-max of at least {:.0} ms (with --profile: another profile, or a file \
                 with a larger delay_ms), with smaller key frames, or over faster links",
                (refusal.needed as f64 / 1e3).ceil()
            )
        }
        NetError::Refused(refusal)
            if matches!(
                refusal.resource,
                Resource::Token | Resource::TokenExpired
            ) =>
        {
            let member = match &args.name {
                Some(name) => format!(" --member '{name}'"),
                None => String::new(),
            };
            let fault = match refusal.resource {
                Resource::TokenExpired => String::new(),
                _ => format!("{}; ", wanted.token_fault()),
            };
            format!(
                "{fault}ask the operator of its server for a token (layercast token --identity FILE --flow \
                 '{}'{member}), and give it by --token-file",
                wanted.flow
            )
        }
        NetError::Refused(refusal) if refusal.resource == Resource::StaleProof => {
            "synchronise the clocks of both hosts (NTP): a proof is valid for two minutes".to_owned()
        }
        NetError::Refused(refusal) if refusal.resource == Resource::NameInUse => {
            "choose another --name; a name is free again three seconds after its owner is gone"
                .to_owned()
        }
        NetError::Refused(refusal) if refusal.resource == Resource::PathDelay => {
            too_long(refusal, offer)
        }
        NetError::Refused(refusal) if refusal.resource == Resource::LineThroughput => {
            "raise the rate of the line (--port, --rate), or take a --profile that accepts less, or serve the flow with one that \
             promises less"
                .to_owned()
        }
        NetError::Refused(refusal) if refusal.resource.parameter().is_some() => {
            "the receiver itself refuses what the flow offers: take a --profile that accepts it, or serve the flow with \
             another one (layercast explain PROFILE shows both)"
                .to_owned()
        }
        NetError::OtherGroup { .. } => return Failure::wrong_use(error),
        NetError::Replaced { .. } => {
            "let each receiver have an --identity file of its own, or leave --identity and --name out".to_owned()
        }
        NetError::NameInUse { .. } => {
            "choose another --name, or leave --name out: then the name is one that no other receiver has".to_owned()
        }
        NetError::Refused(refusal)
            if matches!(refusal.resource, Resource::Link | Resource::ReceiverRate) =>
        {
            no_room(refusal)
        }
        _ => return Failure::net(error),
    };
    Failure::new(error).hint(hint)
}

/// What helps where the largest key frame takes longer to a receiver than its profile accepts: on a slow line its bits take the time,
/// elsewhere the server spreads it.
fn too_long(refusal: &Refusal, offer: Option<&FlowInfo>) -> String {
    let line = offer.and_then(|flow| {
        let rate = Rate::from_bps(flow.path_bps.filter(|it| *it > 0)?);
        let octets = u64::from(flow.spec.layers.base.burst) * CELL_SIZE as u64;
        Some((rate, rate.time_for(octets).as_us()))
    });
    let ms = |us: u64| us as f64 / 1e3;
    let told = match line {
        Some((rate, us)) => format!(
            "of this, {:.0} ms are its transmission on the slowest line of the way ({rate})",
            ms(us)
        ),
        None => "no line of the way has a rate that is known, so that this is the time in which the server sends it".to_owned(),
    };
    let pacing = "serve the flow with the --profile of this receiver or a lower --delay-max, since the server spreads key frames over the \
                  delay that it promises; or with --pacing off";
    let helps = match line {
        Some((_, us)) if us > refusal.needed => {
            "no other pacing helps. Encode with smaller key frames, raise the rate of that line (--port, --rate), or take a --profile \
             with a longer delay"
                .to_owned()
        }
        Some(_) => format!("{pacing}, with smaller key frames, or over faster lines"),
        None => format!("{pacing}, or with smaller key frames"),
    };
    format!("{told}: {helps}")
}

/// What helps where the base layer does not fit.
fn no_room(refusal: &Refusal) -> String {
    let rate = |cells: u64| CellRate(u32::try_from(cells).unwrap_or(u32::MAX)).rate();
    let (needed, left) = (rate(refusal.needed), rate(refusal.available));
    format!(
        "every receiver needs the base layer, so a lower --level does not help: it takes {needed}, and {} has {left} left \
         for it on this way. Raise the rate there (--rate, --port NAME=RATE), end another flow over that link, or encode \
         with a lower bit rate or with key frames further apart",
        refusal.node
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_is_renegotiated_is_what_messages_speak_of_from_then_on() {
        let mut flow = FlowInfo::new(layercast_core::FlowId(1), "film", "server");
        flow.spec.layers.base.mean = layercast_core::CellRate(4_321);
        let flow = Box::new(flow);
        for event in [
            JoinEvent::Advertised(flow.clone()),
            JoinEvent::Sink(SinkEvent::Renegotiated { flow: flow.clone() }),
        ] {
            assert!(is_offer(&event));
            assert_eq!(offered(event), Some(flow.clone()));
        }
        let other = JoinEvent::Sink(SinkEvent::AdapterSilent);
        assert!(!is_offer(&other) && offered(other).is_none());
    }

    #[test]
    fn frames_of_an_outage_are_told_apart_from_lost_ones() {
        let of = |e1| PerLayer {
            e1,
            ..PerLayer::default()
        };
        let sink = SinkStats {
            withheld_by_switch: of(7),
            ..SinkStats::default()
        };
        assert_eq!(
            frames_in_words(Layer::E1, [&of(59), &of(2), &of(39)], &sink),
            "  E1       59 frames played, 2 lost, 39 sent while the session was down, 7 above the level granted\n"
        );
        assert_eq!(
            frames_in_words(Layer::Base, [&of(59), &of(2), &of(39)], &sink),
            "  BL        0 frames played, 0 lost\n"
        );
    }

    #[test]
    fn what_does_not_match_of_a_token_is_named() {
        let claims = |flow: &str, member: Option<&str>| Claims {
            flow: flow.to_owned(),
            member: member.map(str::to_owned),
            level: Level::FULL,
            expires: 1,
        };
        for (claims, says) in [
            (None, "no token was given"),
            (
                Some(claims("news", None)),
                "for flow \"news\", not for \"film\"",
            ),
            (
                Some(claims("film", Some("bob"))),
                "for the receiver \"bob\", and this one is \"ann\"",
            ),
            (Some(claims("film", Some("ann"))), "another identity"),
        ] {
            let wanted = Wanted {
                flow: "film",
                name: "ann",
                claims: claims.as_ref(),
            };
            let said = wanted.token_fault();
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn an_output_without_a_byte_is_a_failure_with_its_cause() {
        let mut output = OutputStats::default();
        let said = |output: &OutputStats| {
            let failure = nothing_written(output, Path::new("phone.ts"));
            failure.map(|it| (it.code(), it.to_string()))
        };
        output.stream.skipped = 17;
        let (code, text) = said(&output).unwrap();
        assert_eq!(code, 1);
        assert!(
            text.contains("nothing was written to phone.ts: 17 frames came"),
            "{text}"
        );
        output.bytes = 188;
        assert_eq!(said(&output), None);
    }

    #[test]
    fn outputs_in_other_forms_are_refused_with_the_way_to_them() {
        for fine in [
            "got.ts",
            "got.m1v",
            "got.h264",
            "got",
            "udp://127.0.0.1:1",
            "rtp://[::1]:2",
        ] {
            assert!(writable(Path::new(fine)).is_ok(), "{fine}");
        }
        for (name, says) in [
            ("x.mp4", "leave out --via none"),
            ("seg.M4S", "transport stream"),
        ] {
            let Err(Failure::Usage(text)) = writable(Path::new(name)) else {
                panic!("{name}");
            };
            assert!(text.contains(says), "{text}");
        }
    }

    #[test]
    fn a_key_frame_that_takes_too_long_is_told_with_the_part_that_takes_the_time() {
        let refusal = Refusal {
            node: "ann".into(),
            resource: Resource::PathDelay,
            needed: 100_000,
            available: 400_000,
            measured: None,
        };
        let mut flow = FlowInfo::new(layercast_core::FlowId(1), "talk", "server");
        // 100 cells: 42 400 bits.
        flow.spec.layers.base.burst = 100;
        let says = |bps| {
            let flow = FlowInfo {
                path_bps: bps,
                ..flow.clone()
            };
            too_long(&refusal, Some(&flow))
        };
        for (bps, says_this, not_this) in [
            (
                Some(212_000),
                "200 ms are its transmission on the slowest line of the way (212.0 kbit/s): no other pacing",
                "--pacing off",
            ),
            (Some(1_000_000), "42 ms are its", "no other pacing"),
            (Some(1_000_000), "--pacing off", "no other pacing"),
            (None, "--pacing off", "lines"),
        ] {
            let said = says(bps);
            assert!(
                said.contains(says_this) && !said.contains(not_this),
                "{said}"
            );
        }
    }
}
