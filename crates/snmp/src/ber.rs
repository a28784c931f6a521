//! The Basic Encoding Rules as far as SNMP uses them (RFC 3417 section 8): definite lengths, by `asn1-rs`.

use asn1_rs::{Any, Class, FromBer, Header, Length, Tag, ToDer};

use crate::message::Malformed;
use crate::oid::Oid;
use crate::{Binding, Value};

/// Tags of the application (RFC 2578 section 2).
const IP_ADDRESS: u32 = 0;
const COUNTER_32: u32 = 1;
const GAUGE_32: u32 = 2;
const TIME_TICKS: u32 = 3;
const OPAQUE: u32 = 4;
const COUNTER_64: u32 = 6;

/// Octets that are read from the front.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next value, whatever it is.
    pub fn any(&mut self) -> Result<Any<'a>, Malformed> {
        let (rest, any) = Any::from_ber(self.0).map_err(|_| Malformed)?;
        if !any.header.length().is_definite() {
            return Err(Malformed);
        }
        self.0 = rest;
        Ok(any)
    }

    /// The content of the next value, which has this class and tag.
    fn content(&mut self, class: Class, tag: Tag) -> Result<&'a [u8], Malformed> {
        let any = self.any()?;
        match (any.class(), any.tag()) {
            found if found == (class, tag) => Ok(any.data),
            _ => Err(Malformed),
        }
    }

    pub fn sequence(&mut self) -> Result<Reader<'a>, Malformed> {
        self.content(Class::Universal, Tag::Sequence).map(Reader)
    }

    pub fn integer(&mut self) -> Result<i64, Malformed> {
        signed(self.content(Class::Universal, Tag::Integer)?)
    }

    pub fn octets(&mut self) -> Result<&'a [u8], Malformed> {
        self.content(Class::Universal, Tag::OctetString)
    }

    pub fn binding(&mut self) -> Result<Binding, Malformed> {
        let mut pair = self.sequence()?;
        let name = oid(pair.content(Class::Universal, Tag::Oid)?)?;
        let value = value(&pair.any()?)?;
        Ok(Binding { name, value })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn signed(octets: &[u8]) -> Result<i64, Malformed> {
    let [first, ..] = *octets else {
        return Err(Malformed);
    };
    if octets.len() > 8 {
        return Err(Malformed);
    }
    let start = if first & 0x80 == 0 { 0 } else { -1 };
    Ok(octets
        .iter()
        .fold(start, |sum: i64, octet| sum << 8 | i64::from(*octet)))
}

fn unsigned(octets: &[u8]) -> Result<u64, Malformed> {
    let octets = octets.strip_prefix(&[0]).unwrap_or(octets);
    if octets.len() > 8 {
        return Err(Malformed);
    }
    Ok(octets
        .iter()
        .fold(0, |sum, octet| sum << 8 | u64::from(*octet)))
}

fn small(octets: &[u8]) -> Result<u32, Malformed> {
    u32::try_from(unsigned(octets)?).map_err(|_| Malformed)
}

fn oid(octets: &[u8]) -> Result<Oid, Malformed> {
    if octets == [0] {
        // 0.0, which nothing is named: `asn1-rs` makes one number of it.
        return Oid::new([0, 0]).map_err(|_| Malformed);
    }
    let oid = asn1_rs::Oid::new(octets.into());
    let numbers = oid.iter().ok_or(Malformed)?;
    let numbers = numbers.map(|it| u32::try_from(it).map_err(|_| Malformed));
    Oid::new(numbers.collect::<Result<Vec<u32>, _>>()?).map_err(|_| Malformed)
}

fn value(any: &Any<'_>) -> Result<Value, Malformed> {
    Ok(match (any.class(), any.tag()) {
        (Class::Universal, Tag::Null) => Value::Null,
        (Class::Universal, Tag::Integer) => {
            Value::Integer(i32::try_from(signed(any.data)?).map_err(|_| Malformed)?)
        }
        (Class::Universal, Tag::OctetString) => Value::Text(any.data.to_vec()),
        (Class::Universal, Tag::Oid) => Value::Oid(oid(any.data)?),
        (Class::Application, Tag(IP_ADDRESS | OPAQUE)) => Value::Text(any.data.to_vec()),
        (Class::Application, Tag(GAUGE_32)) => Value::Gauge(small(any.data)?),
        (Class::Application, Tag(TIME_TICKS)) => Value::Ticks(small(any.data)?),
        (Class::Application, Tag(COUNTER_32 | COUNTER_64)) => Value::Counter(unsigned(any.data)?),
        (Class::ContextSpecific, Tag(0)) => Value::NoSuchObject,
        (Class::ContextSpecific, Tag(1)) => Value::NoSuchInstance,
        (Class::ContextSpecific, Tag(2)) => Value::EndOfMib,
        _ => return Err(Malformed),
    })
}

/// Writes a value of this class and tag.
pub(crate) fn put(out: &mut Vec<u8>, class: Class, constructed: bool, tag: u32, content: &[u8]) {
    let header = Header::new(
        class,
        constructed,
        Tag(tag),
        Length::Definite(content.len()),
    );
    // A vector takes all octets, and no length of a message is beyond what can be written.
    let written = Any::new(header, content).write_der(out);
    debug_assert!(written.is_ok());
}

pub(crate) fn put_sequence(out: &mut Vec<u8>, content: &[u8]) {
    put(out, Class::Universal, true, Tag::Sequence.0, content);
}

pub(crate) fn put_integer(out: &mut Vec<u8>, number: i64) {
    let octets = number.to_be_bytes();
    let spare = |pair: &[u8]| matches!(pair, [0, 0..=0x7f] | [0xff, 0x80..=0xff]);
    let skip = octets.windows(2).take_while(|pair| spare(pair)).count();
    put(
        out,
        Class::Universal,
        false,
        Tag::Integer.0,
        &octets[skip..],
    );
}

pub(crate) fn put_octets(out: &mut Vec<u8>, octets: &[u8]) {
    put(out, Class::Universal, false, Tag::OctetString.0, octets);
}

fn put_unsigned(out: &mut Vec<u8>, tag: u32, number: u64) {
    let octets: Vec<u8> = std::iter::once(0).chain(number.to_be_bytes()).collect();
    let spare = |pair: &[u8]| matches!(pair, [0, 0..=0x7f]);
    let skip = octets.windows(2).take_while(|pair| spare(pair)).count();
    put(out, Class::Application, false, tag, &octets[skip..]);
}

fn put_oid(out: &mut Vec<u8>, oid: &Oid) {
    let mut content = Vec::new();
    let numbers = oid.numbers();
    if let [first, second, rest @ ..] = numbers {
        for number in std::iter::once(first * 40 + second).chain(rest.iter().copied()) {
            let groups = (0..5).rev().map(|n| (number >> (7 * n)) as u8 & 0x7f);
            let skip = groups.clone().take(4).take_while(|it| *it == 0).count();
            let last = 4 - skip;
            let groups = groups.skip(skip).enumerate();
            content.extend(groups.map(|(n, it)| if n < last { it | 0x80 } else { it }));
        }
    }
    put(out, Class::Universal, false, Tag::Oid.0, &content);
}

/// Writes a name with its value.
pub(crate) fn put_binding(out: &mut Vec<u8>, name: &Oid, value: &Value) {
    let mut pair = Vec::new();
    put_oid(&mut pair, name);
    let absent = |pair: &mut Vec<u8>, tag| put(pair, Class::ContextSpecific, false, tag, &[]);
    match value {
        Value::Integer(number) => put_integer(&mut pair, i64::from(*number)),
        Value::Text(octets) => put_octets(&mut pair, octets),
        Value::Oid(oid) => put_oid(&mut pair, oid),
        Value::Gauge(number) => put_unsigned(&mut pair, GAUGE_32, u64::from(*number)),
        Value::Ticks(number) => put_unsigned(&mut pair, TIME_TICKS, u64::from(*number)),
        Value::Counter(number) => put_unsigned(&mut pair, COUNTER_64, *number),
        Value::Null => put(&mut pair, Class::Universal, false, Tag::Null.0, &[]),
        Value::NoSuchObject => absent(&mut pair, 0),
        Value::NoSuchInstance => absent(&mut pair, 1),
        Value::EndOfMib => absent(&mut pair, 2),
    }
    put_sequence(out, &pair);
}
