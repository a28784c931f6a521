//! `layercast explain`: what a wish of a user costs on the network, and what a rate pays for.

use std::path::{Path, PathBuf};

use clap::Args;
use layercast_core::{Contract, Rate, Span};
use layercast_profile::{
    Afforded, Category, Commitment, Direction, Levels, Mapped, Mapping, PRESETS, Profile,
    ProfileError, Ratio, Tables, Unit, afford,
};
use layercast_sim::file;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output::{Table, print, print_json};
use crate::units;

/// `layercast explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
WHAT is one of
  broadcasting, playback, control, conferencing, collaboration
              an application: its streams at three levels, from the words of the user over the
              values of the application to rate, delay and loss of the network, with the formulas
  FILE        a profile of your own in TOML (docs/src/reference/profiles.md)
  RATE        what it pays for: pictures per second by size and codec
  NxOCTETS    data units per second and their octets, such as 50x160: their rates at the three
              levels, with --factor

Examples:
  layercast explain conferencing
  layercast explain 2Mbit/s
  layercast explain 30x7750 --unit cell
  layercast explain 50x160 --factor 2:1 --json
  layercast explain --tables > tables.toml; layercast explain playback --with tables.toml")]
pub struct Explain {
    /// An application, a profile, a rate, or data units
    #[arg(required_unless_present = "tables")]
    pub what: Option<String>,
    /// Data unit of the network: packet (UDP over IPv4, 1500 octets), cell (ATM, 48 of 53 octets), or PAYLOAD/SIZE in octets
    #[arg(long, value_name = "UNIT", default_value = "packet", value_parser = unit)]
    pub unit: Unit,
    /// Of NxOCTETS: octets of the application for one of the user, e.g. 1/2, 0.5 or, as a compression, 2:1
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub factor: Ratio,
    /// Use these tables of words, codecs and delays in place of those of the program
    #[arg(long, value_name = "FILE")]
    pub with: Option<PathBuf>,
    /// Print the tables of the program, to be changed, and exit
    #[arg(long, conflicts_with_all = ["what", "with", "json"])]
    pub tables: bool,
    /// Print one JSON object (docs/src/reference/json-explain.md)
    #[arg(long)]
    pub json: bool,
}

/// Reads a data unit of the network.
fn unit(text: &str) -> Result<Unit, String> {
    match text {
        "packet" => return Ok(Unit::datagram(1_500)),
        "cell" => return Ok(Unit::CELL),
        _ => {}
    }
    let parts = text.split_once('/');
    let parts = parts.and_then(|(payload, size)| Some((payload.parse().ok()?, size.parse().ok()?)));
    let (payload, size) =
        parts.ok_or("write packet, cell, or PAYLOAD/SIZE in octets, such as 160/188")?;
    match 0 < payload && payload <= size {
        true => Ok(Unit {
            payload,
            size,
            padded: false,
        }),
        false => Err(format!(
            "a payload of {payload} octets in {size}: 1 octet at least, and no more than the whole"
        )),
    }
}

/// A profile, explained.
#[derive(Debug, Serialize)]
struct OfProfile {
    /// Name of the profile.
    profile: String,
    /// The kind of application.
    category: Category,
    /// Time from the wish to the first data, in milliseconds.
    setup_ms: f64,
    /// The streams at the three levels.
    streams: Vec<Levels>,
    /// Sum of the mean rates on the network from the user, in bit/s.
    up_bps: u64,
    /// Sum of the mean rates on the network to the user, in bit/s.
    down_bps: u64,
}

/// A rate, explained.
#[derive(Debug, Serialize)]
struct OfRate {
    /// The rate in bit/s.
    rate_bps: u64,
    /// Data unit of the network.
    unit: Unit,
    /// What it pays for, by size and codec.
    pictures: Vec<Afforded>,
}

/// Runs the command.
pub fn run(args: &Explain) -> Outcome {
    let Some(what) = &args.what else {
        return print(Tables::TEXT);
    };
    let tables = match &args.with {
        Some(path) => Tables::from_toml(&read(path)?).map_err(|error| wrong(path, error))?,
        None => Tables::default(),
    };
    if let Some(mapping) = data_units(what, args) {
        let mapped = mapping.map().map_err(Failure::wrong_use)?;
        return match args.json {
            true => print_json(&mapped),
            false => print(&describe_units(&mapping, &mapped)),
        };
    }
    let rate = units::rate(what);
    if let (Err(error), true) = (&rate, is_number(what) && !Path::new(what).exists()) {
        return Err(Failure::wrong_use(format!("{what} is no rate: {error}")));
    }
    if let Ok(rate) = rate {
        let rate_bps = rate.as_bps();
        let pictures = afford(rate_bps, &tables, args.unit).map_err(Failure::wrong_use)?;
        let unit = args.unit;
        let report = OfRate {
            rate_bps,
            unit,
            pictures,
        };
        return match args.json {
            true => print_json(&report),
            false => print(&describe_rate(&report)),
        };
    }
    let profile = profile(what)?;
    let streams = profile
        .explain(&tables, args.unit)
        .map_err(|error| wrong(Path::new(what), error))?;
    let without = |other_way: Direction| {
        let counts = streams.iter().filter(|it| it.direction != other_way);
        counts.map(|it| it.contract.mean_bps).sum()
    };
    let report = OfProfile {
        up_bps: without(Direction::Down),
        down_bps: without(Direction::Up),
        profile: profile.name,
        category: profile.category,
        setup_ms: profile.setup_ms,
        streams,
    };
    match args.json {
        true => print_json(&report),
        false => print(&describe(&report)),
    }
}

/// The profile of a name, or in a file.
fn profile(what: &str) -> Result<Profile, Failure> {
    if let Some(preset) = Profile::preset(what) {
        return Ok(preset);
    }
    let path = Path::new(what);
    if !path.exists() {
        let known: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
        let failure = Failure::wrong_use(format!("there is no profile {what}"));
        return Err(failure.hint(format!("one of {}, or a file", known.join(", "))));
    }
    Profile::from_toml(&read(path)?).map_err(|error| wrong(path, error))
}

/// What `serve --profile` promises.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Promise {
    /// From the capture of a frame to its playout.
    pub bound: Span,
    /// What the network does for it.
    pub contract: Contract,
}

/// What the profile of a name or in a file wants of the network, for `join --profile`.
pub fn wishes(what: &str) -> Result<Box<Contract>, String> {
    promise(what).map(|it| Box::new(it.contract))
}

/// What the profile of a name or in a file promises, for `serve --profile`.
pub fn promise(what: &str) -> Result<Promise, String> {
    let profile = profile(what).map_err(|failure| failure.to_string())?;
    // What cannot be kept is not promised.
    let contract = profile
        .contract()
        .map_err(|error| format!("{what}: {error}"))?;
    let bound = profile.picture_delay_ms().unwrap_or_default();
    Ok(Promise {
        bound: Span::from_us((bound * 1e3).round() as u64),
        contract,
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    file::read_text(path, file::MAX_TEXT_FILE).map_err(|error| Failure::file(path, "read", &error))
}

fn wrong(path: &Path, error: ProfileError) -> Failure {
    Failure::of(path, error)
}

/// Whether a text begins as a rate does.
fn is_number(text: &str) -> bool {
    text.starts_with(|it: char| it.is_ascii_digit())
}

/// Reads `NxOCTETS`.
fn data_units(what: &str, args: &Explain) -> Option<Mapping> {
    let (per_second, user) = what.split_once('x')?;
    Some(Mapping {
        per_second: per_second.parse().ok()?,
        user: user.parse().ok()?,
        factor: args.factor,
        unit: args.unit,
    })
}

fn describe_units(mapping: &Mapping, it: &Mapped) -> String {
    let Mapping {
        per_second,
        user,
        factor,
        unit,
    } = mapping;
    let Unit { payload, size, .. } = unit;
    let mut text = format!(
        "user         R(u) = {per_second} x {user} octets = {} bit/s\n\
         application  S(a) = {factor} x {user} = {} octets, R(a) = {} bit/s\n\
         network      {} units of {size} octets for each ({payload} of payload), R(n) = {} bit/s\n",
        it.user_bps, it.application_octets, it.application_bps, it.units, it.network_bps
    );
    if let Some(exact) = it.exact_bps.filter(|&exact| exact != it.network_bps) {
        text += &format!("             the last unit is not filled up: {exact} bit/s\n");
    }
    if !it.is_ordered() {
        text += "             the application compresses: R(n) >= R(a) >= R(u) does not hold\n";
    }
    text
}

fn describe_rate(report: &OfRate) -> String {
    let mut table = Table::new(&["size", "pixels", "codec", "pictures/s", "fluency"]);
    for it in &report.pictures {
        let [width, height] = it.pixels;
        table.row([
            it.size.clone(),
            format!("{width}x{height}"),
            it.codec.clone(),
            match it.per_second {
                0 => "not one".to_owned(),
                rate => rate.to_string(),
            },
            it.fluency.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    let rate = Rate::from_bps(report.rate_bps);
    format!(
        "{rate} on the network, headers included, pays for pictures in colour:\n{}",
        table.render()
    )
}

fn describe(report: &OfProfile) -> String {
    let rate = |bps| Rate::from_bps(bps).to_string();
    let mut text = format!(
        "{}: {}; the first data within {} ms\n",
        report.profile,
        report.category.describe(),
        report.setup_ms
    );
    for it in &report.streams {
        let (contract, budget) = (&it.contract, &it.budget);
        let way = match it.direction {
            Direction::Down => "to the user",
            Direction::Up => "from the user",
            Direction::Both => "both ways",
        };
        let jitter = contract
            .jitter_ms
            .map_or_else(String::new, |[worst, target]| {
                format!(", jitter <= {worst} ms (wanted {target})")
            });
        let firmly = match contract.commitment {
            Commitment::Guaranteed => "guaranteed",
            Commitment::Statistical => "statistical",
            Commitment::BestEffort => "best effort",
        };
        text += &format!(
            "\n{}, {way}\n  user         {}\n  application  {}\n  network      {} mean, {} peak, {firmly}\n",
            it.stream,
            it.user,
            it.application,
            rate(contract.mean_bps),
            rate(contract.peak_bps),
        );
        let [worst, target] = contract.delay_ms;
        text += &format!(
            "               delay <= {worst} ms (wanted {target}){jitter}, loss <= {} (wanted {})\n",
            contract.loss[0], contract.loss[1]
        );
        let ends: Vec<String> = budget
            .ends
            .terms()
            .iter()
            .filter(|(_, ms)| *ms > 0.0)
            .map(|(name, ms)| format!("{name} {ms}"))
            .collect();
        text += &format!(
            "  delay        {} = {} ms, and {} ms for the network\n",
            ends.join(" + "),
            budget.bound - budget.network,
            budget.network
        );
        for formula in &it.formulas {
            text += &format!("               {formula}\n");
        }
    }
    text + &format!(
        "\nin sum: {} from the user, {} to the user\n",
        rate(report.up_bps),
        rate(report.down_bps)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_impossible_ones_are_refused() {
        assert_eq!(unit("cell"), Ok(Unit::CELL));
        assert_eq!(unit("packet"), Ok(Unit::datagram(1_500)));
        let own = unit("160/188").unwrap();
        assert_eq!((own.payload, own.size, own.padded), (160, 188, false));
        for text in ["", "0/10", "11/10", "a/b", "10", "-1/10"] {
            assert!(unit(text).is_err(), "{text}");
        }
    }
}
