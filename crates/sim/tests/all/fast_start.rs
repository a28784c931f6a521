//! A receiver that joins between two GOP starts gets the running GOP, in time and within what its link has left.

use layercast_core::PerLayer;
use layercast_mets::ReceiverSummary;
use layercast_sim::SimSummary;
use layercast_sim::scenario::Scenario;

use crate::common::run;

/// GOPs have 12 frames. `late` joins in the midst of the third GOP, over a line of its own.
fn late_joiner(gop_s: f64, fast_start: bool, others: bool, line: &str) -> SimSummary {
    joiner_at(1.0 + 2.6 * gop_s, gop_s, fast_start, others, line)
}

fn joiner_at(join: f64, gop_s: f64, fast_start: bool, others: bool, line: &str) -> SimSummary {
    let rate = 12.0 / gop_s;
    let text = format!(
        r#"
        name = "late"
        carriage = "datagrams"
        duration = "{duration}s"
        wire_check = true
        fast_start = {fast_start}
        node = [
            {{ name = "server", kind = "host" }}, {{ name = "switch", kind = "switch" }},
            {{ name = "early", kind = "host" }}, {{ name = "late", kind = "host" }},
        ]
        link = [
            {{ a = "server", b = "switch", rate = "100 Mbit/s", delay = "5 ms" }},
            {{ a = "switch", b = "early", rate = "100 Mbit/s", delay = "5 ms" }},
            {{ a = "switch", b = "late", queue = "500 ms", delay = "10 ms", {line} }},
        ]
        flow = [{{ name = "film", source = "server", clip = {{ synthetic = "canyon" }}, frame_rate = {rate}, start = "1s" }}]
        receiver = [
            {early}
            {{ node = "late", flow = "film", join = "{join}s" }},
        ]
        "#,
        duration = join + 3.0 * gop_s + 4.0,
        early = match others {
            true => r#"{ node = "early", flow = "film" },"#,
            false => "",
        },
    );
    run(&Scenario::from_toml(&text, "".as_ref()).unwrap())
}

fn sum(counts: &PerLayer<u64>) -> u64 {
    counts.base + counts.e1 + counts.e2
}

/// Seconds from the join to the first picture.
fn first_picture(receiver: &ReceiverSummary, gop_s: f64) -> f64 {
    receiver.received[0].0 - (1.0 + 2.6 * gop_s)
}

/// The delay from emission to hand-over in the last second with pictures, in milliseconds.
fn last_playout(receiver: &ReceiverSummary) -> f64 {
    let mut samples = receiver.series.iter().rev();
    samples.find_map(|sample| sample.playout_ms).unwrap()
}

#[test]
fn the_first_picture_comes_within_half_a_second_and_the_delay_returns_to_the_target() {
    let line = r#"rate = "20 Mbit/s""#;
    for gop_s in [2.0, 8.0] {
        let summary = late_joiner(gop_s, true, true, line);
        assert_eq!(summary.wire_errors, 0);
        let late = summary.receiver("late").unwrap();
        let early = summary.receiver("early").unwrap();
        let first = first_picture(late, gop_s);
        assert!(first <= 0.5, "GOP of {gop_s} s: {first} s: {late:#?}");
        assert_eq!(
            (sum(&late.lost), late.late),
            (0, 0),
            "GOP of {gop_s} s: {late:#?}"
        );
        // The running GOP comes with all layers, as the other receiver has them.
        assert_eq!(late.received[0].1, early.received.last().unwrap().1);
        let (here, there) = (last_playout(late), last_playout(early));
        assert!(
            here <= there + 150.0,
            "GOP of {gop_s} s: {here} ms after emission, {there} ms at the other receiver"
        );

        let summary = late_joiner(gop_s, false, true, line);
        let late = summary.receiver("late").unwrap();
        assert!(first_picture(late, gop_s) > 0.35 * gop_s, "{late:#?}");
    }
}

#[test]
fn the_first_receiver_of_a_flow_gets_the_whole_gop_that_was_sent_before_it_came() {
    for gop_s in [2.0, 8.0] {
        let summary = late_joiner(gop_s, true, false, r#"rate = "20 Mbit/s""#);
        let late = summary.receiver("late").unwrap();
        let first = first_picture(late, gop_s);
        assert!(first <= 0.5, "GOP of {gop_s} s: {first} s: {late:#?}");
        assert_eq!((sum(&late.lost), late.late), (0, 0), "{late:#?}");
        // Key frames alone would be a still picture until the next GOP.
        let level = late.received[0].1.get();
        assert_eq!((level, sum(&late.withheld)), (2, 0), "{late:#?}");
    }
}

/// Its demand is not known when the GOP starts: that begins later, and with all layers.
#[test]
fn a_receiver_that_joins_just_before_a_gop_start_gets_that_gop_with_all_layers() {
    for others in [true, false] {
        for before in [0.07, 0.05, 0.035, 0.02] {
            let join = 1.0 + 3.0 * 0.5 - before;
            let summary = joiner_at(join, 0.5, true, others, r#"rate = "20 Mbit/s""#);
            let late = summary.receiver("late").unwrap();
            let first = late.received[0].0 - join;
            assert!(first <= 0.5, "{before} s before: {first} s: {late:#?}");
            assert_eq!(
                (late.received[0].1.get(), sum(&late.withheld)),
                (2, 0),
                "{before} s before, {others}: {late:#?}"
            );
            assert_eq!((sum(&late.lost), late.late), (0, 0), "{late:#?}");
        }
    }
}

#[test]
fn losses_of_a_fast_start_are_repaired() {
    let line = r#"rate = "20 Mbit/s", loss = { bernoulli = 0.05 }, repair = true"#;
    let late = late_joiner(2.0, true, true, line);
    let late = late.receiver("late").unwrap();
    let first = first_picture(late, 2.0);
    assert!(first <= 0.5, "{first} s: {late:#?}");
    assert_eq!(sum(&late.lost), 0, "{late:#?}");
}

#[test]
fn a_fast_start_takes_no_base_layer_from_others() {
    // The line has room for the base layers of both flows, and little more.
    let text = |fast_start: bool| {
        format!(
            r#"
        name = "crowded"
        carriage = "datagrams"
        duration = "30s"
        fast_start = {fast_start}
        node = [
            {{ name = "server", kind = "host" }}, {{ name = "switch", kind = "switch" }},
            {{ name = "early", kind = "host" }}, {{ name = "home", kind = "host" }},
        ]
        link = [
            {{ a = "server", b = "switch", rate = "100 Mbit/s" }},
            {{ a = "switch", b = "early", rate = "100 Mbit/s" }},
            {{ a = "switch", b = "home", rate = "600 kbit/s", queue = "500 ms" }},
        ]
        flow = [
            {{ name = "film", source = "server", clip = {{ synthetic = "canyon" }}, frame_rate = 24 }},
            {{ name = "news", source = "server", clip = {{ synthetic = "canyon" }}, frame_rate = 3 }},
        ]
        receiver = [
            {{ node = "home", name = "film", flow = "film" }},
            {{ node = "early", flow = "news" }},
            {{ node = "home", name = "news", flow = "news", join = "9.3s" }},
        ]
        "#
        )
    };
    let of = |fast_start| run(&Scenario::from_toml(&text(fast_start), "".as_ref()).unwrap());
    let [without, with] = [false, true].map(|fast_start| {
        let summary = of(fast_start);
        let [film, news] = ["film", "news"].map(|name| summary.receiver(name).unwrap());
        let first = news.received[0].0;
        (film.lost.base, film.late_base, first)
    });
    assert!(
        with.2 < without.2,
        "the fast start is one: {with:?}, {without:?}"
    );
    assert!(
        with.0 <= without.0 && with.1 <= without.1,
        "{with:?}, {without:?}"
    );
}

#[test]
fn a_receiver_that_cannot_catch_up_begins_with_the_next_key_frame() {
    // The line has the rate of the flow and little more, or the next key frame is near.
    for (gop_s, line) in [
        (2.0, r#"rate = "800 kbit/s""#),
        (0.3, r#"rate = "20 Mbit/s""#),
    ] {
        let [without, with] = [false, true].map(|on| {
            let summary = late_joiner(gop_s, on, true, line);
            let late = summary.receiver("late").unwrap();
            let lost = (sum(&late.lost), late.late);
            (first_picture(late, gop_s), lost)
        });
        assert_eq!(without, with, "GOP of {gop_s} s");
    }
}
