//! An SNMP agent: any request is answered within a packet or not at all, and what decodes comes back.

use layercast_core::Time;
use layercast_snmp::{Agent, LONGEST, Message, Table, Value};

/// A request.
pub fn snmp(data: &[u8]) {
    let name = |text: &str| text.parse().expect("a name");
    let table = Table::from([
        (name("1.3.6.1.2.1.1.1.0"), Value::Text(vec![b'x'; 400])),
        (name("1.3.9.1.0"), Value::Gauge(u32::MAX)),
        (name("1.3.9.2.1.1"), Value::Counter(u64::MAX)),
        (name("1.3.9.2.1.300"), Value::Integer(i32::MIN)),
    ]);
    let mut agent = Agent::new("public");
    let request = agent.admit(Time::ZERO, data);
    if let Some(answer) = request.and_then(|it| agent.answer(it, &table)) {
        assert!(answer.len() <= LONGEST);
        assert!(Message::decode(&answer).is_ok());
    }
    if let Ok(message) = Message::decode(data) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
}
