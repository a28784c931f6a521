//! The HTTP server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, Request, State};
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
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{interval, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::accept::{accept, serve};
use crate::access::{self, Access};
use crate::board::Board;
use crate::error::WebError;
use crate::feed::{Feed, Feeds, Flow, Wanted};
use crate::hub;
use crate::message::Text;
use crate::pages;

/// Least time between two states of the dashboard.
const BOARD_EVERY: Duration = Duration::from_millis(200);
/// Time between two statuses of a viewer.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// Time that a viewer has to take a message.
const PATIENCE: Duration = Duration::from_secs(10);
/// Least length of a token.
const MIN_TOKEN: usize = 16;
/// Dashboards at a time, for each viewer.
const BOARDS_PER_VIEWER: usize = 4;
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

struct Shared {
    access: Access,
    board: Board,
    feeds: Arc<Feeds>,
    viewers: Arc<Semaphore>,
    boards: Arc<Semaphore>,
    most: usize,
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
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
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
            most: config.viewers,
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

    /// Joins the flows and serves pages until `stop`.
    pub async fn serve(self, stop: CancellationToken) {
        self.shared.feeds.start();
        // A viewer has its media and its dashboard; pages and tickets come and go.
        let most = self.shared.most * (1 + BOARDS_PER_VIEWER) + OTHERS;
        let mut routes = Router::new()
            .route("/api/ticket", post(ticket))
            .route("/api/flows", get(flows))
            .route("/api/board", get(board))
            .route("/api/watch", get(watch));
        if self.shared.reports.is_some() {
            routes = routes.route("/report", post(report));
        }
        let app = routes
            .fallback(get(pages::page))
            .layer(middleware::from_fn_with_state(
                Arc::clone(&self.shared),
                guard,
            ))
            .with_state(self.shared);
        let serving = accept(self.listener, most, |stream, caller| {
            serve(stream, self.acceptor.clone(), app.clone(), caller)
        });
        // Viewers stay connected as long as they like: they are not waited for.
        tokio::select! {
            () = serving => {}
            () = stop.cancelled() => {}
        }
    }
}

/// What pages of this server may load and call.
fn policy(hosts: &[String]) -> HeaderValue {
    let sockets = hosts
        .iter()
        .flat_map(|host| [format!("ws://{host}"), format!("wss://{host}")]);
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

/// A ticket for a request with the token.
async fn ticket(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    match shared.access.ticket(&headers, Instant::now()) {
        Some(ticket) => Json(serde_json::json!({ "ticket": ticket })).into_response(),
        None => (
            StatusCode::UNAUTHORIZED,
            "the token of this page is wrong: open the URL that layercast web printed last\n",
        )
            .into_response(),
    }
}

/// A ticket, and what is wanted with it.
#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    ticket: String,
    #[serde(default)]
    flow: usize,
    level: Option<String>,
}

fn refused() -> Response {
    (
        StatusCode::UNAUTHORIZED,
        "the ticket is used up or too old\n",
    )
        .into_response()
}

/// A flow as pages see it.
#[derive(Serialize)]
struct FlowName<'a> {
    name: &'a str,
}

/// The flows that can be watched.
async fn flows(State(shared): State<Arc<Shared>>, Query(asked): Query<Asked>) -> Response {
    if !shared.access.takes(&asked.ticket, Instant::now()) {
        return refused();
    }
    let flows = shared.feeds.flows().iter();
    let flows: Vec<FlowName> = flows.map(|it| FlowName { name: &it.name }).collect();
    Json(flows).into_response()
}

/// The states of the dashboard, as they come.
async fn board(State(shared): State<Arc<Shared>>, Query(asked): Query<Asked>) -> Response {
    if !shared.access.takes(&asked.ticket, Instant::now()) {
        return refused();
    }
    let Ok(place) = Arc::clone(&shared.boards).try_acquire_owned() else {
        return full(shared.most * BOARDS_PER_VIEWER, "dashboards");
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

fn full(most: usize, of: &str) -> Response {
    let text = format!("there are {most} {of} already (layercast web --viewers)\n");
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
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

/// The media of a flow.
async fn watch(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<Asked>,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !shared.access.takes(&asked.ticket, Instant::now()) {
        return refused();
    }
    let Some(wanted) = Wanted::parse(asked.level.as_deref().unwrap_or("auto")) else {
        return (StatusCode::BAD_REQUEST, "level is auto, base, e1 or e2\n").into_response();
    };
    let Ok(place) = Arc::clone(&shared.viewers).try_acquire_owned() else {
        return full(shared.most, "viewers");
    };
    match shared.feeds.get(asked.flow, wanted) {
        Some(feed) => upgrade.on_upgrade(move |socket| view(socket, feed, place)),
        None => (StatusCode::NOT_FOUND, "there is no such flow\n").into_response(),
    }
}

/// Sends a viewer the media until it leaves.
async fn view(mut socket: WebSocket, feed: Arc<Feed>, place: OwnedSemaphorePermit) {
    let (queue, mut state) = feed.hub.watch();
    state.mark_changed();
    let mut status = interval(STATUS_EVERY);
    let mut told = hub::State::default();
    loop {
        let sent = tokio::select! {
            biased;
            heard = socket.recv() => match heard {
                // A viewer says nothing but that it is there.
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                _ => break,
            },
            changed = state.changed() => match changed {
                Ok(()) => tell(&mut socket, &feed, &mut state, &mut told, queue.skipped()).await,
                Err(_) => break,
            },
            _ = status.tick() => tell_status(&mut socket, &feed, &told, queue.skipped()).await,
            chunk = queue.next() => send(&mut socket, Message::Binary(chunk.message.clone())).await,
        };
        if !sent {
            break;
        }
    }
    drop(place);
}

/// Tells a viewer what is new of its stream.
async fn tell(
    socket: &mut WebSocket,
    feed: &Feed,
    state: &mut watch::Receiver<hub::State>,
    told: &mut hub::State,
    skipped: u64,
) -> bool {
    let now = state.borrow_and_update().clone();
    let before = std::mem::replace(told, now);
    if let Some(stream) = told
        .stream
        .as_deref()
        .filter(|_| told.stream != before.stream)
        && !send_text(socket, &Text::Stream(stream)).await
    {
        return false;
    }
    tell_status(socket, feed, told, skipped).await
}

async fn tell_status(socket: &mut WebSocket, feed: &Feed, told: &hub::State, skipped: u64) -> bool {
    let status = Text::Status {
        problem: told.problem.as_deref(),
        member: &feed.member,
        skipped,
    };
    send_text(socket, &status).await
}

async fn send_text(socket: &mut WebSocket, text: &Text<'_>) -> bool {
    match serde_json::to_string(text) {
        Ok(text) => send(socket, Message::Text(text.into())).await,
        Err(_) => false,
    }
}

/// Sends a message; `false` if the viewer is gone, or takes nothing.
async fn send(socket: &mut WebSocket, message: Message) -> bool {
    let sent = tokio::time::timeout(PATIENCE, socket.send(message)).await;
    matches!(sent, Ok(Ok(())))
}
