//! An agent answers what is asked of a table, and nothing else.

use layercast_core::{Span, Time};
use layercast_snmp::{Agent, Binding, LONGEST, Message, Oid, Operation, Table, Value, trap};
use proptest::prelude::*;

fn oid(text: &str) -> Oid {
    text.parse().unwrap()
}

fn table() -> Table {
    Table::from([
        (oid("1.3.6.1.2.1.1.1.0"), Value::Text(b"layercast".to_vec())),
        (oid("1.3.6.1.2.1.1.3.0"), Value::Ticks(4_294_967_295)),
        (oid("1.3.9.1.0"), Value::Gauge(3_000_000_000)),
        (oid("1.3.9.2.1.1"), Value::Counter(u64::MAX)),
        (oid("1.3.9.2.1.2"), Value::Integer(-129)),
        (oid("1.3.9.2.1.300"), Value::Oid(oid("1.3.6.1.4.1.8072"))),
    ])
}

fn asking(operation: Operation, names: &[&str]) -> Message {
    let bindings = names.iter().map(|name| Binding {
        name: oid(name),
        value: Value::Null,
    });
    Message {
        community: b"public".to_vec(),
        operation,
        request: 77,
        error: 0,
        index: 0,
        bindings: bindings.collect(),
    }
}

/// The answer to octets that came at a time.
fn reply(agent: &mut Agent, at_ms: u64, octets: &[u8], table: &Table) -> Option<Vec<u8>> {
    let request = agent.admit(Time::ZERO + Span::from_ms(at_ms), octets)?;
    agent.answer(request, table)
}

fn answer(request: &Message, table: &Table) -> Option<Message> {
    let answer = reply(&mut Agent::new("public"), 0, &request.encode(), table)?;
    assert!(answer.len() <= LONGEST);
    let message = Message::decode(&answer).unwrap();
    assert_eq!(
        (message.operation, message.request, &message.community[..]),
        (Operation::Response, request.request, &b"public"[..])
    );
    Some(message)
}

#[test]
fn values_are_found_by_name_and_absent_ones_say_so() {
    let names = ["1.3.6.1.2.1.1.1.0", "1.3.9.2.1.7", "1.3.5.1"];
    let found = answer(&asking(Operation::Get, &names), &table()).unwrap();
    let values: Vec<&Value> = found.bindings.iter().map(|it| &it.value).collect();
    let text = Value::Text(b"layercast".to_vec());
    assert_eq!(
        values,
        [&text, &Value::NoSuchInstance, &Value::NoSuchObject]
    );
    assert_eq!((found.error, found.index), (0, 0));
}

#[test]
fn a_walk_sees_everything_once_in_order() {
    let table = table();
    let mut seen = Vec::new();
    let mut at = "1.3".to_owned();
    loop {
        let next = answer(&asking(Operation::GetNext, &[&at]), &table).unwrap();
        let [binding] = &next.bindings[..] else {
            panic!("{next:?}");
        };
        if binding.value == Value::EndOfMib {
            assert_eq!(binding.name, oid(&at));
            break;
        }
        at = binding.name.to_string();
        seen.push((binding.name.clone(), binding.value.clone()));
    }
    assert_eq!(Table::from_iter(seen.clone()), table);
    assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0));

    let bulk = Message {
        error: 1,
        index: 4,
        ..asking(Operation::GetBulk, &["1.3.6.1.2.1.1.1", "1.3.9.2.1.1"])
    };
    let found = answer(&bulk, &table).unwrap().bindings;
    assert_eq!(found[0].name, oid("1.3.6.1.2.1.1.1.0"));
    assert_eq!(found[1].value, Value::Integer(-129));
    assert_eq!(found[2].name, oid("1.3.9.2.1.300"));
    assert_eq!((found.len(), &found[3].value), (4, &Value::EndOfMib));
}

#[test]
fn what_is_too_much_for_a_packet_is_cut_or_refused() {
    let long = |n: u32| (oid("1.3.9").with([n, 0]), Value::Text(vec![b'x'; 200]));
    let table: Table = (1..=40).map(long).collect();
    let bulk = Message {
        index: i32::MAX,
        ..asking(Operation::GetBulk, &["1.3"])
    };
    let found = answer(&bulk, &table).unwrap().bindings;
    assert_eq!(found.len(), 6, "{found:?}");
    // Names that are asked for once are cut as well.
    let once = Message {
        error: 40,
        ..asking(Operation::GetBulk, &["1.3"; 40])
    };
    assert_eq!(answer(&once, &table).unwrap().bindings.len(), 6);
    // As many small ones as a packet holds: less than another is left.
    let small = |n: u32| (oid("1.3.9").with([1, n]), Value::Integer(1));
    let table: Table = (1..=300).map(small).collect();
    let request = bulk.encode();
    let whole = reply(&mut Agent::new("public"), 0, &request, &table).unwrap();
    assert!(
        (LONGEST - 20..=LONGEST).contains(&whole.len()),
        "{}",
        whole.len()
    );
    let table: Table = (1..=40).map(long).collect();
    let names: Vec<String> = (1..=10).map(|n| format!("1.3.9.{n}.0")).collect();
    let names: Vec<&str> = names.iter().map(|it| &**it).collect();
    let refused = answer(&asking(Operation::Get, &names), &table).unwrap();
    assert_eq!((refused.error, refused.bindings.len()), (1, 0));
}

#[test]
fn nothing_is_written_and_strangers_hear_nothing() {
    let set = answer(&asking(Operation::Set, &["1.3.9.1.0"]), &table()).unwrap();
    assert_eq!((set.error, set.index), (17, 1));
    let mut agent = Agent::new("public");
    let mut ask = |community: &[u8], operation| {
        let message = Message {
            community: community.to_vec(),
            ..asking(operation, &["1.3.9.1.0"])
        };
        reply(&mut agent, 0, &message.encode(), &table())
    };
    for community in [
        &b""[..],
        b"Public",
        b"publi",
        b"publicc",
        b"public\0",
        &[0; 300],
    ] {
        assert_eq!(ask(community, Operation::Get), None, "{community:?}");
    }
    for operation in [Operation::Response, Operation::Trap, Operation::Report] {
        assert_eq!(
            ask(b"public", operation),
            None,
            "an agent sends no requests"
        );
    }
    assert!(ask(b"public", Operation::Get).is_some());
    let counts = agent.counts();
    assert_eq!(
        (counts.strangers, counts.malformed, counts.answered),
        (6, 3, 1)
    );
    // SNMPv1, and the beginning of a message.
    let request = asking(Operation::Get, &["1.3.9.1.0"]).encode();
    let mut old = request.clone();
    old[4] = 0;
    assert_eq!(reply(&mut agent, 0, &old, &table()), None);
    for end in 0..request.len() {
        assert_eq!(reply(&mut agent, 0, &request[..end], &table()), None);
    }
}

#[test]
fn a_flood_is_held_back_and_over_in_a_second() {
    let request = asking(Operation::GetNext, &["1.3"]).encode();
    let mut agent = Agent::new("public");
    let mut at = |ms| reply(&mut agent, ms, &request, &table());
    let answered = (0..3_000).filter(|_| at(10).is_some()).count();
    assert_eq!(answered, 2_000);
    assert!(at(999).is_none() && at(1_010).is_some());
    assert_eq!(agent.counts().held_back, 1_001);
}

#[test]
fn a_trap_begins_with_the_time_and_its_kind() {
    let about = Binding {
        name: oid("1.3.9.1.0"),
        value: Value::Gauge(1),
    };
    let trap = trap("public", 1, 500, oid("1.3.9.0.1"), [about.clone()]);
    let read = Message::decode(&trap.encode()).unwrap();
    assert_eq!(read.operation, Operation::Trap);
    assert_eq!(read.bindings[0].value, Value::Ticks(500));
    assert_eq!(read.bindings[1].name, oid("1.3.6.1.6.3.1.1.4.1.0"));
    assert_eq!(read.bindings[1].value, Value::Oid(oid("1.3.9.0.1")));
    assert_eq!(read.bindings[2], about);
}

fn any_oid() -> impl Strategy<Value = Oid> {
    let rest = prop::collection::vec(any::<u32>(), 0..20);
    (0..=2_u32, 0..=39_u32, rest)
        .prop_map(|(a, b, rest)| Oid::new([vec![a, b], rest].concat()).unwrap())
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i32>().prop_map(Value::Integer),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Value::Text),
        any_oid().prop_map(Value::Oid),
        any::<u32>().prop_map(Value::Gauge),
        any::<u32>().prop_map(Value::Ticks),
        any::<u64>().prop_map(Value::Counter),
        Just(Value::Null),
        Just(Value::NoSuchObject),
        Just(Value::NoSuchInstance),
        Just(Value::EndOfMib),
    ]
}

proptest! {
    #[test]
    fn messages_come_back(
        numbers in any::<[i32; 3]>(),
        bindings in prop::collection::vec((any_oid(), any_value()), 0..20),
    ) {
        let bindings = bindings.into_iter().map(|(name, value)| Binding { name, value });
        let message = Message {
            request: numbers[0],
            error: numbers[1],
            index: numbers[2],
            bindings: bindings.collect(),
            ..asking(Operation::GetBulk, &[])
        };
        prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn any_octets_are_answered_within_a_packet_or_not(octets in prop::collection::vec(any::<u8>(), 0..200), place in 0..60_usize) {
        let mut agent = Agent::new("public");
        reply(&mut agent, 0, &octets, &table());
        // A request of which a part is something else.
        let mut request = asking(Operation::GetBulk, &["1.3.6.1.2", "1.3.9"]).encode();
        let end = (place + octets.len()).min(request.len());
        if place < end {
            request[place..end].copy_from_slice(&octets[..end - place]);
        }
        let answer = reply(&mut agent, 0, &request, &table());
        prop_assert!(answer.is_none_or(|it| it.len() <= LONGEST));
    }
}
