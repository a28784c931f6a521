//! Repair of losses on each link, by the machines that repair them on sockets.

use layercast_core::PerLayer;
use layercast_sim::SimSummary;
use layercast_sim::scenario::Scenario;

use crate::common::run;

const HOPS: [(&str, &str); 3] = [("server", "near"), ("near", "far"), ("far", "guest")];

/// Three links in a row, each of which loses 5 % of the datagrams in either direction.
fn three_lossy_hops(repair: bool) -> SimSummary {
    let links = HOPS.map(|(a, b)| {
        format!(
            "{{ a = \"{a}\", b = \"{b}\", rate = \"20 Mbit/s\", delay = \"10 ms\", queue = \"500 ms\", \
             loss = {{ bernoulli = 0.05 }}, repair = {repair} }},"
        )
    });
    let text = format!(
        r#"
        name = "lossy"
        carriage = "datagrams"
        duration = "30s"
        wire_check = true
        node = [
            {{ name = "server", kind = "host" }}, {{ name = "near", kind = "switch" }},
            {{ name = "far", kind = "switch" }}, {{ name = "guest", kind = "host" }},
        ]
        link = [{}]
        flow = [{{ name = "film", source = "server", clip = {{ synthetic = "canyon" }}, frame_rate = 24, start = "1s", delay_max = "400ms" }}]
        receiver = [{{ node = "guest", flow = "film" }}]
        "#,
        links.concat()
    );
    run(&Scenario::from_toml(&text, "".as_ref()).unwrap())
}

fn sum(counts: &PerLayer<u64>) -> u64 {
    counts.base + counts.e1 + counts.e2
}

#[test]
fn each_hop_repairs_its_losses() {
    let bare = three_lossy_hops(false);
    let receiver = bare.receiver("guest").unwrap();
    assert!(
        sum(&receiver.lost) * 10 > sum(&receiver.frames),
        "{receiver:#?}"
    );
    assert!(bare.queues.iter().all(|queue| queue.repair.is_none()));

    let summary = three_lossy_hops(true);
    assert_eq!(summary.wire_errors, 0);
    let receiver = summary.receiver("guest").unwrap();
    let (frames, lost) = (sum(&receiver.frames), sum(&receiver.lost) + receiver.late);
    assert!(frames > 600 && lost * 1_000 <= frames, "{receiver:#?}");
    for (node, port) in HOPS {
        let mut queues = summary.queues.iter();
        let queue = queues
            .find(|queue| queue.node == node && queue.port == port)
            .unwrap();
        let layers = queue.repair.unwrap().sending.layers;
        let all = [layers.base, layers.e1, layers.e2];
        let octets: u64 = all.iter().map(|layer| layer.octets).sum();
        let repairs: u64 = all.iter().map(|layer| layer.repair_octets).sum();
        assert!(
            repairs * 100 > octets * 4 && repairs * 100 < octets * 8,
            "{node}: {layers:?}"
        );
    }
}

#[test]
fn where_a_request_comes_too_late_parities_are_sent_ahead() {
    // A round trip of 120 ms, and a playout delay that leaves 60 ms.
    let of = |repair: &str, seed: u64| {
        let text = format!(
            r#"
            name = "far"
            seed = {seed}
            carriage = "datagrams"
            duration = "30s"
            wire_check = true
            node = [{{ name = "server", kind = "host" }}, {{ name = "guest", kind = "host" }}]
            link = [{{
                a = "server", b = "guest", rate = "20 Mbit/s", delay = "60 ms", queue = "500 ms",
                loss = {{ bernoulli = 0.03 }}, repair = "{repair}",
            }}]
            flow = [{{ name = "film", source = "server", clip = {{ synthetic = "canyon" }}, frame_rate = 24, start = "1s" }}]
            receiver = [{{ node = "guest", flow = "film", playout = {{ delay = "120ms" }} }}]
            "#
        );
        let summary = run(&Scenario::from_toml(&text, "".as_ref()).unwrap());
        assert_eq!(summary.wire_errors, 0);
        let receiver = summary.receiver("guest").unwrap();
        let (frames, lost) = (sum(&receiver.frames), sum(&receiver.lost) + receiver.late);
        let layers = summary.queues[0].repair.unwrap_or_default().sending.layers;
        let all = [layers.base, layers.e1, layers.e2];
        let octets: u64 = all.iter().map(|layer| layer.octets).sum();
        let repairs: u64 = all.iter().map(|layer| layer.repair_octets).sum();
        let share = repairs as f64 / octets as f64;
        println!("{repair}: {lost} of {frames} lost or late, repairs {share:.3}, {layers:?}");
        (lost as f64 / frames as f64, share, layers)
    };
    // What is lost of a run differs by a factor of two from seed to seed.
    const SEEDS: std::ops::RangeInclusive<u64> = 1..=4;
    let requests: f64 = SEEDS.map(|seed| of("arq", seed).0).sum();
    assert!(requests > 0.05 * 4.0, "{requests}");
    for repair in ["auto", "fec"] {
        let mut all = 0.0;
        for seed in SEEDS {
            let (lost, share, layers) = of(repair, seed);
            all += lost;
            assert!(share < 0.5, "{repair}: {share}");
            assert!(layers.base.ahead > 0 && layers.e1.ahead > 0, "{layers:?}");
        }
        assert!(all * 10.0 < requests, "{repair}: {all} of {requests}");
    }
}

#[test]
fn the_means_of_repair_have_names() {
    let of = |repair: &str| {
        let text = format!(
            r#"
            name = "names"
            carriage = "datagrams"
            duration = "2s"
            node = [{{ name = "server", kind = "host" }}, {{ name = "guest", kind = "host" }}]
            link = [{{ a = "server", b = "guest", rate = "20 Mbit/s", repair = {repair} }}]
            flow = [{{ name = "film", source = "server", clip = {{ synthetic = "canyon" }}, frame_rate = 24 }}]
            receiver = [{{ node = "guest", flow = "film" }}]
            "#
        );
        Scenario::from_toml(&text, "".as_ref())
    };
    let same = [("true", "\"auto\""), ("false", "\"off\"")];
    for (one, other) in same {
        assert_eq!(of(one).unwrap(), of(other).unwrap());
    }
    let error = of("\"fcc\"").unwrap_err().to_string();
    assert!(
        error.contains("link[0].repair") && error.contains("\"arq\""),
        "{error}"
    );
}

#[test]
fn links_of_cells_have_no_repair() {
    let text = r#"
        name = "cells"
        carriage = "cells"
        duration = "2s"
        node = [{ name = "server", kind = "host" }, { name = "guest", kind = "host" }]
        link = [{ a = "server", b = "guest", rate = "20 Mbit/s", repair = true }]
        flow = [{ name = "film", source = "server", clip = { synthetic = "canyon" }, frame_rate = 24 }]
        receiver = [{ node = "guest", flow = "film" }]
        "#;
    let error = Scenario::from_toml(text, "".as_ref())
        .unwrap()
        .validate()
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("link[0].repair") && text.contains("datagrams"),
        "{text}"
    );
}

/// A server and a receiver, with loss in either direction.
fn pair(seed: u64, more: &str, link: &str) -> SimSummary {
    let text = format!(
        r#"
        name = "pair"
        carriage = "datagrams"
        duration = "20s"
        seed = {seed}
        node = [{{ name = "server", kind = "host" }}, {{ name = "guest", kind = "host" }}]
        link = [{{ a = "server", b = "guest", delay = "10 ms", queue = "500 ms", {link} }}]
        {more}
        "#
    );
    run(&Scenario::from_toml(&text, "".as_ref()).unwrap())
}

#[test]
fn the_level_holds_at_a_loss_of_30_percent_each_way() {
    let film = r#"
        flow = [{ name = "film", source = "server", clip = { synthetic = "canyon" }, frame_rate = 24, delay_max = "1s" }]
        receiver = [{ node = "guest", flow = "film" }]
        "#;
    for seed in 1..=4 {
        let link = r#"rate = "20 Mbit/s", loss = { bernoulli = 0.3 }, repair = true"#;
        let summary = pair(seed, film, link);
        let receiver = summary.receiver("guest").unwrap();
        // From the base layer to all layers once, and never back.
        let levels: Vec<u8> = receiver
            .levels
            .iter()
            .map(|(_, level)| level.get())
            .collect();
        assert!(
            levels.is_sorted() && levels.last() == Some(&2),
            "seed {seed}: {:?}",
            receiver.levels
        );
        let (frames, lost) = (sum(&receiver.frames), sum(&receiver.lost) + receiver.late);
        assert!(
            frames > 400 && lost * 100 <= frames,
            "seed {seed}: {receiver:#?}"
        );
    }
}

#[test]
fn frames_that_are_withheld_are_not_lost_whatever_becomes_of_adapt() {
    // The second flow takes the rate of enhancement layers for five seconds; half of the messages that say so are lost.
    let flows = r#"
        flow = [
            { name = "film", source = "server", clip = { synthetic = "canyon" }, frame_rate = 24 },
            { name = "news", source = "server", clip = { synthetic = "canyon" }, frame_rate = 24 },
        ]
        receiver = [
            { node = "guest", name = "film", flow = "film" },
            { node = "guest", name = "news", flow = "news", join = "6s", leave = "12s" },
        ]
        "#;
    for seed in 1..=4 {
        let summary = pair(seed, flows, r#"rate = "1.3 Mbit/s", adapter_loss = 0.5"#);
        let receiver = summary.receiver("film").unwrap();
        assert_eq!(sum(&receiver.lost), 0, "seed {seed}: {receiver:#?}");
        assert!(sum(&receiver.withheld) > 0, "seed {seed}: {receiver:#?}");
    }
}

/// A switch with 20 receivers in a multicast group, each of which loses 5 % of the datagrams on its own, in either direction.
fn group(repair: bool, more: &str) -> SimSummary {
    let names: Vec<String> = (0..20).map(|n| format!("guest{n:02}")).collect();
    let nodes = names
        .iter()
        .map(|name| format!("{{ name = \"{name}\", kind = \"host\" }},"));
    let links = names.iter().map(|name| {
        format!(
            "{{ a = \"switch\", b = \"{name}\", rate = \"20 Mbit/s\", delay = \"20 ms\", queue = \"500 ms\", \
             loss = {{ bernoulli = 0.05 }}, repair = {repair}, multicast = \"lan\" }},"
        )
    });
    let receivers = names.iter().map(|name| {
        format!("{{ node = \"{name}\", flow = \"film\", playout = {{ delay = \"300 ms\" }} }},")
    });
    let text = format!(
        r#"
        name = "group"
        carriage = "datagrams"
        duration = "40s"
        wire_check = true
        node = [{{ name = "server", kind = "host" }}, {{ name = "switch", kind = "switch" }}, {}]
        link = [{{ a = "server", b = "switch", rate = "20 Mbit/s", queue = "500 ms" }}, {}]
        flow = [{{ name = "film", source = "server", clip = {{ synthetic = "canyon" }}, frame_rate = 24, start = "1s", delay_max = "400ms", shaping = "off" }}]
        receiver = [{}]
        {more}
        "#,
        nodes.collect::<String>(),
        links.collect::<String>(),
        receivers.collect::<String>(),
    );
    run(&Scenario::from_toml(&text, "".as_ref()).unwrap())
}

/// Frames played, and frames lost or late, of all receivers.
fn played(summary: &SimSummary) -> (u64, u64) {
    let receivers = summary.flows[0].receivers.iter();
    receivers.fold((0, 0), |(frames, lost), receiver| {
        assert!(sum(&receiver.frames) > 300, "{receiver:#?}");
        let gone = sum(&receiver.lost) + receiver.late;
        (frames + sum(&receiver.frames), lost + gone)
    })
}

#[test]
fn parities_repair_the_losses_of_all_members_of_a_group() {
    let bare = group(false, "");
    let (frames, lost) = played(&bare);
    assert!(lost * 10 > frames, "{lost} of {frames}");

    let summary = group(true, "");
    assert_eq!(summary.wire_errors, 0);
    let (frames, lost) = played(&summary);
    let to = |port: &str| {
        let mut queues = summary.queues.iter();
        queues.find(|queue| queue.port == port).unwrap()
    };
    // One queue, and one sending end, for all.
    let port = to("guest00");
    assert!(to("guest01").repair.is_none() && to("guest01").queue == Default::default());
    let sending = port.repair.unwrap().sending;
    let all = [sending.layers.base, sending.layers.e1, sending.layers.e2];
    let octets: u64 = all.iter().map(|layer| layer.octets).sum();
    let repairs: u64 = all.iter().map(|layer| layer.repair_octets).sum();
    println!(
        "{lost} of {frames} frames lost, {repairs} octets of parities for {octets}, {sending:?}"
    );
    assert!(lost * 1_000 <= frames, "{lost} of {frames}: {sending:?}");
    // Copies of what any of 20 members loses: 64 %.
    assert!(
        repairs * 100 < octets * 55,
        "{repairs} of {octets}: {sending:?}"
    );
    assert_eq!((sending.members, sending.left), (20, 0));
    let member = summary.queues.iter().find(|queue| queue.node == "guest07");
    let receiving = member.unwrap().repair.unwrap().receiving;
    assert!(
        sum(&receiving.repaired) > 0 && sum(&receiving.parities) > 0,
        "{receiving:?}"
    );
}

#[test]
fn a_member_whose_link_fails_comes_back_to_its_group() {
    let faults = r#"
        fault = [
            { at = "10s", kind = "link_down", link = ["switch", "guest03"] },
            { at = "12s", kind = "link_up", link = ["switch", "guest03"] },
            { at = "20s", kind = "restart", node = "switch" },
        ]
        "#;
    let summary = group(true, faults);
    let played = |name: &str| summary.receiver(name).unwrap().frames.base;
    for name in ["guest03", "guest04"] {
        assert!(played(name) > 30, "{name}: {}", played(name));
    }
    let member = summary.queues.iter().find(|queue| queue.node == "guest03");
    let receiving = member.unwrap().repair.unwrap().receiving;
    assert!(sum(&receiving.repaired) > 0, "{receiving:?}");
}

#[test]
fn links_of_a_group_are_alike_and_lead_to_receivers() {
    let with = |first: &str, second: &str| {
        let text = format!(
            r#"
            name = "wrong"
            duration = "2s"
            node = [
                {{ name = "server", kind = "host" }}, {{ name = "switch", kind = "switch" }},
                {{ name = "one", kind = "host" }}, {{ name = "two", kind = "host" }},
            ]
            link = [{{ a = "server", b = "switch", rate = "20 Mbit/s" }}, {{ {first} }}, {{ {second} }}]
            flow = [{{ name = "film", source = "server", clip = {{ synthetic = "canyon" }}, frame_rate = 24 }}]
            receiver = [{{ node = "one", flow = "film" }}, {{ node = "two", flow = "film" }}]
            "#
        );
        let scenario = Scenario::from_toml(&text, "".as_ref()).unwrap();
        scenario
            .validate()
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let one = r#"a = "switch", b = "one", rate = "20 Mbit/s", multicast = "lan""#;
    let two = r#"a = "switch", b = "two", rate = "20 Mbit/s", multicast = "lan""#;
    assert_eq!(with(one, two), Ok(()));
    let slow = two.replace("20", "10");
    let back = r#"a = "two", b = "switch", rate = "20 Mbit/s", multicast = "lan""#;
    for (second, field) in [(slow.as_str(), "link[2].multicast"), (back, "link[2].a")] {
        let error = with(one, second).unwrap_err();
        assert!(error.contains(field), "{error}");
    }
}
