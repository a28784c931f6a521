use core::net::{IpAddr, SocketAddr};

use bytes::{Buf, Bytes};

use super::FrmError;
use crate::multicast::MemberId;

/// A communication begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrmInit {
    /// The sender's time, copied into the reply.
    pub stamp: u64,
    /// Octets of a data packet, at least 1 (S).
    pub packet_size: u16,
    /// Receivers discard packets that arrive out of order (go-back-N).
    pub in_order: bool,
    /// Least throughput at which buffers must be released, octets per second; 0: none (minrelthr).
    pub min_release: u64,
    /// Contingency factor of the poll timer in 1/256 (k); more than 256.
    pub contingency: u16,
    /// How long replies are collected, milliseconds.
    pub wait_ms: u32,
    /// Range of a uniform back-off of replies, microseconds; 0: immediately.
    pub spread_us: u32,
    /// The sender is considered lost after this much silence, milliseconds; 0: never.
    pub dead_ms: u32,
    /// Source packets of a block of the code; 0: no code.
    pub source: u16,
    /// Parities of a block.
    pub parities: u16,
    /// The members that must be present.
    pub integrity: FrmIntegrity,
    /// Where the sender takes replies.
    pub address: SocketAddr,
    /// Name of the sender, at most 255 octets.
    pub name: Bytes,
}

/// Conditions of group integrity (specs/fully-reliable-multicast.md 2.6), at most 255.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FrmIntegrity {
    /// One of them is enough.
    pub any: bool,
    /// The conditions; without one everything is right.
    pub conditions: Vec<FrmCondition>,
}

/// A condition of group integrity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrmCondition {
    /// This receiver is present.
    Key(MemberId),
    /// At least this number of members is present.
    Number(u32),
    /// All are present that replied.
    All,
    /// A share of those that replied is present, in percent, at most 100.
    Quorum(u8),
}

impl FrmInit {
    pub(super) fn encode_into(&self, out: &mut Vec<u8>) -> Result<(), FrmError> {
        out.extend_from_slice(&self.stamp.to_be_bytes());
        out.extend_from_slice(&self.packet_size.to_be_bytes());
        out.push(u8::from(self.in_order));
        out.extend_from_slice(&self.min_release.to_be_bytes());
        out.extend_from_slice(&self.contingency.to_be_bytes());
        for number in [self.wait_ms, self.spread_us, self.dead_ms] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&self.source.to_be_bytes());
        out.extend_from_slice(&self.parities.to_be_bytes());
        self.integrity.encode_into(out)?;
        match self.address.ip() {
            IpAddr::V4(ip) => {
                out.push(4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(6);
                out.extend_from_slice(&ip.octets());
            }
        }
        out.extend_from_slice(&self.address.port().to_be_bytes());
        out.push(count_of(self.name.len(), "name")?);
        out.extend_from_slice(&self.name);
        Ok(())
    }

    pub(super) fn decode(bytes: &mut Bytes) -> Result<FrmInit, FrmError> {
        let (stamp, packet_size) = (bytes.try_get_u64()?, bytes.try_get_u16()?);
        let in_order = yes_or_no(bytes, "order")?;
        let (min_release, contingency) = (bytes.try_get_u64()?, bytes.try_get_u16()?);
        let (wait_ms, spread_us) = (bytes.try_get_u32()?, bytes.try_get_u32()?);
        let dead_ms = bytes.try_get_u32()?;
        let (source, parities) = (bytes.try_get_u16()?, bytes.try_get_u16()?);
        if packet_size == 0 {
            return Err(FrmError::Value("packet size"));
        }
        if contingency <= 256 {
            return Err(FrmError::Value("contingency factor"));
        }
        let integrity = FrmIntegrity::decode(bytes)?;
        let ip = match bytes.try_get_u8()? {
            4 => IpAddr::from(bytes.try_get_u32()?.to_be_bytes()),
            6 => IpAddr::from(bytes.try_get_u128()?.to_be_bytes()),
            _ => return Err(FrmError::Value("address family")),
        };
        let address = SocketAddr::new(ip, bytes.try_get_u16()?);
        let len = usize::from(bytes.try_get_u8()?);
        if len > bytes.len() {
            return Err(FrmError::Short);
        }
        Ok(FrmInit {
            stamp,
            packet_size,
            in_order,
            min_release,
            contingency,
            wait_ms,
            spread_us,
            dead_ms,
            source,
            parities,
            integrity,
            address,
            name: bytes.split_to(len),
        })
    }
}

impl FrmIntegrity {
    fn encode_into(&self, out: &mut Vec<u8>) -> Result<(), FrmError> {
        out.push(u8::from(self.any));
        out.push(count_of(self.conditions.len(), "integrity")?);
        for condition in &self.conditions {
            match condition {
                FrmCondition::Key(member) => {
                    out.push(0);
                    out.extend_from_slice(&member.0.to_be_bytes());
                }
                FrmCondition::Number(number) => {
                    out.push(1);
                    out.extend_from_slice(&number.to_be_bytes());
                }
                FrmCondition::All => out.push(2),
                FrmCondition::Quorum(percent) => out.extend_from_slice(&[3, *percent]),
            }
        }
        Ok(())
    }

    fn decode(bytes: &mut Bytes) -> Result<FrmIntegrity, FrmError> {
        let any = yes_or_no(bytes, "integrity")?;
        let count = bytes.try_get_u8()?;
        let conditions = (0..count).map(|_| {
            Ok(match bytes.try_get_u8()? {
                0 => FrmCondition::Key(MemberId(bytes.try_get_u64()?)),
                1 => FrmCondition::Number(bytes.try_get_u32()?),
                2 => FrmCondition::All,
                3 => match bytes.try_get_u8()? {
                    percent @ 0..=100 => FrmCondition::Quorum(percent),
                    _ => return Err(FrmError::Value("quorum")),
                },
                _ => return Err(FrmError::Value("condition")),
            })
        });
        let conditions = conditions.collect::<Result<_, _>>()?;
        Ok(FrmIntegrity { any, conditions })
    }
}

fn yes_or_no(bytes: &mut Bytes, of: &'static str) -> Result<bool, FrmError> {
    match bytes.try_get_u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(FrmError::Value(of)),
    }
}

/// `len` in an octet.
fn count_of(len: usize, of: &'static str) -> Result<u8, FrmError> {
    u8::try_from(len).map_err(|_| FrmError::Many(len, of))
}
