//! Packets in transit allocate no memory: sending, encoding, decoding and receiving them allocates nothing per
//! packet.

use allocation_counter::measure;
use bytes::{Bytes, BytesMut};
use layercast_core::{Off, Rate, Span, Time};
use layercast_fec::Scheme;
use layercast_multicast::{
    Memory, MemoryStore, Peer, Receiver, Sender, SenderConfig, Source, Store, Transmit, Virtual,
    VirtualStore,
};
use layercast_wire::multicast::{Body, Packet};

use crate::net::receiver;
use crate::object::{content, listed};

/// Initial packets that are not counted, while buffers grow.
const FIRST: u32 = 300;

/// A sender and a receiver.
struct Two<S, T> {
    now: Time,
    sender: Sender<S>,
    receiver: Receiver<T>,
    octets: Vec<u8>,
    arena: BytesMut,
    data: u32,
    allocated: u64,
}

impl<S: Source, T: Store> Two<S, T> {
    fn new(sender: Sender<S>, store: T) -> Two<S, T> {
        Two {
            now: Time::ZERO + Span::from_secs(1),
            sender,
            receiver: receiver(1, 1, store),
            octets: Vec::new(),
            arena: BytesMut::with_capacity(1 << 20),
            data: 0,
            allocated: 0,
        }
    }

    /// Drains the sender; counts data packets, and their allocations at both ends.
    fn send(&mut self) {
        loop {
            let mut left = None;
            let left_by = measure(|| left = self.sender.poll_transmit(self.now, &mut Off));
            let Some(Transmit { packet, .. }) = left else {
                return;
            };
            self.octets.clear();
            let encoded = measure(|| packet.encode_into(&mut self.octets));
            // As a driver does, which collects many datagrams in one buffer.
            self.arena.extend_from_slice(&self.octets);
            let datagram = self.arena.split().freeze();
            let came = measure(|| {
                let packet = Packet::decode(&datagram).unwrap();
                self.receiver.handle(self.now, Peer(0), &packet, &mut Off);
                while self.receiver.take().is_some() {}
            });
            if matches!(packet.body, Body::Data(_)) {
                self.data += 1;
                if self.data > FIRST {
                    let all = [left_by, encoded, came];
                    self.allocated += all.iter().map(|it| it.count_total).sum::<u64>();
                }
            }
        }
    }

    /// Advances the time to the next event.
    fn step(&mut self) {
        self.send();
        while let Some(answer) = self.receiver.poll_transmit(self.now, &mut Off) {
            self.sender
                .handle(self.now, Peer(1), &answer.packet, &mut Off);
        }
        while self.sender.poll_event().is_some() {}
        while self.receiver.poll_event().is_some() {}
        let timers = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
        if let Some(next) = timers.into_iter().flatten().min() {
            self.now = self.now.max(next);
        }
        self.sender.on_timeout(self.now, &mut Off);
        self.receiver.on_timeout(self.now, &mut Off);
    }

    fn object(mut self, packets: u32) {
        self.sender.start(self.now);
        while self.data < packets {
            self.step();
        }
        assert_eq!(self.allocated, 0, "allocations of {packets} packets");
    }
}

#[test]
fn packets_of_objects_allocate_nothing() {
    let rate = Rate::from_bps(100_000_000);
    for config in [SenderConfig::rmtp(), SenderConfig::layercast(rate)] {
        let size = u64::from(config.packet_size) * 3_000;
        let source = Virtual::new(size, config.scheme);
        let sender = Sender::object(7, config, listed(1), source).unwrap();
        Two::new(sender, VirtualStore).object(2_900);
    }
}

#[test]
fn packets_of_objects_in_memory_allocate_nothing() {
    let config = SenderConfig::layercast(Rate::from_bps(100_000_000));
    let size = usize::from(config.packet_size) * 1_000;
    let source = Memory::new("paper", content(size), Some(Scheme::ReedSolomon));
    let sender = Sender::object(7, config, listed(1), source).unwrap();
    Two::new(sender, MemoryStore::new(size as u64)).object(900);
}

#[test]
fn packets_of_streams_allocate_nothing() {
    let sender = Sender::stream(7, SenderConfig::frm(), listed(1)).unwrap();
    let mut two = Two::new(sender, VirtualStore);
    two.sender.start(two.now);
    let payload = Bytes::from(vec![1; 2_000]);
    while two.data < 3_000 {
        let mut taken = true;
        while taken {
            let fed = measure(|| taken = two.sender.send_packet(payload.clone().into()).is_ok());
            if two.data > FIRST {
                two.allocated += fed.count_total;
            }
        }
        two.step();
    }
    assert_eq!(two.allocated, 0);
}
