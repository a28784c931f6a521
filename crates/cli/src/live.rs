//! Live input of `layercast serve`, and the addresses of live streams.

use std::io::{Cursor, Read};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use layercast_core::{Layer, PerLayer, Rate};
use layercast_fec::SmpteReceiverStats;
use layercast_media::{
    Advice, BreakCause, Clip, InputLoss, PaceChange, Restart, RtpSession, StoredRenditions,
    StreamChange, StreamState, TOO_SLOW,
};
use layercast_net::{Estimated, Learned, LiveEvent, LiveFrom, LiveOptions, NetError};
use layercast_sim::file as text_file;

use crate::args::{self, Via};
use crate::failure::Failure;
use crate::ffmpeg::file::{self, File};
use crate::ffmpeg::input::{self as source, Kind};
use crate::ffmpeg::{Control, Feed, Ffmpeg, Plan};
use crate::host_port;
use crate::input;
use crate::output::{Table, count};
use crate::probe;
use crate::renditions::{self, Wanted};
use crate::scheme::{self, Place};

/// Bytes read from standard input or a FIFO to recognise a transport stream or IVF, including bytes before its first packet.
const SNIFF: u64 = 2_048;

/// What `serve` was given.
pub enum Input {
    /// A file, or all of a pipe that is neither a transport stream nor IVF.
    Clip(Box<Clip>),
    /// Files whose levels are whole renditions.
    Renditions(Box<StoredRenditions>),
    /// Input that continues to arrive.
    Live(LiveFrom, Option<Through>),
}

/// The ffmpeg through which a live input comes.
pub struct Through {
    /// It.
    pub control: Control,
    /// Somebody else calls, when he likes.
    pub awaits: bool,
}

/// Opens what `serve` was given: `udp://` and `rtp://` addresses are live, and so is a transport stream or IVF
/// on standard input, from a FIFO or from a device, and what `via` has ffmpeg read of a URL, a camera or a pipe.
pub fn open(path: &Path, args: &args::Serve) -> Result<Input, Failure> {
    let (program, map, via) = (args.program, args.reading.map, args.reading.via);
    let is_foreign = scheme::is_foreign(path, Place::Input) || source::is_camera(path);
    if via != Via::None && is_foreign || via == Via::Ffmpeg && scheme::is_url(path) {
        return through(source::Input::new(path), None, args, None);
    }
    if let Some((url, address)) = path.to_str().and_then(|it| Some((it, address_of(it)?))) {
        let address = listen_address(url, address)?;
        let from = match args.rtp_fec {
            true => LiveFrom::Protected(address),
            false => LiveFrom::Udp(address),
        };
        return Ok(Input::Live(from, None));
    }
    if !input::is_stream(path) {
        let clip = match file::open(path, via)? {
            File::Session(session) => return through(session, None, args, None),
            File::Stored(bytes) => probe::clip_of(path, bytes, program, map)?,
            File::Own => probe::read_clip(path, program, map, Via::None)?,
        };
        return Ok(Input::Clip(Box::new(clip)));
    }
    let (first, rest) = input::begin(path, SNIFF)?;
    let name = input::name(path);
    let foreign = file::is_bare(&first);
    if via == Via::Ffmpeg || via == Via::Auto && foreign.is_some() {
        let mut input = source::Input::piped(&name);
        input.is_bare = foreign == Some(true);
        if let Some(said) = file::silence_of(&name, &first) {
            eprintln!("{said}");
        }
        let whole = Box::new(Cursor::new(first).chain(rest));
        return through(input, Some(whole), args, None);
    }
    if layercast_media::comes_live(&first) {
        let first = Bytes::from(first);
        return Ok(Input::Live(
            LiveFrom::Pipe {
                name,
                is_live: false,
                first,
                rest,
            },
            None,
        ));
    }
    let bytes = input::rest(path, first, rest)?;
    let clip = probe::clip_of(path, bytes, program, map)?;
    Ok(Input::Clip(Box::new(clip)))
}

/// Opens what ffmpeg encodes as renditions: a file, a pipe, or a URL of any protocol.
///
/// # Errors
/// It cannot be opened; there is no ffmpeg.
pub fn encoded(path: &Path, wanted: &[Wanted], args: &args::Serve) -> Result<Input, Failure> {
    if path != Path::new("-") {
        if !scheme::is_url(path) {
            // What is wrong with the name of a file is reported before ffmpeg is started.
            std::fs::metadata(path).map_err(|error| Failure::file(path, "read", &error))?;
        }
        return through(source::Input::new(path), None, args, Some(wanted));
    }
    let (first, rest) = input::begin(path, SNIFF)?;
    let whole = Box::new(Cursor::new(first).chain(rest));
    let input = source::Input::piped("standard input");
    through(input, Some(whole), args, Some(wanted))
}

/// An input that ffmpeg reads, `stdin` if that is its input, and encodes as the renditions that are wanted.
fn through(
    input: source::Input,
    stdin: Option<Box<dyn Read + Send>>,
    args: &args::Serve,
    wanted: Option<&[Wanted]>,
) -> Result<Input, Failure> {
    let name = input.name.clone();
    let encoding = wanted.map(|wanted| [input.args(), renditions::encoding(wanted)].concat());
    let ffmpeg = Ffmpeg::find(&format!("serve {name}"))?;
    let is_live = input.is_live;
    let awaits = input.kind == Kind::Listener && args.patience.is_none();
    let patience = args.patience.unwrap_or(LiveOptions::default().patience);
    let (feed, control) = Feed::new(Plan {
        ffmpeg,
        input,
        args: encoding,
        stdin,
        patience: Duration::from_millis(patience.as_ms()),
        // How long nothing may come is the concern of what reads it.
        silence: None,
    });
    let from = LiveFrom::Pipe {
        name,
        is_live,
        first: Bytes::new(),
        rest: Box::new(feed),
    };
    Ok(Input::Live(from, Some(Through { control, awaits })))
}

/// Reads the session description of an RTP stream.
pub fn session(path: &Path) -> Result<RtpSession, Failure> {
    let text = text_file::read(path, text_file::MAX_TEXT_FILE)
        .map_err(|error| {
            let kind = "a session description is a text of some lines that the sender of the RTP stream writes (SDP)";
            Failure::text(path, kind, &error)
        })?;
    RtpSession::parse(&String::from_utf8_lossy(&text))
        .map_err(|error| Failure::new(format!("session description {}: {error}", path.display())))
}

/// The address after `udp://` or `rtp://`, without the additions of players.
fn address_of(text: &str) -> Option<&str> {
    let address = text
        .strip_prefix("udp://")
        .or_else(|| text.strip_prefix("rtp://"))?;
    let end = address.find(['?', '/']).unwrap_or(address.len());
    Some(address[..end].trim_start_matches('@'))
}

/// `HOST:PORT` to listen on; without HOST every interface. `url` is what the user wrote.
fn listen_address(url: &str, address: &str) -> Result<SocketAddr, Failure> {
    // An IPv6 address may begin with two colons.
    match address.strip_prefix(':').filter(|it| !it.starts_with(':')) {
        Some(port) => resolve(url, &format!("{}:{port}", Ipv4Addr::UNSPECIFIED)),
        None => resolve(url, address),
    }
}

/// The first address of `HOST:PORT`. `url` is what the user wrote.
fn resolve(url: &str, address: &str) -> Result<SocketAddr, Failure> {
    let scheme = url.split_once("://").map_or("udp", |(scheme, _)| scheme);
    let (host, _) = host_port::split(address).map_err(|error| {
        let whole = error.whole("127.0.0.1", 5_000);
        Failure::wrong_use(format!("{url} {}", error.problem))
            .hint(format!("write {scheme}://{whole}"))
    })?;
    let failed = |why: String| {
        Failure::new(format!("cannot resolve {host} of {url}: {why}"))
            .hint("check the host name and the name service, or give an IP address")
    };
    let mut found = address
        .to_socket_addrs()
        .map_err(|error| failed(error.to_string()))?;
    found
        .next()
        .ok_or_else(|| failed("it has no address".to_owned()))
}

/// Where a live output goes: the address, and whether as RTP. `None` if this is the name of a file.
pub fn output(out: &Path) -> Result<Option<(SocketAddr, bool)>, Failure> {
    let Some(text) = out.to_str() else {
        return Ok(None);
    };
    let Some(address) = address_of(text) else {
        return Ok(None);
    };
    let to = resolve(text, address)?;
    match host_port::no_destination(to) {
        Some(problem) => Err(Failure::wrong_use(format!("{text} {problem}"))
            .hint("give the address and the port of the player, such as 127.0.0.1:6000")),
        None => Ok(Some((to, text.starts_with("rtp://")))),
    }
}

/// The next message of the ffmpeg that an input comes through; never, without one.
pub async fn message(through: &mut Option<Through>) -> String {
    match through {
        Some(through) => through.control.message().await,
        None => std::future::pending().await,
    }
}

/// That no media arrive since the ffmpeg that reads the input is stopped.
pub fn stopped(event: &LiveEvent, through: Option<&Through>) -> Option<String> {
    let is_silent = matches!(event, LiveEvent::Silent);
    let process = through.filter(|_| is_silent)?.control.stopped()?;
    Some(format!(
        "no media arrive: ffmpeg, which reads the input, is stopped by a signal (SIGSTOP, Ctrl-Z, a debugger); it continues with \
         kill -CONT {process}"
    ))
}

/// Why an input cannot be served: what ffmpeg says of it comes first.
pub fn unlearned(error: NetError, path: &Path, through: Option<&Through>) -> Failure {
    let Some(Through { control, .. }) = through else {
        return Failure::net(error);
    };
    let failed = control.failure().map_or(Ok(()), Err);
    let carried = || file::not_carried(&path.display().to_string(), &control.foreign_codecs());
    match failed.and_then(|()| carried()) {
        Err(failure) => failure,
        Ok(()) => Failure::net(error),
    }
}

/// How live input is taken.
pub fn options(args: &args::Serve) -> LiveOptions {
    let defaults = LiveOptions::default();
    let rates = args.rates.as_deref().map(|rates| {
        let mut layers = PerLayer::<Rate>::default();
        for (layer, rate) in Layer::ALL.into_iter().zip(rates) {
            layers[layer] = *rate;
        }
        layers
    });
    LiveOptions {
        measure: args.measure.unwrap_or(defaults.measure),
        headroom_percent: args.headroom.unwrap_or(defaults.headroom_percent),
        rates,
        lead: args.lead.unwrap_or(defaults.lead),
        program: args.program,
        map: args.reading.map,
        renditions: args.renditions.is_some() || !args.rendition.is_empty(),
        patience: args.patience.unwrap_or(defaults.patience),
        ..defaults
    }
}

/// What was learned of a live stream, as a table.
pub fn describe(learned: &Learned) -> String {
    let Learned {
        spec,
        form,
        estimated,
        levels,
        renditions: which,
        ..
    } = learned;
    let mut steps = Table::new(&["level", "pictures/s", "octets", "mean on a link"]);
    for level in levels {
        steps.row([
            level.name.clone(),
            format!("{:.1}", level.fps),
            format!("{:.0} %", level.share_percent),
            level.mean_bps.to_string(),
        ]);
    }
    let mut table = Table::new(&["layer", "reserved Mbit/s", "peak Mbit/s", "cells/s"]);
    for (layer, rate) in spec.layers.iter() {
        let mbps = |rate: Rate| format!("{:.3}", rate.as_bps() as f64 / 1e6);
        table.row([
            layer.to_string(),
            mbps(rate.mean.rate()),
            mbps(rate.peak.rate()),
            rate.mean.0.to_string(),
        ]);
    }
    let (fps, gop) = (
        spec.pictures_per_second().as_f64(),
        spec.gop().as_secs_f64(),
    );
    let gops = match estimated {
        None => format!("GOPs of {gop:.2} s, rates with headroom"),
        Some(Estimated { seen, gop }) => format!(
            "GOPs of {:.1} s or more: no whole GOP came in {:.1} s, so the rates are estimates with headroom until one \
             has come (or give them with --rates)",
            gop.as_secs_f64(),
            seen.as_secs_f64()
        ),
    };
    let which = match which.is_empty() {
        true => String::new(),
        false => format!("\n  {}\n", renditions::in_words(which)),
    };
    format!(
        "  {form}, {fps:.2} frames/s, {gops}\n{which}\n{}\n{}",
        steps.render(),
        table.render()
    )
}

/// The kind of an event of a live input, of which a few in a minute are printed; `None` for one that is always printed.
pub fn kind(event: &LiveEvent) -> Option<&'static str> {
    Some(match event {
        LiveEvent::Silent | LiveEvent::Back => "pauses of the encoder",
        LiveEvent::Restart(_) => "restarts of the timeline",
        LiveEvent::Pace(_) => "changes of the pace of the source",
        LiveEvent::Lost { loss, .. } if loss.packets == 0 => "pictures that are not whole",
        LiveEvent::Lost { .. } => "packets lost on the way in",
        LiveEvent::Repaired(_) => "packets that parities brought back",
        LiveEvent::Source(_) => "sources on the port",
        LiveEvent::Stream(_) => "streams that stop",
        LiveEvent::Rendition(_) => "renditions that do not align or stop",
        LiveEvent::LongGop(_) => "key frames that are far apart",
        LiveEvent::Dropped { .. } => "media that came too fast",
        LiveEvent::Overload(_) => "layers above their reservation",
        LiveEvent::Granted(_) | LiveEvent::Refused(_) => "renegotiations",
        LiveEvent::Measured { .. } | LiveEvent::Counted { .. } | LiveEvent::End { .. } => {
            return None;
        }
    })
}

/// Why the timeline of a live input begins again at a break.
fn broken(cause: BreakCause) -> String {
    let (by, what, why) = match cause {
        BreakCause::Paused(by) => (
            by,
            "media came {} s later than their time stamps say",
            "the encoder, or the path from it, paused",
        ),
        BreakCause::Back(by) => (
            by,
            "the time stamps jump back by {} s",
            "the encoder restarted its clock, or a recording is played from its start again",
        ),
        BreakCause::Ahead(by) => (
            by,
            "the time stamps jump ahead by {} s",
            "the encoder restarted its clock, or a part of the stream is left out",
        ),
    };
    let what = what.replace("{}", &format!("{:.1}", by.as_secs_f64()));
    format!("{what}: {why}. The timeline begins again")
}

/// The text about an event of a live input for a person; nothing about the periodic counts.
pub fn in_words(event: &LiveEvent) -> Option<String> {
    Some(match event {
        LiveEvent::Counted { .. } => return None,
        LiveEvent::Silent => "no media arrive; waiting for the encoder".to_owned(),
        LiveEvent::Back => "media arrive again".to_owned(),
        LiveEvent::Restart(Restart::Break { cause, .. }) => broken(*cause),
        LiveEvent::Restart(Restart::Late(by)) => format!(
            "media came {:.1} s after their time for a second: the timeline begins again, so that they do not stay late",
            by.as_secs_f64()
        ),
        LiveEvent::Restart(Restart::Early(by)) => format!(
            "media came {:.1} s before their time for a second: those of a pause came together, the input is faster than real time, or its \
             time stamps jump. The timeline begins again at a key frame, and frames before it are dropped (a stored stream: serve FILE, \
             or let the sender read it with ffmpeg -re)",
            by.as_secs_f64()
        ),
        LiveEvent::Pace(change) => pace(change),
        LiveEvent::Lost { loss, is_pipe } => lost(loss, *is_pipe),
        LiveEvent::Repaired(stats) => repaired(stats),
        LiveEvent::Source(note) => note.to_string(),
        LiveEvent::Stream(change) => stream(change),
        LiveEvent::Rendition(note) => note.to_string(),
        LiveEvent::LongGop(long) => {
            let seconds = long.gop.as_secs_f64();
            let advice = Advice::LongGop {
                seconds,
                or_more: !long.ended,
            };
            format!("warning: {advice}")
        }
        LiveEvent::Dropped { frames } => format!(
            "{} came faster than the flow takes them; it continues at the next key frame",
            count(*frames, "frame")
        ),
        LiveEvent::Measured { gop } => format!(
            "the first whole GOP came ({:.1} s): the rates are measured now, and the reservation follows",
            gop.as_secs_f64()
        ),
        LiveEvent::Overload(over) => format!(
            "{} takes {}, more than the {} reserved for it",
            over.layer,
            over.takes.rate(),
            over.reserved.rate()
        ),
        LiveEvent::Granted(spec) => {
            let rates: Vec<String> = spec
                .layers
                .iter()
                .filter(|(_, rate)| rate.mean.0 > 0)
                .map(|(layer, rate)| format!("{layer} {}", rate.mean.rate()))
                .collect();
            format!("renegotiated: reserved are now {}", rates.join(", "))
        }
        LiveEvent::Refused(status) => format!(
            "what the stream takes more cannot be reserved: {status}; it continues with what it has, and is \
             asked for again later"
        ),
        LiveEvent::End { stats } => {
            let InputLoss { packets, pictures } = stats.loss();
            match packets {
                0 => "the stream is over".to_owned(),
                packets => format!(
                    "the stream is over; on the way in {} of it were lost, and {} with them",
                    count(packets, "packet"),
                    count(pictures, "picture")
                ),
            }
        }
    })
}

/// That a source delivers less than a second of media per second, and what helps.
pub fn slow(ratio: f64) -> String {
    format!("the source delivers {ratio:.2} s of media per second: {TOO_SLOW}")
}

/// Why packets are missing in a stream that comes through a pipe, such as that of SRT.
const LOST_IN_PIPE: &str = "its sender broke off or was started again, or packets were missing in it already when it was sent";

/// Why packets are lost before they come to the source, and what helps.
const LOST_BEFORE: &str = "the encoder was started again, the network between the encoder and serve loses them, or the receive buffer of the host of serve is full \
                           (Linux: nstat -az UdpRcvbufErrors counts that; sysctl net.core.rmem_max=4194304 before serve starts \
                           makes room). Over a network that loses packets, send by SRT: serve 'srt://:PORT?mode=listener'";

/// That packets were lost on the way in, and what helps; or that pictures are not whole without that.
fn lost(loss: &InputLoss, is_pipe: bool) -> String {
    if loss.packets == 0 {
        return format!(
            "warning: {} not whole: the input ends or breaks off inside, or marks packets as damaged; receivers \
             leave such a picture out with all that refer to it",
            match loss.pictures {
                1 => "1 picture of the input is".to_owned(),
                pictures => format!("{pictures} pictures of the input are"),
            }
        );
    }
    let packets = count(loss.packets, "packet");
    let pictures = match loss.pictures {
        0 => String::new(),
        pictures => format!(
            ", and {} with them, which receivers leave out with all that refer to them",
            count(pictures, "picture")
        ),
    };
    let why = match is_pipe {
        true => LOST_IN_PIPE,
        false => LOST_BEFORE,
    };
    format!("warning: {packets} of the input were lost on the way in{pictures}: {why}")
}

/// What parities of RTP brought back so far.
fn repaired(stats: &SmpteReceiverStats) -> String {
    let back = count(stats.recovered, "packet");
    match stats.lost {
        0 => format!("{back} of the input that were lost came back by their parities, all of them"),
        lost => format!(
            "{back} of the input that were lost came back by their parities, and {lost} did not: larger blocks survive longer bursts, smaller ones more losses"
        ),
    }
}

/// That pictures of a flow are damaged since packets were lost on the way to its source, and what helps.
pub fn damaged(pictures: u64) -> String {
    format!(
        "{} cannot be shown, since packets were lost on the way into the source: {LOST_BEFORE}",
        count(pictures, "picture")
    )
}

/// What becomes of one of the streams of a transport stream.
fn stream(change: &StreamChange) -> String {
    let StreamChange { pid, kind, .. } = change;
    let clock = match change.has_clock {
        true => ", and with it the program clock (PCR)",
        false => "",
    };
    match change.state {
        StreamState::Back => format!("the {kind} (PID {pid}) comes again"),
        StreamState::Stopped => format!(
            "warning: the {kind} (PID {pid}) stopped{clock}: nothing of it came for 2 s; what else the transport stream carries \
             continues. Look at the encoder, and whether the program map (PMT) names the PID that it sends"
        ),
        StreamState::OtherCodec { flow, comes } => {
            let (flow, comes) = (flow.name(), comes.name());
            format!(
                "warning: the {kind} (PID {pid}) is {comes} now, but the flow is {flow}, which does not change while it is served: \
                 the {comes} is left out{clock}, and what else the transport stream carries continues. Let the encoder send {flow}, which is \
                 then served from its next key frame on, or start serve again"
            )
        }
        StreamState::OtherSound { flow, comes } => format!(
            "warning: the {kind} (PID {pid}) is {comes} now, but receivers began with {flow}: it is left out{clock}, and what else the transport \
             stream carries continues. Let the encoder send {flow}, or {comes} with another PID, or start serve again"
        ),
        StreamState::Unlisted => format!(
            "warning: the program map (PMT) names no video any more: the {kind} (PID {pid}) is left out{clock}, and what else the \
             transport stream carries continues. Let the encoder send its video again"
        ),
        StreamState::Scrambled => format!(
            "warning: the {kind} (PID {pid}) is scrambled (transport_scrambling_control): it is sent as it is, receivers cannot \
             play it without its keys, and they start at packets with the random access flag alone. Descramble it before serve"
        ),
        StreamState::NowScrambled => format!(
            "warning: the {kind} (PID {pid}) is scrambled from now on (transport_scrambling_control): it is left out, and what else the \
             transport stream carries continues. Descramble it before serve, which then serves it again from its next key frame on"
        ),
    }
}

/// A change of the pace of a source in words.
pub fn pace(change: &PaceChange) -> String {
    match change {
        PaceChange::Slow(ratio) => format!("warning: {}", slow(*ratio)),
        PaceChange::RealTime(_) => "the source delivers its media in real time again".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_source_is_named_with_its_ratio_and_the_remedy() {
        let said = in_words(&LiveEvent::Pace(PaceChange::Slow(0.851))).expect("a warning");
        for part in [
            "0.85 s of media per second",
            "encoder is too slow",
            "faster preset",
            "lower resolution",
            "does not help",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let said = in_words(&LiveEvent::Pace(PaceChange::RealTime(1.0))).expect("an end");
        assert!(said.contains("real time again"), "{said}");
    }

    #[test]
    fn a_picture_that_is_not_whole_is_no_lost_packet() {
        let loss = InputLoss {
            packets: 0,
            pictures: 1,
        };
        let said = in_words(&LiveEvent::Lost {
            loss,
            is_pipe: false,
        })
        .expect("a warning");
        assert!(
            said.contains("1 picture of the input is not whole"),
            "{said}"
        );
        assert!(!said.contains("lost"), "{said}");
    }

    #[test]
    fn packets_that_are_lost_on_the_way_in_are_named_with_the_remedy() {
        let loss = InputLoss {
            packets: 7,
            pictures: 1,
        };
        let event = LiveEvent::Lost {
            loss,
            is_pipe: false,
        };
        let said = in_words(&event).expect("a warning");
        for part in [
            "7 packets",
            "1 picture ",
            "on the way in",
            "receive buffer",
            "encoder",
            "srt://",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(kind(&event).is_some(), "a few in a minute");
        // Packets in a pipe, as that of SRT, are not lost between two hosts.
        let event = LiveEvent::Lost {
            loss,
            is_pipe: true,
        };
        let said = in_words(&event).expect("a warning");
        assert!(said.contains("started again"), "{said}");
        assert!(
            !said.contains("srt://") && !said.contains("receive buffer"),
            "{said}"
        );
    }

    #[test]
    fn media_that_stay_early_are_named_with_the_remedy() {
        let cause = BreakCause::Back(layercast_core::Span::from_ms(91_960));
        let again = false;
        let said = in_words(&LiveEvent::Restart(Restart::Break { cause, again }));
        let said = said.expect("a message");
        assert!(
            said.starts_with(
                "the time stamps jump back by 92.0 s: the encoder restarted its clock"
            ),
            "{said}"
        );
        let early = Restart::Early(layercast_core::Span::from_ms(1_840));
        let said = in_words(&LiveEvent::Restart(early)).expect("a message");
        for part in [
            "1.8 s before their time",
            "faster than real time",
            "serve FILE",
            "-re",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn addresses_are_read_as_players_write_them() {
        let parse = |text: &str| {
            listen_address(text, address_of(text).unwrap())
                .unwrap()
                .to_string()
        };
        assert_eq!(parse("udp://127.0.0.1:5000"), "127.0.0.1:5000");
        assert_eq!(parse("udp://@:5000"), "0.0.0.0:5000");
        assert_eq!(
            parse("rtp://@239.1.1.1:5004?pkt_size=1316"),
            "239.1.1.1:5004"
        );
        assert_eq!(address_of("clip.m1v"), None);
        for (url, says) in [
            ("udp://127.0.0.1", ["has no port", "udp://127.0.0.1:5000"]),
            ("rtp://[::1]", ["has no port", "rtp://[::1]:5000"]),
            ("udp://5000", ["has no address", "udp://127.0.0.1:5000"]),
            ("udp://", ["no address and no port", "udp://127.0.0.1:5000"]),
            ("udp://::1", ["without brackets", "udp://[::1]:5000"]),
            (
                "udp://127.0.0.1:70000",
                ["\"70000\"", "udp://127.0.0.1:5000"],
            ),
        ] {
            let failure = listen_address(url, address_of(url).unwrap()).unwrap_err();
            assert_eq!(failure.code(), 2, "{url}");
            for part in says {
                assert!(failure.to_string().contains(part), "{url}: {failure}");
            }
        }
        // An output has to go to a host.
        let failure = output(Path::new("rtp://:1")).unwrap_err();
        let said = failure.to_string();
        assert!(
            said.contains("rtp://:1 has no address") && said.contains("rtp://127.0.0.1:1"),
            "{said}"
        );
        for out in ["udp://127.0.0.1:0", "rtp://0.0.0.0:5004"] {
            let failure = output(Path::new(out)).unwrap_err();
            assert_eq!(failure.code(), 2, "{out}");
            assert!(failure.to_string().contains(out), "{failure}");
        }
        let out = output(Path::new("rtp://127.0.0.1:5004")).unwrap();
        assert_eq!(out, Some(("127.0.0.1:5004".parse().unwrap(), true)));
        assert_eq!(output(Path::new("got.ts")).unwrap(), None);
    }
}
