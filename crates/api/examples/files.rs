//! Sends a file to many receivers; each repairs what it lost, and the digest is checked.
//!
//! On each receiver: `files receive FOLDER ADDRESS:PORT`. Then: `files send FILE ADDRESS:PORT...`

use std::error::Error;
use std::path::PathBuf;

use layercast::multicast::{Members, Outcome, SenderConfig};
use layercast::net::{
    CancellationToken, Destination, FileReceiver, Folder, RECEIVE_BUFFER, ReceiveConfig,
    SendConfig, receiver_identity, send_files,
};
use layercast::wire::multicast::MemberId;
use layercast::{Off, Rate, Span};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", folder, address] => receive(folder.into(), address).await,
        ["send", file, ref to @ ..] if !to.is_empty() => send(file.into(), to).await,
        _ => {
            Err("usage: files receive FOLDER ADDRESS:PORT | files send FILE ADDRESS:PORT...".into())
        }
    }
}

async fn send(file: PathBuf, to: &[&str]) -> Result<(), Box<dyn Error>> {
    let to = to
        .iter()
        .map(|address| address.parse())
        .collect::<Result<Vec<_>, _>>()?;
    let config = SendConfig {
        files: vec![file],
        members: Members::Anyone {
            expect: Some(to.len() as u32),
            most: 1_000,
            late: true,
        },
        to: Destination::Hosts(to),
        machine: SenderConfig::layercast(Rate::from_bps(100_000_000)),
    };
    // Progress events are dropped here: nothing reads the other end of the channel.
    let (events, _) = mpsc::channel(1);
    let report = send_files(config, CancellationToken::new(), events, &mut Off).await?;
    let mut complete = report.error.is_none() && report.sent.len() == 1;
    for file in &report.sent {
        for receiver in &file.receivers {
            println!(
                "{}: {:?} {:?}",
                file.name, receiver.address, receiver.outcome
            );
            complete &= receiver.outcome == Outcome::Delivered;
        }
        complete &= file.unreached.is_empty();
    }
    complete
        .then_some(())
        .ok_or_else(|| "a receiver does not have the file".into())
}

async fn receive(folder: PathBuf, address: &str) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(&folder)?;
    // The identity is kept in the folder, so that a receiver that is started again resumes.
    let identity = receiver_identity(&folder)?;
    let receiver = FileReceiver::bind(ReceiveConfig {
        name: format!("{identity:016x}"),
        folder: Folder {
            path: folder,
            overwrite: false,
            most: u64::MAX,
        },
        group: None,
        side: None,
        listen: address.parse()?,
        member: MemberId(identity),
        identity: Some(identity),
        buffer: RECEIVE_BUFFER,
        key: None,
        forever: false,
        patience: Span::from_secs(60),
    })?;
    let (events, _) = mpsc::channel(1);
    let received = receiver
        .run(CancellationToken::new(), events, &mut Off)
        .await?;
    for file in &received.files {
        println!("{} of {} bytes: {:?}", file.name.name, file.size, file.path);
    }
    let files = &received.files;
    let complete = received.missing == 0 && files.iter().all(|file| file.path.is_some());
    complete
        .then_some(())
        .ok_or_else(|| "the file is not here".into())
}
