//! A read-only SNMPv2c agent (RFC 1901, 3416) without sockets: requests in, responses out, and traps.
//!
//! ```
//! use layercast_core::Time;
//! use layercast_snmp::{Agent, Oid, Table, Value};
//!
//! let name: Oid = "1.3.6.1.2.1.1.1.0".parse().unwrap();
//! let table = Table::from([(name, Value::Text("a switch".into()))]);
//! let mut agent = Agent::new("public");
//! // snmpget -v2c -c public ... 1.3.6.1.2.1.1.1.0
//! let request = b"\x30\x26\x02\x01\x01\x04\x06public\xa0\x19\x02\x01\x07\x02\x01\x00\x02\x01\x00\x30\x0e\x30\x0c\x06\x08\x2b\x06\x01\x02\x01\x01\x01\x00\x05\x00";
//! let request = agent.admit(Time::ZERO, request).unwrap();
//! let response = agent.answer(request, &table).unwrap();
//! assert!(response.ends_with(b"\x04\x08a switch"));
//! ```

mod agent;
mod ber;
mod message;
mod oid;

pub use agent::{Agent, AgentCounts, LONGEST, MOST_COMMUNITY};
pub use message::{Binding, Malformed, Message, Operation, trap};
pub use oid::{Oid, OidError};

/// What an agent shows, in the order in which it is walked.
pub type Table = std::collections::BTreeMap<Oid, Value>;

/// A value of a variable (RFC 3416 section 2.5, RFC 2578 section 7.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A signed number.
    Integer(i32),
    /// Octets; text in UTF-8.
    Text(Vec<u8>),
    /// The name of something.
    Oid(Oid),
    /// A number that goes up and down.
    Gauge(u32),
    /// Hundredths of a second.
    Ticks(u32),
    /// A number that only increases.
    Counter(u64),
    /// Nothing, as in requests.
    Null,
    /// There is no such variable.
    NoSuchObject,
    /// The variable has no such instance.
    NoSuchInstance,
    /// Nothing comes after this name.
    EndOfMib,
}
