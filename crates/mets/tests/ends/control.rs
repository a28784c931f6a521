//! The control socket (specs/mets.md 2.2): messages between the applications at both ends.

use crate::common::*;
use bytes::Bytes;
use layercast_core::NodeId;
use layercast_mets::{ControlError, SinkEvent, SinkInput, SourceEvent, SourceInput};
use layercast_wire::{Carriage, Control, Downward, MAX_APP, Member, Signal, Upward};

fn dwp() -> Member {
    Member {
        name: "dwp".into(),
        id: NodeId(2),
    }
}

fn text(n: usize) -> Bytes {
    Bytes::from(format!("seek {n}"))
}

fn at_source(world: &World) -> Vec<Bytes> {
    let message = |(_, event): &(_, SourceEvent)| match event {
        SourceEvent::Control { member, message } => {
            assert_eq!(*member, dwp());
            Some(message.clone())
        }
        _ => None,
    };
    world.source_events.iter().filter_map(message).collect()
}

fn at_sink(world: &World) -> Vec<Bytes> {
    let message = |(_, event): &(_, SinkEvent)| match event {
        SinkEvent::Control(message) => Some(message.clone()),
        _ => None,
    };
    world.events.iter().filter_map(message).collect()
}

#[test]
fn messages_pass_both_ways_in_order_even_across_a_break() {
    let mut world = World::perfect(Carriage::Datagrams, 60);
    // Before there is a way to the source messages wait.
    world.sink.send_control(world.now, text(0)).unwrap();
    world.run_until(ms(1_000));
    assert_eq!(at_source(&world), [text(0)]);
    let (mut up, mut down) = (1, 0);
    for step in 0..40 {
        // Signals are lost for a second now and then, and what was sent meanwhile with them.
        world.cut = step % 8 == 3;
        for _ in 0..2 {
            world.sink.send_control(world.now, text(up)).unwrap();
            world
                .source
                .send_control(world.now, &dwp(), text(down))
                .unwrap();
            (up, down) = (up + 1, down + 1);
        }
        world.run_until(ms(1_500 + step * 500));
    }
    world.cut = false;
    world.run_until(ms(28_000));
    assert_eq!(at_source(&world), (0..up).map(text).collect::<Vec<_>>());
    assert_eq!(at_sink(&world), (0..down).map(text).collect::<Vec<_>>());
}

#[test]
fn a_lost_and_mended_channel_loses_no_message() {
    let mut world = World::perfect(Carriage::Datagrams, 60);
    world.run_until(ms(1_000));
    world.input(SinkInput::LinkDown);
    for n in 0..20 {
        world.sink.send_control(world.now, text(n)).unwrap();
    }
    world.run_until(ms(2_000));
    assert!(at_source(&world).is_empty());
    world.advertise();
    world.run_until(ms(2_100));
    assert_eq!(at_source(&world), (0..20).map(text).collect::<Vec<_>>());
}

#[test]
fn what_cannot_arrive_is_refused() {
    let mut world = World::perfect(Carriage::Datagrams, 10);
    world.run_until(ms(1_000));
    let now = world.now;
    let nobody = Member {
        name: "unknown".into(),
        id: NodeId(2),
    };
    let refused = world.source.send_control(now, &nobody, text(0));
    assert_eq!(refused, Err(ControlError::NotConnected));
    let long = Bytes::from(vec![0; MAX_APP + 1]);
    let refused = world.source.send_control(now, &dwp(), long.clone());
    assert_eq!(refused, Err(ControlError::TooLong(MAX_APP + 1)));
    assert_eq!(
        world.sink.send_control(now, long),
        Err(ControlError::TooLong(MAX_APP + 1))
    );
    world.run_until(ms(20_000));
    let now = world.now;
    assert_eq!(
        world.sink.send_control(now, text(0)),
        Err(ControlError::NotConnected)
    );
    assert_eq!(
        world.source.send_control(now, &dwp(), text(0)),
        Err(ControlError::NotConnected)
    );
}

#[test]
fn a_sink_takes_only_what_is_meant_for_it() {
    let mut world = World::perfect(Carriage::Datagrams, 10);
    world.run_until(ms(1_000));
    for (name, flow) in [("njy", 7), ("dwp", 8), ("dwp", 7)] {
        let data = Control::Data {
            session: 1,
            number: 0,
            oldest: 0,
            data: text(9).into(),
        };
        let member = Member {
            name: name.into(),
            ..dwp()
        };
        let (flow, body) = (layercast_core::FlowId(flow), Downward::App(data));
        world.input(SinkInput::Signal(Signal::ToMember { flow, member, body }));
    }
    assert_eq!(at_sink(&world), [text(9)]);
}

#[test]
fn a_member_that_left_is_told_of_and_its_socket_forgotten() {
    let mut world = World::perfect(Carriage::Datagrams, 10);
    world.run_until(ms(1_000));
    let (flow, member) = (world.source.flow().id, dwp());
    let data = |number| Control::Data {
        session: 1,
        number,
        oldest: number,
        data: text(0).into(),
    };
    let say = |world: &mut World, number| {
        let (member, body) = (dwp(), Upward::App(data(number)));
        world.send_to_source(SourceInput::Signal(Signal::ToSource { flow, member, body }));
    };
    say(&mut world, 4);
    say(&mut world, 4);
    assert_eq!(at_source(&world).len(), 1);
    world.send_to_source(SourceInput::Signal(Signal::Left { flow, member }));
    assert_eq!(world.source.stats().members, 0);
    let left = |(_, event): &(_, SourceEvent)| *event == SourceEvent::MemberLeft(dwp());
    assert_eq!(
        world
            .source_events
            .iter()
            .filter(|event| left(event))
            .count(),
        1
    );
    say(&mut world, 4);
    assert_eq!(
        at_source(&world).len(),
        2,
        "it is a new member to the source"
    );
}
