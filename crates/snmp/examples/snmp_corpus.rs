//! Writes the seeds of the fuzz target `snmp`: `cargo run -p layercast-snmp --example snmp_corpus fuzz/corpus`.

use layercast_snmp::{Binding, Message, Oid, Operation, Value, trap};

#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

fn oid(text: &str) -> Oid {
    text.parse().unwrap_or_default()
}

fn main() -> std::io::Result<()> {
    let binding = |name: &str, value| Binding {
        name: oid(name),
        value,
    };
    let asking = |operation, error, index| Message {
        community: b"public".to_vec(),
        operation,
        request: 1_234,
        error,
        index,
        bindings: ["1.3.6.1.2.1.1.1.0", "1.3.9.2.1"]
            .map(|name| binding(name, Value::Null))
            .into(),
    };
    let about = [
        binding("1.3.9.1.0", Value::Counter(u64::MAX)),
        binding("1.3.9.2.0", Value::Integer(-1)),
    ];
    let messages = [
        ("get", asking(Operation::Get, 0, 0)),
        ("next", asking(Operation::GetNext, 0, 0)),
        ("bulk", asking(Operation::GetBulk, 1, 20)),
        ("set", asking(Operation::Set, 0, 0)),
        ("trap", trap("public", 1, 500, oid("1.3.9.0.1"), about)),
    ];
    seeds::write("snmp", messages.map(|(name, it)| (name, it.encode())))
}
