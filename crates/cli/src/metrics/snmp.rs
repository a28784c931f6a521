//! `--snmp ADDR`: an SNMP agent on a thread of its own, and traps when a receiver becomes red.

use std::collections::BTreeSet;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use layercast_core::{Span, Time};
use layercast_snmp::{Agent, Table, trap};
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::time::{Duration, MissedTickBehavior, interval, timeout};

use super::State;
use super::mib::{self, RED, Row};

/// What was asked of the node serves all requests of this time: a walk is many requests.
const FRESH: Duration = Duration::from_secs(1);
/// Time that a node has to answer.
const ANSWER: Duration = Duration::from_secs(3);
/// Octets of a request that are read.
const LONGEST_REQUEST: usize = 4_096;
/// Traps in a second at most; the others follow in the next ones.
const MOST_TRAPS: usize = 100;

/// An agent and where it sends traps.
pub struct Snmp {
    pub socket: UdpSocket,
    /// Sockets that are connected to managers.
    pub traps: Vec<UdpSocket>,
    pub community: String,
}

/// Answers until the process ends.
pub fn serve(snmp: Snmp, state: Arc<State>) -> io::Result<()> {
    for socket in snmp.traps.iter().chain([&snmp.socket]) {
        socket.set_nonblocking(true)?;
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let serving = move || runtime.block_on(run(snmp, &state));
    thread::Builder::new()
        .name("snmp".into())
        .spawn(serving)
        .map(drop)
}

/// What was asked of the node last.
#[derive(Default)]
struct Last {
    at: Option<Instant>,
    /// `None`: the node does not answer.
    values: Option<Value>,
    table: Table,
}

impl Last {
    /// Asks again if that is old.
    async fn refresh(&mut self, state: &State) {
        if self.at.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        let values = timeout(ANSWER, state.values()).await;
        self.values = values.ok().and_then(Result::ok);
        self.table = mib::table(self.values.as_ref(), state.command, uptime(state));
        self.at = Some(Instant::now());
    }
}

/// Hundredths of a second since the command began; they wrap after 497 days, as the format has it.
fn uptime(state: &State) -> u32 {
    (state.started.elapsed().as_millis() / 10) as u32
}

async fn run(snmp: Snmp, state: &State) {
    let Ok(socket) = tokio::net::UdpSocket::from_std(snmp.socket) else {
        return;
    };
    let mut agent = Agent::new(&snmp.community);
    let mut last = Last::default();
    let mut reported = BTreeSet::new();
    let mut request = 0;
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut buffer = [0; LONGEST_REQUEST];
    loop {
        tokio::select! {
            received = socket.recv_from(&mut buffer) => {
                // An error here is one of an earlier answer: its receiver is gone.
                let Ok((octets, from)) = received else { continue };
                let since = state.started.elapsed();
                let now = Time::ZERO + Span::from_ns(since.as_nanos() as u64);
                let Some(request) = agent.admit(now, &buffer[..octets]) else { continue };
                last.refresh(state).await;
                if let Some(answer) = agent.answer(request, &last.table) {
                    let _ = socket.send_to(&answer, from).await;
                }
            }
            _ = second.tick(), if !snmp.traps.is_empty() => {
                last.refresh(state).await;
                let Some(values) = &last.values else { continue };
                for row in turned(&mut reported, mib::rows(values)) {
                    request += 1;
                    let (kind, about) = mib::red(&row);
                    let trap = trap(&snmp.community, request, uptime(state), kind, about).encode();
                    for manager in &snmp.traps {
                        // A trap is sent once, whether somebody listens or not (RFC 3416 section 4.2.6).
                        let _ = manager.send(&trap);
                    }
                }
            }
        }
    }
}

/// The rows that are red and about which there was no trap since they became so.
fn turned<'a>(reported: &mut BTreeSet<[u8; 8]>, rows: Vec<Row<'a>>) -> Vec<Row<'a>> {
    let before = std::mem::take(reported);
    let mut turned = Vec::new();
    for row in rows.into_iter().filter(|row| row.zone() == RED) {
        if before.contains(&row.conn) {
            reported.insert(row.conn);
        } else if turned.len() < MOST_TRAPS {
            reported.insert(row.conn);
            turned.push(row);
        }
    }
    turned
}

#[cfg(test)]
mod tests {
    use layercast_core::{Judged, Quality, Zone};
    use layercast_snmp::{Binding, Message, Oid, Operation, Value as Variable};
    use serde_json::json;

    use super::*;
    use crate::line::{Line, ReceiverStatus};
    use crate::metrics::Metrics;

    #[test]
    fn a_manager_reads_what_a_receiver_gets_and_hears_that_it_is_red() {
        let metrics = Metrics::keeping("join");
        metrics.line(&Line::Receiver(Box::new(ReceiverStatus {
            quality: Some(Quality {
                zone: Zone::Red,
                delay_s: Some(Judged {
                    agreed: 0.173,
                    measured: 0.25,
                    zone: Zone::Red,
                }),
                ..Quality::default()
            }),
            ..ReceiverStatus::default()
        })));
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (own, manager, hearer) = (socket(), socket(), socket());
        for socket in [&manager, &hearer] {
            let patience = std::time::Duration::from_secs(20);
            socket.set_read_timeout(Some(patience)).unwrap();
        }
        manager.connect(own.local_addr().unwrap()).unwrap();
        let trapping = socket();
        trapping.connect(hearer.local_addr().unwrap()).unwrap();
        let snmp = Snmp {
            socket: own,
            traps: vec![trapping],
            community: "site".into(),
        };
        serve(snmp, Arc::clone(metrics.0.as_ref().unwrap())).unwrap();
        let read = |socket: &UdpSocket| {
            let mut buffer = [0; 1_500];
            let octets = socket.recv(&mut buffer).unwrap();
            Message::decode(&buffer[..octets]).unwrap()
        };
        // Zone, and delay: of this receiver, inbound.
        let name = |column| {
            let base: Oid = "1.3.6.1.4.1.8072.9999.9999.1996.1".parse().unwrap();
            base.with([2, 1, column, 0, 0, 0, 0, 0, 0, 0, 0, 1])
        };
        let (zone, delay) = (Variable::Integer(RED), Variable::Gauge(250_000));
        let asked = [5, 7].map(|column| Binding {
            name: name(column),
            value: Variable::Null,
        });
        let request = Message {
            community: b"site".to_vec(),
            operation: Operation::Get,
            request: 9,
            error: 0,
            index: 0,
            bindings: asked.into(),
        };
        manager.send(&request.encode()).unwrap();
        let answer = read(&manager);
        let values: Vec<&Variable> = answer.bindings.iter().map(|it| &it.value).collect();
        assert_eq!((answer.request, values), (9, vec![&zone, &delay]));
        let trap = read(&hearer);
        assert_eq!(trap.operation, Operation::Trap);
        let of_zone = trap.bindings.iter().find(|it| it.name == name(5));
        assert_eq!(of_zone.map(|it| &it.value), Some(&zone));
    }

    #[test]
    fn a_trap_is_sent_when_a_receiver_becomes_red_and_once() {
        let values = |zone: &str| {
            let report = json!({ "quality": { "zone": zone } });
            let member = json!({ "member": { "name": "ann", "id": 7 }, "report": report });
            json!({ "stats": { "flows": [{ "name": "film", "id": 1, "members": [member] }] } })
        };
        let mut reported = BTreeSet::new();
        let mut traps = |zone| turned(&mut reported, mib::rows(&values(zone))).len();
        let course = ["grey", "red", "red", "yellow", "red", "green", "red"];
        assert_eq!(course.map(&mut traps), [0, 1, 0, 0, 1, 0, 1]);
    }

    #[test]
    fn many_receivers_that_become_red_at_once_are_reported_each_once() {
        let member =
            |id: u32| json!({ "member": { "id": id }, "report": { "quality": { "zone": "red" } } });
        let members: Vec<Value> = (1..=250).map(member).collect();
        let values =
            json!({ "stats": { "flows": [{ "name": "film", "id": 1, "members": members }] } });
        let mut reported = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let sent = [(); 4].map(|()| {
            let rows = turned(&mut reported, mib::rows(&values));
            seen.extend(rows.iter().map(|row| row.conn));
            rows.len()
        });
        assert_eq!((sent, seen.len()), ([100, 100, 50, 0], 250));
    }
}
