//! Names in scenario files.

use super::error::ScenarioError;
use super::limits::{MOST_NAME, MOST_TITLE};

/// The accepted names of nodes, flows and receivers: they are valid in file names, streams and reports.
///
/// # Errors
/// The field, the name and what would do.
pub(super) fn check_name(field: &str, name: &str) -> Result<(), ScenarioError> {
    let fine = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.chars().count() > MOST_NAME || !name.chars().all(fine) {
        let accepted = format!("1 to {MOST_NAME} letters, digits, '-', '_' and '.'");
        return Err(ScenarioError::value(field, shown(name), accepted));
    }
    Ok(())
}

/// Whether a text can be the title of a scenario, a branch or a flow of an internetwork; what would do, if not.
pub(crate) fn check_title(title: &str) -> Result<(), String> {
    let is_fine = (1..=MOST_TITLE).contains(&title.chars().count());
    match is_fine && !title.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(format!(
            "1 to {MOST_TITLE} characters, no control characters"
        )),
    }
}

/// A name in quotes, without the end of a long one.
pub(crate) fn shown(name: &str) -> String {
    match name.char_indices().nth(MOST_NAME) {
        Some((at, _)) => {
            let count = name.chars().count();
            format!("{:?} and more, {count} characters", &name[..at])
        }
        None => format!("{name:?}"),
    }
}
