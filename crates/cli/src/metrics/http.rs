//! The HTTP server of `--metrics`: a thread of its own, so that a scrape never waits for the command, nor the command for it.

use std::convert::Infallible;
use std::io;
use std::net;
use std::sync::Arc;
use std::thread;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use layercast_web::Caller;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::time::{Duration, timeout};

use super::{State, encode};

/// Connections that are answered at a time. One without a request gives its place to a new one.
const MOST: usize = 16;
/// Time that a connection may take in all.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that a node has to answer a scrape.
const ANSWER: Duration = Duration::from_secs(3);
const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

type Answer = Response<Full<Bytes>>;

/// Serves `state` at `listener` until the process ends.
pub fn serve(listener: net::TcpListener, state: Arc<State>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let serving = move || runtime.block_on(accept(listener, state));
    thread::Builder::new()
        .name("metrics".into())
        .spawn(serving)
        .map(drop)
}

async fn accept(listener: net::TcpListener, state: Arc<State>) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let serve = |stream, caller| {
        let connection = connection(stream, caller, Arc::clone(&state));
        async move {
            // One that is slow, or sends what is no HTTP, is not answered.
            let _ = timeout(PATIENCE, connection).await;
        }
    };
    layercast_web::accept(listener, MOST, serve).await;
}

async fn connection(stream: TcpStream, caller: Caller, state: Arc<State>) -> hyper::Result<()> {
    let service = service_fn(|request| {
        caller.asks();
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(answer(&request, &state).await) }
    });
    http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn answer(request: &Request<Incoming>, state: &State) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = reply(
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT,
            "read with GET\n".into(),
        );
        answer
            .headers_mut()
            .insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match request.uri().path() {
        "/metrics" => metrics(state).await,
        "/health" => {
            let (is_well, health) = state.health();
            let status = match is_well {
                true => StatusCode::OK,
                false => StatusCode::SERVICE_UNAVAILABLE,
            };
            reply(status, JSON, format!("{health}\n"))
        }
        _ => reply(
            StatusCode::NOT_FOUND,
            TEXT,
            "there are /metrics and /health\n".into(),
        ),
    }
}

async fn metrics(state: &State) -> Answer {
    let values = timeout(ANSWER, state.values()).await;
    let text = match values {
        Ok(Ok(values)) => encode::text(values).map_err(|error| error.to_string()),
        Ok(Err(failure)) => Err(failure.to_string()),
        Err(_) => Err(format!(
            "the node does not answer within {} s",
            ANSWER.as_secs()
        )),
    };
    match text {
        Ok(text) => reply(StatusCode::OK, PROMETHEUS, text),
        Err(why) => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, why + "\n"),
    }
}

fn reply(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
