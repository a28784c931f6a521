use super::{FLAGS, FrmLink, FrmLinkError};
use crate::multicast::frm::{FrmBody, FrmEcho, FrmFlags};
use crate::multicast::{
    Accept, Ask, Body, Content, Data, DataFlags, Eject, MAX_LIST, Needs, Open, Poll, Reason,
    Report, Spans, State, Symbol, Terms,
};

impl FrmLink {
    /// What the engine says instead.
    pub(super) fn heard(&mut self, body: FrmBody) -> Result<Body, FrmLinkError> {
        Ok(match body {
            FrmBody::Init(init) => Body::Open(Box::new(Open {
                stamp: init.stamp,
                packet_size: init.packet_size,
                min_release: init.min_release,
                terms: Terms {
                    content: Content::Levels,
                    in_order: init.in_order,
                    unasked: false,
                    goodbye: false,
                    spread_us: init.spread_us,
                    data_wait_ms: 0,
                    sender_wait_ms: init.dead_ms,
                    counters: 0,
                },
                object: None,
                proof: None,
            })),
            FrmBody::Reply(reply) => Body::Accept(Accept {
                incarnation: reply.incarnation,
                refuses: reply.refuses,
                buffer: reply.buffer,
                stamp: reply.stamp,
                ..Accept::alone(reply.member)
            }),
            FrmBody::Data(data) => {
                if data.code.is_some() {
                    return Err(FrmLinkError::Unsaid("a code"));
                }
                let number = self.number(data.seq)?;
                self.near = self.near.max(number);
                let flags = FLAGS.into_iter().filter(|it| data.flags.has(it.1));
                Body::Data(Data {
                    round: 0,
                    flags: DataFlags(flags.fold(0, |sum, it| sum | it.0.0)),
                    symbol: Symbol::Source(number),
                    payload: data.payload,
                })
            }
            FrmBody::Control(control) => {
                let upto = self.number(control.lseq)?;
                self.near = self.near.max(upto);
                let mut ejected = control.ejected;
                ejected.truncate(MAX_LIST);
                Body::Poll(Box::new(Poll {
                    sync: control.sync.0,
                    round: 0,
                    stamp: control.stamp,
                    upto,
                    sent: control.sent,
                    ask: Ask::Everyone,
                    spread_us: control.spread_us,
                    group: 0,
                    handshake: control.flags.has(FrmFlags::HANDSHAKE),
                    separate: false,
                    closing: control.flags.has(FrmFlags::CLOSE),
                    ejected,
                    heard: Needs::new(),
                }))
            }
            FrmBody::Echo(echo) => Body::Report(Box::new(self.report_of(&echo)?)),
            FrmBody::Leave { member, reason } => Body::Leave { member, reason },
            FrmBody::Eject {
                member,
                reason,
                mindseq,
            } => Body::Eject(Eject {
                member,
                reason,
                upto: self.number(mindseq)?,
            }),
            FrmBody::Release {
                reason: Reason::Normal,
            } => Body::Release { round: 0 },
            FrmBody::Release { reason } => Body::Abort { reason },
        })
    }

    fn report_of(&self, echo: &FrmEcho) -> Result<Report, FrmLinkError> {
        // Echoes are from 0 on: what a receiver lacks is never before the first.
        let gaps = echo
            .gaps
            .iter()
            .map(|&(from, to)| Ok((self.number(from)?, self.number(to)?)));
        let gaps = gaps.collect::<Result<Vec<_>, FrmLinkError>>()?;
        let state = State::Levels {
            received: self.number(echo.rseq)?,
            delivered: self.number(echo.dseq)?,
            gaps: Spans::of(gaps).0,
        };
        Ok(Report {
            sync: echo.sync.0,
            stamp: echo.stamp,
            loss: echo.loss,
            buffer: echo.buffers,
            ..Report::alone(echo.member, state)
        })
    }
}
