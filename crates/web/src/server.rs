//! The HTTP server.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use futures_util::stream;
use layercast::net::{Identity, outward};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::accept::{accept, serve};
use crate::access::{self, Access};
use crate::board::Board;
use crate::error::WebError;
use crate::feed::{Feeds, Flow, Trouble};
use crate::pages;
use crate::transport::Transport;
use crate::watch::{Asked, PATH, Refusal, watch};

/// Least time between two states of the dashboard.
const BOARD_EVERY: Duration = Duration::from_millis(200);
/// Least length of a token.
const MIN_TOKEN: usize = 16;
/// Dashboards at a time, for each viewer.
const BOARDS_PER_VIEWER: usize = 4;
/// Ports that are tried for one that is free for TCP and UDP.
const TRIES: usize = 8;
/// Connections beside those of viewers.
const OTHERS: usize = 64;
/// Longest report of a page.
const MOST_REPORTED: usize = 64 << 10;

/// What is served, and how viewers get access.
#[derive(Debug)]
pub struct WebConfig {
    /// Where browsers connect.
    pub listen: SocketAddr,
    /// Further names by which browsers call this host, without a port.
    pub names: Vec<String>,
    /// What viewers have to know; a random one if none is given.
    pub token: Option<String>,
    /// The flows that can be watched.
    pub flows: Vec<Flow>,
    /// The certificate and its key for HTTPS; HTTP without them.
    pub identity: Option<Arc<Identity>>,
    /// Name of the receivers among the members of their flows, before a number.
    pub member: String,
    /// Viewers at a time.
    pub viewers: usize,
    /// What pages find out about themselves goes here, for tests: the page posts it to `/report`.
    pub reports: Option<mpsc::Sender<serde_json::Value>>,
}

/// Pages that wait to be served.
pub struct Web {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    url: String,
    shared: Arc<Shared>,
}

/// What requests need.
pub struct Shared {
    pub access: Access,
    board: Board,
    pub feeds: Arc<Feeds>,
    pub viewers: Arc<Semaphore>,
    boards: Arc<Semaphore>,
    /// Viewers that hear at the moment why they are refused.
    pub refusals: Arc<Semaphore>,
    /// Viewers at a time.
    pub most: usize,
    /// WebTransport, or why there is none.
    transport: Result<Transport, String>,
    port: u16,
    policy: HeaderValue,
    reports: Option<mpsc::Sender<serde_json::Value>>,
}

impl Web {
    /// Binds the address.
    ///
    /// # Errors
    /// The address is taken, or is none of this host; the token is short, or cannot be in a URL; the key does not belong to the certificate.
    pub async fn bind(config: WebConfig) -> Result<Web, WebError> {
        let token = config.token.unwrap_or_else(access::random);
        // Those that a URL carries as they are (RFC 3986, 2.3).
        let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-._~".contains(&it);
        if token.len() < MIN_TOKEN || !token.bytes().all(is_plain) {
            return Err(WebError::Token);
        }
        let failed = |source| WebError::Bind {
            address: config.listen,
            source,
        };
        let (listener, transport) = bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let port = address.port();
        let mut hosts = vec![SocketAddr::new(outward(address.ip()), port).to_string()];
        if address.ip().is_loopback() {
            hosts.push(format!("localhost:{port}"));
        }
        for name in &config.names {
            // A proxy has the port of its scheme, or is called by the port of this server.
            hosts.extend([name.clone(), format!("{name}:{port}")]);
        }
        let shown = hosts.last().filter(|_| !config.names.is_empty());
        let tls = config.identity.map(|it| it.server_config()).transpose()?;
        let acceptor = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}/#token={token}", shown.unwrap_or(&hosts[0]));
        let policy = policy(&hosts);
        let shared = Shared {
            access: Access::new(token, hosts),
            board: Board::default(),
            feeds: Feeds::new(config.flows, config.member),
            viewers: Arc::new(Semaphore::new(config.viewers)),
            boards: Arc::new(Semaphore::new(config.viewers * BOARDS_PER_VIEWER)),
            refusals: Arc::new(Semaphore::new(OTHERS)),
            most: config.viewers,
            transport,
            port,
            policy,
            reports: config.reports,
        };
        Ok(Web {
            listener,
            address,
            acceptor,
            url,
            shared: Arc::new(shared),
        })
    }

    /// The URL for a browser, with the token in its fragment.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where browsers connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the dashboard shows.
    pub fn board(&self) -> Board {
        self.shared.board.clone()
    }

    /// What keeps the flows from coming, one of each flow. Their receivers start.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.shared.feeds.troubles()
    }

    /// Joins the flows and serves pages until `stop`.
    pub async fn serve(self, stop: CancellationToken) {
        self.shared.feeds.start();
        // A viewer has its media and its dashboard; pages and tickets come and go.
        let most = self.shared.most * (1 + BOARDS_PER_VIEWER) + OTHERS;
        let mut routes = Router::new()
            .route("/api/ticket", post(ticket))
            .route("/api/flows", get(flows))
            .route("/api/board", get(board))
            .route(PATH, get(watch));
        if self.shared.reports.is_some() {
            routes = routes.route("/report", post(report));
        }
        let app = routes
            .fallback(get(pages::page))
            .layer(middleware::from_fn_with_state(
                Arc::clone(&self.shared),
                guard,
            ))
            .with_state(Arc::clone(&self.shared));
        let serving = accept(self.listener, most, |stream, caller| {
            serve(stream, self.acceptor.clone(), app.clone(), caller)
        });
        // Viewers stay connected as long as they like: they are not waited for.
        let transport = async {
            match &self.shared.transport {
                Ok(transport) => transport.serve(most, &self.shared).await,
                Err(_) => pending().await,
            }
        };
        tokio::select! {
            () = serving => {}
            () = transport => {}
            () = stop.cancelled() => {}
        }
        self.shared.feeds.end().await;
    }
}

/// Binds a TCP port, and the UDP port of the same number if it is free.
async fn bind(listen: SocketAddr) -> io::Result<(TcpListener, Result<Transport, String>)> {
    let mut tries = 0;
    loop {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        tries += 1;
        match Transport::bind(address) {
            // Any port will do: another one may be free for both.
            Err(_) if listen.port() == 0 && tries < TRIES => {}
            Err(error) => {
                let why = format!("UDP port {} of the server: {error}", address.port());
                return Ok((listener, Err(why)));
            }
            Ok(transport) => return Ok((listener, Ok(transport))),
        }
    }
}

/// What pages of this server may load and call.
fn policy(hosts: &[String]) -> HeaderValue {
    // WebTransport has HTTPS also where the page has not.
    let schemes = ["ws", "wss", "https"];
    let sockets = hosts
        .iter()
        .flat_map(|host| schemes.map(|scheme| format!("{scheme}://{host}")));
    let sockets: Vec<String> = sockets.collect();
    let sockets = sockets.join(" ");
    let text = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src blob:; \
         connect-src 'self' {sockets}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

/// Refuses requests for other hosts and of other pages; says what browsers may do with the answer.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let mut response = if !shared.access.is_for_us(headers) {
        let hosts = shared.access.hosts().join(", ");
        let text = format!("this server is called by {hosts}; --host NAME adds a name\n");
        (StatusCode::MISDIRECTED_REQUEST, text).into_response()
    } else if !shared.access.is_own_origin(headers) {
        (
            StatusCode::FORBIDDEN,
            "the request comes from a page of another server\n",
        )
            .into_response()
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, shared.policy.clone());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A ticket, and where WebTransport is to be had with it.
#[derive(Serialize)]
struct Ticket<'a> {
    ticket: String,
    transport: TransportInfo<'a>,
}

#[derive(Serialize)]
struct TransportInfo<'a> {
    /// The UDP port.
    port: Option<u16>,
    /// SHA-256 of its certificates.
    fingerprints: Vec<String>,
    /// Why there is none.
    why: Option<&'a str>,
}

/// A ticket for a request with the token.
async fn ticket(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    match shared.access.ticket(&headers, Instant::now()) {
        Some(ticket) => {
            let transport = match &shared.transport {
                Ok(transport) => TransportInfo {
                    port: Some(shared.port),
                    fingerprints: transport.fingerprints().into(),
                    why: None,
                },
                Err(why) => TransportInfo {
                    port: None,
                    fingerprints: Vec::new(),
                    why: Some(why),
                },
            };
            Json(Ticket { ticket, transport }).into_response()
        }
        None => (
            StatusCode::UNAUTHORIZED,
            "the token of this page is wrong: open the URL that layercast web printed last\n",
        )
            .into_response(),
    }
}

/// A flow as pages see it.
#[derive(Serialize)]
struct FlowName<'a> {
    name: &'a str,
}

/// The flows that can be watched.
async fn flows(State(shared): State<Arc<Shared>>, asked: Asked) -> Response {
    if !shared.access.takes(&asked.ticket, Instant::now()) {
        return Refusal::Ticket.into_response();
    }
    let flows = shared.feeds.flows().iter();
    let flows: Vec<FlowName> = flows.map(|it| FlowName { name: &it.name }).collect();
    Json(flows).into_response()
}

/// The states of the dashboard, as they come.
async fn board(State(shared): State<Arc<Shared>>, asked: Asked) -> Response {
    if !shared.access.takes(&asked.ticket, Instant::now()) {
        return Refusal::Ticket.into_response();
    }
    let Ok(place) = Arc::clone(&shared.boards).try_acquire_owned() else {
        return Refusal::Full(shared.most * BOARDS_PER_VIEWER, "dashboards").into_response();
    };
    let mut states = shared.board.watch();
    states.mark_changed();
    let events = stream::unfold((states, place), |(mut states, place)| async move {
        sleep(BOARD_EVERY).await;
        states.changed().await.ok()?;
        let state = Arc::clone(&states.borrow_and_update());
        let event: Result<Event, std::convert::Infallible> = Ok(Event::default().data(&*state));
        Some((event, (states, place)))
    });
    Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response()
}

/// What a page found out about itself.
async fn report(State(shared): State<Arc<Shared>>, body: String) -> StatusCode {
    let report = serde_json::from_str(&body)
        .ok()
        .filter(|_| body.len() <= MOST_REPORTED);
    match (report, &shared.reports) {
        (Some(report), Some(reports)) => {
            // A test that is over takes no more.
            let _ = reports.send(report).await;
            StatusCode::NO_CONTENT
        }
        _ => StatusCode::BAD_REQUEST,
    }
}
