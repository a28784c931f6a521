//! Requests of applications: the request, its target, and its time.

use layercast_core::{FlowSpec, QosOption, Time};
use serde_json::Value;

use super::error::ScenarioError;
use super::network::{Asked, Flow, Receiver, Request};
use super::resolve::flow_named;
use super::schema::Scenario;

impl Scenario {
    /// The requests in the order of time. The specification in a `flow_spec` option is given in part:
    /// what is not said stays as the flow has it.
    pub(super) fn resolve_requests(
        &self,
        flows: &[Flow],
        receivers: &[Receiver],
    ) -> Result<Vec<Request>, ScenarioError> {
        let mut entries: Vec<(usize, _)> = self.requests.iter().enumerate().collect();
        entries.sort_by_key(|(_, entry)| entry.at);
        let mut specs: Vec<FlowSpec> = flows
            .iter()
            .map(|flow| flow.config.flow.spec.clone())
            .collect();
        let requests = entries.into_iter().map(|(i, entry)| {
            let field = |name: &str| format!("request[{i}].{name}");
            let (of, flow) = match (&entry.flow, &entry.receiver) {
                (Some(name), None) => {
                    let flow = flow_named(&field("flow"), name, flows)?;
                    (Asked::Source(flow), flow)
                }
                (None, Some(name)) => {
                    let place = receivers.iter().position(|it| it.name == *name);
                    let place = place.ok_or_else(|| ScenarioError::Unknown {
                        field: field("receiver"),
                        what: "receiver",
                        name: name.clone(),
                        known: receivers.iter().map(|it| it.name.clone()).collect(),
                    })?;
                    (Asked::Sink(place), receivers[place].flow)
                }
                _ => {
                    let accepted = "either flow = \"..\" or receiver = \"..\"";
                    return Err(ScenarioError::value(
                        format!("request[{i}]"),
                        "both or none",
                        accepted,
                    ));
                }
            };
            let option = option(&entry.option, &specs[flow])
                .map_err(|error| ScenarioError::value(field("option"), &entry.option, error))?;
            if let (Asked::Source(_), QosOption::FlowSpec(spec)) = (of, &option) {
                specs[flow] = spec.clone();
            }
            Ok(Request {
                at: Time::ZERO + entry.at,
                of,
                option,
            })
        });
        requests.collect()
    }
}

/// The option as written, its flow specification completed from `spec`.
fn option(written: &Value, spec: &FlowSpec) -> Result<QosOption, String> {
    let mut written = written.clone();
    if let Some(part) = written.get_mut("flow_spec") {
        let mut whole = serde_json::to_value(spec).map_err(|error| error.to_string())?;
        merge(&mut whole, part);
        *part = whole;
    }
    serde_json::from_value(written).map_err(|error| error.to_string())
}

fn merge(whole: &mut Value, part: &Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (key, value) in part {
                merge(whole.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (whole, part) => *whole = part.clone(),
    }
}
