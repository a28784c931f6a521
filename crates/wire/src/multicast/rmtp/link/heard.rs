use super::connect::open_of;
use super::{FLAGS, RmtpLink, RmtpLinkError};
use crate::multicast::rmtp::{RmtpBody, RmtpData, RmtpList, RmtpOption};
use crate::multicast::{
    Accept, Ask, Body, Count, Data, DataFlags, MAX_LIST, MemberId, Needs, Poll, Reason, Report,
    Spans, State, Symbol,
};

impl RmtpLink {
    pub(super) fn heard_by_server(
        &self,
        member: MemberId,
        body: RmtpBody,
    ) -> Result<Vec<Body>, RmtpLinkError> {
        let one = |round: u8, state| vec![report(member, round, false, state)];
        Ok(match body {
            RmtpBody::Accept { yes, options } => vec![Body::Accept(Accept {
                refuses: (!yes).then_some(Reason::Unsupported),
                ..Accept::alone(options.iter().find_map(named).unwrap_or(member))
            })],
            RmtpBody::Ack { round } => one(round, State::Complete { receipt: [0; 16] }),
            RmtpBody::Nack {
                round,
                more,
                missing,
            } => {
                // POLL does not name its pass: a member that received nothing of this pass answers for the
                // previous one.
                let polled = self.polled.map_or(0, |(polled, _)| polled);
                self.missing(member, round.max(polled), more, &missing)?
            }
            RmtpBody::Busy => one(self.round, State::Busy),
            RmtpBody::Ready(missing) => match self.polled {
                // A member that was busy answers POLL with its losses until data arrive: it is polled
                // individually, so the poll asks for them.
                Some((round, true)) => self.missing(member, round, false, &missing)?,
                // The first of them are enough for now.
                _ => one(
                    self.round,
                    State::Ready(self.spans_of(&missing)?.swap_remove(0)),
                ),
            },
            RmtpBody::Count {
                start,
                stop,
                received,
            } => vec![Body::Count(Count {
                member,
                round: self.counting.into(),
                start: symbol(start),
                stop: symbol(stop),
                received,
            })],
            RmtpBody::Released => vec![Body::Released { member }],
            RmtpBody::Abort => vec![Body::Leave {
                member,
                reason: Reason::User,
            }],
            _ => return Err(RmtpLinkError::Stranger),
        })
    }

    pub(super) fn heard_by_receiver(
        &mut self,
        member: MemberId,
        body: RmtpBody,
    ) -> Result<Body, RmtpLinkError> {
        Ok(match body {
            RmtpBody::Connect(connect) => {
                let open = open_of(&connect);
                self.sizes.get_or_insert(connect);
                Body::Open(Box::new(open))
            }
            RmtpBody::Data(data) => Body::Data(self.data_from(data)?),
            RmtpBody::Poll => Body::Poll(Box::new(Poll {
                sync: 0,
                round: self.round.into(),
                stamp: 0,
                upto: 0,
                sent: 0,
                ask: Ask::Everyone,
                spread_us: 0,
                group: 0,
                handshake: true,
                separate: false,
                closing: false,
                ejected: Vec::new(),
                heard: Needs::new(),
            })),
            RmtpBody::Release => Body::Release {
                round: self.round.into(),
            },
            RmtpBody::Suspend => Body::Suspend { member },
            RmtpBody::Abort => Body::Abort {
                reason: Reason::User,
            },
            _ => return Err(RmtpLinkError::Stranger),
        })
    }

    fn data_from(&mut self, data: RmtpData) -> Result<Data, RmtpLinkError> {
        let sizes = self.sizes.as_ref().ok_or(RmtpLinkError::Stranger)?;
        let block = usize::from(sizes.block);
        if data.payload.len() != block || data.seq > sizes.blocks {
            return Err(RmtpLinkError::Beyond);
        }
        let before = usize::from(data.seq - 1) * block;
        self.round = data.round;
        let again = if data.round > 0 {
            DataFlags::AGAIN.0
        } else {
            0
        };
        let flags = FLAGS.into_iter().filter(|it| data.flags.has(it.1));
        Ok(Data {
            round: data.round.into(),
            flags: DataFlags(flags.fold(again, |sum, it| sum | it.0.0)),
            symbol: symbol(data.seq),
            payload: data.payload.slice(0..sizes.size as usize - before),
        })
    }

    fn missing(
        &self,
        member: MemberId,
        round: u8,
        more: bool,
        list: &RmtpList,
    ) -> Result<Vec<Body>, RmtpLinkError> {
        let lists = self.spans_of(list)?;
        let last = lists.len() - 1;
        let all = lists.into_iter().enumerate();
        let reports =
            all.map(|(n, it)| report(member, round, more || n < last, State::Missing(it)));
        Ok(reports.collect())
    }

    /// What a list of RMTP says, in lists of the engine: at least one.
    fn spans_of(&self, list: &RmtpList) -> Result<Vec<Spans>, RmtpLinkError> {
        let sizes = self.sizes.as_ref().ok_or(RmtpLinkError::Stranger)?;
        if list.highest() > sizes.blocks {
            return Err(RmtpLinkError::Beyond);
        }
        let ranges: Vec<_> = list
            .iter()
            .map(|(first, last)| (u64::from(first) - 1, u64::from(last)))
            .collect();
        let mut lists: Vec<_> = ranges
            .chunks(MAX_LIST)
            .map(|part| Spans::of(part.iter().copied()).0)
            .collect();
        if lists.is_empty() {
            lists.push(Spans::new());
        }
        Ok(lists)
    }
}

fn report(member: MemberId, round: u8, more: bool, state: State) -> Body {
    Body::Report(Box::new(Report {
        round: round.into(),
        more,
        ..Report::alone(member, state)
    }))
}

/// The member that a CACK names.
fn named(option: &RmtpOption) -> Option<MemberId> {
    match option {
        RmtpOption::Receiver(name) => {
            let name = <[u8; 8]>::try_from(&name[..]).ok()?;
            Some(MemberId(u64::from_be_bytes(name)))
        }
        _ => None,
    }
}

fn symbol(seq: u16) -> Symbol {
    Symbol::Source(u64::from(seq) - 1)
}
