//! Traffic beside the train.

use std::collections::BTreeMap;

use layercast_core::Stream;
use serde::{Deserialize, Serialize};

use super::{Agenda, Happening, Ns, Setting, StudyError, ns};

/// Time after which a lost segment is sent again, seconds.
const TIMEOUT_S: f64 = 0.5;

/// A source of traffic.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// A TCP bulk flow limited by the window of its receiver, whose acknowledgements come for `burst` segments each.
    Ftp {
        /// Its first segment leaves then, seconds.
        start_s: f64,
        /// Bytes of a packet.
        bytes: u32,
        /// Segments that an acknowledgement is for.
        burst: u32,
        /// Segments of the window: at least those of a burst.
        window: u32,
    },
    /// Video whose frames leave back to back.
    Nv {
        /// Its first frame leaves within one frame time after that, seconds.
        start_s: f64,
        /// Mean rate, bit/s.
        bps: f64,
        /// Frames per second.
        fps: f64,
        /// Standard deviation of the logarithm of the frame size.
        sigma: f64,
        /// Bytes of a packet.
        bytes: u32,
    },
    /// Sources that are on and off for Pareto-distributed times.
    Office {
        /// Sources.
        count: usize,
        /// Shape of both times.
        alpha: f64,
        /// Mean time on, seconds.
        on_s: f64,
        /// Rate while on, bit/s.
        peak_bps: f64,
        /// Bytes of a packet.
        bytes: u32,
        /// Part of the link that all of them fill in the mean.
        load: f64,
    },
    /// Packets at random instants.
    Poisson {
        /// Bytes of a packet.
        bytes: u32,
        /// Part of the link that they fill in the mean.
        load: f64,
    },
}

impl Source {
    /// Sources in a superposition.
    pub(super) fn count(&self) -> usize {
        match self {
            Source::Office { count, .. } => *count,
            _ => 1,
        }
    }

    pub(super) fn check(&self) -> Result<(), StudyError> {
        let within = |field, value: f64, least: f64, most: f64, range| {
            let ok = (least..=most).contains(&value);
            if ok {
                Ok(())
            } else {
                Err(StudyError::Range {
                    field,
                    value,
                    range,
                })
            }
        };
        let size = |bytes: u32| {
            within(
                "bytes",
                bytes.into(),
                40.0,
                9_000.0,
                "give 40 to 9000 bytes",
            )
        };
        let starts = |at: f64| within("start_s", at, 0.0, 1e6, "give 0 or more seconds");
        match *self {
            Source::Ftp {
                start_s,
                bytes,
                burst,
                window,
            } => {
                starts(start_s)?;
                size(bytes)?;
                within("burst", burst.into(), 1.0, 1e3, "give 1 to 1000 segments")?;
                within(
                    "window",
                    window.into(),
                    burst.into(),
                    1e4,
                    "give at least the segments of a burst",
                )
            }
            Source::Nv {
                start_s,
                bps,
                fps,
                sigma,
                bytes,
            } => {
                starts(start_s)?;
                size(bytes)?;
                within("bps", bps, 1e3, 1e9, "give 1 kbit/s to 1 Gbit/s")?;
                within("fps", fps, 0.1, 1e3, "give 0.1 to 1000 frames per second")?;
                within("sigma", sigma, 0.0, 3.0, "give 0 to 3")
            }
            Source::Office {
                alpha,
                on_s,
                peak_bps,
                bytes,
                load,
                ..
            } => {
                size(bytes)?;
                within(
                    "alpha",
                    alpha,
                    1.05,
                    10.0,
                    "give 1.05 to 10: below 1 there is no mean",
                )?;
                within("on_s", on_s, 1e-3, 1e3, "give 1 ms to 1000 s")?;
                within("peak_bps", peak_bps, 1e3, 1e9, "give 1 kbit/s to 1 Gbit/s")?;
                within("load", load, 0.01, 1.5, "give 0.01 to 1.5")
            }
            Source::Poisson { bytes, load } => {
                size(bytes)?;
                within("load", load, 0.01, 1.5, "give 0.01 to 1.5")
            }
        }
    }
}

/// A source in operation.
pub(super) struct State {
    source: Source,
    place: usize,
    random: Stream,
    begins: Ns,
    link_bps: f64,
    ethernet_bps: f64,
    rtt: Ns,
    /// Segments that the receiver has not acknowledged yet.
    unacknowledged: u32,
    /// When the Ethernet of the sender is free.
    free: Ns,
    /// Of a source with times on and off: when the time on ends; 0 during a time off.
    on_until: Ns,
    off_s: f64,
    /// Frames: departure, packets that are missing, arrival of the last one.
    frames: BTreeMap<u64, (Ns, u32, Ns)>,
    frame: u64,
}

impl State {
    pub(super) fn new(source: &Source, place: usize, setting: &Setting) -> State {
        let mut random = Stream::new(setting.seed, &format!("sync-index/source/{place}"));
        let mut off_s = 0.0;
        let begins = match *source {
            Source::Ftp { start_s, .. } => start_s,
            Source::Nv { start_s, fps, .. } => start_s + random.unit() / fps,
            Source::Office {
                count,
                on_s,
                peak_bps,
                load,
                ..
            } => {
                let duty = (load * setting.link.bps / (count as f64 * peak_bps)).min(1.0);
                off_s = on_s * (1.0 / duty - 1.0);
                random.unit() * (on_s + off_s)
            }
            Source::Poisson { .. } => 0.0,
        };
        State {
            source: *source,
            place,
            random,
            begins: ns(begins),
            link_bps: setting.link.bps,
            ethernet_bps: setting.link.ethernet_bps,
            rtt: ns(setting.link.rtt_s),
            unacknowledged: 0,
            free: 0,
            on_until: 0,
            off_s,
            frames: BTreeMap::new(),
            frame: 0,
        }
    }

    pub(super) fn begins(&self) -> Ns {
        self.begins
    }

    /// Packets that leave back to back over the Ethernet.
    fn burst(&mut self, now: Ns, packets: u32, bytes: u32, tag: u64, agenda: &mut Agenda) {
        let takes = ns(8.0 * f64::from(bytes) / self.ethernet_bps);
        let source = self.place;
        self.free = self.free.max(now);
        for _ in 0..packets {
            self.free += takes;
            agenda.at(self.free, Happening::Packet { source, bytes, tag });
        }
    }

    /// A Pareto-distributed time with this mean.
    fn pareto(&mut self, mean: f64, alpha: f64) -> f64 {
        let least = mean * (alpha - 1.0) / alpha;
        least * libm::pow(1.0 - self.random.unit(), -1.0 / alpha)
    }

    /// The source acts.
    pub(super) fn wake(&mut self, now: Ns, agenda: &mut Agenda) {
        let wake = Happening::Wake(self.place);
        match self.source {
            Source::Ftp { bytes, window, .. } => self.burst(now, window, bytes, 0, agenda),
            Source::Nv {
                bps,
                fps,
                sigma,
                bytes,
                ..
            } => {
                let mean = bps / fps / 8.0;
                let log = libm::log(mean) - sigma * sigma / 2.0 + sigma * self.random.normal();
                let packets = (libm::exp(log) / f64::from(bytes)).ceil().clamp(1.0, 1e4) as u32;
                // Packets of one size, so that the frame keeps its length.
                let whole = (libm::exp(log) / f64::from(packets))
                    .round()
                    .clamp(40.0, f64::from(bytes));
                self.frames.insert(self.frame, (now, packets, 0));
                self.burst(now, packets, whole as u32, self.frame, agenda);
                self.frame += 1;
                agenda.at(now + ns(1.0 / fps), wake);
            }
            Source::Office {
                alpha,
                on_s,
                peak_bps,
                bytes,
                ..
            } => {
                let spacing = 8.0 * f64::from(bytes) / peak_bps;
                if self.on_until == 0 {
                    // A random phase, so that a time on has its length in packets in the mean.
                    self.on_until = now + ns(self.pareto(on_s, alpha));
                    agenda.at(now + ns(self.random.unit() * spacing), wake);
                } else if now < self.on_until {
                    self.burst(now, 1, bytes, 0, agenda);
                    agenda.at(now + ns(spacing), wake);
                } else {
                    let next = self.on_until + ns(self.pareto(self.off_s, alpha));
                    self.on_until = 0;
                    agenda.at(next.max(now), wake);
                }
            }
            Source::Poisson { bytes, load } => {
                let mean = 8.0 * f64::from(bytes) / (load * self.link_bps);
                let next = self.random.exponential(mean);
                self.burst(now, 1, bytes, 0, agenda);
                agenda.at(now + ns(next), wake);
            }
        }
    }

    /// A packet has passed the bottleneck, or was refused.
    pub(super) fn passed(&mut self, now: Ns, arrives: Option<Ns>, tag: u64, agenda: &mut Agenda) {
        match self.source {
            Source::Ftp { bytes, burst, .. } => match arrives {
                None => {
                    let source = self.place;
                    agenda.at(
                        now + ns(TIMEOUT_S),
                        Happening::Packet { source, bytes, tag },
                    );
                }
                Some(at) => {
                    self.unacknowledged += 1;
                    if self.unacknowledged == burst {
                        self.unacknowledged = 0;
                        // The other half of the round trip.
                        let back = at + self.rtt / 2;
                        self.burst(back, burst, bytes, tag, agenda);
                    }
                }
            },
            Source::Nv { .. } => {
                let Some(frame) = self.frames.get_mut(&tag) else {
                    return;
                };
                if let Some(at) = arrives {
                    frame.1 -= 1;
                    frame.2 = at;
                }
            }
            Source::Office { .. } | Source::Poisson { .. } => {}
        }
    }

    /// Of each frame that begins a second before `end`: seconds until its last packet arrived; `None`: one is missing.
    pub(super) fn frames(self, end: Ns) -> impl Iterator<Item = Option<f64>> {
        let whole = |(begun, missing, last): (Ns, u32, Ns)| {
            (missing == 0).then(|| (last - begun) as f64 / 1e9)
        };
        let frames = self.frames.into_values();
        frames.filter(move |it| it.0 + ns(1.0) <= end).map(whole)
    }
}
