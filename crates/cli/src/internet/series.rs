//! `--series`: what flows and queues are at regular instants, as Parquet.

use std::fs;
use std::path::{Path, PathBuf};

use layercast_core::Span;
use layercast_sim::internet::{Point, PointSink};

use super::parquet::{Cell, Kind, Sheet};
use crate::failure::{Failure, Outcome};

/// The points of a run, one a row, as they are taken.
pub struct SeriesFile(Sheet);

/// The file that `--series` names: in a folder it is `series.parquet`.
fn file_in(path: &Path) -> Result<PathBuf, Failure> {
    if path.extension().is_some_and(|it| it == "parquet") {
        return Ok(path.to_owned());
    }
    fs::create_dir_all(path).map_err(|error| Failure::file(path, "make", &error))?;
    Ok(path.join("series.parquet"))
}

impl SeriesFile {
    /// Creates the file, and the folder if `path` is one.
    pub fn create(path: &Path) -> Result<SeriesFile, Failure> {
        let columns = [
            ("at", Kind::Real),
            ("kind", Kind::Text),
            ("name", Kind::Text),
            ("rate_bps", Kind::Real),
            ("delivered", Kind::Whole),
            ("cwnd", Kind::Whole),
            ("ssthresh", Kind::Whole),
            ("srtt", Kind::Real),
            ("in_flight", Kind::Whole),
            ("acknowledged", Kind::Whole),
            ("sent", Kind::Whole),
            ("retransmitted", Kind::Whole),
            ("timeouts", Kind::Whole),
            ("waiting", Kind::Whole),
            ("waiting_bytes", Kind::Whole),
            ("dropped", Kind::Whole),
            ("lost", Kind::Whole),
            ("marked", Kind::Whole),
            ("down", Kind::Whole),
        ];
        Ok(SeriesFile(Sheet::create(file_in(path)?, &columns)?))
    }

    /// Whether it cannot be written, so that the run may end.
    pub fn is_failed(&self) -> bool {
        self.0.is_failed()
    }

    /// Writes the rest.
    pub fn finish(self) -> Outcome {
        self.0.finish()
    }
}

impl PointSink for SeriesFile {
    fn point(&mut self, point: &Point<'_>) {
        let (tcp, queue) = (&point.tcp, &point.queue);
        let of_tcp = |count: fn(&_) -> u64| Cell::Whole(tcp.as_ref().map(count));
        let of_queue = |count: fn(&_) -> u64| Cell::Whole(queue.as_ref().map(count));
        let srtt = tcp.and_then(|it| it.srtt).map(Span::as_secs_f64);
        self.0.row([
            Cell::Real(Some(point.at.as_secs_f64())),
            Cell::Text(point.kind.name()),
            Cell::Text(point.name),
            Cell::Real(Some(point.rate_bps)),
            Cell::Whole(point.delivered),
            of_tcp(|it| it.cwnd),
            Cell::Whole(tcp.and_then(|it| it.ssthresh)),
            Cell::Real(srtt),
            of_tcp(|it| it.in_flight),
            of_tcp(|it| it.acknowledged),
            of_tcp(|it| it.sent),
            of_tcp(|it| it.retransmitted),
            of_tcp(|it| it.timeouts),
            of_queue(|it| it.waiting),
            Cell::Whole(queue.and_then(|it| it.bytes)),
            of_queue(|it| it.dropped),
            of_queue(|it| it.lost),
            of_queue(|it| it.marked),
            of_queue(|it| it.down),
        ]);
    }
}
