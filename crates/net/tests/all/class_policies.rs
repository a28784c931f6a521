//! Ports that discard by class: the policies of the shared buffer in front of real sockets.

use layercast_atm::SharedPolicy;
use layercast_core::CellRate;
use layercast_link::{Discard, QueueConfig};
use layercast_mets::switch::PortConfig;
use layercast_wire::Carriage;

use crate::common::{join, join_config, link_to, port, real_time, server, sink, start, switch};

const DATAGRAMS: Carriage = Carriage::Datagrams;

/// A line for two thirds of the film, whose level no adapter lowers: the queue alone decides what is lost.
fn crowded(policy: SharedPolicy) -> PortConfig {
    PortConfig {
        queue: QueueConfig::of_limit(400),
        adapt_capacity: Some(CellRate(100_000)),
        discard: Discard {
            classes: Some(policy),
            ..Discard::default()
        },
        ..port(DATAGRAMS, Some(1_500))
    }
}

#[real_time(tokio)]
async fn a_port_that_knows_classes_loses_enhancements_and_one_that_does_not_loses_all() {
    let server = start(server(DATAGRAMS, 5)).await;
    let mut config = switch("chuff", 2, DATAGRAMS, &[server.addr]);
    let policies = [
        ("fifo", SharedPolicy::Fifo),
        ("exclp", SharedPolicy::ExClp),
        ("whole", SharedPolicy::WholeGops),
    ];
    for (name, policy) in policies {
        link_to(&mut config, name, crowded(policy));
    }
    let chuff = start(config).await;
    let joined = policies.map(|(name, _)| {
        let id = 11 + name.len() as u32;
        join(join_config(chuff.addr, sink(name, id, DATAGRAMS)))
    });
    let mut found = Vec::new();
    for receiver in joined {
        let receiver = receiver.end().await.unwrap().receiver;
        assert!(receiver.frames.base > 2, "{receiver:#?}");
        found.push(receiver.lost);
    }
    server.stop().await;
    chuff.stop().await;
    let [fifo, exclp, whole] = &found[..] else {
        panic!("three receivers");
    };
    // A third of all is lost, of any layer.
    assert!(fifo.base > 0 && fifo.e2 > 0, "{found:?}");
    // E2 is half of the rate.
    assert_eq!(exclp.base, 0, "{found:?}");
    assert!(exclp.e2 > fifo.e2, "{found:?}");
    assert!(whole.e1 + whole.e2 > 0, "{found:?}");
}
