//! What a receiver misses, and why, from its figures of each second.

use layercast_core::{CellRate, Level, Span};
use layercast_media::{PaceChange, TOO_SLOW};
use layercast_mets::{CutStarts, LateMs};
use layercast_net::{Loss, Progress, is_source_late};

use crate::live;
use crate::output::count;

/// Seconds without a frame before the command says so.
pub const SILENCE: u32 = 3;
/// Seconds of an outage before the command says so; it is counted from 1 s without a picture on, or one and a half GOPs.
const DARK: u32 = 2;
/// Seconds between two messages that pictures are damaged on the way to the source.
const DAMAGED_EVERY: u32 = 20;
/// Why a host does not run a receiver.
pub const HOST_STOPPED: &str =
    "its process or the host was stopped or suspended, or the processor is overloaded";
/// Seconds for which this host counts as overloaded after it has handed frames over late.
const OVERLOADED: u32 = 5;
/// Seconds over which losses are looked at.
const LOSS_WINDOW: u32 = 5;
/// Seconds with packets after which a single one without is an outage; packets of the base layer may be rare.
const STEADY: u32 = 30;
/// Seconds after a silence, or after the flow was joined again, in which what is missing is put down to that.
const AROUND: u32 = 10;
/// Lost frames of a window, per mille and at least, that are worth a word; at the base level a few frames are all there are.
const WORTH: (u64, u64) = (50, 3);
/// Lost packets of a link of which no repair arrives, while others come: the path does not carry them.
const BLOCKED: u64 = 50;
/// Octets of a datagram that are hardly less than those of the longest: those pass, too.
const LONG: usize = 1_200;
/// Media that wait at the source for this time longer than before are worth a word, once until they have not for some seconds.
const HELD: Span = Span::from_ms(800);
const HELD_FOR: u32 = 10;
/// Packets state a longer wait as 4095 ms.
pub const STATED_WAIT_MS: u64 = 4_000;

/// A median lateness, in milliseconds, that is that of a queue that grows.
const QUEUES_MS: f64 = 2_000.0;

/// Whether packets come, whether frames are played, and how many are lost.
#[derive(Default)]
pub struct Arrivals {
    /// The figures of the last look, when the running window began, when a frame was played last, and when a picture was
    /// shown last.
    last: Seen,
    window: Seen,
    played: Seen,
    shown: Seen,
    /// Seconds of the window, without a packet, without a frame played, and of the running outage.
    seconds: u32,
    silent: u32,
    unplayed: u32,
    /// Octets of the longest datagram that came while nothing is played.
    longest: usize,
    dark: u32,
    /// Seconds for which this host still counts as overloaded.
    overloaded: u32,
    reported: bool,
    /// That the path does not carry some packets was reported since a frame was played.
    is_blocked: bool,
    /// That cause, while no frame is played.
    blocked: Option<String>,
    /// The flow was joined since the last look.
    begins: bool,
    /// Seconds without a packet before the flow was joined again.
    away: u32,
    /// Seconds with packets since one without.
    steady: u32,
    /// Frames of the flow were looked at before.
    is_known: bool,
    /// Packets come again.
    outage: Option<Outage>,
    /// Media per second of a source that is slower than real time, as it advertised last.
    slow: Option<f64>,
    /// Pictures that were damaged on the way to it, as far as they are reported, and seconds until more are.
    damaged: Option<u64>,
    damaged_wait: u32,
    /// The least mean time of a second that media waited at the source, and seconds since they waited for long.
    least_wait: Option<Span>,
    held: u32,
}

/// The source or a node on the path was away, and packets come again.
#[derive(Clone, Copy)]
struct Outage {
    /// Seconds without a packet; 0 if the flow was joined again meanwhile.
    silent: u32,
    /// Seconds for which it still counts.
    left: u32,
    /// That frames were lost is reported.
    is_told: bool,
}

impl Outage {
    fn new(silent: u32) -> Outage {
        Outage {
            silent,
            left: AROUND,
            is_told: false,
        }
    }

    fn cause(self) -> String {
        const AWAY: &str = "the source or a node on the path was away";
        match self.silent {
            0 => format!("the flow was joined again after {AWAY}"),
            silent => format!("no packet came for {silent} s: {AWAY}"),
        }
    }
}

/// Counts since the start.
#[derive(Clone, Copy, Default)]
struct Seen {
    packets: u64,
    played: u64,
    late: u64,
    late_base: u64,
    /// Of the late ones, as this host did not run the receiver.
    late_stopped: u64,
    lost: u64,
    lost_base: u64,
    marked: u64,
    repaired: Option<u64>,
    on_link: Option<u64>,
    /// Of these, those that a repair brought.
    mended: u64,
    outage_ms: u64,
    cut: CutStarts,
    /// Of all late frames.
    late_ms: Option<LateMs>,
    source_late_ms: Option<f64>,
    /// Media per second of a source that is slower than real time.
    slow: Option<f64>,
    /// The base layer is all that the last link carries.
    is_tight: bool,
    overloaded: bool,
    outage: Option<Outage>,
}

impl Seen {
    fn of(progress: &Progress) -> Seen {
        Seen {
            packets: progress.packets,
            played: progress.frames.total(),
            late: progress.late.total(),
            late_base: progress.late.base,
            late_stopped: progress.late_stopped,
            lost: progress.lost.total(),
            lost_base: progress.lost.base,
            marked: progress.marked,
            repaired: progress.repaired,
            on_link: progress.link_repair.map(|link| link.receiving.gaps),
            mended: progress
                .link_repair
                .map_or(0, |link| link.receiving.repaired.total()),
            outage_ms: progress.outage_ms,
            cut: progress.cut_starts,
            late_ms: progress.late_ms,
            source_late_ms: progress.source_late_ms,
            slow: None,
            is_tight: progress.level == Level::BASE && progress.left == CellRate(0),
            overloaded: false,
            outage: None,
        }
    }

    fn since(self, before: Seen) -> Seen {
        let (repaired, on_link) = (self.repaired, self.on_link);
        Seen {
            packets: self.packets.saturating_sub(before.packets),
            played: self.played.saturating_sub(before.played),
            late: self.late.saturating_sub(before.late),
            late_base: self.late_base.saturating_sub(before.late_base),
            late_stopped: self.late_stopped.saturating_sub(before.late_stopped),
            lost: self.lost.saturating_sub(before.lost),
            lost_base: self.lost_base.saturating_sub(before.lost_base),
            marked: self.marked.saturating_sub(before.marked),
            repaired: repaired.map(|now| now.saturating_sub(before.repaired.unwrap_or(0))),
            on_link: on_link.map(|now| now.saturating_sub(before.on_link.unwrap_or(0))),
            mended: self.mended.saturating_sub(before.mended),
            outage_ms: self.outage_ms.saturating_sub(before.outage_ms),
            cut: CutStarts {
                starts: self.cut.starts.saturating_sub(before.cut.starts),
                bytes: self.cut.bytes.saturating_sub(before.cut.bytes),
                came: self.cut.came.saturating_sub(before.cut.came),
            },
            ..self
        }
    }

    /// Frames and starts of GOPs that were not played.
    fn missed(self) -> u64 {
        self.lost + self.late + self.cut.starts
    }

    /// How many packets the link lost if no repair of any of them arrived, and too many for chance.
    fn blocked(self) -> Option<u64> {
        self.on_link
            .filter(|gaps| *gaps >= BLOCKED && self.mended == 0)
    }

    /// Why frames are lost, and what helps.
    fn loss(self) -> String {
        if let Some(outage) = self.outage {
            return outage.cause();
        }
        let loss = Loss {
            base: self.lost_base,
            marked: self.marked,
            repaired: self.repaired,
            on_link: self.on_link,
            overloaded: self.overloaded,
        };
        loss.to_string()
    }
}

impl Arrivals {
    /// This host has handed over `missed` of `window` frames after their time, because it woke the command late.
    pub fn missed_deadlines(&mut self, missed: u32, window: u32) {
        if missed.saturating_mul(4) >= window {
            self.overloaded = OVERLOADED;
        }
    }

    /// The flow is joined, perhaps once more: what came before, and the silence since, say nothing of the way now.
    pub fn joined(&mut self) {
        self.begins = true;
    }

    /// A second has passed in which the flow was not joined; packets may come all the same.
    pub fn apart(&mut self, progress: &Progress) {
        let came = progress.packets > self.last.packets;
        self.last.packets = progress.packets;
        self.silent = if came { 0 } else { self.silent + 1 };
    }

    /// Why no frame was played although packets came, if the path does not carry some of them.
    pub fn blocked(&self) -> Option<&str> {
        self.blocked.as_deref()
    }

    /// Seconds without a packet: while they last, nothing is known of the path.
    pub fn silent(&self) -> u32 {
        self.silent
    }

    /// Takes the figures of a second; gives what to tell.
    pub fn look(&mut self, progress: &Progress) -> Option<String> {
        let mut now = Seen::of(progress);
        if std::mem::take(&mut self.begins) {
            *self = Arrivals {
                last: now,
                window: now,
                played: now,
                shown: now,
                overloaded: self.overloaded,
                slow: self.slow,
                away: self.away + self.silent,
                outage: self.is_known.then(|| Outage::new(self.away + self.silent)),
                is_known: true,
                ..Arrivals::default()
            };
            return None;
        }
        now.overloaded = self.overloaded > 0;
        self.overloaded = self.overloaded.saturating_sub(1);
        let new = now.since(self.last);
        self.last = now;
        self.seconds += 1;
        let silent = self.silent;
        self.note_outage(new.packets > 0);
        now.outage = self.outage;
        self.is_known = true;
        let pace = self.look_at_source(progress);
        now.slow = self.slow;
        self.unplayed += 1;
        self.longest = self.longest.max(progress.longest);
        if new.played > 0 {
            (self.unplayed, self.played, self.longest) = (0, now, 0);
            (self.is_blocked, self.blocked) = (false, None);
        }
        let outage = now.since(self.shown);
        self.dark += 1;
        if new.outage_ms == 0 {
            (self.dark, self.shown) = (0, now);
        }
        let again = (silent >= SILENCE && self.silent == 0)
            .then(|| format!("packets come again after {silent} s"));
        match (again, pace) {
            (Some(again), Some(pace)) => return Some(format!("{again}; {pace}")),
            (None, None) => {}
            (again, pace) => return again.or(pace),
        }
        if let Some(held) = self.look_at_what_waits(progress) {
            return Some(held);
        }
        if self.silent == SILENCE {
            return Some(format!(
                "no packet came for {SILENCE} s: the source pauses, its GOPs are longer, or the path is cut"
            ));
        }
        if self.silent > 0 {
            return None;
        }
        // After a join playout takes a GOP and the playout delay: only losses are a reason.
        let missed = now.since(self.played);
        if let Some(lost) = missed.blocked().filter(|_| self.unplayed >= SILENCE) {
            if std::mem::replace(&mut self.is_blocked, true) {
                return None;
            }
            let cause = match self.longest >= LONG {
                // Packets of any length pass.
                true => format!(
                    "{lost} packets are lost on the link, and no repair of them arrives in time: the path carries less than is sent on it. \
                     Ask for less (join --level), or tell the server the rate of the path (serve --rate), or let it find that out \
                     (--rate auto)"
                ),
                false => format!(
                    "{lost} packets are lost on the link, and no repair of them arrives either. A path that carries short packets only (MTU) \
                     does this: it must carry IP packets of 1299 bytes, or of 1280 with --repair arq at serve; look at the MTU \
                     of tunnels and VPNs on it, and whether a firewall drops ICMP (ping -M do -s 1252 HOST)"
                ),
            };
            let unplayed = self.unplayed;
            self.blocked = Some(cause.clone());
            return Some(format!(
                "nothing was played for {unplayed} s although packets come: {cause}"
            ));
        }
        if self.unplayed >= SILENCE && missed.missed() > 0 {
            let is_news = self.unplayed == SILENCE || missed.missed() == new.missed();
            if is_news {
                let seconds = self.unplayed;
                return Some(format!(
                    "nothing was played for {seconds} s although packets come: {}",
                    missed.cause()
                ));
            }
        }
        // Sound may be played all the while.
        if self.dark == DARK && self.unplayed < SILENCE && outage.lost_base + outage.late_base > 0 {
            return Some(format!(
                "no picture was shown for {:.1} s although frames are played: {}",
                outage.outage_ms as f64 / 1e3,
                Seen {
                    lost: outage.lost_base,
                    late: outage.late_base,
                    ..outage
                }
                .cause()
            ));
        }
        if self.seconds < LOSS_WINDOW {
            return None;
        }
        // Longer than a window after a silence.
        let seconds = std::mem::take(&mut self.seconds);
        let seen = now.since(self.window);
        self.window = now;
        let all = seen.played + seen.lost;
        let heavy = seen.lost >= WORTH.1 && seen.lost * 1_000 >= all * WORTH.0;
        let news = match &mut self.outage {
            Some(outage) => heavy && !std::mem::replace(&mut outage.is_told, true),
            None => !std::mem::replace(&mut self.reported, heavy) && heavy,
        };
        news.then(|| {
            format!(
                "{} of {} lost in {seconds} s; {}",
                seen.lost,
                count(all, "frame"),
                seen.loss()
            )
        })
    }
}

impl Arrivals {
    /// Notes that packets came in the last second, or none.
    fn note_outage(&mut self, came: bool) {
        if !came {
            self.silent += 1;
            return;
        }
        let silent = std::mem::take(&mut self.away) + std::mem::take(&mut self.silent);
        let steady = self.steady >= STEADY;
        self.steady = if silent > 0 { 0 } else { self.steady + 1 };
        if silent > 1 || silent > 0 && steady {
            self.outage = Some(Outage::new(silent));
        } else if let Some(outage) = &mut self.outage {
            outage.left = outage.left.saturating_sub(1);
            self.outage = self.outage.filter(|it| it.left > 0);
        }
    }

    /// Tells once that media wait at the source for longer than before, until they have not for some time.
    fn look_at_what_waits(&mut self, progress: &Progress) -> Option<String> {
        let wait = progress.end_to_end.as_ref()?.ingest;
        let least = self.least_wait.map_or(wait, |least| least.min(wait));
        self.least_wait = Some(least);
        let before = self.held;
        self.held = before.saturating_sub(1);
        if wait < least + HELD {
            return None;
        }
        self.held = HELD_FOR;
        (before == 0).then(|| {
            let more = if wait.as_ms() >= STATED_WAIT_MS { " or more" } else { "" };
            format!(
                "media wait {:.1} s{more} at the source until they are due: they come to it faster than real time, those of a \
                 pause came together, or their time stamps jump; it drops frames if that lasts",
                wait.as_secs_f64()
            )
        })
    }

    /// Tells that the source becomes slower than real time, or keeps it again, as it advertises.
    fn look_at_source(&mut self, progress: &Progress) -> Option<String> {
        let ratio = progress.media_ms_per_s.map(|ms| f64::from(ms) / 1e3);
        match (std::mem::replace(&mut self.slow, ratio), ratio) {
            (None, Some(ratio)) => Some(live::pace(&PaceChange::Slow(ratio))),
            (Some(_), None) => Some(live::pace(&PaceChange::RealTime(1.0))),
            _ => self.look_at_input(progress.input_damaged),
        }
    }

    /// Tells that pictures are damaged on the way to the source, once in a while. The count begins again with the source.
    fn look_at_input(&mut self, damaged: u64) -> Option<String> {
        let told = self.damaged.map_or(damaged, |told| told.min(damaged));
        self.damaged = Some(told);
        let new = damaged - told;
        self.damaged_wait = self.damaged_wait.saturating_sub(1);
        if new == 0 || self.damaged_wait > 0 {
            return None;
        }
        (self.damaged, self.damaged_wait) = (Some(damaged), DAMAGED_EVERY);
        Some(live::damaged(new))
    }
}

impl Seen {
    /// Why these frames were not played, and what helps.
    fn cause(self) -> String {
        if self.late > self.lost {
            let by = self.late_ms.map_or(String::new(), |late| {
                format!(", by {:.0} ms (median)", late.p50)
            });
            let late_ms = self.late_ms.map_or(0.0, |late| late.p50);
            if self.late_stopped > self.late / 2 {
                return format!(
                    "{} too late{by}, because this host did not run the receiver when they arrived: {HOST_STOPPED}",
                    count(self.late, "frame")
                );
            }
            let source = self.source_late_ms.unwrap_or_default();
            if is_source_late(source, late_ms) {
                let pace = self.slow.map_or(String::new(), |ratio| {
                    format!("it delivers {ratio:.2} s of media per second, and ")
                });
                return format!(
                    "{} too late{by}, because they come to the source {source:.0} ms after their time: {pace}{TOO_SLOW}",
                    count(self.late, "frame")
                );
            }
            let late = count(self.late, "frame");
            return match (late_ms > QUEUES_MS, self.is_tight) {
                (true, _) => format!(
                    "{late} too late{by}, as in a queue that grows: the path carries less than is sent into it, and no playout delay \
                     helps (layercast stats at the node before this receiver tells what the path carries)"
                ),
                (false, true) => format!(
                    "{late} too late{by}; a longer playout delay helps only if the last link, which has nothing left beside base \
                     layers, carries them (layercast stats at the node before this receiver tells)"
                ),
                (false, false) => format!(
                    "{late} too late{by}; a longer playout delay helps (join --playout or --sync, serve --delay-max)"
                ),
            };
        }
        match self.cut.lost_percent() {
            Some(percent) if self.lost == 0 => format!(
                "no key frame came whole ({percent} % of the bytes of {} are missing); {}",
                count(self.cut.starts, "key frame"),
                self.loss()
            ),
            _ => format!(
                "{} lost, and with each start of a GOP all that follows it; {}",
                count(self.lost, "frame"),
                self.loss()
            ),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use layercast_core::{EndToEnd, PerLayer, Rate};

    use super::*;

    /// Figures after `frames` frames played in the base layer, `lost` lost, and packets.
    pub fn second(frames: u64, lost: u64, packets: u64) -> Progress {
        Progress {
            t: 0.0,
            level: Level::FULL,
            asked: Level::FULL,
            asks_less_because: None,
            left: CellRate(0),
            rate: Rate::from_bps(0),
            delay: Span::ZERO,
            longest: 0,
            end_to_end: None,
            silence: None,
            highest: None,
            frames: PerLayer {
                base: frames,
                ..PerLayer::default()
            },
            lost: PerLayer {
                base: lost,
                ..PerLayer::default()
            },
            outage: PerLayer::default(),
            late: PerLayer::default(),
            late_stopped: 0,
            source_clock: None,
            packets,
            marked: 0,
            repaired: None,
            link_repair: None,
            outage_ms: 0,
            cut_starts: CutStarts::default(),
            late_ms: None,
            source_late_ms: None,
            media_ms_per_s: None,
            input_damaged: 0,
            quality: None,
            output_dropped: 0,
            output_broken: false,
        }
    }

    fn reported(seconds: impl IntoIterator<Item = Progress>) -> Vec<String> {
        let mut arrivals = Arrivals::default();
        let seconds = seconds.into_iter();
        seconds.filter_map(|it| arrivals.look(&it)).collect()
    }

    #[test]
    fn silence_is_that_of_packets() {
        let flows = |n: u64| second(25 * n, n / 4, 100 * n);
        assert_eq!(reported((1..20).map(flows)), Vec::<String>::new());
        // After a join packets come for seconds before the first frame is played.
        let starts = |n: u64| second(25 * n.saturating_sub(5), 0, 100 * n);
        assert_eq!(reported((1..20).map(starts)), Vec::<String>::new());
        let stops = |n: u64| second(25 * n.min(4), 0, 100 * n.min(4));
        let silent = reported((1..20).map(stops));
        assert_eq!(silent.len(), 1, "{silent:?}");
        assert!(silent[0].contains("no packet came for 3 s"), "{silent:?}");
    }

    #[test]
    fn a_longer_playout_delay_is_advised_where_it_can_help() {
        let late = |ms: f64, level: Level| {
            let late = move |n: u64| Progress {
                level,
                late: PerLayer {
                    base: 5 * n,
                    ..PerLayer::default()
                },
                late_ms: Some(LateMs { p50: ms, p99: ms }),
                ..second(0, 0, 100 * n)
            };
            reported((1..6).map(late)).remove(0)
        };
        let text = late(373.0, Level::FULL);
        assert!(
            text.ends_with("(join --playout or --sync, serve --delay-max)"),
            "{text}"
        );
        let text = late(373.0, Level::BASE);
        assert!(text.contains("helps only if the last link"), "{text}");
        let text = late(3_600.0, Level::FULL);
        assert!(text.contains("no playout delay helps"), "{text}");
    }

    #[test]
    fn a_path_that_drops_long_packets_is_named_once_with_the_remedy() {
        // Short packets come, a hundred long ones a second are missing, and of their repairs `mended` come.
        let blocked = |n: u64, mended: u64| {
            let mut receiving = layercast_net::RequestStats {
                gaps: 100 * n.saturating_sub(4),
                ..layercast_net::RequestStats::default()
            };
            receiving.repaired.base = mended * n.saturating_sub(4);
            Progress {
                link_repair: Some(layercast_net::LinkRepairStats {
                    receiving,
                    ..layercast_net::LinkRepairStats::default()
                }),
                ..second(25 * n.min(4), 0, 100 * n)
            }
        };
        let said = reported((1..20).map(|n| blocked(n, 0)));
        assert_eq!(said.len(), 1, "{said:?}");
        for part in [
            "nothing was played for 3 s",
            "300 packets",
            "MTU",
            "1299 bytes",
        ] {
            assert!(said[0].contains(part), "{part}: {said:?}");
        }
        let mut arrivals = Arrivals::default();
        let _ = (1..20)
            .filter_map(|n| arrivals.look(&blocked(n, 0)))
            .count();
        // Nothing is played to the end: the cause is that of the command too.
        assert!(arrivals.blocked().unwrap().contains("MTU"));
        arrivals.look(&second(200, 0, 3_000));
        assert_eq!(arrivals.blocked(), None);
        // Long packets come, too: what is lost is lost for want of room.
        let slow = |n: u64| Progress {
            longest: 1_252,
            ..blocked(n, 0)
        };
        let said = reported((1..20).map(slow));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("carries less than is sent"), "{said:?}");
        assert!(!said[0].contains("MTU"), "{said:?}");
        assert_eq!(
            reported((1..20).map(|n| blocked(n, 1))),
            Vec::<String>::new()
        );
    }

    #[test]
    fn nothing_is_said_of_the_path_while_no_packet_comes() {
        // The last second of a server that is killed has losses, and no picture is shown from then on.
        let killed = |n: u64| Progress {
            outage_ms: 1_000 * n.saturating_sub(4),
            ..second(25 * n.min(6), 10 * n.min(4), 100 * n.min(4))
        };
        let said = reported((1..20).map(killed));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("no packet came for 3 s"), "{said:?}");
        // When packets come again, the window of the losses is over.
        let again = |n: u64| match n {
            0..20 => killed(n),
            _ => second(150 + 25 * (n - 19), 40, 400 + 100 * (n - 19)),
        };
        let said = reported((1..40).map(again));
        assert_eq!(said.len(), 3, "{said:?}");
        assert_eq!(said[1], "packets come again after 15 s");
        assert_eq!(
            said[2],
            "40 of 240 frames lost in 21 s; no packet came for 15 s: the source or a node on the path was away"
        );
    }

    #[test]
    fn frames_lost_around_an_outage_of_a_node_are_not_the_loss_of_the_path() {
        // Ten seconds of media; 2 s without a packet; then frames of which none can be played for 5 s.
        let switch = |n: u64, lost: u64| match n {
            0..10 => second(25 * n, 0, 100 * n),
            10..12 => second(225, 0, 900),
            12..17 => second(225, 4 + n / 16, 900 + 100 * (n - 11)),
            _ => second(
                225 + 25 * (n - 16),
                5 + lost * (n - 16),
                900 + 100 * (n - 11),
            ),
        };
        let run = |rejoins: bool, lost: u64| {
            let mut arrivals = Arrivals::default();
            let mut said = Vec::new();
            arrivals.joined();
            for n in 0..60 {
                let progress = switch(n, lost);
                match rejoins && (10..12).contains(&n) {
                    true => arrivals.apart(&progress),
                    false => said.extend(arrivals.look(&progress)),
                }
                if rejoins && n == 11 {
                    arrivals.joined();
                }
            }
            said
        };
        for rejoins in [false, true] {
            let said = run(rejoins, 0);
            assert!(!said.is_empty());
            for text in &said {
                assert!(
                    text.contains("no packet came for 2 s"),
                    "{rejoins}: {said:?}"
                );
                assert!(!text.contains("link repair"), "{rejoins}: {said:?}");
            }
            // What is lost later is that of the path.
            let said = run(rejoins, 5);
            let last = said.last().expect("a message");
            assert!(last.contains("the path itself loses packets"), "{said:?}");
        }
    }

    #[test]
    fn a_life_of_the_flow_is_not_judged_by_the_one_before() {
        let mut arrivals = Arrivals::default();
        let mut said = Vec::new();
        for n in 1..=3 {
            said.extend(arrivals.look(&second(25 * n, 0, 100 * n)));
        }
        // While it was away frames were given up.
        arrivals.joined();
        for n in 4..12 {
            said.extend(arrivals.look(&second(75 + 25 * (n - 4), 60, 100 * n)));
        }
        assert_eq!(said, Vec::<String>::new());
    }

    #[test]
    fn a_source_that_is_slower_than_real_time_is_named_and_no_longer_delay_advised() {
        // 0.85 s of media per second: 150 ms more each second, and from the eighth on nothing is in time.
        let slow = |n: u64| Progress {
            t: n as f64,
            late: PerLayer {
                base: 25 * n.saturating_sub(7),
                ..PerLayer::default()
            },
            late_ms: Some(LateMs {
                p50: 150.0 * n as f64,
                p99: 150.0 * n as f64,
            }),
            source_late_ms: Some(150.0 * n as f64),
            media_ms_per_s: (n > 11).then_some(850),
            ..second(25 * n.min(7), 0, 100 * n)
        };
        let said = reported((1..40).map(slow));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0].contains("come to the source 1500 ms after their time"),
            "{said:?}"
        );
        assert!(
            said[1].contains("the source delivers 0.85 s of media per second"),
            "{said:?}"
        );
        for text in &said {
            assert!(text.contains("encoder is too slow"), "{text}");
            assert!(!text.contains("a longer playout delay helps"), "{text}");
        }
    }

    #[test]
    fn media_that_wait_at_the_source_are_told_once() {
        let waits = |ms: u64| EndToEnd {
            ingest: Span::from_ms(ms),
            ..EndToEnd::default()
        };
        let said = |wait: fn(u64) -> u64| {
            reported((1..60).map(|n| Progress {
                end_to_end: Some(waits(wait(n))),
                ..second(25 * n, 0, 100 * n)
            }))
        };
        // The timeline of the source begins again every 4 s.
        let jumps = said(|n| 90 + if n > 5 && n < 30 { n % 4 * 450 } else { 0 });
        assert_eq!(jumps.len(), 1, "{jumps:?}");
        assert!(
            jumps[0].contains("media wait 1.0 s at the source"),
            "{jumps:?}"
        );
        let long = said(|n| if n > 5 { 4_095 } else { 90 });
        assert_eq!(long.len(), 1, "{long:?}");
        assert!(long[0].contains("4.1 s or more"), "{long:?}");
        // A long lead, and jitter.
        assert_eq!(said(|n| 2_000 + n % 3 * 200), Vec::<String>::new());
    }

    #[test]
    fn pictures_that_are_damaged_on_the_way_to_the_source_are_told_once_in_a_while() {
        let damaged = |n: u64| Progress {
            input_damaged: match n {
                0..10 => 0,
                10..40 => n,
                // Another life of the source.
                _ => 2,
            },
            ..second(25 * n, 0, 100 * n)
        };
        let mut arrivals = Arrivals::default();
        let said: Vec<_> = (1..60)
            .filter_map(|n| Some((n, arrivals.look(&damaged(n))?)))
            .collect();
        let told: Vec<_> = said
            .iter()
            .map(|(n, text)| (*n, &text[..text.find(',').unwrap()]))
            .collect();
        let shown = [
            (10, "10 pictures cannot be shown"),
            (30, "20 pictures cannot be shown"),
        ];
        assert_eq!(told, shown);
    }

    #[test]
    fn that_a_source_is_slow_is_told_and_taken_back_when_the_source_says_so() {
        let pace = |n: u64| Progress {
            media_ms_per_s: (5..15).contains(&n).then_some(840 + n as u16),
            // What is late for a while is no news.
            source_late_ms: Some(150.0 * n.min(20) as f64),
            ..second(25 * n, 0, 100 * n)
        };
        let mut arrivals = Arrivals::default();
        let mut said = Vec::new();
        for n in 1..40 {
            said.extend(arrivals.look(&pace(n)).map(|text| (n, text)));
            // The flow is joined again.
            if n == 10 {
                arrivals.joined();
            }
        }
        let [(5, slow), (15, over)] = &said[..] else {
            panic!("{said:?}");
        };
        assert!(
            slow.contains("delivers 0.84 s of media per second"),
            "{slow}"
        );
        assert!(over.contains("in real time again"), "{over}");
    }

    #[test]
    fn losses_are_told_once_with_their_cause() {
        let blocked = |n: u64| second(25 * n.min(4), 25 * n.saturating_sub(4), 100 * n);
        let lost = reported((1..20).map(blocked));
        assert!(lost[0].starts_with("25 of 125 frames lost"), "{lost:?}");
        assert!(
            lost[1].starts_with("nothing was played for 3 s although packets come: 75 frames lost"),
            "{lost:?}"
        );
        assert!(
            lost.iter().all(|it| it.contains("--protect-base")),
            "{lost:?}"
        );
        let lossy = reported((1..20).map(|n| second(18 * n, 7 * n, 90 * n)));
        assert_eq!(lossy.len(), 1, "{lossy:?}");
        assert!(lossy[0].starts_with("35 of 125 frames lost in 5 s; no queue was full"));
        // At the base level of two frames a second.
        let few = reported((1..20).map(|n| second(n + n / 3, n - n / 3, 20 * n)));
        assert_eq!(few.len(), 1, "{few:?}");
        let late = |n: u64| Progress {
            late: PerLayer {
                base: 2 * n,
                ..PerLayer::default()
            },
            ..second(0, 0, 100 * n)
        };
        let late = reported((1..10).map(late));
        assert_eq!(late.len(), 1, "{late:?}");
        assert!(
            late[0].contains("6 frames too late") && late[0].contains("--playout"),
            "{late:?}"
        );
    }

    #[test]
    fn frames_that_arrived_while_the_host_was_stopped_need_no_longer_delay() {
        let stopped = |n: u64| Progress {
            late: PerLayer {
                base: 2 * n,
                ..PerLayer::default()
            },
            late_stopped: 2 * n,
            ..second(0, 0, 100 * n)
        };
        let said = reported((1..10).map(stopped));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("6 frames too late, because this host did not run the receiver"),
            "{said:?}"
        );
        assert!(!said[0].contains("--playout"), "{said:?}");
    }

    #[test]
    fn late_pictures_are_reported_although_sound_is_played() {
        let dark = |n: u64| Progress {
            late: PerLayer {
                base: n / 2,
                ..PerLayer::default()
            },
            late_ms: Some(LateMs {
                p50: 83.0,
                p99: 120.0,
            }),
            outage_ms: if n < 3 { 0 } else { 1_000 * n },
            ..second(40 * n, 0, 100 * n)
        };
        let said = reported((1..20).map(dark));
        assert_eq!(said.len(), 1, "{said:?}");
        for part in [
            "no picture was shown for",
            "too late, by 83 ms",
            "join --playout",
        ] {
            assert!(said[0].contains(part), "{said:?}");
        }
    }

    #[test]
    fn key_frames_that_never_come_whole_are_a_loss() {
        let cut = |n: u64| Progress {
            cut_starts: CutStarts {
                starts: n,
                bytes: 1_000 * n,
                came: 710 * n,
            },
            ..second(0, 0, 100 * n)
        };
        let said = reported((1..20).map(cut));
        assert_eq!(said.len(), 1, "{said:?}");
        for part in ["29 % of the bytes of 3 key frames", "--protect-base"] {
            assert!(said[0].contains(part), "{said:?}");
        }
    }

    #[test]
    fn an_overloaded_host_is_the_cause_before_a_queue() {
        let mut arrivals = Arrivals::default();
        let mut said = Vec::new();
        for n in 1..10 {
            arrivals.missed_deadlines(9, 24);
            let progress = Progress {
                marked: 50 * n,
                ..second(18 * n, 7 * n, 90 * n)
            };
            said.extend(arrivals.look(&progress));
        }
        assert!(said[0].contains("this host is overloaded"), "{said:?}");
    }
}
