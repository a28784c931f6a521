//! Orders stated as Timed Stream Petri Nets: places are presentations of SDUs, transitions synchronise them.

use std::collections::BTreeMap;

use super::{Order, OrderError, Sdu};

/// A place: the presentation of one SDU.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    /// Its name in the text.
    pub name: String,
    /// The SDU: places of one flow are numbered as they are declared.
    pub sdu: Sdu,
}

/// An arc from a place to a transition.
#[derive(Clone, PartialEq, Debug)]
pub struct Arc {
    /// Index of the place.
    pub place: usize,
    /// Shortest, nominal and longest presentation time in milliseconds; kept for the application, which synchronises
    /// in time above the transport.
    pub interval_ms: Option<[f64; 3]>,
}

/// A synchronisation point: each input place precedes each output place.
#[derive(Clone, PartialEq, Debug)]
pub struct Transition {
    /// Its name in the text.
    pub name: String,
    /// The places before it.
    pub inputs: Vec<Arc>,
    /// Indices of the places after it.
    pub outputs: Vec<usize>,
}

/// A net read from text.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tspn {
    /// Names of the flows, in the order in which they appear.
    pub flows: Vec<String>,
    /// The places.
    pub places: Vec<Place>,
    /// The transitions.
    pub transitions: Vec<Transition>,
}

/// Why a text is no net.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TspnError {
    /// A line that cannot be read.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it, and what is expected.
        problem: String,
    },
    /// The net is no partial order.
    #[error(transparent)]
    Order(#[from] OrderError),
}

impl Tspn {
    /// Reads a net, one statement a line; `#` begins a comment.
    ///
    /// ```text
    /// place PLACE FLOW
    /// transition NAME: PLACE [MIN,NOMINAL,MAX], PLACE -> PLACE, PLACE
    /// ```
    pub fn parse(text: &str) -> Result<Tspn, TspnError> {
        let mut net = Tspn::default();
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let mut numbers: Vec<u64> = Vec::new();
        for (at, raw) in text.lines().enumerate() {
            let fail = |problem: String| TspnError::Line {
                line: at + 1,
                problem,
            };
            let line = raw.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            if let Some(rest) = line.strip_prefix("place ") {
                let words: Vec<&str> = rest.split_whitespace().collect();
                let [name, flow_name] = words[..] else {
                    return Err(fail("expected `place PLACE FLOW`".into()));
                };
                let flow = net
                    .flows
                    .iter()
                    .position(|it| it == flow_name)
                    .unwrap_or_else(|| {
                        net.flows.push(flow_name.into());
                        numbers.push(0);
                        numbers.len() - 1
                    });
                if names.insert(name.into(), net.places.len()).is_some() {
                    return Err(fail(format!("the place {name} is declared twice")));
                }
                let sdu = Sdu {
                    flow,
                    number: numbers[flow],
                };
                numbers[flow] += 1;
                net.places.push(Place {
                    name: name.into(),
                    sdu,
                });
            } else if let Some(rest) = line.strip_prefix("transition ") {
                let (name, arcs) = rest
                    .split_once(':')
                    .ok_or_else(|| fail("expected `transition NAME: PLACES -> PLACES`".into()))?;
                let (from, to) = arcs
                    .split_once("->")
                    .ok_or_else(|| fail("a transition needs `->` between its places".into()))?;
                let place = |name: &str| {
                    let unknown = || fail(format!("the place {name} is not declared above"));
                    names.get(name).copied().ok_or_else(unknown)
                };
                let inputs = listed(from)
                    .map(|arc| {
                        let (name, interval) = interval(arc).map_err(&fail)?;
                        Ok(Arc {
                            place: place(name)?,
                            interval_ms: interval,
                        })
                    })
                    .collect::<Result<Vec<_>, TspnError>>()?;
                let outputs = listed(to).map(place).collect::<Result<Vec<_>, _>>()?;
                net.check_choice(&inputs, &outputs).map_err(fail)?;
                net.transitions.push(Transition {
                    name: name.trim().into(),
                    inputs,
                    outputs,
                });
            } else {
                return Err(fail(format!(
                    "expected `place` or `transition`, not `{line}`"
                )));
            }
        }
        Ok(net)
    }

    /// A place with two transitions before or after it is a choice, which is no order.
    fn check_choice(&self, inputs: &[Arc], outputs: &[usize]) -> Result<(), String> {
        for other in &self.transitions {
            for arc in inputs {
                if other.inputs.iter().any(|it| it.place == arc.place) {
                    let name = &self.places[arc.place].name;
                    return Err(format!(
                        "the place {name} leads to {} too; a choice is no order",
                        other.name
                    ));
                }
            }
            for place in outputs {
                if other.outputs.contains(place) {
                    let name = &self.places[*place].name;
                    return Err(format!(
                        "the place {name} follows {} too; a choice is no order",
                        other.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// The order over the SDUs of the places.
    pub fn order(&self) -> Result<Order, OrderError> {
        let mut counts = vec![0_u32; self.flows.len()];
        for place in &self.places {
            counts[place.sdu.flow] += 1;
        }
        let mut edges = Vec::new();
        for transition in &self.transitions {
            for input in &transition.inputs {
                let from = self.places[input.place].sdu;
                edges.extend(
                    transition
                        .outputs
                        .iter()
                        .map(|&to| (from, self.places[to].sdu)),
                );
            }
        }
        Order::dag(&counts, &edges)
    }
}

/// Places separated by commas that are not inside brackets.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let separates = move |c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    };
    text.split(separates)
        .map(str::trim)
        .filter(|it| !it.is_empty())
}

/// A place and the interval behind it, if there is one.
fn interval(arc: &str) -> Result<(&str, Option<[f64; 3]>), String> {
    let Some((name, rest)) = arc.split_once('[') else {
        return Ok((arc, None));
    };
    let bad = || {
        format!(
            "expected `{} [MIN,NOMINAL,MAX]` in milliseconds",
            name.trim()
        )
    };
    let inner = rest.trim().strip_suffix(']').ok_or_else(bad)?;
    let numbers: Vec<f64> = inner
        .split(',')
        .map(|it| it.trim().parse().map_err(|_| bad()))
        .collect::<Result<_, _>>()?;
    match numbers[..] {
        [a, b, c] if 0.0 <= a && a <= b && b <= c && c.is_finite() => {
            Ok((name.trim(), Some([a, b, c])))
        }
        _ => Err(bad()),
    }
}
