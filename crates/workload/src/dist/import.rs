use std::sync::Arc;

use crate::dist::{DistError, Distribution, Empirical, Interp, Kind, Knot, Law, Problem, Unit};

/// What the columns of a foreign file are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Columns {
    /// One sample a line.
    Samples,
    /// `value cdf`, as in tcplib.
    ValueCdf,
    /// `value count cdf`, as in the empirical variables of ns-2.
    ValueCountCdf,
}

/// Reads a foreign file: numbers separated by blanks or commas, `#` starts a comment.
pub fn import(
    place: &str,
    text: &str,
    columns: Columns,
    name: &str,
    unit: Unit,
    kind: Kind,
) -> Result<Distribution, DistError> {
    let at = |line, problem| DistError {
        place: place.to_owned(),
        line,
        problem,
    };
    let wanted = match columns {
        Columns::Samples => (1, "one number: a sample"),
        Columns::ValueCdf => (2, "two numbers: value and cumulative probability"),
        Columns::ValueCountCdf => (3, "three numbers: value, count and cumulative probability"),
    };
    let mut rows: Vec<(usize, Vec<f64>)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let fields = line
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter(|field| !field.is_empty());
        let numbers: Result<Vec<f64>, _> = fields.map(str::parse).collect();
        match numbers {
            Ok(numbers) if numbers.is_empty() => {}
            Ok(numbers) if numbers.len() == wanted.0 => rows.push((index + 1, numbers)),
            _ => return Err(at(index + 1, Problem::Syntax(wanted.1))),
        }
    }
    let (knots, interp) = match columns {
        Columns::Samples => (steps(&mut rows), Interp::Step),
        _ => {
            let knots = rows.iter().map(|(_, row)| Knot {
                p: row[row.len() - 1],
                x: row[0],
            });
            (knots.collect(), Interp::Linear)
        }
    };
    let law = Empirical::new(unit, kind, interp, knots).map_err(|(index, problem)| {
        let line = rows.get(index).map_or(0, |row| row.0);
        at(if columns == Columns::Samples { 0 } else { line }, problem)
    })?;
    Ok(Distribution {
        name: name.to_owned(),
        unit,
        source: format!("imported from {place}"),
        law: Law::Knots(Arc::new(law)),
    })
}

/// The cumulative distribution of samples.
fn steps(rows: &mut [(usize, Vec<f64>)]) -> Vec<Knot> {
    rows.sort_by(|a, b| a.1[0].total_cmp(&b.1[0]));
    let n = rows.len() as f64;
    let mut upto = 0;
    let groups = rows.chunk_by(|a, b| a.1[0] == b.1[0]);
    let knots = groups.map(|group| {
        upto += group.len();
        Knot {
            p: upto as f64 / n,
            x: group[0].1[0],
        }
    });
    knots.collect()
}

/// The same distribution with as few knots as keep its cumulative probability within `distance` at each
/// knot of the original; between the knots that are left it is linear.
///
/// A greedy walk: each knot is followed by the farthest one that leaves all knots in between within the
/// distance. Gives formulas back as they are.
pub fn condense(dist: &Distribution, distance: f64) -> Distribution {
    let Law::Knots(law) = &dist.law else {
        return dist.clone();
    };
    let all = law.knots();
    let mut kept = vec![all[0]];
    let mut index = 0;
    while index + 1 < all.len() {
        let from = all[index];
        let fits = |to: usize| {
            all[index + 1..to].iter().all(|knot| {
                let share = match all[to].x > from.x {
                    true => (knot.x - from.x) / (all[to].x - from.x),
                    false => 1.0,
                };
                (from.p + (all[to].p - from.p) * share - knot.p).abs() <= distance
            })
        };
        // Not being within reach is not monotone, but close to it: the walk stops at the first failure.
        let mut next = index + 1;
        while next + 1 < all.len() && fits(next + 1) {
            next += 1;
        }
        kept.push(all[next]);
        index = next;
    }
    let interp = match law.interp() {
        Interp::Loglinear => Interp::Loglinear,
        _ => Interp::Linear,
    };
    // A subset of good knots, the last one included, is good.
    let law = match Empirical::new(dist.unit, law.kind(), interp, kept) {
        Ok(fewer) => Arc::new(fewer),
        Err(_) => law.clone(),
    };
    Distribution {
        law: Law::Knots(law),
        source: format!("{}, condensed, KS <= {distance}", dist.source),
        ..dist.clone()
    }
}
