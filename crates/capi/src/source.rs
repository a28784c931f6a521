use std::ffi::c_char;
use std::sync::Arc;

use layercast::{Bytes, Frame, Group, OpenGroup, Server, Span};

use crate::memory;
use crate::queue::timeout;
use crate::socket::{
    Management, Socket, SourceControl, find, insert, lc_socket, not_a, queue, runtime,
};
use crate::status::{Fault, Outcome, guard};
use crate::types::{LC_NO_TIME, layer, lc_flow_spec, lc_frame, lc_qos_policy};

/// A host with sources that listens on `address`, HOST:PORT; port 0 lets the system choose. Its links are
/// protected; members know it by the fingerprint in lc_group_url().
///
/// # Safety
/// `address` is a text; `server` is null or has room for a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_server_open(address: *const c_char, server: *mut lc_socket) -> i32 {
    guard(|| {
        // SAFETY: as the caller promises.
        let address = unsafe { memory::text(address, "address") }?;
        let opened = runtime()?.block_on(Server::bind(address))?;
        let descriptor = insert(Socket::Server(Arc::new(opened)))?;
        // SAFETY: as the caller promises.
        unsafe { memory::write(server, descriptor) };
        Ok(())
    })
}

/// A flow specification with every field at its default and no layer in use.
///
/// # Safety
/// `spec` is null or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_flow_spec_default(spec: *mut lc_flow_spec, size: usize) -> i32 {
    guard(|| {
        memory::check_size::<lc_flow_spec>(size, "spec")?;
        // SAFETY: as the caller promises, and the size is right.
        unsafe { memory::write(spec, lc_flow_spec::of(&layercast::FlowSpec::default())) };
        Ok(())
    })
}

/// A policy with every field at its default: maintain and signal each second, whole layers, drop a layer
/// when bandwidth is scarce and add one when there is more.
///
/// # Safety
/// `policy` is null or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_qos_policy_default(policy: *mut lc_qos_policy, size: usize) -> i32 {
    guard(|| {
        memory::check_size::<lc_qos_policy>(size, "policy")?;
        // SAFETY: as the caller promises, and the size is right.
        unsafe { memory::write(policy, lc_qos_policy::of(&layercast::QosPolicy::default())) };
        Ok(())
    })
}

/// Opens a group (openGroup) and gives its media socket, and its control and management sockets where
/// those are not null. Without `spec` what the flow needs is learned from its first group of pictures, at
/// 24 frames a second, and renegotiated when later ones need more; without `policy` it has the default.
///
/// # Safety
/// `name` is a text; `spec` and `policy` are null or point to as many bytes as their sizes say; the
/// others are null or have room for a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_open_group(
    server: lc_socket,
    name: *const c_char,
    spec: *const lc_flow_spec,
    spec_size: usize,
    policy: *const lc_qos_policy,
    policy_size: usize,
    media: *mut lc_socket,
    control: *mut lc_socket,
    management: *mut lc_socket,
) -> i32 {
    guard(|| {
        let Socket::Server(host) = find(server)? else {
            return Err(not_a("server", server));
        };
        // SAFETY: as the caller promises.
        let mut group = Group::new(unsafe { memory::text(name, "name") }?);
        if !spec.is_null() {
            // SAFETY: as the caller promises.
            group = group.spec(unsafe { memory::structure(spec, spec_size, "spec") }?.spec()?);
        }
        if !policy.is_null() {
            // SAFETY: as the caller promises.
            let policy = unsafe { memory::structure(policy, policy_size, "policy") }?;
            group = group.policy(policy.policy()?);
        }
        let runtime = runtime()?;
        let group = Arc::new(runtime.block_on(host.open_group(group))?);
        if !control.is_null() {
            let (socket, messages) = (group.control(), queue()?);
            let from = socket.clone();
            runtime.spawn(Arc::clone(&messages).pump(async move || from.recv().await));
            let found = Socket::GroupControl(Arc::new(SourceControl { socket, messages }));
            // SAFETY: as the caller promises.
            unsafe { memory::write(control, insert(found)?) };
        }
        if !management.is_null() {
            let found = Management::start(group.management())?;
            // SAFETY: as the caller promises.
            unsafe { memory::write(management, insert(found)?) };
        }
        // SAFETY: as the caller promises.
        unsafe { memory::write(media, insert(Socket::Source(group))?) };
        Ok(())
    })
}

/// What a sink joins the group with, by its media socket or its stream, with its final zero. LC_EINVAL if `size` is too
/// small.
///
/// # Safety
/// `url` is null or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_group_url(media: lc_socket, url: *mut c_char, size: usize) -> i32 {
    guard(|| {
        let url_of = match find(media)? {
            Socket::Stream(served) => served.url.clone(),
            _ => source(media)?.url(),
        };
        let mut text = url_of.into_bytes();
        text.push(0);
        // SAFETY: as the caller promises.
        unsafe { memory::fill(url.cast(), size, &text) }
    })
}

/// Waits until the group has this number of members.
#[unsafe(no_mangle)]
pub extern "C" fn lc_wait_for_members(media: lc_socket, members: u32, timeout_ms: i32) -> i32 {
    guard(|| {
        let group = source(media)?;
        within(timeout_ms, async {
            group.wait_for_members(members).await;
            Ok(())
        })
    })
}

/// Sends a frame: frames of every layer, in the order in which they are decoded. Waits while the flow is a
/// few frames ahead of its schedule; after LC_ETIMEDOUT the frame was not sent.
///
/// # Safety
/// `frame` is null or points to `size` bytes, its `data` to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_send(
    media: lc_socket,
    frame: *const lc_frame,
    size: usize,
    timeout_ms: i32,
) -> i32 {
    guard(|| {
        let group = source(media)?;
        // SAFETY: as the caller promises.
        let frame = unsafe { memory::structure(frame, size, "frame") }?;
        // SAFETY: as the caller promises.
        let data = unsafe { memory::bytes(frame.data, frame.len, "data") }?;
        let frame = Frame {
            layer: layer(frame.layer)?,
            gop_start: frame.gop_start != 0,
            sound: frame.sound != 0,
            time: (frame.time_us != LC_NO_TIME).then(|| Span::from_us(frame.time_us)),
            data: Bytes::copy_from_slice(data),
        };
        within(timeout_ms, async { Ok(group.send(frame).await?) })
    })
}

/// Closes the group (closeGroup): queued frames leave within `grace_ms`, then the members are notified and
/// released. `undelivered`, if not null, gets the number of frames that could not leave in time.
///
/// # Safety
/// `undelivered` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_close_group(
    media: lc_socket,
    grace_ms: u32,
    undelivered: *mut u32,
) -> i32 {
    guard(|| {
        let group = source(media)?;
        let left = runtime()?.block_on(group.close(Span::from_ms(grace_ms.into())))?;
        // SAFETY: as the caller promises.
        unsafe { memory::write(undelivered, left) };
        Ok(())
    })
}

pub(crate) fn source(media: lc_socket) -> Outcome<Arc<OpenGroup>> {
    match find(media)? {
        Socket::Source(group) => Ok(group),
        _ => Err(not_a("media socket of a source", media)),
    }
}

/// Runs `future` to its end, for at most `timeout_ms` milliseconds.
pub(crate) fn within<T>(timeout_ms: i32, future: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    runtime()?.block_on(async {
        match timeout(timeout_ms) {
            None => future.await,
            Some(limit) => tokio::time::timeout(limit, future)
                .await
                .unwrap_or_else(|_| Err(Fault::timed_out())),
        }
    })
}
