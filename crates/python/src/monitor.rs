//! The QoS monitor: events in, signals and reports out; scenarios with a monitor at each node; questions travel as JSON.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use layercast_core::{Mediation, Observer, Off, QosEvent, Record, Span, Subject, Time};
use layercast_monitor::study::{HostSetting, LineSetting};
use layercast_monitor::{
    Comparison, ConnectionReport, Contract, Direction, Monitor, MonitorConfig, Signal, Watching,
};
use layercast_profile::{Mapping, Profile, Unit};
use layercast_sim::internet::scenario as internetwork;
use layercast_sim::internet::{Internet, Measurements, Summary};
use layercast_sim::scenario::Scenario;
use layercast_sim::{Outputs, Simulation};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{all, failed, json as text};

/// What can be asked.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask", deny_unknown_fields)]
enum Question {
    /// Request lines under load.
    Line { settings: Vec<LineSetting> },
    /// Transfers of a host whose one processor also runs the monitor.
    Host { settings: Vec<HostSetting> },
    /// A monitor with events.
    Events {
        #[serde(default)]
        config: Config,
        events: Vec<EventForm>,
        /// The contract of connection 1, outbound, from the first event on.
        #[serde(default, deserialize_with = "known")]
        contract: Contract,
        /// Instants at which connection 1 is looked at.
        at_ns: Vec<u64>,
    },
    /// A scenario of an internetwork or of METS, as JSON, with and without monitors.
    Watch {
        scenario: Value,
        seed: u64,
        #[serde(default)]
        config: Config,
        #[serde(default, deserialize_with = "known")]
        contract: Contract,
    },
    /// A scenario of METS, as JSON, whose flows offer what a profile says, and whose receivers want what theirs say: names or texts of
    /// profiles.
    SetUp {
        scenario: Value,
        offer: Option<String>,
        #[serde(default)]
        wishes: BTreeMap<String, String>,
    },
    /// Rates at the three levels of streams.
    Map { streams: Vec<Stream> },
}

/// A contract of nothing but what there is: on the wire what is not known is skipped, here it is a slip of the pen.
fn known<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Contract, D::Error> {
    let told = Value::deserialize(from)?;
    let contract = Contract::deserialize(&told).map_err(serde::de::Error::custom)?;
    let kept = serde_json::to_value(contract).map_err(serde::de::Error::custom)?;
    match stranger(&told, &kept) {
        Some(key) => Err(serde::de::Error::custom(format!("a contract has no {key}"))),
        None => Ok(contract),
    }
}

/// A key of `told` that `kept` has not.
fn stranger<'a>(told: &'a Value, kept: &Value) -> Option<&'a str> {
    let told = told.as_object()?;
    told.iter().find_map(|(key, value)| match kept.get(key) {
        Some(kept) => stranger(value, kept),
        None => Some(&**key),
    })
}

/// What is different from the default.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Config {
    windows_ms: Option<[u64; 3]>,
    compare_ms: Option<u64>,
    literal: bool,
    rule: Option<(usize, usize)>,
    report_ms: Option<u64>,
}

impl Config {
    fn monitor(&self) -> MonitorConfig {
        let default = MonitorConfig::default();
        MonitorConfig {
            windows: self
                .windows_ms
                .map_or(default.windows, |it| it.map(Span::from_ms)),
            compare: self.compare_ms.map_or(default.compare, Span::from_ms),
            comparison: match self.literal {
                true => Comparison::Literal,
                false => Comparison::Adverse,
            },
            rule: self.rule.unwrap_or(default.rule),
            report: self.report_ms.map(Span::from_ms),
            ..default
        }
    }
}

/// An event; what is absent is 0, and the connection is 1.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EventForm {
    conn: u64,
    action: u8,
    info_type: u8,
    dir: u8,
    flags: u8,
    aux: u32,
    t_ns: u64,
    a: u64,
    b: u64,
}

impl Default for EventForm {
    fn default() -> EventForm {
        EventForm {
            conn: 1,
            action: 0,
            info_type: 0,
            dir: QosEvent::OUT,
            flags: 0,
            aux: 0,
            t_ns: 0,
            a: 0,
            b: 0,
        }
    }
}

impl EventForm {
    fn event(&self) -> QosEvent {
        let EventForm {
            conn,
            action,
            info_type,
            dir,
            flags,
            aux,
            t_ns,
            a,
            b,
        } = *self;
        QosEvent {
            conn,
            action,
            info_type,
            dir,
            flags,
            aux,
            t_ns,
            a,
            b,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stream {
    per_second: u64,
    user: u64,
    factor: String,
    payload: u64,
    size: u64,
    padded: bool,
}

#[derive(Serialize)]
struct Found {
    signals: Vec<Signal>,
    reports: Vec<ConnectionReport>,
}

/// The monitor and its signals and reports so far.
struct Run {
    monitor: Monitor,
    found: Found,
}

impl Run {
    /// Lets time pass up to `ns`, exclusively.
    fn advance(&mut self, ns: u64) {
        let now = Time::ZERO + Span::from_ns(ns);
        while let Some(at) = self.monitor.next_timeout().filter(|at| *at < now) {
            self.monitor.on_timeout(at);
            self.found
                .signals
                .extend(std::iter::from_fn(|| self.monitor.poll_signal()));
        }
    }
}

fn events(
    config: &Config,
    events: &[EventForm],
    contract: Contract,
    at_ns: &[u64],
) -> PyResult<String> {
    let monitor = Monitor::new(config.monitor()).map_err(failed)?;
    let found = Found {
        signals: Vec::new(),
        reports: Vec::new(),
    };
    let mut run = Run { monitor, found };
    let mut looks = at_ns.iter().copied().peekable();
    let mut first = true;
    let look = |run: &mut Run, ns: u64| {
        run.advance(ns);
        let now = Time::ZERO + Span::from_ns(ns);
        run.found.reports.extend(run.monitor.snapshot(now, 1));
    };
    for event in events.iter().map(EventForm::event) {
        while let Some(ns) = looks.next_if(|ns| *ns < event.t_ns) {
            look(&mut run, ns);
        }
        run.advance(event.t_ns);
        let now = Time::ZERO + Span::from_ns(event.t_ns);
        run.monitor.handle_event(now, &event);
        if std::mem::take(&mut first) {
            let set = run.monitor.set_contract(now, 1, Direction::Out, contract);
            set.map_err(failed)?;
        }
    }
    for ns in looks {
        look(&mut run, ns);
    }
    text(&run.found)
}

/// An observer that is asked after the run.
#[derive(Clone)]
struct Shared(Arc<Mutex<Option<Watching>>>);

impl Observer for Shared {
    fn record(&mut self, _: &Record<'_>) {}

    fn enabled(&self) -> bool {
        false
    }

    fn measure(&mut self, subject: Subject<'_>, event: &QosEvent) {
        let mut watching = self.0.lock().unwrap_or_else(|it| it.into_inner());
        if let Some(watching) = watching.as_mut() {
            watching.measure(subject, event);
        }
    }

    fn measures(&self) -> bool {
        true
    }
}

/// The outcome of a run with monitors, whether it is that without them, and what the monitors say by node.
fn watch(scenario: &Value, seed: u64, config: &Config, contract: Contract) -> PyResult<String> {
    let watching = Watching::new(config.monitor(), contract).map_err(failed)?;
    let shared = Shared(Arc::new(Mutex::new(Some(watching))));
    let form = scenario.to_string();
    let is_internet = scenario.get("schema").is_some();
    let (summary, same, end) = match is_internet {
        true => {
            let mut scenario =
                internetwork::Scenario::from_json(&form, Path::new(".")).map_err(failed)?;
            scenario.run.seed = seed;
            let network = scenario.resolve().map_err(failed)?;
            let run = |observer: Option<Shared>| -> PyResult<Value> {
                let mut measurements = Measurements::new(&network);
                let mut internet = Internet::new(&network).map_err(failed)?;
                if let Some(observer) = observer {
                    internet.observe(observer);
                }
                let report = internet.run(&mut measurements);
                let summary = Summary {
                    scenario: scenario.name.clone(),
                    seed,
                    wall_seconds: 0.0,
                    report,
                    measurements: measurements.finish(),
                };
                serde_json::to_value(summary).map_err(failed)
            };
            let (with, without) = (run(Some(shared.clone()))?, run(None)?);
            let same = with == without;
            (with, same, Time::ZERO + network.duration)
        }
        false => {
            let mut scenario = Scenario::from_json(&form, Path::new(".")).map_err(failed)?;
            scenario.seed = seed;
            let run = |observer: &mut (dyn Observer + Send)| -> PyResult<(Value, Time)> {
                let network = scenario.validate().map_err(failed)?;
                let end = Time::ZERO + network.duration;
                let simulation = Simulation::new(network);
                let summary =
                    simulation.run(observer, Outputs::default(), |_| ControlFlow::Continue(()))?;
                let mut summary = serde_json::to_value(&summary).map_err(failed)?;
                summary["wall_seconds"] = 0.into();
                Ok((summary, end))
            };
            let ((with, end), (without, _)) = (run(&mut shared.clone())?, run(&mut Off)?);
            let same = with == without;
            (with, same, end)
        }
    };
    let watching = shared.0.lock().unwrap_or_else(|it| it.into_inner()).take();
    let nodes = watching.map(|it| it.finish(end)).unwrap_or_default();
    let nodes = nodes.into_iter().map(|(name, it)| {
        let found = Found {
            signals: it.signals,
            reports: it.reports,
        };
        (name, json!(found))
    });
    let nodes: serde_json::Map<String, Value> = nodes.collect();
    text(&json!({ "summary": summary, "same": same, "nodes": nodes }))
}

/// Answers a question about the QoS monitor.
#[pyfunction]
fn monitor_json(py: Python<'_>, question: &str) -> PyResult<String> {
    let question: Question = serde_json::from_str(question).map_err(failed)?;
    py.detach(|| match question {
        Question::Line { settings } => text(&all(settings.iter().map(LineSetting::run))?),
        Question::Host { settings } => text(&all(settings.iter().map(HostSetting::run))?),
        Question::Events {
            config,
            events: given,
            contract,
            at_ns,
        } => events(&config, &given, contract, &at_ns),
        Question::Watch {
            scenario,
            seed,
            config,
            contract,
        } => watch(&scenario, seed, &config, contract),
        Question::SetUp {
            scenario,
            offer,
            wishes,
        } => set_up(&scenario, offer.as_deref(), &wishes),
        Question::Map { streams } => {
            let mapped = streams.into_iter().map(|it| {
                let factor = it.factor.parse().map_err(failed)?;
                let unit = Unit {
                    payload: it.payload,
                    size: it.size,
                    padded: it.padded,
                };
                let mapping = Mapping {
                    per_second: it.per_second,
                    user: it.user,
                    factor,
                    unit,
                };
                let mapped = mapping.map().map_err(failed)?;
                let mut value = serde_json::to_value(mapped).map_err(failed)?;
                value["ordered"] = mapped.is_ordered().into();
                Ok(value)
            });
            text(&mapped.collect::<PyResult<Vec<Value>>>()?)
        }
    })
}

/// The contract of a profile: one of the program, or its text.
fn wanted(profile: &str) -> PyResult<Contract> {
    let known = Profile::preset(profile);
    let profile = known.map_or_else(|| Profile::from_toml(profile), Ok);
    profile.and_then(|it| it.contract()).map_err(failed)
}

/// Runs a scenario in which contracts are negotiated; gives its summary.
fn set_up(
    scenario: &Value,
    offer: Option<&str>,
    wishes: &BTreeMap<String, String>,
) -> PyResult<String> {
    let scenario = Scenario::from_json(&scenario.to_string(), Path::new(".")).map_err(failed)?;
    let mut network = scenario.validate().map_err(failed)?;
    if let Some(contract) = offer.map(wanted).transpose()? {
        for flow in &mut network.flows {
            flow.config.flow.contract = Some(contract);
            flow.config.flow.mediation = Some(Mediation::PerMember);
        }
    }
    for receiver in &mut network.receivers {
        let wish = wishes
            .get(&receiver.name)
            .map(|it| wanted(it))
            .transpose()?;
        receiver.config.wishes = wish;
    }
    let simulation = Simulation::new(network);
    let summary = simulation.run(&mut Off, Outputs::default(), |_| ControlFlow::Continue(()))?;
    text(&summary)
}

/// Adds what this file defines to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(monitor_json, module)?)
}
