//! Tests of the admission controller and its studies.

mod descriptors;
mod machine;
mod properties;
mod rules;
mod studies;

use layercast_admission::{CallId, Decision, Event, Mbac, MbacConfig, TSpec};
use layercast_core::{Rate, Span, Time};

const LINK: Rate = Rate::from_bps(10_000_000);

fn mbps(rate: u64) -> Rate {
    Rate::from_bps(rate * 1_000_000)
}

fn at_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

fn id(call: u64) -> CallId {
    CallId { path: 0, call }
}

fn peak(rate: Rate) -> TSpec {
    TSpec::peak(rate).unwrap()
}

fn controller(config: MbacConfig) -> Mbac {
    Mbac::new(config, Time::ZERO).unwrap()
}

fn admits(mbac: &mut Mbac, ms: u64, call: u64, rate: Rate) -> bool {
    let decision = mbac.request(at_ms(ms), id(call), &peak(rate)).unwrap();
    matches!(decision, Decision::Admit { .. })
}

/// Sends at a rate for whole samples of 500 ms from `from` on, a share of it late.
fn load(mbac: &mut Mbac, from: u64, until: u64, rate: Rate, late_percent: u64) {
    let bits = rate.as_bps() / 2;
    for ms in (from + 500..=until).step_by(500) {
        mbac.on_arrival(at_ms(ms), bits * late_percent / 100, true);
        mbac.on_arrival(at_ms(ms), bits * (100 - late_percent) / 100, false);
        mbac.on_transmit(at_ms(ms), bits);
        mbac.handle_timeout(at_ms(ms));
    }
}

fn events(mbac: &mut Mbac) -> Vec<Event> {
    std::iter::from_fn(|| mbac.poll_event()).collect()
}
