use layercast_core::{Rate, Span};
use layercast_wire::multicast::Content;

use crate::{
    Completion, Deadline, Monitor, Opening, RateControl, Repair, Schedule, SenderConfig, Silence,
    Trigger, Weak,
};

/// Attempts to reach a silent receiver of [`SenderConfig::persistent`].
const PERSISTENT: u32 = 20;

impl SenderConfig {
    /// FRM as in the paper (specs/fully-reliable-multicast.md): a stream; polls by a timer of k = 1.5 largest round
    /// trips, answered immediately; go-back-N; B = 32 packets of 2000 octets; receivers slower than 180 kbytes/s are
    /// expelled.
    pub fn frm() -> SenderConfig {
        SenderConfig {
            packet_size: 2_000,
            trigger: Trigger::Timer {
                on_complete: false,
                idle: Span::from_secs(1),
            },
            content: Content::Levels,
            schedule: Schedule::AtOnce,
            deadline: Deadline::Rtt { k_permille: 1_500 },
            silence: Silence::AskGroup { tries: 4 },
            repair: Repair::GoBackN,
            weak: Weak::Eject {
                min_release: 180_000,
                interval: Span::from_secs(1),
                slow_rounds: 3,
                mandatory: false,
            },
            completion: Completion::AtLeast(1),
            rate: RateControl::Free,
            opening: Opening {
                tries: 3,
                wait: Span::from_ms(500),
                copies: 1,
            },
            window: 32,
            best_effort: Vec::new(),
            release_on_received: false,
            rounds: u16::MAX,
            block: 1,
            scheme: 0,
            release_each: false,
            data_wait: Span::ZERO,
            sender_wait: Span::from_secs(10),
            receipts: None,
        }
    }

    /// RMTP as in the paper (specs/rmtp-large-scale.md): an object in passes; unsolicited answers after a uniform
    /// back-off; silent receivers are polled one by one; the union of the missing packets is repeated; packets of
    /// 1024 octets at 0.8 Mbit/s, TAT 100 ms, delta 3 ms.
    pub fn rmtp() -> SenderConfig {
        SenderConfig {
            packet_size: 1_024,
            trigger: Trigger::Pass,
            content: Content::Ranges,
            schedule: Schedule::BackOff {
                delta: Span::from_ms(3),
                unasked: true,
            },
            deadline: Deadline::Linear {
                tat: Span::from_ms(100),
                alpha: Span::from_ms(1_900),
            },
            silence: Silence::AskEach { tries: 3 },
            repair: Repair::Selective {
                unicast_below_permille: 0,
            },
            weak: Weak::Postpone {
                polls: 8,
                missing_permille: 1_000,
                side: false,
            },
            completion: Completion::AtLeast(1),
            rate: RateControl::Fixed(Rate::from_bps(800_000)),
            opening: Opening {
                tries: 3,
                wait: Span::from_ms(1_000),
                copies: 2,
            },
            window: 1,
            best_effort: Vec::new(),
            release_on_received: false,
            rounds: 32,
            block: 1,
            scheme: 0,
            release_each: true,
            data_wait: Span::from_secs(2),
            sender_wait: Span::from_secs(60),
            receipts: None,
        }
    }

    /// The same for paths that lose much: a receiver that answers is not taken for dead because polls and answers are
    /// lost. The papers leave these numbers to the user. With 30 % loss each way half of all polls are answered, and the
    /// attempts of [`rmtp`](Self::rmtp) and [`frm`](Self::frm) fail once in 14 to 30 silences; these fail once in 700 000.
    pub fn persistent(self) -> SenderConfig {
        SenderConfig {
            silence: match self.silence {
                Silence::AskGroup { tries } => Silence::AskGroup {
                    tries: tries.max(PERSISTENT),
                },
                Silence::AskEach { tries } => Silence::AskEach {
                    tries: tries.max(PERSISTENT),
                },
            },
            weak: match self.weak {
                // Polls that were lost say nothing of how slow a receiver is.
                Weak::Postpone {
                    polls,
                    missing_permille,
                    side,
                } => Weak::Postpone {
                    polls: polls.max(8 * PERSISTENT),
                    missing_permille,
                    side,
                },
                other => other,
            },
            ..self
        }
    }

    /// Layercast's own profile: an object in blocks of 100; receivers report counts of missing symbols, with
    /// truncated exponential back-off in large groups; repair by fresh parities; weak receivers are served at the
    /// end; packets of 1400 octets at the given rate.
    pub fn layercast(rate: Rate) -> SenderConfig {
        SenderConfig {
            packet_size: 1_400,
            trigger: Trigger::Pass,
            content: Content::Counts,
            schedule: Schedule::Suppress {
                delta: Span::from_us(200),
                above: 64,
                spread: Span::from_ms(400),
            },
            deadline: Deadline::Adaptive {
                initial: Span::from_ms(100),
            },
            silence: Silence::AskEach { tries: 9 },
            repair: Repair::Parity {
                proactive: 0,
                most: 412,
            },
            weak: Weak::Postpone {
                polls: 20,
                missing_permille: 250,
                side: true,
            },
            completion: Completion::AtLeast(1),
            rate: RateControl::Fixed(rate),
            opening: Opening {
                tries: 3,
                wait: Span::from_ms(500),
                copies: 1,
            },
            window: 1,
            best_effort: Vec::new(),
            release_on_received: false,
            rounds: 64,
            block: 100,
            scheme: 3,
            release_each: false,
            data_wait: Span::ZERO,
            sender_wait: Span::from_secs(120),
            receipts: None,
        }
    }

    /// The rate control of RMTP's authors, with the initial rate `start` (specs/rmtp-large-scale.md 2.5).
    pub fn monitor(start: Rate, least: Rate, most: Rate) -> Monitor {
        Monitor {
            start,
            least,
            most,
            packets: 100,
            wait: Span::from_ms(200),
            loss_permille: 10,
            down_permille: 200,
            up_permille: 50,
            counters: u16::MAX,
        }
    }
}
