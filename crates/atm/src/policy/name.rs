use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::{AppSet, Mux, Policy, Rule, Scheduler, VcManagement};

/// Longest name that is compared and shown.
const LONGEST: usize = 64;
/// Number of similar names offered for a wrong one.
const OFFERED: usize = 3;

/// An invalid policy name, with the problem and similar names.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("policy {name:?}: {problem}; nearest: {}", list(.nearest))]
pub struct PolicyNameError {
    /// The name, truncated if it is long.
    pub name: String,
    /// The problem.
    pub problem: NameProblem,
    /// Valid names, the most similar first.
    pub nearest: Vec<Policy>,
}

/// Problem of a policy name.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NameProblem {
    /// The name does not have three parts.
    #[error(
        "a name is <qos>-<mux>-<vc> with qos = noqos or \
         (sp|wc|nwc|drr|edf)-(telnet|ftp|http|audio|video|isp|av|qos1), mux = conv|app|router, \
         vc = pvc|svc|svccache"
    )]
    Form,
    /// A part has an unknown value.
    #[error("{found:?} is no {part}; there are {known}")]
    Part {
        /// The part.
        part: &'static str,
        /// The value found.
        found: String,
        /// The allowed values.
        known: &'static str,
    },
    /// The parts are valid, but not their combination.
    #[error("{0}")]
    Rule(#[from] Rule),
}

/// The names of one axis.
macro_rules! words {
    ($type:ident, $part:literal, $known:literal, $($variant:ident = $word:literal),+) => {
        impl $type {
            pub(super) const ALL: &[$type] = &[$($type::$variant),+];

            pub(super) fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $word),+
                }
            }

            fn parse(word: &str) -> Result<$type, NameProblem> {
                match word {
                    $($word => Ok($type::$variant),)+
                    _ => Err(NameProblem::Part {
                        part: $part,
                        found: word.chars().take(LONGEST).collect(),
                        known: $known,
                    }),
                }
            }
        }
    };
}

words!(
    Scheduler,
    "QoS",
    "noqos, sp, wc, nwc, and drr and edf, which the study does not have",
    Sp = "sp",
    Wc = "wc",
    Nwc = "nwc",
    Drr = "drr",
    Edf = "edf"
);
words!(
    AppSet,
    "set of applications",
    "telnet, ftp, http, audio, video, isp, av and qos1",
    Telnet = "telnet",
    Ftp = "ftp",
    Http = "http",
    Audio = "audio",
    Video = "video",
    Isp = "isp",
    Av = "av",
    Qos1 = "qos1"
);
words!(
    Mux,
    "multiplexing",
    "conv, app and router",
    Conv = "conv",
    App = "app",
    Router = "router"
);
words!(
    VcManagement,
    "management of circuits",
    "pvc, svc and svccache",
    Pvc = "pvc",
    Svc = "svc",
    SvcCache = "svccache"
);

impl FromStr for Policy {
    type Err = PolicyNameError;

    /// Parses a name, or an alias: `sp-noqos-*`, `noqos-*-pvc-router` (with or without a star), and `qosl` for
    /// `qos1`.
    fn from_str(name: &str) -> Result<Policy, PolicyNameError> {
        parse(name).map_err(|problem| {
            let name: String = name.chars().take(LONGEST).collect();
            PolicyNameError {
                nearest: nearest(&name),
                name,
                problem,
            }
        })
    }
}

impl TryFrom<String> for Policy {
    type Error = PolicyNameError;

    fn try_from(name: String) -> Result<Policy, PolicyNameError> {
        name.parse()
    }
}

impl From<Policy> for String {
    fn from(policy: Policy) -> String {
        policy.to_string()
    }
}

fn parse(name: &str) -> Result<Policy, NameProblem> {
    let words: Vec<&str> = name.split('-').take(6).collect();
    let (qos, rest) = match words.as_slice() {
        ["noqos", "*", rest @ ..] | ["sp", "noqos", rest @ ..] | ["noqos", rest @ ..] => {
            (None, rest)
        }
        [scheduler, apps, rest @ ..] => {
            let apps = if *apps == "qosl" { "qos1" } else { apps };
            let scheduler = Scheduler::parse(scheduler)?;
            (Some((scheduler, AppSet::parse(apps)?)), rest)
        }
        _ => return Err(NameProblem::Form),
    };
    let (mux, management) = match rest {
        // The order of section 2.6 of the thesis.
        [management @ ("pvc" | "svc" | "svccache"), "router"] => ("router", *management),
        [mux, management] => (*mux, *management),
        _ => return Err(NameProblem::Form),
    };
    let (mux, management) = (Mux::parse(mux)?, VcManagement::parse(management)?);
    Ok(Policy::new(qos, mux, management)?)
}

fn nearest(name: &str) -> Vec<Policy> {
    let mut all: Vec<Policy> = Policy::all().chain(Policy::later()).collect();
    all.sort_by_cached_key(|policy| edits(name, &policy.to_string()));
    all.truncate(OFFERED);
    all
}

/// Number of characters to insert, remove or replace to turn one word into the other (Levenshtein distance).
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

fn list(policies: &[Policy]) -> impl fmt::Display {
    let names: Vec<String> = policies.iter().map(Policy::to_string).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(name: &str) -> PolicyNameError {
        name.parse::<Policy>().unwrap_err()
    }

    #[test]
    fn every_name_reads_back() {
        for policy in Policy::all().chain(Policy::later()) {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
    }

    #[test]
    fn old_spellings_are_read() {
        for (old, name) in [
            ("sp-noqos-conv-svc", "noqos-conv-svc"),
            ("noqos-*-pvc-router", "noqos-router-pvc"),
            ("noqos-pvc-router", "noqos-router-pvc"),
            ("noqos-*-svc-router", "noqos-router-svc"),
            ("sp-noqos-svccache-router", "noqos-router-svccache"),
            ("nwc-qosl-app-svc", "nwc-qos1-app-svc"),
        ] {
            assert_eq!(old.parse::<Policy>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn an_error_names_the_rule_and_similar_policies() {
        let broken = error("sp-telnet-router-svc");
        assert_eq!(broken.problem, NameProblem::Rule(Rule::R1));
        assert!(broken.to_string().contains("R1"), "{broken}");
        assert!(
            broken
                .nearest
                .contains(&"sp-telnet-conv-svc".parse().unwrap())
        );
        assert_eq!(error("noqos-conv-pvc").problem, NameProblem::Rule(Rule::R2));
        assert_eq!(
            error("wc-telnet-conf-svc").nearest[0].to_string(),
            "wc-telnet-conv-svc"
        );
        for name in [
            "",
            "-",
            "noqos",
            "noqos-conv",
            "sp-conv-svc",
            "a-b-c-d-e-f-g",
        ] {
            assert_eq!(error(name).nearest.len(), OFFERED, "{name}");
        }
        let long = error(&"sp-".repeat(100_000));
        assert!(long.to_string().len() < 500, "{long}");
    }

    proptest! {
        #[test]
        fn edits_is_a_distance(a in "[a-c]{0,6}", b in "[a-c]{0,6}", c in "[a-c]{0,6}") {
            prop_assert_eq!(edits(&a, &b) == 0, a == b);
            prop_assert_eq!(edits(&a, &b), edits(&b, &a));
            prop_assert!(edits(&a, &c) <= edits(&a, &b) + edits(&b, &c));
        }

        #[test]
        fn any_name_gives_a_policy_or_an_error(name in "[-*a-z1]{0,40}") {
            if let Ok(policy) = name.parse::<Policy>() {
                prop_assert!(Policy::all().chain(Policy::later()).any(|valid| valid == policy));
            }
        }
    }
}
