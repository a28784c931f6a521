//! Messages of SNMPv2c (RFC 1901 section 3, RFC 3416 section 3).

use asn1_rs::Class;
use thiserror::Error;

use crate::Value;
use crate::ber::{Reader, put, put_binding, put_integer, put_octets, put_sequence};
use crate::oid::Oid;

/// `version-2c`.
pub(crate) const VERSION: i64 = 1;
/// Variables of a message at most.
const MOST: usize = 1_024;

/// Octets that are no message of SNMPv2c.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("no message of SNMPv2c")]
pub struct Malformed;

/// What a message asks for, or says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// The values of these names.
    Get = 0,
    /// The successor of each of these names.
    GetNext = 1,
    /// An answer.
    Response = 2,
    /// These values are to be written.
    Set = 3,
    /// Several successors of each of these names.
    GetBulk = 5,
    /// Something happened; the receiver confirms it.
    Inform = 6,
    /// Something happened.
    Trap = 7,
    /// Internal to agents.
    Report = 8,
}

/// A name and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The variable.
    pub name: Oid,
    /// What it is.
    pub value: Value,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// It serves as a password.
    pub community: Vec<u8>,
    /// What it asks for.
    pub operation: Operation,
    /// Numbers the question; the answer has the same.
    pub request: i32,
    /// What was wrong; of a [`Operation::GetBulk`] names that have one successor each.
    pub error: i32,
    /// With which variable; of a [`Operation::GetBulk`] successors of each other name.
    pub index: i32,
    /// The variables.
    pub bindings: Vec<Binding>,
}

impl Operation {
    /// Whether an agent answers it.
    pub fn is_request(self) -> bool {
        matches!(
            self,
            Operation::Get | Operation::GetNext | Operation::GetBulk | Operation::Set
        )
    }

    fn of(tag: u32) -> Result<Operation, Malformed> {
        Ok(match tag {
            0 => Operation::Get,
            1 => Operation::GetNext,
            2 => Operation::Response,
            3 => Operation::Set,
            5 => Operation::GetBulk,
            6 => Operation::Inform,
            7 => Operation::Trap,
            8 => Operation::Report,
            _ => return Err(Malformed),
        })
    }
}

impl Binding {
    /// Octets that it takes in a message.
    pub(crate) fn size(&self) -> usize {
        let mut encoded = Vec::new();
        put_binding(&mut encoded, &self.name, &self.value);
        encoded.len()
    }
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// The octets are none, or one of another version.
    pub fn decode(octets: &[u8]) -> Result<Message, Malformed> {
        let mut message = Reader(octets).sequence()?;
        if message.integer()? != VERSION {
            return Err(Malformed);
        }
        let community = message.octets()?.to_vec();
        let pdu = message.any()?;
        if pdu.class() != Class::ContextSpecific {
            return Err(Malformed);
        }
        let operation = Operation::of(pdu.tag().0)?;
        let mut pdu = Reader(pdu.data);
        let mut number = || i32::try_from(pdu.integer()?).map_err(|_| Malformed);
        let (request, error, index) = (number()?, number()?, number()?);
        let mut list = pdu.sequence()?;
        let mut bindings = Vec::new();
        while !list.is_empty() {
            if bindings.len() >= MOST {
                return Err(Malformed);
            }
            bindings.push(list.binding()?);
        }
        Ok(Message {
            community,
            operation,
            request,
            error,
            index,
            bindings,
        })
    }

    /// The message as octets.
    pub fn encode(&self) -> Vec<u8> {
        let mut list = Vec::new();
        for binding in &self.bindings {
            put_binding(&mut list, &binding.name, &binding.value);
        }
        let mut pdu = Vec::new();
        for number in [self.request, self.error, self.index] {
            put_integer(&mut pdu, i64::from(number));
        }
        put_sequence(&mut pdu, &list);
        let mut message = Vec::new();
        put_integer(&mut message, VERSION);
        put_octets(&mut message, &self.community);
        let tag = self.operation as u32;
        put(&mut message, Class::ContextSpecific, true, tag, &pdu);
        let mut out = Vec::new();
        put_sequence(&mut out, &message);
        out
    }
}

/// That something happened, `uptime` hundredths of a second after the agent began: its kind, and what it is about (RFC 3416 section 4.2.6).
pub fn trap(
    community: &str,
    request: i32,
    uptime: u32,
    kind: Oid,
    about: impl IntoIterator<Item = Binding>,
) -> Message {
    let name = |numbers: &[u32]| Oid::new(numbers).unwrap_or_default();
    let first = [
        Binding {
            name: name(&[1, 3, 6, 1, 2, 1, 1, 3, 0]),
            value: Value::Ticks(uptime),
        },
        Binding {
            name: name(&[1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0]),
            value: Value::Oid(kind),
        },
    ];
    Message {
        community: community.as_bytes().to_vec(),
        operation: Operation::Trap,
        request,
        error: 0,
        index: 0,
        bindings: first.into_iter().chain(about).collect(),
    }
}
