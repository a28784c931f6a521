//! XTP on asyncio: what `python/layercast/xtp.py` puts its classes on. Options travel as JSON.

use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use layercast::Bytes;
use layercast::net::{
    CancellationToken, XtpAssociation, XtpCallError, XtpHost, XtpListener, XtpPlace, XtpPlaceError,
};
use layercast::wire::{Payload, XtpService};
use layercast::xtp::{Ask, Retransmission, SendOptions, XtpConfig, XtpRate};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3_async_runtimes::tokio::{future_into_py, get_runtime};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::RwLock;

use crate::failed;
use crate::live::NetworkError;

fn fail(error: XtpCallError) -> PyErr {
    match error {
        XtpCallError::Refused(error) => failed(error),
        broken => NetworkError::new_err(broken.to_string()),
    }
}

/// What is different from what the service needs, as Python gives it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    service: u8,
    max_data: Option<u32>,
    window: Option<u32>,
    send_buffer: Option<u32>,
    error_control: Option<bool>,
    flow_control: Option<bool>,
    checksum: Option<bool>,
    fast_nak: Option<bool>,
    /// Packets for each question; 0: none.
    ask: Option<u32>,
    go_back: Option<bool>,
    /// Bytes per second, and in a row.
    rate: Option<(u64, u64)>,
    /// Receivers of multicast before the first data.
    wait_for: Option<u32>,
}

impl Options {
    fn read(text: &str) -> PyResult<Options> {
        serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn apply(&self, config: &mut XtpConfig) {
        let set = |field: &mut u32, given: Option<u32>| *field = given.unwrap_or(*field);
        set(&mut config.max_data, self.max_data);
        set(&mut config.window, self.window);
        set(&mut config.send_buffer, self.send_buffer);
        set(&mut config.group.wait_for, self.wait_for);
        let set = |field: &mut bool, given: Option<bool>| *field = given.unwrap_or(*field);
        set(&mut config.error_control, self.error_control);
        set(&mut config.flow_control, self.flow_control);
        set(&mut config.checksum, self.checksum);
        set(&mut config.fast_nak, self.fast_nak);
        if let Some(ask) = self.ask {
            config.ask = if ask == 0 {
                Ask::Never
            } else {
                Ask::Every(ask)
            };
        }
        if self.go_back == Some(true) {
            config.retransmission = Retransmission::GoBackN;
        }
        if let Some((rate, burst)) = self.rate {
            config.out_limit = XtpRate { rate, burst };
        }
    }
}

fn address(text: &str) -> PyResult<SocketAddr> {
    text.parse()
        .map_err(|_| PyValueError::new_err(format!("{text} is no address such as 127.0.0.1:7000")))
}

fn group(text: &str) -> PyResult<SocketAddrV4> {
    text.parse()
        .map_err(|_| PyValueError::new_err(format!("{text} is no group such as 239.1.2.3:7000")))
}

fn interface(text: &str) -> PyResult<Ipv4Addr> {
    text.parse()
        .map_err(|_| PyValueError::new_err(format!("{text} is no address of an interface")))
}

/// XTP on one socket.
#[pyclass(frozen, module = "layercast._layercast")]
struct XtpSocketHost(XtpHost);

/// A port that takes associations.
#[pyclass(frozen, module = "layercast._layercast")]
struct XtpSocketListener(Arc<XtpListener>);

/// One end of an association.
#[pyclass(frozen, module = "layercast._layercast")]
struct XtpSocketEnd(Arc<End>);

/// An association that several tasks use, and that one of them may close.
struct End {
    /// Nothing once it is closed.
    association: RwLock<Option<XtpAssociation>>,
    /// Ends the calls of other tasks, which would keep the association from being closed.
    closing: CancellationToken,
}

impl XtpSocketEnd {
    fn new(end: XtpAssociation) -> XtpSocketEnd {
        XtpSocketEnd(Arc::new(End {
            association: RwLock::new(Some(end)),
            closing: CancellationToken::new(),
        }))
    }
}

impl End {
    /// The outcome of `work`, or an error once another task closes the association.
    async fn unless_closed<T>(
        &self,
        work: impl AsyncFnOnce(&XtpAssociation) -> Result<T, XtpCallError>,
    ) -> PyResult<T> {
        let work = async {
            let association = self.association.read().await;
            let association = association.as_ref().ok_or_else(closed)?;
            work(association).await.map_err(fail)
        };
        let ended = self.closing.run_until_cancelled(work).await;
        ended.unwrap_or_else(|| Err(closed()))
    }

    /// Closes the association, and waits until the peer has done the same.
    async fn close(&self) -> PyResult<()> {
        self.closing.cancel();
        // Not in the expression of the match: it would keep the lock, and `info` would wait for the end.
        let taken = self.association.write().await.take();
        match taken {
            Some(association) => association.close().await.map_err(fail),
            None => Ok(()),
        }
    }
}

fn closed() -> PyErr {
    failed("the association is closed")
}

/// Binds a host to an address: of UDP, with `raw` of IP itself, or of a daemon.
#[pyfunction]
fn xtp_bind(py: Python<'_>, local: &str, raw: bool) -> PyResult<XtpSocketHost> {
    let place = match raw {
        true => XtpPlace::Raw(address(local)?.ip()),
        false => local
            .parse()
            .map_err(|error: XtpPlaceError| PyValueError::new_err(error.to_string()))?,
    };
    let open = XtpHost::open(&place);
    // Only a daemon takes its time, and that is another process.
    let host = py.detach(|| get_runtime().block_on(open));
    let host = host.map_err(|error| NetworkError::new_err(format!("{local}: {error}")))?;
    Ok(XtpSocketHost(host))
}

#[pymethods]
impl XtpSocketHost {
    fn address(&self) -> String {
        self.0.local_addr().to_string()
    }

    fn listen(
        &self,
        py: Python<'_>,
        port: u16,
        backlog: usize,
        options: &str,
    ) -> PyResult<XtpSocketListener> {
        let options = Options::read(options)?;
        let registered = self.0.register(XtpService(options.service));
        let listening = registered
            .configure(|config| options.apply(config))
            .bind(port)
            .listen(backlog);
        let listener = py.detach(|| get_runtime().block_on(listening));
        Ok(XtpSocketListener(Arc::new(listener.map_err(fail)?)))
    }

    fn connect(&self, remote: &str, port: u16, options: &str) -> PyResult<XtpSocketEnd> {
        let (remote, options) = (address(remote)?, Options::read(options)?);
        let registered = self.0.register(XtpService(options.service));
        let end = registered
            .configure(|config| options.apply(config))
            .connect(remote, port);
        Ok(XtpSocketEnd::new(end.map_err(fail)?))
    }

    fn join(&self, remote: &str, port: u16, options: &str) -> PyResult<XtpSocketEnd> {
        let (remote, options) = (address(remote)?, Options::read(options)?);
        let registered = self.0.register(XtpService(options.service));
        let end = registered
            .configure(|config| options.apply(config))
            .join(remote, port);
        Ok(XtpSocketEnd::new(end.map_err(fail)?))
    }

    fn join_group(&self, address: &str, through: &str) -> PyResult<()> {
        let (address, through) = (group(address)?, interface(through)?);
        let _within = get_runtime().enter();
        let joined = self.0.join_group(address, through);
        joined.map_err(|error| NetworkError::new_err(format!("{address}: {error}")))
    }

    fn send_to_groups(&self, through: &str, hops: u8) -> PyResult<()> {
        let outcome = self.0.send_to_groups(interface(through)?, hops);
        outcome.map_err(|error| NetworkError::new_err(format!("{through}: {error}")))
    }

    fn fan_out(&self, to: &str, hosts: Vec<String>) -> PyResult<()> {
        let hosts = hosts.iter().map(|it| address(it));
        let hosts = hosts.collect::<PyResult<_>>()?;
        let outcome = self.0.fan_out(group(to)?.into(), hosts);
        outcome.map_err(|error| NetworkError::new_err(format!("{to}: {error}")))
    }
}

#[pymethods]
impl XtpSocketListener {
    fn accept<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let listener = Arc::clone(&self.0);
        future_into_py(py, async move {
            listener.accept().await.map(XtpSocketEnd::new).map_err(fail)
        })
    }
}

#[pymethods]
impl XtpSocketEnd {
    fn send<'py>(
        &self,
        py: Python<'py>,
        data: Vec<u8>,
        eom: bool,
        tag: Option<[u8; 8]>,
        reliable: bool,
        priority: Option<u16>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let how = SendOptions {
            end_of_message: eom,
            tag,
            no_error_control: !reliable,
            priority,
            ..SendOptions::default()
        };
        let end = Arc::clone(&self.0);
        future_into_py(py, async move {
            let data = Payload::Bytes(Bytes::from(data));
            end.unless_closed(async |it| it.send(data, &how).await)
                .await
        })
    }

    /// data, tag, end of message, gap; `None` at the end.
    fn receive<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyAny>> {
        let end = Arc::clone(&self.0);
        future_into_py(py, async move {
            let chunk = end.unless_closed(async |it| it.receive(most).await);
            let chunk = chunk.await?;
            Ok(chunk.map(|chunk| {
                let mut data = Vec::with_capacity(chunk.data.len());
                chunk.data.append_to(&mut data);
                let tag = chunk.tag.map(|tag| Cow::<[u8]>::Owned(tag.to_vec()));
                let data = Cow::<[u8]>::Owned(data);
                (data, tag, chunk.end_of_message, chunk.gap)
            }))
        })
    }

    fn settled<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let end = Arc::clone(&self.0);
        future_into_py(py, async move {
            end.unless_closed(async |it| it.settled().await).await
        })
    }

    fn joined<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let end = Arc::clone(&self.0);
        future_into_py(py, async move {
            end.unless_closed(async |it| it.joined().await).await
        })
    }

    fn parted<'py>(&self, py: Python<'py>, receivers: u64) -> PyResult<Bound<'py, PyAny>> {
        let end = Arc::clone(&self.0);
        future_into_py(py, async move {
            end.unless_closed(async |it| it.parted(receivers).await)
                .await
        })
    }

    fn close_write<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let end = Arc::clone(&self.0);
        future_into_py(py, async move {
            end.unless_closed(async |it| it.close_write()).await
        })
    }

    /// What is known of it, as JSON.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let end = Arc::clone(&self.0);
        future_into_py(py, async move {
            let association = end.association.read().await;
            let info = match association.as_ref() {
                Some(end) => end.info().await,
                None => None,
            };
            Ok(info.map(|info| {
                json!({
                    "bytes_sent": info.counts.bytes_sent,
                    "bytes_acked": info.counts.bytes_acked,
                    "bytes_received": info.counts.bytes_received,
                    "retransmitted": info.counts.retransmitted,
                    "crowded_out": info.counts.crowded_out,
                    "unsent": info.unsent,
                    "srtt_s": info.srtt.as_secs_f64(),
                    "max_data": info.max_data,
                    "receivers": info.receivers,
                })
                .to_string()
            }))
        })
    }

    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let end = Arc::clone(&self.0);
        future_into_py(py, async move { end.close().await })
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<XtpSocketHost>()?;
    module.add_class::<XtpSocketListener>()?;
    module.add_class::<XtpSocketEnd>()?;
    module.add_function(wrap_pyfunction!(xtp_bind, module)?)
}
