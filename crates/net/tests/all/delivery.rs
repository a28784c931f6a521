//! Flows from a server over a switch to receivers, on real sockets.

use std::time::Duration;

use crate::common::{join, join_config, link_to, port, real_time, server, sink, start, switch};
use layercast_core::{Contract, Level, Parameter, Quality, Span, Term, Zone};
use layercast_net::{JoinEvent, NetError, get_stats, list_flows};
use layercast_wire::Carriage;

async fn two_receivers(carriage: Carriage) {
    let server = start(server(carriage, 4)).await;
    let mut config = switch("chuff", 2, carriage, &[server.addr]);
    let mut narrow = port(carriage, Some(900));
    narrow.queue = layercast_link::QueueConfig::of_limit(400);
    link_to(&mut config, "narrow", narrow);
    let chuff = start(config).await;

    let wide = join(join_config(chuff.addr, sink("wide", 11, carriage)));
    let narrow = join(join_config(chuff.addr, sink("narrow", 12, carriage)));
    tokio::time::sleep(Duration::from_millis(2_000)).await;
    let flows = list_flows(chuff.addr).await.unwrap();
    assert_eq!(flows.len(), 1);
    assert_eq!(flows[0].name, "film");
    let members = get_stats(server.addr, None).await.unwrap();
    assert_eq!(members.len(), 2, "{members:?}");

    let wide = wide.end().await.unwrap();
    let narrow = narrow.end().await.unwrap();
    let (server, chuff) = (server.stop().await, chuff.stop().await);
    for (name, summary, best) in [
        ("wide", &wide, Level::FULL),
        ("narrow", &narrow, Level::BASE),
    ] {
        let receiver = &summary.receiver;
        let told = format!(
            "{name}: {receiver:#?}\n{:#?}\n{:#?}",
            summary.sink, summary.udp
        );
        assert!(receiver.frames.base > 8, "{told}");
        assert_eq!((receiver.lost.base, receiver.late_base), (0, 0), "{told}");
        assert_eq!(receiver.off_boundary, 0, "{told}");
        let highest = receiver.received.iter().map(|(_, level)| *level).max();
        assert_eq!(highest, Some(best), "{told}");
        assert_eq!(summary.malformed, 0, "{told}");
        assert!(summary.synchronised, "{told}");
    }
    assert!(wide.receiver.frames.e2 > 50, "{:?}", wide.receiver.frames);
    assert_eq!(server.sources["film"].submitted, 192);
    assert!(chuff.switch.ports.contains_key("wide"));
    assert_eq!((chuff.malformed, chuff.udp.send_failed), (0, 0));
    assert_eq!(chuff.channels.malformed, 0);
}

#[real_time(tokio)]
async fn datagrams_reach_two_unequal_receivers() {
    two_receivers(Carriage::Datagrams).await;
}

#[real_time(tokio)]
async fn cells_reach_two_unequal_receivers() {
    two_receivers(Carriage::Cells).await;
}

/// Before the first receiver comes, a server runs several timers in each wake-up, and a receiver that comes then gets frames as ever.
/// That none is late is tested where time is virtual: `machines::tests`.
#[real_time(tokio)]
async fn a_server_without_a_receiver_runs_several_timers_in_each_wake_up() {
    let running = start(server(Carriage::Datagrams, 30)).await;
    let addr = running.addr;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let early = join(join_config(addr, sink("early", 11, Carriage::Datagrams)));
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let early = early.stop().await;
    assert!(early.receiver.frames.base > 0, "{:#?}", early.receiver);
    running.stop().await;

    let running = start(server(Carriage::Datagrams, 30)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alone = running.stop().await;
    let film = &alone.sources["film"];
    let handled = film.sent.total() + film.masked.total();
    // 48 frames a second, each with several packets, and 10 looks; the end of the flow takes some more.
    assert!(handled > 100, "{film:#?}");
    assert!(alone.timers.fired < handled, "{:#?}", alone.timers);
}

#[real_time(tokio)]
async fn a_server_takes_receivers_without_a_switch() {
    let mut config = server(Carriage::Datagrams, 2);
    config.until_finished = true;
    let server = start(config).await;
    let receiver = join(join_config(
        server.addr,
        sink("direct", 11, Carriage::Datagrams),
    ));
    let summary = receiver.end().await.unwrap();
    assert!(summary.receiver.frames.base >= 4, "{summary:#?}");
    assert_eq!(summary.receiver.lost.base, 0);
    let server = server.end().await.unwrap();
    assert_eq!(server.sources["film"].submitted, 96);
}

#[real_time(tokio)]
async fn a_receiver_that_leaves_is_gone_from_the_server() {
    let server = start(server(Carriage::Datagrams, 6)).await;
    let mut receiver = join(join_config(
        server.addr,
        sink("guest", 11, Carriage::Datagrams),
    ));
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    receiver.stop().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let summary = server.stop().await;
    assert_eq!(summary.sources["film"].members, 0);
}

#[real_time(tokio)]
async fn a_join_that_does_not_fit_is_refused_with_the_shortfall() {
    let mut config = server(Carriage::Datagrams, 6);
    link_to(&mut config, "tiny", port(Carriage::Datagrams, Some(100)));
    let server = start(config).await;
    let receiver = join(join_config(
        server.addr,
        sink("tiny", 11, Carriage::Datagrams),
    ));
    let error = receiver.end().await.unwrap_err();
    assert!(matches!(error, NetError::Refused(_)), "{error}");
    assert!(error.to_string().contains("cells/s"), "{error}");
    server.stop().await;
}

#[real_time(tokio)]
async fn a_missing_flow_is_reported_with_the_flows_there_are() {
    let server = start(server(Carriage::Datagrams, 6)).await;
    let mut wanted = sink("guest", 11, Carriage::Datagrams);
    wanted.flow = "opera".into();
    let mut config = join_config(server.addr, wanted);
    config.start_within = Some(Span::from_ms(200));
    let error = join(config).end().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("opera") && text.contains("film"), "{text}");
    server.stop().await;
}

#[real_time(tokio)]
async fn a_server_that_is_stopped_closes_its_flow_in_order() {
    let server = start(server(Carriage::Datagrams, 60)).await;
    let chuff = start(switch("chuff", 2, Carriage::Datagrams, &[server.addr])).await;
    let mut receiver = join(join_config(
        chuff.addr,
        sink("guest", 11, Carriage::Datagrams),
    ));
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    let (server, receiver) = tokio::join!(server.stop(), receiver.end());
    let receiver = receiver.unwrap().receiver;
    assert_eq!((receiver.lost.base, receiver.late_base), (0, 0));
    assert!(server.sources["film"].submitted < 200);
    chuff.stop().await;
}

#[real_time(tokio)]
async fn a_server_with_a_long_queue_and_a_long_delay_bound_closes_its_flow_too() {
    let mut config = server(Carriage::Datagrams, 60);
    let spec = &mut config.sources[0].config.flow.spec;
    // Ten seconds of frames wait, and packets may take four.
    (spec.gop_n, spec.delay_max_ms) = (240, 4_000);
    let server = start(config).await;
    let mut receiver = join(join_config(
        server.addr,
        sink("guest", 11, Carriage::Datagrams),
    ));
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Joined(_)))
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let (server, receiver) = tokio::join!(server.stop(), receiver.end());
    // A receiver that is notified ends; otherwise it calls again until its patience ends.
    receiver.unwrap();
    assert!(server.sources["film"].submitted > 0);
}

#[real_time(tokio)]
async fn a_receiver_that_does_not_get_what_was_agreed_is_red_there_and_at_its_source() {
    let mut config = server(Carriage::Datagrams, 60);
    let agreed = Contract {
        delay: Some(Term::agreed(1e-6)),
        error_rate: Some(Term::agreed(0.5)),
        ..Contract::default()
    };
    config.sources[0].config.flow.contract = Some(agreed);
    let server = start(config).await;
    let mut receiver = join(join_config(
        server.addr,
        sink("strict", 11, Carriage::Datagrams),
    ));
    let red = |zone: Zone| zone == Zone::Red;
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Zone(it) if red(it.zone_to) && it.parameter == Parameter::Delay))
        .await;
    let is_told = |quality: &Quality| {
        let [delay, loss] = [quality.delay_s, quality.error_rate].map(Option::unwrap);
        assert_eq!((delay.agreed, loss.agreed), (1e-6, 0.5));
        assert!(delay.measured > 1e-6, "{quality:?}");
        assert_eq!(quality.throughput_bps, None, "not agreed");
        red(delay.zone) && red(quality.zone) && loss.zone == Zone::Green
    };
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Second(it) if it.quality.as_ref().is_some_and(is_told)))
        .await;
    // Its reports carry it to the source, where others ask.
    let reported = async {
        loop {
            let members = get_stats(server.addr, None).await.unwrap();
            let report = members.first().and_then(|it| it.report);
            if report
                .and_then(|it| it.quality)
                .is_some_and(|it| is_told(&it))
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reported)
        .await
        .expect("the source hears of it");
    receiver.stop().await;

    // One that is not watched says nothing.
    let mut config = join_config(server.addr, sink("blind", 12, Carriage::Datagrams));
    config.monitor = false;
    let mut receiver = join(config);
    receiver
        .wait_for(|event| {
            assert!(!matches!(event, JoinEvent::Zone(_)), "{event:?}");
            matches!(event, JoinEvent::Second(it) if it.frames.base > 4 && it.quality.is_none())
        })
        .await;
    receiver.stop().await;
    server.stop().await;
}
