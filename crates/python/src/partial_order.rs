//! Partial order connections on asyncio, and their studies: questions and options travel as JSON.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use layercast::net::{
    Fingerprint, Identity, PartialOrderError, PartialOrderQueries, PartialOrderReceiver,
    PartialOrderSender, Trust,
};
use layercast_core::Span;
use layercast_partial_order::study::{Arrivals, Setting};
use layercast_partial_order::{
    Config, FlowConfig, Order, Policy, ReceiverEvent, ReceiverOptions, Sdu, Tolerance, Tspn,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3_async_runtimes::tokio::{future_into_py, get_runtime};
use serde::Deserialize;
use tokio::sync::{Mutex, RwLock};

use crate::live::NetworkError;
use crate::{all, failed, json};

/// What can be asked.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask", deny_unknown_fields)]
enum Question {
    /// Connections over a simulated path.
    Run { settings: Vec<Setting> },
    /// Permuted arrivals of a finite order.
    Arrivals { study: Arrivals },
}

/// Answers a question about partial order connections.
#[pyfunction]
fn partial_order_json(py: Python<'_>, question: &str) -> PyResult<String> {
    let question: Question = serde_json::from_str(question).map_err(failed)?;
    py.detach(|| match question {
        Question::Run { settings } => json(&all(settings.iter().map(Setting::run))?),
        Question::Arrivals { study } => json(&study.run().map_err(failed)?),
    })
}

/// The sending end of a connection; nothing once it is closed.
#[pyclass(frozen, module = "layercast._layercast")]
struct PartialOrderOut(Arc<RwLock<Option<PartialOrderSender>>>);

/// The receiving end of a connection.
#[pyclass(frozen, module = "layercast._layercast")]
struct PartialOrderIn {
    receiver: Arc<Mutex<PartialOrderReceiver>>,
    queries: PartialOrderQueries,
    address: String,
    fingerprint: Option<String>,
}

/// How Python states an order.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum OrderForm {
    None,
    Blocks {
        counts: Vec<u32>,
        parallel: Vec<bool>,
    },
    Dag {
        counts: Vec<u32>,
        edges: Vec<[(usize, u64); 2]>,
    },
    Tspn(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowForm {
    period_ms: f64,
    tolerance: Tolerance,
    max_sdu: Option<u16>,
    grace_ms: Option<f64>,
    playout_ms: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigForm {
    flows: Vec<FlowForm>,
    order: OrderForm,
    policy: Policy,
    opportunistic: bool,
    infer: bool,
}

fn ms(value: f64) -> Span {
    Span::from_secs_f64(value / 1e3)
}

impl OrderForm {
    fn order(&self, flows: usize) -> PyResult<Order> {
        let sdu = |(flow, number): (usize, u64)| Sdu { flow, number };
        match self {
            OrderForm::None => Order::none(flows).map_err(failed),
            OrderForm::Blocks { counts, parallel } => {
                Order::blocks_with(counts, parallel).map_err(failed)
            }
            OrderForm::Dag { counts, edges } => {
                let edges: Vec<_> = edges
                    .iter()
                    .map(|&[from, to]| (sdu(from), sdu(to)))
                    .collect();
                Order::dag(counts, &edges).map_err(failed)
            }
            OrderForm::Tspn(text) => Tspn::parse(text).map_err(failed)?.order().map_err(failed),
        }
    }
}

impl ConfigForm {
    fn read(text: &str) -> PyResult<Config> {
        let form: ConfigForm = serde_json::from_str(text).map_err(failed)?;
        let order = form.order.order(form.flows.len())?;
        let flows = form.flows.iter().map(|it| {
            let mut flow = FlowConfig::new(ms(it.period_ms), it.tolerance);
            flow.max_sdu = it.max_sdu.unwrap_or(flow.max_sdu);
            flow.grace = ms(it.grace_ms.unwrap_or(0.0));
            flow.playout = it.playout_ms.map(ms);
            flow
        });
        let mut config = Config::new(0, flows.collect(), order, form.policy);
        config.opportunistic = form.opportunistic;
        config.infer = form.infer;
        Ok(config)
    }
}

fn address(text: &str) -> PyResult<SocketAddr> {
    let wrong = |_| PyValueError::new_err(format!("{text} is no address such as 127.0.0.1:7000"));
    text.parse().map_err(wrong)
}

fn fail(error: PartialOrderError) -> PyErr {
    match error {
        PartialOrderError::Config(_)
        | PartialOrderError::Submit(_)
        | PartialOrderError::NoFlow { .. } => failed(error),
        broken => NetworkError::new_err(broken.to_string()),
    }
}

/// Raises the reason why an order cannot be had, if there is one.
#[pyfunction]
fn partial_order_check(order: &str) -> PyResult<()> {
    let form: OrderForm = serde_json::from_str(order).map_err(failed)?;
    // The number of flows matters for an order without constraints only.
    form.order(1)?;
    Ok(())
}

/// The linear extensions of a finite order, in decimal; `None`: not known.
#[pyfunction]
fn partial_order_extensions(order: &str) -> PyResult<Option<String>> {
    let form: OrderForm = serde_json::from_str(order).map_err(failed)?;
    let flows = if let OrderForm::Blocks { counts, .. } = &form {
        counts.len()
    } else {
        1
    };
    let order = match (&form, form.order(flows)?) {
        (OrderForm::Blocks { counts, .. }, order) => order.restricted(counts).map_err(failed)?,
        (_, order) => order,
    };
    Ok(order.linear_extensions().map(|it| it.to_string()))
}

/// Opens a connection; over QUIC to the receiver of a fingerprint if there is one.
#[pyfunction]
fn partial_order_connect<'py>(
    py: Python<'py>,
    to: &str,
    config: &str,
    fingerprint: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let (to, config) = (address(to)?, ConfigForm::read(config)?);
    let trust: Option<Fingerprint> = fingerprint.map(str::parse).transpose().map_err(failed)?;
    future_into_py(py, async move {
        let sender = match trust {
            None => PartialOrderSender::connect(to, config).await,
            Some(trust) => {
                let identity = Identity::generate().map_err(failed)?;
                PartialOrderSender::connect_quic(to, config, &identity, &Trust::Node(trust)).await
            }
        };
        Ok(PartialOrderOut(Arc::new(RwLock::new(Some(
            sender.map_err(fail)?,
        )))))
    })
}

/// Binds a receiver to an address, of UDP or QUIC; `explain` delivered SDUs can be explained.
#[pyfunction]
fn partial_order_bind(
    py: Python<'_>,
    local: &str,
    quic: bool,
    explain: usize,
) -> PyResult<PartialOrderIn> {
    let local = address(local)?;
    let options = ReceiverOptions {
        explain,
        ..ReceiverOptions::default()
    };
    let runtime = get_runtime();
    let (receiver, fingerprint) = py.detach(|| {
        let _within = runtime.enter();
        if !quic {
            let receiver = runtime
                .block_on(PartialOrderReceiver::bind(local, options))
                .map_err(fail)?;
            return Ok::<_, PyErr>((receiver, None));
        }
        let identity = Identity::generate().map_err(failed)?;
        let receiver = PartialOrderReceiver::bind_quic(local, &identity, options).map_err(fail)?;
        Ok((receiver, Some(identity.fingerprint().to_string())))
    })?;
    Ok(PartialOrderIn {
        address: receiver.local_addr().to_string(),
        queries: receiver.queries(),
        receiver: Arc::new(Mutex::new(receiver)),
        fingerprint,
    })
}

fn closed() -> PyErr {
    failed("the connection is closed")
}

#[pymethods]
impl PartialOrderOut {
    fn send<'py>(&self, py: Python<'py>, flow: usize, sdu: Vec<u8>) -> PyResult<Bound<'py, PyAny>> {
        let sender = Arc::clone(&self.0);
        future_into_py(py, async move {
            let sender = sender.read().await;
            sender
                .as_ref()
                .ok_or_else(closed)?
                .send(flow, sdu)
                .await
                .map_err(fail)
        })
    }

    fn pause<'py>(
        &self,
        py: Python<'py>,
        flow: usize,
        pauses: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let sender = Arc::clone(&self.0);
        future_into_py(py, async move {
            let sender = sender.read().await;
            let sender = sender.as_ref().ok_or_else(closed)?;
            let done = if pauses {
                sender.pause(flow).await
            } else {
                sender.resume(flow).await
            };
            done.map_err(fail)
        })
    }

    /// The counters of a flow, as JSON.
    fn stats<'py>(&self, py: Python<'py>, flow: usize) -> PyResult<Bound<'py, PyAny>> {
        let sender = Arc::clone(&self.0);
        future_into_py(py, async move {
            let sender = sender.read().await;
            json(
                &sender
                    .as_ref()
                    .ok_or_else(closed)?
                    .stats(flow)
                    .await
                    .map_err(fail)?,
            )
        })
    }

    /// Counts datagrams that changed nothing, as JSON.
    fn ignored<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let sender = Arc::clone(&self.0);
        future_into_py(py, async move {
            let sender = sender.read().await;
            let sender = sender.as_ref().ok_or_else(closed)?;
            json(&sender.ignored().await.map_err(fail)?)
        })
    }

    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let sender = Arc::clone(&self.0);
        future_into_py(py, async move {
            // Not in the expression of the match: it would keep the lock, and `stats` would wait for the end.
            let taken = sender.write().await.take();
            match taken {
                Some(sender) => sender.close().await.map_err(fail),
                None => Ok(()),
            }
        })
    }
}

#[pymethods]
impl PartialOrderIn {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn fingerprint(&self) -> Option<String> {
        self.fingerprint.clone()
    }

    /// Name, fields as JSON, payload; `None` at the end.
    fn recv<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let receiver = Arc::clone(&self.receiver);
        future_into_py(py, async move {
            let event = receiver.lock().await.recv().await;
            Ok(event.map(|event| {
                let mut payload = None;
                let (name, fields) = match event {
                    ReceiverEvent::Opened { flows } => ("opened", serde_json::json!({ "flows": flows })),
                    ReceiverEvent::Deliver { flow, number, payload: sdu, waited, .. } => {
                        payload = Some(Cow::<[u8]>::Owned(sdu.to_vec()));
                        ("deliver", serde_json::json!({ "flow": flow, "number": number, "waited_s": waited.as_secs_f64() }))
                    }
                    ReceiverEvent::Lost { flow, numbers, cause } => {
                        ("lost", serde_json::json!({ "flow": flow, "numbers": numbers, "cause": cause }))
                    }
                    ReceiverEvent::Late { flow, number } => ("late", serde_json::json!({ "flow": flow, "number": number })),
                    ReceiverEvent::QosViolated { flow } => ("qos_violated", serde_json::json!({ "flow": flow })),
                    ReceiverEvent::Stalled { flow, number, waiting_for } => {
                        ("stalled", serde_json::json!({ "flow": flow, "number": number, "waiting_for": waiting_for }))
                    }
                    ReceiverEvent::Closed => ("closed", serde_json::json!({})),
                    ReceiverEvent::PeerDead => ("peer_dead", serde_json::json!({})),
                };
                (name, fields.to_string(), payload)
            }))
        })
    }

    /// The counters of a flow, as JSON.
    fn stats<'py>(&self, py: Python<'py>, flow: usize) -> PyResult<Bound<'py, PyAny>> {
        let queries = self.queries.clone();
        future_into_py(py, async move {
            json(&queries.stats(flow).await.map_err(fail)?)
        })
    }

    /// Counts datagrams that changed nothing, as JSON.
    fn ignored<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let queries = self.queries.clone();
        future_into_py(
            py,
            async move { json(&queries.ignored().await.map_err(fail)?) },
        )
    }

    /// What held an SDU, as JSON.
    fn explain<'py>(
        &self,
        py: Python<'py>,
        flow: usize,
        number: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let queries = self.queries.clone();
        future_into_py(py, async move {
            json(&queries.explain(flow, number).await.map_err(fail)?)
        })
    }

    /// The last delivered SDUs with what held them, as JSON.
    fn timeline<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let queries = self.queries.clone();
        future_into_py(
            py,
            async move { json(&queries.timeline().await.map_err(fail)?) },
        )
    }

    fn renegotiate<'py>(
        &self,
        py: Python<'py>,
        flow: usize,
        tolerance: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let queries = self.queries.clone();
        let tolerance: Tolerance = serde_json::from_str(tolerance).map_err(failed)?;
        future_into_py(py, async move {
            queries.renegotiate(flow, tolerance).await.map_err(fail)
        })
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(partial_order_json, module)?)?;
    module.add_function(wrap_pyfunction!(partial_order_connect, module)?)?;
    module.add_function(wrap_pyfunction!(partial_order_bind, module)?)?;
    module.add_function(wrap_pyfunction!(partial_order_check, module)?)?;
    module.add_function(wrap_pyfunction!(partial_order_extensions, module)?)
}
