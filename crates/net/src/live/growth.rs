//! What becomes of a live stream that takes more than is reserved for its flow.

use layercast_core::{FlowSpec, QosOption, Resource, Status};
use layercast_media::{LiveLoad, LoadReport};
use tokio::sync::{mpsc, oneshot, watch};

use crate::command::NodeCommand;

/// The flow as which a live stream is served: the node to ask for more when the stream outgrows it.
#[derive(Clone, Debug)]
pub struct LiveFlow {
    /// Its name.
    pub name: String,
    /// Leads to the node where it starts.
    pub node: mpsc::Sender<NodeCommand>,
    /// The share of its full rate at which the encoder is to send; `None`: it sends as it likes.
    pub share: Option<watch::Receiver<f64>>,
}

/// How a stream that outgrows its flow gets more.
#[derive(Debug)]
pub struct Growth {
    flow: LiveFlow,
    headroom_percent: u32,
    /// What was asked for, and not answered yet.
    asked: Option<oneshot::Receiver<Result<FlowSpec, Status>>>,
}

impl Growth {
    /// Asks for `flow`, with `headroom_percent` more than measured where that fits.
    pub fn new(flow: LiveFlow, headroom_percent: u32) -> Growth {
        Growth {
            flow,
            headroom_percent,
            asked: None,
        }
    }

    /// Whether an answer is pending.
    pub fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// Requests the present rates of the stream from all nodes on the path, unless an answer is pending. `change` makes
    /// them from what the flow is now and a headroom in per cent. Must be called within a runtime.
    pub fn ask(&mut self, change: impl Fn(&FlowSpec, u32) -> FlowSpec + Send + Sync + 'static) {
        if self.is_asking() {
            return;
        }
        let (reply, answer) = oneshot::channel();
        let (flow, headroom) = (self.flow.clone(), self.headroom_percent);
        self.asked = Some(answer);
        tokio::spawn(async move {
            let mut answer = flow.renegotiate(|spec| change(spec, headroom)).await;
            let is_full =
                matches!(&answer, Err(Status::Admit(it)) if it.resource == Resource::Link);
            if is_full && headroom > 0 {
                // What the stream takes as measured may still fit.
                answer = flow.renegotiate(|spec| change(spec, 0)).await;
            }
            // The flow may have stopped meanwhile and needs no answer.
            let _ = reply.send(answer);
        });
    }

    /// Requests what the stream needs by what its load reported. Must be called within a runtime.
    pub fn follow(&mut self, report: LoadReport, load: &LiveLoad) {
        let load = load.clone();
        self.ask(move |spec, headroom| match report {
            LoadReport::Above(_) => load.grown(spec, headroom),
            LoadReport::Below => load.settled(spec, headroom),
        });
    }

    /// The answer, once.
    pub fn answer(&mut self) -> Option<Result<FlowSpec, Status>> {
        let answer = match self.asked.as_mut()?.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => return None,
            Err(oneshot::error::TryRecvError::Closed) => Err(Status::Closed),
            Ok(answer) => answer,
        };
        self.asked = None;
        Some(answer)
    }

    /// Waits for the answer; `None` if nothing was asked for. A caller that gives up waiting finds the answer later.
    pub async fn answered(&mut self) -> Option<Result<FlowSpec, Status>> {
        let answer = self.asked.as_mut()?.await;
        self.asked = None;
        Some(answer.unwrap_or(Err(Status::Closed)))
    }
}

impl LiveFlow {
    /// Reports the pace of a source that is slower than real time, in milliseconds of media for each second, `None` when it keeps
    /// real time; and how many of its pictures are damaged in all. `false` if the node has no room for it now.
    pub fn report_input(&self, media_ms_per_s: Option<u16>, damaged: u64) -> bool {
        let state = NodeCommand::Input {
            flow: self.name.clone(),
            media_ms_per_s,
            damaged,
        };
        self.node.try_send(state).is_ok()
    }

    /// Reports that the input cannot be read any more, before the flow ends.
    pub async fn report_failure(&self) {
        let (done, told) = oneshot::channel();
        let flow = self.name.clone();
        let failed = NodeCommand::InputFailed { flow, done };
        if self.node.send(failed).await.is_ok() {
            // A node that ends advertises nothing.
            let _ = told.await;
        }
    }

    /// Has the flow changed from what it is now; gives what it is then.
    async fn renegotiate(
        &self,
        change: impl FnOnce(&FlowSpec) -> FlowSpec,
    ) -> Result<FlowSpec, Status> {
        let flow = || self.name.clone();
        let (reply, state) = oneshot::channel();
        let ask = NodeCommand::Info {
            flow: flow(),
            reply,
        };
        self.node.send(ask).await.map_err(|_| Status::Closed)?;
        let state = state.await.map_err(|_| Status::Closed)?;
        let spec = change(&state.info.spec);
        let (reply, status) = oneshot::channel();
        let ask = NodeCommand::Request {
            flow: flow(),
            option: QosOption::FlowSpec(spec.clone()),
            reply,
        };
        self.node.send(ask).await.map_err(|_| Status::Closed)?;
        match status.await {
            Ok(Status::Ok) => Ok(spec),
            Ok(status) => Err(status),
            Err(_) => Err(Status::Closed),
        }
    }
}
