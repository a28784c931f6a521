//! Hosts with adapters of their own: traffic over cells without a router, and XTP without IP.

use layercast_sim::internet::*;
use scenario::Scenario;

fn resolve(text: &str) -> Result<Network, scenario::ScenarioError> {
    let scenario = Scenario::from_toml(text, std::path::Path::new("."));
    scenario.expect("TOML").resolve()
}

fn run(text: &str) -> Report {
    let network = resolve(text).expect("a network");
    Internet::new(&network).expect("a network").run(&mut ())
}

/// Three hosts at one switch, with what else is said.
fn at_a_switch(atm: &str, more: &str) -> String {
    format!(
        "schema = \"internet/1\"\nname = \"hosts\"\nrun = {{ duration = \"60s\" }}\n\
         [[host]]\nname = \"{{a,b,c}}\"\n\
         [atm]\nmtu = 9600\nqueue = {{ discard = \"none\", per_vc_limit = 5000, port_limit = 5000 }}\n{atm}\n\
         [[atm.switch]]\nname = \"x\"\n\
         [[atm.link]]\nends = [\"{{a,b,c}}\", \"x\"]\nrate = \"150 Mbit/s\"\ndelay = \"1ms\"\n{more}"
    )
    .replace("{a,b,c}", "h{1..3}")
}

fn xtp(from: &str, to: &str, more: &str) -> String {
    format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\n{more}\n")
}

fn adapter<'a>(report: &'a Report, name: &str) -> &'a AdapterReport {
    let mut adapters = report.atm.as_ref().expect("a backbone").adapters.iter();
    adapters.find(|it| it.router == name).expect("an adapter")
}

#[test]
fn hosts_reach_each_other_and_who_is_behind_a_router() {
    let beyond = "[[router]]\nname = \"r{1..2}\"\n[[host]]\nname = \"far{1..2}\"\n\
                  [[link]]\nends = [\"far{1..2}\", \"r{1..2}\"]\nrate = \"1 Gbit/s\"\ndelay = \"1ms\"\n\
                  [[atm.link]]\nends = [\"r{1..2}\", \"x\"]\nrate = \"150 Mbit/s\"\ndelay = \"1ms\"\n";
    let pairs = [
        ("h1", "h2"),
        ("h2", "far2"),
        ("far1", "h3"),
        ("far2", "h1"),
        ("far1", "far2"),
    ];
    let flows = pairs.map(|(from, to)| xtp(from, to, "bytes = 300000"));
    let report = run(&at_a_switch("", &format!("{beyond}{}", flows.concat())));
    for flow in &report.flows {
        assert_eq!(flow.bytes, 300_000, "{flow:?}");
        assert_eq!(flow.offered_bytes, Some(300_000), "{flow:?}");
    }
    // Two flows of 209 segments each begin behind it, one leaves hosts by their first router, and so do the 106 answers
    // to a fourth. That itself goes straight from the other router to its host.
    let forwarded = adapter(&report, "r1").frames_sent;
    assert!((700..800).contains(&forwarded), "{forwarded}");
}

#[test]
fn xtp_over_aal5_has_no_ip_header_and_its_rate_is_that_of_cells() {
    // 9140 + 32 + 8 bytes are 191.25 cells, 1142 + 32 + 8 are 24.6; with IP the second would take 26.
    for (data, cells) in [(9_140, 192), (1_142, 25)] {
        let more = format!(
            "xtp = {{ delivery = \"context\", max_data = {data}, rate = \"50 Mbit/s\", ask = 1, flow_control = false, \
             window = \"1 MiB\", send_buffer = \"1 MiB\" }}\nstop = \"10s\""
        );
        let report = run(&at_a_switch("", &xtp("h1", "h2", &more)));
        let goodput = 50e6 * f64::from(data * 8) / f64::from(cells * 424);
        let found = report.flows[0].goodput_bps;
        assert!((found / goodput - 1.0).abs() < 0.005, "{found} {goodput}");
        let (sent, back) = (adapter(&report, "h1"), adapter(&report, "h2"));
        let mean = sent.cells_sent as f64 / sent.frames_sent as f64;
        assert!((mean / f64::from(cells) - 1.0).abs() < 0.005, "{mean}");
        // Status of 52 bytes and the trailer.
        assert_eq!(back.cells_sent, 2 * back.frames_sent);
        assert_eq!((sent.cells_lost, sent.frames_lost), (0, 0));
        assert_eq!(sent.frames_sent, back.frames);
    }
}

#[test]
fn contexts_share_the_circuit_of_their_hosts_or_have_their_own() {
    for (delivery, circuits) in [("host-pair", 1), ("context", 3)] {
        let more = format!("bytes = 100000\nxtp = {{ delivery = \"{delivery}\" }}");
        let flow = xtp("h1", "h2", &more);
        let report = run(&at_a_switch("", &flow.repeat(3)));
        assert!(
            report.flows.iter().all(|it| it.completed.is_some()),
            "{report:?}"
        );
        assert_eq!(adapter(&report, "h1").max_circuits, circuits, "{delivery}");
    }
}

#[test]
fn an_idle_circuit_is_released_and_made_again() {
    let more = "bytes = 100000\nxtp = { delivery = \"host-pair\" }\nstart = ";
    let flows = ["\"1s\"", "\"10s\"", "\"30s\""]
        .map(|at| xtp("h1", "h2", &format!("{more}{at}")))
        .concat();
    for (idle, asked) in [("15s", 2), ("5s", 3)] {
        let report = run(&at_a_switch(&format!("idle = \"{idle}\""), &flows));
        let adapter = adapter(&report, "h1");
        assert_eq!((adapter.ready, adapter.circuits), (asked, 0), "{idle}");
        assert!(report.flows.iter().all(|it| it.bytes == 100_000));
    }
}

#[test]
fn what_is_lost_is_counted_for_who_sent_it() {
    // Two at 100 Mbit/s into one of 150, and a third that is not affected.
    let stream = |from: &str, to: &str| {
        let size = "datagrams = { gap = \"814.08us\", size = \"9208 B\" }\nstop = \"5s\"";
        xtp(from, to, size)
    };
    let flows = [stream("h1", "h3"), stream("h2", "h3"), stream("h3", "h2")].concat();
    let report = run(&at_a_switch("", &flows));
    let atm = report.atm.as_ref().expect("a backbone");
    let lost: u64 = atm.adapters.iter().map(|it| it.cells_lost).sum();
    let dropped: u64 = atm.queues.iter().map(|it| it.dropped).sum();
    assert!(lost > 100_000 && lost == dropped, "{lost} {dropped}");
    assert_eq!(adapter(&report, "h3").cells_lost, 0);
    for flow in 0..2 {
        let sent = adapter(&report, ["h1", "h2"][flow]);
        let missing = report.flows[flow].sent - report.flows[flow].received;
        assert_eq!(sent.frames_sent, report.flows[flow].sent);
        assert_eq!(sent.frames_lost, missing);
    }
}

#[test]
fn adapters_may_hold_more_than_switches() {
    let burst = "[[flow]]\nfrom = \"h1\"\nto = \"h2\"\nstop = \"1ms\"\n\
                 datagrams = { gap = \"10us\", size = \"9208 B\" }\n";
    let lost = |limit: &str| {
        let report =
            run(&at_a_switch("", burst).replace("port_limit", &format!("{limit}port_limit")));
        adapter(&report, "h1").cells_lost
    };
    // 64 packets wait for the circuit and come together; one cell is on its way already.
    assert_eq!(lost(""), 64 * 192 - 5_001);
    assert_eq!(lost("adapter_limit = 100000, "), 0);
}

#[test]
fn messages_of_cells_and_bursts_have_the_load_that_is_asked_for() {
    let flow = |datagrams: &str| xtp("h1", "h2", &format!("datagrams = {{ {datagrams} }}"));
    // 20 Mbit/s of cells in messages of 20 of them.
    let poisson = run(&at_a_switch(
        "",
        &flow("gap = \"exp(424us)\", size = \"cells(20, 200)\""),
    ));
    let sent = adapter(&poisson, "h1");
    let load = sent.cells_sent as f64 * 424.0 / 60.0;
    assert!((load / 20e6 - 1.0).abs() < 0.02, "{load}");
    let mean = sent.cells_sent as f64 / sent.frames_sent as f64;
    assert!((mean - 20.0).abs() < 0.2, "{mean}");
    // 30 Mbit/s two thirds of the time.
    let bursts = run(&at_a_switch(
        "",
        &flow("gap = \"141.333333us\", size = \"472 B\", on = \"exp(5ms)\", off = \"exp(2.5ms)\""),
    ));
    let load = adapter(&bursts, "h1").cells_sent as f64 * 424.0 / 60.0;
    assert!((load / 20e6 - 1.0).abs() < 0.04, "{load}");
}

#[test]
fn what_cannot_be_is_told() {
    for (flow, complaint) in [
        (
            "xtp = { delivery = \"context\", max_data = 9580 }",
            "at most atm.mtu - 32, 9568",
        ),
        (
            "datagrams = { gap = \"1ms\", size = \"cells(20, 1366)\" }",
            "1 to 1365 cells",
        ),
        (
            "datagrams = { gap = \"1ms\", size = \"cells(0.5, 9)\" }",
            "1 to 1365 cells",
        ),
        (
            "datagrams = { gap = \"1ms\", size = \"99 B\", on = \"1s\" }",
            "flow[0].datagrams.off",
        ),
    ] {
        let error = resolve(&at_a_switch("", &xtp("h1", "h2", flow))).expect_err(flow);
        assert!(error.to_string().contains(complaint), "{error}");
    }
    let behind = "[[router]]\nname = \"r\"\n[[host]]\nname = \"far\"\n\
                  [[link]]\nends = [\"far\", \"r\"]\nrate = \"1 Gbit/s\"\ndelay = \"1ms\"\n\
                  [[atm.link]]\nends = [\"r\", \"x\"]\nrate = \"150 Mbit/s\"\ndelay = \"1ms\"\n";
    let flow = xtp("h1", "far", "xtp = { delivery = \"host-pair\" }");
    let error = resolve(&at_a_switch("", &format!("{behind}{flow}"))).expect_err("no ATM link");
    assert!(error.to_string().contains("far has no ATM link"), "{error}");
    let twice = "[[link]]\nends = [\"h1\", \"h2\"]\nrate = \"1 Gbit/s\"\ndelay = \"1ms\"\n";
    let error = resolve(&at_a_switch("", twice)).expect_err("two attachments");
    assert!(
        error.to_string().contains("hosts have one attachment"),
        "{error}"
    );
}
