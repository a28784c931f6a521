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
