//! Generators of transfers: what begins when, how long it takes, and what is reported of it.

use std::path::Path;

use layercast_sim::internet::scenario::Scenario;
use layercast_sim::internet::{GeneratorReport, Indivisible, Internet, Network};

use super::common::run;

fn resolve(text: &str) -> Result<Network, String> {
    let scenario = Scenario::from_toml(text, Path::new("")).map_err(|error| error.to_string())?;
    scenario.resolve().map_err(|error| error.to_string())
}

fn generated(text: &str) -> GeneratorReport {
    run(&resolve(text).unwrap()).generators.swap_remove(0)
}

/// Pairs of hosts with links of 1 Gbit/s before a trunk.
fn dumbbell(trunk: &str, seconds: u32, generator: &str) -> String {
    format!(
        r#"
        schema = "internet/1"
        name = "dumbbell"
        run = {{ duration = "{seconds}s" }}
        tcp.default = {{ fast_tick = "off", min_rto = "10ms", initial_window = 10 }}
        [topology]
        kind = "dumbbell"
        pairs = 20
        access = {{ rate = "1 Gbit/s", delay = "5us" }}
        trunk = {{ {trunk}, delay = "20us", queue = "100 packets" }}
        [[generate]]
        from = ["left{{1..20}}"]
        to = ["right{{1..20}}"]
        {generator}
        "#
    )
}

/// A window that holds all: nothing but the links takes time.
#[test]
fn a_transfer_alone_takes_the_ideal_time() {
    for rate in ["10 Mbit/s", "1 Gbit/s", "10 Gbit/s"] {
        for bytes in [1, 1_448, 1_449, 2_000, 2_896, 100_000] {
            let trunk = format!("rate = \"{rate}\"");
            let more = format!(
                "established = true\nflows = 1\nsizes = \"const({bytes}) B\"\npattern = \"incast\""
            );
            let text = dumbbell(&trunk, 1, &more).replace("window = 10", "window = 1000");
            let found = generated(&text);
            let slowdown = found.slowdown.unwrap().mean;
            // The clock has picoseconds.
            assert!((slowdown - 1.0).abs() < 1e-6, "{rate} {bytes}: {slowdown}");
        }
    }
}

/// Flows of any length share a link as if it served all of them at the same time, each with the same rate: then the mean slowdown
/// is 1 / (1 - load) for each length (M/G/1 processor sharing).
#[test]
fn large_transfers_share_a_link_as_processor_sharing_has_it() {
    let more = "load = 0.5\nof = [\"left\", \"right\"]\nsizes = \"exp(1000000) B\"\nestablished = true\nbins = [\"500 kB\"]";
    let text = dumbbell("rate = \"200 Mbit/s\"", 40, more);
    let network = resolve(&text).unwrap();
    let report = run(&network);
    let (found, trunk) = (&report.generators[0], &report.queues[0]);
    assert_eq!(trunk.name, "left->right");
    // Twelve and a half transfers a second: 500 +- 22. Headers are 3.6 % on top of the bytes.
    assert!((430..570).contains(&found.started), "{}", found.started);
    let offered = found.bytes as f64 * 8.0 / 40.0 / 200e6;
    let used = offered * 1_500.0 / 1_448.0;
    assert!(
        (trunk.utilisation / used - 1.0).abs() < 0.03,
        "{used} {trunk:?}"
    );
    let large = found.sizes.last().unwrap().slowdown.unwrap();
    let ideal = 1.0 / (1.0 - used);
    assert!((large.mean / ideal - 1.0).abs() < 0.15, "{large:?} {ideal}");
}

#[test]
fn an_incast_of_established_connections_begins_at_once() {
    let more = "pattern = \"incast\"\ngap = \"10ms\"\nflows = 60\nestablished = true\nsizes = \"const(20000) B\"";
    let found = generated(&dumbbell("rate = \"1 Gbit/s\"", 2, more));
    assert_eq!((found.started, found.completed), (60, 60));
    for (n, transfer) in found.transfers.iter().enumerate() {
        let start = transfer.start.as_us();
        assert_eq!(start, n as u64 / 20 * 10_000, "{transfer:?}");
        assert_eq!(transfer.to, found.transfers[n / 20 * 20].to);
    }
}

#[test]
fn transfers_of_the_warm_up_do_not_count() {
    let more = "pattern = \"permutation\"\ngap = \"1ms\"\nsizes = \"web-search\"\nbins = [50000, \"1 MB\"]";
    let text = dumbbell("rate = \"1 Gbit/s\"", 1, more);
    let whole = generated(&text);
    let rest = generated(&text.replace("duration =", "warm_up = \"300ms\", duration ="));
    assert_eq!((whole.started, rest.started), (1_000, 700));
    assert_eq!(whole.transfers[300..], rest.transfers);
    let sum = |of: fn(&layercast_sim::internet::SizeReport) -> u64| {
        rest.sizes.iter().map(of).sum::<u64>()
    };
    assert_eq!(sum(|it| it.started), 700);
    assert_eq!(sum(|it| it.completed), rest.completed);
    let tops: Vec<_> = rest.sizes.iter().map(|it| it.to_bytes).collect();
    assert_eq!(tops, [Some(50_000), Some(1_000_000), None]);
    // 40 % of web-search flows have at most 50 kB: 280 of 700 with a standard deviation of 13.
    assert!((230..330).contains(&rest.sizes[0].started));
}

#[test]
fn a_file_lists_transfers() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("list.csv");
    let trace = format!("trace = {:?}", path.to_str().unwrap());
    let text = dumbbell("rate = \"1 Gbit/s\"", 1, &trace);
    let text = text.replace("from = [\"left{1..20}\"]", "");
    let text = text.replace("to = [\"right{1..20}\"]", "");
    let with = |list: &str| {
        std::fs::write(&path, list).unwrap();
        resolve(&text)
    };
    let list = "start,from,to,bytes\n0.5, left2, right1, 3000 # later\n\n0.25,left1,right2,2000\n";
    let found = run(&with(list).unwrap()).generators.swap_remove(0);
    let all: Vec<_> = found
        .transfers
        .iter()
        .map(|it| (it.start.as_us(), it.bytes))
        .collect();
    assert_eq!(all, [(250_000, 2_000), (500_000, 3_000)]);
    assert_eq!(found.completed, 2);
    for (list, part) in [
        (
            "0.5,left1,right1\n",
            "list.csv:1: expected start,from,to,bytes",
        ),
        ("\n-1,left1,right1,5\n", "list.csv:2: the start"),
        ("1,left1,right1,0\n", "the length"),
        ("1,left1,left1,5\n", "another host"),
        ("1,left1,rihgt1,5\n", "did you mean \"right1\""),
    ] {
        let error = with(list).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn generators_that_cannot_be_are_refused() {
    for (more, field, part) in [
        (
            "sizes = \"websearch\"",
            "generate[0].sizes",
            "unknown distribution",
        ),
        ("", "generate[0].sizes", "web-search"),
        ("sizes = \"exp(3) s\"", "generate[0].sizes", "a size"),
        (
            "sizes = \"const(9) B\"\nload = 0.0",
            "generate[0].load",
            "above 0",
        ),
        (
            "sizes = \"const(9) B\"\nload = 0.5\nof = [\"left1\", \"right1\"]",
            "generate[0].of",
            "link",
        ),
        (
            "sizes = \"const(9) B\"\nof = [\"left\", \"right\"]",
            "generate[0].load",
            "missing",
        ),
        (
            "sizes = \"const(9) B\"\nload = 0.5\ngap = \"1ms\"",
            "generate[0].gap",
            "load",
        ),
        (
            "sizes = \"const(9) B\"\nfan_in = 3",
            "generate[0].fan_in",
            "incast",
        ),
        (
            "sizes = \"const(9) B\"\nbins = [5, 5]",
            "generate[0].bins",
            "greater",
        ),
        (
            "sizes = \"const(9) B\"\ngap = \"1us\"",
            "generate[0]",
            "at most 1000000",
        ),
        (
            "sizes = \"const(9) B\"\nflows = 0",
            "generate[0].flows",
            "1 or more",
        ),
        (
            "sizes = \"const(9) B\"\nstart = \"9s\"",
            "generate[0].start",
            "before the end",
        ),
        (
            "sizes = \"const(9) B\"\nstart = \"1s\"\nstop = \"1s\"",
            "generate[0].stop",
            "after",
        ),
        ("trace = \"x.csv\"", "generate[0].from", "trace lists"),
    ] {
        let error = resolve(&dumbbell("rate = \"1 Gbit/s\"", 5, more)).unwrap_err();
        assert!(
            error.contains(field) && error.contains(part),
            "{more}: {error}"
        );
    }
    let fine = dumbbell("rate = \"1 Gbit/s\"", 5, "sizes = \"const(9) B\"");
    for (from, to, part) in [
        ("[\"right{1..20}\"]", "[\"left\"]", "router"),
        (
            "[\"right{1..20}\"]",
            "[\"right1\", \"right1\"]",
            "each host once",
        ),
        ("[\"right{1..20}\"]", "[\"left1\"]", "no other host"),
    ] {
        let error = resolve(&fine.replace(from, to)).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let network = resolve(&fine).unwrap();
    let world = Internet::new(&network).unwrap();
    assert_eq!(world.divide(&network, 2).err(), Some(Indivisible::Mixed));
}

/// A transfer whose connection gives up counts as it did until then.
#[test]
fn a_transfer_that_fails_keeps_its_counters() {
    let text = r#"
        schema = "internet/1"
        name = "broken"
        run = { duration = "30s" }
        tcp = { default = { max_retries = 3 } }
        topology = { kind = "dumbbell", pairs = 1, access = { rate = "100 Mbit/s", delay = "1ms" }, trunk = { rate = "10 Mbit/s", delay = "10ms", down = "500ms..29s" } }
        generate = [{ name = "web", sizes = "const(5000000) B", from = ["left1"], to = ["right1"], gap = "1s", flows = 1 }]
    "#;
    let scenario = Scenario::from_toml(text, Path::new(".")).unwrap();
    let report = run(&scenario.resolve().unwrap());
    let web = &report.generators[0];
    assert_eq!((web.started, web.completed, web.failed), (1, 0, 1));
    assert_eq!(web.timeouts, 4, "{web:?}");
    assert!(web.retransmitted > 2, "{web:?}");
}
