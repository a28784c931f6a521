//! Parities of the base layer over a port that loses packets: counts only, which no slow machine changes.

use crate::common::{join, join_config, link_to, port, server, sink, start};
use layercast_link::Loss;
use layercast_wire::Carriage;

#[tokio::test]
async fn what_a_lossy_port_takes_from_the_base_layer_comes_back_out_of_parities() {
    let mut config = server(Carriage::Datagrams, 4);
    config.sources[0].config.parities = Some("6+2".parse().unwrap());
    link_to(&mut config, "far", port(Carriage::Datagrams, None));
    if let Some(far) = config.ports.get_mut("far") {
        far.link.loss = Loss::Bernoulli { p: 0.25 };
    }
    let server = start(config).await;
    let far = join(join_config(
        server.addr,
        sink("far", 11, Carriage::Datagrams),
    ));
    let summary = far.end().await.unwrap();
    server.stop().await;
    let repair = summary.receiver.repair.expect("the flow has parities");
    // A quarter of some hundred packets: that none of them was in a block with enough left does not happen.
    assert!(repair.parities > 0 && repair.recovered > 0, "{repair:?}");
    assert_eq!((repair.malformed, repair.corrupt), (0, 0), "{repair:?}");
}
