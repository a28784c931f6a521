//! A flow of a film, and the pages that show it.

use std::io::Cursor;
use std::process::Command;
use std::time::Duration;

use layercast::{Group, Identity, LiveOptions, OpenStream, Server, Span};
use layercast_web::{Board, Flow, Web, WebConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

pub const TOKEN: &str = "token-of-the-test";

/// Pages that run, and what they say of themselves.
pub struct Site {
    pub address: String,
    pub url: String,
    pub board: Board,
    pub reports: mpsc::Receiver<Value>,
    _stop: DropGuard,
    _flow: Option<(Server, OpenStream)>,
}

/// Whether a test that needs a program must have it.
pub fn is_required() -> bool {
    std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1")
}

/// What ffmpeg makes of a test picture of `seconds` with these arguments; `None` without ffmpeg.
pub fn made(seconds: u32, args: &str) -> Option<Vec<u8>> {
    let picture = format!("testsrc2=size=320x180:rate=25:duration={seconds}");
    let sound = format!("sine=frequency=440:sample_rate=48000:duration={seconds}");
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-f", "lavfi", "-i", &picture])
        .args(["-f", "lavfi", "-i", &sound])
        .args(args.split(' '))
        .arg("pipe:1")
        .output();
    assert!(made.is_ok() || !is_required(), "ffmpeg is missing");
    let made = made.ok()?;
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    Some(made.stdout)
}

/// A film of `seconds` with sound as a transport stream; `None` without ffmpeg.
pub fn film(seconds: u32) -> Option<Vec<u8>> {
    let encoder = "-c:v libx264 -preset veryfast -pix_fmt yuv420p -g 12 -bf 2 \
                   -x264-params scenecut=0:b-adapt=0:b-pyramid=none -c:a aac -f mpegts";
    made(seconds, encoder)
}

/// A film of `seconds` in AV1, without sound.
pub fn av1(seconds: u32) -> Option<Vec<u8>> {
    let encoder =
        "-map 0:v -c:v libaom-av1 -cpu-used 8 -usage realtime -pix_fmt yuv420p -g 12 -f ivf";
    made(seconds, encoder)
}

/// Waits for something that has to happen within a minute.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let within = timeout(Duration::from_secs(60), future).await;
    within.unwrap_or_else(|_| panic!("{what} did not happen"))
}

impl Site {
    /// Pages for these flows.
    pub async fn of(flows: Vec<Flow>, viewers: usize) -> Site {
        Site::at(0, flows, viewers).await
    }

    /// As [`of`](Site::of), at a port.
    async fn at(port: u16, flows: Vec<Flow>, viewers: usize) -> Site {
        let (to, reports) = mpsc::channel(64);
        let config = WebConfig {
            listen: ([127, 0, 0, 1], port).into(),
            names: Vec::new(),
            token: Some(TOKEN.to_owned()),
            flows,
            identity: None,
            member: "web".to_owned(),
            viewers,
            reports: Some(to),
        };
        let web = Web::bind(config).await.expect("a server");
        let (url, board, stop) = (web.url().to_owned(), web.board(), CancellationToken::new());
        let address = web.address().to_string();
        tokio::spawn(web.serve(stop.clone()));
        Site {
            address,
            url,
            board,
            reports,
            _stop: stop.drop_guard(),
            _flow: None,
        }
    }

    /// Pages for a film of `seconds`, which is served at its pace.
    pub async fn with_film(seconds: u32, viewers: usize) -> Option<Site> {
        Site::with_film_at(0, seconds, viewers).await
    }

    /// As [`with_film`](Site::with_film), at a port.
    pub async fn with_film_at(port: u16, seconds: u32, viewers: usize) -> Option<Site> {
        Some(Site::with_media(port, film(seconds)?, viewers).await)
    }

    /// As [`with_film_at`](Site::with_film_at), of any media.
    pub async fn with_media(port: u16, film: Vec<u8>, viewers: usize) -> Site {
        let identity = Identity::generate().expect("an identity");
        let server = Server::bind_live("127.0.0.1:0", identity)
            .await
            .expect("a server");
        let group = Group::new("film").delay_max(Span::from_ms(500)).wait_for(1);
        let stream = server.serve_stream(group, LiveOptions::default(), Cursor::new(film));
        let stream = stream.expect("a stream");
        soon("serving", stream.served()).await.expect("a flow");
        let flow = Flow {
            name: "film".to_owned(),
            url: stream.url(),
        };
        let site = Site::at(port, vec![flow], viewers).await;
        Site {
            _flow: Some((server, stream)),
            ..site
        }
    }

    /// Sends a request, with further lines in its head; gives head and body of the answer.
    pub async fn ask(&self, request: &str, head: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address)
            .await
            .expect("a connection");
        let text = format!("{request} HTTP/1.1\r\nConnection: close\r\n{head}\r\n");
        stream.write_all(text.as_bytes()).await.expect("a request");
        let mut answer = Vec::new();
        soon("an answer", stream.read_to_end(&mut answer))
            .await
            .expect("an answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }

    /// A connection that has the place of a dashboard.
    pub async fn hold_board(&self) -> TcpStream {
        let ticket = self.ticket().await;
        let mut stream = TcpStream::connect(&self.address)
            .await
            .expect("a connection");
        let request = format!(
            "GET /api/board?ticket={ticket} HTTP/1.1\r\nHost: {}\r\n\r\n",
            self.address
        );
        stream
            .write_all(request.as_bytes())
            .await
            .expect("a request");
        let mut status = [0; 12];
        soon("an answer", stream.read_exact(&mut status))
            .await
            .expect("an answer");
        assert_eq!(&status, b"HTTP/1.1 200");
        stream
    }

    /// A ticket.
    pub async fn ticket(&self) -> String {
        self.grant().await["ticket"]
            .as_str()
            .expect("a ticket")
            .to_owned()
    }

    /// A ticket, and where WebTransport is to be had.
    pub async fn grant(&self) -> Value {
        let head = format!(
            "Host: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n",
            self.address
        );
        let (head, body) = self.ask("POST /api/ticket", &head).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// A state of the dashboard with one receiver.
    pub fn show(&self, level: u8, why: &str, zone: &str) {
        let counts = |n: u64| json!({ "BL": n, "E1": 0, "E2": 0 });
        let report = json!({ "level": level, "frames": counts(100), "lost": counts(0), "late": 0, "delay_ms_p50": 12.0,
            "delay_ms_p99": 30.0, "playout_ms": 120.0, "outage_ms": 0, "quality": { "zone": zone } });
        let member = json!({ "member": { "name": "phone", "id": 7 }, "flow": 1, "node": "hub", "level": level, "wanted": 2,
            "report": report, "report_age_ms": 100, "upstream": "source", "why": why });
        let flow = json!({ "name": "film", "id": 1, "source": "source", "core": null, "members": [member] });
        let stats = json!({ "flows": [flow], "links": [] });
        self.board.show([("hub:7400", Ok(stats))]);
    }
}
