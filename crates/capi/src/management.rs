use std::ffi::c_char;
use std::sync::Arc;

use layercast::{GroupState, Layer, LeaveReason, ManagementSocket, QosEvent, QosOption, QosSignal};

use crate::memory;
use crate::queue::timeout;
use crate::socket::{Management, Socket, find, lc_socket, not_a, queue, runtime};
use crate::status::{Fault, Outcome, guard};
use crate::types::{
    LC_ADAPT, LC_EVENT, LC_FILTER, LC_FLOW_SPEC, LC_MAINT, LC_MONITOR, LC_QOS_POLICY, LC_SIGNAL,
    lc_adapt, lc_alarm, lc_filters, lc_flow_spec, lc_group_info, lc_member, lc_member_stats,
    lc_metric, lc_qos_policy, lc_upcall,
};

impl Management {
    /// Begins to take upcalls for C.
    pub(crate) fn start(socket: ManagementSocket) -> Outcome<Socket> {
        let (from, upcalls) = (socket.clone(), queue()?);
        runtime()?.spawn(Arc::clone(&upcalls).pump(async move || from.signal().await));
        Ok(Socket::Management(Arc::new(Management { socket, upcalls })))
    }
}

fn management(descriptor: lc_socket) -> Outcome<Arc<Management>> {
    match find(descriptor)? {
        Socket::Management(found) => Ok(found),
        _ => Err(not_a("management socket", descriptor)),
    }
}

/// Binds a media socket to its management socket (registerSoc): only then requests are served, and a flow
/// is joined. Sockets are registered from the start unless lc_join_options says otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn lc_register_soc(management_socket: lc_socket, media: lc_socket) -> i32 {
    guard(|| {
        let management = management(management_socket)?;
        match find(media)? {
            Socket::Sink(found) => {
                Ok(runtime()?.block_on(management.socket.register(&found.handle))?)
            }
            Socket::Source(found) => {
                Ok(runtime()?.block_on(management.socket.register_group(&found))?)
            }
            _ => Err(not_a("media socket", media)),
        }
    })
}

/// Asks for a change of quality of service (changeQoS): LC_OK is the Ack; anything else is a Nak, after
/// which everything is as it was. `options` is exactly one LC_FLOW_SPEC .. LC_EVENT, `structure` points to
/// the structure that it names, `size` is its sizeof (null and 0 where there is none).
///
/// # Safety
/// `structure` is null or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_change_qos(
    management_socket: lc_socket,
    options: u32,
    structure: *const std::ffi::c_void,
    size: usize,
) -> i32 {
    guard(|| {
        let management = management(management_socket)?;
        let bare = |option| match size {
            0 => Ok(option),
            _ => Err(Fault::invalid("this option has no structure")),
        };
        // SAFETY: as the caller promises, for each structure by its own size.
        let option = unsafe {
            match options {
                LC_FLOW_SPEC => {
                    let spec: lc_flow_spec = memory::structure(structure.cast(), size, "flowSpec")?;
                    QosOption::FlowSpec(spec.spec()?)
                }
                LC_QOS_POLICY => {
                    let policy: lc_qos_policy =
                        memory::structure(structure.cast(), size, "QoSPolicy")?;
                    QosOption::QosPolicy(policy.policy()?)
                }
                LC_MAINT => bare(QosOption::Maint)?,
                LC_MONITOR => bare(QosOption::Monitor)?,
                LC_SIGNAL => bare(QosOption::Signal)?,
                LC_ADAPT => {
                    let adapt: lc_adapt = memory::structure(structure.cast(), size, "adapt")?;
                    QosOption::Adapt(adapt.mode()?)
                }
                LC_FILTER => {
                    let filters: lc_filters = memory::structure(structure.cast(), size, "filter")?;
                    QosOption::Filter(filters.kinds()?)
                }
                LC_EVENT => {
                    let alarm: lc_alarm = memory::structure(structure.cast(), size, "event")?;
                    QosOption::Event(alarm.alarm()?)
                }
                _ => return Err(Fault::invalid("options is not exactly one option")),
            }
        };
        Ok(runtime()?.block_on(management.socket.change_qos(option))?)
    })
}

/// Takes the next upcall (signalQoS). LC_ECLOSED after the last one.
///
/// # Safety
/// `upcall` is null or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_signal_qos(
    management_socket: lc_socket,
    upcall: *mut lc_upcall,
    size: usize,
    timeout_ms: i32,
) -> i32 {
    guard(|| {
        memory::check_size::<lc_upcall>(size, "upcall")?;
        let management = management(management_socket)?;
        management.upcalls.take(timeout(timeout_ms), |signal| {
            let value = match signal {
                QosSignal::Signal(metric) => lc_upcall {
                    kind: 1,
                    name: memory::array("QOS_METRIC"),
                    text: memory::array(""),
                    target_bps: 0,
                    metric: lc_metric::of(metric),
                },
                QosSignal::Event(event) => lc_upcall {
                    kind: 2,
                    name: memory::array(event.name()),
                    text: memory::array(&event.to_string()),
                    target_bps: match event {
                        QosEvent::TargetRate { rate } => rate.as_bps(),
                        _ => 0,
                    },
                    metric: lc_metric::default(),
                },
            };
            // SAFETY: as the caller promises, and the size is right.
            unsafe { memory::write(upcall, value) };
            Ok(())
        })
    })
}

/// What is known of the group (getGroupInfo).
///
/// # Safety
/// `info` is null or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_get_group_info(
    management_socket: lc_socket,
    info: *mut lc_group_info,
    size: usize,
) -> i32 {
    guard(|| {
        memory::check_size::<lc_group_info>(size, "info")?;
        let management = management(management_socket)?;
        let known = runtime()?.block_on(management.socket.info())?;
        let value = lc_group_info {
            flow: known.flow.0,
            members: known.members,
            state: match known.state {
                GroupState::Open => 0,
                GroupState::Draining => 1,
                GroupState::Lingering => 2,
                GroupState::Closed => 3,
            },
            spec: lc_flow_spec::of(&known.spec),
            name: memory::array(&known.name),
            server: memory::array(&known.server),
            core: memory::array(known.core.as_deref().unwrap_or("")),
        };
        // SAFETY: as the caller promises, and the size is right.
        unsafe { memory::write(info, value) };
        Ok(())
    })
}

/// The receivers of the flow, with their quality (getGroupStats): at most `capacity` of them, each of `size`
/// bytes. `count` gets the total number.
///
/// # Safety
/// `stats` is null or points to `capacity` times `size` bytes, `count` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_get_group_stats(
    management_socket: lc_socket,
    stats: *mut lc_member_stats,
    size: usize,
    capacity: usize,
    count: *mut usize,
) -> i32 {
    guard(|| {
        memory::check_size::<lc_member_stats>(size, "stats")?;
        let management = management(management_socket)?;
        let members = runtime()?.block_on(management.socket.stats())?;
        // SAFETY: as the caller promises.
        unsafe { memory::write(count, members.len()) };
        if stats.is_null() {
            return Ok(());
        }
        for (index, member) in members.iter().take(capacity).enumerate() {
            let report = member.report.unwrap_or_default();
            let value = lc_member_stats {
                member: lc_member::of(&member.member),
                level: member.level.get().into(),
                frames: Layer::ALL.map(|layer| report.frames[layer]),
                lost: Layer::ALL.map(|layer| report.lost[layer]),
                late: report.late,
            };
            // SAFETY: below `capacity`, and the rest as the caller promises.
            unsafe { memory::write(stats.add(index), value) };
        }
        Ok(())
    })
}

/// The answer to a MAY_RAISE upcall: a higher level is welcome.
#[unsafe(no_mangle)]
pub extern "C" fn lc_allow_raise(management_socket: lc_socket) -> i32 {
    guard(|| {
        let management = management(management_socket)?;
        Ok(runtime()?.block_on(management.socket.allow_raise())?)
    })
}

/// Wants something else of the network than before: the name of a profile of the library or the path of a file; null: nothing any more.
/// AGREED tells when another contract is in force; LC_EADMIT: it is not offered, and everything is as it was.
///
/// # Safety
/// `profile` is null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lc_set_profile(
    management_socket: lc_socket,
    profile: *const c_char,
) -> i32 {
    guard(|| {
        let management = management(management_socket)?;
        // SAFETY: as the caller promises.
        let profile = unsafe { memory::optional_text(profile, "profile") }?;
        let set = management.socket.set_profile(profile);
        Ok(runtime()?.block_on(set)?)
    })
}

/// Leaves the group (leaveGroup): 0 because the user had enough, 1 because of its policy, 2 because its
/// host fails. The branch is pruned and its reservations are released when it returns.
#[unsafe(no_mangle)]
pub extern "C" fn lc_leave_group(management_socket: lc_socket, reason: u32) -> i32 {
    guard(|| {
        let reason = match reason {
            0 => LeaveReason::User,
            1 => LeaveReason::Policy,
            2 => LeaveReason::Failure,
            other => return Err(Fault::invalid(format!("reason {other} is unknown"))),
        };
        let management = management(management_socket)?;
        Ok(runtime()?.block_on(management.socket.leave(reason))?)
    })
}
