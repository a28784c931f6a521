//! Groups to begin with.

use layercast_core::{Rate, Span, Time};
use layercast_multicast::SenderConfig;
use layercast_sim::group::{
    Branch, Content, Group, GroupSummary, HostSpec, Invited, LinkSpec, Loss, Simulation,
};

/// A link that loses packets on their way down, 50 ms long.
pub fn link(loss: f64) -> LinkSpec {
    LinkSpec {
        loss: Loss::Independent(loss),
        back_loss: 0.0,
        cells: false,
        hops: 1,
        delay: (Span::from_ms(50), Span::from_ms(50)),
        rate: None,
        queue: 0,
    }
}

/// Receivers at the end of links.
pub fn receivers(parent: Option<usize>, link: LinkSpec, count: u32) -> Branch {
    Branch {
        name: "receiver".to_owned(),
        parent,
        link,
        count,
        region: 0,
        receiver: Some(HostSpec::default()),
        aggregates: false,
    }
}

/// An object of `packets` packets for all in a star.
pub fn star(sender: SenderConfig, packets: u64, count: u32, loss: f64) -> Group {
    let octets = packets * u64::from(sender.packet_size);
    Group {
        name: "star".to_owned(),
        seed: 1,
        until: Time::ZERO + Span::from_secs(36_000),
        most_events: u64::MAX,
        branches: vec![receivers(None, link(loss), count)],
        edges: Vec::new(),
        cross: Vec::new(),
        source: HostSpec::default(),
        sender,
        invited: Invited::Listed,
        content: Content::Object { octets },
        faults: Vec::new(),
        per_receiver: false,
    }
}

pub fn run(group: Group) -> GroupSummary {
    let mut simulation = Simulation::new(group).unwrap();
    simulation.run(|_| true);
    simulation.summary()
}

pub fn layercast() -> SenderConfig {
    SenderConfig::layercast(Rate::from_bps(8_000_000))
}
