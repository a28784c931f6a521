//! The session protocol: lines, their bounds, and what is refused.

use layercast_core::{Contract, FlowId, Level, NodeId, Parameter, Term};
use layercast_wire::{
    Agreed, Bounds, Control, FlowInfo, MAX_APP, MAX_LINE, MAX_NAME, MAX_TEXT, MAX_WAY, Member,
    MemberReport, Refusal, Resource, Signal, SignalError, SignalReader, Upward,
};

use proptest::option;
use proptest::prelude::*;

use crate::samples::signals as samples;

fn decode(line: &str) -> Result<Signal, SignalError> {
    Signal::from_line(line.as_bytes())
}

#[test]
fn every_message_comes_back_even_in_single_bytes() {
    let signals = samples::signals();
    let mut reader = SignalReader::default();
    let mut seen = Vec::new();
    for signal in &signals {
        for byte in signal.to_line().unwrap() {
            reader.push(&[byte]);
            seen.extend(reader.poll().map(Result::unwrap));
        }
    }
    assert_eq!(seen, signals);
    assert!(reader.poll().is_none());
}

#[test]
fn messages_look_as_documented() {
    let line = |signal: Signal| String::from_utf8(signal.to_line().unwrap()).unwrap();
    assert_eq!(line(Signal::ListFlows), "{\"type\":\"list_flows\"}\n");
    let ack = Signal::JoinAck {
        flow: FlowId(7),
        vci: 100,
        level: Level::E1,
        agreed: None,
    };
    assert_eq!(
        line(ack),
        "{\"type\":\"join_ack\",\"flow\":7,\"vci\":100,\"level\":1}\n"
    );
}

#[test]
fn an_answer_and_an_agreement_take_few_octets_and_have_possible_values() {
    let bounds = Bounds {
        delay: Some([0.2, 0.1]),
        ..Bounds::default()
    };
    let ack = Signal::JoinAck {
        flow: FlowId(7),
        vci: 0,
        level: Level::E1,
        agreed: Some(Box::new(Agreed {
            member: NodeId(3),
            bounds,
        })),
    };
    let line = String::from_utf8(ack.to_line().unwrap()).unwrap();
    let text = "{\"type\":\"join_ack\",\"flow\":7,\"vci\":0,\"level\":1,\"agreed\":{\"member\":3,\"delay\":[0.2,0.1]}}\n";
    assert_eq!(line, text);
    assert_eq!(decode(&line).unwrap(), ack);
    // Keys of later versions are skipped.
    let later = line.replace("\"delay\"", "\"cost\":[2],\"delay\"");
    assert_eq!(decode(&later).unwrap(), ack);
    for (values, said) in [
        ("[0.1,0.2]", "delay.worst"),
        ("[-1,-2]", "delay.agreed"),
        ("[1e9,0]", "at most a day"),
        ("[1e999,0]", "number out of range"),
        ("[0.2]", "invalid length 1"),
        ("0.2", "invalid type"),
        ("[0.2,0.1", ""),
    ] {
        let error = decode(&line.replace("[0.2,0.1]", values)).unwrap_err();
        assert!(error.to_string().contains(said), "{values}: {error}");
    }
}

/// Worst and wanted value: possible ones, the smaller one last, or any.
fn pair() -> impl Strategy<Value = [f64; 2]> {
    let possible = (0.0..1.0, 0.0..1.0).prop_map(|(a, b): (f64, f64)| [a.max(b), a.min(b)]);
    prop_oneof![9 => possible, 1 => any::<[f64; 2]>()]
}

proptest! {
    /// What is possible travels unchanged but for the last digit; anything else is an error, and so is a part of a message.
    #[test]
    fn bounds_travel_whole_or_not_at_all(pairs in [option::of(pair()), option::of(pair()), option::of(pair()), option::of(pair())], cut in 1usize..60) {
        let [throughput, delay, jitter, error_rate] = pairs;
        // Of a throughput the wanted value is the greater one.
        let throughput = throughput.map(|[a, b]| [b, a]);
        let bounds = Bounds { throughput, delay, jitter, error_rate };
        let (member, level) = (NodeId(1), Level::BASE);
        let agreed = Some(Box::new(Agreed { member, bounds }));
        let ack = Signal::JoinAck { flow: FlowId(7), vci: 0, level, agreed };
        let Ok(line) = ack.to_line() else {
            prop_assert!(bounds.check().is_err());
            return Ok(());
        };
        let Signal::JoinAck { agreed: Some(agreed), .. } = Signal::from_line(&line).unwrap() else {
            panic!("another message");
        };
        for parameter in Parameter::ALL {
            let (sent, got) = (bounds.get(parameter), agreed.bounds.get(parameter));
            prop_assert_eq!(sent.is_some(), got.is_some());
            for (a, b) in sent.iter().flatten().zip(got.iter().flatten()) {
                prop_assert!((a - b).abs() <= 1e-12 * a.abs(), "{a} {b}");
            }
        }
        let end = line.len().saturating_sub(1 + cut);
        prop_assert!(Signal::from_line(&line[..end]).is_err());
    }
}

#[test]
fn a_close_of_a_source_that_does_not_count_is_understood() {
    let close = decode("{\"type\":\"close\",\"flow\":7,\"undelivered\":2}").unwrap();
    let expected = Signal::Close {
        flow: FlowId(7),
        undelivered: 2,
        last: None,
    };
    assert_eq!(close, expected);
}

/// An advertisement with this contract, as JSON.
fn advertised(contract: &str) -> Result<FlowInfo, SignalError> {
    let flow = FlowInfo::new(FlowId(7), "canyon", "atc");
    let line = Signal::Advertise {
        flow: Box::new(flow),
    };
    let mut line = String::from_utf8(line.to_line().unwrap()).unwrap();
    let end = line.rfind("}}").unwrap();
    line.insert_str(end, &format!(",\"contract\":{contract}"));
    match decode(&line)? {
        Signal::Advertise { flow } => Ok(*flow),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_contract_of_a_later_version_is_read_as_far_as_it_is_known() {
    let flow = advertised(
        "{\"delay\":{\"agreed\":0.173,\"target\":0.073,\"median\":0.1},\"jitter\":null,\"colour\":{\"agreed\":1}}",
    )
    .unwrap();
    let delay = Term {
        target: Some(0.073),
        ..Term::agreed(0.173)
    };
    let contract = Contract {
        delay: Some(delay),
        ..Contract::default()
    };
    assert_eq!(flow.contract, Some(contract));
    assert_eq!(flow.contract_of(&flow.spec), contract);
    // Without one the bounds of the specification are what is promised.
    let plain = advertised("null").unwrap();
    assert_eq!(plain.contract, None);
    assert_eq!(plain.contract_of(&plain.spec), Contract::of(&plain.spec));
}

#[test]
fn a_flow_beyond_what_viewers_wait_for_is_refused_with_its_field() {
    type Change = fn(&mut FlowInfo);
    let changes: [(Change, Change, &str); 6] = [
        (
            |it| it.way = vec![7; MAX_WAY],
            |it| it.way = vec![7; MAX_WAY + 1],
            "way",
        ),
        (
            |it| it.spec.delay_max_ms = 86_400_000,
            |it| it.spec.delay_max_ms += 1,
            "delay_max_ms",
        ),
        (
            |it| it.spec.jitter_max_ms = 86_400_000,
            |it| it.spec.jitter_max_ms = u32::MAX,
            "jitter_max_ms",
        ),
        (
            |it| it.path_delay_us = 86_400_000_000,
            |it| it.path_delay_us = u64::MAX,
            "path_delay_us",
        ),
        (
            |it| it.spread_us = 1_000_000,
            |it| it.spread_us = 1 << 62,
            "spread_us",
        ),
        (
            |it| it.spec.frame_rate.num = 1_000,
            |it| it.spec.frame_rate.num = u32::MAX,
            "frame_rate",
        ),
    ];
    for (possible, impossible, field) in changes {
        let mut flow = FlowInfo::new(FlowId(7), "canyon", "atc");
        let line = |flow: &FlowInfo| {
            let flow = Box::new(flow.clone());
            Signal::Advertise { flow }.to_line()
        };
        possible(&mut flow);
        line(&flow).expect(field);
        impossible(&mut flow);
        let error = line(&flow).unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}

#[test]
fn a_contract_that_cannot_be_is_refused_with_its_field() {
    for (contract, said) in [
        ("{\"delay\":{\"agreed\":-1}}", "contract: delay.agreed"),
        ("{\"error_rate\":{\"agreed\":1.5}}", "error_rate.agreed"),
        (
            "{\"throughput\":{\"agreed\":0,\"mean\":2,\"peak\":1}}",
            "throughput.peak",
        ),
        ("{\"delay\":{\"agreed\":1e999}}", "number out of range"),
        ("{\"delay\":{}}", "agreed"),
        (
            "{\"delay\":{\"agreed\":1e9}}",
            "delay.agreed: at most a day",
        ),
        (
            "{\"jitter\":{\"agreed\":0,\"worst\":86401}}",
            "jitter.worst: at most a day",
        ),
        (
            "{\"throughput\":{\"agreed\":1e300}}",
            "throughput.agreed: at most 10 Tbit/s",
        ),
    ] {
        let error = advertised(contract).unwrap_err().to_string();
        assert!(error.contains(said), "{contract}: {error}");
    }
}

#[test]
fn a_promise_follows_the_specification_and_is_part_of_a_change() {
    let mut flow = advertised("{\"delay\":{\"agreed\":0.173}}").unwrap();
    let before = flow.clone();
    let mut spec = flow.spec.clone();
    spec.delay_max_ms += 100;
    flow.respecify(spec.clone());
    flow.revision += 1;
    let delay = flow.contract.unwrap().delay.unwrap();
    assert_eq!(delay.agreed, f64::from(spec.delay_max_ms) / 1e3);
    assert!(flow.succeeds(&before) && !flow.is_same(&before));
}

#[test]
fn an_unknown_type_is_told_from_a_broken_message() {
    let unknown = decode("{\"type\":\"route\",\"to\":3}");
    assert!(matches!(unknown, Err(SignalError::UnknownType(kind)) if kind == "route"));
    for broken in [
        "",
        "{",
        "[]",
        "{\"type\":7}",
        "{\"type\":\"join\"}",
        "\u{0}",
    ] {
        assert!(
            matches!(decode(broken), Err(SignalError::Json(_))),
            "{broken}"
        );
    }
    for signal in samples::signals() {
        let line = String::from_utf8(signal.to_line().unwrap()).unwrap();
        let (_, rest) = line.split_once("\"type\":\"").unwrap();
        let (kind, _) = rest.split_once('"').unwrap();
        // Each type is known: never mistaken for one of a later version.
        let alone = decode(&format!("{{\"type\":\"{kind}\",\"flow\":[]}}"));
        assert!(!matches!(alone, Err(SignalError::UnknownType(_))), "{kind}");
    }
}

#[test]
fn names_texts_and_figures_are_bounded() {
    let withdraw = |reason: String| Signal::Withdraw {
        flow: FlowId(7),
        reason,
    };
    assert!(withdraw("x".repeat(MAX_TEXT)).to_line().is_ok());
    let error = withdraw("x".repeat(MAX_TEXT + 1)).to_line().unwrap_err();
    assert_eq!(error.to_string(), "session message: reason is too long");
    let error = decode("{\"type\":\"error\",\"message\":\"\\u001b[2J\"}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "session message: message has control characters"
    );

    for signal in samples::signals() {
        match signal {
            Signal::Hello {
                id,
                version,
                udp_port,
                carriage,
                clock,
                link_key,
                repair,
                group,
                group_repair,
                prompt,
                clocks,
                pings,
                ..
            } => {
                let node = "x".repeat(MAX_NAME + 1);
                let long = Signal::Hello {
                    node,
                    id,
                    version,
                    udp_port,
                    carriage,
                    clock,
                    link_key,
                    repair,
                    group,
                    group_repair,
                    prompt,
                    clocks,
                    pings,
                };
                assert!(matches!(
                    long.to_line(),
                    Err(SignalError::Text { field: "node", .. })
                ));
            }
            Signal::Report {
                flow,
                member,
                mut report,
            } => {
                let refused = |report: &MemberReport| {
                    let bad = Signal::Report {
                        flow,
                        member: member.clone(),
                        report: Box::new(*report),
                    };
                    bad.to_line().unwrap_err()
                };
                let good = report.clone();
                for number in [f64::NAN, f64::INFINITY, 1e308] {
                    report.delay_ms_p99 = number;
                    let error = refused(&report);
                    assert!(matches!(error, SignalError::NotFinite("delay_ms_p99")));
                }
                report = good.clone();
                report.lost.base = (1 << 53) + 1;
                assert!(matches!(refused(&report), SignalError::Count("lost")));
                report = good;
                report.late = u64::MAX;
                assert!(matches!(refused(&report), SignalError::Count("late")));
            }
            Signal::Advertise { mut flow } => {
                flow.spec.gop_m = 99;
                assert!(matches!(
                    Signal::Advertise { flow }.to_line(),
                    Err(SignalError::Spec(_))
                ));
            }
            _ => {}
        }
    }
}

#[test]
fn a_control_message_is_bounded_and_must_be_base64() {
    let message = |len: usize| Signal::ToSource {
        flow: FlowId(7),
        member: Member {
            name: "njy".into(),
            id: NodeId(4),
        },
        body: Upward::App(Control::Data {
            session: 1,
            number: 0,
            oldest: 0,
            data: vec![0xfb; len].into(),
        }),
    };
    let line = message(2).to_line().unwrap();
    assert_eq!(
        String::from_utf8(line).unwrap(),
        "{\"type\":\"to_source\",\"flow\":7,\"member\":{\"name\":\"njy\",\"id\":4},\
         \"body\":{\"kind\":\"app\",\"part\":\"data\",\"session\":1,\"number\":0,\"oldest\":0,\"data\":\"-_s\"}}\n"
    );
    assert!(message(MAX_APP).to_line().is_ok());
    let error = message(MAX_APP + 1).to_line().unwrap_err();
    assert_eq!(error.to_string(), "session message: data is too long");
    for data in ["+/s", "-_s=", "a", "\u{e9}"] {
        let line = format!(
            "{{\"type\":\"to_member\",\"flow\":7,\"member\":{{\"name\":\"n\",\"id\":4}},\
             \"body\":{{\"kind\":\"app\",\"part\":\"data\",\"session\":1,\"number\":0,\"oldest\":0,\"data\":\"{data}\"}}}}"
        );
        assert!(
            matches!(decode(&line), Err(SignalError::Json(_))),
            "{data:?}"
        );
    }
}

#[test]
fn a_line_without_end_stops_the_reader() {
    let mut reader = SignalReader::default();
    let mut blank = vec![b' '; MAX_LINE - 1];
    blank.push(b'\n');
    reader.push(&blank);
    assert!(matches!(reader.poll(), Some(Err(SignalError::Json(_)))));
    reader.push(&[b' '; MAX_LINE - 1]);
    assert!(reader.poll().is_none());
    reader.push(b" ");
    assert!(matches!(reader.poll(), Some(Err(SignalError::TooLong))));
    reader.push(b"{\"type\":\"list_flows\"}\n");
    assert!(reader.poll().is_none());
}

#[test]
fn a_bad_line_is_skipped() {
    let mut reader = SignalReader::default();
    reader.push(b"nonsense\n{\"type\":\"list_flows\"}\r\n");
    assert!(matches!(reader.poll(), Some(Err(SignalError::Json(_)))));
    assert!(matches!(reader.poll(), Some(Ok(Signal::ListFlows))));
    assert!(reader.poll().is_none());
}

#[test]
fn a_refusal_says_what_is_missing() {
    let refusal = |resource, needed, available| {
        let node = "chuff".into();
        Refusal {
            node,
            resource,
            needed,
            available,
            measured: None,
        }
        .to_string()
    };
    assert_eq!(
        refusal(Resource::Link, 480, 400),
        "chuff: not enough bandwidth for the base layer: needs 203.5 kbit/s (480 cells/s), has 169.6 kbit/s (400 cells/s), 33.9 kbit/s short"
    );
    assert_eq!(
        refusal(Resource::Delay, 9_000, 5_000),
        "chuff: the path takes 9 ms, but only 5 ms are allowed"
    );
    assert_eq!(refusal(Resource::UnknownFlow, 0, 0), "chuff: no such flow");
}
