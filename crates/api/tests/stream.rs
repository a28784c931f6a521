//! Streams that are served as groups: an MPEG transport stream of ffmpeg, read as a pipe is.

use std::io::Cursor;
use std::process::Command;
use std::time::Duration;

// Frames come in time on a machine in time.
use flaky_test::flaky_test as real_time;
use layercast::{Group, Identity, Join, Layer, LiveOptions, Server, Span};
use tokio::time::timeout;

/// A film of four seconds at 25 pictures/s as a transport stream; `None` without ffmpeg.
fn film() -> Option<Vec<u8>> {
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-f", "lavfi"])
        .args(["-i", "testsrc2=size=160x120:rate=25:duration=4"])
        .args([
            "-c:v", "libx264", "-preset", "veryfast", "-g", "25", "-bf", "2",
        ])
        .args([
            "-x264-params",
            "scenecut=0:b-pyramid=none",
            "-f",
            "mpegts",
            "pipe:1",
        ])
        .output();
    let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(made.is_ok() || !required, "ffmpeg is missing");
    let made = made.ok()?;
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    Some(made.stdout)
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let within = timeout(Duration::from_secs(60), future).await;
    within.unwrap_or_else(|_| panic!("{what} did not happen"))
}

#[real_time(tokio)]
async fn a_stream_is_served_whole_and_ends_with_its_reader() {
    let Some(film) = film() else { return };
    let server = Server::bind_live("127.0.0.1:0", Identity::generate().unwrap())
        .await
        .unwrap();
    let group = Group::new("film").delay_max(Span::from_ms(300)).wait_for(1);
    let stream = server
        .serve_stream(group, LiveOptions::default(), Cursor::new(film))
        .unwrap();
    soon("serving", stream.served()).await.unwrap();
    let joined = soon("a join", Join::new(stream.url()).connect()).await;
    let (mut media, _control, _management) = joined.unwrap();
    let mut pictures = [0; 3];
    while let Some(frame) = soon("a frame or the end", media.recv()).await {
        assert_eq!(frame.data.len() % 188, 0, "whole packets");
        let layer = Layer::ALL
            .iter()
            .position(|&layer| layer == frame.layer)
            .unwrap();
        pictures[layer] += usize::from(!frame.sound);
    }
    // A stored stream waits for its first member: nothing of it is missing, and it has three layers.
    assert_eq!(pictures.iter().sum::<usize>(), 100, "{pictures:?}");
    assert!(pictures.iter().all(|&count| count > 10), "{pictures:?}");
    soon("the end", stream.ended()).await.unwrap();
    soon("closing", server.close()).await.unwrap();
}

#[tokio::test]
async fn what_is_no_stream_is_a_failure_of_the_stream_alone() {
    let server = Server::bind("127.0.0.1:0").await.unwrap();
    let serve = |name: &str| {
        let noise = Cursor::new(vec![7; 20_000]);
        server.serve_stream(Group::new(name), LiveOptions::default(), noise)
    };
    let stream = serve("noise").unwrap();
    assert_eq!(
        serve("noise").unwrap_err().code(),
        "EINVAL",
        "the name is taken"
    );
    for _ in 0..2 {
        let error = soon("a failure", stream.served()).await.unwrap_err();
        assert_eq!(error.code(), "ENET", "{error}");
        assert!(soon("a failure", stream.ended()).await.is_err());
    }
    let ended = stream.ended();
    drop(stream);
    assert!(soon("the end", ended).await.is_err());
    // The name is free again.
    assert!(serve("noise").is_ok());
}

#[tokio::test]
async fn the_url_of_a_host_that_listens_on_any_address_can_be_called() {
    let server = Server::bind("0.0.0.0:0").await.unwrap();
    let group = server.open_group(Group::new("film")).await.unwrap();
    assert!(!group.url().contains("//0.0.0.0"), "{}", group.url());
    assert!(
        group.url_at("example.org").contains("//example.org:"),
        "{}",
        group.url_at("example.org")
    );
}
