use bytes::Bytes;

use super::connect::connect_of;
use super::{FLAGS, RmtpLink, RmtpLinkError};
use crate::Payload;
use crate::multicast::rmtp::{RmtpBody, RmtpData, RmtpFlags, RmtpList, RmtpOption};
use crate::multicast::{Body, Data, DataFlags, Packet, Report, Spans, State, Symbol};

impl RmtpLink {
    /// What RMTP says instead.
    pub(super) fn body_of(&mut self, packet: &Packet) -> Result<RmtpBody, RmtpLinkError> {
        Ok(match &packet.body {
            Body::Open(open) => {
                let connect = connect_of(open)?;
                self.sizes = Some(connect.clone());
                RmtpBody::Connect(connect)
            }
            Body::Accept(accept) => RmtpBody::Accept {
                yes: accept.refuses.is_none(),
                options: vec![RmtpOption::Receiver(Bytes::copy_from_slice(
                    &accept.member.0.to_be_bytes(),
                ))],
            },
            Body::Data(data) => RmtpBody::Data(self.data_of(data)?),
            Body::Poll(poll) => {
                self.polled = Some((round_of(poll.round)?, poll.separate));
                RmtpBody::Poll
            }
            Body::Report(report) => self.answer_of(report)?,
            Body::Count(count) => RmtpBody::Count {
                start: seq_of(count.start)?,
                stop: seq_of(count.stop)?,
                received: count.received,
            },
            Body::Release { .. } => RmtpBody::Release,
            Body::Released { .. } => RmtpBody::Released,
            Body::Suspend { .. } => RmtpBody::Suspend,
            Body::Eject(_) if !self.form.is_v2() => return Err(RmtpLinkError::Unsaid("expulsion")),
            Body::Eject(_) | Body::Leave { .. } | Body::Abort { .. } => RmtpBody::Abort,
        })
    }

    fn data_of(&mut self, data: &Data) -> Result<RmtpData, RmtpLinkError> {
        let round = round_of(data.round)?;
        let sizes = self.sizes.as_ref().ok_or(RmtpLinkError::Stranger)?;
        let block = usize::from(sizes.block);
        self.round = round;
        if data.flags.has(DataFlags::START) {
            self.counting = round;
        }
        let flags = FLAGS.into_iter().filter(|it| data.flags.has(it.0));
        Ok(RmtpData {
            seq: seq_of(data.symbol)?,
            flags: RmtpFlags(flags.fold(0, |sum, it| sum | it.1.0)),
            round,
            part: 0,
            payload: match data.payload.len() {
                len if len == block => data.payload.clone(),
                len if len > block => return Err(RmtpLinkError::Beyond),
                _ => padded(&data.payload, block),
            },
        })
    }

    fn answer_of(&self, report: &Report) -> Result<RmtpBody, RmtpLinkError> {
        let (round, more) = (round_of(report.round)?, report.more);
        Ok(match &report.state {
            State::Complete { .. } => RmtpBody::Ack { round },
            State::Missing(spans) => RmtpBody::Nack {
                round,
                more,
                missing: list_of(spans)?,
            },
            State::Corrupt => {
                let sizes = self.sizes.as_ref().ok_or(RmtpLinkError::Stranger)?;
                RmtpBody::Nack {
                    round,
                    more: false,
                    missing: RmtpList::of([(1, sizes.blocks)])?,
                }
            }
            State::Busy => RmtpBody::Busy,
            State::Ready(spans) => RmtpBody::Ready(list_of(spans)?),
            State::Levels { .. } => return Err(RmtpLinkError::Unsaid("levels")),
            State::Need(_) => return Err(RmtpLinkError::Unsaid("what blocks lack")),
        })
    }
}

fn list_of(spans: &Spans) -> Result<RmtpList, RmtpLinkError> {
    let number = |n: u64| u16::try_from(n).map_err(|_| RmtpLinkError::Beyond);
    let ranges = spans
        .iter()
        .map(|(from, to)| Ok((number(from + 1)?, number(to)?)));
    Ok(RmtpList::of(
        ranges.collect::<Result<Vec<_>, RmtpLinkError>>()?,
    )?)
}

fn round_of(round: u16) -> Result<u8, RmtpLinkError> {
    u8::try_from(round).map_err(|_| RmtpLinkError::Unsaid("a pass number above 255"))
}

fn seq_of(symbol: Symbol) -> Result<u16, RmtpLinkError> {
    match symbol {
        Symbol::Source(number) => u16::try_from(number + 1).map_err(|_| RmtpLinkError::Beyond),
        Symbol::Parity { .. } => Err(RmtpLinkError::Unsaid("a parity")),
    }
}

/// A block with zeros behind.
fn padded(payload: &Payload, block: usize) -> Payload {
    if let Payload::Zeros(_) = payload {
        return Payload::Zeros(block as u32);
    }
    let mut bytes = Vec::with_capacity(block);
    payload.append_to(&mut bytes);
    bytes.resize(block, 0);
    Payload::Bytes(bytes.into())
}
