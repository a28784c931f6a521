//! Messages between a member and the source of its flow, and what the source learns of leaving
//! members, through several switches.

use crate::common::ends::{Receiver, Source};
use crate::common::{Net, link, ms};
use layercast_core::{FlowId, Level, NodeId, PortId};
use layercast_mets::switch::{PortConfig, SwitchInput};
use layercast_wire::{Carriage, Control, Downward, Member, Signal, Upward};

const FLOW: FlowId = FlowId(1);

fn wide() -> PortConfig {
    link(Carriage::Datagrams, 100_000)
}

/// atc -- chuff -- rook; dwp and njy behind rook, mr-little at chuff.
fn net() -> Net {
    let mut net = Net::default();
    let [atc, chuff, rook] = ["atc", "chuff", "rook"].map(|name| net.node(name));
    net.wire(atc, chuff, wide());
    net.wire(chuff, rook, wide());
    net.source(atc, Source::canyon(1, Carriage::Datagrams));
    for (node, name) in [(rook, "dwp"), (rook, "njy"), (chuff, "mr-little")] {
        let receiver = Receiver::new(name, 1, Level::FULL, Carriage::Datagrams);
        net.receiver(node, receiver, wide());
    }
    net.run(ms(1_000));
    net
}

fn message(number: u32) -> Control {
    Control::Data {
        session: 1,
        number,
        oldest: 0,
        data: b"pause".to_vec().into(),
    }
}

fn to_source(member: &Member, number: u32) -> Signal {
    Signal::ToSource {
        flow: FLOW,
        member: member.clone(),
        body: Upward::App(message(number)),
    }
}

/// Lets a receiver say something on its own channel.
fn say(net: &mut Net, receiver: usize, signal: Signal) {
    let (node, port) = (net.receivers[receiver].node, net.receivers[receiver].port);
    net.inject(node, SwitchInput::Signal { port, signal });
    let until = net.now + layercast_core::Span::from_ms(50);
    net.run(until);
}

fn rejected(net: &Net) -> u64 {
    let switches = (0..net.nodes.len()).map(|node| net.switch(node).stats());
    switches.map(|stats| stats.rejected_signals.member).sum()
}

#[test]
fn a_message_reaches_the_source_and_the_answer_only_its_member() {
    let mut net = net();
    for (number, receiver) in [0usize, 1, 2].into_iter().enumerate() {
        let member = net.receivers[receiver].member.clone();
        say(&mut net, receiver, to_source(&member, number as u32));
    }
    let heard: Vec<&str> = net.sources[0]
        .1
        .heard
        .iter()
        .map(|(name, _)| &name[..])
        .collect();
    assert_eq!(heard, ["dwp", "njy", "mr-little"]);
    for (number, receiver) in net.receivers.iter().enumerate() {
        let answer = (
            receiver.member.name.clone(),
            Downward::App(message(number as u32)),
        );
        assert_eq!(receiver.heard, [answer]);
    }
    assert_eq!(rejected(&net), 0);
}

#[test]
fn nobody_speaks_for_another_nor_hears_what_is_meant_for_him() {
    let mut net = net();
    let dwp = net.receivers[0].member.clone();
    // At the same switch, and further up.
    for thief in [1, 2] {
        say(&mut net, thief, to_source(&dwp, 0));
        let (flow, member) = (FLOW, dwp.clone());
        say(
            &mut net,
            thief,
            Signal::Left {
                flow,
                member: member.clone(),
            },
        );
        say(&mut net, thief, Signal::Leave { flow, member });
    }
    assert_eq!(net.sources[0].1.heard, []);
    assert!(net.sources[0].1.left.is_empty());
    assert_eq!(rejected(&net), 4);
    say(&mut net, 0, to_source(&dwp, 7));
    assert_eq!(net.receivers[0].heard.len(), 1);
    assert!(net.receivers[1].heard.is_empty() && net.receivers[2].heard.is_empty());
}

#[test]
fn messages_of_and_for_nobody_are_counted() {
    let mut net = net();
    let ghost = Member {
        name: "ghost".into(),
        id: NodeId(66),
    };
    let body = || Downward::App(message(0));
    let to_ghost = Signal::ToMember {
        flow: FLOW,
        member: ghost.clone(),
        body: body(),
    };
    net.inject(
        0,
        SwitchInput::Signal {
            port: PortId::LOCAL,
            signal: to_ghost,
        },
    );
    net.run(ms(1_050));
    assert_eq!(rejected(&net), 1);
    // Downward messages must come from the port towards the source.
    let member = net.receivers[1].member.clone();
    say(
        &mut net,
        0,
        Signal::ToMember {
            flow: FLOW,
            member,
            body: body(),
        },
    );
    assert_eq!(rejected(&net), 2);
    assert!(net.receivers[1].heard.is_empty());
    // A receiver that has not joined has no partner.
    net.leave(0);
    net.run(ms(2_000));
    let dwp = net.receivers[0].member.clone();
    let unknown = net.switch(2).stats().rejected_signals.unknown;
    say(&mut net, 0, to_source(&dwp, 0));
    assert_eq!(net.switch(2).stats().rejected_signals.unknown, unknown + 1);
    assert_eq!(net.sources[0].1.heard, []);
}

#[test]
fn the_source_learns_of_each_member_that_leaves_whoever_stays() {
    let mut net = net();
    // rook joined in the name of dwp, chuff in that of dwp or mr-little; both stay in the tree.
    net.leave(0);
    net.run(ms(1_500));
    assert_eq!(net.sources[0].1.left, ["dwp"]);
    assert_eq!(net.sources[0].1.leaves, 0);
    net.leave(2);
    net.run(ms(2_000));
    assert_eq!(net.sources[0].1.left, ["dwp", "mr-little"]);
    net.leave(1);
    net.run(ms(2_500));
    assert_eq!(net.sources[0].1.left, ["dwp", "mr-little", "njy"]);
    assert_eq!(net.sources[0].1.leaves, 1);
    assert_eq!(rejected(&net), 0);
}

#[test]
fn whoever_is_cut_off_with_his_switch_has_left() {
    let mut net = net();
    net.kill(2);
    net.run(ms(6_000));
    let mut left = net.sources[0].1.left.clone();
    left.sort();
    // njy never said anything that chuff heard of.
    assert_eq!(left, ["dwp"]);
    net.restart(2);
    net.run(ms(8_000));
    let njy = net.receivers[1].member.clone();
    say(&mut net, 1, to_source(&njy, 0));
    assert_eq!(net.receivers[1].heard.len(), 1, "the way is found again");
}

#[test]
fn members_heard_of_are_bounded() {
    let mut net = net();
    for id in 0..5_000 {
        let member = Member {
            name: format!("m{id}"),
            id: NodeId(id),
        };
        let (node, port) = (net.receivers[2].node, net.receivers[2].port);
        let signal = to_source(&member, 0);
        net.inject(node, SwitchInput::Signal { port, signal });
    }
    net.run(ms(1_500));
    let heard = net.sources[0].1.heard.len();
    assert!(heard < 4_096, "{heard}");
    assert_eq!(rejected(&net), 5_000 - heard as u64);
}
