//! What many runs of a scenario have in common: median and range of what matters.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::output::{Table, count};

/// Most rows of a part; `--json` has all.
const ROWS: usize = 40;

/// What a figure is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    Flows,
    Transfers,
    Applications,
    Queues,
    Backbone,
    Mets,
}

/// In what it is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
enum Unit {
    #[serde(rename = "bit/s")]
    Rate,
    #[serde(rename = "s")]
    Time,
    #[serde(rename = "share")]
    Share,
    #[serde(rename = "count")]
    Count,
    #[serde(rename = "times")]
    Times,
}

impl Unit {
    /// For people: its name, what one of it is in that, and how many places.
    fn shown(self) -> (&'static str, f64, usize) {
        match self {
            Unit::Rate => ("Mbit/s", 1e-6, 3),
            Unit::Time => ("ms", 1e3, 3),
            Unit::Share => ("%", 100.0, 3),
            Unit::Count => ("", 1.0, 0),
            Unit::Times => ("", 1.0, 3),
        }
    }
}

/// The same number of all runs.
struct Series {
    part: Part,
    of: String,
    figure: String,
    unit: Unit,
    values: Vec<f64>,
}

/// Collects what the summaries of runs say.
#[derive(Default)]
pub struct Figures {
    seeds: Vec<u64>,
    partial: Vec<u64>,
    series: Vec<Series>,
    place: BTreeMap<(Part, String, String), usize>,
}

impl Figures {
    /// One more run: its `summary.json`.
    pub fn add(&mut self, seed: u64, summary: &Value) {
        self.seeds.push(seed);
        if !summary["stopped"].is_null() {
            self.partial.push(seed);
        }
        let flows = list(&summary["flows"]);
        let rates = flows.iter().filter_map(|flow| flow["goodput_bps"].as_f64());
        // Rates of transfers that were done at different times have no sum.
        if !flows.is_empty() && flows.iter().all(|flow| flow["completed"].is_null()) {
            let total = Some(rates.sum());
            self.one(Part::Flows, "all together", "goodput", Unit::Rate, total);
        }
        for flow in flows {
            let name = text(&flow["name"]);
            for (figure, field, unit) in [
                ("goodput", "goodput_bps", Unit::Rate),
                ("mean delay", "mean_delay", Unit::Time),
                ("completed", "completed", Unit::Time),
            ] {
                self.one(Part::Flows, name, figure, unit, flow[field].as_f64());
            }
        }
        for it in list(&summary["generators"]) {
            let name = text(&it["name"]);
            self.one(
                Part::Transfers,
                name,
                "completed",
                Unit::Count,
                it["completed"].as_f64(),
            );
            for key in ["mean", "p50", "p95", "p99"] {
                let (time, times) = (&it["completion"][key], &it["slowdown"][key]);
                let figure = |what| format!("{what} {key}");
                self.one(
                    Part::Transfers,
                    name,
                    &figure("completion"),
                    Unit::Time,
                    time.as_f64(),
                );
                self.one(
                    Part::Transfers,
                    name,
                    &figure("slowdown"),
                    Unit::Times,
                    times.as_f64(),
                );
            }
        }
        for found in list(&summary["measurements"]) {
            let (of, name) = (text(&found["application"]), text(&found["name"]));
            let stream = &found["stream"];
            let lost = stream["sent"].as_f64().zip(stream["received"].as_f64());
            let lost = lost.map(|(sent, received)| (sent - received).max(0.0));
            for (figure, unit, value) in [
                ("count", Unit::Count, found["count"].as_f64()),
                ("p50", Unit::Time, found["p50"].as_f64()),
                ("p90", Unit::Time, found["p90"].as_f64()),
                ("lost", Unit::Share, share(lost, &stream["sent"])),
                (
                    "late",
                    Unit::Share,
                    share(stream["overdue"].as_f64(), &stream["received"]),
                ),
            ] {
                self.one(
                    Part::Applications,
                    of,
                    &format!("{name} {figure}"),
                    unit,
                    value,
                );
            }
        }
        for queue in list(&summary["queues"]) {
            let (name, used) = (text(&queue["name"]), queue["utilisation"].as_f64());
            let dropped = sum([&queue["dropped_full"], &queue["dropped_red"]]);
            self.one(Part::Queues, name, "used", Unit::Share, used);
            self.one(
                Part::Queues,
                name,
                "dropped",
                Unit::Share,
                share(dropped, &queue["offered"]),
            );
        }
        self.layered(&summary["mets"]);
        let queues = list(&summary["atm"]["queues"]);
        for queue in queues {
            let (name, used) = (text(&queue["name"]), queue["utilisation"].as_f64());
            let dropped = queue["dropped"].as_f64();
            self.one(Part::Backbone, name, "used", Unit::Share, used);
            self.one(
                Part::Backbone,
                name,
                "dropped",
                Unit::Share,
                share(dropped, &queue["received"]),
            );
        }
        for adapter in list(&summary["atm"]["adapters"]) {
            for (figure, field) in [
                ("circuits asked for", "requests"),
                ("most circuits", "max_circuits"),
            ] {
                let count = adapter[field].as_f64();
                self.one(
                    Part::Backbone,
                    text(&adapter["router"]),
                    figure,
                    Unit::Count,
                    count,
                );
            }
        }
    }

    /// The receivers of layered flows.
    fn layered(&mut self, mets: &Value) {
        let flows = list(&mets["flows"]).iter();
        for receiver in flows.flat_map(|flow| list(&flow["receivers"])) {
            let name = text(&receiver["name"]);
            for layer in ["BL", "E1", "E2"] {
                let played = receiver["frames"][layer].as_f64();
                let lost = receiver["lost"][layer].as_f64();
                for (what, value) in [("played", played), ("lost", lost)] {
                    let figure = format!("{layer} {what}");
                    self.one(Part::Mets, name, &figure, Unit::Count, value);
                }
            }
            let late = receiver["late"].as_f64();
            self.one(Part::Mets, name, "late", Unit::Count, late);
            for quantile in ["p50", "p99"] {
                let delay = receiver["delay_ms"][quantile].as_f64();
                let delay = delay.map(|ms| ms / 1e3);
                let figure = format!("delay {quantile}");
                self.one(Part::Mets, name, &figure, Unit::Time, delay);
            }
        }
    }

    fn one(&mut self, part: Part, of: &str, figure: &str, unit: Unit, value: Option<f64>) {
        let Some(value) = value else {
            return;
        };
        let key = (part, of.to_owned(), figure.to_owned());
        let series = &mut self.series;
        let place = *self.place.entry(key).or_insert_with_key(|(_, of, figure)| {
            series.push(Series {
                part,
                of: of.clone(),
                figure: figure.clone(),
                unit,
                values: Vec::new(),
            });
            series.len() - 1
        });
        self.series[place].values.push(value);
    }

    /// All of them, of the scenario so called; `made` runs are new, `left` were not made.
    pub fn report(self, scenario: String, made: usize, left: usize) -> Report {
        Report {
            scenario,
            computed: made,
            kept: self.seeds.len().saturating_sub(made),
            left,
            seeds: self.seeds,
            partial: self.partial,
            figures: self.series.into_iter().map(Figure::from).collect(),
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn sum<const N: usize>(parts: [&Value; N]) -> Option<f64> {
    parts.into_iter().map(Value::as_f64).sum()
}

/// None of none.
fn share(part: Option<f64>, of: &Value) -> Option<f64> {
    let of = of.as_f64().filter(|&of| of > 0.0)?;
    part.map(|part| part / of)
}

/// The object that `--seeds` prints.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Name of the scenario.
    scenario: String,
    /// Finished seeds of the range in the folder, those of earlier starts included.
    seeds: Vec<u64>,
    /// Runs computed now.
    computed: usize,
    /// Runs of earlier starts.
    kept: usize,
    /// Seeds of the range without a run, after Ctrl-C.
    left: usize,
    /// Seeds whose run reached a budget.
    pub partial: Vec<u64>,
    /// The figures over the seeds.
    figures: Vec<Figure>,
}

/// A figure over the seeds.
#[derive(Debug, Serialize)]
struct Figure {
    /// The part of the network.
    part: Part,
    /// The flow, application, queue or other item of that part.
    of: String,
    /// Name of the figure.
    figure: String,
    /// Its unit.
    unit: Unit,
    /// Median over the seeds; of an even number, the mean of the middle two.
    median: f64,
    /// Least value.
    min: f64,
    /// Largest value.
    max: f64,
    /// Runs that have the figure.
    seeds: usize,
}

impl From<Series> for Figure {
    fn from(mut series: Series) -> Figure {
        let values = &mut series.values;
        values.sort_by(f64::total_cmp);
        let (seeds, last) = (values.len(), values.len() - 1);
        Figure {
            median: (values[last / 2] + values[seeds / 2]) / 2.0,
            min: values[0],
            max: values[last],
            seeds,
            part: series.part,
            of: series.of,
            figure: series.figure,
            unit: series.unit,
        }
    }
}

impl Report {
    /// For people.
    pub fn describe(&self) -> String {
        let (scenario, seeds) = (&self.scenario, self.seeds.len());
        let (computed, kept) = (self.computed, self.kept);
        let mut text = format!(
            "{scenario}: {}, {computed} of them run now, {kept} kept\n",
            count(seeds, "seed")
        );
        if !self.partial.is_empty() {
            text += &format!(
                "partial, their budget was used up: seeds {:?}\n",
                self.partial
            );
        }
        for (part, head) in [
            (Part::Flows, "flows"),
            (Part::Transfers, "transfers"),
            (Part::Applications, "applications"),
            (Part::Queues, "queues, busiest first"),
            (Part::Backbone, "backbone"),
            (Part::Mets, "receivers of METS"),
        ] {
            let mut rows: Vec<&Figure> = self.figures.iter().collect();
            rows.retain(|row| row.part == part && row.max > 0.0);
            if part == Part::Queues {
                rows.retain(|row| row.figure == "used");
                rows.sort_by(|a, b| b.median.total_cmp(&a.median));
            }
            if rows.is_empty() {
                continue;
            }
            let mut table = Table::new(&[head, "", "median", "least", "most", "seeds"]);
            for row in rows.iter().take(ROWS) {
                let (unit, scale, places) = row.unit.shown();
                let number = |value: f64| format!("{:.places$}", value * scale);
                table.row([
                    row.of.clone(),
                    format!("{} {unit}", row.figure).trim_end().to_owned(),
                    number(row.median),
                    number(row.min),
                    number(row.max),
                    row.seeds.to_string(),
                ]);
            }
            text += &format!("\n{}", table.render());
            if rows.len() > ROWS {
                text += &format!("  and {} more: --json shows all\n", rows.len() - ROWS);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(rates: &[f64]) -> Report {
        let mut figures = Figures::default();
        for (seed, rate) in rates.iter().enumerate() {
            let flow = json!({"name": "a->b", "goodput_bps": rate, "completed": null});
            figures.add(seed as u64, &json!({"stopped": null, "flows": [flow]}));
        }
        figures.report("x".to_owned(), rates.len(), 0)
    }

    #[test]
    fn a_figure_has_its_median_and_range() {
        let odd = of(&[3e6, 1e6, 7e6]);
        let flow = &odd.figures[1];
        assert_eq!((flow.of.as_str(), flow.seeds), ("a->b", 3));
        assert_eq!((flow.median, flow.min, flow.max), (3e6, 1e6, 7e6));
        assert_eq!(of(&[3e6, 1e6, 7e6, 4e6]).figures[0].median, 3.5e6);
        assert!(
            odd.describe()
                .contains("a->b          goodput Mbit/s   3.000  1.000  7.000")
        );
    }

    #[test]
    fn what_a_run_does_not_have_is_not_counted() {
        let mut figures = Figures::default();
        let stream = json!({"sent": 200, "received": 190, "overdue": 19});
        let audio = json!({"application": "audio", "name": "audio.stream", "count": 2, "p50": null, "p90": null,
                           "stream": stream});
        figures.add(1, &json!({"stopped": null, "measurements": [audio]}));
        figures.add(2, &json!({"stopped": "event_budget", "measurements": []}));
        let report = figures.report("x".to_owned(), 0, 3);
        assert_eq!(
            (report.partial.as_slice(), report.kept),
            ([2].as_slice(), 2)
        );
        let found: Vec<_> = report
            .figures
            .iter()
            .map(|row| (row.figure.as_str(), row.median, row.seeds))
            .collect();
        let expected = [
            ("audio.stream count", 2.0, 1),
            ("audio.stream lost", 0.05, 1),
            ("audio.stream late", 0.1, 1),
        ];
        assert_eq!(found, expected);
    }
}
