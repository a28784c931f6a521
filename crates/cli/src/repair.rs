//! What parities of the base layer did, in words.

use serde_json::Value;

/// A line for each receiver with repair: what was lost of its base layer, and what came back.
pub fn lines<'a>(receivers: impl IntoIterator<Item = &'a Value>) -> String {
    let lines = receivers.into_iter().filter_map(line);
    let lines: String = lines.collect();
    match lines.is_empty() {
        true => lines,
        false => format!("\nbase-layer packets:\n{lines}"),
    }
}

fn line(receiver: &Value) -> Option<String> {
    let repair = receiver.get("repair").filter(|it| !it.is_null())?;
    let count = |pointer| repair.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let (expected, received) = (count("/packets/expected"), count("/packets/received"));
    let lost = expected.saturating_sub(received);
    let share = 100.0 * lost as f64 / expected.max(1) as f64;
    let (recovered, gone) = (count("/recovered"), count("/unrecoverable"));
    let name = receiver["name"].as_str().unwrap_or_default();
    Some(format!(
        "  {name:<12} {lost} of {expected} lost ({share:.1} %, parities included), {recovered} recovered, {gone} gone\n"
    ))
}
