//! Links that have another share of their rate for a time, and ports at which no layers are selected.

use layercast_core::{Level, Time};
use layercast_mets::ReceiverSummary;
use layercast_sim::scenario::DiscardSpec;
use layercast_sim::{Outputs, Simulation};

use crate::common::{CHAIN, run, scenario};

/// The link to `middle` of the chain.
const WHOLE: &str = r#"{ a = "two", b = "middle", rate = "100 Mbit/s", delay = "1 ms" }"#;

/// What the receiver `middle` of the chain saw whose link carries all layers, but for what `link` and `flow` say and for faults.
fn middle(link: &str, flow: &str, faults: &str) -> ReceiverSummary {
    assert!(CHAIN.contains(WHOLE));
    let fits = r#"{ fits = "film", level = 2, spare = 0.1 }"#;
    let narrow = format!(
        r#"{{ a = "two", b = "middle", rate = {fits}, delay = "1 ms", queue = "300 ms", efci = 1.0{link} }}"#
    );
    let text = CHAIN.replace(WHOLE, &narrow);
    // A full queue at 40 % of the rate takes 750 ms.
    let bound = format!(r#"delay_max = "1s"{flow}"#);
    let text = text.replace(r#"delay_max = "300ms""#, &bound) + faults;
    let summary = run(&scenario(&text));
    summary.receiver("middle").unwrap().clone()
}

/// The level of a receiver at a time.
fn level(receiver: &ReceiverSummary, at: f64) -> Level {
    let levels = receiver.levels.iter();
    let last = levels.take_while(|(since, _)| *since <= at).last();
    last.map(|it| it.1).unwrap()
}

#[test]
fn levels_follow_the_rate_of_a_link_down_and_up() {
    let always = middle("", "", "");
    let narrow = middle(r#", schedule = "8s:40%,14s:100%""#, "", "");
    assert_eq!(level(&always, 12.0), Level::FULL);
    assert_eq!(level(&narrow, 7.9), Level::FULL);
    assert_eq!(level(&narrow, 12.0), Level::E1, "{:?}", narrow.levels);
    assert_eq!(level(&narrow, 20.0), Level::FULL, "{:?}", narrow.levels);
    assert_eq!(narrow.lost.base, 0);
}

#[test]
fn where_no_layers_are_selected_the_queue_decides() {
    let policy = |discard: DiscardSpec| {
        let discard = discard.name();
        let link =
            format!(r#", schedule = "8s:40%,14s:100%", adapt = false, discard = "{discard}""#);
        middle(&link, r#", policy = { adapt = "none" }"#, "")
    };
    let fifo = policy(DiscardSpec::Fifo);
    assert_eq!(level(&fifo, 12.0), Level::FULL, "{:?}", fifo.levels);
    assert!(fifo.lost.base > 0 && fifo.lost.e2 > 0, "{:?}", fifo.lost);
    let exclp = policy(DiscardSpec::Exclp);
    assert_eq!((exclp.lost.base, exclp.lost.e1), (0, 0));
    assert!(exclp.lost.e2 > 0, "{:?}", exclp.lost);
}

#[test]
fn a_switch_that_starts_again_has_the_rate_of_the_time() {
    let faults = "\nfault = [{ at = \"8s\", node = \"two\", kind = \"restart\" }]\n";
    let after = |link: &str| level(&middle(link, "", faults), 18.0);
    assert_eq!(after(""), Level::FULL);
    assert_eq!(after(r#", schedule = "4s:40%""#), Level::E1);
}

#[test]
fn a_receiver_writes_what_it_plays_and_nothing_of_frames_without_octets() {
    let network = scenario(CHAIN).validate().unwrap();
    let mut streams: [Vec<u8>; 3] = Default::default();
    let outputs = Outputs {
        streams: streams.iter_mut().map(|it| it as _).collect(),
        ..Outputs::default()
    };
    let go_on = |_: Time| std::ops::ControlFlow::Continue(());
    let mut off = layercast_core::Off;
    Simulation::new(network)
        .run(&mut off, outputs, go_on)
        .unwrap();
    assert!(streams.iter().all(Vec::is_empty));
}
