//! What clients of the daemon of XTP say, for tests and for the fuzz corpus.

use bytes::Bytes;
use layercast_wire::{Payload, XtpService};
use layercast_xtp::remote::{Frames, Question, Request, VERSION};
use layercast_xtp::{ContextId, SendOptions, XtpConfig, XtpRate, XtpSocket};

/// One of each request, by name, with the data behind it.
pub fn requests() -> Vec<(&'static str, Request, Bytes)> {
    let id = ContextId::from_number(1);
    let remote = |host: &str| XtpSocket {
        net: host.parse().expect("an address"),
        port: 7_000,
    };
    let config = |service| Box::new(XtpConfig::new(service));
    let none = Bytes::new;
    let connect = Request::Connect {
        id,
        from: 6_000,
        remote: remote("127.0.0.1:9"),
        config: config(XtpService::STREAM),
    };
    let join = Request::Join {
        id,
        remote: remote("239.1.2.3:7000"),
        config: config(XtpService::RELIABLE_MULTICAST),
    };
    let listen = Request::Listen {
        port: 7_000,
        backlog: 4,
        config: config(XtpService::STREAM),
    };
    let how = SendOptions {
        tag: Some(*b"FRAME001"),
        priority: Some(3),
        ..SendOptions::MESSAGE
    };
    let rate = XtpRate {
        rate: 6_250_000,
        burst: 10_000,
    };
    let ask = |about| Request::Ask { number: 5, about };
    vec![
        ("hello", Request::Hello { version: VERSION }, none()),
        ("connect", connect, none()),
        ("join", join, none()),
        ("listen", listen, none()),
        ("accept", Request::Accept { port: 7_000, id }, none()),
        ("unlisten", Request::Unlisten { port: 7_000 }, none()),
        (
            "send",
            Request::Send { id, how },
            Bytes::from_static(b"xyz"),
        ),
        ("taken", Request::Taken { id, bytes: 700 }, none()),
        ("settle", Request::Settle { id, nth: 1 }, none()),
        ("post", Request::Post { id, bytes: 4_096 }, none()),
        (
            "traffic",
            Request::SetTraffic {
                id,
                output: rate,
                input: XtpRate::UNLIMITED,
            },
            none(),
        ),
        ("close-write", Request::CloseWrite { id }, none()),
        ("close-read", Request::CloseRead { id }, none()),
        ("close", Request::Close { id }, none()),
        ("abort", Request::Abort { id }, none()),
        ("info", ask(Question::Info(id)), none()),
        ("asks-traffic", ask(Question::Traffic(id)), none()),
        ("stats", ask(Question::Stats), none()),
    ]
}

/// These, as they are sent by one that has introduced itself and opened a context.
pub fn conversations() -> Vec<(&'static str, Vec<u8>)> {
    let all = requests();
    let begin = |name| all.iter().take(2).take_while(move |it| it.0 != name);
    let talk = all.iter().map(|it| {
        let mut frames = Frames::default();
        for (_, request, data) in begin(it.0).chain([it]) {
            frames.push(request, &Payload::Bytes(data.clone()));
        }
        (it.0, bytes(&mut frames))
    });
    talk.collect()
}

/// Everything that waits, as it goes out.
pub fn bytes(frames: &mut Frames) -> Vec<u8> {
    let mut out = Vec::new();
    while !frames.is_empty() {
        let mut pieces = [std::io::IoSlice::new(&[])];
        frames.slices(&mut pieces);
        let count = pieces[0].len();
        out.extend_from_slice(&pieces[0]);
        frames.advance(count);
    }
    out
}
