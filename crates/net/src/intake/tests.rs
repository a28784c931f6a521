use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use bytes::Bytes;
use layercast_protect::OpenError;

use super::*;
use crate::outbox::Outbox;
use crate::udp::Udp;

const LOCALHOST: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const LEN: usize = 1_200;

/// Two neighbours of a host.
struct Two {
    addrs: [SocketAddr; 2],
    /// Octets at the beginning of what each sent that was processed.
    processed: [Vec<u32>; 2],
    crowded_out: [u64; 2],
    /// Nothing of the first one opens.
    is_forged: bool,
}

impl Inbound for Two {
    type Key = usize;

    fn known(&mut self, addr: SocketAddr) -> Option<usize> {
        self.addrs.iter().position(|it| *it == addr)
    }

    fn client(&self, from: usize, _: &[u8]) -> u32 {
        from as u32
    }

    fn crowded_out(&mut self, from: usize, _: &[u8], count: u64) {
        self.crowded_out[from] += count;
    }

    fn open<'a>(&mut self, from: usize, datagram: &'a mut [u8]) -> Result<&'a [u8], OpenError> {
        match self.is_forged && from == 0 {
            true => Err(OpenError::Forged),
            false => Ok(datagram),
        }
    }

    fn deliver(&mut self, from: usize, datagram: Bytes, _: bool) {
        let number = datagram.first_chunk().copied().map(u32::from_be_bytes);
        self.processed[from].extend(number);
    }
}

struct Host {
    udp: Udp,
    intake: Intake,
    two: Two,
    sockets: [UdpSocket; 2],
    sent: [u32; 2],
}

impl Host {
    /// Nothing where the kernel keeps too few datagrams for a test that it may not drop one in.
    fn new() -> Option<Host> {
        let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
        if most.trim().parse::<u64>().unwrap() < 4 << 20 {
            eprintln!("skipped: net.core.rmem_max is less than 4 MiB");
            return None;
        }
        let sockets = [0, 1].map(|_| UdpSocket::bind(LOCALHOST).unwrap());
        Some(Host {
            udp: Udp::bind(LOCALHOST).unwrap(),
            intake: Intake::new(),
            two: Two {
                addrs: [0, 1].map(|at| sockets[at].local_addr().unwrap()),
                processed: Default::default(),
                crowded_out: [0; 2],
                is_forged: false,
            },
            sockets,
            sent: [0; 2],
        })
    }

    fn send(&mut self, from: usize, count: u32, len: usize) {
        let mut datagram = vec![0; len];
        for _ in 0..count {
            datagram[..4].copy_from_slice(&self.sent[from].to_be_bytes());
            self.sent[from] += 1;
            let to = self.udp.local_addr();
            self.sockets[from].send_to(&datagram, to).unwrap();
        }
    }

    /// A turn of the loop of a node.
    async fn turn(&mut self) {
        self.udp.readable().await.unwrap();
        self.receive();
    }

    fn receive(&mut self) -> bool {
        let Host {
            udp, intake, two, ..
        } = self;
        intake.receive(Time::ZERO, udp, two, |_, _| ())
    }

    fn finish(&mut self) {
        while self.receive() {}
    }

    /// Every datagram was processed or dropped here, and counted.
    fn is_accounted(&self) {
        let stats = self.udp.stats();
        let of = |at: usize| self.two.processed[at].len() as u64 + self.two.crowded_out[at];
        assert_eq!(stats.host_lost, 0, "{stats:?}");
        assert_eq!(of(0) + stats.forged, u64::from(self.sent[0]));
        assert_eq!(of(1), u64::from(self.sent[1]));
        assert_eq!(stats.crowded_out, self.two.crowded_out.iter().sum::<u64>());
    }
}

/// Twice what the host processes in a turn comes from one neighbour; all of the other one is processed, in order.
#[tokio::test]
async fn a_neighbour_that_floods_loses_its_own_datagrams_only() {
    for is_forged in [false, true] {
        let Some(mut host) = Host::new() else {
            return;
        };
        host.two.is_forged = is_forged;
        for _ in 0..20 {
            host.send(1, 4, LEN);
            host.send(0, 600, LEN);
            host.send(1, 4, LEN);
            host.turn().await;
        }
        host.finish();
        host.is_accounted();
        let whole: Vec<u32> = (0..20 * 8).collect();
        assert_eq!(host.two.processed[1], whole, "forged: {is_forged}");
        assert!(
            host.two.crowded_out[0] > 5_000,
            "{:?}",
            host.two.crowded_out
        );
        assert!(host.two.processed[0].is_sorted());
    }
}

/// What the kernel could keep while the host was held up is not dropped here.
#[tokio::test]
async fn a_burst_after_a_stall_is_whole() {
    let Some(mut host) = Host::new() else {
        return;
    };
    for _ in 0..3 {
        host.send(0, 1_200, LEN);
        host.send(1, 400, LEN);
        host.turn().await;
        host.finish();
        host.is_accounted();
    }
    assert_eq!(host.two.crowded_out, [0; 2]);
    let numbers = [3_600, 1_200].map(|count| (0..count).collect::<Vec<u32>>());
    assert_eq!(host.two.processed, numbers);
}

/// Neither with little traffic nor under a flood, once there are buffers.
#[tokio::test]
async fn a_datagram_takes_no_memory() {
    let Some(mut host) = Host::new() else {
        return;
    };
    host.two.processed = [0, 1].map(|_| Vec::with_capacity(100_000));
    for flood in [10, 600] {
        for turn in 0..20 {
            host.send(0, flood, LEN);
            host.send(1, 8, LEN);
            host.udp.readable().await.unwrap();
            let asked = allocation_counter::measure(|| {
                host.receive();
            });
            assert!(turn < 10 || asked.count_total == 0, "{turn}: {asked:?}");
        }
        host.finish();
    }
    assert!(host.two.crowded_out[0] > 0);
    host.is_accounted();
}

/// Datagrams that no small buffer holds are queued as well, and those of each neighbour stay in order.
#[tokio::test]
async fn long_datagrams_share_what_there_is() {
    let Some(mut host) = Host::new() else {
        return;
    };
    for len in [9_000, 100, 2_048, 2_049] {
        host.send(0, 20, len);
        host.send(1, 60, len);
        host.turn().await;
    }
    host.finish();
    host.is_accounted();
    assert_eq!(host.two.crowded_out, [0; 2]);
    assert!(host.two.processed.iter().all(|it| it.is_sorted()));
}

/// Flows of one sender, each datagram with the number of its flow in the first octet.
#[derive(Default)]
struct Flows {
    /// Octets after that of what was processed.
    processed: [Vec<u32>; 3],
    crowded_out: [u64; 3],
}

impl Inbound for Flows {
    type Key = ();

    const IS_MERGED: bool = true;

    fn known(&mut self, _: SocketAddr) -> Option<()> {
        Some(())
    }

    fn client(&self, (): (), datagram: &[u8]) -> u32 {
        datagram[0].into()
    }

    fn crowded_out(&mut self, (): (), datagrams: &[u8], count: u64) {
        let len = datagrams.len() / count as usize;
        assert!(datagrams.chunks(len).all(|it| it[0] == datagrams[0]));
        self.crowded_out[usize::from(datagrams[0])] += count;
    }

    fn deliver(&mut self, (): (), datagram: Bytes, _: bool) {
        let number = u32::from_be_bytes(*datagram[1..].first_chunk().unwrap());
        self.processed[usize::from(datagram[0])].push(number);
    }
}

/// The kernel merges datagrams of one sender, whatever flow they are of. One flow has most of them, and loses its own only.
#[tokio::test]
async fn flows_of_one_sender_are_told_apart_where_they_are_merged() {
    if Host::new().is_none() {
        return;
    }
    for len in [1_200, 3_000] {
        let (mut from, mut udp) = (Udp::bind(LOCALHOST).unwrap(), Udp::bind(LOCALHOST).unwrap());
        let (mut intake, mut flows) = (Intake::new(), Flows::default());
        let mut outbox = Outbox::new(udp.local_addr());
        let (mut sent, mut merged) = ([0; 3], false);
        for turn in 0..24 {
            for n in 0..480 {
                // The others stop before the flood does.
                let flow = if turn < 20 && n % 30 < 2 {
                    n % 30 + 1
                } else {
                    0
                };
                assert!(outbox.push(len, false, |out| {
                    out.push(flow as u8);
                    out.extend(u32::to_be_bytes(sent[flow]));
                    out.resize(out.len() + len - 5, 0);
                }));
                sent[flow] += 1;
            }
            assert!(from.flush(&mut outbox));
            udp.readable().await.unwrap();
            intake.receive(Time::ZERO, &mut udp, &mut flows, |_, _| ());
            merged |= udp.stats().received > 32 * 8;
        }
        while intake.receive(Time::ZERO, &mut udp, &mut flows, |_, _| ()) {}
        let stats = udp.stats();
        assert_eq!(stats.host_lost, 0, "{stats:?}");
        assert!(merged, "{stats:?}");
        for (flow, sent) in sent.into_iter().enumerate() {
            let processed = &flows.processed[flow];
            assert!(processed.is_sorted());
            let all = processed.len() as u64 + flows.crowded_out[flow];
            assert_eq!(all, u64::from(sent), "{len}, {flow}");
        }
        let [flood, others @ ..] = flows.crowded_out;
        assert_eq!(others, [0; 2], "{len}");
        assert!(flood > 1_000, "{len}: {flood}");
    }
}

/// Neighbours that send without end leave buffers to others that begin.
#[test]
fn whoever_has_next_to_none_finds_a_buffer() {
    let mut spare = Spare::new(80, SMALL);
    let mut all = Pool::new();
    let mut shares = [0; 6];
    for held in &mut shares {
        while let Some(buf) = spare.take(*held) {
            all.put(buf);
            *held += 1;
        }
    }
    assert_eq!(shares, [35, 18, 9, 4, 4, 4]);
}
