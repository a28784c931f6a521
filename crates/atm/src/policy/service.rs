use layercast_core::Span;

use super::ConversationType::{self, *};
use super::{AppSet, Policy, Scheduler};
use crate::{Contract, TrafficSpec};

/// Service that a circuit requests from the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// Best effort.
    BestEffort,
    /// A delay level (0 first) without a contract: never refused, not regulated.
    Priority(u8),
    /// A contract, which every queue on the path admits or refuses.
    Guaranteed(Contract),
}

impl Policy {
    /// The service of circuits for this type of conversation.
    pub fn service(self, kind: ConversationType) -> Service {
        let Some((scheduler, apps)) = self.qos() else {
            return Service::BestEffort;
        };
        match (kind.contract(), kind.level()) {
            (Some(contract), Some(level)) if apps.elevates(kind) => match scheduler {
                Scheduler::Sp | Scheduler::Drr | Scheduler::Edf => Service::Priority(level),
                Scheduler::Wc | Scheduler::Nwc => Service::Guaranteed(contract),
            },
            _ => Service::BestEffort,
        }
    }
}

impl AppSet {
    /// Whether conversations of this type get more than best effort (Table 4-6).
    pub fn elevates(self, kind: ConversationType) -> bool {
        let alone = match kind {
            TelnetUp | TelnetDown => AppSet::Telnet,
            FtpCtlUp | FtpCtlDown | FtpDataUp | FtpDataDown => AppSet::Ftp,
            HttpUp | HttpDown => AppSet::Http,
            Audio => AppSet::Audio,
            Video => AppSet::Video,
            SmtpUp | SmtpDown | NntpUp | NntpDown | Other => return false,
        };
        match self {
            AppSet::Qos1 => true,
            AppSet::Isp => matches!(alone, AppSet::Telnet | AppSet::Http),
            AppSet::Av => matches!(alone, AppSet::Audio | AppSet::Video),
            one => one == alone,
        }
    }
}

impl ConversationType {
    /// The contract of an elevated type (Table 4-5); mail, news and other types have none.
    pub fn contract(self) -> Option<Contract> {
        let contract = |delay, x_min, x_ave, interval| Contract {
            traffic: TrafficSpec {
                x_min: Span::from_us(x_min),
                x_ave: Span::from_us(x_ave),
                interval: Span::from_ms(interval),
            },
            delay: Span::from_ms(delay),
        };
        // d ms, X_min and X_ave us, I ms
        Some(match self {
            TelnetUp => contract(10, 20_000, 50_000, 500),
            TelnetDown => contract(10, 10_000, 20_000, 1_000),
            FtpCtlUp | FtpCtlDown => contract(20, 100_000, 500_000, 5_000),
            FtpDataUp => contract(80, 100_000, 100_000, 2_000),
            FtpDataDown => contract(80, 20_000, 20_000, 2_000),
            HttpUp => contract(40, 50_000, 100_000, 10_000),
            HttpDown => contract(40, 4_000, 8_000, 1_000),
            Audio => contract(20, 4_000, 5_000, 100),
            Video => contract(50, 2_600, 3_500, 2_000),
            SmtpUp | SmtpDown | NntpUp | NntpDown | Other => return None,
        })
    }

    /// The delay level of an elevated type (Table 4-6).
    pub fn level(self) -> Option<u8> {
        Some(match self {
            TelnetUp | TelnetDown => 1,
            FtpCtlUp | FtpCtlDown | Audio => 2,
            FtpDataUp | FtpDataDown | HttpUp | HttpDown | Video => 3,
            SmtpUp | SmtpDown | NntpUp | NntpDown | Other => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::{CELL_BITS, Rate};

    use super::*;

    /// Table 4-5: d ms, X_min ms, peak kbit/s, X_ave ms, mean kbit/s, I ms, level.
    const TABLE_4_5: &[(&[ConversationType], [f64; 7])] = &[
        (&[TelnetUp], [10., 20., 19.2, 50., 7.68, 500., 1.]),
        (&[TelnetDown], [10., 10., 38.4, 20., 19.2, 1000., 1.]),
        (
            &[FtpCtlUp, FtpCtlDown],
            [20., 100., 3.84, 500., 0.77, 5000., 2.],
        ),
        (&[FtpDataUp], [80., 100., 3.84, 100., 3.84, 2000., 3.]),
        (&[FtpDataDown], [80., 20., 19.2, 20., 19.2, 2000., 3.]),
        (&[HttpUp], [40., 50., 7.68, 100., 3.84, 10_000., 3.]),
        (&[HttpDown], [40., 4., 96.0, 8., 48.0, 1000., 3.]),
        (&[Audio], [20., 4., 96.0, 5., 76.8, 100., 2.]),
        (&[Video], [50., 2.6, 148., 3.5, 110., 2000., 3.]),
    ];

    #[test]
    fn contracts_are_those_of_table_4_5() {
        for &(kinds, [d, x_min, peak, x_ave, mean, interval, level]) in TABLE_4_5 {
            for kind in kinds {
                let Contract { traffic, delay } = kind.contract().unwrap();
                let ms = |span: Span| span.as_ms_f64();
                assert_eq!(ms(delay), d, "{kind}");
                assert_eq!(ms(traffic.x_min), x_min, "{kind}");
                assert_eq!(ms(traffic.x_ave), x_ave, "{kind}");
                assert_eq!(ms(traffic.interval), interval, "{kind}");
                traffic.validate().unwrap();
                // The rates are printed with three digits.
                assert!((384. / x_min / peak - 1.).abs() < 0.005, "{kind}");
                assert!((384. / x_ave / mean - 1.).abs() < 0.005, "{kind}");
                assert_eq!(kind.level().map(f64::from), Some(level), "{kind}");
            }
        }
        let rows: usize = TABLE_4_5.iter().map(|(kinds, _)| kinds.len()).sum();
        let with = |kind: &&ConversationType| kind.contract().is_some();
        assert_eq!(ConversationType::ALL.iter().filter(with).count(), rows);
    }

    #[test]
    fn a_level_is_the_next_lower_bound_of_the_delay() {
        let cell = Span::from_secs(1).mul_div(CELL_BITS, Rate::from_bps(1_536_000).as_bps());
        for kind in ConversationType::ALL {
            let level = kind.contract().map(|contract| {
                (0..4u8)
                    .rev()
                    .find(|&level| cell.times(16 << level) <= contract.delay)
                    .expect("no bound is so small")
            });
            assert_eq!(kind.level(), level, "{kind}");
        }
    }

    #[test]
    fn policies_elevate_those_of_table_4_6() {
        let table = [
            ("telnet", "TelnetUp TelnetDown"),
            ("ftp", "FtpCtlUp FtpCtlDown FtpDataUp FtpDataDown"),
            ("http", "HttpUp HttpDown"),
            ("audio", "Audio"),
            ("video", "Video"),
            ("isp", "TelnetUp TelnetDown HttpUp HttpDown"),
            ("av", "Audio Video"),
            (
                "qos1",
                "TelnetUp TelnetDown FtpCtlUp FtpCtlDown FtpDataUp FtpDataDown HttpUp HttpDown \
                 Audio Video",
            ),
        ];
        for (apps, elevated) in table {
            for scheduler in ["sp", "wc", "nwc", "drr", "edf"] {
                let policy: Policy = format!("{scheduler}-{apps}-app-svc").parse().unwrap();
                for kind in ConversationType::ALL {
                    let wanted = if !elevated.split(' ').any(|name| name == format!("{kind:?}")) {
                        Service::BestEffort
                    } else if ["sp", "drr", "edf"].contains(&scheduler) {
                        Service::Priority(kind.level().unwrap())
                    } else {
                        Service::Guaranteed(kind.contract().unwrap())
                    };
                    assert_eq!(policy.service(kind), wanted, "{policy} {kind}");
                }
            }
        }
        for name in ["noqos-conv-svc", "noqos-router-pvc"] {
            let policy: Policy = name.parse().unwrap();
            for kind in ConversationType::ALL {
                assert_eq!(policy.service(kind), Service::BestEffort);
            }
        }
    }
}
