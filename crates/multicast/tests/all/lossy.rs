//! Paths that lose 30 % of all packets each way: a receiver that is there is not taken for dead.

use layercast_core::{Rate, Span};
use layercast_fec::Scheme;
use layercast_multicast::{Memory, Opening, Outcome, Sender, SenderConfig};

use crate::net::{Faults, Net, PERFECT};
use crate::object::{content, listed, stores};
use crate::stream::{Users, stream};

const LOSSY: Faults = Faults {
    loss: 0.3,
    ..PERFECT
};
const RECEIVERS: u32 = 3;

/// As the command opens sessions.
fn opened(config: SenderConfig) -> SenderConfig {
    SenderConfig {
        opening: Opening {
            tries: 20,
            wait: Span::from_ms(250),
            copies: 1,
        },
        ..config
    }
}

#[test]
fn objects_of_the_profile_of_rmtp_arrive() {
    for seed in 0..20 {
        let config = opened(SenderConfig::rmtp().persistent());
        let source = Memory::new("x", content(100_000), None);
        let sender = Sender::object(seed, config, listed(RECEIVERS), source).unwrap();
        let mut net = Net::new(sender, stores(RECEIVERS), LOSSY, seed);
        net.delay = Span::from_ms(10);
        net.start();
        net.run();
        let outcomes: Vec<Outcome> = net.sender.deliveries().map(|it| it.outcome).collect();
        assert_eq!(outcomes, [Outcome::Delivered; 3], "seed {seed}");
        assert_eq!(net.result(), Some(Ok(())), "seed {seed}");
    }
}

/// With half of all packets lost each way one announcement in four is answered: ten of them miss a receiver in 18 sessions.
#[test]
fn a_session_opens_where_half_is_lost_each_way() {
    for seed in 0..200 {
        let mut config = SenderConfig::layercast(Rate::from_bps(100_000_000));
        config.opening.tries = 10;
        config.opening.wait = Span::from_ms(200);
        let scheme = Scheme::from_number(config.scheme);
        let source = Memory::new("x", content(10_000), scheme);
        let sender = Sender::object(seed, config, listed(RECEIVERS), source).unwrap();
        let half = Faults {
            loss: 0.5,
            ..PERFECT
        };
        let mut net = Net::new(sender, stores(RECEIVERS), half, seed);
        net.delay = Span::from_ms(10);
        net.start();
        net.run();
        let outcomes: Vec<Outcome> = net.sender.deliveries().map(|it| it.outcome).collect();
        assert_eq!(outcomes, [Outcome::Delivered; 3], "seed {seed}");
    }
}

#[test]
fn the_loss_of_a_receiver_is_that_of_its_path() {
    let config = opened(SenderConfig::layercast(Rate::from_bps(100_000_000)));
    let scheme = Scheme::from_number(config.scheme);
    let source = Memory::new("x", content(1_000_000), scheme);
    let sender = Sender::object(7, config, listed(RECEIVERS), source).unwrap();
    let mut net = Net::new(sender, stores(RECEIVERS), LOSSY, 7);
    net.delay = Span::from_ms(10);
    net.start();
    net.run();
    for delivery in net.sender.deliveries() {
        assert_eq!(delivery.outcome, Outcome::Delivered);
        let loss = f64::from(delivery.loss) / 65_535.0;
        assert!((0.25..0.35).contains(&loss), "{loss}");
    }
}

#[test]
fn streams_of_the_profile_of_frm_arrive() {
    for seed in 0..20 {
        let config = opened(SenderConfig::frm().persistent());
        let mut net = stream(config, 1, LOSSY, seed);
        net.start();
        let mut users = Users::new(1, 200);
        while !net.sender.is_closed() {
            assert!(net.now.as_secs_f64() < 600.0, "it does not end");
            users.run(&mut net, 1_000);
        }
        assert_eq!(net.result(), Some(Ok(())), "seed {seed}");
        assert_eq!(users.taken, [200], "seed {seed}");
    }
}
