//! Random networks for property tests: rates, delays and sizes are alike, so that much happens at one instant.

use proptest::prelude::*;

fn link() -> impl Strategy<Value = String> {
    let rate = prop::sample::select(vec![1, 2, 10, 100]);
    let delay = prop::sample::select(vec!["100us", "1ms", "5ms", "20ms"]);
    let queue = prop::sample::select(vec![
        r#"queue = "5 packets""#,
        r#"queue = "30 packets""#,
        r#"queue = "20 KiB""#,
        r#"queue = "50 packets", red = { min = 3, max = 12 }"#,
        r#"queue = "30 packets", loss = 0.02"#,
        r#"queue = "30 packets", mtu = 700"#,
        r#"queue = "unlimited""#,
    ]);
    (rate, delay, queue).prop_map(|(rate, delay, queue)| {
        format!(r#"{{ rate = "{rate} Mbit/s", delay = "{delay}", {queue} }}"#)
    })
}

/// A scenario whose links vary delays, change the order, lose in bursts, deliver twice, or are down for a time.
#[allow(dead_code, reason = "the golden corpus has none")]
pub(crate) fn impaired(others: Vec<&'static str>) -> impl Strategy<Value = String> {
    let how = prop::sample::select(vec![
        r#"jitter = { uniform = "3ms" }"#,
        r#"jitter = { normal = "1ms" }, reorder = true"#,
        "duplicate = 0.1",
        r#"jitter = { uniform = "3ms" }, reorder = true, duplicate = 0.05"#,
        r#"down = "300ms..320ms,600ms..650ms", back = { down = "500ms..520ms" }"#,
        "gilbert = { p_gb = 0.01, p_bg = 0.2 }",
    ]);
    let are_all = any::<bool>();
    (scenario(others), how, are_all).prop_map(|(scenario, how, are_all)| {
        // Those of the trunk, or all; where losses are others, they stay.
        let (before, after) = scenario.split_at(match are_all {
            true => 0,
            false => scenario.find("trunk").unwrap_or(0),
        });
        let after = after.replace(", loss = 0.02", "");
        format!(
            "{before}{}",
            after.replace("delay =", &format!("{how}, delay ="))
        )
    })
}

fn topology() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec![
        "kind = \"dumbbell\"\npairs = 6",
        "kind = \"tree\"\ndepth = 2\nfanout = 3",
        "kind = \"fat-tree\"\nk = 4",
    ]);
    (kind, link(), link()).prop_map(|(kind, access, trunk)| {
        format!("[topology]\n{kind}\naccess = {access}\ntrunk = {trunk}\n")
    })
}

/// From one of the hosts to another, by their numbers.
fn flow(others: Vec<&'static str>) -> impl Strategy<Value = (usize, usize, &'static str)> {
    let all = [
        "",
        "bytes = 30_000",
        "start = \"200ms\"",
        r#"datagrams = { gap = "1ms", size = "1000 B" }"#,
        r#"datagrams = { gap = "exp(2ms)", size = "exp(700 B)" }"#,
    ];
    let what = prop::sample::select(all.into_iter().chain(others).collect::<Vec<_>>());
    (0..100_usize, 0..100_usize, what)
}

/// A scenario of a second with a few flows of TCP and UDP, or such as `others`.
pub(crate) fn scenario(others: Vec<&'static str>) -> impl Strategy<Value = String> {
    let flows = prop::collection::vec(flow(others), 1..8);
    let warm_up = prop::sample::select(vec!["0s", "303ms"]);
    (topology(), flows, warm_up).prop_map(|(topology, flows, warm_up)| {
        let mut scenario = format!(
            "schema = \"internet/1\"\nname = \"random\"\nrun = {{ duration = \"1.01s\", warm_up = \"{warm_up}\" }}\n{topology}"
        );
        let hosts: Vec<String> = match topology.contains("dumbbell") {
            true => (1..=6).flat_map(|n| [format!("left{n}"), format!("right{n}")]).collect(),
            false => (1..=9).map(|n| format!("host{n}")).collect(),
        };
        for (n, (from, to, what)) in flows.into_iter().enumerate() {
            let from = from % hosts.len();
            let to = (from + 1 + to % (hosts.len() - 1)) % hosts.len();
            scenario += &format!(
                "\n[[flow]]\nname = \"f{n}\"\nfrom = \"{}\"\nto = \"{}\"\n{what}\n",
                hosts[from], hosts[to]
            );
        }
        scenario
    })
}
