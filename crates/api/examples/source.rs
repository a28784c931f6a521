//! A source: ten seconds of frames in two layers. Prints the URL to join.

use layercast::{Frame, Group, Result, Server, Span};

#[tokio::main]
async fn main() -> Result<()> {
    let server = Server::bind("127.0.0.1:0").await?;
    let group = server.open_group(Group::new("film")).await?;
    for n in 0..240u8 {
        // A real source sends pictures: I pictures as base, P pictures as E1, B pictures as E2.
        let frame = match n % 12 {
            0 => Frame::base(vec![n; 4_000]),
            _ => Frame::e1(vec![n; 1_000]),
        };
        group.send(frame).await?;
        if n == 12 {
            // The rates are learned from the first group of pictures; from now on receivers can join.
            println!("{}", group.url());
            group.wait_for_members(1).await;
        }
    }
    group.close(Span::from_secs(5)).await?;
    Ok(())
}
