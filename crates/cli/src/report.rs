//! The self-contained HTML report of a demo run.

/// The page; it draws itself from the summary that is put in place of `SUMMARY_JSON`.
const PAGE: &str = include_str!("../assets/report.html");

/// The report for `summary` (the content of `summary.json`) as one HTML page without any
/// reference to the outside.
pub fn render(summary: &serde_json::Value) -> String {
    // Inside a script element only "</" could end the data early; "\/" means the same in JSON.
    PAGE.replace("SUMMARY_JSON", &summary.to_string().replace("</", "<\\/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_the_script() {
        let page = render(&serde_json::json!({"scenario": "</script><b>"}));
        assert!(page.contains(r#""<\/script><b>""#));
        assert!(!page.contains("SUMMARY_JSON"));
    }

    #[test]
    fn the_page_refers_to_nothing_outside() {
        assert!(!PAGE.contains("src=") && !PAGE.contains("<link"));
    }
}
