use std::ffi::c_char;

use layercast::{
    AdaptMode, Alarm, AlarmOp, CellRate, Composition, FilterKind, FlowSpec, FrameRate, Layer,
    LayerRate, Level, MaintMode, Metric, OnPlenty, OnScarce, QosMetric, QosPolicy,
};

use crate::status::{Fault, Outcome};

/// Base layer.
pub const LC_BL: u8 = 0;
/// First enhancement layer.
pub const LC_E1: u8 = 1;
/// Second enhancement layer.
pub const LC_E2: u8 = 2;
/// A frame that is due at its slot of the frame rate.
pub const LC_NO_TIME: u64 = u64::MAX;
/// Most filters at a time.
pub const LC_MAX_FILTERS: usize = 4;

/// Option of lc_change_qos(): a new flow specification, an lc_flow_spec.
pub const LC_FLOW_SPEC: u32 = 1;
/// Option: a new policy, an lc_qos_policy.
pub const LC_QOS_POLICY: u32 = 2;
/// Option: maintain the flow, no periodic signals; no structure.
pub const LC_MAINT: u32 = 4;
/// Option: maintain the flow and signal periodically; no structure.
pub const LC_MONITOR: u32 = 8;
/// Option: signal periodically only; no structure.
pub const LC_SIGNAL: u32 = 16;
/// Option: how the flow follows the bandwidth, an lc_adapt.
pub const LC_ADAPT: u32 = 32;
/// Option: these filters and no others, an lc_filters.
pub const LC_FILTER: u32 = 64;
/// Option: attach an alarm, an lc_alarm; with a window of 0 remove it.
pub const LC_EVENT: u32 = 128;

/// Of lc_flow_spec: a higher layer adds to the lower ones.
pub const LC_ADDITIVE: u32 = 0;
/// Of lc_flow_spec: a higher layer replaces the lower ones.
pub const LC_ALTERNATIVE: u32 = 1;

/// Rate of one layer in ATM cells of 48 bytes.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct lc_layer {
    /// Mean, cells/s; 0 if the layer is not used.
    pub mean: u32,
    /// Highest over one group of pictures, cells/s; 0 means the mean.
    pub peak: u32,
    /// Largest frame, cells.
    pub burst: u32,
}

/// What a flow needs; see lc_flow_spec_default().
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct lc_flow_spec {
    /// Frames per second, all layers together: numerator.
    pub frame_rate_num: u32,
    /// Denominator.
    pub frame_rate_den: u32,
    /// Frames in a group of pictures.
    pub gop_n: u32,
    /// From one anchor picture to the next.
    pub gop_m: u32,
    /// Largest frame, bytes.
    pub max_frame: u32,
    /// BL, E1, E2.
    pub layers: [lc_layer; 3],
    /// Frames are played this long after they were sent, ms; 0: adapted to the observed delays.
    pub delay_max_ms: u32,
    /// Bound of the jitter, ms; 0: none.
    pub jitter_max_ms: u32,
    /// Bound of the loss, permille.
    pub loss_max_permille: u32,
    /// What the layers are to each other. LC_ADDITIVE: a level is the sum of its layers. LC_ALTERNATIVE: a level is one
    /// layer, a whole rendition, and its rate in `layers` is that of the level. Frames of one time are sent together then,
    /// the base layer first, and the frame rate counts all of them.
    pub composition: u32,
    /// Pictures per second, where frames are sound too or pictures of several renditions: numerator; 0 if every frame is a
    /// picture.
    pub picture_rate_num: u32,
    /// Denominator.
    pub picture_rate_den: u32,
}

/// A filter.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct lc_filter {
    /// 0 jitter, 1 picture dropping, 2 low-pass, 3 dynamic rate shaping.
    pub kind: u32,
    /// Low-pass: coefficients of 64 that are kept.
    pub keep: u32,
}

/// Filters, for LC_FILTER.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct lc_filters {
    /// How many.
    pub count: u32,
    /// The filters.
    pub filters: [lc_filter; LC_MAX_FILTERS],
}

/// What to do when quality cannot be had, or more can; see lc_qos_policy_default().
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct lc_qos_policy {
    /// 0 maint, 1 monitor, 2 signal.
    pub mode: u32,
    /// 0 none, 1 discrete, 2 continuous.
    pub adapt: u32,
    /// 0 inform, 1 drop a layer, 2 put in `scarce_filter`, 3 disconnect.
    pub on_scarce: u32,
    /// For on_scarce 2.
    pub scarce_filter: lc_filter,
    /// 0 ignore, 1 inform (answer with lc_allow_raise()), 2 add a layer.
    pub on_plenty: u32,
    /// Never less than this level, 0..2.
    pub min_level: u32,
    /// Never more than this level, 0..2.
    pub max_level: u32,
    /// Filters in use.
    pub filters: lc_filters,
    /// Period of signals, ms.
    pub signal_period_ms: u32,
    /// Missed deadlines of 24 that raise MISSED_DEADLINE.
    pub missed_deadline_threshold: u32,
    /// Late frames in a group of pictures that move the playout point.
    pub late_threshold: u32,
}

/// How the flow follows the bandwidth, for LC_ADAPT.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct lc_adapt {
    /// 0 none, 1 discrete, 2 continuous.
    pub mode: u32,
}

/// An alarm, for LC_EVENT.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct lc_alarm {
    /// 0 loss (permille), 1 late frames, 2 delay (us), 3 jitter (us), 4 rate (cells/s).
    pub metric: u32,
    /// 0: when it rises above the threshold, 1: when it falls below.
    pub below: u32,
    /// Over how long it is taken, ms; 0 removes the alarm.
    pub window_ms: u32,
    /// Whether the alarm is gone once it fired.
    pub oneshot: u32,
    /// In the unit of the metric.
    pub threshold: f64,
    /// How far it has to come back before the alarm is armed again.
    pub hysteresis: f64,
}

/// Periodic figures of a flow.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct lc_metric {
    /// Length of the window, us.
    pub window_us: u64,
    /// Frames received whole, or sent.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames lost.
    pub lost: u64,
    /// Frames late.
    pub late: u64,
    /// Frames of layers that are not granted.
    pub withheld: u64,
    /// Deadlines missed on this host.
    pub missed: u64,
    /// Mean one-way delay, us.
    pub delay_mean_us: i64,
    /// Greatest one-way delay, us.
    pub delay_max_us: i64,
    /// Jitter, us (RFC 3550).
    pub jitter_us: u64,
    /// Playout delay, us.
    pub playout_us: i64,
    /// Cells/s.
    pub rate: u32,
    /// Level in force.
    pub level: u32,
    /// Eras with congestion.
    pub congested_eras: u32,
}

/// A frame to send.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lc_frame {
    /// LC_BL, LC_E1 or LC_E2.
    pub layer: u8,
    /// Not 0 if it opens a group of pictures.
    pub gop_start: u8,
    /// Not 0 if it is sound or other data beside the pictures, in the base layer: nothing refers from one to the other.
    pub sound: u8,
    /// When it is due, us from the start of the flow, or LC_NO_TIME.
    pub time_us: u64,
    /// Its bytes.
    pub data: *const u8,
    /// How many, at least one.
    pub len: usize,
}

/// A frame that is due.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct lc_played {
    /// LC_BL, LC_E1 or LC_E2.
    pub layer: u8,
    /// Not 0 if it opens a group of pictures.
    pub gop_start: u8,
    /// Not 0 if it is sound. Pictures come in the order of their numbers, and so does sound; while pictures wait for a missing
    /// one, sound may overtake them, and the other way round.
    pub sound: u8,
    /// Its number in the flow; frames of layers that are not granted leave gaps.
    pub seq: u32,
    /// From emission to arrival, us.
    pub delay_us: u64,
    /// Its bytes.
    pub len: usize,
}

/// A member of a group.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lc_member {
    /// Its number.
    pub id: u32,
    /// Its name, with a final zero.
    pub name: [c_char; 260],
}

/// How to join; see lc_join_options_default(). All zero but `level` and `registered` is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lc_join_options {
    /// Name of the member; null: one is made up.
    pub name: *const c_char,
    /// PEM file with authorities to believe, where the address has no fingerprint; null: none.
    pub authorities: *const c_char,
    /// Highest level wanted, 0..2.
    pub level: u32,
    /// 0: nothing is joined before lc_register_soc().
    pub registered: u32,
    /// Frames are played this long after they were sent, ms; 0: as the flow specifies.
    pub playout_ms: u32,
    /// Frames are played this long after their time at the source, ms, at the same moment at all members, on any host; 0: they
    /// are not. It replaces `playout_ms`.
    pub sync_ms: u32,
    /// How long the join may take while no node answers or the flow is missing, ms; 0: 10 s.
    pub flow_within_ms: u32,
    /// What the user wants of the network: the name of a profile of the library, such as "conferencing", or the path of a file; null:
    /// what the flow offers. AGREED tells what is agreed.
    pub profile: *const c_char,
}

/// An upcall of a management socket.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lc_upcall {
    /// 1: periodic figures, in `metric`; 2: an event.
    pub kind: u32,
    /// Name of the event, such as "LAYER_ADD"; "QOS_METRIC" for figures.
    pub name: [c_char; 32],
    /// The event in words.
    pub text: [c_char; 480],
    /// Of TARGET_RATE: what the encoder may send now, all media of the flow together, in bit/s.
    pub target_bps: u64,
    /// For kind 1.
    pub metric: lc_metric,
}

/// What is known of a group.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lc_group_info {
    /// The flow.
    pub flow: u32,
    /// Members known here.
    pub members: u32,
    /// 0 open, 1 draining, 2 lingering, 3 closed.
    pub state: u32,
    /// What it needs.
    pub spec: lc_flow_spec,
    /// Name of the group.
    pub name: [c_char; 260],
    /// The node it comes from.
    pub server: [c_char; 260],
    /// Its core switch; empty if there is none.
    pub core: [c_char; 260],
}

/// What a member receives.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lc_member_stats {
    /// The member.
    pub member: lc_member,
    /// Level granted, 0..2.
    pub level: u32,
    /// Frames played by layer.
    pub frames: [u64; 3],
    /// Frames lost by layer.
    pub lost: [u64; 3],
    /// Frames late.
    pub late: u64,
}

pub(crate) fn layer(number: u8) -> Outcome<Layer> {
    match number {
        LC_BL => Ok(Layer::Base),
        LC_E1 => Ok(Layer::E1),
        LC_E2 => Ok(Layer::E2),
        _ => Err(Fault::invalid(format!("layer {number} is none of 0, 1, 2"))),
    }
}

pub(crate) fn level(number: u32) -> Outcome<Level> {
    let level = u8::try_from(number).ok().and_then(Level::new);
    level.ok_or_else(|| Fault::invalid(format!("level {number} is none of 0, 1, 2")))
}

fn choose<T: Copy>(number: u32, of: &[T], what: &str) -> Outcome<T> {
    let chosen = of.get(number as usize).copied();
    chosen.ok_or_else(|| Fault::invalid(format!("{what} {number} is unknown")))
}

fn small(number: u32, what: &str) -> Outcome<u8> {
    u8::try_from(number).map_err(|_| Fault::invalid(format!("{what} {number} is above 255")))
}

impl lc_flow_spec {
    pub(crate) fn of(spec: &FlowSpec) -> lc_flow_spec {
        let layer = |rate: &LayerRate| lc_layer {
            mean: rate.mean.0,
            peak: rate.peak.0,
            burst: rate.burst,
        };
        lc_flow_spec {
            frame_rate_num: spec.frame_rate.num,
            frame_rate_den: spec.frame_rate.den,
            gop_n: spec.gop_n.into(),
            gop_m: spec.gop_m.into(),
            max_frame: spec.max_frame,
            layers: Layer::ALL.map(|it| layer(&spec.layers[it])),
            delay_max_ms: spec.delay_max_ms,
            jitter_max_ms: spec.jitter_max_ms,
            loss_max_permille: spec.loss_max_permille.into(),
            composition: place(&COMPOSITIONS, &spec.composition),
            picture_rate_num: spec.picture_rate.map_or(0, |rate| rate.num),
            picture_rate_den: spec.picture_rate.map_or(0, |rate| rate.den),
        }
    }

    pub(crate) fn spec(&self) -> Outcome<FlowSpec> {
        let mut spec = FlowSpec {
            frame_rate: FrameRate {
                num: self.frame_rate_num,
                den: self.frame_rate_den,
            },
            gop_n: small(self.gop_n, "gop_n")?,
            gop_m: small(self.gop_m, "gop_m")?,
            max_frame: self.max_frame,
            delay_max_ms: self.delay_max_ms,
            jitter_max_ms: self.jitter_max_ms,
            loss_max_permille: u16::try_from(self.loss_max_permille)
                .map_err(|_| Fault::invalid("loss_max_permille is above 1000"))?,
            composition: choose(self.composition, &COMPOSITIONS, "composition")?,
            picture_rate: match (self.picture_rate_num, self.picture_rate_den) {
                (0, _) => None,
                (_, 0) => return Err(Fault::invalid("picture_rate_den is zero")),
                (num, den) => Some(FrameRate { num, den }),
            },
            ..FlowSpec::default()
        };
        for (layer, rate) in Layer::ALL.into_iter().zip(&self.layers) {
            spec.layers[layer] = LayerRate {
                kind: 0,
                mean: CellRate(rate.mean),
                peak: CellRate(rate.peak),
                burst: rate.burst,
            };
        }
        Ok(spec)
    }
}

impl lc_filter {
    fn of(kind: FilterKind) -> lc_filter {
        match kind {
            FilterKind::Jitter => lc_filter { kind: 0, keep: 0 },
            FilterKind::PictureDrop => lc_filter { kind: 1, keep: 0 },
            FilterKind::LowPass(keep) => lc_filter {
                kind: 2,
                keep: keep.into(),
            },
            FilterKind::Drs => lc_filter { kind: 3, keep: 0 },
        }
    }

    fn kind(self) -> Outcome<FilterKind> {
        Ok(match self.kind {
            0 => FilterKind::Jitter,
            1 => FilterKind::PictureDrop,
            2 => FilterKind::LowPass(small(self.keep, "keep")?),
            3 => FilterKind::Drs,
            other => return Err(Fault::invalid(format!("filter {other} is unknown"))),
        })
    }
}

impl lc_filters {
    fn of(kinds: &[FilterKind]) -> lc_filters {
        let mut filters = lc_filters::default();
        for (to, &kind) in filters.filters.iter_mut().zip(kinds) {
            *to = lc_filter::of(kind);
            filters.count += 1;
        }
        filters
    }

    pub(crate) fn kinds(&self) -> Outcome<Vec<FilterKind>> {
        let used = self.filters.get(..self.count as usize);
        let used = used.ok_or_else(|| Fault::invalid("count is above LC_MAX_FILTERS"))?;
        used.iter().map(|filter| filter.kind()).collect()
    }
}

const COMPOSITIONS: [Composition; 2] = [Composition::Additive, Composition::Alternative];
const MODES: [MaintMode; 3] = [MaintMode::Maint, MaintMode::Monitor, MaintMode::Signal];
const ADAPT: [AdaptMode; 3] = [AdaptMode::None, AdaptMode::Discrete, AdaptMode::Continuous];
const PLENTY: [OnPlenty; 3] = [OnPlenty::Ignore, OnPlenty::Inform, OnPlenty::AddLayer];

fn place<T: PartialEq>(of: &[T], value: &T) -> u32 {
    of.iter().position(|it| it == value).unwrap_or_default() as u32
}

impl lc_qos_policy {
    pub(crate) fn of(policy: &QosPolicy) -> lc_qos_policy {
        let (on_scarce, scarce_filter) = match policy.on_scarce {
            OnScarce::Inform => (0, lc_filter::default()),
            OnScarce::DropLayer => (1, lc_filter::default()),
            OnScarce::Filter(kind) => (2, lc_filter::of(kind)),
            OnScarce::Disconnect => (3, lc_filter::default()),
        };
        lc_qos_policy {
            mode: place(&MODES, &policy.mode),
            adapt: place(&ADAPT, &policy.adapt),
            on_scarce,
            scarce_filter,
            on_plenty: place(&PLENTY, &policy.on_plenty),
            min_level: policy.min_level.get().into(),
            max_level: policy.max_level.get().into(),
            filters: lc_filters::of(&policy.filters),
            signal_period_ms: policy.signal_period_ms,
            missed_deadline_threshold: policy.missed_deadline_threshold.into(),
            late_threshold: policy.late_threshold.into(),
        }
    }

    pub(crate) fn policy(&self) -> Outcome<QosPolicy> {
        Ok(QosPolicy {
            mode: choose(self.mode, &MODES, "mode")?,
            adapt: choose(self.adapt, &ADAPT, "adapt")?,
            on_scarce: match self.on_scarce {
                0 => OnScarce::Inform,
                1 => OnScarce::DropLayer,
                2 => OnScarce::Filter(self.scarce_filter.kind()?),
                3 => OnScarce::Disconnect,
                other => return Err(Fault::invalid(format!("on_scarce {other} is unknown"))),
            },
            on_plenty: choose(self.on_plenty, &PLENTY, "on_plenty")?,
            min_level: level(self.min_level)?,
            max_level: level(self.max_level)?,
            filters: self.filters.kinds()?,
            signal_period_ms: self.signal_period_ms,
            events: Vec::new(),
            missed_deadline_threshold: small(
                self.missed_deadline_threshold,
                "missed_deadline_threshold",
            )?,
            late_threshold: small(self.late_threshold, "late_threshold")?,
        })
    }
}

impl lc_adapt {
    pub(crate) fn mode(self) -> Outcome<AdaptMode> {
        choose(self.mode, &ADAPT, "mode")
    }
}

impl lc_alarm {
    pub(crate) fn alarm(&self) -> Outcome<Alarm> {
        let metrics = [
            Metric::Loss,
            Metric::Late,
            Metric::Delay,
            Metric::Jitter,
            Metric::Rate,
        ];
        Ok(Alarm {
            metric: choose(self.metric, &metrics, "metric")?,
            op: choose(self.below, &[AlarmOp::Above, AlarmOp::Below], "below")?,
            threshold: self.threshold,
            window_ms: self.window_ms,
            hysteresis: self.hysteresis,
            oneshot: self.oneshot != 0,
        })
    }
}

impl lc_metric {
    pub(crate) fn of(metric: &QosMetric) -> lc_metric {
        let delay = metric.delay.unwrap_or_default();
        let us = |ps: i64| ps / 1_000_000;
        lc_metric {
            window_us: metric.window.as_us(),
            frames: metric.frames,
            bytes: metric.bytes,
            lost: metric.lost,
            late: metric.late,
            withheld: metric.withheld,
            missed: metric.missed,
            delay_mean_us: us(delay.mean.as_ps()),
            delay_max_us: us(delay.max.as_ps()),
            jitter_us: metric.jitter.as_us(),
            playout_us: us(metric.playout.as_ps()),
            rate: metric.rate.0,
            level: metric.level.get().into(),
            congested_eras: metric.congested_eras,
        }
    }
}
