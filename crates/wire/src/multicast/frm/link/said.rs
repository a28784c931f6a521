use layercast_core::Serial;

use super::{FLAGS, FrmLink, FrmLinkError};
use crate::multicast::frm::{FrmBody, FrmControl, FrmData, FrmEcho, FrmFlags, FrmInit, FrmReply};
use crate::multicast::{Ask, Body, Content, Open, Reason, Report, State, Symbol};

impl FrmLink {
    /// What FRM says instead.
    pub(super) fn said(&mut self, body: &Body) -> Result<FrmBody, FrmLinkError> {
        Ok(match body {
            Body::Open(open) => FrmBody::Init(Box::new(self.init(open)?)),
            Body::Accept(it) if it.weight == 1 => FrmBody::Reply(FrmReply {
                member: it.member,
                incarnation: it.incarnation,
                refuses: it.refuses,
                buffer: it.buffer,
                stamp: it.stamp,
            }),
            Body::Data(data) => {
                let Symbol::Source(number) = data.symbol else {
                    return Err(FrmLinkError::Unsaid("a parity"));
                };
                self.near = self.near.max(number);
                let flags = FLAGS.into_iter().filter(|it| data.flags.has(it.0));
                FrmBody::Data(FrmData {
                    seq: Serial(number as u32),
                    flags: FrmFlags(flags.fold(0, |sum, it| sum | it.1.0)),
                    code: None,
                    payload: data.payload.clone(),
                })
            }
            Body::Poll(poll) => {
                if poll.ask != Ask::Everyone || poll.separate || !poll.heard.is_empty() {
                    return Err(FrmLinkError::Unsaid("which members it polls"));
                }
                self.near = self.near.max(poll.upto);
                let bit = |so: bool, flag: FrmFlags| if so { flag.0 } else { 0 };
                FrmBody::Control(FrmControl {
                    sync: Serial(poll.sync),
                    stamp: poll.stamp,
                    lseq: Serial(poll.upto as u32),
                    sent: poll.sent,
                    spread_us: poll.spread_us,
                    flags: FrmFlags(
                        bit(poll.handshake, FrmFlags::HANDSHAKE)
                            | bit(poll.closing, FrmFlags::CLOSE),
                    ),
                    ejected: poll.ejected.clone(),
                })
            }
            Body::Report(report) => FrmBody::Echo(Box::new(echo_of(report)?)),
            Body::Leave { member, reason } => FrmBody::Leave {
                member: *member,
                reason: *reason,
            },
            Body::Eject(eject) => FrmBody::Eject {
                member: eject.member,
                reason: eject.reason,
                mindseq: Serial(eject.upto as u32),
            },
            Body::Release { .. } => FrmBody::Release {
                reason: Reason::Normal,
            },
            Body::Abort { reason } => FrmBody::Release {
                // A normal release is a success.
                reason: match reason {
                    Reason::Normal => Reason::User,
                    reason => *reason,
                },
            },
            Body::Accept(_) => return Err(FrmLinkError::Unsaid("which members it represents")),
            Body::Count(_) => return Err(FrmLinkError::Unsaid("counts")),
            Body::Released { .. } => return Err(FrmLinkError::Unsaid("a good-bye")),
            Body::Suspend { .. } => return Err(FrmLinkError::Unsaid("a delay")),
        })
    }

    fn init(&self, open: &Open) -> Result<FrmInit, FrmLinkError> {
        let setup = self.setup.clone().ok_or(FrmLinkError::Stranger)?;
        let terms = &open.terms;
        if open.object.is_some() || terms.content != Content::Levels {
            return Err(FrmLinkError::Unsaid("an object"));
        }
        if terms.unasked || terms.goodbye || terms.data_wait_ms > 0 || terms.counters > 0 {
            return Err(FrmLinkError::Unsaid("terms other than FRM's"));
        }
        Ok(FrmInit {
            stamp: open.stamp,
            packet_size: open.packet_size,
            in_order: terms.in_order,
            min_release: open.min_release,
            contingency: setup.contingency,
            wait_ms: setup.wait_ms,
            spread_us: terms.spread_us,
            dead_ms: terms.sender_wait_ms,
            source: 0,
            parities: 0,
            integrity: setup.integrity,
            address: setup.address,
            name: setup.name,
        })
    }
}

fn echo_of(report: &Report) -> Result<FrmEcho, FrmLinkError> {
    let State::Levels {
        received,
        delivered,
        gaps,
    } = &report.state
    else {
        return Err(FrmLinkError::Unsaid("what an object lacks"));
    };
    let serial = |number: u64| Serial(number as u32);
    Ok(FrmEcho {
        member: report.member,
        sync: serial(report.sync.into()),
        stamp: report.stamp,
        rseq: serial(*received),
        dseq: serial(*delivered),
        buffers: report.buffer,
        rate: 0,
        loss: report.loss,
        gaps: gaps
            .iter()
            .map(|(from, to)| (serial(from), serial(to)))
            .collect(),
    })
}
