//! Quantities on the command line, written as in scenario files: `5s`, `10Mbit/s`, `256cells`.

use std::ffi::OsStr;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::builder::TypedValueParser;
use layercast_core::quantity::{self, Quantity, QueueSize, time_or_zero};
use layercast_core::{AdaptMode, FilterKind, Level, OnPlenty, OnScarce, Rate, Span};
use layercast_fec::MatrixCode;
use layercast_fec::SmpteConfig;
use layercast_link::{Discard, Jitter, RateSchedule};
use layercast_media::{FilterRule, Map, MapError, RuleError};
use layercast_mets::ParityConfigError;
use layercast_mets::switch::FilterPlace;
use layercast_net::{Fingerprint, FingerprintError, check_name};
use layercast_picture::VodFastStart;
use layercast_protect::{Control, UrlError};
use layercast_qos::Merge;
use layercast_sim::scenario::DiscardSpec;

use crate::host_port;
use crate::scenario::ProtectBase;

/// What `--port NAME=RATE,delay=..,queue=..,loss=..` says about the link to one neighbour.
#[derive(Clone, PartialEq, Debug)]
pub struct NamedPort {
    /// The neighbour.
    pub name: String,
    /// Rate of the link.
    pub rate: LinkRate,
    /// Propagation delay that is added.
    pub delay: Span,
    /// Size of the queue.
    pub queue: Option<QueueSize>,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// How the rate changes.
    pub schedule: RateSchedule,
    /// What a full queue discards.
    pub discard: Discard,
    /// Whether the adapter divides the rate among the flows.
    pub adapts: bool,
}

/// The rate of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkRate {
    /// What the node finds that the path carries.
    Auto,
    /// No limit.
    Unlimited,
    /// This one.
    Known(Rate),
}

impl LinkRate {
    /// The rate, if it is known.
    pub fn known(self) -> Option<Rate> {
        match self {
            LinkRate::Auto | LinkRate::Unlimited => None,
            LinkRate::Known(rate) => Some(rate),
        }
    }
}

/// What `--multicast GROUP:PORT=NAME,..` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Where the media go.
    pub group: SocketAddrV4,
    /// The neighbours that take them there.
    pub members: Vec<String>,
}

fn quantity<T: Quantity>(text: &str) -> Result<T, String> {
    T::parse(text).map_err(|error| error.to_string())
}

/// Reads the name of a node, a flow or a member ([`check_name`]). Its error does not repeat the name, which may be long
/// or have control characters.
#[derive(Clone, Copy, Debug)]
pub struct Name;

impl TypedValueParser for Name {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let arg = arg.map_or_else(|| "the name".to_owned(), ToString::to_string);
        let wrong = |why: &dyn Display| {
            let what = format!("invalid name for '{arg}': {why}\n");
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, what).with_cmd(command)
        };
        let name = value.to_str().ok_or_else(|| wrong(&"it is not UTF-8"))?;
        check_name(name).map_err(|error| wrong(&error))?;
        Ok(name.to_owned())
    }
}

/// Reads an address to listen on, such as `0.0.0.0:7400`.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    address(text, |port| {
        format!("127.0.0.1:{port} (this host only) or 0.0.0.0:{port} (all addresses of this host)")
    })
}

/// Reads the address of another program, such as `192.0.2.7:9400`.
pub fn destination(text: &str) -> Result<SocketAddr, String> {
    destination_or(text, PORT)
}

/// Reads the address of a manager that receives SNMP traps, by default at their port.
pub fn trap_manager(text: &str) -> Result<SocketAddr, String> {
    destination_or(text, 162)
}

fn destination_or(text: &str, default: u16) -> Result<SocketAddr, String> {
    let with = |port| format!("127.0.0.1:{port} for a program on this host");
    let address = address(text, with)?;
    let port = NonZeroU16::new(address.port()).map_or(default, NonZeroU16::get);
    match host_port::no_destination(address) {
        Some(problem) => Err(format!("it {problem}: write {}", with(port))),
        None => Ok(address),
    }
}

/// Reads `HOST:PORT` of a tunnel on another host; the host is looked up later.
pub fn peer(text: &str) -> Result<String, String> {
    host(text, 7_800)
}

/// Reads `HOST:PORT` of the other end of a measured path.
pub fn path_end(text: &str) -> Result<String, String> {
    host(text, 9_500)
}

/// `port` is that of suggestions.
fn host(text: &str, port: u16) -> Result<String, String> {
    match host_port::split(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            let whole = error.whole("192.0.2.7", port);
            Err(format!("it {}: write {whole}", error.problem))
        }
    }
}

/// The port in suggestions.
const PORT: u16 = 7_400;

/// Reads `ADDR:PORT`; `with` gives whole addresses with a port that was given alone.
fn address(text: &str, with: impl Fn(u16) -> String) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let error = match host_port::split(text) {
        Ok((_, port)) => {
            let whole = with(port);
            return Err(format!(
                "expected an IP address and a port, not a name: write {whole}"
            ));
        }
        Err(error) => error,
    };
    let is_ip = |host: &str| host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let problem = &error.problem;
    Err(match error.host.as_deref() {
        None => format!("it {problem}: write {}", with(error.port.unwrap_or(PORT))),
        Some(host) if is_ip(host) => format!("it {problem}: write {}", error.whole(host, PORT)),
        Some(_) => format!("expected ADDR:PORT: write {}", with(PORT)),
    })
}

/// Reads a time such as `15s`.
pub fn span(text: &str) -> Result<Span, String> {
    time_or_zero(text).map_err(|error| error.to_string())
}

/// Reads a time above 0.
pub fn duration(text: &str) -> Result<Span, String> {
    match span(text)? {
        Span::ZERO => Err("it is 0: give a time above 0, such as 10s".into()),
        duration => Ok(duration),
    }
}

/// Reads a delay that is promised, in whole milliseconds; 0 promises none.
pub fn promise(text: &str) -> Result<Span, String> {
    match span(text)? {
        time if time != Span::ZERO && time < Span::from_ms(1) => Err(
            "promises are made in whole milliseconds: give at least 1ms, or 0, which promises none"
                .into(),
        ),
        time => Ok(time),
    }
}

/// Reads a load such as `1.1`.
pub fn load(text: &str) -> Result<f64, String> {
    let load = text
        .parse::<f64>()
        .ok()
        .filter(|load| *load > 0.0 && *load <= 100.0);
    load.ok_or_else(|| {
        "give a number above 0 and up to 100, such as 1.1 for 110 % of the line".into()
    })
}

/// Reads a time up to `longest`: it bounds what is kept, or how long something is held up.
pub fn span_within(longest: Span) -> impl Fn(&str) -> Result<Span, String> + Clone {
    move |text| match span(text)? {
        time if time > longest => Err(format!("give at most {} s", longest.as_secs_f64())),
        time => Ok(time),
    }
}

/// Reads a rate such as `10Mbit/s`.
pub fn rate(text: &str) -> Result<Rate, String> {
    quantity(text)
}

/// Reads a rate such as `10Mbit/s`, `auto` or `unlimited`.
pub fn link_rate(text: &str) -> Result<LinkRate, String> {
    match text.trim() {
        "auto" => Ok(LinkRate::Auto),
        "unlimited" => Ok(LinkRate::Unlimited),
        text => rate(text)
            .map(LinkRate::Known)
            .map_err(|error| format!("{error}, auto or unlimited")),
    }
}

/// Reads what carries the control in the clear: `tcp` or `xtp`.
pub fn control(text: &str) -> Result<Control, String> {
    text.parse().map_err(|error: UrlError| error.to_string())
}

/// Reads a rate such as `10Mbit/s`, or `800k` for short.
pub fn short_rate(text: &str) -> Result<Rate, String> {
    rate(&format!("{text}bit/s")).or_else(|_| rate(text))
}

/// A type of numbers that are not negative. A range of plain literals is of `i32`, and so is none of these.
pub trait Unsigned {}

impl Unsigned for u8 {}
impl Unsigned for u16 {}
impl Unsigned for u32 {}
impl Unsigned for u64 {}
impl Unsigned for usize {}

/// Reads a whole number of `range`.
pub fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: Unsigned + Copy + PartialOrd + Display + FromStr,
{
    move |text| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let problem = match text.parse() {
            Ok(number) if range.contains(&number) => return Ok(number),
            _ if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                "is not a whole number"
            }
            _ if text.starts_with('-') => "is negative",
            _ => "is out of range",
        };
        let (first, last) = (range.start(), range.end());
        Err(format!(
            "it {problem}; expected a whole number from {first} to {last}"
        ))
    }
}

/// Reads a range of seeds such as `1..20`, both ends included.
pub fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text
        .split_once("..")
        .ok_or("expected FIRST..LAST, such as 1..20")?;
    let number = |text: &str| {
        let wrong = |_| format!("{text:?} is no seed, which are whole numbers");
        text.parse::<u64>().map_err(wrong)
    };
    let (first, last) = (number(first)?, number(last)?);
    match last.checked_sub(first) {
        None => Err(format!("{first} is above {last}")),
        Some(more) if more >= MOST_SEEDS => Err(format!("more than {MOST_SEEDS} seeds")),
        Some(_) => Ok(first..=last),
    }
}

const MOST_SEEDS: u64 = 100_000;

/// Reads a level, 0 to 2.
pub fn level(text: &str) -> Result<Level, String> {
    let named = |level: &Level| level.to_string().eq_ignore_ascii_case(text);
    let all = [Level::BASE, Level::E1, Level::FULL];
    let level = text.parse().ok().and_then(Level::new);
    let level = level.or_else(|| all.into_iter().find(named));
    level.ok_or_else(|| "expected 0 (BL), 1 (BL+E1) or 2 (BL+E1+E2)".into())
}

/// Longest queue of a port, in time of its line, and longest delay.
const LONGEST_QUEUE: Span = Span::from_secs(60);
/// Cells of 48 octets that the largest packet of a node takes: it fits the least MTU of IPv6.
pub const PACKET_CELLS: u32 = 1_280_u32.div_ceil(48);

/// How many cells a queue holds in front of a line of `rate`.
pub fn cells(queue: QueueSize, rate: Rate) -> u64 {
    match queue {
        QueueSize::Cells(cells) => u64::from(cells),
        QueueSize::Bytes(bytes) => bytes / 48,
        QueueSize::Time(span) => (rate.cells().0 as f64 * span.as_secs_f64()) as u64,
    }
}

/// Checks that a queue of a port holds a packet. `text` is what was given.
fn check_queue(queue: QueueSize, rate: Rate, text: &str) -> Result<(), String> {
    if let QueueSize::Time(span) = queue
        && span > LONGEST_QUEUE
    {
        // A queue takes memory.
        return Err(format!("queue={text}: give at most 60 s"));
    }
    let holds = cells(queue, rate);
    if holds >= u64::from(PACKET_CELLS) {
        return Ok(());
    }
    let octets = PACKET_CELLS * 48;
    let least = match queue {
        QueueSize::Cells(_) => format!("{PACKET_CELLS}cells"),
        QueueSize::Bytes(_) => format!("{octets}B"),
        QueueSize::Time(_) => {
            let seconds = f64::from(PACKET_CELLS) / rate.cells().0.max(1) as f64;
            format!("{}ms", (seconds * 1e3).ceil())
        }
    };
    Err(format!(
        "queue={text}: it holds {} octets at {rate}, and a packet has up to {octets}, so that nothing would pass: give {least} for one \
         packet, the time of a key frame or more for pictures, or leave it out (500ms)",
        holds * 48
    ))
}

/// Reads `NAME=RATE[,delay=TIME][,queue=SIZE][,loss=P][,schedule=TIME:PERCENT,..]`.
pub fn named_port(text: &str) -> Result<NamedPort, String> {
    let usage = "expected NAME=RATE|auto[,delay=5ms][,queue=500ms][,discard=POLICY][,adapt=off][,loss=0.01][,schedule=10s:60%,20s:100%]";
    let no_rate =
        || format!("{text:?} has no rate; each neighbour has a --port of its own; {usage}");
    let (name, rest) = text.split_once('=').ok_or_else(no_rate)?;
    let mut parts = rest.split(',');
    let mut port = NamedPort {
        name: name.trim().to_owned(),
        rate: link_rate(parts.next().unwrap_or_default())?,
        delay: Span::ZERO,
        queue: None,
        loss: 0.0,
        schedule: RateSchedule::default(),
        discard: Discard::default(),
        adapts: true,
    };
    let (mut step_texts, mut given) = (Vec::new(), Vec::new());
    if port.name.is_empty() {
        return Err(usage.into());
    }
    check_name(&port.name).map_err(|error| error.to_string())?;
    for part in parts {
        // The schedule has commas of its own.
        if !step_texts.is_empty() && !part.contains('=') {
            step_texts.push(part);
            continue;
        }
        let no_value =
            || format!("{part:?} has no value; each neighbour has a --port of its own; {usage}");
        let (key, value) = part.split_once('=').ok_or_else(no_value)?;
        if given.contains(&key.trim()) {
            return Err(format!("{}= is given twice", key.trim()));
        }
        given.push(key.trim());
        match key.trim() {
            "delay" => {
                let within = span_within(LONGEST_QUEUE)(value);
                port.delay = within.map_err(|error| format!("delay={value}: {error}"))?;
            }
            "queue" => {
                let queue = quantity(value)?;
                if let Some(rate) = port.rate.known() {
                    check_queue(queue, rate, value)?;
                }
                port.queue = Some(queue);
            }
            "loss" => port.loss = probability(value)?,
            "discard" => {
                let policy = policy(value).map_err(|error| format!("discard={value}: {error}"))?;
                port.discard = policy.discard();
            }
            "adapt" => {
                port.adapts = match value.trim() {
                    "on" => true,
                    "off" => false,
                    other => return Err(format!("adapt={other}: it is one of on, off")),
                };
            }
            "schedule" => step_texts.push(value),
            other => {
                return Err(format!(
                    "{other} is not one of delay, queue, discard, adapt, loss, schedule"
                ));
            }
        }
    }
    if !step_texts.is_empty() {
        port.schedule = schedule(&step_texts.join(","))?;
    }
    let of_rate = [
        ("queue", port.queue.is_some()),
        ("schedule", !step_texts.is_empty()),
    ];
    if port.rate.known().is_none()
        && let Some((key, _)) = of_rate.iter().find(|(_, is_given)| *is_given)
    {
        let rate = match port.rate {
            LinkRate::Auto => "auto",
            _ => "unlimited",
        };
        return Err(format!(
            "{key}= belongs to a link with a known rate, and this one is {rate}"
        ));
    }
    Ok(port)
}

/// Reads what a full queue discards, as scenarios write it, such as `whole_gops`; a hyphen does as well.
pub fn policy(text: &str) -> Result<DiscardSpec, String> {
    let wanted = text.trim().to_ascii_lowercase().replace('-', "_");
    let mut all = DiscardSpec::ALL.into_iter();
    all.find(|it| it.name() == wanted).ok_or_else(|| {
        let names = DiscardSpec::ALL.map(DiscardSpec::name);
        format!("it is one of {}", names.join(", "))
    })
}

/// Reads a fast start such as `120M,3s,4M`.
pub fn fast_start(text: &str) -> Result<VodFastStart, String> {
    let [first, time, then] = text.split(',').collect::<Vec<_>>()[..] else {
        return Err("it has three parts, such as 120M,3s,4M".into());
    };
    let start = VodFastStart {
        first_bps: short_rate(first)?.as_bps(),
        first_seconds: duration(time)?.as_secs_f64(),
        then_bps: short_rate(then)?.as_bps(),
    };
    start.validate().map_err(|error| error.to_string())?;
    Ok(start)
}

/// Reads parities such as `4x4` or `even-odd:10x10`.
pub fn parity(text: &str) -> Result<(MatrixCode, usize, usize), String> {
    let (code, size) = text.split_once(':').unwrap_or(("columns", text));
    let codes = MatrixCode::ALL.map(|it| (it.name(), it));
    let code = codes.iter().find(|(name, _)| *name == code);
    let (_, code) = code.ok_or_else(|| {
        let names: Vec<&str> = codes.iter().map(|(name, _)| *name).collect();
        format!("its code is one of {}", names.join(", "))
    })?;
    let (rows, columns) = size
        .split_once('x')
        .and_then(|(rows, columns)| Some((rows.parse().ok()?, columns.parse().ok()?)))
        .ok_or("rows and columns are missing: write 4x4")?;
    Ok((*code, rows, columns))
}

/// Reads host and port of `receive-cells`.
pub fn cells_end(text: &str) -> Result<String, String> {
    host(text, 5_006)
}

/// Reads a probability such as `0.03` or `3%`.
pub fn probability(text: &str) -> Result<f64, String> {
    quantity::probability(text)
}

/// Reads a share of late bits, `0.1%` or `0.001`, in parts in a million.
pub fn late_target(text: &str) -> Result<u32, String> {
    let share = probability(text)?;
    // Less than one in a million cannot be counted, and a share of all is no promise.
    match (share * 1e6).round() {
        ppm if (1.0..1e6).contains(&ppm) => Ok(ppm as u32),
        _ => Err("a target of late bits is at least 0.0001% and below 100%".to_owned()),
    }
}

/// Reads a schedule such as `10s:60%,20s:100%`.
pub fn schedule(text: &str) -> Result<RateSchedule, String> {
    quantity(text)
}

/// Reads jitter: `5ms` is uniform up to that, `normal:5ms` the absolute value of a normal variable
/// of that standard deviation.
pub fn jitter(text: &str) -> Result<Jitter, String> {
    Ok(match text.split_once(':') {
        Some(("normal", sd)) => Jitter::Normal { sd: span(sd)? },
        Some(_) => return Err("expected a time, or normal:TIME".into()),
        None => match span(text)? {
            Span::ZERO => Jitter::None,
            max => Jitter::Uniform { max },
        },
    })
}

/// Reads the size of a queue such as `100ms`, `64KiB` or `256cells`.
pub fn queue(text: &str) -> Result<QueueSize, String> {
    quantity(text)
}

/// Reads `GROUP:PORT=NAME,..`.
pub fn group(text: &str) -> Result<Group, String> {
    let usage = "expected GROUP:PORT=NAME,.. such as 239.1.1.1:7500=ann,bob";
    let (group, names) = text.split_once('=').ok_or(usage)?;
    let group = group_address(group.trim()).map_err(|_| usage)?;
    let members: Vec<String> = names
        .split(',')
        .map(|name| name.trim().to_owned())
        .collect();
    if members.iter().any(String::is_empty) {
        return Err(usage.into());
    }
    for member in &members {
        check_name(member).map_err(|error| error.to_string())?;
    }
    Ok(Group { group, members })
}

/// Reads the address of an interface of this host.
pub fn interface(text: &str) -> Result<Ipv4Addr, String> {
    text.parse().map_err(|_| {
        "expected an IPv4 address of this host, such as 192.0.2.7 (`ip address` shows them)"
            .to_owned()
    })
}

/// Reads the address of a multicast group, such as `239.1.2.3:7600`.
pub fn group_address(text: &str) -> Result<SocketAddrV4, String> {
    let group: SocketAddrV4 = text
        .parse()
        .map_err(|_| "expected GROUP:PORT such as 239.1.2.3:7600".to_owned())?;
    match group.ip().is_multicast() && group.port() != 0 {
        true => Ok(group),
        false => Err("expected an address between 224.0.0.0 and 239.255.255.255 and a port".into()),
    }
}

/// Reads `NAME=FINGERPRINT`.
pub fn reservation(text: &str) -> Result<(String, Fingerprint), String> {
    let usage = "expected NAME=FINGERPRINT, with the 43 characters of the certificate in its --identity FILE";
    let (name, fingerprint) = text.split_once('=').ok_or(usage)?;
    if name.is_empty() {
        return Err(usage.into());
    }
    check_name(name).map_err(|error| error.to_string())?;
    let fingerprint = fingerprint.parse();
    let fingerprint = fingerprint.map_err(|error: FingerprintError| error.to_string())?;
    Ok((name.to_owned(), fingerprint))
}

/// `FLOW=RULE` or `FLOW@NEIGHBOUR=RULE`.
pub fn filter(text: &str) -> Result<FilterPlace, String> {
    let usage = "expected FLOW=RULE or FLOW@NEIGHBOUR=RULE";
    let (place, rule) = text.split_once('=').ok_or(usage)?;
    let (flow, to) = match place.split_once('@') {
        Some((flow, to)) => (flow, Some(to)),
        None => (place, None),
    };
    if flow.is_empty() || to.is_some_and(str::is_empty) {
        return Err(usage.into());
    }
    for name in to.into_iter().chain([flow]) {
        check_name(name).map_err(|error| format!("in a name: {error}"))?;
    }
    Ok(FilterPlace {
        flow: flow.into(),
        to: to.map(Into::into),
        rule: rule.parse().map_err(|error: RuleError| error.to_string())?,
    })
}

/// `join` or `hull`.
pub fn merge(text: &str) -> Result<Merge, String> {
    match text {
        "join" => Ok(Merge::Join),
        "hull" => Ok(Merge::Hull),
        _ => Err("expected join or hull".into()),
    }
}

/// `off`, or what a scenario may say in `protect_base`.
pub fn protect_base(text: &str) -> Result<ProtectBase, String> {
    match text {
        "off" => Ok(ProtectBase(None)),
        _ => {
            let parities = text.parse().map_err(|it: ParityConfigError| it.to_string());
            parities.map(|parities| ProtectBase(Some(parities)))
        }
    }
}

/// Columns and rows of a block of RTP packets with parities.
pub fn rtp_fec(text: &str) -> Result<SmpteConfig, String> {
    let (size, with_rows) = match text.strip_suffix(":columns") {
        Some(size) => (size, false),
        None => (text, true),
    };
    let sides = size
        .split_once('x')
        .map(|(columns, rows)| (columns.parse(), rows.parse()));
    let Some((Ok(columns), Ok(rows))) = sides else {
        return Err("columns and rows, such as 5x5, or 10x10:columns".to_owned());
    };
    let config = SmpteConfig {
        columns,
        rows,
        with_rows,
    };
    config.validate().map_err(|error| error.to_string())?;
    Ok(config)
}

/// How pictures are distributed over the layers.
pub fn map(text: &str) -> Result<Map, String> {
    text.parse().map_err(|error: MapError| error.to_string())
}

/// `discrete` or `continuous`.
pub fn adapt(text: &str) -> Result<AdaptMode, String> {
    match text {
        "discrete" => Ok(AdaptMode::Discrete),
        "continuous" => Ok(AdaptMode::Continuous),
        _ => Err("expected discrete or continuous".into()),
    }
}

/// A policy for congestion; a filter rule asks the network for that filter.
pub fn on_scarce(text: &str) -> Result<OnScarce, String> {
    Ok(match text {
        "drop-layer" => OnScarce::DropLayer,
        "inform" => OnScarce::Inform,
        "disconnect" => OnScarce::Disconnect,
        "thin" => OnScarce::Filter(FilterKind::PictureDrop),
        rule => match rule.parse::<FilterRule>().map(FilterRule::kind) {
            Ok(kind @ (FilterKind::LowPass(_) | FilterKind::Drs)) => OnScarce::Filter(kind),
            _ => {
                let usage = "expected drop-layer, inform, disconnect, thin, low-pass:K or drs";
                return Err(usage.into());
            }
        },
    })
}

/// A policy for plenty.
pub fn on_plenty(text: &str) -> Result<OnPlenty, String> {
    match text {
        "add-layer" => Ok(OnPlenty::AddLayer),
        "inform" => Ok(OnPlenty::Inform),
        "ignore" => Ok(OnPlenty::Ignore),
        _ => Err("expected add-layer, inform or ignore".into()),
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::Time;

    use super::*;

    #[test]
    fn a_level_is_a_number_or_what_messages_call_it() {
        for (text, read) in [
            ("0", Some(Level::BASE)),
            ("bl", Some(Level::BASE)),
            ("BL+E1", Some(Level::E1)),
            ("BL+E1+E2", Some(Level::FULL)),
            ("3", None),
            ("E1", None),
        ] {
            assert_eq!(level(text).ok(), read, "{text}");
        }
    }

    #[test]
    fn a_port_is_read_with_all_its_parts() {
        let port =
            named_port("rook=10Mbit/s,delay=2ms,schedule=10s:60%,20s:100%,queue=64cells,loss=0.01")
                .unwrap();
        assert_eq!(port.name, "rook");
        assert_eq!(port.rate, LinkRate::Known(Rate::from_bps(10_000_000)));
        assert_eq!(port.delay, Span::from_ms(2));
        assert_eq!(port.queue, Some(QueueSize::Cells(64)));
        assert_eq!(port.loss, 0.01);
        assert_eq!(port.discard, Discard::default());
        let by_class = named_port("rook=10Mbit/s,discard=whole_gops,adapt=off").unwrap();
        assert!(!by_class.adapts && port.adapts);
        assert_eq!(policy("Whole-GOPs"), policy("whole_gops"));
        assert_eq!(by_class.discard, DiscardSpec::WholeGops.discard());
        let full = Rate::from_bps(10_000_000);
        let step = |index| port.schedule.step(index, Time::ZERO, full);
        let at = |s| Time::ZERO + Span::from_secs(s);
        assert_eq!(step(0), Some((at(10), Rate::from_bps(6_000_000))));
        assert_eq!(step(1), Some((at(20), full)));
        assert_eq!(step(2), None);
    }

    #[test]
    fn targets_of_late_bits_are_shares_below_all() {
        assert_eq!(late_target("0.1%"), Ok(1_000));
        assert_eq!(late_target("0.02"), Ok(20_000));
        assert_eq!(late_target("0.0001%"), Ok(1));
        for bad in ["0", "0.00001%", "100%", "1", "x"] {
            assert!(late_target(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn wrong_ports_say_what_is_expected() {
        for (text, expected) in [
            ("rook", "NAME=RATE"),
            ("=5Mbit/s", "NAME=RATE"),
            ("rook=fast", "a rate above 0 such as"),
            ("rook=0bit/s", "carries nothing"),
            ("rook=5Mbit/s,loss=2", "from 0 to 1"),
            (
                "rook=5Mbit/s,colour=red",
                "delay, queue, discard, adapt, loss",
            ),
            ("rook=5Mbit/s,discard=best", "whole_gops"),
            ("rook=5Mbit/s,adapt=maybe", "one of on, off"),
            ("rook=5Mbit/s,schedule=10s", "TIME:PERCENT"),
            ("rook=5Mbit/s,schedule=10s:0%", "a step leaves"),
            (
                "rook=5Mbit/s,schedule=10s:60%,5s:10%",
                "step 2 (5s:10%) is not after step 1 (10s:60%)",
            ),
            ("rook=5Mbit/s,schedule=1s:60%,9s:5%,9s:10%", "step 3"),
            ("ro\x1bok=5Mbit/s", "control character"),
            ("rook=5Mbit/s,delay=1ms,delay=2ms", "delay= is given twice"),
            ("rook=5Mbit/s,queue=1000h", "at most 60 s"),
            ("rook=5Mbit/s,delay=1000h", "at most 60 s"),
            (
                "rook=5Mbit/s,queue=0ms",
                "a packet has up to 1296, so that nothing would pass: give 3ms for one",
            ),
            ("rook=5Mbit/s,queue=26cells", "give 27cells"),
            ("rook=5Mbit/s,queue=1kB", "give 1296B"),
            (
                "rook=16kbit/s,queue=500ms",
                "it holds 864 octets at 16.0 kbit/s",
            ),
        ] {
            let error = named_port(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_least_queue_that_an_error_names_is_taken() {
        for given in ["queue=27cells", "queue=1296B", "queue=3ms"] {
            let port = named_port(&format!("rook=5Mbit/s,{given}")).expect(given);
            let holds = cells(port.queue.expect("given"), Rate::from_bps(5_000_000));
            assert!(holds >= u64::from(PACKET_CELLS), "{given}: {holds}");
        }
    }

    #[test]
    fn promises_of_delay_are_in_whole_milliseconds() {
        assert_eq!(promise("0"), Ok(Span::ZERO));
        assert_eq!(promise("1ms"), Ok(Span::from_ms(1)));
        assert!(promise("999us").is_err_and(|it| it.contains("promises none")));
    }

    #[test]
    fn paths_are_written_in_short() {
        assert_eq!(probability("3%"), Ok(0.03));
        assert!(probability("101%").is_err());
        assert!(jitter("gamma:5ms").is_err());
        let max = Span::from_ms(5);
        assert_eq!(jitter("5ms"), Ok(Jitter::Uniform { max }));
        assert_eq!(jitter("normal:5ms"), Ok(Jitter::Normal { sd: max }));
        assert!(schedule("10s:60%,20s").is_err());
        assert!(schedule("10s:60%,10s:50%").is_err());
        assert!(schedule("10s:60%,11s:50%").is_ok());
    }

    #[test]
    fn a_group_has_members() {
        let read = group("239.1.1.1:7500=ann, bob").unwrap();
        assert_eq!(read.group, "239.1.1.1:7500".parse().unwrap());
        assert_eq!(read.members, ["ann", "bob"]);
        for text in [
            "239.1.1.1:7500",
            "239.1.1.1=ann",
            "10.0.0.1:7500=ann",
            "239.1.1.1:7500=",
        ] {
            assert!(group(text).is_err(), "{text}");
        }
    }
}
