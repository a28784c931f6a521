//! A path for datagrams between a sender and one receiver that loses, doubles, delays and damages them both ways.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use layercast_core::Stream;
use layercast_wire::multicast::{Body, Datagram, Packet};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::common::localhost;

/// Shares of datagrams.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub loss: f64,
    pub duplicate: f64,
    pub reorder: f64,
    pub corrupt: f64,
    /// Octets of the largest datagram that the path takes; 0: of any.
    pub most: usize,
    /// The RELEASE of each session is lost.
    pub no_release: bool,
}

type Ear = Arc<Mutex<Option<mpsc::Sender<(SocketAddr, Vec<u8>)>>>>;

pub struct Mangler {
    pub addr: SocketAddr,
    ear: Ear,
    tasks: [JoinHandle<()>; 2],
}

impl Mangler {
    pub async fn start(to: SocketAddr, faults: Faults, seed: u64) -> Mangler {
        let near = Arc::new(UdpSocket::bind(localhost()).await.unwrap());
        let far = Arc::new(UdpSocket::bind(localhost()).await.unwrap());
        let addr = near.local_addr().unwrap();
        let sender = Arc::new(Mutex::new(None));
        let ear = Ear::default();
        let there = tokio::spawn(carry(
            Arc::clone(&near),
            Arc::clone(&far),
            Direction::There(to, Arc::clone(&sender), Arc::clone(&ear)),
            faults,
            Stream::new(seed, "there"),
        ));
        let back = tokio::spawn(carry(
            far,
            near,
            Direction::Back(sender),
            faults,
            Stream::new(seed, "back"),
        ));
        Mangler {
            addr,
            ear,
            tasks: [there, back],
        }
    }

    /// What the sender sends from now on, and its address.
    pub fn listen(&self) -> mpsc::Receiver<(SocketAddr, Vec<u8>)> {
        let (tell, heard) = mpsc::channel(16);
        *self.ear.lock().unwrap() = Some(tell);
        heard
    }
}

impl Drop for Mangler {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

enum Direction {
    There(SocketAddr, Arc<Mutex<Option<SocketAddr>>>, Ear),
    Back(Arc<Mutex<Option<SocketAddr>>>),
}

async fn carry(
    from: Arc<UdpSocket>,
    out: Arc<UdpSocket>,
    direction: Direction,
    faults: Faults,
    mut random: Stream,
) {
    let mut buffer = vec![0; 65_536];
    loop {
        let Ok((len, peer)) = from.recv_from(&mut buffer).await else {
            continue;
        };
        let to = match &direction {
            Direction::There(to, sender, ear) => {
                *sender.lock().unwrap() = Some(peer);
                if let Some(ear) = &*ear.lock().unwrap() {
                    let _ = ear.try_send((peer, buffer[..len].to_vec()));
                }
                Some(*to)
            }
            Direction::Back(sender) => *sender.lock().unwrap(),
        };
        let Some(to) = to else {
            continue;
        };
        let mut bytes = buffer[..len].to_vec();
        let fits = faults.most == 0 || len <= faults.most;
        if faults.no_release && is_release(&bytes) {
            continue;
        }
        if !fits || random.chance(faults.loss) {
            continue;
        }
        if random.chance(faults.corrupt) && len > 0 {
            let at = random.below(len as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        if random.chance(faults.duplicate) {
            let _ = out.send_to(&bytes, to).await;
        }
        if random.chance(faults.reorder) {
            let out = Arc::clone(&out);
            let late = Duration::from_millis(1 + random.below(15));
            tokio::spawn(async move {
                sleep(late).await;
                let _ = out.send_to(&bytes, to).await;
            });
            continue;
        }
        let _ = out.send_to(&bytes, to).await;
    }
}

fn is_release(bytes: &[u8]) -> bool {
    let datagram = Datagram::decode(&Bytes::copy_from_slice(bytes));
    let released = |packet: &Packet| matches!(packet.body, Body::Release { .. });
    matches!(datagram, Ok(Datagram::Packet(packet)) if released(&packet))
}
