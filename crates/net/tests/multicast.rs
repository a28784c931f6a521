//! A port that is an IP multicast group: one datagram for all its members.

mod common;

use std::net::{Ipv4Addr, SocketAddrV4};

use common::{join, join_config, port, server, sink, start};
use layercast_core::Level;
use layercast_net::{GroupPort, Neighbour};
use layercast_switch::{LinkConfig, PortConfig};
use layercast_wire::Carriage;

async fn two_members(carriage: Carriage, group: SocketAddrV4) {
    let mut config = server(carriage, 4);
    config.groups.push(GroupPort {
        link: Neighbour {
            port: PortConfig {
                name: "lan".into(),
                ..port(carriage, None)
            },
            link: LinkConfig::default(),
        },
        group,
        interface: Ipv4Addr::LOCALHOST,
        members: vec!["left".into(), "right".into()],
    });
    let server = start(config).await;
    let member = |name, id| {
        let mut config = join_config(server.addr, sink(name, id, carriage));
        config.group = Some((group, Ipv4Addr::LOCALHOST));
        join(config)
    };
    let members = [member("left", 11), member("right", 12)];
    let mut datagrams = Vec::new();
    for member in members {
        let summary = member.end().await.unwrap();
        let receiver = &summary.receiver;
        assert!(receiver.frames.base > 8, "{receiver:#?}");
        assert_eq!((receiver.lost.base, receiver.late_base), (0, 0));
        let highest = receiver.received.iter().map(|(_, level)| *level).max();
        assert_eq!(highest, Some(Level::FULL), "{receiver:#?}");
        datagrams.push(summary.udp.received);
    }
    let server = server.stop().await;
    assert_eq!(server.switch.ports.len(), 2, "the inner one and the group");
    assert!(
        server.udp.sent < datagrams[0] * 3 / 2,
        "{} were sent for {datagrams:?}",
        server.udp.sent
    );
}

#[tokio::test]
async fn one_datagram_reaches_two_members() {
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 1), 47_801);
    two_members(Carriage::Datagrams, group).await;
}

#[tokio::test]
async fn one_cell_reaches_two_members() {
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 2), 47_802);
    two_members(Carriage::Cells, group).await;
}
