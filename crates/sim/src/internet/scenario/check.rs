//! Bounds of single values, and the errors of names.

use core::net::Ipv4Addr;

use layercast_core::{Rate, Span};
use layercast_link::Loss;

use super::build::Thing;
use super::error::{Problem, ScenarioError};
use super::schema::RedSpec;
use crate::internet::network::{Impairments, Limit, Queue, Way};
use crate::scenario::GilbertSpec;
use crate::scenario::limits::MOST_NAME;
use crate::scenario::names::{check_title as is_title, shown};
use crate::scenario::read::nearest;
use crate::scenario::units::Quantity;

/// Names that an error lists.
const FEW: usize = 8;

/// The error for a name that nothing has, with the name that is most like it.
pub(crate) fn unknown<'n>(
    field: &str,
    what: &'static str,
    name: &str,
    known: impl Iterator<Item = &'n str>,
) -> ScenarioError {
    let known: Vec<&str> = known.collect();
    let hint = match nearest(name, known.iter().copied()) {
        Some(name) => format!("; did you mean {name:?}?"),
        None if (1..=FEW).contains(&known.len()) => format!("; there are {}", known.join(", ")),
        None => " and none with a similar name".to_owned(),
    };
    let problem = Problem::Unknown {
        what,
        name: name.to_owned(),
        hint,
    };
    ScenarioError::new(field, problem)
}

/// The error for something of the wrong kind.
pub(super) fn kind(field: &str, name: &str, thing: Thing, accepted: &'static str) -> ScenarioError {
    let problem = Problem::Kind {
        name: name.to_owned(),
        is: thing.kind(),
        accepted,
    };
    ScenarioError::new(field, problem)
}

/// A direction of a link; `at` gives the paths of its fields.
pub(super) fn way(
    at: &dyn Fn(&str) -> String,
    rate: Rate,
    (limit, mark): (Limit, Option<Limit>),
    red: Option<RedSpec>,
    impair: Impairments,
) -> Result<Way, ScenarioError> {
    check_rate(&at("rate"), rate)?;
    if matches!(limit, Limit::Packets(0) | Limit::Bytes(0)) {
        return Err(ScenarioError::value(
            at("queue"),
            limit.write(),
            Limit::ACCEPTED,
        ));
    }
    if let Some(red) = red {
        let rules = [
            (
                red.min > 0.0 && red.min < 1e9,
                "min",
                red.min,
                "a number of packets above 0",
            ),
            (
                red.max > red.min && red.max < 1e9,
                "max",
                red.max,
                "a number of packets above min",
            ),
            (
                red.max_p > 0.0 && red.max_p <= 1.0,
                "max_p",
                red.max_p,
                "a probability above 0",
            ),
            (
                red.weight > 0.0 && red.weight <= 1.0,
                "weight",
                red.weight,
                "above 0, at most 1",
            ),
        ];
        if let Some(&(_, name, value, accepted)) = rules.iter().find(|(fine, ..)| !fine) {
            let field = at(&format!("red.{name}"));
            return Err(ScenarioError::value(field, value, accepted));
        }
    }
    if let Some(mark) = mark
        && matches!(mark, Limit::Packets(0) | Limit::Bytes(0) | Limit::Unlimited)
    {
        let accepted = "a queue such as \"65 packets\" or \"97 kB\"";
        return Err(ScenarioError::value(at("mark"), mark.write(), accepted));
    }
    let red = red.map(RedSpec::red);
    Ok(Way {
        rate,
        queue: Queue { limit, red, mark },
        impair,
    })
}

/// How packets get lost on a direction of a link; `at` gives the paths of its fields.
pub(super) fn loss(
    at: &dyn Fn(&str) -> String,
    loss: f64,
    gilbert: Option<GilbertSpec>,
) -> Result<Loss, ScenarioError> {
    check_probability(&at("loss"), loss)?;
    let Some(gilbert) = gilbert else {
        return Ok(Impairments::losing(loss).loss);
    };
    if loss > 0.0 {
        let accepted = "0 beside gilbert, which says how packets get lost";
        return Err(ScenarioError::value(at("loss"), loss, accepted));
    }
    let GilbertSpec {
        p_gb,
        p_bg,
        good,
        bad,
    } = gilbert;
    for (name, p) in [("p_gb", p_gb), ("p_bg", p_bg), ("good", good), ("bad", bad)] {
        check_probability(&at(&format!("gilbert.{name}")), p)?;
    }
    Ok(gilbert.loss())
}

/// A probability.
pub(super) fn check_probability(field: &str, p: f64) -> Result<(), ScenarioError> {
    match (0.0..=1.0).contains(&p) {
        true => Ok(()),
        false => Err(ScenarioError::value(field, p, "a probability: 0 to 1")),
    }
}

/// A name that is valid in reports and file names.
pub(super) fn check_name(field: &str, name: &str) -> Result<(), ScenarioError> {
    let fine = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    match !name.is_empty() && name.chars().count() <= MOST_NAME && name.chars().all(fine) {
        true => Ok(()),
        false => {
            let accepted = format!("1 to {MOST_NAME} letters, digits, '-' and '_'");
            Err(ScenarioError::value(field, shown(name), accepted))
        }
    }
}

/// A title: a text for people, without control characters.
pub(crate) fn check_title(field: &str, title: &str) -> Result<(), ScenarioError> {
    is_title(title).map_err(|accepted| ScenarioError::value(field, shown(title), accepted))
}

/// A rate that a link can have.
pub(super) fn check_rate(field: &str, rate: Rate) -> Result<(), ScenarioError> {
    match (1..=10_000_000_000_000).contains(&rate.as_bps()) {
        true => Ok(()),
        false => {
            let accepted = "1 bit/s to 10000 Gbit/s";
            Err(ScenarioError::value(field, rate.write(), accepted))
        }
    }
}

/// A delay that a link can have.
pub(super) fn check_delay(field: &str, delay: Span) -> Result<(), ScenarioError> {
    check_span(field, delay, Span::ZERO, Span::from_secs(3_600))
}

/// A time within bounds.
pub(super) fn check_span(
    field: &str,
    span: Span,
    least: Span,
    most: Span,
) -> Result<(), ScenarioError> {
    match (least..=most).contains(&span) {
        true => Ok(()),
        false => {
            let accepted = match least {
                Span::ZERO => format!("at most {}", most.write()),
                least => format!("{} to {}", least.write(), most.write()),
            };
            Err(ScenarioError::value(field, span.write(), accepted))
        }
    }
}

/// A largest packet that IPv4 knows (RFC 791).
pub(super) fn check_mtu(field: &str, mtu: u32) -> Result<(), ScenarioError> {
    match (68..=65_535).contains(&mtu) {
        true => Ok(()),
        false => Err(ScenarioError::value(field, mtu, "68 to 65535 bytes")),
    }
}

pub(super) fn check_address(field: &str, address: Ipv4Addr) -> Result<(), ScenarioError> {
    let first = address.octets()[0];
    match first == 0 || first == 127 || first >= 224 {
        false => Ok(()),
        true => {
            let accepted = "an address that a host can have, such as 10.1.2.3";
            Err(ScenarioError::value(field, address, accepted))
        }
    }
}
