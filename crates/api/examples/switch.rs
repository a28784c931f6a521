//! A switch inside a program: a source, a switch with a narrow and a wide link, and a receiver on each.
//!
//! Prints the frames of each layer that each receiver got. The narrow link carries the base layer and E1.

use std::error::Error;
use std::sync::Arc;

use layercast::link::LinkConfig;
use layercast::net::{Identity, Neighbour, NodeConfig, Remote, Trust};
use layercast::switch::{PortConfig, SwitchConfig};
use layercast::{Frame, Group, Join, NodeId, PerLayer, Rate, Server, Span};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // 24 frames/s in GOPs of 12: 1 of the base layer, 3 of E1, 8 of E2; about 64, 58 and 154 kbit/s.
    let source = node("source", 1, Vec::new())?;
    let upstream = source.trust;
    let source = Server::run(source.config).await?;
    let group = source.open_group(Group::new("film").wait_for(2)).await?;

    let mut switch = node(
        "switch",
        2,
        vec![Remote::protected(source.local_addr(), upstream)],
    )?;
    let narrow = PortConfig {
        rate: Some(Rate::from_bps(240_000)),
        ..port("narrow")
    };
    let narrow = Neighbour {
        port: narrow,
        link: LinkConfig::default(),
    };
    switch.config.ports.insert("narrow".into(), narrow);
    let fingerprint = switch.fingerprint;
    let switch = Server::run(switch.config).await?;
    let url = format!("layercasts://{}/film?fp={fingerprint}", switch.local_addr());

    let receivers = ["narrow", "wide"].map(|name| tokio::spawn(receive(url.clone(), name)));
    for n in 0..240u8 {
        group
            .send(match n % 12 {
                0 => Frame::base(vec![n; 4_000]),
                3 | 6 | 9 => Frame::e1(vec![n; 1_200]),
                _ => Frame::e2(vec![n; 1_200]),
            })
            .await?;
    }
    group.close(Span::from_secs(5)).await?;
    for receiver in receivers {
        let (name, frames) = receiver.await??;
        println!(
            "{name}: {} BL, {} E1, {} E2",
            frames.base, frames.e1, frames.e2
        );
    }
    Ok(())
}

async fn receive(
    url: String,
    name: &'static str,
) -> layercast::Result<(&'static str, PerLayer<u32>)> {
    let (mut media, _control, _management) = Join::new(url).name(name).connect().await?;
    let mut frames = PerLayer::default();
    while let Some(frame) = media.recv().await {
        frames[frame.layer] += 1;
    }
    Ok((name, frames))
}

struct Node {
    config: NodeConfig,
    trust: Trust,
    fingerprint: String,
}

/// A node on a free port of this host, with an identity of its own.
fn node(name: &str, id: u32, upstreams: Vec<Remote>) -> Result<Node, Box<dyn Error>> {
    let identity = Identity::generate()?;
    let fingerprint = identity.fingerprint();
    let switch = SwitchConfig {
        name: name.into(),
        id: NodeId(id),
        ..SwitchConfig::default()
    };
    let mut config = NodeConfig::new(switch, "127.0.0.1:0".parse()?, port(""));
    config.identity = Some(Arc::new(identity));
    config.upstreams = upstreams;
    Ok(Node {
        config,
        trust: Trust::Node(fingerprint),
        fingerprint: fingerprint.to_string(),
    })
}

/// A link without a rate limit.
fn port(name: &str) -> PortConfig {
    PortConfig {
        name: name.into(),
        ..PortConfig::default()
    }
}
