//! The self-contained HTML report of a demo run.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The page; it draws itself from the summary that is put in place of `SUMMARY_JSON`, and the images in place of
/// `IMAGES_JSON`.
const PAGE: &str = include_str!("../assets/report.html");

/// The report for `summary` (the content of `summary.json`) as one HTML page without any
/// reference to the outside; it has the JPEG `images` under the names that the summary gives them.
pub fn render(summary: &Value, images: &BTreeMap<String, Vec<u8>>) -> String {
    let inline = |(name, image): (&String, &Vec<u8>)| {
        let data = format!("data:image/jpeg;base64,{}", STANDARD.encode(image));
        (name.clone(), Value::from(data))
    };
    let images: Value = images.iter().map(inline).collect();
    let (before, rest) = PAGE.split_once("SUMMARY_JSON").unwrap_or((PAGE, ""));
    let (between, after) = rest.split_once("IMAGES_JSON").unwrap_or((rest, ""));
    [before, &safe(summary), between, &safe(&images), after].concat()
}

/// Inside a script element only "</" could end the data early; "\/" means the same in JSON.
fn safe(value: &Value) -> String {
    value.to_string().replace("</", "<\\/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_the_script() {
        let page = render(
            &serde_json::json!({"scenario": "</script><b>IMAGES_JSON"}),
            &BTreeMap::new(),
        );
        assert!(page.contains(r#""<\/script><b>IMAGES_JSON""#));
        assert!(!page.contains("SUMMARY_JSON"));
    }

    #[test]
    fn images_are_in_the_page() {
        let images = BTreeMap::from([("pictures/wide-1.jpg".to_owned(), vec![0xFF, 0xD8])]);
        let page = render(&Value::Null, &images);
        assert!(page.contains(r#"{"pictures/wide-1.jpg":"data:image/jpeg;base64,/9g="}"#));
    }

    #[test]
    fn the_page_refers_to_nothing_outside() {
        assert!(!PAGE.contains("<link") && !PAGE.contains("http"));
        for (at, _) in PAGE.match_indices("src=") {
            assert!(
                PAGE[at..].starts_with("src=\"${images["),
                "{}",
                &PAGE[at..at + 40]
            );
        }
    }
}
