//! What both ends share of the management interface (specs/mets.md 2.2): which options make which policy,
//! and what a client may want of a flow.

use layercast_core::{
    Alarm, CellRate, FlowId, FlowSpec, GroupInfo, GroupState, Layer, LayerRate, Level, MaintMode,
    QosOption, QosPolicy, Status,
};
use layercast_wire::FlowInfo;

/// What there is to know of the group of a flow (`getGroupInfo`).
pub(super) fn group_info(
    flow: &FlowInfo,
    svc: Option<u16>,
    members: u32,
    state: GroupState,
) -> GroupInfo {
    GroupInfo {
        name: flow.name.clone(),
        group: flow.group,
        flow: flow.id,
        server: flow.source.clone(),
        spec: flow.spec.clone(),
        policy: flow.policy.clone(),
        layers: GroupInfo::layer_table(&flow.spec),
        core: flow.core.clone(),
        svc,
        members,
        state,
    }
}

/// The policy that results from an option other than `flowSpec`, if it can be had.
pub(super) fn changed(policy: &QosPolicy, option: &QosOption) -> Result<QosPolicy, Status> {
    let mut policy = policy.clone();
    match option {
        QosOption::FlowSpec(_) => {}
        QosOption::QosPolicy(new) => policy = new.clone(),
        QosOption::Maint => policy.mode = MaintMode::Maint,
        QosOption::Monitor => policy.mode = MaintMode::Monitor,
        QosOption::Signal => policy.mode = MaintMode::Signal,
        QosOption::Adapt(mode) => policy.adapt = *mode,
        QosOption::Filter(filters) => policy.filters.clone_from(filters),
        QosOption::Event(alarm) => attach(&mut policy.events, *alarm),
    }
    policy.validate()?;
    Ok(policy)
}

/// Attaches an alarm in place of one that watches the same; a window of zero only takes it off.
fn attach(alarms: &mut Vec<Alarm>, alarm: Alarm) {
    alarms.retain(|other| !other.same_watch(&alarm));
    if alarm.window_ms > 0 {
        alarms.push(alarm);
    }
}

/// What a client wants of the flow that a server offers: fewer layers, bounds of its own.
///
/// Everything else is the server's to change, and refused with the field.
pub(super) fn narrowed(offer: &FlowSpec, wish: &FlowSpec) -> Result<FlowSpec, Status> {
    wish.validate()?;
    if wish.flow_id != FlowId(0) && wish.flow_id != offer.flow_id {
        return Err(Status::Invalid {
            field: "flow_id".into(),
            problem: format!("{} is another flow", wish.flow_id),
        });
    }
    let forbid = |field: &str, problem: &str| {
        Err(Status::Policy {
            field: field.into(),
            problem: problem.into(),
        })
    };
    let servers = "is for the server to change";
    if wish.composition != offer.composition {
        return forbid("composition", "never changes while a flow exists");
    }
    if wish.media != offer.media {
        return forbid("media", servers);
    }
    if wish.frame_rate != offer.frame_rate {
        return forbid("frame_rate", servers);
    }
    if (wish.gop_n, wish.gop_m) != (offer.gop_n, offer.gop_m) {
        return forbid("gop_n", servers);
    }
    if wish.max_frame != offer.max_frame {
        return forbid("max_frame", servers);
    }
    for (layer, rate) in wish.layers.iter() {
        let dropped = rate.mean == CellRate(0) && layer != Layer::Base;
        if *rate != offer.layers[layer] && !dropped {
            return forbid("layers", "may be left out, their rates are the server's");
        }
    }
    Ok(FlowSpec {
        flow_id: offer.flow_id,
        headroom_permille: offer.headroom_permille,
        ..wish.clone()
    })
}

/// The wish of a client after the server changed the flow: its layers and bounds stay, the rest is
/// that of the new offer.
pub(super) fn carried_over(offer: &FlowSpec, before: &FlowSpec, wish: &FlowSpec) -> FlowSpec {
    let mut spec = offer.clone();
    for layer in [Layer::E1, Layer::E2] {
        let left_out = wish.layers[layer].mean.0 == 0 && before.layers[layer].mean.0 > 0;
        if left_out {
            spec.layers[layer] = LayerRate::default();
        }
    }
    // A bound that was the server's follows the server.
    let keep = |wish, before, offer| if wish == before { offer } else { wish };
    spec.delay_max_ms = keep(wish.delay_max_ms, before.delay_max_ms, offer.delay_max_ms);
    spec.jitter_max_ms = keep(
        wish.jitter_max_ms,
        before.jitter_max_ms,
        offer.jitter_max_ms,
    );
    if wish.loss_max_permille != before.loss_max_permille {
        spec.loss_max_permille = wish.loss_max_permille;
    }
    spec
}

/// Whether a client's policy stays within what the group offers.
pub(super) fn within(group: &QosPolicy, wish: &QosPolicy) -> Result<(), Status> {
    let range = |level: Level| (group.min_level..=group.max_level).contains(&level);
    for (field, level) in [("max_level", wish.max_level), ("min_level", wish.min_level)] {
        if !range(level) {
            return Err(Status::Policy {
                field: field.into(),
                problem: format!(
                    "is outside {} to {} of the group",
                    group.min_level, group.max_level
                ),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::{AlarmOp, Metric, PerLayer};

    fn offer() -> FlowSpec {
        let rate = |mean| LayerRate {
            mean: CellRate(mean),
            ..LayerRate::default()
        };
        FlowSpec {
            flow_id: FlowId(7),
            layers: PerLayer {
                base: rate(480),
                e1: rate(960),
                e2: rate(1_920),
            },
            delay_max_ms: 200,
            ..FlowSpec::default()
        }
    }

    #[test]
    fn a_client_may_leave_out_layers_and_set_bounds_but_nothing_else() {
        let mut wish = offer();
        wish.layers.e2 = LayerRate::default();
        wish.delay_max_ms = 80;
        let spec = narrowed(&offer(), &wish).unwrap();
        assert_eq!((spec.top_level(), spec.delay_max_ms), (Level::E1, 80));
        let refused = |change: fn(&mut FlowSpec)| {
            let mut wish = offer();
            change(&mut wish);
            match narrowed(&offer(), &wish).unwrap_err() {
                Status::Policy { field, .. } => (field, "EPOLICY"),
                Status::Invalid { field, .. } => (field, "EINVAL"),
                other => (String::new(), other.code()),
            }
        };
        let policy = |field: &str| (field.to_owned(), "EPOLICY");
        assert_eq!(refused(|s| s.max_frame = 99), policy("max_frame"));
        assert_eq!(refused(|s| s.gop_n = 24), policy("gop_n"));
        assert_eq!(refused(|s| s.frame_rate.num = 25), policy("frame_rate"));
        assert_eq!(
            refused(|s| s.layers.e1.mean = CellRate(961)),
            policy("layers")
        );
        let invalid = |field: &str| (field.to_owned(), "EINVAL");
        assert_eq!(refused(|s| s.flow_id = FlowId(8)), invalid("flow_id"));
        assert_eq!(refused(|s| s.max_frame = 0), invalid("max_frame"));
    }

    #[test]
    fn what_a_client_chose_outlives_a_change_by_the_server() {
        let mut wish = offer();
        wish.layers.e2 = LayerRate::default();
        wish.jitter_max_ms = 9;
        let mut new = offer();
        new.layers.base.mean = CellRate(600);
        new.delay_max_ms = 300;
        let spec = carried_over(&new, &offer(), &wish);
        assert_eq!(spec.layers.base.mean, CellRate(600));
        assert_eq!(spec.top_level(), Level::E1);
        assert_eq!((spec.delay_max_ms, spec.jitter_max_ms), (300, 9));
    }

    #[test]
    fn an_alarm_replaces_its_like_and_a_window_of_zero_takes_it_off() {
        let alarm = |threshold, window_ms| Alarm {
            metric: Metric::Loss,
            op: AlarmOp::Above,
            threshold,
            window_ms,
            hysteresis: 0.0,
            oneshot: false,
        };
        let policy = QosPolicy::default();
        let one = changed(&policy, &QosOption::Event(alarm(1.0, 100))).unwrap();
        let two = changed(&one, &QosOption::Event(alarm(2.0, 100))).unwrap();
        assert_eq!(two.events, [alarm(2.0, 100)]);
        let below = Alarm {
            op: AlarmOp::Below,
            ..alarm(0.0, 100)
        };
        let three = changed(&two, &QosOption::Event(below)).unwrap();
        assert_eq!(three.events.len(), 2);
        let off = changed(&three, &QosOption::Event(alarm(0.0, 0))).unwrap();
        assert_eq!(off.events, [below]);
    }
}
