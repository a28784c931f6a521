use bytes::Bytes;
use layercast_core::Time;
use layercast_nif::cpu::ThreadId;
use layercast_nif::{
    Action, Circuits, ClientId, Memory, Outcome, Policy, Ring, RingDriver, Shepherd, Stats, Type,
    Vc, VcDriver,
};
use layercast_wire::{IpBody, Ipv4Packet};

/// The network interface of a simulated host, with a client for all packets or for each circuit.
#[derive(Debug)]
pub enum Nic {
    Ring(RingDriver<Shepherd>),
    Circuits(VcDriver<Shepherd>),
}

/// Slots of the ring, and buffers of a client: more than the windows of its connections let arrive.
const SLOTS: usize = 32;
const BUFFERS: usize = 512;
const FRAME: usize = 1_518;
const ETHERNET: usize = 14;
const ETHERTYPE_IP: [u8; 2] = [0x08, 0x00];
const MEMORY: u64 = 1 << 26;

impl Nic {
    /// A ring whose default client has this thread.
    pub fn ring(thread: ThreadId) -> Nic {
        let memory = Memory::new(MEMORY);
        let config = layercast_nif::Config {
            copy_break: 0,
            ..Ring::CONFIG
        };
        let mut driver = RingDriver::new(memory.clone(), (SLOTS, FRAME), config)
            .expect("the memory is large enough");
        let client = client(&memory, Policy::SwapOrReturn, thread);
        driver
            .register(Time::ZERO, Type::Default, client)
            .expect("it is the first one");
        Nic::Ring(driver)
    }

    /// Circuits from 0 on, each with a client that has the thread.
    pub fn circuits(threads: &[ThreadId]) -> Nic {
        let memory = Memory::new(MEMORY);
        let config = layercast_nif::Config {
            copy_break: 0,
            ..Circuits::CONFIG
        };
        let mut driver =
            VcDriver::new(memory.clone(), FRAME, config).expect("the memory is large enough");
        for (vc, thread) in (0..).zip(threads) {
            let client = client(&memory, Policy::MustReturn, *thread);
            driver
                .register(Time::ZERO, Type::Of(Vc(vc)), client)
                .expect("each circuit is a new one");
        }
        Nic::Circuits(driver)
    }

    /// A packet arrives; gives the client that has it, and the thread to be woken.
    pub fn arrive(&mut self, now: Time, vc: u32, packet: &[u8]) -> Option<(ClientId, ThreadId)> {
        let outcome = match self {
            Nic::Ring(driver) => driver.on_frame(now, packet),
            Nic::Circuits(driver) => driver.on_pdu(now, Vc(vc), packet),
        };
        let woken = match self {
            Nic::Ring(driver) => woken(driver.actions()),
            Nic::Circuits(driver) => woken(driver.actions()),
        };
        match outcome {
            Outcome::Delivered { client, .. } => Some((client, woken?)),
            Outcome::Dropped { .. } => None,
        }
    }

    /// A packet that the interface is to receive, as it is on its wire.
    pub fn encode(&self, packet: &Ipv4Packet) -> Bytes {
        let mut out = Vec::with_capacity(FRAME);
        if let Nic::Ring(_) = self {
            out.extend([0; ETHERNET - 2]);
            out.extend(ETHERTYPE_IP);
        }
        packet
            .encode_into(&mut out)
            .expect("a packet of the simulation is short");
        out.into()
    }

    /// Takes the next packet of a client, and recycles its buffer.
    pub fn take(&mut self, now: Time, id: ClientId) -> Option<Ipv4Packet> {
        match self {
            Nic::Ring(driver) => {
                let client = driver.client_mut(id)?;
                let buf = client.next_packet()?;
                let packet = buf.data().and_then(|data| decode(data.get(ETHERNET..)?));
                client.put(now, buf);
                packet
            }
            Nic::Circuits(driver) => {
                let buf = driver.client_mut(id)?.next_packet()?;
                let packet = buf.data().and_then(decode);
                if let Err(buf) = driver.give_rx(now, id, buf) {
                    driver.client_mut(id)?.put(now, buf);
                }
                packet
            }
        }
    }

    pub fn stats(&self) -> Stats {
        match self {
            Nic::Ring(driver) => *driver.stats(),
            Nic::Circuits(driver) => *driver.stats(),
        }
    }
}

fn client(memory: &Memory, policy: Policy, thread: ThreadId) -> Shepherd {
    Shepherd::new(memory, policy, vec![thread], (BUFFERS, FRAME))
        .expect("the memory is large enough")
}

fn woken(mut actions: impl Iterator<Item = Action>) -> Option<ThreadId> {
    actions.find_map(|action| match action {
        Action::Wake(thread) => Some(thread),
        _ => None,
    })
}

fn decode(data: &[u8]) -> Option<Ipv4Packet> {
    let packet = Ipv4Packet::decode(Bytes::copy_from_slice(data)).ok()?;
    matches!(packet.body, IpBody::Tcp(_) | IpBody::Udp(_)).then_some(packet)
}
