use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use layercast::{Bytes, Member, Played, QosSignal};
use layercast::{
    ControlSocket, GroupControl, ManagementSocket, MediaHandle, OpenGroup, OpenStream, Server,
};
use tokio::runtime::{Builder, Runtime};

use crate::queue::Queue;
use crate::status::{Fault, LC_ENET, Outcome, guard};

/// A descriptor of a server or of a media, control or management socket: above zero, never used again
/// once closed.
pub type lc_socket = i32;

/// What a descriptor stands for.
#[derive(Clone)]
pub(crate) enum Socket {
    Server(Arc<Server>),
    Source(Arc<OpenGroup>),
    Sink(Arc<SinkMedia>),
    Control(Arc<SinkControl>),
    GroupControl(Arc<SourceControl>),
    Management(Arc<Management>),
    Stream(Arc<Served>),
}

/// A stream that is served.
pub(crate) struct Served {
    /// It, and the host that it is served from, until it is closed.
    pub open: Mutex<Option<(OpenStream, Server)>>,
    /// What a sink joins with.
    pub url: String,
}

impl Served {
    /// Takes a look at the stream, or takes it away.
    pub fn lock(&self) -> MutexGuard<'_, Option<(OpenStream, Server)>> {
        // Nothing panics while it holds the lock.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The media socket of a sink.
pub(crate) struct SinkMedia {
    pub frames: Arc<Queue<Played>>,
    /// Names the socket, whose frames a task takes.
    pub handle: MediaHandle,
}

/// The control socket of a sink.
pub(crate) struct SinkControl {
    pub socket: ControlSocket,
    pub messages: Arc<Queue<Bytes>>,
}

/// The control sockets of the members of a group.
pub(crate) struct SourceControl {
    pub socket: GroupControl,
    pub messages: Arc<Queue<(Member, Bytes)>>,
}

/// A management socket of either side.
pub(crate) struct Management {
    pub socket: ManagementSocket,
    pub upcalls: Arc<Queue<QosSignal>>,
}

#[derive(Default)]
struct Table {
    last: lc_socket,
    open: HashMap<lc_socket, Socket>,
}

fn table() -> MutexGuard<'static, Table> {
    static TABLE: OnceLock<Mutex<Table>> = OnceLock::new();
    let table = TABLE.get_or_init(Mutex::default);
    // A panic under the lock leaves the table whole.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The threads on which everything asynchronous runs.
pub(crate) fn runtime() -> Outcome<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("layercast")
            .enable_all()
            .build()
            .map_err(|error| error.to_string())
    });
    runtime.as_ref().map_err(|text| Fault {
        code: LC_ENET,
        text: text.clone(),
    })
}

/// Gives `socket` a descriptor.
pub(crate) fn insert(socket: Socket) -> Outcome<lc_socket> {
    let mut table = table();
    table.last = match table.last.checked_add(1) {
        Some(next) => next,
        None => return Err(Fault::invalid("no descriptor is left")),
    };
    let descriptor = table.last;
    table.open.insert(descriptor, socket);
    Ok(descriptor)
}

/// What `descriptor` stands for.
pub(crate) fn find(descriptor: lc_socket) -> Outcome<Socket> {
    let found = table().open.get(&descriptor).cloned();
    found.ok_or_else(|| Fault::invalid(format!("{descriptor} is no descriptor")))
}

/// What the caller expected `descriptor` to be.
pub(crate) fn not_a(what: &str, descriptor: lc_socket) -> Fault {
    Fault::invalid(format!("descriptor {descriptor} is no {what}"))
}

pub(crate) fn queue<T: Send + 'static>() -> Outcome<Arc<Queue<T>>> {
    Queue::new().map_err(|error| Fault {
        code: LC_ENET,
        text: format!("no descriptor to poll: {error}"),
    })
}

/// A file descriptor that is readable while the media, control or management socket has something to
/// take, or is over; for poll() and its kin only. It goes with the socket.
///
/// Gives the file descriptor, or LC_EINVAL for a descriptor that is none or has nothing to take.
#[unsafe(no_mangle)]
pub extern "C" fn lc_poll_fd(socket: lc_socket) -> i32 {
    let mut fd = 0;
    let status = guard(|| {
        fd = match find(socket)? {
            Socket::Sink(media) => media.frames.fd(),
            Socket::Control(control) => control.messages.fd(),
            Socket::GroupControl(control) => control.messages.fd(),
            Socket::Management(management) => management.upcalls.fd(),
            Socket::Server(_) | Socket::Source(_) | Socket::Stream(_) => {
                return Err(not_a("socket to take from", socket));
            }
        };
        Ok(())
    });
    if status < 0 { status } else { fd }
}

/// Closes a descriptor. A stream that is served ends. A sink leaves its flow once its media, control and
/// management sockets are all closed; a server stops, and closes its flows in order, once its groups are closed
/// too: closed after them it returns when the members have been notified, or after a few seconds.
#[unsafe(no_mangle)]
pub extern "C" fn lc_close(socket: lc_socket) -> i32 {
    guard(|| {
        let removed = table().open.remove(&socket);
        match removed {
            Some(Socket::Sink(media)) => media.frames.close(),
            Some(Socket::Control(control)) => control.messages.close(),
            Some(Socket::GroupControl(control)) => control.messages.close(),
            Some(Socket::Management(management)) => management.upcalls.close(),
            Some(Socket::Server(server)) => {
                // The program may end now: the notifications to the members have to be under way first.
                if let Ok(server) = Arc::try_unwrap(server)
                    && !server.has_groups()
                {
                    runtime()?.block_on(server.close())?;
                }
            }
            Some(Socket::Source(_)) => {}
            Some(Socket::Stream(served)) => {
                let open = served.lock().take();
                if let Some((stream, server)) = open {
                    // Calls that wait for it end, and then the members are notified.
                    drop(stream);
                    runtime()?.block_on(server.close())?;
                }
            }
            None => return Err(Fault::invalid(format!("{socket} is no descriptor"))),
        }
        Ok(())
    })
}
