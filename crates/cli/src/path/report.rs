//! `layercast path report`: analyses recorded arrivals.

use std::path::Path;

use layercast_sim::file;
use layercast_sync_index::Outcome as Block;
use layercast_sync_index::selfsim::Analysis;
use layercast_sync_index::study::{Analysed, Packet, analyse};

use super::args::Report;
use crate::failure::{Failure, Outcome};
use crate::output::{Table, count, print, print_json};

/// Runs the command.
pub fn run(args: &Report) -> Outcome {
    let config = super::config(&args.estimation)?;
    let text = file::read_text(&args.file, file::MAX_DATA_FILE);
    let text = text.map_err(|error| Failure::file(&args.file, "read", &error))?;
    let arrivals = parse(&args.file, &text)?;
    let found = analyse(args.period, arrivals, config).map_err(Failure::wrong_use)?;
    match args.json {
        true => print_json(&found),
        false => print(&in_words(&found)),
    }
}

fn parse(path: &Path, text: &str) -> Result<Vec<Packet>, Failure> {
    let mut packets = Vec::new();
    let mut origin = (None, None);
    for (place, line) in text.lines().enumerate() {
        if place == 0 && line.starts_with("arrival") || line.trim().is_empty() {
            continue;
        }
        let packet = packet(line, &mut origin).ok_or_else(|| {
            let what = format!("line {}: {line:?} is no packet", place + 1);
            Failure::of(path, what).hint(
                "a line is arrival_s,seq,tx_s,late,skipped such as 12.010301,3,12.009998,0,0; the last three may be missing",
            )
        })?;
        packets.push(packet);
    }
    match packets.len() {
        0 | 1 => Err(Failure::of(path, "there are fewer than two packets")
            .hint("record a train: layercast path recv --record FILE.csv")),
        _ => Ok(packets),
    }
}

/// The packet of a line. Times are counted from the first packet, with room for earlier ones: clocks may have any origin.
fn packet(line: &str, origin: &mut (Option<f64>, Option<f64>)) -> Option<Packet> {
    let mut cells = line.split(',').map(str::trim);
    let seconds = |text: &str| {
        let value: f64 = text.parse().ok()?;
        (0.0..1e9).contains(&value).then_some(value)
    };
    let since = |origin: &mut Option<f64>, at: f64| at - *origin.get_or_insert(at) + 1_000.0;
    let arrived_s = since(&mut origin.0, seconds(cells.next()?)?);
    let seq = cells.next()?.parse::<u64>().ok()? as u32;
    let sent_s = match cells.next().unwrap_or_default() {
        "" => None,
        text => Some(since(&mut origin.1, seconds(text)?)),
    };
    let mut number = || match cells.next().unwrap_or_default() {
        "" => Some(0),
        text => text.parse::<u32>().ok(),
    };
    let (late, skipped) = (number()? != 0, number()?);
    cells.next().is_none().then_some(Packet {
        seq,
        sent_s,
        arrived_s,
        late,
        skipped,
    })
}

fn hurst(name: &str, found: &Analysis) -> String {
    match (found.hurst, found.slope, found.r2) {
        (Some(hurst), Some(slope), Some(r2)) => {
            format!("{name}: slope {slope:.2}, H {hurst:.2} (r2 {r2:.2})\n")
        }
        _ => format!("{name}: no H, {}\n", found.reason.unwrap_or("no line")),
    }
}

fn in_words(found: &Analysed) -> String {
    let mut table = Table::new(&["block", "index", "mean", "queue", "lost"]);
    for (place, outcome) in found.outcomes.iter().enumerate() {
        let lost = format!("{:.2} %", f64::from(outcome.loss_ppm()) / 1e4);
        let cells = match outcome {
            Block::Estimate(it) => [
                format!("{:.3} ms", it.xi_ms),
                format!("{:.3} ms", it.mean_ms),
                it.queue_ms
                    .map_or("-".to_owned(), |ms| format!("{ms:.2} ms")),
            ],
            Block::NoSignal { .. } => ["no signal".to_owned(), "-".to_owned(), "-".to_owned()],
            Block::Insufficient { .. } => ["too few".to_owned(), "-".to_owned(), "-".to_owned()],
        };
        let [index, mean, queue] = cells;
        table.row([(place + 1).to_string(), index, mean, queue, lost]);
    }
    let it = &found.counters;
    format!(
        "{} in order, {} lost, {} reordered, {} twice\n\n{}\n{}{}{}",
        count(it.in_order, "packet"),
        it.lost,
        it.reordered,
        it.duplicates,
        table.render(),
        hurst(
            "rescaled range of the lags from the start",
            &found.rs_prefix
        ),
        hurst("rescaled range of the lags, several starts", &found.rs_pox),
        hurst("variance-time of the lags", &found.variance_time),
    )
}
