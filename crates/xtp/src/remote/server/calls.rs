//! What users ask for.

use bytes::Bytes;
use layercast_core::{Span, Time};
use layercast_wire::Payload;

use super::Server;
use crate::remote::client::{Client, Door};
use crate::remote::slot::{QUEUE, Slot, buffers};
use crate::remote::{Answer, Parting, Question, Report, Request, VERSION};
use crate::{ContextId, ContextStatus, Endpoint, XtpConfig, XtpError, XtpSocket};

/// A context that is over, or whose peer is silent, must not stay forever because its user wants it.
const INACTIVE: Span = Span::from_secs(30);
const GIVE_UP: Span = Span::from_secs(600);

impl Server {
    /// A frame of a user.
    ///
    /// # Errors
    /// It makes no sense, or is more than there is credit for: the user is to be [sent away](Server::expel).
    pub fn handle(
        &mut self,
        now: Time,
        machine: &mut Endpoint,
        number: u32,
        frame: Bytes,
    ) -> Result<(), Parting> {
        let (request, data) = Request::decode(frame).map_err(|_| Parting::Nonsense)?;
        let client = self.clients.get_mut(&number);
        let Some(client) = client.filter(|_| !self.stopping) else {
            return Ok(());
        };
        match (&request, client.greeted) {
            (Request::Hello { version }, false) if *version == VERSION => {
                client.greeted = true;
                let welcome = Report::Welcome {
                    local: self.local,
                    max_data: self.max_data,
                };
                client.frames.push(&welcome, &Payload::default());
                return Ok(());
            }
            (Request::Hello { .. }, false) => return Err(Parting::Version(VERSION)),
            (Request::Hello { .. }, true) | (_, false) => return Err(Parting::Nonsense),
            _ => {}
        }
        if !matches!(
            request,
            Request::Ask {
                about: Question::Stats,
                ..
            }
        ) {
            self.admit(number)?;
        }
        let done = self.call(now, machine, number, request, data);
        self.work(now, machine);
        done
    }

    fn call(
        &mut self,
        now: Time,
        machine: &mut Endpoint,
        number: u32,
        request: Request,
        data: Bytes,
    ) -> Result<(), Parting> {
        match request {
            Request::Connect {
                id,
                from,
                remote,
                config,
            } => {
                let local = XtpSocket {
                    net: self.local,
                    port: from,
                };
                let open = |machine: &mut Endpoint, config: &XtpConfig| {
                    machine.connect(now, local, remote, config)
                };
                return self.open(machine, number, id, *config, open);
            }
            Request::Join { id, remote, config } => {
                let local = XtpSocket {
                    net: self.local,
                    port: 0,
                };
                let open = |machine: &mut Endpoint, config: &XtpConfig| {
                    machine.join(now, local, remote, config)
                };
                return self.open(machine, number, id, *config, open);
            }
            Request::Listen {
                port,
                backlog,
                config,
            } => {
                let refused = self.listen(machine, number, port, backlog, *config).err();
                self.report(number, &Report::Listening { port, refused });
            }
            Request::Unlisten { port } => self.unlisten(now, machine, number, port),
            Request::Accept { port, id } => {
                let Some(client) = self.clients.get_mut(&number) else {
                    return Ok(());
                };
                let known = client.names.contains_key(&id);
                let door = client.doors.get_mut(&port);
                let Some(door) = door.filter(|it| it.wants.is_none() && !known) else {
                    return Err(Parting::Nonsense);
                };
                door.wants = Some(id);
                self.accept(now, machine, port);
            }
            Request::Ask { number: n, about } => {
                let answer = self.answer(machine, number, about);
                self.report(number, &Report::Answer { number: n, answer });
            }
            Request::Hello { .. } => {}
            Request::Send { id, .. }
            | Request::Taken { id, .. }
            | Request::Settle { id, .. }
            | Request::Post { id, .. }
            | Request::SetTraffic { id, .. }
            | Request::CloseWrite { id }
            | Request::CloseRead { id }
            | Request::Close { id }
            | Request::Abort { id } => {
                // One that was refused is spoken to before its user hears of that.
                if let Some(own) = self.own(number, id) {
                    return self.of_context(now, machine, own, &request, data);
                }
            }
        }
        Ok(())
    }

    fn of_context(
        &mut self,
        now: Time,
        machine: &mut Endpoint,
        id: ContextId,
        request: &Request,
        data: Bytes,
    ) -> Result<(), Parting> {
        let Some(slot) = self.slots.get_mut(&id) else {
            return Ok(());
        };
        // What the endpoint refuses of these is refused because the context is over, which its user hears anyway.
        match *request {
            Request::Send { how, .. } => slot.send(data, how)?,
            Request::Settle { nth, .. } => slot.settle(nth),
            Request::CloseWrite { .. } => slot.end(),
            Request::Taken { bytes, .. } => drop(machine.use_lent(id, bytes)),
            Request::Post { bytes, .. } => drop(machine.post(id, bytes as usize)),
            Request::SetTraffic { output, input, .. } => {
                drop(machine.set_traffic(id, output, input));
            }
            Request::CloseRead { .. } => drop(machine.close_read(now, id)),
            Request::Close { .. } => {
                slot.end();
                slot.released = true;
                let (client, name) = (slot.client, slot.name);
                drop(machine.close_read(now, id));
                self.free_name(client, name);
            }
            Request::Abort { .. } => {
                let (client, name) = (slot.client, slot.name);
                drop(machine.abort(now, id));
                self.free_name(client, name);
                self.forget(now, machine, id);
                return Ok(());
            }
            _ => {}
        }
        self.ready.push_back(id);
        Ok(())
    }

    /// A context that a user begins.
    fn open(
        &mut self,
        machine: &mut Endpoint,
        number: u32,
        name: ContextId,
        config: XtpConfig,
        open: impl FnOnce(&mut Endpoint, &XtpConfig) -> Result<ContextId, XtpError>,
    ) -> Result<(), Parting> {
        if self.own(number, name).is_some() {
            return Err(Parting::Nonsense);
        }
        let config = self.bounded(config);
        let charge = buffers(&config) + QUEUE;
        let fits = self.fits(number, charge);
        match fits.and_then(|()| open(machine, &config)) {
            Ok(id) => self.slot(number, name, id, charge),
            Err(error) => {
                let status = ContextStatus {
                    unopened: Some(error),
                    ..ContextStatus::default()
                };
                let status = Box::new(status);
                self.report(number, &Report::Status { id: name, status });
            }
        }
        Ok(())
    }

    fn listen(
        &mut self,
        machine: &mut Endpoint,
        number: u32,
        port: u16,
        backlog: u32,
        config: XtpConfig,
    ) -> Result<(), XtpError> {
        let config = self.bounded(config);
        let backlog = backlog.max(1);
        let charge = buffers(&config).saturating_mul(u64::from(backlog));
        self.fits(number, charge)?;
        machine.listen(port, backlog as usize, config.clone())?;
        self.ports.insert(port, number);
        if let Some(client) = self.clients.get_mut(&number) {
            client.memory += charge;
            let door = Door {
                config,
                charge,
                wants: None,
            };
            client.doors.insert(port, door);
        }
        Ok(())
    }

    fn unlisten(&mut self, now: Time, machine: &mut Endpoint, number: u32, port: u16) {
        let client = self.clients.get_mut(&number);
        let Some((client, door)) =
            client.and_then(|it| it.doors.remove(&port).map(|door| (it, door)))
        else {
            return;
        };
        client.memory -= door.charge;
        self.ports.remove(&port);
        machine.unlisten(now, port);
    }

    /// Takes an association to a port if its user wants one and may have it.
    pub(super) fn accept(&mut self, now: Time, machine: &mut Endpoint, port: u16) {
        let Some(number) = self.ports.get(&port).copied() else {
            return;
        };
        let door = self.clients.get(&number).and_then(|it| it.doors.get(&port));
        let Some((name, config)) = door.and_then(|it| Some((it.wants?, &it.config))) else {
            return;
        };
        let charge = buffers(config) + QUEUE;
        if self.fits(number, charge).is_err() {
            return;
        }
        let Some((id, remote)) = machine.accept(port) else {
            return;
        };
        if let Some(door) = self
            .clients
            .get_mut(&number)
            .and_then(|it| it.doors.get_mut(&port))
        {
            door.wants = None;
        }
        let accepted = Report::Accepted {
            port,
            id: name,
            remote,
        };
        self.report(number, &accepted);
        if self.own(number, name).is_some() {
            // It has opened another of this name meanwhile: it cannot have both.
            drop(machine.abort(now, id));
            return;
        }
        self.slot(number, name, id, charge);
    }

    fn answer(&self, machine: &Endpoint, number: u32, about: Question) -> Answer {
        match about {
            Question::Info(name) => {
                let info = self.own(number, name).and_then(|id| machine.info(id));
                Answer::Info(info.map(Box::new))
            }
            Question::Traffic(name) => {
                let id = self.own(number, name);
                Answer::Traffic(id.and_then(|id| machine.traffic(id)))
            }
            Question::Stats => Answer::Stats(Box::new(self.stats(machine))),
        }
    }

    fn slot(&mut self, number: u32, name: ContextId, id: ContextId, charge: u64) {
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        client.names.insert(name, id);
        client.contexts += 1;
        client.memory += charge;
        self.slots.insert(id, Slot::new(name, number, charge));
    }

    /// Whether a user may have one more context that takes `charge` bytes.
    fn fits(&self, number: u32, charge: u64) -> Result<(), XtpError> {
        let Some(client) = self.clients.get(&number) else {
            return Err(XtpError::Unknown);
        };
        if client.contexts + client.doors.len() >= self.limits.contexts {
            return Err(XtpError::Full(self.limits.contexts));
        }
        match client.memory.saturating_add(charge) > self.limits.memory {
            true => Err(XtpError::Buffers(self.limits.memory)),
            false => Ok(()),
        }
    }

    fn bounded(&self, config: XtpConfig) -> XtpConfig {
        XtpConfig {
            timer: config.timer.max(self.timer),
            inactive: config.inactive.min(INACTIVE),
            give_up: config.give_up.min(GIVE_UP),
            ..config
        }
    }

    fn own(&self, number: u32, name: ContextId) -> Option<ContextId> {
        let client: &Client = self.clients.get(&number)?;
        client.names.get(&name).copied()
    }

    fn free_name(&mut self, client: Option<u32>, name: ContextId) {
        if let Some(client) = client.and_then(|number| self.clients.get_mut(&number)) {
            client.names.remove(&name);
        }
    }

    fn report(&mut self, number: u32, report: &Report) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.frames.push(report, &Payload::default());
        }
    }
}
