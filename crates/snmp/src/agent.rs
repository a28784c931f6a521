//! The agent: responses to requests (RFC 3416 section 4.2).

use std::ops::Bound;

use layercast_core::{Span, Time};
use serde::Serialize;

use crate::message::{Binding, Message, Operation};
use crate::{Table, Value};

/// Octets of an answer at most: one packet of an Ethernet, so that a request with a forged source address causes one packet.
pub const LONGEST: usize = 1_472;
/// Octets that the lengths of a message, its PDU and its list take more than those of an empty one.
const LENGTHS: usize = 3 * 2;
/// Requests that are answered in a second.
const A_SECOND: u32 = 2_000;
/// Octets of a community at most.
pub const MOST_COMMUNITY: usize = 255;

/// Errors of an answer (RFC 3416 section 3).
const TOO_BIG: i32 = 1;
const NOT_WRITABLE: i32 = 17;

/// What an agent has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct AgentCounts {
    /// Requests that were answered.
    pub answered: u64,
    /// Octets that were no request.
    pub malformed: u64,
    /// Requests with another community.
    pub strangers: u64,
    /// Requests above the rate that is answered.
    pub held_back: u64,
}

/// Answers requests about a table; nothing can be written.
#[derive(Debug)]
pub struct Agent {
    community: Vec<u8>,
    /// The running second, and the requests in it.
    second: (Time, u32),
    counts: AgentCounts,
}

impl Agent {
    /// An agent that answers requests with this community.
    pub fn new(community: &str) -> Agent {
        Agent {
            community: community.as_bytes().to_vec(),
            second: (Time::ZERO, 0),
            counts: AgentCounts::default(),
        }
    }

    /// What was done.
    pub fn counts(&self) -> AgentCounts {
        self.counts
    }

    /// The request in octets that came at `now`; `None`: it is to have no answer.
    pub fn admit(&mut self, now: Time, request: &[u8]) -> Option<Message> {
        if now >= self.second.0.saturating_add(Span::from_secs(1)) {
            self.second = (now, 0);
        }
        if self.second.1 >= A_SECOND {
            self.counts.held_back += 1;
            return None;
        }
        self.second.1 += 1;
        let Ok(request) = Message::decode(request) else {
            self.counts.malformed += 1;
            return None;
        };
        if !self.knows(&request.community) {
            self.counts.strangers += 1;
            return None;
        }
        if !request.operation.is_request() {
            self.counts.malformed += 1;
            return None;
        }
        Some(request)
    }

    /// The answer to an admitted request, about what is in `table`.
    pub fn answer(&mut self, request: Message, table: &Table) -> Option<Vec<u8>> {
        let response = respond(request, table)?;
        self.counts.answered += 1;
        Some(response)
    }

    /// Whether the community is right; how long this takes does not say how much of it is.
    fn knows(&self, community: &[u8]) -> bool {
        let (own, other) = (&self.community, community);
        let octet = |of: &[u8], n: usize| of.get(n).copied().unwrap_or_default();
        let differ =
            (0..MOST_COMMUNITY).fold(0, |differ, n| differ | octet(own, n) ^ octet(other, n));
        differ == 0 && own.len() == other.len() && other.len() <= MOST_COMMUNITY
    }
}

fn respond(request: Message, table: &Table) -> Option<Vec<u8>> {
    let response = |error, index, bindings| Message {
        operation: Operation::Response,
        error,
        index,
        bindings,
        ..request.clone()
    };
    let asked = &request.bindings;
    let found: Vec<Binding> = match request.operation {
        Operation::Get => asked.iter().map(|it| get(table, it)).collect(),
        Operation::GetNext => asked.iter().map(|it| next(table, it)).collect(),
        Operation::GetBulk => return Some(bulk(&request, table, response)),
        Operation::Set => {
            return Some(response(NOT_WRITABLE, 1, asked.clone()).encode());
        }
        Operation::Response | Operation::Inform | Operation::Trap | Operation::Report => {
            return None;
        }
    };
    let whole = response(0, 0, found).encode();
    match whole.len() <= LONGEST {
        true => Some(whole),
        false => Some(response(TOO_BIG, 0, Vec::new()).encode()),
    }
}

fn get(table: &Table, asked: &Binding) -> Binding {
    let absent = || {
        // Another instance of the same variable has all numbers but the last.
        let numbers = asked.name.numbers();
        let above = &numbers[..numbers.len() - 1];
        let next = table.range(&asked.name..).next();
        let before = table.range(..&asked.name).next_back();
        let near = next.into_iter().chain(before);
        match near
            .into_iter()
            .any(|(name, _)| name.numbers().starts_with(above))
        {
            true => Value::NoSuchInstance,
            false => Value::NoSuchObject,
        }
    };
    let value = table.get(&asked.name).cloned().unwrap_or_else(absent);
    Binding {
        name: asked.name.clone(),
        value,
    }
}

fn next(table: &Table, asked: &Binding) -> Binding {
    let behind = (Bound::Excluded(&asked.name), Bound::Unbounded);
    match table.range::<crate::Oid, _>(behind).next() {
        Some((name, value)) => Binding {
            name: name.clone(),
            value: value.clone(),
        },
        None => Binding {
            name: asked.name.clone(),
            value: Value::EndOfMib,
        },
    }
}

/// As many as there is room for (RFC 3416 section 4.2.3).
fn bulk(
    request: &Message,
    table: &Table,
    response: impl Fn(i32, i32, Vec<Binding>) -> Message,
) -> Vec<u8> {
    let once = usize::try_from(request.error).unwrap_or(0);
    let once = once.min(request.bindings.len());
    let (single, repeated) = request.bindings.split_at(once);
    let successors = |of: &[Binding]| -> Vec<Binding> {
        of.iter().map(|binding| next(table, binding)).collect()
    };
    let empty = response(0, 0, Vec::new()).encode().len();
    let mut room = LONGEST.saturating_sub(empty + LENGTHS);
    let mut found = Vec::new();
    // Whether there was room for all.
    let mut add = |row: &[Binding]| {
        row.iter().all(|binding| {
            let left = room.checked_sub(binding.size());
            if let Some(left) = left {
                room = left;
                found.push(binding.clone());
            }
            left.is_some()
        })
    };
    let mut goes_on = add(&successors(single)) && !repeated.is_empty();
    let mut rows = 0..usize::try_from(request.index).unwrap_or(0);
    let mut row = repeated.to_vec();
    while goes_on && rows.next().is_some() {
        row = successors(&row);
        goes_on = add(&row) && row.iter().any(|it| it.value != Value::EndOfMib);
    }
    response(0, 0, found).encode()
}
