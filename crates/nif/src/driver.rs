use layercast_core::Time;

use crate::clients::{ClientId, Clients, Closed, Config, Holdings, RegError, Registration, Type};
use crate::{Action, Buf, Client, ClientStats, Memory, Stats, Ticket, TxResult};

/// A kind of network interface: how it finds the client of a packet, and where its packets are.
pub trait Hardware {
    /// What distinguishes the packets of clients.
    type Type: Copy + Ord;

    /// The adapter writes directly to the buffers of clients.
    const WRITES_TO_CLIENTS: bool;
}

/// The driver of a network interface: a registry of clients, and the exchange of buffers with them.
///
/// It is sans-I/O: packets from the wire and completions are its inputs; packets to be sent and [`Action`]s its outputs.
/// What the wire brings is in [`RingDriver`](crate::RingDriver) and [`VcDriver`](crate::VcDriver).
#[derive(Debug)]
pub struct Driver<H: Hardware, C> {
    pub(crate) clients: Clients<H::Type, C>,
    pub(crate) hardware: H,
}

impl<H: Hardware, C: Client> Driver<H, C> {
    pub(crate) fn with(hardware: H, memory: Memory, config: Config) -> Driver<H, C> {
        Driver {
            clients: Clients::new(memory, config),
            hardware,
        }
    }

    /// Registers the client of a type. An error gives it back, and nothing has changed.
    pub fn register(
        &mut self,
        now: Time,
        ty: Type<H::Type>,
        client: C,
    ) -> Result<Registration, (RegError, C)> {
        self.clients.register(now, ty, client, H::WRITES_TO_CLIENTS)
    }

    /// Registers a client that looks at the packets of a type before their owner gets them.
    pub fn tap(
        &mut self,
        now: Time,
        ty: Type<H::Type>,
        client: C,
    ) -> Result<Registration, (RegError, C)> {
        self.clients.tap(now, ty, client)
    }

    /// Begins to unregister a client; [`poll_closed`](Self::poll_closed) gives it when the adapter has no buffer of it
    /// any more. Its packets are dropped until then.
    pub fn unregister(&mut self, id: ClientId) {
        self.clients.unregister(id);
    }

    /// The next client that is unregistered.
    pub fn poll_closed(&mut self) -> Option<Closed<C>> {
        self.clients.poll_closed()
    }

    /// Takes an emptied buffer of a client for its next packet. Gives it back if the client is leaving or does not own
    /// buffers, or if there is no memory to make it contiguous.
    pub fn give_rx(&mut self, now: Time, id: ClientId, buf: Buf) -> Result<(), Buf> {
        self.clients.give_rx(now, id, buf)
    }

    /// Queues a packet; it comes back by [`Client::tx_done`]. Gives it back if there is no such client.
    pub fn transmit_async(&mut self, id: ClientId, buf: Buf) -> Result<(), Buf> {
        self.clients.transmit(id, buf).map(drop)
    }

    /// Queues a packet and says which [`Action::Sent`] its sender has to wait for. During
    /// [`Client::receive`] that is not possible: see [`IrqCtx::transmit_sync`](crate::IrqCtx::transmit_sync).
    pub fn transmit_sync(&mut self, id: ClientId, buf: Buf) -> Result<Ticket, Buf> {
        self.clients.transmit(id, buf)
    }

    /// The next packet for the transmitter, if that is idle.
    pub fn poll_transmit(&mut self) -> Option<(ClientId, &Buf)> {
        self.clients.poll_transmit()
    }

    /// The transmitter is done with its packet.
    pub fn on_tx_complete(&mut self, result: TxResult) {
        self.clients.on_tx_complete(result);
    }

    /// What clients asked for since the last call.
    pub fn actions(&mut self) -> impl Iterator<Item = Action> + '_ {
        self.clients.drain_actions()
    }

    /// Divides `total` buffers among the clients that own buffers: each gets what it needed since the last call, or a fair
    /// share of what others leave ([`max_min`](crate::max_min)). The clients make or end buffers accordingly.
    pub fn divide(&mut self, now: Time, total: u32) -> Vec<(ClientId, u32)> {
        self.clients.divide(now, total)
    }

    /// What it did.
    pub fn stats(&self) -> &Stats {
        &self.clients.stats
    }

    /// A client.
    pub fn client(&self, id: ClientId) -> Option<&C> {
        self.clients.client(id)
    }

    /// A client, for its threads.
    pub fn client_mut(&mut self, id: ClientId) -> Option<&mut C> {
        self.clients.client_mut(id)
    }

    /// What a client got.
    pub fn client_stats(&self, id: ClientId) -> Option<&ClientStats> {
        self.clients.client_stats(id)
    }

    /// Buffers of a client that the driver holds.
    pub fn holdings(&self, id: ClientId) -> Holdings {
        self.clients.holdings(id)
    }

    /// Ends the driver: every client with its buffers.
    pub fn shut_down(self) -> Vec<Closed<C>> {
        self.clients.shut_down()
    }
}
