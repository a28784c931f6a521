//! Runs settings of the study of the shared buffer: a list of settings as JSON on standard input, in which keys may be missing,
//! a list of runs as JSON on standard output.
//!
//! `echo '[{"policy": "fifo"}, {"policy": "exclp_epd", "load": 1.1}]' | cargo run -p layercast-picture --example buffer`

use std::io::{Read, Write};

use layercast_picture::study::Setting;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let settings: Vec<Setting> = serde_json::from_str(&text)?;
    let runs: Result<Vec<_>, _> = settings.iter().map(Setting::run).collect();
    let report = serde_json::to_string_pretty(&runs?)?;
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}
