//! Viewers: their admission, and what each gets.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{FromRequestParts, Query, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::interval;

use crate::feed::{Feed, Wanted};
use crate::hub;
use crate::message::{Chunk, Text};
use crate::mp4::Mp4;
use crate::server::Shared;
use crate::socket::{self, Viewer};

/// Where media are.
pub const PATH: &str = "/api/watch";
/// Time between two statuses of a viewer.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// Time that a viewer has to take a message, and to answer that it is there.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A ticket, and what is wanted with it, as the query of a request has it.
#[derive(Deserialize)]
pub struct Asked {
    #[serde(default)]
    pub ticket: String,
    flow: Option<String>,
    level: Option<String>,
    /// `mp4`: fragmented MP4 instead of access units.
    form: Option<String>,
}

impl Asked {
    /// Reads the query of a request.
    pub fn of(uri: &Uri) -> Result<Asked, Refusal> {
        let read = Query::<Asked>::try_from_uri(uri);
        read.map(|it| it.0).map_err(|_| Refusal::Query)
    }
}

impl<S: Sync> FromRequestParts<S> for Asked {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asked, Refusal> {
        Asked::of(&parts.uri)
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    /// Its ticket is used up or too old.
    Ticket,
    /// The query cannot be read.
    Query,
    /// What it has for a flow is no number.
    Number,
    /// There is no such level.
    Level,
    /// There is no such form.
    Form,
    /// There is no such flow.
    Flow,
    /// There is this number of them already.
    Full(usize, &'static str),
}

impl Refusal {
    /// The status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Refusal::Ticket => StatusCode::UNAUTHORIZED,
            Refusal::Query | Refusal::Number | Refusal::Level | Refusal::Form => {
                StatusCode::BAD_REQUEST
            }
            Refusal::Flow => StatusCode::NOT_FOUND,
            Refusal::Full(..) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Ticket => f.write_str("the ticket is used up or too old"),
            Refusal::Query => f.write_str(
                "the query has ticket, flow, level and form, each at most once and in UTF-8",
            ),
            Refusal::Number => {
                f.write_str("flow is the number of a flow, from 0 on in the order of /api/flows")
            }
            Refusal::Level => f.write_str("level is auto, base, e1 or e2"),
            Refusal::Form => f.write_str("form is mp4, or is left out"),
            Refusal::Flow => f.write_str("there is no such flow"),
            Refusal::Full(most, of) => write!(
                f,
                "all places for {of} are taken, {most} in all (layercast web --viewers)"
            ),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status(), format!("{self}\n")).into_response()
    }
}

/// A viewer that has a place.
pub struct Admitted {
    feed: Arc<Feed>,
    is_mp4: bool,
    _place: OwnedSemaphorePermit,
}

impl Shared {
    /// A place for a viewer, whatever its transport.
    pub fn admit(&self, asked: &Asked) -> Result<Admitted, Refusal> {
        if !self.access.takes(&asked.ticket, Instant::now()) {
            return Err(Refusal::Ticket);
        }
        let flow = asked.flow.as_deref().unwrap_or("0");
        let flow = flow.parse().map_err(|_| Refusal::Number)?;
        let level = asked.level.as_deref().unwrap_or("auto");
        let wanted = Wanted::parse(level).ok_or(Refusal::Level)?;
        let is_mp4 = match asked.form.as_deref() {
            None => false,
            Some("mp4") => true,
            Some(_) => return Err(Refusal::Form),
        };
        let place = Arc::clone(&self.viewers).try_acquire_owned();
        let place = place.map_err(|_| Refusal::Full(self.most, "viewers"))?;
        let feed = self.feeds.get(flow, wanted).ok_or(Refusal::Flow)?;
        Ok(Admitted {
            feed,
            is_mp4,
            _place: place,
        })
    }
}

/// The connection of a viewer.
pub trait Pipe: Send {
    /// Sends a text; `false` if the viewer is gone, or takes nothing.
    fn text(&mut self, text: String) -> impl Future<Output = bool> + Send;
    /// Sends a picture or a frame of sound; `false` as above.
    fn media(&mut self, message: Bytes, is_sound: bool) -> impl Future<Output = bool> + Send;
    /// Asks whether the viewer is there, where the connection does not do so itself; `false` if the viewer is gone.
    fn ask(&mut self) -> impl Future<Output = bool> + Send {
        async { true }
    }
    /// Waits until the viewer is gone, or has not answered in time.
    fn gone(&mut self) -> impl Future<Output = ()> + Send;
}

/// The media of a flow over a WebSocket.
pub async fn watch(
    State(shared): State<Arc<Shared>>,
    asked: Asked,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let (refusal, upgrade) = match (shared.admit(&asked), upgrade) {
        (Ok(admitted), Ok(upgrade)) => {
            return upgrade.on_upgrade(move |socket| view(Viewer::new(socket, PATIENCE), admitted));
        }
        (Ok(_), Err(rejection)) => {
            let text = format!("media come over a WebSocket or WebTransport: {rejection}\n");
            return (rejection.status(), text).into_response();
        }
        (Err(refusal), Ok(upgrade)) => (refusal, upgrade),
        (Err(refusal), Err(_)) => return refusal.into_response(),
    };
    // A page sees why a WebSocket is closed, and not with which status a request for one is refused.
    match Arc::clone(&shared.refusals).try_acquire_owned() {
        Ok(place) if !matches!(refusal, Refusal::Ticket) => {
            upgrade.on_upgrade(async move |socket| {
                socket::refuse(socket, refusal).await;
                drop(place);
            })
        }
        _ => refusal.into_response(),
    }
}

/// Sends a viewer the media until it leaves.
pub async fn view(mut pipe: impl Pipe, admitted: Admitted) {
    let feed = &*admitted.feed;
    let (queue, mut state) = feed.hub.watch();
    state.mark_changed();
    let mut status = interval(STATUS_EVERY);
    let mut told = hub::State::default();
    let mut mp4 = admitted.is_mp4.then(Mp4::default);
    loop {
        let sent = tokio::select! {
            biased;
            () = pipe.gone() => break,
            changed = state.changed() => match changed {
                Ok(()) => tell(&mut pipe, feed, &mut state, &mut told, queue.skipped()).await,
                Err(_) => break,
            },
            _ = status.tick() => pipe.ask().await && tell_status(&mut pipe, feed, &told, queue.skipped()).await,
            chunk = queue.next() => match &mut mp4 {
                None => pipe.media(chunk.message.clone(), !chunk.is_picture).await,
                Some(mp4) => {
                    let stream = told.stream.as_deref();
                    let messages = stream.map(|it| mp4.messages(&chunk, &it.video));
                    fragments(&mut pipe, messages.unwrap_or_default(), &chunk).await
                }
            },
        };
        if !sent {
            break;
        }
    }
}

/// Sends what a chunk is in fragmented MP4.
async fn fragments(pipe: &mut impl Pipe, messages: Vec<Bytes>, chunk: &Chunk) -> bool {
    for message in messages {
        if !pipe.media(message, !chunk.is_picture).await {
            return false;
        }
    }
    true
}

/// Tells a viewer what is new of its stream.
async fn tell(
    pipe: &mut impl Pipe,
    feed: &Feed,
    state: &mut watch::Receiver<hub::State>,
    told: &mut hub::State,
    skipped: u64,
) -> bool {
    let now = state.borrow_and_update().clone();
    let before = std::mem::replace(told, now);
    let stream = told.stream.as_deref();
    if let Some(stream) = stream.filter(|_| told.stream != before.stream)
        && !tell_text(pipe, &Text::Stream(stream)).await
    {
        return false;
    }
    tell_status(pipe, feed, told, skipped).await
}

async fn tell_status(pipe: &mut impl Pipe, feed: &Feed, told: &hub::State, skipped: u64) -> bool {
    let status = Text::Status {
        problem: told.problem.as_deref(),
        member: &feed.member,
        skipped,
    };
    tell_text(pipe, &status).await
}

async fn tell_text(pipe: &mut impl Pipe, text: &Text<'_>) -> bool {
    match serde_json::to_string(text) {
        Ok(text) => pipe.text(text).await,
        Err(_) => false,
    }
}
