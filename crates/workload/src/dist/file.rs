use std::fmt::Write;
use std::sync::Arc;

use crate::dist::{DistError, Distribution, Empirical, Interp, Kind, Knot, Law, Problem};

const MAGIC: &str = "# dist v1";

/// How far the mean in a file may be from that of its knots.
const MEAN_TOLERANCE: f64 = 0.01;

/// What the lines above the knots say.
#[derive(Default)]
struct Head<'a> {
    name: Option<&'a str>,
    unit: Option<&'a str>,
    kind: Option<&'a str>,
    interp: Option<&'a str>,
    source: Option<&'a str>,
    mean: Option<&'a str>,
    mean_line: usize,
}

impl Distribution {
    /// Parses a file of distribution (specs/insane-workloads.md 2.9); `place` names it in errors.
    pub fn parse(place: &str, text: &str) -> Result<Distribution, DistError> {
        let at = |line, problem| DistError {
            place: place.to_owned(),
            line,
            problem,
        };
        let mut lines = text.lines().enumerate().map(|(n, line)| (n + 1, line));
        match lines.next() {
            Some((_, line)) if line.trim() == MAGIC => {}
            _ => return Err(at(1, Problem::Magic)),
        }
        let mut lines = lines
            .map(|(n, line)| (n, line.split('#').next().unwrap_or_default().trim()))
            .filter(|(_, line)| !line.is_empty());
        let mut head = Head::default();
        for (n, line) in lines.by_ref() {
            if line == "[knots]" {
                break;
            }
            head.take(n, line).map_err(|problem| at(n, problem))?;
        }
        let mut knots = Vec::new();
        let mut places = Vec::new();
        for (n, line) in lines {
            let mut numbers = line.split_whitespace().map(str::parse::<f64>);
            let (Some(Ok(p)), Some(Ok(x)), None) = (numbers.next(), numbers.next(), numbers.next())
            else {
                return Err(at(n, Problem::Syntax("two numbers: probability and value")));
            };
            knots.push(Knot { p, x });
            places.push(n);
        }
        let needed = |value: Option<&'_ str>, key| {
            value.ok_or(at(0, Problem::Missing(key))).map(str::to_owned)
        };
        let unit = needed(head.unit, "unit")?;
        let unit = unit.parse().map_err(|()| at(0, Problem::Unit(unit)))?;
        let kind = match needed(head.kind, "kind")?.as_str() {
            "cont" => Kind::Cont,
            "int" => Kind::Int,
            other => return Err(at(0, Problem::Kind(other.to_owned()))),
        };
        let interp = match head.interp.unwrap_or("linear") {
            "linear" => Interp::Linear,
            "step" => Interp::Step,
            "loglinear" => Interp::Loglinear,
            other => return Err(at(0, Problem::Interp(other.to_owned()))),
        };
        let law = Empirical::new(unit, kind, interp, knots).map_err(|(index, problem)| {
            at(places.get(index).copied().unwrap_or_default(), problem)
        })?;
        if let Some(mean) = head.mean {
            let given: f64 = mean
                .parse()
                .map_err(|_| at(head.mean_line, Problem::Syntax("a number for the mean")))?;
            let found = law.mean();
            let off = (found - given).abs();
            if off.is_nan() || off > MEAN_TOLERANCE * found {
                return Err(at(head.mean_line, Problem::Mean { given, found }));
            }
        }
        Ok(Distribution {
            name: needed(head.name, "name")?,
            unit,
            source: head.source.unwrap_or_default().to_owned(),
            law: Law::Knots(Arc::new(law)),
        })
    }

    /// The text of a file of this distribution; `None` for a formula.
    pub fn to_file(&self) -> Option<String> {
        let Law::Knots(law) = &self.law else {
            return None;
        };
        let kind = match law.kind() {
            Kind::Cont => "cont",
            Kind::Int => "int",
        };
        let interp = match law.interp() {
            Interp::Linear => "linear",
            Interp::Step => "step",
            Interp::Loglinear => "loglinear",
        };
        let (name, unit, source) = (&self.name, self.unit, &self.source);
        let mean = law.mean();
        let mut text = format!(
            "{MAGIC}\nname   = \"{name}\"\nunit   = \"{unit}\"\nkind   = \"{kind}\"\n\
             interp = \"{interp}\"\nsource = \"{source}\"\nmean   = {mean}\n[knots]\n"
        );
        for Knot { p, x } in law.knots() {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{p:<10} {x}");
        }
        Some(text)
    }
}

impl<'a> Head<'a> {
    fn take(&mut self, line: usize, text: &'a str) -> Result<(), Problem> {
        let pair = text.split_once('=').ok_or(Problem::Syntax(
            "key = \"value\", or [knots] and then the knots",
        ))?;
        let (key, value) = (pair.0.trim(), pair.1.trim().trim_matches('"'));
        let (slot, key) = match key {
            "name" => (&mut self.name, "name"),
            "unit" => (&mut self.unit, "unit"),
            "kind" => (&mut self.kind, "kind"),
            "interp" => (&mut self.interp, "interp"),
            "source" => (&mut self.source, "source"),
            "mean" => {
                self.mean_line = line;
                (&mut self.mean, "mean")
            }
            other => return Err(Problem::Key(other.to_owned())),
        };
        match slot.replace(value) {
            Some(_) => Err(Problem::Twice(key)),
            None => Ok(()),
        }
    }
}
