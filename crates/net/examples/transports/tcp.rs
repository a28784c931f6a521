//! TCP of the system, with TCP_NODELAY.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::load::{Load, MESSAGE, Taken};
use crate::{Failed, ready};

const BUFFER: usize = 256 << 10;

pub async fn take(address: SocketAddr, taken: &mut Taken) -> Result<(), Failed> {
    let listener = TcpListener::bind(address).await?;
    ready(listener.local_addr()?);
    let (mut stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; BUFFER];
    let paced = stream.read_u8().await? == 1;
    let mut part = 0;
    loop {
        let got = stream.read(&mut buffer[part..]).await?;
        if got == 0 {
            taken.end();
            return Ok(());
        }
        taken.bytes(got);
        if paced {
            let there = part + got;
            part = there % MESSAGE;
            taken.messages(&buffer[..there - part]);
            buffer.copy_within(there - part..there, 0);
        }
    }
}

pub async fn send(address: SocketAddr, load: &mut Load) -> Result<(), Failed> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_u8(u8::from(load.is_paced())).await?;
    load.start();
    while let Some(piece) = load.next().await {
        stream.write_all(&piece).await?;
    }
    stream.shutdown().await?;
    // The end of the other side says that everything has arrived.
    let _ = stream.read_u8().await;
    Ok(())
}
