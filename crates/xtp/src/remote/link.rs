mod calls;

use core::net::SocketAddr;
use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use layercast_wire::Payload;

use super::slot::QUEUE;
use super::{Answer, FrameError, Frames, Parting, Report, Request, VERSION};
use crate::{Chunk, ContextId, ContextStatus, XtpError};

/// A context at the server, as its user sees it.
#[derive(Debug)]
struct Mirror {
    status: ContextStatus,
    /// Credit for what is sent.
    room: u64,
    /// Questions whether everything is settled.
    asked: u64,
    /// Nothing more may be sent, or is received.
    write_closed: bool,
    read_closed: bool,
    inbox: VecDeque<Chunk>,
    /// Taken, and the server does not know yet.
    taken: u64,
}

/// A port at the server.
#[derive(Debug, Default)]
struct Door {
    listening: Option<Result<(), XtpError>>,
    /// The name that the next association will have.
    wants: Option<ContextId>,
    waiting: VecDeque<ContextId>,
}

/// What a frame of the server brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// Nothing that anybody waits for.
    Nothing,
    /// The server is there.
    Welcome,
    /// Something about a context.
    Context(ContextId),
    /// Something about a port.
    Port(u16),
    /// An answer.
    Answer(u32),
    /// The server has nothing more to do with us.
    Parted(Parting),
}

/// What a user has instead of an endpoint: the calls of one that lives elsewhere.
///
/// Calls are assumed to succeed, as far as they are valid here; their outcome is in [`status`](Self::status) later. The driver moves
/// [`frames`](Self::frames) to the server and hands what it says to [`handle`](Self::handle).
#[derive(Debug)]
pub struct Link {
    welcome: Option<(SocketAddr, u32)>,
    contexts: HashMap<ContextId, Mirror>,
    doors: BTreeMap<u16, Door>,
    answers: HashMap<u32, Option<Answer>>,
    opened: u64,
    asked: u32,
    /// Contexts of which data were taken.
    eaten: Vec<ContextId>,
    frames: Frames,
}

impl Default for Link {
    fn default() -> Link {
        Link::new()
    }
}

impl Link {
    /// A link that greets the server.
    pub fn new() -> Link {
        let mut link = Link {
            welcome: None,
            contexts: HashMap::new(),
            doors: BTreeMap::new(),
            answers: HashMap::new(),
            opened: 0,
            asked: 0,
            eaten: Vec::new(),
            frames: Frames::default(),
        };
        link.say(&Request::Hello { version: VERSION });
        link
    }

    /// Frames for the server.
    pub fn frames(&mut self) -> &mut Frames {
        for id in std::mem::take(&mut self.eaten) {
            let taken = self.contexts.get_mut(&id);
            let bytes = taken.map_or(0, |it| std::mem::take(&mut it.taken));
            if bytes > 0 {
                self.say(&Request::Taken { id, bytes });
            }
        }
        &mut self.frames
    }

    /// Whether there is something for the server.
    pub fn has_frames(&self) -> bool {
        !self.frames.is_empty() || !self.eaten.is_empty()
    }

    /// A frame of the server.
    ///
    /// # Errors
    /// It is none.
    pub fn handle(&mut self, frame: Bytes) -> Result<Changed, FrameError> {
        let (report, data) = Report::decode(frame)?;
        Ok(match report {
            Report::Welcome { local, max_data } => {
                self.welcome = Some((local, max_data));
                Changed::Welcome
            }
            Report::Listening { port, refused } => {
                if let Some(door) = self.doors.get_mut(&port) {
                    door.listening = Some(refused.map_or(Ok(()), Err));
                }
                Changed::Port(port)
            }
            Report::Accepted { port, id, .. } => {
                let door = self.doors.get_mut(&port);
                match door.filter(|it| it.wants == Some(id)) {
                    Some(door) => {
                        door.wants = None;
                        door.waiting.push_back(id);
                        self.contexts.insert(id, Mirror::new());
                    }
                    // The user has released it.
                    None => self.say(&Request::Abort { id }),
                }
                Changed::Port(port)
            }
            Report::Status { id, status } => self.of(id, |it| it.status = *status),
            Report::Chunk {
                id,
                tag,
                end_of_message,
                gap,
            } => {
                let chunk = Chunk {
                    data: Payload::Bytes(data),
                    tag,
                    end_of_message,
                    gap,
                };
                self.of(id, |it| {
                    if !it.read_closed {
                        it.inbox.push_back(chunk);
                    }
                })
            }
            Report::Room { id, bytes } => {
                self.of(id, |it| it.room = it.room.saturating_add(bytes).min(QUEUE))
            }
            Report::Answer { number, answer } => match self.answers.get_mut(&number) {
                Some(place) => {
                    *place = Some(answer);
                    Changed::Answer(number)
                }
                None => Changed::Nothing,
            },
            Report::Goodbye(why) => Changed::Parted(why),
        })
    }

    /// The address of the server's socket, and the user bytes of a packet that fits what carries it; `None` before it has answered.
    pub fn welcome(&self) -> Option<(SocketAddr, u32)> {
        self.welcome
    }

    /// The status of a context, as reported so far.
    pub fn status(&self, id: ContextId) -> ContextStatus {
        self.contexts
            .get(&id)
            .map_or_else(ContextStatus::default, |it| it.status.clone())
    }

    fn of(&mut self, id: ContextId, change: impl FnOnce(&mut Mirror)) -> Changed {
        match self.contexts.get_mut(&id) {
            Some(mirror) => {
                change(mirror);
                Changed::Context(id)
            }
            None => Changed::Nothing,
        }
    }

    fn say(&mut self, request: &Request) {
        self.frames.push(request, &Payload::default());
    }
}

impl Mirror {
    fn new() -> Mirror {
        Mirror {
            status: ContextStatus::default(),
            room: QUEUE,
            asked: 0,
            write_closed: false,
            read_closed: false,
            inbox: VecDeque::new(),
            taken: 0,
        }
    }
}
