//! Live flows on asyncio: what `python/layercast/live.py` puts its classes on. Structures travel as JSON.

use std::borrow::Cow;
use std::sync::Arc;

use layercast::{
    ControlSocket, Error, Frame, Group, GroupControl, Join, Layer, LeaveReason, Level,
    ManagementSocket, MediaHandle, MediaSocket, Member, NodeId, OpenGroup, QosSignal, Server, Span,
};
use pyo3::create_exception;
use pyo3::prelude::*;
use pyo3_async_runtimes::tokio::future_into_py;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use crate::{LayercastError, failed, json};

create_exception!(
    _layercast,
    QosError,
    LayercastError,
    "A request that was refused; `code` is its status."
);
create_exception!(
    _layercast,
    InvalidError,
    QosError,
    "EINVAL: an argument makes no sense."
);
create_exception!(
    _layercast,
    NotRegisteredError,
    QosError,
    "ENOTREG: the media socket is not registered."
);
create_exception!(
    _layercast,
    AdmissionError,
    QosError,
    "EADMIT: a node has too little of something; the text names node, resource, need and supply."
);
create_exception!(
    _layercast,
    PolicyError,
    QosError,
    "EPOLICY: the policy of the flow forbids it."
);
create_exception!(
    _layercast,
    BusyError,
    QosError,
    "EBUSY: another request is outstanding."
);
create_exception!(
    _layercast,
    NoFilterError,
    QosError,
    "ENOFILTER: there is no such filter here."
);
create_exception!(
    _layercast,
    TimedOutError,
    QosError,
    "ETIMEDOUT: no answer came in time."
);
create_exception!(
    _layercast,
    ClosedError,
    QosError,
    "ECLOSED: the flow is over."
);
create_exception!(
    _layercast,
    NetworkError,
    QosError,
    "ENET: sockets, hosts, neighbours."
);

fn fail(error: impl Into<Error>) -> PyErr {
    let error = error.into();
    let text = error.to_string();
    match error.code() {
        "EINVAL" => InvalidError::new_err(text),
        "ENOTREG" => NotRegisteredError::new_err(text),
        "EADMIT" => AdmissionError::new_err(text),
        "EPOLICY" => PolicyError::new_err(text),
        "EBUSY" => BusyError::new_err(text),
        "ENOFILTER" => NoFilterError::new_err(text),
        "ETIMEDOUT" => TimedOutError::new_err(text),
        "ECLOSED" => ClosedError::new_err(text),
        "ENET" => NetworkError::new_err(text),
        _ => QosError::new_err(text),
    }
}

/// A structure that Python hands over as JSON.
fn structure<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| InvalidError::new_err(error.to_string()))
}

fn seconds(span: f64) -> PyResult<Span> {
    match span.is_finite() && span >= 0.0 {
        true => Ok(Span::from_secs_f64(span)),
        false => Err(InvalidError::new_err(format!(
            "{span} s is no length of time"
        ))),
    }
}

fn level(number: u8) -> PyResult<Level> {
    Level::new(number).ok_or_else(|| InvalidError::new_err(format!("no level {number}")))
}

/// seq, layer, gop_start, sound, delay in seconds, bytes.
type Frame6 = (u32, u8, bool, bool, f64, Cow<'static, [u8]>);
/// name, number, bytes.
type From3 = (String, u32, Cow<'static, [u8]>);

/// A host with sources.
#[pyclass(frozen, module = "layercast._layercast")]
struct LiveServer(Arc<Mutex<Option<Server>>>);

/// An open group.
#[pyclass(frozen, module = "layercast._layercast")]
struct LiveGroup(Arc<OpenGroup>);

/// The media socket of a sink.
#[pyclass(frozen, module = "layercast._layercast")]
struct LiveMedia {
    socket: Arc<Mutex<MediaSocket>>,
    handle: MediaHandle,
}

/// The control socket of a sink.
#[pyclass(frozen, module = "layercast._layercast")]
struct LiveControl(ControlSocket);

/// The control sockets of the members of a group.
#[pyclass(frozen, module = "layercast._layercast")]
struct LiveGroupControl(GroupControl);

/// A management socket of either side.
#[pyclass(frozen, module = "layercast._layercast")]
struct LiveManagement(ManagementSocket);

/// Listens on `address`.
#[pyfunction]
fn bind(py: Python<'_>, address: String) -> PyResult<Bound<'_, PyAny>> {
    future_into_py(py, async move {
        let server = Server::bind(address).await.map_err(fail)?;
        Ok(LiveServer(Arc::new(Mutex::new(Some(server)))))
    })
}

/// How a group is opened and joined, as Python gives it.
#[derive(serde::Deserialize)]
struct GroupOptions {
    spec: Option<layercast::FlowSpec>,
    policy: Option<layercast::QosPolicy>,
    composition: layercast::Composition,
    frame_rate: (u32, u32),
    delay_max: Option<f64>,
    core: Option<String>,
    wait_for: u32,
    registered: bool,
    sealed: bool,
    tokens: bool,
}

#[derive(serde::Deserialize)]
struct JoinOptions {
    name: Option<String>,
    level: u8,
    policy: Option<layercast::QosPolicy>,
    spec: Option<layercast::FlowSpec>,
    profile: Option<String>,
    playout: Option<f64>,
    sync: Option<f64>,
    authorities: Option<String>,
    within: f64,
    registered: bool,
}

#[pymethods]
impl LiveServer {
    fn open_group<'py>(
        &self,
        py: Python<'py>,
        name: String,
        options: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options: GroupOptions = structure(options)?;
        let (num, den) = options.frame_rate;
        let mut group = Group::new(name)
            .frame_rate(num, den)
            .composition(options.composition)
            .wait_for(options.wait_for)
            .registered(options.registered);
        if let Some(delay) = options.delay_max {
            group = group.delay_max(seconds(delay)?);
        }
        if let Some(spec) = options.spec {
            group = group.spec(spec);
        }
        if let Some(policy) = options.policy {
            group = group.policy(policy);
        }
        if let Some(core) = options.core {
            group = group.core(core);
        }
        if options.sealed {
            group = group.sealed();
        }
        if options.tokens {
            group = group.require_tokens();
        }
        let server = Arc::clone(&self.0);
        future_into_py(py, async move {
            let server = server.lock().await;
            let server = server.as_ref().ok_or(layercast::Status::Closed);
            let group = server.map_err(fail)?.open_group(group).await;
            Ok(LiveGroup(Arc::new(group.map_err(fail)?)))
        })
    }

    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let server = Arc::clone(&self.0);
        future_into_py(py, async move {
            match server.lock().await.take() {
                Some(server) => server.close().await.map(drop).map_err(fail),
                None => Ok(()),
            }
        })
    }
}

#[pymethods]
impl LiveGroup {
    fn url(&self, host: Option<&str>) -> String {
        match host {
            Some(host) => self.0.url_at(host),
            None => self.0.url(),
        }
    }

    fn url_for(&self, member: Option<&str>, level: u8, valid: f64) -> PyResult<String> {
        let url = self.0.url_for(member, self::level(level)?, seconds(valid)?);
        url.map_err(fail)
    }

    fn send<'py>(
        &self,
        py: Python<'py>,
        data: Vec<u8>,
        layer: u8,
        gop_start: bool,
        sound: bool,
        time: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let layer = match layer {
            0 => Layer::Base,
            1 => Layer::E1,
            2 => Layer::E2,
            other => return Err(InvalidError::new_err(format!("no layer {other}"))),
        };
        let frame = Frame {
            gop_start,
            sound,
            time: time.map(seconds).transpose()?,
            ..Frame::of(layer, data)
        };
        let group = Arc::clone(&self.0);
        future_into_py(py, async move { group.send(frame).await.map_err(fail) })
    }

    fn wait_for_members<'py>(&self, py: Python<'py>, members: u32) -> PyResult<Bound<'py, PyAny>> {
        let group = Arc::clone(&self.0);
        future_into_py(py, async move {
            group.wait_for_members(members).await;
            Ok(())
        })
    }

    fn close<'py>(&self, py: Python<'py>, grace: f64) -> PyResult<Bound<'py, PyAny>> {
        let (group, grace) = (Arc::clone(&self.0), seconds(grace)?);
        future_into_py(py, async move { group.close(grace).await.map_err(fail) })
    }

    fn control(&self) -> LiveGroupControl {
        LiveGroupControl(self.0.control())
    }

    fn management(&self) -> LiveManagement {
        LiveManagement(self.0.management())
    }
}

/// Joins the flow at `url`; gives its media, control and management sockets.
#[pyfunction]
fn join<'py>(py: Python<'py>, url: String, options: &str) -> PyResult<Bound<'py, PyAny>> {
    let options: JoinOptions = structure(options)?;
    let mut join = Join::new(url)
        .level(level(options.level)?)
        .flow_within(seconds(options.within)?)
        .registered(options.registered);
    if let Some(name) = options.name {
        join = join.name(name);
    }
    if let Some(policy) = options.policy {
        join = join.policy(policy);
    }
    if let Some(spec) = options.spec {
        join = join.spec(spec);
    }
    if let Some(profile) = options.profile {
        join = join.profile(profile);
    }
    if let Some(playout) = options.playout {
        join = join.playout(seconds(playout)?);
    }
    if let Some(sync) = options.sync {
        join = join.sync(seconds(sync)?);
    }
    if let Some(pem) = options.authorities {
        join = join.authorities(pem);
    }
    future_into_py(py, async move {
        let (media, control, management) = join.connect().await.map_err(fail)?;
        let media = LiveMedia {
            handle: media.handle(),
            socket: Arc::new(Mutex::new(media)),
        };
        Ok((media, LiveControl(control), LiveManagement(management)))
    })
}

#[pymethods]
impl LiveMedia {
    fn recv<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let socket = Arc::clone(&self.socket);
        future_into_py(py, async move {
            let frame = socket.lock().await.recv().await;
            Ok(frame.map(|frame| -> Frame6 {
                let layer = match frame.layer {
                    Layer::Base => 0,
                    Layer::E1 => 1,
                    Layer::E2 => 2,
                };
                let data = Cow::Owned(frame.data.to_vec());
                let delay = frame.delay.as_secs_f64();
                (frame.seq, layer, frame.gop_start, frame.sound, delay, data)
            }))
        })
    }

    fn flow(&self) -> String {
        self.handle.flow().to_owned()
    }
}

#[pymethods]
impl LiveControl {
    fn send<'py>(&self, py: Python<'py>, message: Vec<u8>) -> PyResult<Bound<'py, PyAny>> {
        let socket = self.0.clone();
        future_into_py(py, async move { socket.send(message).await.map_err(fail) })
    }

    fn recv<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let socket = self.0.clone();
        future_into_py(py, async move {
            let message = socket.recv().await;
            Ok(message.map(|message| -> Cow<'static, [u8]> { Cow::Owned(message.to_vec()) }))
        })
    }
}

#[pymethods]
impl LiveGroupControl {
    fn send<'py>(
        &self,
        py: Python<'py>,
        name: String,
        number: u32,
        message: Vec<u8>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let id = NodeId(number);
        let (socket, member) = (self.0.clone(), Member { name, id });
        future_into_py(py, async move {
            let sent = socket.send(&member, message).await;
            sent.map_err(fail)
        })
    }

    fn recv<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let socket = self.0.clone();
        future_into_py(py, async move {
            let message = socket.recv().await;
            Ok(message.map(|(member, message)| -> From3 {
                (member.name, member.id.0, Cow::Owned(message.to_vec()))
            }))
        })
    }
}

/// An upcall as Python sees it.
#[derive(Serialize)]
struct Upcall<'a> {
    kind: &'static str,
    name: &'static str,
    text: String,
    data: &'a QosSignal,
}

#[pymethods]
impl LiveManagement {
    fn register<'py>(
        &self,
        py: Python<'py>,
        media: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let socket = self.0.clone();
        if let Ok(media) = media.cast::<LiveMedia>() {
            let handle = media.get().handle.clone();
            return future_into_py(
                py,
                async move { socket.register(&handle).await.map_err(fail) },
            );
        }
        let group = Arc::clone(&media.cast::<LiveGroup>()?.get().0);
        future_into_py(py, async move {
            socket.register_group(&group).await.map_err(fail)
        })
    }

    fn change_qos<'py>(&self, py: Python<'py>, option: &str) -> PyResult<Bound<'py, PyAny>> {
        let (socket, option) = (self.0.clone(), structure(option)?);
        future_into_py(
            py,
            async move { socket.change_qos(option).await.map_err(fail) },
        )
    }

    fn signal<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let socket = self.0.clone();
        future_into_py(py, async move {
            let Some(signal) = socket.signal().await else {
                return Ok(None);
            };
            let (kind, name, text) = match &signal {
                QosSignal::Signal(_) => ("signal", "QOS_METRIC", String::new()),
                QosSignal::Event(event) => ("event", event.name(), event.to_string()),
            };
            let data = &signal;
            json(&Upcall {
                kind,
                name,
                text,
                data,
            })
            .map(Some)
        })
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let socket = self.0.clone();
        future_into_py(py, async move { json(&socket.info().await.map_err(fail)?) })
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let socket = self.0.clone();
        future_into_py(
            py,
            async move { json(&socket.stats().await.map_err(fail)?) },
        )
    }

    fn allow_raise<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let socket = self.0.clone();
        future_into_py(py, async move { socket.allow_raise().await.map_err(fail) })
    }

    fn set_profile<'py>(
        &self,
        py: Python<'py>,
        profile: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let socket = self.0.clone();
        future_into_py(py, async move {
            let set = socket.set_profile(profile.as_deref()).await;
            set.map_err(fail)
        })
    }

    fn leave<'py>(&self, py: Python<'py>, reason: &str) -> PyResult<Bound<'py, PyAny>> {
        let (socket, reason) = (self.0.clone(), structure::<LeaveReason>(&json(&reason)?)?);
        future_into_py(py, async move { socket.leave(reason).await.map_err(fail) })
    }
}

/// Adds all of this to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    for (name, code, kind) in [
        ("QosError", "", py.get_type::<QosError>()),
        ("InvalidError", "EINVAL", py.get_type::<InvalidError>()),
        (
            "NotRegisteredError",
            "ENOTREG",
            py.get_type::<NotRegisteredError>(),
        ),
        ("AdmissionError", "EADMIT", py.get_type::<AdmissionError>()),
        ("PolicyError", "EPOLICY", py.get_type::<PolicyError>()),
        ("BusyError", "EBUSY", py.get_type::<BusyError>()),
        ("NoFilterError", "ENOFILTER", py.get_type::<NoFilterError>()),
        ("TimedOutError", "ETIMEDOUT", py.get_type::<TimedOutError>()),
        ("ClosedError", "ECLOSED", py.get_type::<ClosedError>()),
        ("NetworkError", "ENET", py.get_type::<NetworkError>()),
    ] {
        kind.setattr("code", code).map_err(failed)?;
        module.add(name, kind)?;
    }
    module.add_class::<LiveServer>()?;
    module.add_class::<LiveGroup>()?;
    module.add_class::<LiveMedia>()?;
    module.add_class::<LiveControl>()?;
    module.add_class::<LiveGroupControl>()?;
    module.add_class::<LiveManagement>()?;
    module.add_function(wrap_pyfunction!(bind, module)?)?;
    module.add_function(wrap_pyfunction!(join, module)?)
}
