//! Traces held against files. With `LAYERCAST_BLESS=1` they are written again, and the comments are kept.

use std::path::Path;

/// Holds a log against `tests/PROTOCOL/golden/NAME.txt`; lines that begin with `#` are comments.
pub fn check(protocol: &str, log: &[String], name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let path = folder
        .join(protocol)
        .join("golden")
        .join(format!("{name}.txt"));
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let (why, expected): (Vec<_>, Vec<_>) = kept.lines().partition(|line| line.starts_with('#'));
    if std::env::var("LAYERCAST_BLESS").is_ok_and(|v| v == "1") {
        let seen = log.iter().map(String::as_str);
        let text: Vec<_> = why.iter().copied().chain(seen).collect();
        std::fs::write(&path, text.join("\n") + "\n").unwrap();
        return;
    }
    assert!(*log == *expected, "{name}\n{}", difference(&expected, log));
}

/// What is between the lines that both begin with and those that both end with.
fn difference(expected: &[&str], seen: &[String]) -> String {
    let alike = |(a, b): &(&&str, &String)| **a == b.as_str();
    let first = expected.iter().zip(seen).take_while(alike).count();
    let rest = (&expected[first..], &seen[first..]);
    let backwards = rest.0.iter().rev().zip(rest.1.iter().rev());
    let last = backwards.take_while(alike).count();
    let mut out = Vec::new();
    out.extend(
        expected[first.saturating_sub(3)..first]
            .iter()
            .map(|it| format!("  {it}")),
    );
    out.extend(
        rest.0[..rest.0.len() - last]
            .iter()
            .map(|it| format!("- {it}")),
    );
    out.extend(
        rest.1[..rest.1.len() - last]
            .iter()
            .map(|it| format!("+ {it}")),
    );
    out.join("\n")
}
