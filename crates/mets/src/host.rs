use layercast_core::{PortId, Span, Time, earliest};
use layercast_link::host::{HostStats, ReceiveCosts, ReceivingHost, SendCosts, SendingHost};
use layercast_nif::cpu::{Cpu, CpuConfig, Level};
use layercast_wire::{ADAPTER_VCI, LinkPdu};

/// What the host of a station costs (specs/mets.md 3.2). By default it costs nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HostConfig {
    /// Processor time for each cell that a switch takes in, and for each further copy of it.
    pub forward: Span,
    /// What it costs to send what the sources have.
    pub send: SendCosts,
    /// What it costs to receive; `None`: nothing, and the host cannot stall.
    pub receive: Option<ReceiveCosts>,
    /// Units are handed on at multiples of this: a driver in real time needs fewer timers. Zero: when they are done.
    pub grain: Span,
}

/// Cells of media that the sources of a host with costs have sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SentCells {
    /// Cells sent.
    pub cells: u64,
    /// Time from the first cell that was ready to the last one sent.
    pub span: Span,
}

/// The processor and the interface of a host, between its links and its machines.
#[derive(Debug)]
pub(crate) struct Host {
    /// Cost of a cell, and the queue of the processor of a switch.
    forwarding: Option<(Span, Cpu<(PortId, LinkPdu)>)>,
    sending: Option<SendingHost>,
    receiving: Option<ReceivingHost>,
    grain: Span,
    first_ready: Option<Time>,
    sent: SentCells,
}

impl Host {
    /// The host; `None` if it costs nothing.
    pub fn new(config: HostConfig) -> Option<Box<Host>> {
        let forwards = config.forward > Span::ZERO;
        let host = Host {
            forwarding: forwards.then(|| (config.forward, Cpu::new(CpuConfig::default()))),
            sending: SendingHost::new(config.send),
            receiving: config.receive.map(ReceivingHost::new),
            grain: config.grain,
            first_ready: None,
            sent: SentCells::default(),
        };
        let costs = forwards || host.sending.is_some() || host.receiving.is_some();
        costs.then(|| Box::new(host))
    }

    /// Takes a unit of a source, or returns it if sending costs nothing.
    pub fn send(&mut self, now: Time, pdu: LinkPdu) -> Option<LinkPdu> {
        let Some(host) = &mut self.sending else {
            return Some(pdu);
        };
        if circuit(&pdu).is_some() {
            self.first_ready.get_or_insert(now);
        }
        host.push(now, pdu);
        None
    }

    /// Takes a unit from a link, or returns it if neither forwarding nor receiving costs anything.
    pub fn arrive(&mut self, now: Time, port: PortId, pdu: LinkPdu) -> Option<LinkPdu> {
        if let Some((cost, cpu)) = &mut self.forwarding {
            let cost = cost.times(u64::from(pdu.cells()));
            cpu.push(now, Level::Irq, cost, (port, pdu));
            return None;
        }
        let Some(host) = &mut self.receiving else {
            return Some(pdu);
        };
        if self.grain > Span::ZERO {
            // The timer is late on purpose: what is done by now makes room.
            host.advance(now);
        }
        host.arrive(now, port, pdu);
        None
    }

    /// The next unit that the host is done with by `now`, and the port it came from.
    pub fn poll(&mut self, now: Time) -> Option<(PortId, LinkPdu)> {
        if let Some((_, cpu)) = &mut self.forwarding
            && let Some((_, done)) = cpu.pop_done(now)
        {
            return Some(done);
        }
        if let Some(pdu) = self.sending.as_mut().and_then(|host| host.poll(now)) {
            if let (Some(_), Some(first)) = (circuit(&pdu), self.first_ready) {
                self.sent.cells += u64::from(pdu.cells());
                self.sent.span = now.since(first);
            }
            return Some((PortId::LOCAL, pdu));
        }
        self.receiving.as_mut()?.poll(now)
    }

    /// The switch made `copies` of a unit of `cells`. The first one is paid for, the others keep the processor busy.
    pub fn copied(&mut self, now: Time, cells: u32, copies: u64) {
        if let Some((cost, cpu)) = &mut self.forwarding {
            let copy = cost.times(u64::from(cells));
            cpu.busy_for(now, copy.times(copies.saturating_sub(1)));
        }
    }

    /// Switches the interrupts of a receiving host off for `length`.
    pub fn stall(&mut self, now: Time, length: Span) {
        if let Some(host) = &mut self.receiving {
            if self.grain > Span::ZERO {
                host.advance(now);
            }
            host.stall(now, length);
        }
    }

    pub fn sent(&self) -> SentCells {
        self.sent
    }

    pub fn received(&self) -> Option<HostStats> {
        self.receiving.as_ref().map(ReceivingHost::stats)
    }

    /// When it hands on the next unit.
    pub fn next_timeout(&self) -> Option<Time> {
        let forwarded = self
            .forwarding
            .as_ref()
            .and_then(|(_, cpu)| cpu.next_timeout());
        let sent = self.sending.as_ref().and_then(SendingHost::next_done);
        let received = self.receiving.as_ref().and_then(ReceivingHost::next_done);
        let done = earliest(forwarded, earliest(sent, received))?;
        if self.grain == Span::ZERO {
            return Some(done);
        }
        let grains = done.as_ps().div_ceil(self.grain.as_ps());
        Some(Time::ZERO.saturating_add(self.grain.times(grains)))
    }
}

/// The circuit or flow of a unit of media; `None` of RES and ADAPT.
pub fn circuit(pdu: &LinkPdu) -> Option<u32> {
    match pdu {
        LinkPdu::Cell(cell) if cell.vci == ADAPTER_VCI => None,
        LinkPdu::Cell(cell) => Some(u32::from(cell.vci)),
        LinkPdu::Mets(packet) => Some(packet.header.flow.0),
        LinkPdu::Adapter(_) => None,
    }
}
