use bytes::{Buf, Bytes};

use super::body::nack_head;
use super::list::LAST_SEQ;
use super::{
    RmtpBody, RmtpConnect, RmtpData, RmtpError, RmtpFlags, RmtpForm, RmtpList, RmtpOption,
};

impl RmtpBody {
    /// The body of type `kind`, which is one of `form`.
    pub(super) fn decode(
        kind: u16,
        form: RmtpForm,
        mut bytes: Bytes,
    ) -> Result<RmtpBody, RmtpError> {
        let there = bytes.len();
        let fits = |fits: bool| match fits {
            true => Ok(()),
            false => Err(RmtpError::Body { kind, there }),
        };
        Ok(match kind {
            1 => {
                fits(there >= form.data_head() - form.head())?;
                let seq = packet_number(bytes.get_u16())?;
                let flags = RmtpFlags(bytes.get_u8()).known_in(form);
                let round = bytes.get_u8();
                let part = if form.has_parts() { bytes.get_u16() } else { 0 };
                if bytes.is_empty() {
                    return Err(RmtpError::Empty);
                }
                let payload = bytes.into();
                RmtpBody::Data(RmtpData {
                    seq,
                    flags,
                    round,
                    part,
                    payload,
                })
            }
            2 => {
                fits(there == 1)?;
                let round = bytes.get_u8();
                RmtpBody::Ack { round }
            }
            3 => {
                fits(there >= nack_head(form))?;
                let (round, more) = (bytes.get_u8(), bytes.get_u8() & 0x80 != 0);
                if form == RmtpForm::Paper96 {
                    let (said, there) = (bytes.get_u16(), bytes.len() / 2);
                    if usize::from(said) != there {
                        return Err(RmtpError::Symbols { said, there });
                    }
                }
                let missing = RmtpList::decode(&bytes)?;
                if missing.is_empty() {
                    return Err(RmtpError::Nothing);
                }
                RmtpBody::Nack {
                    round,
                    more,
                    missing,
                }
            }
            5 => RmtpBody::Ready(RmtpList::decode(&bytes)?),
            8 => {
                fits(there >= 10)?;
                let version = bytes.get_u8();
                if version != form.version() {
                    return Err(RmtpError::Version(version));
                }
                bytes.advance(1);
                let (size, blocks, block) = (bytes.get_u32(), bytes.get_u16(), bytes.get_u16());
                let options = RmtpOption::decode_all(bytes)?;
                match RmtpConnect::new(size, block) {
                    Ok(connect) if connect.blocks == blocks => {
                        RmtpBody::Connect(RmtpConnect { options, ..connect })
                    }
                    _ => {
                        return Err(RmtpError::Sizes {
                            size,
                            blocks,
                            block,
                        });
                    }
                }
            }
            9 => {
                fits(there == 2 || there > 2 && form.is_v2())?;
                let response = bytes.get_u16();
                if response > 1 {
                    return Err(RmtpError::Response(response));
                }
                let options = RmtpOption::decode_all(bytes)?;
                RmtpBody::Accept {
                    yes: response == 0,
                    options,
                }
            }
            12 => {
                fits(there == 8)?;
                RmtpBody::Count {
                    start: packet_number(bytes.get_u16())?,
                    stop: packet_number(bytes.get_u16())?,
                    received: bytes.get_u32(),
                }
            }
            kind => {
                fits(there == 0)?;
                match kind {
                    4 => RmtpBody::Busy,
                    6 => RmtpBody::Abort,
                    7 => RmtpBody::Poll,
                    10 => RmtpBody::Release,
                    11 => RmtpBody::Released,
                    14 => RmtpBody::Suspend,
                    kind => return Err(RmtpError::Kind(kind)),
                }
            }
        })
    }
}

fn packet_number(seq: u16) -> Result<u16, RmtpError> {
    match (1..=LAST_SEQ).contains(&seq) {
        true => Ok(seq),
        false => Err(RmtpError::Seq(seq)),
    }
}
