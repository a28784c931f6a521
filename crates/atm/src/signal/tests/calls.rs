use super::*;
use crate::policy::ConversationType;

const HOP: Span = Span::from_ms(5);

fn contract() -> Service {
    Service::Guaranteed(ConversationType::Video.contract().unwrap())
}

#[test]
fn a_set_up_takes_one_round_trip() {
    for (processing, messages) in [(0, 0), (300, 6)] {
        let processing = Span::from_ms(processing);
        let config = ControllerConfig {
            processing,
            ..ControllerConfig::default()
        };
        let mut net = Net::line(4, HOP, config);
        let request = net.setup(0, 3, contract());
        net.settle();
        let answer = net.answer(0, request).unwrap();
        // Three nodes process the SETUP, three the CONNECT.
        assert_eq!(
            answer.at,
            Time::ZERO + HOP.times(6) + processing.times(messages)
        );
        let circuit = answer.what.unwrap();
        assert_eq!(net.follow(0, circuit), Some(3));
        let line = net.tables[1].values().next().unwrap();
        assert_eq!((line.class, line.service), (Class::Level(3), contract()));
        assert_eq!(net.nodes[1].admission().held.len(), 1);

        net.release(0, circuit);
        net.settle();
        net.assert_empty();
        assert!(net.lost.is_empty());
    }
}

#[test]
fn circuits_of_both_directions_and_of_many_calls_stay_apart() {
    let mut net = Net::line(3, HOP, ControllerConfig::default());
    let requests: Vec<_> = (0..20)
        .map(|n| {
            (
                n % 2 * 2,
                net.setup(n % 2 * 2, 2 - n % 2 * 2, Service::Priority(1)),
            )
        })
        .collect();
    net.settle();
    let mut circuits = BTreeSet::new();
    for (host, request) in requests {
        let circuit = net.answer(host, request).unwrap().what.unwrap();
        assert_eq!(net.follow(host, circuit), Some(2 - host));
        assert!(circuits.insert((host, circuit)));
    }
    assert_eq!(net.nodes[1].stats().vcids, 20);
}

#[test]
fn a_refusal_releases_the_reservations_on_the_path() {
    // Hosts 0 and 3 both send through the link from 1 to 2, which admits three contracts.
    let mut net = Net::tree(
        &[(0, 1), (3, 1), (1, 2), (2, 4)],
        HOP,
        ControllerConfig::default(),
    );
    let first: Vec<_> = (0..3).map(|_| net.setup(3, 4, contract())).collect();
    net.settle();
    let refused = net.setup(0, 4, contract());
    net.settle();
    let cause = RejectCause::Capacity(3);
    assert_eq!(net.answer(0, refused).unwrap().what, Err(cause));
    assert_eq!(net.nodes[0].stats().vcids, 0);
    assert!(net.nodes[0].admission().held.is_empty());
    // Best effort and priorities are never refused.
    for service in [Service::BestEffort, Service::Priority(0)] {
        let request = net.setup(0, 4, service);
        net.settle();
        let circuit = net.answer(0, request).unwrap().what.unwrap();
        net.release(0, circuit);
    }
    for request in first {
        let circuit = net.answer(3, request).unwrap().what.unwrap();
        net.release(3, circuit);
    }
    net.settle();
    net.assert_empty();
}

#[test]
fn unknown_destinations_are_refused_where_the_way_ends() {
    let mut net = Net::line(4, HOP, ControllerConfig::default());
    let nowhere = AtmAddress(9);
    net.nodes[0].add_route(nowhere, PortId(1));
    net.nodes[1].add_route(nowhere, PortId(2));
    let far = net.setup(0, 9, Service::BestEffort);
    let near = net.setup(3, 9, Service::BestEffort);
    let own = net.setup(0, 0, Service::BestEffort);
    let at_a_switch = net.setup(1, 3, Service::BestEffort);
    net.settle();
    let cause = Err(RejectCause::UnknownDestination);
    assert_eq!(net.answer(0, far).unwrap().at, Time::ZERO + HOP.times(4));
    for (node, request) in [(0, far), (3, near), (0, own), (1, at_a_switch)] {
        assert_eq!(net.answer(node, request).unwrap().what, cause);
    }
    net.assert_empty();
}

#[test]
fn a_circle_of_routes_ends_in_a_refusal() {
    // Two switches send the calls for 9 round a loop of three nodes.
    let mut net = Net::tree(
        &[(0, 1), (1, 2), (2, 3), (3, 4)],
        HOP,
        ControllerConfig::default(),
    );
    for (a, b) in [(1, 3), (3, 1)] {
        net.nodes[a].add_port(PortId(b as u16));
        net.peers
            .insert((a, PortId(b as u16)), (b, PortId(a as u16)));
    }
    for (node, next) in [(0, 1), (1, 2), (2, 3), (3, 1)] {
        net.nodes[node].add_route(AtmAddress(9), PortId(next));
    }
    let request = net.setup(0, 9, Service::BestEffort);
    net.settle();
    let cause = Err(RejectCause::UnknownDestination);
    assert_eq!(net.answer(0, request).unwrap().what, cause);
    net.assert_empty();
}

#[test]
fn circuit_numbers_run_out_and_rest_before_they_come_again() {
    let config = ControllerConfig {
        max_vcs: 2,
        ..ControllerConfig::default()
    };
    let mut net = Net::tree(&[(0, 1), (3, 1), (1, 2), (2, 4)], HOP, config);
    let requests = [
        net.setup(0, 4, Service::BestEffort),
        net.setup(3, 4, Service::BestEffort),
    ];
    net.settle();
    let third = net.setup(0, 4, Service::BestEffort);
    net.settle();
    assert_eq!(net.answer(0, third).unwrap().what, Err(RejectCause::NoVcid));
    let circuit = net.answer(0, requests[0]).unwrap().what.unwrap();
    net.release(0, circuit);
    net.settle();
    for (pause, ok) in [(4, false), (2, true)] {
        let later = net.now + Span::from_secs(pause);
        net.run(later);
        let request = net.setup(0, 4, Service::BestEffort);
        net.settle();
        assert_eq!(net.answer(0, request).unwrap().what.is_ok(), ok);
    }
}

#[test]
fn a_full_channel_refuses_further_calls() {
    let mut config = ControllerConfig::default();
    config.channel.queue = 2;
    let mut net = Net::line(3, HOP, config);
    let requests = [(); 3].map(|()| net.setup(0, 2, Service::BestEffort));
    let third = net.answer(0, requests[2]).unwrap().what;
    assert_eq!(third, Err(RejectCause::Congested));
    net.settle();
    for request in &requests[..2] {
        let circuit = net.answer(0, *request).unwrap().what.unwrap();
        net.release(0, circuit);
    }
    net.settle();
    net.assert_empty();
}

#[test]
fn the_watchdog_undoes_an_unanswered_call() {
    let mut net = Net::line(4, HOP, ControllerConfig::default());
    let request = net.setup(0, 3, contract());
    // The SETUP reaches node 2; then all cells are lost for 100 s.
    net.run(Time::ZERO + HOP + HOP);
    net.loss = 1.0;
    net.run(Time::ZERO + Span::from_secs(100));
    let answer = net.answer(0, request).unwrap();
    assert_eq!(answer.what, Err(RejectCause::Timeout));
    assert_eq!(answer.at, Time::ZERO + Span::from_secs(60));
    net.loss = 0.0;
    net.settle();
    net.assert_empty();
    assert!((0..3).all(|node| net.nodes[node].stats().timeouts == 1));
}

#[test]
fn release_and_connect_may_cross_anywhere() {
    // The time limit of the caller ends while the CONNECT is in transit, at every place on its path.
    for patience in (1..31).step_by(2) {
        let config = ControllerConfig {
            watchdog: Span::from_ms(patience),
            ..ControllerConfig::default()
        };
        let mut net = Net::line(4, HOP, config);
        let request = net.setup(0, 3, contract());
        net.settle();
        let timeout = Err(RejectCause::Timeout);
        assert_eq!(
            net.answer(0, request).unwrap().what,
            timeout,
            "{patience} ms"
        );
        net.assert_empty();
    }
}

#[test]
fn a_circuit_that_the_network_takes_away_is_lost() {
    let mut net = Net::line(3, HOP, ControllerConfig::default());
    let request = net.setup(0, 2, Service::BestEffort);
    net.settle();
    let (port, vc) = net.answer(0, request).unwrap().what.unwrap();
    // Node 2 revokes the circuit: its next message to node 1 is a REJECT.
    let message = Message {
        call: CallId {
            origin: AtmAddress(0),
            number: 0,
        },
        body: Body::Reject(RejectCause::Congested),
    };
    let cell = SignalCell::Data { seq: 1, message };
    net.handle(
        1,
        ControllerInput::Cell {
            port: PortId(2),
            cell,
        },
    );
    net.flying.retain(|_, (node, ..)| *node != 2);
    net.run(net.now + HOP.times(3));
    assert_eq!(net.lost, [(0, port, vc)]);
    assert_eq!(
        (net.nodes[0].stats().calls, net.nodes[1].stats().calls),
        (0, 0)
    );
    assert!(net.tables[0].is_empty() && net.tables[1].is_empty());
}
