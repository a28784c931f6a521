//! RTP with parities of SMPTE 2022-1: the media, and the parities on the ports 2 and 4 above.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use layercast_fec::{SmpteReceiver, SmpteReceiverConfig, SmpteReceiverStats, SmpteStream};
use tokio::net::UdpSocket;
use tokio::time::{Duration, Instant, sleep_until};

use super::source::bind;
use crate::clock::Clock;
use crate::error::NetError;
use crate::writing::beside;

const LONGEST: usize = 65_536;
/// Longer than anything is waited for.
const NO_LIMIT: Duration = Duration::from_secs(86_400);

/// Three sockets, and what puts their packets in order.
pub(super) struct Protected {
    media: UdpSocket,
    columns: UdpSocket,
    rows: UdpSocket,
    buffers: [Vec<u8>; 3],
    receiver: SmpteReceiver,
}

impl Protected {
    pub fn open(address: SocketAddr) -> Result<Protected, NetError> {
        let media = bind(address)?;
        // The port that the system chose, if none was named.
        let port = media.local_addr().map_or(address.port(), |it| it.port());
        let listen = |stream: SmpteStream| {
            let media = SocketAddr::new(address.ip(), port);
            bind(beside(media, stream, "listening for parities")?)
        };
        let config = SmpteReceiverConfig {
            steady: true,
            ..SmpteReceiverConfig::default()
        };
        Ok(Protected {
            columns: listen(SmpteStream::Columns)?,
            rows: listen(SmpteStream::Rows)?,
            media,
            buffers: std::array::from_fn(|_| vec![0; LONGEST]),
            receiver: SmpteReceiver::new(config),
        })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.media.local_addr()
    }

    pub fn stats(&self) -> SmpteReceiverStats {
        self.receiver.stats()
    }

    /// The next media packet, in order.
    pub async fn next(&mut self) -> io::Result<Bytes> {
        loop {
            let now = Clock::get().now();
            if let Some(packet) = self.receiver.poll(now) {
                return Ok(Bytes::copy_from_slice(packet));
            }
            let due = self.receiver.next_timeout().map_or(NO_LIMIT, |at| {
                Duration::from_nanos(at.since(now).as_ps().div_ceil(1_000))
            });
            let [media, columns, rows] = &mut self.buffers;
            tokio::select! {
                // Media that wait are read before parities of them: what is there does not have to come back.
                biased;
                received = self.media.recv_from(media) => {
                    let packet = &media[..received?.0];
                    if !self.receiver.on_media(Clock::get().now(), packet) {
                        return Ok(Bytes::copy_from_slice(packet));
                    }
                }
                // What is no parity is counted.
                received = self.columns.recv_from(columns) => {
                    let packet = &columns[..received?.0];
                    let _ = self.receiver.on_parity(Clock::get().now(), packet);
                }
                received = self.rows.recv_from(rows) => {
                    let packet = &rows[..received?.0];
                    let _ = self.receiver.on_parity(Clock::get().now(), packet);
                }
                () = sleep_until(Instant::now() + due) => {}
            }
        }
    }
}
