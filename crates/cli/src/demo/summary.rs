//! `summary.json`, and the table that ends a demo.

use std::collections::BTreeMap;

use layercast_core::{Composition, Rate};
use layercast_media::Summary as ClipSummary;
use layercast_mets::ReceiverSummary;
use layercast_sim::SimSummary;
use layercast_sim::scenario::{Network, NodeKind, Scenario};
use serde::Serialize;
use serde_json::{Value, to_value};

use super::film::Film;
use super::live::Run;
use super::moments::Moment;
use super::plan::{Plan, Role, timeline};
use super::verdict::{Promise, level_sequence};
use crate::failure::Failure;
use crate::output::Table;

/// Everything a summary is built from.
pub struct Parts<'a> {
    /// The scenario as it was run.
    pub scenario: &'a Scenario,
    /// The films of its flows.
    pub films: &'a [Film],
    /// Why there are no pictures of what receivers saw.
    pub no_pictures: Option<&'a str>,
    /// The processes.
    pub plan: &'a Plan,
    /// What they reported.
    pub run: &'a Run,
    /// What receivers measured, ffmpeg's verdict included.
    pub receivers: &'a [Value],
    /// What the simulator computed for them.
    pub simulated: &'a [Value],
    /// The promise and whether it was kept.
    pub promise: &'a Promise,
    /// Nodes and links.
    pub topology: Topology,
}

/// The content of `summary.json`.
#[derive(Serialize)]
struct DemoSummary<'a> {
    /// Name of the scenario.
    scenario: &'a str,
    /// Seed of the run.
    seed: u64,
    /// Duration of the scenario.
    duration_s: f64,
    /// Whether Ctrl-C ended the run.
    interrupted: bool,
    /// The flows with a video.
    flows: Vec<DemoFlow<'a>>,
    /// Why `moments` of receivers are missing; null if they are there.
    no_pictures: Option<&'a str>,
    /// The promise of the demo.
    promise: &'a Promise,
    /// Receivers on sockets.
    // JSON: Vec<DemoReceiver>
    receivers: &'a [Value],
    /// The same receivers in the simulator.
    // JSON: Vec<SimulatedReceiver>
    simulated: &'a [Value],
    /// The switches.
    switches: Vec<SwitchReport>,
    /// Events of the scenario, and unexpected events of the run.
    events: Vec<TimedEvent>,
    /// Nodes and links.
    topology: &'a Topology,
    /// Lateness of the timers of each node but the receivers.
    // JSON: BTreeMap<String, Lateness>
    timers: BTreeMap<String, Value>,
}

/// A flow with a video.
#[derive(Serialize)]
struct DemoFlow<'a> {
    /// Name of the flow.
    name: &'a str,
    /// What its layers are to each other.
    composition: Composition,
    /// The clip, as `layercast probe` describes it.
    clip: &'a ClipSummary,
}

/// A receiver on sockets, with the result of decoding its stream.
#[derive(Serialize)]
pub struct DemoReceiver<'a> {
    /// What `layercast join` reported.
    // JSON: ReceiverSummary
    #[serde(flatten)]
    pub received: Value,
    /// Name of the flow.
    pub flow: &'a str,
    /// Number of the first picture of the stream.
    pub first_picture: Option<u64>,
    /// Name of the node.
    pub node: &'a str,
    /// The stream.
    pub file: String,
    /// Mean PSNR in dB, frozen pictures included and renditions scaled to the size of the best one; 100 for equal
    /// pictures. Null without ffmpeg, and for elementary streams that are not MPEG-1 or MPEG-2.
    pub psnr_db: Option<f64>,
    /// Mean SSIM, frozen pictures included and renditions scaled to the size of the best one. Null without ffmpeg, and for
    /// elementary streams that are not MPEG-1 or MPEG-2.
    pub ssim: Option<f64>,
    /// Pictures that the decoder returned.
    pub decoded_pictures: u64,
    /// Pictures of the film that were shown, from the first to the last. Null as `ssim`.
    pub shown: Option<u64>,
    /// Pictures of the film that were not shown: the one before them stood still. Null as `ssim`.
    pub frozen: Option<u64>,
    /// What it saw at three moments of the film; null at one at which it was not there.
    pub moments: &'a [Option<Moment>],
    /// Messages of the decoder.
    pub complaints: &'a [String],
}

/// A receiver in the simulator.
#[derive(Serialize)]
struct SimulatedReceiver<'a> {
    /// What it received.
    #[serde(flatten)]
    received: &'a ReceiverSummary,
    /// Name of the flow.
    flow: &'a str,
}

/// The counters of a switch.
#[derive(Serialize)]
struct SwitchReport {
    /// Name of the switch.
    node: String,
    /// Counters of the switch.
    // JSON: SwitchStats
    stats: Value,
    /// Counters of its socket.
    // JSON: UdpStats
    udp: Value,
}

/// An event of a run.
#[derive(Serialize)]
struct TimedEvent {
    /// Seconds since the start.
    t_s: f64,
    /// The event.
    text: String,
}

/// Nodes and links as `summary.json` and the report name them.
#[derive(Serialize)]
pub struct Topology {
    /// The nodes.
    nodes: Vec<TopologyNode>,
    /// The links.
    links: Vec<TopologyLink>,
}

/// A node.
#[derive(Serialize)]
struct TopologyNode {
    /// Its name.
    name: String,
    /// Switch or host.
    kind: NodeKind,
}

/// A link.
#[derive(Serialize)]
struct TopologyLink {
    /// Name of the first node.
    a: String,
    /// Name of the second node.
    b: String,
    /// Rate of the port of the first node; null if it is not limited.
    rate_bps: Option<Rate>,
    /// Delay from the first to the second node.
    delay_ms: Option<f64>,
}

impl Parts<'_> {
    /// The content of `summary.json` (docs/src/reference/json.md).
    pub fn build(&self) -> Result<Value, Failure> {
        let flows = self.films.iter().map(|film| DemoFlow {
            name: &film.flow,
            composition: film.composition,
            clip: &film.summary,
        });
        let mut events = timeline(self.scenario);
        events.extend(self.run.surprises.iter().cloned());
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        let events = events
            .into_iter()
            .map(|(t_s, text)| TimedEvent { t_s, text })
            .collect();
        let of_nodes = |key: &str| -> Vec<(String, Value)> {
            let processes = self.plan.processes.iter().zip(&self.run.summaries);
            processes
                .filter(|(process, _)| !matches!(process.role, Role::Join(_)))
                .filter_map(|(process, summary)| {
                    let value = summary.as_ref()?.get(key)?.clone();
                    Some((process.name.clone(), value))
                })
                .collect()
        };
        let switches = of_nodes("switch")
            .into_iter()
            .zip(of_nodes("udp"))
            .map(|((node, stats), (_, udp))| SwitchReport { node, stats, udp })
            .collect();
        let summary = DemoSummary {
            scenario: &self.scenario.name,
            seed: self.scenario.seed,
            duration_s: self.scenario.duration.as_secs_f64(),
            interrupted: self.run.interrupted.is_some(),
            flows: flows.collect(),
            no_pictures: self.no_pictures,
            promise: self.promise,
            receivers: self.receivers,
            simulated: self.simulated,
            switches,
            events,
            topology: &self.topology,
            timers: of_nodes("timers").into_iter().collect(),
        };
        to_value(summary).map_err(Failure::new)
    }
}

/// Nodes and links of a network.
pub fn topology(network: &Network) -> Topology {
    let nodes = network.nodes.iter().map(|node| TopologyNode {
        name: node.name.clone(),
        kind: node.kind,
    });
    let links = network.links.iter().map(|link| {
        let [a, b] = link.ends.map(|end| &network.nodes[end]);
        let port = a.ports.iter().find(|port| port.id == link.ports[0]);
        TopologyLink {
            a: a.name.clone(),
            b: b.name.clone(),
            rate_bps: port.and_then(|port| port.config.rate),
            delay_ms: port.map(|port| port.out.delay.as_ms_f64()),
        }
    });
    Topology {
        nodes: nodes.collect(),
        links: links.collect(),
    }
}

/// The receivers of all flows of a simulation.
pub fn receivers_of(summary: &SimSummary) -> Result<Vec<Value>, Failure> {
    let mut receivers = Vec::new();
    for flow in &summary.flows {
        for receiver in &flow.receivers {
            let simulated = SimulatedReceiver {
                received: receiver,
                flow: &flow.name,
            };
            receivers.push(to_value(simulated).map_err(Failure::new)?);
        }
    }
    Ok(receivers)
}

/// The level that `receiver` received of the picture of a film that was sent `time` seconds after the start of the
/// scenario: its times are those of the play-out.
pub fn received_at(receiver: &Value, time: f64) -> u8 {
    let series = receiver["series"].as_array().map_or(&[][..], Vec::as_slice);
    let second = series
        .iter()
        .rfind(|sample| sample["t"].as_f64() <= Some(time.max(0.0)));
    let playout = second
        .and_then(|sample| sample["playout_ms"].as_f64())
        .unwrap_or(0.0);
    let played = time + playout / 1e3;
    let steps = receiver["received"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let step = steps.iter().rfind(|step| step[0].as_f64() <= Some(played));
    let level = step.or(steps.first()).and_then(|step| step[1].as_u64());
    level
        .and_then(|level| u8::try_from(level).ok())
        .unwrap_or(0)
}

/// Sockets and simulator, receiver by receiver, up to `end`.
pub fn table(receivers: &[Value], simulated: &[Value], end: f64) -> String {
    let mut table = Table::new(&[
        "receiver",
        "levels",
        "simulated",
        "BL/E1/E2 lost",
        "late",
        "frozen",
        "delay p50",
        "p99 ms",
        "PSNR dB",
        "SSIM",
        "ffmpeg",
    ]);
    let levels = |receiver: &Value| -> String {
        let levels = level_sequence(receiver, end);
        let levels: Vec<String> = levels.iter().map(u64::to_string).collect();
        levels.join(",")
    };
    let figure = |value: &Value, digits: usize| match value.as_f64() {
        Some(figure) => format!("{figure:.digits$}"),
        None => "-".to_owned(),
    };
    let frozen = |receiver: &Value| match (receiver["shown"].as_u64(), receiver["frozen"].as_u64())
    {
        (Some(shown), Some(frozen)) if shown + frozen > 0 => {
            format!("{} %", frozen * 100 / (shown + frozen))
        }
        _ => "-".to_owned(),
    };
    for receiver in receivers {
        let simulated = simulated
            .iter()
            .find(|other| other["name"] == receiver["name"]);
        let lost = &receiver["lost"];
        let complaints = receiver["complaints"].as_array().map_or(0, Vec::len);
        table.row([
            receiver["name"].as_str().unwrap_or_default().to_owned(),
            levels(receiver),
            simulated.map(levels).unwrap_or_default(),
            format!("{}/{}/{}", lost["BL"], lost["E1"], lost["E2"]),
            receiver["late"].to_string(),
            frozen(receiver),
            figure(&receiver["delay_ms"]["p50"], 1),
            figure(&receiver["delay_ms"]["p99"], 1),
            figure(&receiver["psnr_db"], 2),
            figure(&receiver["ssim"], 4),
            if complaints == 0 && receiver["decoded_pictures"] == 0 {
                "-".to_owned()
            } else if complaints == 0 {
                "clean".to_owned()
            } else {
                format!("{complaints} complaints")
            },
        ]);
    }
    let complaints = receivers.iter().flat_map(|receiver| {
        let name = receiver["name"].as_str().unwrap_or_default();
        let lines = receiver["complaints"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        lines
            .iter()
            .take(3)
            .map(move |line| format!("  {name}: ffmpeg: {}\n", line.as_str().unwrap_or_default()))
    });
    table.render() + &complaints.collect::<String>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_level_of_a_picture_is_that_of_the_time_at_which_it_is_played() {
        let series = json!([{"t": 0.0, "playout_ms": null}, {"t": 2.0, "playout_ms": 500.0}, {"t": 3.0, "playout_ms": 500.0}]);
        let receiver = json!({"received": [[2.5, 2], [3.2, 0]], "series": series});
        for (time, level) in [(0.0, 2), (2.1, 2), (2.6, 2), (2.8, 0), (9.0, 0)] {
            assert_eq!(received_at(&receiver, time), level, "{time}");
        }
        assert_eq!(received_at(&json!({}), 1.0), 0);
    }
}
