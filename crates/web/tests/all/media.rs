//! What players get over their WebSocket.

use std::pin::Pin;

use flaky_test::flaky_test as real_time;
use futures_util::StreamExt;
use futures_util::stream::Peekable;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::site::{Site, soon};

/// A viewer, or the code with which its WebSocket was closed, or the status of the answer.
pub async fn watch(site: &Site, query: &str) -> Result<Peekable<WebSocketStream<TcpStream>>, u16> {
    let ticket = site.ticket().await;
    let url = format!("ws://{}/api/watch?ticket={ticket}{query}", site.address);
    let stream = TcpStream::connect(&site.address)
        .await
        .expect("a connection");
    let request = url.into_client_request().expect("a request");
    match client_async(request, stream).await {
        Ok((socket, _)) => {
            let mut socket = socket.peekable();
            match soon("a message", Pin::new(&mut socket).peek()).await {
                Some(Ok(Message::Close(Some(frame)))) => {
                    assert!(!frame.reason.is_empty() && frame.reason.len() < 124);
                    Err(frame.code.into())
                }
                _ => Ok(socket),
            }
        }
        Err(Error::Http(answer)) => Err(answer.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

#[real_time(tokio)]
async fn a_viewer_gets_the_stream_and_then_pictures_and_sound_from_a_key_picture_on() {
    let Some(site) = Site::with_film(6, 2).await else {
        return;
    };
    let mut socket = watch(&site, "").await.expect("a viewer");
    let (mut streams, mut pictures, mut sounds, mut last) = (Vec::new(), Vec::new(), 0, None);
    while pictures.len() < 60 {
        match soon("a message", socket.next())
            .await
            .expect("more")
            .expect("a message")
        {
            Message::Text(text) => {
                let text: Value = serde_json::from_str(&text).expect("JSON");
                if text["type"] == "stream" {
                    assert!(pictures.is_empty() || text["sound"].is_object(), "{text}");
                    streams.push(text);
                }
            }
            Message::Binary(message) => {
                let time = i64::from_be_bytes(message[4..12].try_into().expect("a time"));
                match message[0] {
                    1 => {
                        assert!(
                            !streams.is_empty(),
                            "the description of the stream comes before its pictures"
                        );
                        // Annex B.
                        assert!(
                            message[12..].starts_with(&[0, 0, 0, 1])
                                || message[12..].starts_with(&[0, 0, 1])
                        );
                        pictures.push((message[1] & 1 == 1, time));
                    }
                    2 => {
                        assert_eq!(message[12], 0xFF, "ADTS");
                        if let Some(last) = last.replace(time) {
                            // 1,024 samples of 48 kHz.
                            assert!((time - last - 21_333_i64).abs() < 50, "{last} {time}");
                        }
                        sounds += 1;
                    }
                    kind => panic!("kind {kind}"),
                }
            }
            // Whether it is still there.
            Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(pictures[0].0, "the first one is a key picture");
    let keys = pictures.iter().filter(|it| it.0).count();
    assert!(
        (4..=7).contains(&keys),
        "one of 12 is a key picture: {keys} of 60"
    );
    let mut times: Vec<i64> = pictures.iter().map(|it| it.1).collect();
    times.sort_unstable();
    assert!(
        times.windows(2).all(|it| it[1] - it[0] == 40_000),
        "25 pictures/s: {times:?}"
    );
    assert!(sounds > 60, "{sounds}");
    assert_eq!(
        streams[0]["video"]["codec"].as_str().map(|it| &it[..5]),
        Some("avc1.")
    );
    assert_eq!(streams[0]["video"]["size"], serde_json::json!([320, 180]));
}

#[real_time(tokio)]
async fn viewers_have_places_levels_and_flows() {
    let Some(site) = Site::with_film(6, 1).await else {
        return;
    };
    assert_eq!(watch(&site, "&flow=9").await.err(), Some(4_404));
    assert_eq!(watch(&site, "&level=e7").await.err(), Some(4_400));
    assert_eq!(watch(&site, "&form=avi").await.err(), Some(4_400));
    let mut socket = watch(&site, "&level=base").await.expect("a viewer");
    assert_eq!(watch(&site, "").await.err(), Some(4_503));
    // The base layer has no B pictures, of which two are between references: it has 5 of 12 pictures, most of them 120 ms apart.
    let mut times = Vec::new();
    while times.len() < 12 {
        if let Message::Binary(message) = soon("a message", socket.next())
            .await
            .expect("more")
            .expect("a message")
            && message[0] == 1
        {
            times.push(i64::from_be_bytes(
                message[4..12].try_into().expect("a time"),
            ));
        }
    }
    times.sort_unstable();
    let steps: Vec<i64> = times.windows(2).map(|it| it[1] - it[0]).collect();
    assert!(
        steps.iter().filter(|it| **it == 120_000).count() >= 6,
        "{steps:?}"
    );
    drop(socket);
    for _ in 0..50 {
        if watch(&site, "").await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the place of a viewer that left stays taken");
}
