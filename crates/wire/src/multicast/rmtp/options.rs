use bytes::{Buf, Bytes};

use super::RmtpError;

/// An option of CONN or CACK: type (u16), length of the value (u16), value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RmtpOption {
    /// Which application.
    Application(Bytes),
    /// Name of the data, at most 256 octets.
    DataName(Bytes),
    /// Type of the data.
    DataType(Bytes),
    /// Range of the receivers' uniform back-off (RBOT), milliseconds.
    BackOff(u32),
    /// Size of the object that this is a part of, octets.
    Undivided(u64),
    /// Size of this part, octets.
    PartSize(u32),
    /// Number of this part, from 0.
    Part(u16),
    /// How the data are scrambled.
    Scramble(u16),
    /// Size before padding or scrambling, octets.
    TrueSize(u32),
    /// The receiver shall authenticate itself, with this nonce.
    AskIdentity([u8; 8]),
    /// Name of the receiver, at most 32 octets (CACK).
    Receiver(Bytes),
    /// The receiver's proof of identity (CACK).
    Identity(Bytes),
    /// Another type; those from 256 on belong to users.
    Other {
        /// The type.
        code: u16,
        /// The value.
        value: Bytes,
    },
}

/// Octets of a data name.
const DATA_NAME: usize = 256;
/// Octets of a receiver's name.
const RECEIVER_NAME: usize = 32;

impl RmtpOption {
    /// The type of the first option that users may define.
    pub const USER: u16 = 256;

    /// The type.
    pub fn code(&self) -> u16 {
        match self {
            RmtpOption::Application(_) => 0,
            RmtpOption::DataName(_) => 1,
            RmtpOption::DataType(_) => 2,
            RmtpOption::BackOff(_) => 3,
            RmtpOption::Undivided(_) => 16,
            RmtpOption::PartSize(_) => 17,
            RmtpOption::Part(_) => 18,
            RmtpOption::Scramble(_) => 32,
            RmtpOption::TrueSize(_) => 33,
            RmtpOption::AskIdentity(_) => 34,
            RmtpOption::Receiver(_) => 48,
            RmtpOption::Identity(_) => 49,
            RmtpOption::Other { code, .. } => *code,
        }
    }

    fn value(&self) -> Bytes {
        match self {
            RmtpOption::Application(value)
            | RmtpOption::DataName(value)
            | RmtpOption::DataType(value)
            | RmtpOption::Receiver(value)
            | RmtpOption::Identity(value)
            | RmtpOption::Other { value, .. } => value.clone(),
            RmtpOption::Undivided(it) => Bytes::copy_from_slice(&it.to_be_bytes()),
            RmtpOption::BackOff(it) | RmtpOption::PartSize(it) | RmtpOption::TrueSize(it) => {
                Bytes::copy_from_slice(&it.to_be_bytes())
            }
            RmtpOption::Part(it) | RmtpOption::Scramble(it) => {
                Bytes::copy_from_slice(&it.to_be_bytes())
            }
            RmtpOption::AskIdentity(nonce) => Bytes::copy_from_slice(nonce),
        }
    }

    pub(super) fn encoded_len(&self) -> usize {
        4 + self.value().len()
    }

    /// Appends it; its value has less than 2^16 octets, as the whole packet has.
    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        let value = self.value();
        out.extend_from_slice(&self.code().to_be_bytes());
        out.extend_from_slice(&(value.len() as u16).to_be_bytes());
        out.extend_from_slice(&value);
    }

    /// All options that `bytes` are.
    pub(super) fn decode_all(mut bytes: Bytes) -> Result<Vec<RmtpOption>, RmtpError> {
        let mut options = Vec::new();
        while !bytes.is_empty() {
            if bytes.len() < 4 {
                return Err(RmtpError::Option(0, bytes.len()));
            }
            let (code, len) = (bytes.get_u16(), usize::from(bytes.get_u16()));
            if len > bytes.len() {
                return Err(RmtpError::Option(code, len));
            }
            options.push(RmtpOption::new(code, bytes.split_to(len))?);
        }
        Ok(options)
    }

    /// The option of type `code` that `value` says.
    ///
    /// Errors: the type is known and its value has another length.
    pub fn new(code: u16, value: Bytes) -> Result<RmtpOption, RmtpError> {
        let wrong = RmtpError::Option(code, value.len());
        let eight = || <[u8; 8]>::try_from(&value[..]).map_err(|_| wrong);
        let four = || <[u8; 4]>::try_from(&value[..]).map_err(|_| wrong);
        let two = || <[u8; 2]>::try_from(&value[..]).map_err(|_| wrong);
        Ok(match code {
            1 if value.len() > DATA_NAME => return Err(wrong),
            48 if value.len() > RECEIVER_NAME => return Err(wrong),
            0 => RmtpOption::Application(value),
            1 => RmtpOption::DataName(value),
            2 => RmtpOption::DataType(value),
            3 => RmtpOption::BackOff(u32::from_be_bytes(four()?)),
            16 => RmtpOption::Undivided(u64::from_be_bytes(eight()?)),
            17 => RmtpOption::PartSize(u32::from_be_bytes(four()?)),
            18 => RmtpOption::Part(u16::from_be_bytes(two()?)),
            32 => RmtpOption::Scramble(u16::from_be_bytes(two()?)),
            33 => RmtpOption::TrueSize(u32::from_be_bytes(four()?)),
            34 => RmtpOption::AskIdentity(eight()?),
            48 => RmtpOption::Receiver(value),
            49 => RmtpOption::Identity(value),
            code => RmtpOption::Other { code, value },
        })
    }
}
