//! `--out`: the report as JSON and Parquet.

use std::fs;
use std::path::Path;

use layercast_sim::internet::{AtmReport, Network, NodeIndex, Report, Sample, Summary};
use layercast_workload::app::Record;

use super::parquet::{Cell, Kind, Sheet};
use crate::failure::{Failure, Outcome};

/// The measurements of the applications, one a row, as they are made.
pub struct SampleFile<'a> {
    sheet: Sheet,
    applications: Vec<&'a str>,
}

impl<'a> SampleFile<'a> {
    /// Creates `samples.parquet` in a folder, and the folder.
    pub fn create(folder: &Path, applications: Vec<&'a str>) -> Result<SampleFile<'a>, Failure> {
        fs::create_dir_all(folder).map_err(|error| Failure::file(folder, "make", &error))?;
        let columns = [
            ("at", Kind::Real),
            ("application", Kind::Text),
            ("site", Kind::Whole),
            ("measured", Kind::Text),
            ("seconds", Kind::Real),
            ("bytes", Kind::Whole),
            ("sent", Kind::Whole),
            ("received", Kind::Whole),
            ("overdue", Kind::Whole),
        ];
        Ok(SampleFile {
            sheet: Sheet::create(folder.join("samples.parquet"), &columns)?,
            applications,
        })
    }

    /// One more.
    pub fn add(&mut self, sample: &Sample) {
        let stream = match sample.record {
            Record::Stream {
                sent,
                received,
                overdue,
                ..
            } => [sent, received, overdue].map(Some),
            _ => [None; 3],
        };
        let application = self.applications.get(sample.application as usize);
        let [sent, received, overdue] = stream.map(Cell::Whole);
        self.sheet.row([
            Cell::Real(Some(sample.at.as_secs_f64())),
            Cell::Text(application.copied().unwrap_or_default()),
            Cell::Whole(Some(u64::from(sample.site))),
            Cell::Text(sample.record.name()),
            Cell::Real(sample.record.took().map(|took| took.as_secs_f64())),
            Cell::Whole(sample.record.bytes()),
            sent,
            received,
            overdue,
        ]);
    }

    /// Writes the rest.
    pub fn finish(self) -> Outcome {
        self.sheet.finish()
    }
}

/// Writes `summary.json`, `flows.parquet`, `queues.parquet`, of generators `transfers.parquet`, of multicast
/// `receivers.parquet`, and, of a backbone, `cell_queues.parquet`.
pub fn write_summary(folder: &Path, network: &Network, summary: &Summary) -> Outcome {
    let path = folder.join("summary.json");
    let json = serde_json::to_string_pretty(summary).map_err(Failure::new)? + "\n";
    fs::write(&path, json).map_err(|error| Failure::file(&path, "write", &error))?;
    flows(folder, &summary.report)?;
    queues(folder, &summary.report)?;
    transfers(folder, network, &summary.report)?;
    receivers(folder, &summary.report)?;
    match &summary.report.atm {
        Some(atm) => cell_queues(folder, atm),
        None => Ok(()),
    }
}

/// Writes a table of its own.
fn table<'a, const N: usize>(
    folder: &Path,
    name: &str,
    columns: [(&str, Kind); N],
    rows: impl Iterator<Item = [Cell<'a>; N]>,
) -> Outcome {
    let mut sheet = Sheet::create(folder.join(name), &columns)?;
    for row in rows {
        sheet.row(row);
    }
    sheet.finish()
}

fn count<'a>(count: impl Into<u64>) -> Cell<'a> {
    Cell::Whole(Some(count.into()))
}

fn real<'a>(number: f64) -> Cell<'a> {
    Cell::Real(Some(number))
}

fn flows(folder: &Path, report: &Report) -> Outcome {
    let columns = [
        ("name", Kind::Text),
        ("bytes", Kind::Whole),
        ("goodput_bps", Kind::Real),
        ("sent", Kind::Whole),
        ("received", Kind::Whole),
        ("retransmitted", Kind::Whole),
        ("timeouts", Kind::Whole),
        ("fast_retransmits", Kind::Whole),
        ("mean_delay", Kind::Real),
        ("completed", Kind::Real),
        ("start", Kind::Real),
        ("source", Kind::Text),
        ("destination", Kind::Text),
        ("offered_bytes", Kind::Whole),
        ("ecn_reductions", Kind::Whole),
        ("failed", Kind::Real),
    ];
    let rows = report.flows.iter().map(|flow| {
        [
            Cell::Text(&flow.name),
            count(flow.bytes),
            real(flow.goodput_bps),
            count(flow.sent),
            count(flow.received),
            count(flow.retransmitted),
            count(flow.timeouts),
            count(flow.fast_retransmits),
            Cell::Real(flow.mean_delay),
            Cell::Real(flow.completed),
            real(flow.start),
            Cell::Text(&flow.source),
            Cell::Text(flow.destination.as_deref().unwrap_or_default()),
            Cell::Whole(flow.offered_bytes),
            count(flow.ecn_reductions),
            Cell::Real(flow.failed),
        ]
    });
    table(folder, "flows.parquet", columns, rows)
}

/// Each transfer of a generator, in the order of their starts.
fn transfers(folder: &Path, network: &Network, report: &Report) -> Outcome {
    if report.generators.is_empty() {
        return Ok(());
    }
    let columns = [
        ("generator", Kind::Text),
        ("source", Kind::Text),
        ("destination", Kind::Text),
        ("bytes", Kind::Whole),
        ("start", Kind::Real),
        ("end", Kind::Real),
        ("ideal", Kind::Real),
        ("slowdown", Kind::Real),
        ("retransmitted", Kind::Whole),
        ("timeouts", Kind::Whole),
    ];
    let name = |node: NodeIndex| network.nodes[node.0 as usize].name.as_str();
    let rows = report.generators.iter().flat_map(|generator| {
        generator.transfers.iter().map(move |it| {
            [
                Cell::Text(&generator.name),
                Cell::Text(name(it.from)),
                Cell::Text(name(it.to)),
                count(it.bytes),
                real(it.start.as_secs_f64()),
                Cell::Real(it.end.map(|end| end.as_secs_f64())),
                Cell::Real(it.ideal.map(|ideal| ideal.as_secs_f64())),
                Cell::Real(it.slowdown()),
                count(it.retransmitted),
                count(it.timeouts),
            ]
        })
    });
    table(folder, "transfers.parquet", columns, rows)
}

fn receivers(folder: &Path, report: &Report) -> Outcome {
    if report.flows.iter().all(|flow| flow.receivers.is_empty()) {
        return Ok(());
    }
    let columns = [
        ("flow", Kind::Text),
        ("name", Kind::Text),
        ("joined", Kind::Real),
        ("first_byte", Kind::Whole),
        ("bytes", Kind::Whole),
        ("goodput_bps", Kind::Real),
        ("completed", Kind::Real),
        ("failed", Kind::Text),
    ];
    let rows = report.flows.iter().flat_map(|flow| {
        flow.receivers.iter().map(move |receiver| {
            [
                Cell::Text(&flow.name),
                Cell::Text(&receiver.name),
                Cell::Real(receiver.joined),
                Cell::Whole(receiver.first_byte),
                count(receiver.bytes),
                real(receiver.goodput_bps),
                Cell::Real(receiver.completed),
                Cell::Text(receiver.failed.as_deref().unwrap_or("")),
            ]
        })
    });
    table(folder, "receivers.parquet", columns, rows)
}

fn queues(folder: &Path, report: &Report) -> Outcome {
    let columns = [
        ("name", Kind::Text),
        ("offered", Kind::Whole),
        ("sent", Kind::Whole),
        ("bytes", Kind::Whole),
        ("dropped_full", Kind::Whole),
        ("dropped_red", Kind::Whole),
        ("lost", Kind::Whole),
        ("utilisation", Kind::Real),
        ("mean_waiting", Kind::Real),
        ("mean_wait", Kind::Real),
        ("max_waiting", Kind::Whole),
        ("marked", Kind::Whole),
        ("duplicated", Kind::Whole),
        ("down", Kind::Whole),
    ];
    let rows = report.queues.iter().map(|queue| {
        [
            Cell::Text(&queue.name),
            count(queue.offered),
            count(queue.sent),
            count(queue.bytes),
            count(queue.dropped_full),
            count(queue.dropped_red),
            count(queue.lost),
            real(queue.utilisation),
            real(queue.mean_waiting),
            real(queue.mean_wait),
            count(queue.max_waiting),
            count(queue.marked),
            count(queue.duplicated),
            count(queue.down),
        ]
    });
    table(folder, "queues.parquet", columns, rows)
}

fn cell_queues(folder: &Path, atm: &AtmReport) -> Outcome {
    let columns = [
        ("name", Kind::Text),
        ("received", Kind::Whole),
        ("sent", Kind::Whole),
        ("dropped", Kind::Whole),
        ("max_len", Kind::Whole),
        ("utilisation", Kind::Real),
    ];
    let rows = atm.queues.iter().map(|queue| {
        [
            Cell::Text(&queue.name),
            count(queue.received),
            count(queue.sent),
            count(queue.dropped),
            count(queue.max_len),
            real(queue.utilisation),
        ]
    });
    table(folder, "cell_queues.parquet", columns, rows)
}
