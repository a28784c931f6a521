//! The daemon of XTP: whatever a client sends, it is a message that comes back as it was or an error, and the server stays well.

use bytes::{Bytes, BytesMut};
use layercast_core::{Machine, Off, Span, Time};
use layercast_wire::Payload;
use layercast_xtp::Endpoint;
use layercast_xtp::remote::{Frames, Link, Report, Request, Server, ServerLimits, take_frame};

const LIMITS: ServerLimits = ServerLimits {
    clients: 2,
    contexts: 8,
    memory: 16 << 20,
};

/// All that one side of a connection sends, to a server as requests and to a link as reports.
pub fn xtpd(data: &[u8]) {
    requests(data);
    reports(data);
}

fn requests(data: &[u8]) {
    let now = Time::ZERO;
    let local = ([127, 0, 0, 1], 7_000).into();
    let mut machine = Endpoint::new(64, "fuzz", &[1; 32]);
    let mut server = Server::new(local, 1_448, Span::ZERO, LIMITS);
    let client = server.enter(None).expect("the first");
    let other = server.enter(None).expect("the second");
    let mut input = BytesMut::from(data);
    let mut link = Link::new();
    while let Ok(Some(frame)) = take_frame(&mut input) {
        if let Ok((request, data)) = Request::decode(frame.clone()) {
            let mut frames = Frames::default();
            frames.push(&request, &Payload::Bytes(data.clone()));
            assert_eq!(Request::decode(only(&mut frames)), Ok((request, data)));
        }
        if let Err(why) = server.handle(now, &mut machine, client, frame) {
            server.expel(now, &mut machine, client, why);
            break;
        }
        while machine.poll_transmit(now, &mut Off).is_some() {}
        if let Some(frames) = server.frames(&mut machine, client) {
            let mut said = BytesMut::from(&all(frames)[..]);
            while let Some(frame) = take_frame(&mut said).expect("ours") {
                link.handle(frame).expect("a report of ours");
            }
            assert!(said.is_empty());
        }
        let stats = server.stats(&machine);
        for client in &stats.clients {
            assert!(client.contexts <= LIMITS.contexts && client.memory <= LIMITS.memory);
        }
    }
    server.leave(now, &mut machine, client);
    server.leave(now, &mut machine, other);
    server.abort(now, &mut machine);
    assert!(server.is_idle());
}

fn reports(data: &[u8]) {
    let mut link = Link::new();
    let mut input = BytesMut::from(data);
    while let Ok(Some(frame)) = take_frame(&mut input) {
        if let Ok((report, data)) = Report::decode(frame.clone()) {
            let mut frames = Frames::default();
            frames.push(&report, &Payload::Bytes(data.clone()));
            assert_eq!(Report::decode(only(&mut frames)), Ok((report, data)));
        }
        if link.handle(frame).is_err() {
            break;
        }
    }
}

/// Everything that waits, as it goes out.
fn all(frames: &mut Frames) -> Vec<u8> {
    let mut out = Vec::new();
    while !frames.is_empty() {
        let mut pieces = [std::io::IoSlice::new(&[])];
        frames.slices(&mut pieces);
        out.extend_from_slice(&pieces[0]);
        let count = pieces[0].len();
        frames.advance(count);
    }
    out
}

/// The one frame that waits.
fn only(frames: &mut Frames) -> Bytes {
    let mut bytes = BytesMut::from(&all(frames)[..]);
    let frame = take_frame(&mut bytes).expect("ours").expect("whole");
    assert!(bytes.is_empty());
    frame
}
