//! Many names in one: `"host{1..200}"` is host1 to host200.

use super::error::{Problem, ScenarioError};

/// Most nodes, links or flows of a network.
pub(super) const MOST: u64 = 1_000_000;

/// Longest pattern: what it says is there as often as it has names.
const LONGEST: usize = 256;

/// The names that `pattern` means, in order; of two ranges the second counts first.
pub(super) fn names(field: &str, pattern: &str) -> Result<Vec<String>, ScenarioError> {
    if pattern.len() > LONGEST {
        let accepted = format!("{LONGEST} bytes at most");
        let value = format!("{} bytes", pattern.len());
        return Err(ScenarioError::value(field, value, accepted));
    }
    let mut found = vec![String::new()];
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        let (range, tail) = after.split_once('}').ok_or_else(|| wrong(field, pattern))?;
        let (first, last) = bounds(range).ok_or_else(|| wrong(field, pattern))?;
        let count = (u64::from(last - first) + 1).saturating_mul(found.len() as u64);
        if count > MOST {
            let problem = Problem::TooMany {
                what: "names",
                count,
                most: MOST,
            };
            return Err(ScenarioError::new(field, problem));
        }
        let each = |head: String| (first..=last).map(move |i| format!("{head}{before}{i}"));
        found = found.into_iter().flat_map(each).collect();
        rest = tail;
    }
    if rest.contains('}') {
        return Err(wrong(field, pattern));
    }
    for name in &mut found {
        name.push_str(rest);
    }
    Ok(found)
}

fn bounds(range: &str) -> Option<(u32, u32)> {
    let (first, last) = range.split_once("..")?;
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some((first, last))
}

fn wrong(field: &str, pattern: &str) -> ScenarioError {
    let accepted = "a name, or several with a range such as \"host{1..200}\"";
    ScenarioError::value(field, format!("{pattern:?}"), accepted)
}

/// The pairs that two lists of names mean: in step, or each of one with the only other.
pub(super) fn pairs(
    field: &str,
    left: Vec<String>,
    right: Vec<String>,
) -> Result<Vec<[String; 2]>, ScenarioError> {
    let (n, m) = (left.len(), right.len());
    if n != m && n != 1 && m != 1 {
        return Err(ScenarioError::new(
            field,
            Problem::Lengths { left: n, right: m },
        ));
    }
    let count = n.max(m);
    let left = left.into_iter().cycle().take(count);
    let right = right.into_iter().cycle().take(count);
    Ok(left.zip(right).map(|(left, right)| [left, right]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_names() {
        let of = |pattern: &str| names("x", pattern).unwrap();
        assert_eq!(of("a"), ["a"]);
        assert_eq!(of("a{1..3}"), ["a1", "a2", "a3"]);
        assert_eq!(
            of("s{1..2}w{9..10}x"),
            ["s1w9x", "s1w10x", "s2w9x", "s2w10x"]
        );
    }

    #[test]
    fn ranges_that_are_none_or_too_many_are_refused() {
        for pattern in [
            "a{1..", "a}", "a{2..1}", "a{1}", "a{x..y}", "a{-1..2}", "a{{1..2}",
        ] {
            assert!(names("x", pattern).is_err(), "{pattern}");
        }
        let long = "a".repeat(1_000_000) + "{1..1000000}";
        let error = names("x", &long).unwrap_err();
        assert!(error.to_string().contains("256 bytes"), "{error}");
        let error = names("x", "a{1..4000000000}b{1..4000000000}").unwrap_err();
        assert!(error.to_string().contains("at most 1000000"), "{error}");
    }

    #[test]
    fn lists_go_in_step_or_to_the_only_one() {
        let of = |left: &str, right: &str| {
            pairs("x", names("x", left).unwrap(), names("x", right).unwrap())
        };
        assert_eq!(of("a{1..2}", "b").unwrap(), [["a1", "b"], ["a2", "b"]]);
        assert_eq!(
            of("a{1..2}", "b{3..4}").unwrap(),
            [["a1", "b3"], ["a2", "b4"]]
        );
        assert!(of("a{1..2}", "b{1..3}").is_err());
    }
}
