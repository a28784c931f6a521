//! A sink: prints the frames of the flow at a URL when they are due.

use layercast::{Result, join};

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).expect("usage: sink URL");
    let (mut media, _control, _management) = join(&url).await?;
    while let Some(frame) = media.recv().await {
        println!("{} of {} bytes", frame.layer, frame.data.len());
    }
    Ok(())
}
