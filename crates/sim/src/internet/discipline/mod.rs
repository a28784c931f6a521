//! Queue disciplines: which packet a link sends next, and which ones it drops or marks.
//!
//! A link without one has a FIFO queue whose departures are known at the arrival of a packet. A discipline decides
//! when the link is free: it sees how long a packet has waited, and chooses among flows. [`CoDel`], [`FqCoDel`], [`Pie`],
//! [`DualPi2`], [`Priority`] and [`Drr`] are such. One's own is a [`QueueDiscipline`] and gets to a link by a [`DisciplineFactory`] in [`Link::disciplines`](super::Link::disciplines).
//!
//! ```
//! use std::collections::VecDeque;
//! use std::path::Path;
//!
//! use layercast_sim::internet::Internet;
//! use layercast_sim::internet::discipline::{
//!     Discipline, DisciplineFactory, DropCause, Item, Port, QueueDiscipline,
//! };
//! use layercast_sim::internet::scenario::Scenario;
//!
//! /// Drops a packet that comes with a probability that grows with the queue.
//! #[derive(Default, Debug)]
//! struct Linear {
//!     queue: VecDeque<Item>,
//! }
//!
//! impl QueueDiscipline for Linear {
//!     fn enqueue(&mut self, mut item: Item, port: &mut Port<'_>) {
//!         if port.is_over_limit() {
//!             return port.drop(item, DropCause::Full);
//!         }
//!         let probability = f64::from(port.waiting()) / 200.0;
//!         if port.random() < probability && !item.mark() {
//!             return port.drop(item, DropCause::Early);
//!         }
//!         self.queue.push_back(item);
//!     }
//!
//!     fn dequeue(&mut self, _: &mut Port<'_>) -> Option<Item> {
//!         self.queue.pop_front()
//!     }
//! }
//!
//! let scenario = r#"
//!     schema = "internet/1"
//!     name = "two downloads"
//!     run = { duration = "2s" }
//!     [topology]
//!     kind = "dumbbell"
//!     pairs = 2
//!     trunk = { rate = "10 Mbit/s", delay = "10ms", queue = "100 packets" }
//!     access = { rate = "1 Gbit/s", delay = "1ms" }
//!     [[flow]]
//!     from = "left{1..2}"
//!     to = "right{1..2}"
//! "#;
//! let mut network = Scenario::from_toml(scenario, Path::new(".")).unwrap().resolve().unwrap();
//! let linear = DisciplineFactory::new("linear", |_| Linear::default());
//! // From the first end of the link to the second.
//! network.links[0].disciplines[0] = Some(Discipline::Own(linear));
//! let report = Internet::new(&network).unwrap().run(&mut ());
//! let queue = &report.queues[0];
//! assert!(queue.dropped_red > 0 && queue.max_waiting < 100);
//! ```

mod bands;
mod codel;
mod drr;
mod dscp;
mod dual_pi2;
mod fq_codel;
mod keyed;
mod pie;
mod port;
mod priority;
#[cfg(test)]
mod tests;
mod updates;

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

pub use layercast_core::{Rate, Span, Time};
pub use layercast_tcp::Ecn;

pub use bands::{Bands, MOST_BANDS};
pub use codel::{CoDel, CoDelConfig};
pub use drr::{Drr, DrrConfig, Share};
pub use dscp::Dscp;
pub use dual_pi2::{DualPi2, DualPi2Config};
pub use fq_codel::{FqCoDel, FqCoDelConfig};
pub use pie::{Pie, PieConfig};
pub use port::{DropCause, Port};
pub use priority::{Priority, PriorityConfig};

pub(super) use port::Inside;

use super::engine::PacketId;
use super::limit::Limit;
use super::medium::ecmp::FlowMark;
use super::medium::packet::Packet;
use super::network::NodeIndex;

/// A packet in a queue.
///
/// It cannot be copied: a discipline keeps it, returns it, or [drops](Port::drop) it.
#[must_use = "a packet that is neither kept, returned nor given to Port::drop stays in memory until the end of the run"]
#[derive(Debug)]
pub struct Item {
    pub(super) packet: u32,
    bytes: u32,
    flow: u32,
    since: Time,
    ecn: Ecn,
    /// Its ECN field as it came.
    came: Ecn,
    dscp: Dscp,
    ends: (NodeIndex, NodeIndex),
}

impl Item {
    /// A packet with this number that comes to a queue.
    pub(super) fn new(number: PacketId, packet: &Packet, bytes: u32, since: Time) -> Item {
        Item {
            packet: number.0,
            bytes,
            flow: packet.flow.0,
            since,
            ecn: packet.ecn,
            came: packet.ecn,
            dscp: packet.dscp,
            ends: (packet.src, packet.dst),
        }
    }

    /// Its number. Another packet may have it once this one has left the network.
    pub fn packet(&self) -> u32 {
        self.packet
    }

    /// Its length with IP header.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The hash of its addresses, protocol and ports: packets of a flow have the same, other flows most likely another one.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Which of `buckets` buckets, from 1 on, its flow has: the same for all its packets, and another one with another salt.
    pub fn bucket(&self, salt: u64, buckets: usize) -> usize {
        FlowMark(self.flow).choose(salt, buckets)
    }

    /// When it came to the queue.
    pub fn since(&self) -> Time {
        self.since
    }

    /// Its ECN field (RFC 3168 5).
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Its ECN field as it came to the queue, without a mark of this discipline.
    pub fn ecn_before(&self) -> Ecn {
        self.came
    }

    /// Its class (RFC 2474).
    pub fn dscp(&self) -> Dscp {
        self.dscp
    }

    /// The node that made it, by its place in [`Network::nodes`](super::Network::nodes).
    pub fn source(&self) -> u32 {
        self.ends.0.0
    }

    /// The node it is for; of multicast the next one.
    pub fn destination(&self) -> u32 {
        self.ends.1.0
    }

    /// Marks it if it is ECN-capable; returns whether it is.
    pub fn mark(&mut self) -> bool {
        let is_capable = self.ecn.is_capable();
        if is_capable {
            self.ecn = Ecn::Congested;
        }
        is_capable
    }
}

/// The queue of one direction of a link.
///
/// It has no clock and no random numbers of its own: both come with the [`Port`], so that a run can be repeated. Queues that
/// keep their storage allocate nothing in steady state.
pub trait QueueDiscipline: fmt::Debug + Send + Sync {
    /// A packet comes. It counts in [`Port::waiting`] already. A discipline that keeps it bounds its queue: while
    /// [`Port::is_over_limit`], it [drops](Port::drop) this packet or others.
    fn enqueue(&mut self, item: Item, port: &mut Port<'_>);

    /// The link is free: returns the packet that it sends now. `None` means that none is sent before the next packet comes, or
    /// before [`ready_at`](Self::ready_at). Where nothing waits it is asked once, as the link becomes idle.
    fn dequeue(&mut self, port: &mut Port<'_>) -> Option<Item>;

    /// When to ask again after packets wait and [`dequeue`](Self::dequeue) returned none: that of a shaper. Most disciplines
    /// never hold a packet back.
    fn ready_at(&self) -> Option<Time> {
        None
    }

    /// Names of the bands that [reports](super::DisciplineReport) tell apart, none where there is one.
    fn bands(&self) -> Vec<String> {
        Vec::new()
    }

    /// The band of a packet, whenever it is asked for: a place in [`bands`](Self::bands).
    fn band(&self, item: &Item) -> usize {
        let _ = item;
        0
    }
}

/// What a discipline is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The rate of the link.
    pub rate: Rate,
    /// The largest IP packet.
    pub mtu: u32,
    /// How much may wait.
    pub limit: Limit,
    /// A random number of this queue alone, which follows from the seed of the run: salt of hashes.
    pub salt: u64,
}

/// The discipline of one direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub enum Discipline {
    /// Controlled delay (RFC 8289).
    CoDel(CoDelConfig),
    /// Flow queues with CoDel (RFC 8290).
    FqCoDel(FqCoDelConfig),
    /// Proportional integral controller enhanced (RFC 8033).
    Pie(PieConfig),
    /// Dual-queue coupled AQM (RFC 9332).
    DualPi2(DualPi2Config),
    /// Strict priority of classes.
    Priority(PriorityConfig),
    /// Deficit round robin (Shreedhar and Varghese 1996).
    Drr(DrrConfig),
    /// One's own.
    Own(DisciplineFactory),
}

impl Discipline {
    /// As reports name it.
    pub fn name(&self) -> &str {
        match self {
            Discipline::CoDel(_) => "codel",
            Discipline::FqCoDel(_) => "fq_codel",
            Discipline::Pie(_) => "pie",
            Discipline::DualPi2(_) => "dualpi2",
            Discipline::Priority(_) => "priority",
            Discipline::Drr(_) => "drr",
            Discipline::Own(factory) => factory.name(),
        }
    }

    /// Whether it marks ECN-capable packets, as far as that is known.
    pub(super) fn marks(&self) -> bool {
        match self {
            Discipline::CoDel(config) => config.ecn,
            Discipline::FqCoDel(config) => config.codel.ecn,
            Discipline::Pie(config) => config.ecn,
            Discipline::DualPi2(_) => true,
            Discipline::Priority(_) | Discipline::Drr(_) | Discipline::Own(_) => false,
        }
    }

    pub(super) fn make(&self, setup: &Setup) -> Box<dyn QueueDiscipline> {
        match self {
            Discipline::CoDel(config) => Box::new(CoDel::new(*config, setup)),
            Discipline::FqCoDel(config) => Box::new(FqCoDel::new(*config, setup)),
            Discipline::Pie(config) => Box::new(Pie::new(*config, setup)),
            Discipline::DualPi2(config) => Box::new(DualPi2::new(*config, setup)),
            Discipline::Priority(config) => Box::new(Priority::new(*config)),
            Discipline::Drr(config) => Box::new(Drr::new(*config, setup)),
            Discipline::Own(factory) => (factory.make)(setup),
        }
    }
}

/// Makes a discipline of one's own for each link that has it.
#[derive(Clone)]
pub struct DisciplineFactory {
    name: Arc<str>,
    make: Arc<Make>,
}

type Make = dyn Fn(&Setup) -> Box<dyn QueueDiscipline> + Send + Sync + UnwindSafe + RefUnwindSafe;

impl DisciplineFactory {
    /// Links have what `make` returns; reports name it `name`.
    pub fn new<D: QueueDiscipline + 'static>(
        name: &str,
        make: impl Fn(&Setup) -> D + Send + Sync + UnwindSafe + RefUnwindSafe + 'static,
    ) -> DisciplineFactory {
        DisciplineFactory {
            name: name.into(),
            make: Arc::new(move |setup| Box::new(make(setup))),
        }
    }

    /// As reports name it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for DisciplineFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DisciplineFactory")
            .field(&self.name)
            .finish()
    }
}

/// The same factory.
impl PartialEq for DisciplineFactory {
    fn eq(&self, other: &DisciplineFactory) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}
