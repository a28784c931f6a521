//! XTP from one to many over sockets: UDP multicast on the loopback interface, and copies where there is none.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use bytes::Bytes;
use layercast_net::{XtpAssociation, XtpHost, XtpNode};
use layercast_wire::XtpService;
use layercast_xtp::remote::ServerLimits;
use layercast_xtp::{SendOptions, XtpConfig};
use tokio::time::timeout;

use crate::common::localhost;
use crate::common::xtpd::Serving;

const PORT: u16 = 7_000;
const SERVICE: XtpService = XtpService::RELIABLE_MULTICAST;
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn host() -> XtpHost {
    XtpHost::new(XtpNode::udp(localhost()).unwrap())
}

/// A group of its own for each test: the port is that of a socket that was free.
fn group(last: u8) -> SocketAddrV4 {
    let port = host().local_addr().port();
    SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, last), port)
}

fn wait_for(receivers: u32) -> impl FnOnce(&mut XtpConfig) {
    move |config| config.group.wait_for = receivers
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), what)
        .await
        .expect("in time")
}

async fn all_of(it: &XtpAssociation) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(chunk) = it.receive(usize::MAX).await.unwrap() {
        assert!(!chunk.gap || out.is_empty());
        chunk.data.append_to(&mut out);
    }
    out
}

fn text(len: usize) -> Bytes {
    (0..len).map(|at| (at * 31 % 251) as u8).collect()
}

/// Four invited receivers, and a late one; every receiver gets everything from where it joined.
async fn one_to_many(group: SocketAddrV4, fan_out: bool) {
    let near = host();
    let hosts: Vec<_> = (0..5).map(|_| host()).collect();
    if fan_out {
        let all = hosts.iter().map(XtpHost::local_addr).collect();
        near.fan_out(group.into(), all).unwrap();
    } else {
        for host in hosts.iter().chain([&near]) {
            host.join_group(group, HERE).unwrap();
            host.send_to_groups(HERE, 0).unwrap();
        }
    }
    let to = match fan_out {
        true => near.local_addr(),
        false => group.into(),
    };
    transfer(group, to, &near, &hosts).await;
}

/// A late receiver requests admission at `to`.
async fn transfer(group: SocketAddrV4, to: SocketAddr, near: &XtpHost, hosts: &[XtpHost]) {
    let (late, early) = hosts.split_last().unwrap();
    let mut invited = Vec::new();
    for host in early {
        let listener = host.register(SERVICE).bind(PORT).listen(4).await.unwrap();
        invited.push(tokio::spawn(async move {
            let it = listener.accept().await.unwrap();
            drop(listener);
            (it.joined().await.unwrap(), all_of(&it).await)
        }));
    }
    let it = near
        .register(SERVICE)
        .configure(wait_for(4))
        .connect(group.into(), PORT)
        .unwrap();
    in_time(it.connected()).await.unwrap();
    let (first, second) = (text(300_000), text(500_000));
    in_time(it.send(first.clone(), &SendOptions::MESSAGE))
        .await
        .unwrap();
    in_time(it.settled()).await.unwrap();
    let late = late.register(SERVICE).join(to, PORT).unwrap();
    assert_eq!(in_time(late.joined()).await.unwrap(), 300_000);
    let late = tokio::spawn(async move { all_of(&late).await });
    in_time(it.send(second.clone(), &SendOptions::MESSAGE))
        .await
        .unwrap();
    it.close_write().unwrap();
    assert_eq!(in_time(it.parted(5)).await.unwrap(), (5, 0));
    for it in invited {
        let (from, got) = in_time(it).await.unwrap();
        assert_eq!(from, 0);
        assert!(got == [&first[..], &second].concat());
    }
    assert!(in_time(late).await.unwrap() == second);
    in_time(it.close()).await.unwrap();
    assert_eq!(near.stats().await.unwrap().lost_receivers, 0);
}

#[tokio::test]
async fn a_group_of_udp_on_this_machine() {
    one_to_many(group(1), false).await;
}

#[tokio::test]
async fn copies_where_the_network_has_no_multicast() {
    one_to_many(group(2), true).await;
}

#[tokio::test]
async fn a_group_that_daemons_have_joined() {
    let group = group(3);
    let daemon = || {
        let mut node = XtpNode::udp(localhost()).unwrap();
        node.join_group(group, HERE).unwrap();
        node.send_to_groups(HERE, 0).unwrap();
        Serving::with(node, ServerLimits::default())
    };
    let daemons: Vec<_> = (0..6).map(|_| daemon()).collect();
    let mut hosts = Vec::new();
    for daemon in &daemons {
        hosts.push(daemon.host().await);
    }
    let near = hosts.pop().unwrap();
    transfer(group, group.into(), &near, &hosts).await;
    // Which groups there are is not for one of many users to say.
    assert!(near.join_group(group, HERE).is_err());
    assert!(near.fan_out(group.into(), Vec::new()).is_err());
}
