//! What the jitter filter makes of recorded arrivals.
//!
//! Reads `{"fps", "gop", "settings": [..], "traces": {name: [[sent_s, arrived_s], ..]}}` from standard input,
//! a setting being `{"r"}`, `{"permille"}` or `{"permille", "quantile": true}`, with or without
//! `"spares_stalls": true`, each trace in order of arrival and each frame with its number as third member,
//! and writes `{name: [{"delay_ms", "late_percent"}, ..]}`: for each setting the mean playout delay of
//! the frames that were in time, and how many were not.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{read_to_string, stdin};

use layercast_core::{FrameRate, Span, Time};
use layercast_qos::{JitterConfig, JitterFilter, Margin, SourceTime};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    fps: u32,
    gop: u8,
    settings: Vec<Setting>,
    traces: BTreeMap<String, Vec<(f64, f64, u32)>>,
}

#[derive(Deserialize)]
struct Setting {
    #[serde(default)]
    permille: u16,
    r: Option<f64>,
    #[serde(default)]
    quantile: bool,
    #[serde(default)]
    spares_stalls: bool,
}

#[derive(Serialize)]
struct Point {
    delay_ms: f64,
    late_percent: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let input: Input = serde_json::from_str(&read_to_string(stdin())?)?;
    let mut output = BTreeMap::new();
    for (name, trace) in &input.traces {
        let points = input.settings.iter();
        let points: Vec<Point> = points.map(|it| play(&input, it, trace)).collect();
        output.insert(name, points);
    }
    println!("{}", serde_json::to_string(&output)?);
    Ok(())
}

fn play(input: &Input, setting: &Setting, trace: &[(f64, f64, u32)]) -> Point {
    let rate = FrameRate {
        num: input.fps,
        den: 1,
    };
    let mut config = JitterConfig::new(rate, input.gop);
    let permille = setting.permille;
    config.margin = match setting.r {
        Some(r) => Margin::Fixed(r),
        None if setting.quantile => Margin::Quantile { permille },
        None => Margin::TargetLate { permille },
    };
    config.spares_stalls = setting.spares_stalls;
    let mut filter = JitterFilter::new(config);
    let at = |seconds: f64| Time::ZERO + Span::from_secs_f64(seconds);
    let (mut late, mut delays) = (0_u32, Vec::new());
    for &(sent, arrived, number) in trace {
        let emission = SourceTime::from_ps(at(sent).as_ps() as i64);
        let gop_start = number.is_multiple_of(u32::from(input.gop));
        let playout = filter.on_arrival(at(arrived), emission, gop_start);
        match playout.late_by {
            Some(_) => late += 1,
            None => delays.push(playout.deadline.since(at(sent)).as_ms_f64()),
        }
    }
    Point {
        delay_ms: delays.iter().sum::<f64>() / delays.len() as f64,
        late_percent: 100.0 * f64::from(late) / trace.len() as f64,
    }
}
