//! What the user calls, as it would an endpoint.

use layercast_wire::Payload;

use super::{Door, Link, Mirror};
use crate::endpoint::{check_joined, check_remote};
use crate::remote::slot::cost;
use crate::remote::{Answer, MAX_DATA, Question, Request};
use crate::{Chunk, ContextId, SendOptions, XtpConfig, XtpError, XtpRate, XtpSocket};

/// Less than this of what there is to send does not go alone.
const LEAST: usize = 16 << 10;

impl Link {
    /// Opens an association from the port `from` of XTP.
    pub fn connect(
        &mut self,
        from: u16,
        remote: XtpSocket,
        config: XtpConfig,
    ) -> Result<ContextId, XtpError> {
        check_remote(&config, &remote)?;
        let id = self.name();
        self.contexts.insert(id, Mirror::new());
        let config = Box::new(config);
        self.say(&Request::Connect {
            id,
            from,
            remote,
            config,
        });
        Ok(id)
    }

    /// Asks to be let into a multicast association.
    pub fn join(&mut self, remote: XtpSocket, config: XtpConfig) -> Result<ContextId, XtpError> {
        check_joined(&config, &remote)?;
        let id = self.name();
        self.contexts.insert(id, Mirror::new());
        let config = Box::new(config);
        self.say(&Request::Join { id, remote, config });
        Ok(id)
    }

    /// Asks for associations to `port`; [`listening`](Self::listening) tells whether they come.
    pub fn listen(&mut self, port: u16, backlog: usize, config: XtpConfig) -> Result<(), XtpError> {
        config.validate()?;
        if self.doors.contains_key(&port) {
            return Err(XtpError::PortInUse(port));
        }
        self.doors.insert(port, Door::default());
        self.say(&Request::Listen {
            port,
            backlog: u32::try_from(backlog).unwrap_or(u32::MAX),
            config: Box::new(config),
        });
        Ok(())
    }

    /// Whether there are associations to `port` now; `None` as long as that is not known.
    pub fn listening(&self, port: u16) -> Option<Result<(), XtpError>> {
        self.doors.get(&port)?.listening.clone()
    }

    /// Takes no more associations to `port`; those not accepted are broken off.
    pub fn unlisten(&mut self, port: u16) {
        let Some(door) = self.doors.remove(&port) else {
            return;
        };
        self.say(&Request::Unlisten { port });
        for id in door.waiting {
            self.abort(id);
        }
    }

    /// The next association to `port`; if there is none, one is asked for.
    pub fn accept(&mut self, port: u16) -> Option<ContextId> {
        let next = ContextId::from_number(self.opened);
        let door = self.doors.get_mut(&port)?;
        if let Some(id) = door.waiting.pop_front() {
            return Some(id);
        }
        if door.wants.is_none() {
            door.wants = Some(next);
            self.opened += 1;
            self.say(&Request::Accept { port, id: next });
        }
        None
    }

    /// As [`Endpoint::offer`](crate::Endpoint::offer).
    pub fn offer(
        &mut self,
        id: ContextId,
        data: &mut Payload,
        how: &mut SendOptions,
    ) -> Result<bool, XtpError> {
        if data.is_empty() && how.tag.is_none() {
            return Err(XtpError::Empty);
        }
        loop {
            let mirror = self.contexts.get_mut(&id).ok_or(XtpError::Unknown)?;
            let status = &mirror.status;
            if let Some(error) = status.unopened.as_ref().or(status.refused.as_ref()) {
                return Err(error.clone());
            }
            if mirror.write_closed || mirror.status.over.is_some() {
                return Err(XtpError::Shut);
            }
            let least = cost(data.len().min(LEAST));
            if mirror.room < least {
                return Ok(false);
            }
            let room = (mirror.room - cost(0)) as usize;
            let piece = data.slice(0..room.min(MAX_DATA));
            mirror.room -= cost(piece.len());
            let whole = piece.len() == data.len();
            let how_piece = SendOptions {
                end_of_message: how.end_of_message && whole,
                tell_delivery: how.tell_delivery && whole,
                ..*how
            };
            let request = Request::Send { id, how: how_piece };
            self.frames.push(&request, &piece);
            data.advance(piece.len());
            how.tag = None;
            if whole {
                return Ok(true);
            }
        }
    }

    /// As [`Endpoint::receive`](crate::Endpoint::receive).
    pub fn receive(&mut self, id: ContextId, max: usize) -> Result<Option<Chunk>, XtpError> {
        let mirror = self.contexts.get_mut(&id).ok_or(XtpError::Unknown)?;
        let Some(first) = mirror.inbox.front_mut() else {
            return Ok(None);
        };
        let chunk = if first.data.len() <= max {
            mirror.inbox.pop_front()
        } else {
            let piece = Chunk {
                data: first.data.slice(0..max),
                tag: first.tag.take(),
                end_of_message: false,
                gap: std::mem::take(&mut first.gap),
            };
            first.data.advance(max);
            Some(piece).filter(|it| it.size() > 0)
        };
        let size = chunk.as_ref().map_or(0, Chunk::size);
        if mirror.taken == 0 && size > 0 {
            self.eaten.push(id);
        }
        mirror.taken += size;
        Ok(chunk)
    }

    /// Asks when everything sent so far is settled; gives what [`ContextStatus::settled`](crate::ContextStatus::settled) is then.
    pub fn tell_settled(&mut self, id: ContextId) -> Result<u64, XtpError> {
        let mirror = self.contexts.get_mut(&id).ok_or(XtpError::Unknown)?;
        mirror.asked += 1;
        let nth = mirror.asked;
        self.say(&Request::Settle { id, nth });
        Ok(nth)
    }

    /// As [`Endpoint::close_write`](crate::Endpoint::close_write).
    pub fn close_write(&mut self, id: ContextId) -> Result<(), XtpError> {
        let mirror = self.contexts.get_mut(&id).ok_or(XtpError::Unknown)?;
        if !std::mem::replace(&mut mirror.write_closed, true) {
            self.say(&Request::CloseWrite { id });
        }
        Ok(())
    }

    /// As [`Endpoint::close_read`](crate::Endpoint::close_read).
    pub fn close_read(&mut self, id: ContextId) -> Result<(), XtpError> {
        let mirror = self.contexts.get_mut(&id).ok_or(XtpError::Unknown)?;
        mirror.read_closed = true;
        mirror.inbox.clear();
        self.say(&Request::CloseRead { id });
        Ok(())
    }

    /// As [`Endpoint::close`](crate::Endpoint::close).
    pub fn close(&mut self, id: ContextId) {
        if self.contexts.remove(&id).is_some() {
            self.say(&Request::Close { id });
        }
    }

    /// As [`Endpoint::abort`](crate::Endpoint::abort).
    pub fn abort(&mut self, id: ContextId) {
        if self.contexts.remove(&id).is_some() {
            self.say(&Request::Abort { id });
        }
    }

    /// As [`Endpoint::post`](crate::Endpoint::post).
    pub fn post(&mut self, id: ContextId, bytes: usize) -> Result<(), XtpError> {
        self.known(id)?;
        let bytes = bytes as u64;
        self.say(&Request::Post { id, bytes });
        Ok(())
    }

    /// As [`Endpoint::set_traffic`](crate::Endpoint::set_traffic).
    pub fn set_traffic(
        &mut self,
        id: ContextId,
        output: XtpRate,
        input: XtpRate,
    ) -> Result<(), XtpError> {
        self.known(id)?;
        self.say(&Request::SetTraffic { id, output, input });
        Ok(())
    }

    /// Asks the server something; gives the number of the question.
    pub fn ask(&mut self, about: Question) -> u32 {
        self.asked = self.asked.wrapping_add(1);
        let number = self.asked;
        self.answers.insert(number, None);
        self.say(&Request::Ask { number, about });
        number
    }

    /// The answer to a question, once it is there.
    pub fn answer(&mut self, number: u32) -> Option<Answer> {
        self.answers.get_mut(&number)?.take()
    }

    /// The caller no longer waits for the answer to a question.
    pub fn drop_question(&mut self, number: u32) {
        self.answers.remove(&number);
    }

    fn known(&self, id: ContextId) -> Result<(), XtpError> {
        match self.contexts.contains_key(&id) {
            true => Ok(()),
            false => Err(XtpError::Unknown),
        }
    }

    /// The next name.
    fn name(&mut self) -> ContextId {
        self.opened += 1;
        ContextId::from_number(self.opened - 1)
    }
}
