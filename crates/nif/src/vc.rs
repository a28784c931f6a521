use layercast_core::Time;

use crate::clients::{Config, Outcome, Refill, Type};
use crate::{
    Buf, Client, Delivery, Driver, DropReason, Hardware, Memory, Order, OutOfMemory, Policy,
};

/// A virtual circuit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Vc(
    /// Its number.
    pub u32,
);

/// An adapter that knows the client of a packet, and writes it to memory of that client (early demultiplexing).
#[derive(Debug)]
pub struct Circuits {
    /// For clients that own no buffer.
    own: crate::Pool,
}

/// A driver of an ATM adapter (specs/network-interface-framework.md 2.6), or of anything whose packets arrive sorted, such
/// as sockets.
pub type VcDriver<C> = Driver<Circuits, C>;

impl Hardware for Circuits {
    type Type = Vc;
    const WRITES_TO_CLIENTS: bool = true;
}

impl Circuits {
    /// How this driver works by default: it has all buffers of its clients, and copies what fills less than an eighth.
    pub const CONFIG: Config = Config {
        refill: Refill::Eager,
        order: Order::Fcfs,
        copy_break: 8,
    };
}

impl<C: Client> VcDriver<C> {
    /// A driver that can lend packets of up to `mtu` octets to clients that own no buffer.
    pub fn new(memory: Memory, mtu: usize, config: Config) -> Result<VcDriver<C>, OutOfMemory> {
        let mut own = crate::Pool::new();
        own.put(memory.dma(mtu)?);
        Ok(Driver::with(Circuits { own }, memory, config))
    }

    /// A packet came on a circuit: the adapter has written it to the next buffer of its client.
    pub fn on_pdu(&mut self, now: Time, vc: Vc, packet: &[u8]) -> Outcome {
        let Driver { clients, hardware } = self;
        clients.stats.received += 1;
        let ty = Type::Of(vc);
        let Some((id, policy)) = clients.owner(ty) else {
            return clients.drop_packet(None, DropReason::NoClient);
        };
        if let Err(reason) = clients.arrived(id) {
            return clients.drop_packet(Some(id), reason);
        }
        if policy == Policy::PeekOnly {
            let Some(own) = hardware.own.get_mut(0) else {
                return clients.drop_packet(Some(id), DropReason::NoBuffer);
            };
            if own.copy_in(packet).is_err() {
                return clients.drop_packet(Some(id), DropReason::BadFrame);
            }
            clients.show(now, ty, own);
            return clients.deliver(now, id, Delivery::Loan(own), false);
        }
        let mut buf = match clients.procure(id) {
            Ok(buf) => buf,
            Err(reason) => return clients.drop_packet(Some(id), reason),
        };
        if buf.copy_in(packet).is_err() {
            clients.unused(id, buf);
            return clients.drop_packet(Some(id), DropReason::TooSmall);
        }
        clients.show(now, ty, &buf);
        match clients.procure_small(id, packet.len(), buf.max_len()) {
            Some(small) => self.deliver_small(now, id, buf, small),
            None => clients.deliver(now, id, Delivery::Owned(buf), false),
        }
    }

    /// Delivers a copy in the small buffer; the large one takes the next packet.
    fn deliver_small(
        &mut self,
        now: Time,
        id: crate::ClientId,
        mut large: Buf,
        mut small: Buf,
    ) -> Outcome {
        let clients = &mut self.clients;
        // It was asked for at the length of the packet.
        let is_copied = small.copy_from(&large).is_ok();
        if large.set_len(0).is_ok() {
            clients.unused(id, large);
        }
        clients.deliver(now, id, Delivery::Owned(small), is_copied)
    }

    /// The adapter writes nothing to the circuit's memory any more; its client may be waiting for that.
    pub fn on_dma_stopped(&mut self, vc: Vc) {
        self.clients.stop_dma(Type::Of(vc));
    }
}
