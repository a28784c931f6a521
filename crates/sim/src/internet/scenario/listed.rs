//! Transfers that a file lists.

use layercast_core::{Span, Time};

use super::build::Builder;
use super::error::{Problem, ScenarioError};
use super::generate::{GenerateSpec, PatternName};
use super::place::Place;
use super::range::MOST;
use super::schema::{Scenario, is_zero};
use crate::file;
use crate::internet::components::Components;
use crate::internet::network::Planned;

/// The transfers of the file `path`, in the order of their starts.
pub(super) fn read(
    scenario: &Scenario,
    (place, spec): (Place, &GenerateSpec),
    path: &str,
    network: &Builder<'_>,
    sets: &mut Components,
) -> Result<Vec<Planned>, ScenarioError> {
    for (key, is_given) in [
        ("sizes", spec.sizes.is_some()),
        ("from", !spec.from.is_empty()),
        ("to", !spec.to.is_empty()),
        ("pattern", spec.pattern != PatternName::Random),
        ("fan_in", spec.fan_in.is_some()),
        ("load", spec.load.is_some()),
        ("of", spec.of.is_some()),
        ("gap", spec.gap.is_some()),
        ("flows", spec.flows.is_some()),
        ("start", !is_zero(&spec.start)),
        ("stop", spec.stop.is_some()),
    ] {
        if is_given {
            let problem = Problem::Needless("trace lists all transfers".to_owned());
            return Err(ScenarioError::new(place.field(key), problem));
        }
    }
    let field = place.field("trace");
    let whole = scenario.base_dir.join(path);
    let text = file::read_text(&whole, file::MAX_DATA_FILE).map_err(|error| {
        let path = whole.clone();
        ScenarioError::new(&field, Problem::Read { path, error })
    })?;
    let mut list = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() || (list.is_empty() && line.starts_with("start")) {
            continue;
        }
        let wrong = |what: &str| {
            let problem = Problem::Config(format!("{}:{}: {what}", whole.display(), n + 1));
            ScenarioError::new(&field, problem)
        };
        let parts: Vec<&str> = line.split(',').map(str::trim).collect();
        let &[start, from, to, bytes] = parts.as_slice() else {
            return Err(wrong("expected start,from,to,bytes"));
        };
        let start = start.parse::<f64>().ok();
        let start = start.filter(|it| (0.0..8_640_000.0).contains(it));
        let start = start.ok_or_else(|| wrong("the start is no number of seconds, 0 or more"))?;
        let bytes = bytes
            .parse::<u64>()
            .ok()
            .filter(|it| (1..1 << 50).contains(it));
        let bytes = bytes.ok_or_else(|| wrong("the length is no number of bytes, 1 or more"))?;
        let ends = [from.to_owned(), to.to_owned()];
        let ends = network.two_hosts(place, &ends, sets);
        let [from, to] = ends.map_err(|error| wrong(&error.problem.to_string()))?;
        list.push(Planned {
            start: Time::ZERO.saturating_add(Span::from_secs_f64(start)),
            from,
            to,
            bytes,
        });
        if list.len() as u64 > MOST {
            let (what, count) = ("transfers", list.len() as u64);
            return Err(ScenarioError::new(
                field,
                Problem::TooMany {
                    what,
                    count,
                    most: MOST,
                },
            ));
        }
    }
    // Transfers of one instant begin in the order of the file.
    list.sort_by_key(|it| it.start);
    Ok(list)
}
