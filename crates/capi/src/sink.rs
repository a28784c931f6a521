use std::ffi::c_char;
use std::fs::File;
use std::os::fd::FromRawFd;
use std::sync::Arc;

use layercast::{Bytes, ControlSocket, Join, Layer, ManagementSocket, Member, Span};

use crate::memory;
use crate::queue::timeout;
use crate::socket::{
    Management, SinkControl, SinkMedia, Socket, find, insert, lc_socket, not_a, queue, runtime,
};
use crate::status::{Fault, Outcome, guard};
use crate::stream::Stream;
use crate::types::{LC_BL, LC_E1, LC_E2, lc_join_options, lc_member, lc_played, level};

/// Every way of joining at its default: all layers, registered.
///
/// # Safety
/// `options` is null or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_join_options_default(
    options: *mut lc_join_options,
    size: usize,
) -> i32 {
    guard(|| {
        memory::check_size::<lc_join_options>(size, "options")?;
        // SAFETY: as the caller promises, and the size is right.
        unsafe { memory::write(options, DEFAULT) };
        Ok(())
    })
}

const DEFAULT: lc_join_options = lc_join_options {
    name: std::ptr::null(),
    authorities: std::ptr::null(),
    level: 2,
    registered: 1,
    playout_ms: 0,
    sync_ms: 0,
    flow_within_ms: 0,
    profile: std::ptr::null(),
};

/// Joins the flow at `url` (joinGroup): when it returns the base layer is reserved on the whole way.
/// Gives its media socket, and its control and management sockets where those are not null. Without
/// `options` they are the default.
///
/// # Safety
/// `url` is a text; `options` is null or points to `size` bytes, its members are null or texts; the others
/// are null or have room for a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_join_group(
    url: *const c_char,
    options: *const lc_join_options,
    size: usize,
    media: *mut lc_socket,
    control: *mut lc_socket,
    management: *mut lc_socket,
) -> i32 {
    guard(|| {
        // SAFETY: as the caller promises.
        let join = unsafe { joined(url, options, size) }?;
        let runtime = runtime()?;
        let (mut frames_in, messages_in, managed) = runtime.block_on(join.connect())?;
        let handle = frames_in.handle();
        let frames = queue()?;
        // SAFETY: as the caller promises.
        unsafe { hand_over(messages_in, control, managed, management) }?;
        runtime.spawn(Arc::clone(&frames).pump(async move || frames_in.recv().await));
        let found = Socket::Sink(Arc::new(SinkMedia { frames, handle }));
        // SAFETY: as the caller promises.
        unsafe { memory::write(media, insert(found)?) };
        Ok(())
    })
}

/// Joins the flow at `url` as lc_join_group() does, and writes its media to the file descriptor `fd` as one MPEG transport
/// stream (AV1, VP8 and VP9 in IVF), frame by frame when they are due. `fd` is the library's from then on, also where the call fails: it is closed at the
/// end of the flow. If they are not read in time, frames are left out. A reader that closes its end of a pipe raises SIGPIPE in this
/// process, and one of a socket, such as socketpair() makes, raises nothing. The flow is left once `management` and `control` are
/// closed; one of them may be null.
///
/// # Safety
/// `url` is a text; `options` is null or points to `size` bytes, its members are null or texts; `fd` is open, and nothing
/// else closes it; the others are null or have room for a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_join_stream(
    url: *const c_char,
    options: *const lc_join_options,
    size: usize,
    fd: i32,
    control: *mut lc_socket,
    management: *mut lc_socket,
) -> i32 {
    guard(|| {
        if fd < 0 {
            return Err(Fault::invalid(format!("fd {fd} is no file descriptor")));
        }
        // SAFETY: as the caller promises.
        let writer = Stream::new(unsafe { File::from_raw_fd(fd) });
        if control.is_null() && management.is_null() {
            return Err(Fault::invalid(
                "control and management are null: nothing keeps the flow joined",
            ));
        }
        // SAFETY: as the caller promises.
        let join = unsafe { joined(url, options, size) }?;
        let (messages_in, managed) = runtime()?.block_on(join.write_to(writer))?;
        // SAFETY: as the caller promises.
        unsafe { hand_over(messages_in, control, managed, management) }
    })
}

/// What is to be joined.
///
/// # Safety
/// `url` is a text; `options` is null or points to `size` bytes, its members are null or texts.
unsafe fn joined(
    url: *const c_char,
    options: *const lc_join_options,
    size: usize,
) -> Outcome<Join> {
    // SAFETY: as the caller promises.
    let mut join = Join::new(unsafe { memory::text(url, "url") }?);
    let options = match options.is_null() {
        true => DEFAULT,
        // SAFETY: as the caller promises.
        false => unsafe { memory::structure(options, size, "options") }?,
    };
    join = join.level(level(options.level)?);
    join = join.registered(options.registered != 0);
    // SAFETY: as the caller promises.
    if let Some(name) = unsafe { memory::optional_text(options.name, "name") }? {
        join = join.name(name);
    }
    // SAFETY: as the caller promises.
    let pem = unsafe { memory::optional_text(options.authorities, "authorities") }?;
    if let Some(pem) = pem {
        join = join.authorities(pem);
    }
    // SAFETY: as the caller promises.
    if let Some(profile) = unsafe { memory::optional_text(options.profile, "profile") }? {
        join = join.profile(profile);
    }
    if options.playout_ms != 0 {
        join = join.playout(Span::from_ms(options.playout_ms.into()));
    }
    if options.sync_ms != 0 {
        join = join.sync(Span::from_ms(options.sync_ms.into()));
    }
    if options.flow_within_ms != 0 {
        join = join.flow_within(Span::from_ms(options.flow_within_ms.into()));
    }
    Ok(join)
}

/// Gives the sockets that are wanted their descriptors.
///
/// # Safety
/// `control` and `management` are null or have room for a descriptor.
unsafe fn hand_over(
    messages_in: ControlSocket,
    control: *mut lc_socket,
    managed: ManagementSocket,
    management: *mut lc_socket,
) -> Outcome {
    if !control.is_null() {
        let messages = queue()?;
        let socket = messages_in.clone();
        let from = socket.clone();
        runtime()?.spawn(Arc::clone(&messages).pump(async move || from.recv().await));
        let found = Socket::Control(Arc::new(SinkControl { socket, messages }));
        // SAFETY: as the caller promises.
        unsafe { memory::write(control, insert(found)?) };
    }
    if !management.is_null() {
        let found = Management::start(managed)?;
        // SAFETY: as the caller promises.
        unsafe { memory::write(management, insert(found)?) };
    }
    Ok(())
}

/// Takes the next frame, when it is due. Its bytes go to `buffer`; if that is too small `frame->len` says
/// how large it has to be, the call gives LC_EINVAL, and the frame can be taken again. LC_ECLOSED after
/// the last frame of the flow.
///
/// # Safety
/// `frame` is null or points to `size` bytes, `buffer` is null or points to `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_recv(
    media: lc_socket,
    frame: *mut lc_played,
    size: usize,
    buffer: *mut u8,
    capacity: usize,
    timeout_ms: i32,
) -> i32 {
    guard(|| {
        memory::check_size::<lc_played>(size, "frame")?;
        let Socket::Sink(socket) = find(media)? else {
            return Err(not_a("media socket of a sink", media));
        };
        socket.frames.take(timeout(timeout_ms), |played| {
            let head = lc_played {
                layer: match played.layer {
                    Layer::Base => LC_BL,
                    Layer::E1 => LC_E1,
                    Layer::E2 => LC_E2,
                },
                gop_start: played.gop_start.into(),
                sound: played.sound.into(),
                seq: played.seq,
                delay_us: played.delay.as_us(),
                len: played.data.len(),
            };
            // SAFETY: as the caller promises, and the size is right.
            unsafe { memory::write(frame, head) };
            // SAFETY: as the caller promises.
            unsafe { memory::fill(buffer, capacity, &played.data) }
        })
    })
}

/// Sends a message of at most 16 KiB on a control socket, reliably and in order: to the source, or from a
/// source to the member `to`.
///
/// # Safety
/// `to` is null or points to `size` bytes, `data` is null or points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_control_send(
    control: lc_socket,
    to: *const lc_member,
    size: usize,
    data: *const u8,
    len: usize,
) -> i32 {
    guard(|| {
        // SAFETY: as the caller promises.
        let message = Bytes::copy_from_slice(unsafe { memory::bytes(data, len, "data") }?);
        let runtime = runtime()?;
        match find(control)? {
            Socket::Control(found) => Ok(runtime.block_on(found.socket.send(message))?),
            Socket::GroupControl(found) => {
                // SAFETY: as the caller promises.
                let to = unsafe { memory::structure(to, size, "to") }?.member()?;
                Ok(runtime.block_on(found.socket.send(&to, message))?)
            }
            _ => Err(not_a("control socket", control)),
        }
    })
}

/// Takes the next message from a control socket, as lc_recv() takes a frame. `len` gets its length; at a source
/// `from`, if not null, gets its sender.
///
/// # Safety
/// `from` is null or points to `size` bytes, `buffer` is null or points to `capacity` bytes, `len` is null or
/// has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_control_recv(
    control: lc_socket,
    from: *mut lc_member,
    size: usize,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
    timeout_ms: i32,
) -> i32 {
    guard(|| {
        if !from.is_null() {
            memory::check_size::<lc_member>(size, "from")?;
        }
        let hand_over = |message: &Bytes| {
            // SAFETY: as the caller promises.
            unsafe { memory::write(len, message.len()) };
            // SAFETY: as the caller promises.
            unsafe { memory::fill(buffer, capacity, message) }
        };
        match find(control)? {
            Socket::Control(found) => found.messages.take(timeout(timeout_ms), hand_over),
            Socket::GroupControl(found) => {
                let take = |(member, message): &(Member, Bytes)| {
                    // SAFETY: as the caller promises, and the size is right.
                    unsafe { memory::write(from, lc_member::of(member)) };
                    hand_over(message)
                };
                found.messages.take(timeout(timeout_ms), take)
            }
            _ => Err(not_a("control socket", control)),
        }
    })
}

impl lc_member {
    pub(crate) fn of(member: &Member) -> lc_member {
        lc_member {
            id: member.id.0,
            name: memory::array(&member.name),
        }
    }

    fn member(&self) -> Outcome<Member> {
        let name: Vec<u8> = self.name.iter().map(|&c| c as u8).collect();
        let end = name.iter().position(|&byte| byte == 0);
        let name = end.and_then(|end| std::str::from_utf8(&name[..end]).ok());
        Ok(Member {
            name: name
                .ok_or_else(|| Fault::invalid("name of the member is no text"))?
                .into(),
            id: layercast::NodeId(self.id),
        })
    }
}
