//! A port that is an IP multicast group: one datagram for all its members.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::neighbour::{Neighbour, identity, trusted};
use crate::common::{join, join_config, port, real_time, server, sink, start, switch};
use layercast_core::Level;
use layercast_link::LinkConfig;
use layercast_mets::switch::PortConfig;
use layercast_net::{GroupPort, Identity, JoinEvent, NodeEvent};
use layercast_wire::Carriage;

fn lan(carriage: Carriage) -> layercast_net::Neighbour {
    layercast_net::Neighbour {
        port: PortConfig {
            name: "lan".into(),
            ..port(carriage, None)
        },
        link: LinkConfig::default(),
    }
}

async fn two_members(carriage: Carriage, group: SocketAddrV4, own: Option<Arc<Identity>>) {
    let mut config = server(carriage, 4);
    config.identity.clone_from(&own);
    config.groups.push(GroupPort {
        link: lan(carriage),
        group,
        interface: Ipv4Addr::LOCALHOST,
        members: vec!["left".into(), "right".into()],
    });
    let server = start(config).await;
    let member = |name, id| {
        let mut config = join_config(server.addr, sink(name, id, carriage));
        config.group = Some((group, Ipv4Addr::LOCALHOST));
        if let Some(own) = &own {
            config.upstream = trusted(server.addr, own);
        }
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
        assert_eq!((summary.udp.forged, summary.udp.replayed), (0, 0));
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

fn group(last: u8, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, last), port)
}

#[real_time(tokio)]
async fn one_datagram_reaches_two_members() {
    two_members(Carriage::Datagrams, group(1, 47_801), None).await;
}

#[real_time(tokio)]
async fn one_cell_reaches_two_members() {
    two_members(Carriage::Cells, group(2, 47_802), None).await;
}

#[real_time(tokio)]
async fn one_sealed_datagram_reaches_two_members() {
    let own = Some(identity());
    two_members(Carriage::Datagrams, group(3, 47_803), own).await;
}

#[real_time(tokio)]
async fn who_has_left_a_group_soon_opens_nothing_more() {
    let own = identity();
    let group = group(4, 47_804);
    let mut config = server(Carriage::Datagrams, 60);
    config.identity = Some(Arc::clone(&own));
    config.groups.push(GroupPort {
        link: lan(Carriage::Datagrams),
        group,
        interface: Ipv4Addr::LOCALHOST,
        members: vec!["stays".into(), "leaves".into()],
    });
    let server = start(config).await;
    let mut stays = join_config(server.addr, sink("stays", 11, Carriage::Datagrams));
    stays.group = Some((group, Ipv4Addr::LOCALHOST));
    stays.upstream = trusted(server.addr, &own);
    let stays = join(stays);

    let mut leaves = Neighbour::call(server.addr, &own, &identity(), "leaves").await;
    leaves.listen_to(group);
    leaves.join("film").await;
    leaves.media_until(|kinds| kinds.base > 0).await;
    let mut ears = leaves.hang_up();
    ears.refused_until_nothing_opens().await;
    // The one that stays has the new key.
    let summary = stays.stop().await;
    assert_eq!((summary.udp.forged, summary.udp.replayed), (0, 0));
    assert_eq!(
        (summary.receiver.lost.base, summary.receiver.late_base),
        (0, 0)
    );
    server.stop().await;
}

#[real_time(tokio)]
async fn a_member_of_a_group_that_listens_elsewhere_is_told_where_and_a_stranger_to_it_too() {
    let mut config = server(Carriage::Datagrams, 20);
    let theirs = group(5, 47_805);
    config.groups.push(GroupPort {
        link: lan(Carriage::Datagrams),
        group: theirs,
        interface: Ipv4Addr::LOCALHOST,
        members: vec!["ann".into(), "below".into()],
    });
    let server = start(config).await;
    for own in [None, Some(group(6, 47_806))] {
        let mut config = join_config(server.addr, sink("ann", 11, Carriage::Datagrams));
        config.group = own.map(|own| (own, Ipv4Addr::LOCALHOST));
        let begun = Instant::now();
        let error = join(config).end().await.unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(1), "immediately");
        let said = format!("sends the media of ann to {theirs}: join with --multicast {theirs}");
        assert!(error.to_string().contains(&said), "{error}");
    }
    // Another name gets its media by unicast, and hears so.
    let mut config = join_config(server.addr, sink("cat", 12, Carriage::Datagrams));
    config.group = Some((theirs, Ipv4Addr::LOCALHOST));
    let mut cat = join(config);
    let mut is_told = false;
    while let Some(event) = cat.events.recv().await {
        match event {
            JoinEvent::NotInGroup { name, group, .. } => {
                is_told = (name.as_str(), group) == ("cat", theirs);
            }
            JoinEvent::Joined(_) => break,
            _ => {}
        }
    }
    assert!(is_told);
    cat.stop().await;
    // A switch cannot be a member.
    let mut below = start(switch("below", 9, Carriage::Datagrams, &[server.addr])).await;
    let reason = loop {
        if let NodeEvent::Failed { reason, .. } = below.events.recv().await.unwrap() {
            break reason;
        }
    };
    assert!(reason.contains("take below off the list"), "{reason}");
    below.stop().await;
    server.stop().await;
}
