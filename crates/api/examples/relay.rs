//! Relays a camera: takes live MPEG-TS or RTP at a UDP address and offers it to receivers.
//!
//! `relay 127.0.0.1:5000 0.0.0.0:7400`, with an encoder that sends to port 5000.

use std::error::Error;

use layercast::net::{Frames, LiveFrom, LiveInput, LiveOptions};
use layercast::{Group, Server, Span};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(camera), Some(listen)) = (words.next(), words.next()) else {
        return Err("usage: relay CAMERA_ADDRESS:PORT LISTEN_ADDRESS:PORT".into());
    };
    // Measures the stream for 3 s: layers, rates, frame rate, GOP.
    let options = LiveOptions::default();
    let mut input = LiveInput::open(LiveFrom::Udp(camera.parse()?))?;
    let learned = input
        .learn(&options, |progress| eprintln!("{progress}"))
        .await?;

    let server = Server::bind(&listen).await?;
    let group = Group::new("camera")
        .spec(learned.spec.clone())
        .delay_max(Span::from_secs(1));
    let group = server.open_group(group).await?;
    println!("{}", group.url());

    let (frames, mut events) = input.start(&options, &learned.spec, group.live_flow());
    let Frames::Live(mut frames) = frames else {
        return Err("a live input has a channel of frames".into());
    };
    loop {
        tokio::select! {
            frame = frames.recv() => match frame {
                Some(live) => group.send(live.frame.into()).await?,
                None => break,
            },
            // Silence, a restarted encoder, a stream above its reserved rate.
            Some(event) = events.recv() => eprintln!("{event:?}"),
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    group.close(Span::from_secs(5)).await?;
    Ok(())
}
