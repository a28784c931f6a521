//! The variables of `--snmp` (contrib/snmp/LAYERCAST-QOS-MIB.txt), from what a command prints with `--json`.

use layercast_snmp::{Binding, Oid, Table, Value as Variable};
use serde_json::Value;

use super::encode::samples_of;

/// `netSnmpPlaypen`, which is there for those without a number of their own.
const BASE: &str = "1.3.6.1.4.1.8072.9999.9999.1996";
/// The system group (RFC 3418).
const SYSTEM: &str = "1.3.6.1.2.1.1";

/// Zones, worst last.
const ZONES: [&str; 4] = ["grey", "green", "yellow", "red"];
/// The number of the worst.
pub const RED: i32 = 4;

/// Columns of a connection that are numbers: where their value is, and by what it is multiplied.
const MEASURES: [(&str, f64); 4] = [
    ("throughput_bps", 1.0),
    ("delay_s", 1e6),
    ("jitter_s", 1e6),
    ("error_rate", 1e9),
];
/// The first column of measured values, and of agreed ones.
const MEASURED: u32 = 6;
const AGREED: u32 = 10;

/// A receiver.
pub struct Row<'a> {
    /// Its flow and its number in it.
    pub conn: [u8; 8],
    /// 1: it is this one; 2: data go to it from here.
    direction: u32,
    flow: &'a str,
    member: &'a str,
    quality: &'a Value,
}

fn oid(text: &str, more: impl IntoIterator<Item = u32>) -> Oid {
    text.parse::<Oid>().unwrap_or_default().with(more)
}

/// The receivers of what a command says.
pub fn rows(values: &Value) -> Vec<Row<'_>> {
    let own = values.get("receiver").map(|it| Row {
        conn: [0; 8],
        direction: 1,
        flow: "",
        member: "",
        quality: &it["quality"],
    });
    let flows = values["stats"]["flows"].as_array().into_iter().flatten();
    let members = flows.flat_map(|flow| {
        let members = flow["members"].as_array().into_iter().flatten();
        members.map(move |it| {
            let number = |value: &Value| value.as_u64().unwrap_or_default() as u32;
            let (of_flow, of_member) = (number(&flow["id"]), number(&it["member"]["id"]));
            Row {
                conn: ((u64::from(of_flow) << 32) | u64::from(of_member)).to_be_bytes(),
                direction: 2,
                flow: flow["name"].as_str().unwrap_or_default(),
                member: it["member"]["name"].as_str().unwrap_or_default(),
                quality: &it["report"]["quality"],
            }
        })
    });
    own.into_iter().chain(members).collect()
}

impl Row<'_> {
    /// The number of its zone; of one without a monitor it is grey.
    pub fn zone(&self) -> i32 {
        let zone = self.quality["zone"].as_str();
        let place = ZONES.iter().position(|it| Some(*it) == zone);
        place.unwrap_or_default() as i32 + 1
    }

    fn name(&self, column: u32) -> Oid {
        let index = self.conn.iter().map(|octet| u32::from(*octet));
        let index = index.chain([self.direction]);
        oid(BASE, [1, 2, 1, column].into_iter().chain(index))
    }

    /// Its columns; what is not known has none.
    fn columns(&self) -> Vec<(Oid, Variable)> {
        let text = |text: &str| Variable::Text(text.as_bytes().to_vec());
        let mut columns = vec![
            (self.name(3), text(self.flow)),
            (self.name(4), text(self.member)),
            (self.name(5), Variable::Integer(self.zone())),
        ];
        for (first, key) in [(MEASURED, "measured"), (AGREED, "agreed")] {
            for (column, (measure, scale)) in (first..).zip(MEASURES) {
                let Some(value) = self.quality[measure][key].as_f64() else {
                    continue;
                };
                // The casts saturate.
                let value = (value * scale).round();
                let value = match measure {
                    "throughput_bps" => Variable::Counter(value as u64),
                    _ => Variable::Gauge(value as u32),
                };
                columns.push((self.name(column), value));
            }
        }
        columns
    }
}

/// That a receiver is red: the kind of the trap, and its variables.
pub fn red(row: &Row) -> (Oid, Vec<Binding>) {
    let columns = row.columns().into_iter();
    let about = columns.map(|(name, value)| Binding { name, value });
    (oid(BASE, [0, 1]), about.collect())
}

/// All variables of a command that runs for `uptime` hundredths of a second; without `values` those of the system alone.
pub fn table(values: Option<&Value>, command: &str, uptime: u32) -> Table {
    let mut table = Table::new();
    let text = |text: String| Variable::Text(text.into_bytes());
    let of_system = [
        (
            1,
            text(format!("layercast {command} {}", env!("CARGO_PKG_VERSION"))),
        ),
        (2, Variable::Oid(oid(BASE, []))),
        (3, Variable::Ticks(uptime)),
        (5, text(format!("layercast-{}", command.replace(' ', "-")))),
    ];
    table.extend(of_system.map(|(number, value)| (oid(SYSTEM, [number, 0]), value)));
    let Some(values) = values else {
        return table;
    };
    let rows = rows(values);
    let global = |number| oid(BASE, [1, 1, number, 0]);
    table.insert(global(1), Variable::Gauge(rows.len() as u32));
    for (number, zone) in (2..).zip(1..=RED) {
        let count = rows.iter().filter(|row| row.zone() == zone).count();
        table.insert(global(number), Variable::Gauge(count as u32));
    }
    table.extend(rows.iter().flat_map(Row::columns));
    for (number, (name, value)) in (1..).zip(samples_of(values)) {
        let column = |column| oid(BASE, [1, 3, 1, column, number]);
        table.insert(column(2), text(name));
        table.insert(column(3), text(value.to_string()));
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::json;

    use super::*;

    #[test]
    fn variables_are_the_values_of_stats() {
        let quality = json!({
            "zone": "red",
            "throughput_bps": { "agreed": 0.0, "measured": 1_234_567.4, "zone": "green" },
            "delay_s": { "agreed": 0.173, "measured": 0.201_500_4, "zone": "red" },
            "error_rate": { "agreed": 1e-11, "measured": 0.25, "zone": "red" },
        });
        let report = json!({ "quality": quality, "late": 3 });
        let red = json!({ "member": { "name": "ann", "id": 7 }, "node": "hub", "report": report });
        let old = json!({ "member": { "name": "bob", "id": 8 }, "node": "hub", "report": {} });
        let flow =
            json!({ "name": "film", "source": "server", "id": 0x0102_0304, "members": [red, old] });
        let values = json!({ "stats": { "flows": [flow] } });
        let table = table(Some(&values), "serve", 500);
        let at = |column: u32, member: u32| {
            let index = [1, 2, 1, column, 1, 2, 3, 4, 0, 0, 0, member, 2];
            table.get(&oid(BASE, index)).cloned()
        };
        let gauge = |number| Some(Variable::Gauge(number));
        assert_eq!(at(4, 7), Some(Variable::Text(b"ann".to_vec())));
        assert_eq!(
            [at(5, 7), at(5, 8)],
            [4, 1].map(|it| Some(Variable::Integer(it)))
        );
        assert_eq!(at(6, 7), Some(Variable::Counter(1_234_567)));
        assert_eq!([at(7, 7), at(11, 7)], [gauge(201_500), gauge(173_000)]);
        assert_eq!([at(9, 7), at(13, 7)], [gauge(250_000_000), gauge(0)]);
        // Not agreed, and not known: absent, never 0.
        assert_eq!([at(8, 7), at(12, 7), at(7, 8)], [None, None, None]);
        let global = |number: u32| table.get(&oid(BASE, [1, 1, number, 0])).cloned();
        assert_eq!([1, 2, 3, 4, 5].map(global), [2, 1, 0, 0, 1].map(gauge));
        let metric = table.values().any(|it| {
            let name = "layercast_member_late_frames_total{flow=\"film\",source=\"server\",member=\"ann\",node=\"hub\"}";
            *it == Variable::Text(name.into())
        });
        assert!(metric, "{table:?}");
        of_the_mib(&table);
    }

    /// Asserts that each variable has a name and a kind in the MIB, and that each column of the MIB occurs or was not known.
    fn of_the_mib(table: &Table) {
        let path = "/../../contrib/snmp/LAYERCAST-QOS-MIB.txt";
        let mib = std::fs::read_to_string([env!("CARGO_MANIFEST_DIR"), path].concat()).unwrap();
        let mut names = BTreeMap::from([("netSnmpPlaypen", "1.3.6.1.4.1.8072.9999.9999".into())]);
        let mut kinds: BTreeMap<Oid, &str> = BTreeMap::new();
        for definition in mib.split("\n\n") {
            let Some((head, place)) = definition.rsplit_once("::= { ") else {
                continue;
            };
            for line in definition.lines().filter(|line| line.contains("::= { ")) {
                let (_, place) = line.rsplit_once("::= { ").unwrap();
                let mut place = place.split_whitespace();
                let above: &String = &names[place.next().unwrap()];
                let oid = format!("{above}.{}", place.next().unwrap());
                let named = if line.contains("IDENTIFIER") {
                    line
                } else {
                    head
                };
                names.insert(named.split_whitespace().next().unwrap(), oid);
            }
            let syntax = head.split_once("SYNTAX ").map(|(_, it)| it);
            if head.contains("MAX-ACCESS read-only") {
                let above = place.split_whitespace().next().unwrap();
                let number = place.split_whitespace().nth(1).unwrap();
                let oid = format!("{}.{number}", names[above]).parse().unwrap();
                kinds.insert(oid, syntax.unwrap().split_whitespace().next().unwrap());
            }
        }
        assert_eq!(kinds.len(), 18);
        let base = oid(BASE, []);
        assert_eq!(names["layercastQos"], base.to_string());
        let mut unseen: BTreeSet<&Oid> = kinds.keys().collect();
        for (name, value) in table.iter().filter(|(name, _)| base.is_above(name)) {
            let kind = kinds.iter().find(|(of, _)| of.is_above(name));
            let (of, kind) = kind.unwrap_or_else(|| panic!("{name} is not in the MIB"));
            let fits = match value {
                Variable::Integer(_) => *kind == "QosZone",
                Variable::Gauge(_) => *kind == "Gauge32",
                Variable::Counter(_) => *kind == "CounterBasedGauge64",
                Variable::Text(_) => ["SnmpAdminString", "DisplayString", "OCTET"].contains(kind),
                _ => false,
            };
            assert!(fits, "{name} of {kind} is {value:?}");
            unseen.remove(of);
        }
        // The jitter: it is not part of this contract.
        let jitter = [8, 12].map(|column| oid(BASE, [1, 2, 1, column]));
        assert_eq!(unseen, jitter.iter().collect());
    }
}
