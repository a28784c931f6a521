//! Each order of the memory accesses of a driver that several threads use (`make loom`): the interrupt and the threads of clients
//! share it behind a lock, which none of them holds while it processes a packet.

use layercast_core::Time;
use layercast_nif::cpu::{Cpu, CpuConfig, ThreadId, ThreadSpec};
use layercast_nif::{
    Buf, Circuits, ClientId, Memory, OutOfMemory, Policy, Shepherd, Type, Vc, VcDriver,
};
use loom::sync::{Arc, Mutex};
use loom::thread;

const LEN: usize = 16;
const BUFFERS: usize = 2;

/// A driver, and the packets of each client that threads have in hand.
struct Shared {
    driver: VcDriver<Shepherd>,
    ids: Vec<ClientId>,
    in_hand: Vec<usize>,
}

fn a_thread() -> ThreadId {
    Cpu::<()>::new(CpuConfig::default()).add_thread(ThreadSpec::default())
}

impl Shared {
    fn new(memory: &Memory, clients: u32) -> Shared {
        let mut driver = VcDriver::new(memory.clone(), LEN, Circuits::CONFIG).unwrap();
        let ids = (0..clients).map(|n| {
            let pool = (BUFFERS, LEN);
            let client = Shepherd::new(memory, Policy::MustReturn, vec![a_thread()], pool);
            let registered = driver.register(Time::ZERO, Type::Of(Vc(n)), client.unwrap());
            registered.map_err(|(error, _)| error).unwrap().id
        });
        let ids: Vec<ClientId> = ids.collect();
        Shared {
            driver,
            in_hand: vec![0; ids.len()],
            ids,
        }
    }

    /// No buffer is lost or in two places, and no packet is uncounted.
    fn check(&self) {
        for (id, in_hand) in self.ids.iter().zip(&self.in_hand) {
            let holds = self.driver.holdings(*id);
            let held = self.driver.client(*id).map_or(0, Shepherd::held);
            assert_eq!(holds.posted + holds.kept + held + in_hand, BUFFERS);
            let stats = self.driver.client_stats(*id).unwrap();
            assert_eq!(stats.received, stats.delivered + stats.drops.total());
        }
    }

    fn take(&mut self, client: usize) -> Option<Buf> {
        let shepherd = self.driver.client_mut(self.ids[client])?;
        let packet = shepherd.next_packet()?;
        self.in_hand[client] += 1;
        self.check();
        Some(packet)
    }

    fn give(&mut self, client: usize, packet: Buf) {
        self.in_hand[client] -= 1;
        let given = self.driver.give_rx(Time::ZERO, self.ids[client], packet);
        assert!(given.is_ok());
        self.check();
    }
}

fn every_order(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// The interrupt brings packets while the threads of two clients process theirs.
#[test]
fn no_buffer_is_lost_between_interrupt_and_threads() {
    every_order(|| {
        let memory = Memory::new(1 << 10);
        let shared = Arc::new(Mutex::new(Shared::new(&memory, 2)));
        let threads: Vec<_> = (0..2)
            .map(|client| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let packet = shared.lock().unwrap().take(client);
                    if let Some(mut packet) = packet {
                        assert_eq!(packet.data(), Some(&[client as u8; 4][..]));
                        packet.empty(Time::ZERO);
                        shared.lock().unwrap().give(client, packet);
                    }
                })
            })
            .collect();
        // Of the first client more than it has buffers for, if its thread is late.
        for client in [0, 1, 0, 0] {
            let shared = &mut *shared.lock().unwrap();
            let vc = Vc(client.into());
            shared.driver.on_pdu(Time::ZERO, vc, &[client; 4]);
            shared.check();
        }
        for thread in threads {
            thread.join().unwrap();
        }
        let shared = &mut *shared.lock().unwrap();
        assert_eq!(shared.in_hand, [0, 0]);
        shared.check();
        // One of the driver itself.
        let buffers = 2 * BUFFERS + 1;
        assert_eq!((memory.alive(), memory.leaked()), (buffers as u64, 0));
        assert_eq!(memory.octets(), (buffers * LEN) as u64);
        // The slow client lost its own packets only.
        let drops = |at: usize| shared.driver.client_stats(shared.ids[at]).unwrap().drops;
        assert!(drops(0).total() <= 1 && drops(1).total() == 0);
    });
}

/// Threads make and end buffers of one memory: together they never have more octets than it has.
#[test]
fn threads_share_a_memory_and_never_exceed_it() {
    every_order(|| {
        let memory = Memory::new(LEN as u64);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let memory = memory.clone();
                thread::spawn(move || match memory.linear(LEN) {
                    Ok(buf) => {
                        assert!(memory.octets() <= LEN as u64);
                        buf.free();
                        true
                    }
                    Err(OutOfMemory { free, .. }) => {
                        assert_eq!(free, 0);
                        false
                    }
                })
            })
            .collect();
        let made = threads.into_iter().map(|it| it.join().unwrap());
        assert!(made.filter(|it| *it).count() >= 1);
        assert_eq!(
            (memory.alive(), memory.octets(), memory.leaked()),
            (0, 0, 0)
        );
    });
}
