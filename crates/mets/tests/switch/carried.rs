//! What share of a flow the links to its receivers carry.

use crate::common::bench::{A, B, Bench, UP, bench, plain};
use crate::common::ends::Source;
use layercast_core::{CellRate, PortId};
use layercast_mets::switch::{PortConfig, SwitchConfig, SwitchInput};
use layercast_wire::Carriage;

/// 480 cells/s of base layer, and 3,360 of all layers.
const ALL: u32 = 3_360;

fn line(bench: &mut Bench, port: PortId, cells: u32) {
    let rate = CellRate(cells).rate();
    bench.give(SwitchInput::PortRate { port, rate });
}

fn share(bench: &Bench) -> Option<f64> {
    let id = bench.info.id;
    bench.switch.carried_share(id, &bench.info.spec, |_| 1.0)
}

fn near(share: Option<f64>, wanted: f64) -> bool {
    share.is_some_and(|share| (share - wanted).abs() < 0.002)
}

#[test]
fn the_base_layer_is_for_all_and_all_layers_are_for_the_widest() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    assert_eq!(share(&bench), None, "no receiver takes it");
    bench.join(A, 1);
    assert_eq!(share(&bench), Some(1.0));
    line(&mut bench, A, ALL / 2);
    assert!(near(share(&bench), 0.5), "{:?}", share(&bench));
    // One that has room for all of it: the first one leaves layers out.
    bench.join(B, 2);
    assert_eq!(share(&bench), Some(1.0));
    // Base layers may take nine tenths of a line.
    line(&mut bench, A, 300);
    assert!(
        near(share(&bench), 0.9 * 300.0 / 480.0),
        "{:?}",
        share(&bench)
    );
    let repairs = bench
        .switch
        .carried_share(bench.info.id, &bench.info.spec, |_| 0.8);
    assert!(near(repairs, 0.8 * 0.9 * 300.0 / 480.0), "{repairs:?}");
}

#[test]
fn a_port_without_a_rate_carries_all() {
    let port = PortConfig {
        rate: None,
        ..plain(Carriage::Datagrams)
    };
    let mut bench = bench(port, SwitchConfig::default());
    bench.join(A, 1);
    assert_eq!(share(&bench), Some(1.0));
}

#[test]
fn flows_share_a_port_and_take_what_others_leave() {
    let mut bench = bench(plain(Carriage::Datagrams), SwitchConfig::default());
    bench.join(A, 1);
    let second = Source::canyon(2, Carriage::Datagrams).info;
    bench.advertise(UP, second.clone());
    bench.info = second;
    bench.join(A, 3);
    // The first one has its base layer of 480 cells/s alone.
    line(&mut bench, A, 2_000);
    let left = f64::from(2_000 - 480) / f64::from(ALL);
    assert!(near(share(&bench), left), "{:?}", share(&bench));
    // Half of the line is more than what the first one leaves.
    line(&mut bench, A, 800);
    let half = 400.0 / f64::from(ALL);
    assert!(near(share(&bench), half), "{:?}", share(&bench));
}
