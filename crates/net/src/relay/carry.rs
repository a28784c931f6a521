use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use layercast_core::Span;
use layercast_wire::{MAX_LINE, Signal};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::join::source_towards;

/// Pieces of a connection in transit simultaneously.
const PIECES: usize = 64;
const PIECE: usize = 16 << 10;

/// A connection asks for the datagram port of its client, as seen from the far side.
pub struct Wanted {
    /// Address at which the client receives datagrams; `None`: the request only announces a connection.
    pub client: Option<SocketAddr>,
    /// The address of this host that the client calls.
    pub here: Option<IpAddr>,
    /// Where the far side takes them, once it has said so.
    pub far: Option<SocketAddr>,
    /// The port of the client towards the far side, and ours towards the client.
    pub reply: oneshot::Sender<(u16, u16)>,
}

/// Carries TCP connections between the same addresses as the datagrams: late, but whole.
///
/// A neighbour of ours says in its first line on which port it takes datagrams. That line is
/// changed, as a NAT would change it, so that they come through the path as well; everything else
/// continues as it is.
#[derive(Clone, Copy)]
pub struct Carrier {
    pub to: SocketAddr,
    pub there: Span,
    pub back: Span,
}

impl Carrier {
    /// Takes connections until `shutdown`, and brings what they ask for.
    pub fn listen(
        self,
        listener: TcpListener,
        shutdown: &CancellationToken,
    ) -> mpsc::Receiver<Wanted> {
        let (asks, wanted) = mpsc::channel(PIECES);
        let shutdown = shutdown.clone();
        tokio::spawn(async move {
            while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
                let Ok((stream, client)) = accepted else {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let (asks, shutdown) = (asks.clone(), shutdown.clone());
                tokio::spawn(async move {
                    // A connection that fails ends as connections do; its program sees it.
                    let carried = self.carry(stream, client, asks);
                    shutdown.run_until_cancelled(carried).await;
                });
            }
        });
        wanted
    }

    async fn carry(
        self,
        near: TcpStream,
        client: SocketAddr,
        asks: mpsc::Sender<Wanted>,
    ) -> io::Result<()> {
        let socket = match self.to {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // The same address as the datagrams of the client have on that side.
        socket.bind(SocketAddr::new(source_towards(self.to), 0))?;
        let far = socket.connect(self.to).await?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let here = near.local_addr().ok().map(|addr| addr.ip());
        ask(&asks, (None, here), None).await;
        let ((mut near_in, near_out), (mut far_in, far_out)) =
            (near.into_split(), far.into_split());
        let (first, hello) = first_line(&mut near_in).await?;
        let mut datagrams = None;
        let first = match hello {
            Some(Signal::Hello { udp_port: 0, .. }) => first,
            Some(mut hello @ Signal::Hello { .. }) => {
                let at = SocketAddr::new(client.ip(), port_of(&mut hello, None));
                datagrams = Some(at);
                match ask(&asks, (Some(at), here), None).await {
                    Some((port, _)) => changed(hello, port, first),
                    None => first,
                }
            }
            _ => first,
        };
        let answers = async {
            let (mut first, hello) = match datagrams {
                Some(_) => first_line(&mut far_in).await?,
                None => (Vec::new(), None),
            };
            if let (Some(client), Some(mut hello)) = (datagrams, hello) {
                let far = SocketAddr::new(self.to.ip(), port_of(&mut hello, None));
                if let Some((_, ours)) = ask(&asks, (Some(client), here), Some(far)).await {
                    first = changed(hello, ours, first);
                }
            }
            delayed(first, far_in, near_out, self.back).await
        };
        let (there, back) = tokio::join!(delayed(first, near_in, far_out, self.there), answers);
        there.and(back)
    }
}

async fn ask(
    asks: &mpsc::Sender<Wanted>,
    (client, here): (Option<SocketAddr>, Option<IpAddr>),
    far: Option<SocketAddr>,
) -> Option<(u16, u16)> {
    let (reply, answer) = oneshot::channel();
    let wanted = Wanted {
        client,
        here,
        far,
        reply,
    };
    asks.send(wanted).await.ok()?;
    answer.await.ok().filter(|(port, _)| *port != 0)
}

/// The datagram port in a hello, changed to `to` if there is one.
fn port_of(hello: &mut Signal, to: Option<u16>) -> u16 {
    match hello {
        Signal::Hello { udp_port, .. } => {
            let before = *udp_port;
            *udp_port = to.unwrap_or(before);
            before
        }
        _ => 0,
    }
}

/// The line of `hello` with another port; `line` if it has none.
fn changed(mut hello: Signal, port: u16, line: Vec<u8>) -> Vec<u8> {
    match port_of(&mut hello, Some(port)) {
        0 => line,
        _ => hello.to_line().unwrap_or(line),
    }
}

/// The first octets, up to the end of the first line if there is one, and its signal.
async fn first_line(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(Vec<u8>, Option<Signal>)> {
    let mut line = Vec::new();
    loop {
        let byte = from.read_u8().await;
        match byte {
            Ok(byte) => line.push(byte),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok((line, None)),
            Err(error) => return Err(error),
        }
        // Only a line of ours begins like an object.
        if line[0] != b'{' || line.len() >= MAX_LINE {
            return Ok((line, None));
        }
        if line.last() == Some(&b'\n') {
            let signal = Signal::from_line(&line).ok();
            return Ok((line, signal));
        }
    }
}

/// Writes the data read, each piece after the delay, and closes when the other side has closed.
async fn delayed(
    first: Vec<u8>,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Span,
) -> io::Result<()> {
    let delay = Duration::from_nanos(delay.as_ns());
    let (put, mut take) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES);
    let reading = async move {
        if !first.is_empty() && put.send((Instant::now() + delay, first)).await.is_err() {
            return Ok(());
        }
        let mut piece = vec![0; PIECE];
        loop {
            let count = from.read(&mut piece).await?;
            let sent = put.send((Instant::now() + delay, piece[..count].to_vec()));
            if count == 0 || sent.await.is_err() {
                return Ok(());
            }
        }
    };
    let writing = async move {
        while let Some((at, piece)) = take.recv().await {
            sleep_until(at).await;
            if piece.is_empty() {
                break;
            }
            to.write_all(&piece).await?;
        }
        to.shutdown().await
    };
    let (read, written): (io::Result<()>, _) = tokio::join!(reading, writing);
    read.and(written)
}
