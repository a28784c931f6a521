//! A sink: writes the flow at a URL to a file, and prints each frame when it is due.

use std::fs::File;
use std::io::Write;

use layercast::join;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(url), Some(path)) = (words.next(), words.next()) else {
        return Err("usage: sink URL FILE".into());
    };
    let (mut media, _control, _management) = join(&url).await?;
    let mut file = File::create(path)?;
    while let Some(frame) = media.recv().await {
        println!("{} of {} bytes", frame.layer, frame.data.len());
        file.write_all(&frame.data)?;
    }
    Ok(())
}
