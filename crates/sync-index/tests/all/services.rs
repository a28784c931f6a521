//! Levels, admission, rates, calibration, publication.

use layercast_core::{Span, Time};
use layercast_sync_index::{
    AdmissionGate, CalibrationError, EstimateServer, GateEvent, Outcome, RateController, Refusal,
    Run, Service, ServiceError, ServiceMap, calibrate,
};

use crate::index::{estimator, events, outcomes};

fn outcome(xi_ms: f64, loss_ppm: u32) -> Outcome {
    let mut estimator = estimator(Default::default());
    for k in 0..301_u32 {
        let at = Time::ZERO + Span::from_ms(10).times(k.into());
        estimator.arrive(layercast_sync_index::Arrival::new(at, k));
    }
    let mut found = outcomes(&events(&mut estimator))[0];
    if let Outcome::Estimate(it) = &mut found {
        (it.xi_ms, it.loss_ppm) = (xi_ms, loss_ppm);
    }
    found
}

fn nv() -> Service {
    ServiceMap::default().service[0].clone()
}

#[test]
fn thresholds_are_strict() {
    let nv = nv();
    assert_eq!(nv.grade(&outcome(11.999, 0)), Ok(0));
    assert_eq!(nv.grade(&outcome(12.0, 0)), Ok(1));
    assert_eq!(nv.grade(&outcome(20.0, 0)), Ok(2));
    assert_eq!(nv.grade(&outcome(25.0, 0)), Err(Refusal::Asynchronous));
    assert_eq!(
        nv.grade(&Outcome::NoSignal { loss_ppm: 0 }),
        Err(Refusal::NoSignal)
    );
    assert_eq!(
        nv.grade(&Outcome::Insufficient { loss_ppm: 0 }),
        Err(Refusal::Unknown)
    );
}

#[test]
fn loss_costs_a_level() {
    let nv = nv();
    assert_eq!(nv.grade(&outcome(5.0, 49_999)), Ok(0));
    assert_eq!(nv.grade(&outcome(5.0, 50_000)), Ok(1));
    assert_eq!(nv.grade(&outcome(15.0, 50_000)), Ok(2));
    assert_eq!(nv.grade(&outcome(22.0, 50_000)), Err(Refusal::Loss));
}

#[test]
fn a_coarse_clock_and_a_full_queue_refuse() {
    let mut nv = nv();
    let mut found = outcome(5.0, 0);
    if let Outcome::Estimate(it) = &mut found {
        it.floor_ms = 5.0;
    }
    // 3 * 5 ms: `best` at 12 ms cannot be distinguished, `medium` at 20 ms can.
    assert_eq!(nv.permits(0, &found), Err(Refusal::Clock));
    assert_eq!(nv.grade(&found), Ok(1));
    nv.level[0].queue_max_ms = Some(30.0);
    let mut found = outcome(5.0, 0);
    assert_eq!(nv.permits(0, &found), Ok(()));
    if let Outcome::Estimate(it) = &mut found {
        it.queue_ms = Some(30.0);
    }
    assert_eq!(nv.permits(0, &found), Err(Refusal::Queue));
}

#[test]
fn tables_are_checked() {
    let mut map = ServiceMap::default();
    assert_eq!(map.check(), Ok(()));
    map.service[0].level[1].xi_max_ms = 12.0;
    assert!(matches!(map.check(), Err(ServiceError::Threshold { .. })));
    map.service[0].level.clear();
    assert_eq!(map.check(), Err(ServiceError::NoLevel("nv".into())));
    map.service = vec![nv(), nv()];
    assert_eq!(map.check(), Err(ServiceError::Twice("nv".into())));
    map.service.clear();
    assert_eq!(map.check(), Err(ServiceError::Empty));
}

#[test]
fn the_gate_gives_up_after_two_and_takes_back_after_three() {
    assert!(AdmissionGate::new(nv(), "perfect", AdmissionGate::AFTER).is_none());
    let mut gate = AdmissionGate::new(nv(), "best", AdmissionGate::AFTER).unwrap();
    assert_eq!(gate.admit(), Err(Refusal::Unknown));
    let (good, bad) = (Some(outcome(3.0, 0)), Some(outcome(13.0, 0)));
    gate.on_outcome(bad);
    assert_eq!(gate.admit(), Err(Refusal::Asynchronous));
    gate.on_outcome(good);
    assert_eq!(gate.admit(), Ok(()));
    let mut said = Vec::new();
    for it in [
        bad, good, bad, bad, bad, good, good, bad, good, good, good, None,
    ] {
        said.push(gate.on_outcome(it));
    }
    let at = |event| said.iter().position(|it| *it == Some(event));
    assert_eq!(at(GateEvent::QualityLost), Some(3));
    assert_eq!(at(GateEvent::QualityBack), Some(10));
    // Without results the quality is lost again.
    assert_eq!(said.last(), Some(&Some(GateEvent::QualityLost)));
    assert!(!gate.is_good());
}

#[test]
fn rates_fall_by_a_factor_and_rise_by_a_part_of_the_nominal_rate() {
    let mut control = RateController::new(12.0, 0.25);
    let (good, bad) = (outcome(11.0, 0), outcome(12.0, 0));
    control.on_outcome(&bad);
    assert!((control.share() - 0.85).abs() < 1e-12);
    control.on_outcome(&good);
    assert!((control.share() - 0.90).abs() < 1e-12);
    control.on_outcome(&Outcome::Insufficient { loss_ppm: 0 });
    assert!((control.share() - 0.90).abs() < 1e-12);
    for _ in 0..20 {
        control.on_outcome(&Outcome::NoSignal {
            loss_ppm: 1_000_000,
        });
    }
    assert!((control.share() - 0.25).abs() < 1e-12);
    for _ in 0..20 {
        control.on_outcome(&good);
    }
    assert!((control.share() - 1.0).abs() < 1e-12);
}

#[test]
fn a_result_older_than_three_blocks_is_unknown() {
    let block = Span::from_secs(3);
    let start = Time::ZERO;
    let mut server = EstimateServer::new(
        "a-b".into(),
        ServiceMap::default(),
        Span::from_secs(10),
        block,
        start,
    );
    let empty = server.record(start);
    assert!(empty.stale && empty.outcome.is_none() && empty.age_ms.is_none());
    server.on_outcome(start, outcome(3.0, 0));
    assert!(server.poll(start + Span::from_secs(9)).is_none());
    let fresh = server.record(start + Span::from_secs(9));
    assert_eq!(fresh.levels["nv"].as_deref(), Some("best"));
    assert!(!fresh.stale && fresh.number == 1);
    let old = server.poll(start + Span::from_secs(10)).unwrap();
    assert_eq!((old.stale, old.outcome), (true, None));
    assert_eq!(old.levels["nv"], None);
    assert_eq!(server.next_timeout(), start + Span::from_secs(20));
}

#[test]
fn thresholds_come_from_runs() {
    let mut runs: Vec<Run> = Vec::new();
    for k in 0..100 {
        let xi_ms = f64::from(k);
        let quality = match k {
            0..40 => "best",
            40..60 => "medium",
            _ => "bad",
        };
        let quality = quality.to_owned();
        runs.push(Run { xi_ms, quality });
    }
    let found = calibrate("video", &["best", "medium"], &runs).unwrap();
    // 95 % of 42 and of 63 runs hold.
    assert!((found.level[0].xi_max_ms - 41.0).abs() < 0.1, "{found:?}");
    assert!((found.level[1].xi_max_ms - 62.0).abs() < 0.1, "{found:?}");
    assert_eq!(
        ServiceMap {
            service: vec![found]
        }
        .check(),
        Ok(())
    );
    assert_eq!(
        calibrate("video", &["best"], &[]),
        Err(CalibrationError::NoRun)
    );
    assert_eq!(
        calibrate("video", &["top"], &runs),
        Err(CalibrationError::Never("top".into()))
    );
    runs[3].xi_ms = f64::NAN;
    assert!(matches!(
        calibrate("video", &["best"], &runs),
        Err(CalibrationError::Index(4, _))
    ));
}
