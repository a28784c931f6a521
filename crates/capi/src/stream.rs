use std::ffi::c_char;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use layercast::{Group, Identity, LiveOptions, Server, Span};
use rustix::net::{SendFlags, send};

use crate::memory;
use crate::socket::{Served, Socket, find, insert, lc_socket, not_a, runtime};
use crate::source::within;
use crate::status::{Fault, Outcome, guard};

/// A file descriptor of the program that gets a stream. A socket whose other end is closed gives an error and no signal.
pub(crate) struct Stream {
    file: File,
    is_socket: bool,
}

impl Stream {
    pub(crate) fn new(file: File) -> Stream {
        Stream {
            file,
            is_socket: true,
        }
    }
}

impl Write for Stream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.is_socket {
            match send(&self.file, data, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::NOTSOCK) => self.is_socket = false,
                sent => return Ok(sent?),
            }
        }
        self.file.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Of lc_stream_wait(): the group is advertised, and can be joined.
pub const LC_SERVED: u32 = 0;
/// Of lc_stream_wait(): all that came has left.
pub const LC_ENDED: u32 = 1;

/// How a stream is served; see lc_serve_options_default().
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lc_serve_options {
    /// File with certificate and key (PEM), made if it is missing: URLs stay the same as long as it is kept. Null: an identity
    /// of its own each time.
    pub identity: *const c_char,
    /// Which pictures are in which layer, as `layercast serve --map` takes it. Null: as the codec has it.
    pub map: *const c_char,
    /// The program of the transport stream that is served alone; 0: the first with video.
    pub program: u32,
    /// Not 0: the programs of the transport stream are renditions of one film.
    pub renditions: u32,
    /// Frames are played this long after they were sent, ms.
    pub delay_max_ms: u32,
    /// Most that frames wait so that they leave evenly spaced, ms; 0: they leave as they come.
    pub lead_ms: u32,
}

const DEFAULT: lc_serve_options = lc_serve_options {
    identity: std::ptr::null(),
    map: std::ptr::null(),
    program: 0,
    renditions: 0,
    delay_max_ms: 1_000,
    lead_ms: 40,
};

/// Every way of serving a stream at its default.
///
/// # Safety
/// `options` is null or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_serve_options_default(
    options: *mut lc_serve_options,
    size: usize,
) -> i32 {
    guard(|| {
        memory::check_size::<lc_serve_options>(size, "options")?;
        // SAFETY: as the caller promises, and the size is right.
        unsafe { memory::write(options, DEFAULT) };
        Ok(())
    })
}

/// Serves the MPEG transport stream that is read from the file descriptor `fd` as the group `name`, from a host of its own
/// that listens on `address`, HOST:PORT; port 0 lets the system choose. It is read as `layercast serve -` reads it: live, or
/// as fast as its media play. `fd` is the library's from then on, also where the call fails; it is closed at its end, or where
/// the stream cannot be served. The call does not wait for media: lc_stream_wait() says when the group can be joined, and
/// lc_group_url() by what. The group ends with the stream, or when the descriptor is closed. Without `options` they are the
/// default.
///
/// # Safety
/// `address` and `name` are texts; `options` is null or points to `size` bytes, its members are null or texts; `fd` is open,
/// and nothing else closes it; `stream` is null or has room for a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_serve_stream(
    address: *const c_char,
    name: *const c_char,
    options: *const lc_serve_options,
    size: usize,
    fd: i32,
    stream: *mut lc_socket,
) -> i32 {
    guard(|| {
        if fd < 0 {
            return Err(Fault::invalid(format!("fd {fd} is no file descriptor")));
        }
        // SAFETY: as the caller promises.
        let reader = unsafe { File::from_raw_fd(fd) };
        if stream.is_null() {
            return Err(Fault::invalid("stream is null: nothing keeps it served"));
        }
        // SAFETY: as the caller promises.
        let address = unsafe { memory::text(address, "address") }?;
        // SAFETY: as the caller promises.
        let name = unsafe { memory::text(name, "name") }?;
        let options = match options.is_null() {
            true => DEFAULT,
            // SAFETY: as the caller promises.
            false => unsafe { memory::structure(options, size, "options") }?,
        };
        // SAFETY: as the caller promises.
        let map = unsafe { memory::optional_text(options.map, "map") }?;
        // SAFETY: as the caller promises.
        let identity = unsafe { memory::optional_text(options.identity, "identity") }?;
        let live = live(&options, map)?;
        let own = match identity {
            Some(path) => Identity::load_or_create(Path::new(path)),
            None => Identity::generate(),
        };
        let own = own.map_err(|error| Fault::from(layercast::Error::from(error)))?;
        let runtime = runtime()?;
        let _inside = runtime.enter();
        let server = runtime.block_on(Server::bind_live(address, own))?;
        let group = Group::new(name).delay_max(Span::from_ms(options.delay_max_ms.into()));
        let served = server.serve_stream(group, live, reader)?;
        let served = Served {
            url: served.url(),
            open: Mutex::new(Some((served, server))),
        };
        let descriptor = insert(Socket::Stream(Arc::new(served)))?;
        // SAFETY: as the caller promises.
        unsafe { memory::write(stream, descriptor) };
        Ok(())
    })
}

fn live(options: &lc_serve_options, map: Option<&str>) -> Outcome<LiveOptions> {
    let program = u16::try_from(options.program)
        .map_err(|_| Fault::invalid(format!("program {} is above 65535", options.program)))?;
    let mut live = LiveOptions {
        program: (program > 0).then_some(program),
        renditions: options.renditions != 0,
        lead: Span::from_ms(options.lead_ms.into()),
        // The program sends when it likes.
        awaits: true,
        ..LiveOptions::default()
    };
    if let Some(map) = map {
        live.map = map
            .parse()
            .map_err(|error| Fault::invalid(format!("map {map}: {error}")))?;
    }
    Ok(live)
}

/// Waits until a stream of lc_serve_stream() is served (LC_SERVED) or at its end (LC_ENDED). A stream that cannot be served
/// gives the cause: it is no transport stream, its video cannot be read, or it ended before it could be served. LC_ECLOSED
/// if it is closed meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn lc_stream_wait(stream: lc_socket, until: u32, timeout_ms: i32) -> i32 {
    guard(|| {
        let Socket::Stream(served) = find(stream)? else {
            return Err(not_a("stream that is served", stream));
        };
        let reached: Pin<Box<dyn Future<Output = _>>> = {
            let open = served.lock();
            let Some((stream, _)) = &*open else {
                return Err(Fault::closed());
            };
            match until {
                LC_SERVED => Box::pin(stream.served()),
                LC_ENDED => Box::pin(stream.ended()),
                _ => return Err(Fault::invalid(format!("until {until} is none of 0, 1"))),
            }
        };
        within(timeout_ms, async {
            reached.await.map_err(|error| Fault::of(&error))
        })
    })
}
