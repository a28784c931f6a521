//! `summary.json`, and the table that ends a demo.

use layercast_sim::SimSummary;
use layercast_sim::scenario::{ClipSpec, Network, Scenario};
use serde_json::{Value, json};

use super::live::Run;
use super::plan::{Plan, Role, timeline};
use super::verdict::{Promise, level_sequence};
use crate::failure::Failure;
use crate::output::Table;
use crate::probe;

/// Everything a summary is built from.
pub struct Parts<'a> {
    /// The scenario as it was run.
    pub scenario: &'a Scenario,
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
    pub topology: Value,
}

impl Parts<'_> {
    /// The content of `summary.json` (docs/src/reference/json.md).
    pub fn build(&self) -> Result<Value, Failure> {
        let clip = self
            .scenario
            .flows
            .iter()
            .find_map(|flow| match &flow.clip {
                ClipSpec::File(path) => Some(self.scenario.base_dir.join(path)),
                _ => None,
            });
        let clip = clip.map(|path| probe::read_clip(&path, None)).transpose()?;
        let mut events = timeline(self.scenario);
        events.extend(self.run.surprises.iter().cloned());
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        let events: Vec<Value> = events
            .into_iter()
            .map(|(t_s, text)| json!({"t_s": t_s, "text": text}))
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
        let switches: Vec<Value> = of_nodes("switch")
            .into_iter()
            .zip(of_nodes("udp"))
            .map(|((node, stats), (_, udp))| json!({"node": node, "stats": stats, "udp": udp}))
            .collect();
        let timers: serde_json::Map<String, Value> = of_nodes("timers").into_iter().collect();
        Ok(json!({
            "scenario": self.scenario.name,
            "seed": self.scenario.seed,
            "duration_s": self.scenario.duration.as_secs_f64(),
            "interrupted": self.run.interrupted.is_some(),
            "clip": clip.map(|clip| clip.summary()),
            "promise": self.promise,
            "receivers": self.receivers,
            "simulated": self.simulated,
            "switches": switches,
            "events": events,
            "topology": self.topology,
            "timers": timers,
        }))
    }
}

/// Nodes and links as `summary.json` and the report name them.
pub fn topology(network: &Network) -> Value {
    let nodes: Vec<Value> = network
        .nodes
        .iter()
        .map(|node| json!({"name": node.name, "kind": node.kind}))
        .collect();
    let links: Vec<Value> = network
        .links
        .iter()
        .map(|link| {
            let [a, b] = link.ends.map(|end| &network.nodes[end]);
            let port = a.ports.iter().find(|port| port.id == link.ports[0]);
            let rate = port.and_then(|port| port.config.rate);
            json!({
                "a": a.name,
                "b": b.name,
                "rate_bps": rate,
                "delay_ms": port.map(|port| port.out.delay.as_ms_f64()),
            })
        })
        .collect();
    json!({"nodes": nodes, "links": links})
}

/// The receivers of all flows of a simulation.
pub fn receivers_of(summary: &SimSummary) -> Result<Vec<Value>, Failure> {
    let mut receivers = Vec::new();
    for flow in &summary.flows {
        for receiver in &flow.receivers {
            let mut value = serde_json::to_value(receiver).map_err(Failure::new)?;
            value["flow"] = flow.name.as_str().into();
            receivers.push(value);
        }
    }
    Ok(receivers)
}

/// Sockets and simulator, receiver by receiver, up to `end`.
pub fn table(receivers: &[Value], simulated: &[Value], end: f64) -> String {
    let mut table = Table::new(&[
        "receiver",
        "levels",
        "simulated",
        "BL/E1/E2 lost",
        "late",
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
