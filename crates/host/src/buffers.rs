//! Two clients of one driver with the same traffic, one of which may keep its buffers
//! (specs/network-interface-framework.md 4, X1 and X2).

use layercast_core::{Span, Time};
use layercast_nif::cpu::{Cpu, CpuConfig, ThreadSpec};
use layercast_nif::{
    Buf, Circuits, Client, ClientId, ClientStats, Delivery, Driver, EtherType, Hardware, IrqCtx,
    Memory, OutOfMemory, Policy, Refill, Ring, RingDriver, Shepherd, TxResult, Type, Vc, VcDriver,
};
use serde::{Deserialize, Serialize};

/// A kind of adapter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adapter {
    /// One ring for all packets: Ethernet.
    Ring,
    /// Buffers of each client: ATM.
    Circuits,
}

/// A driver with two clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffers {
    /// The kind of its adapter.
    pub adapter: Adapter,
    /// The policy of both clients.
    pub policy: Policy,
    /// When the driver takes empty buffers.
    pub refill: Refill,
    /// Buffers of each client; none if they own no buffers.
    pub pool: u32,
    /// Packets for each client.
    pub packets: u32,
    /// The second client returns no buffer.
    pub has_hog: bool,
}

/// What became of packets and buffers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct BuffersReport {
    /// The client that returns its buffers.
    pub first: ClientStats,
    /// The other one.
    pub second: ClientStats,
    /// Copies of a delivered packet.
    pub copies_per_packet: f64,
    /// Buffers that there were after each packet, always as many as at the start, in whatever place.
    pub conserved: bool,
    /// Buffers that were dropped outside of a pool.
    pub leaked: u64,
}

const LEN: usize = 1_518;
const TYPES: [u16; 2] = [0x0800, 0x86dd];
const BETWEEN: Span = Span::from_ms(1);

/// A client that owns buffers, or one that looks.
enum Either {
    Owner(Shepherd),
    Viewer,
}

impl Client for Either {
    fn policy(&self) -> Policy {
        match self {
            Either::Owner(it) => it.policy(),
            Either::Viewer => Policy::PeekOnly,
        }
    }
    fn receive(&mut self, now: Time, packet: Delivery<'_>, ctx: &mut IrqCtx<'_>) {
        if let Either::Owner(it) = self {
            it.receive(now, packet, ctx);
        }
    }
    fn take_empty(&mut self) -> Option<Buf> {
        match self {
            Either::Owner(it) => it.take_empty(),
            Either::Viewer => None,
        }
    }
    fn put_empty(&mut self, buf: Buf) {
        match self {
            Either::Owner(it) => it.put_empty(buf),
            Either::Viewer => buf.free(),
        }
    }
    fn empties(&self) -> usize {
        match self {
            Either::Owner(it) => it.empties(),
            Either::Viewer => 0,
        }
    }
    fn tx_done(&mut self, buf: Buf, result: TxResult) {
        match self {
            Either::Owner(it) => it.tx_done(buf, result),
            Either::Viewer => buf.free(),
        }
    }
}

impl Buffers {
    /// Runs it.
    pub fn run(&self) -> Result<BuffersReport, OutOfMemory> {
        let memory = Memory::new(1 << 30);
        match self.adapter {
            Adapter::Ring => {
                let config = layercast_nif::Config {
                    refill: self.refill,
                    copy_break: 0,
                    ..Ring::CONFIG
                };
                let driver = RingDriver::new(memory.clone(), (8, LEN), config)?;
                let deliver = |driver: &mut RingDriver<Either>, now, at: usize| {
                    let mut frame = [0; 500];
                    frame[12..14].copy_from_slice(&TYPES[at].to_be_bytes());
                    driver.on_frame(now, &frame);
                };
                self.drive(
                    &memory,
                    driver,
                    TYPES.map(|it| Type::Of(EtherType(it))),
                    deliver,
                )
            }
            Adapter::Circuits => {
                let config = layercast_nif::Config {
                    refill: self.refill,
                    copy_break: 0,
                    ..Circuits::CONFIG
                };
                let driver = VcDriver::new(memory.clone(), LEN, config)?;
                let deliver = |driver: &mut VcDriver<Either>, now, at: usize| {
                    driver.on_pdu(now, Vc(at as u32), &[0; 500]);
                };
                self.drive(&memory, driver, [0, 1].map(|it| Type::Of(Vc(it))), deliver)
            }
        }
    }

    fn drive<H: Hardware>(
        &self,
        memory: &Memory,
        mut driver: Driver<H, Either>,
        types: [Type<H::Type>; 2],
        deliver: impl Fn(&mut Driver<H, Either>, Time, usize),
    ) -> Result<BuffersReport, OutOfMemory> {
        let mut cpu = Cpu::<()>::new(CpuConfig::default());
        let mut ids = Vec::new();
        for ty in types {
            let client = match self.policy {
                Policy::PeekOnly => Either::Viewer,
                policy => {
                    let threads = vec![cpu.add_thread(ThreadSpec::default())];
                    Either::Owner(Shepherd::new(
                        memory,
                        policy,
                        threads,
                        (self.pool as usize, LEN),
                    )?)
                }
            };
            let registered = driver.register(Time::ZERO, ty, client);
            ids.extend(registered.map(|it| it.id).ok());
        }
        let (alive, mut conserved) = (memory.alive(), true);
        let owned = if self.policy == Policy::PeekOnly {
            0
        } else {
            self.pool as usize
        };
        for n in 0..self.packets {
            let now = Time::ZERO + BETWEEN.times(n.into());
            for (at, id) in ids.iter().enumerate() {
                deliver(&mut driver, now, at);
                driver.actions().for_each(drop);
                if at == 0 || !self.has_hog {
                    recycle(&mut driver, now, *id, self.refill);
                }
                let held = match driver.client(*id) {
                    Some(Either::Owner(it)) => it.held(),
                    _ => 0,
                };
                conserved &= held + driver.holdings(*id).posted == owned && memory.alive() == alive;
            }
        }
        let of = |at: usize| {
            ids.get(at)
                .and_then(|id| driver.client_stats(*id).copied())
                .unwrap_or_default()
        };
        let stats = *driver.stats();
        Ok(BuffersReport {
            first: of(0),
            second: of(1),
            copies_per_packet: stats.copied as f64 / stats.delivered.max(1) as f64,
            conserved,
            leaked: memory.leaked(),
        })
    }
}

/// A thread of the client is done with its packet.
fn recycle<H: Hardware>(driver: &mut Driver<H, Either>, now: Time, id: ClientId, refill: Refill) {
    let Some(Either::Owner(client)) = driver.client_mut(id) else {
        return;
    };
    let Some(buf) = client.next_packet() else {
        return;
    };
    match refill {
        Refill::Lazy => client.put(now, buf),
        Refill::Eager => {
            if let Err(buf) = driver.give_rx(now, id, buf) {
                buf.free();
            }
        }
    }
}
