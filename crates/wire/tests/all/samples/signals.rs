//! One of each session message, for tests and for the fuzz corpus.

use layercast_core::{
    CellRate, Contract, FlowId, FlowSpec, GroupId, Judged, LayerRate, Level, NodeId, PerLayer,
    QosPolicy, Quality, Serial, Term, Zone,
};
use layercast_wire::{
    BasePackets, BaseParities, Carriage, ClockReading, ClockReport, Control, Downward, EndToEndMs,
    Epoch, FlowEnd, FlowInfo, Identity, Limit, LinkReport, Mark, Member, MemberReport, MemberStats,
    NodeReport, PartKind, PartReport, PathReport, Refusal, Resource, Secret, Signal, Silence,
    SourceClockReport, UdpStats, Upward, Via,
};

/// One of each session message.
pub fn signals() -> Vec<Signal> {
    let flow = FlowId(7);
    let member = Member {
        name: "njy".into(),
        id: NodeId(4),
    };
    let rate = |mean| LayerRate {
        mean: CellRate(mean),
        ..LayerRate::default()
    };
    let spec = FlowSpec {
        flow_id: flow,
        layers: PerLayer {
            base: rate(480),
            e1: rate(960),
            e2: rate(1_920),
        },
        ..FlowSpec::default()
    };
    let info = FlowInfo {
        mediation: Some(layercast_core::Mediation::SingleRate),
        group_bps: Some(600_000),
        path_bps: Some(2_000_000),
        way: vec![7, u32::MAX],
        id: flow,
        name: "canyon".into(),
        epoch: Epoch(1_795_000_000_123_456),
        group: GroupId(1),
        spec,
        policy: QosPolicy::default(),
        source: "atc".into(),
        clock: "lab".into(),
        aal5_mark: Mark::Last,
        revision: 0,
        path_delay_us: 12_345,
        spread_us: 150_000,
        core: Some("rook".into()),
        identity: Some(Identity {
            key: vec![1; 32].into(),
            signature: vec![2; 64].into(),
            tokens: true,
        }),
        parities: Some(BaseParities { n: 6, m: 2 }),
        media_ms_per_s: Some(850),
        input_damaged: 3,
        input_failed: true,
        contract: Some(Contract {
            throughput: Some(Term {
                mean: Some(1_900_320.0),
                peak: Some(3_800_640.0),
                ..Term::agreed(0.0)
            }),
            delay: Some(Term {
                worst: Some(0.173),
                target: Some(0.073),
                ..Term::agreed(0.173)
            }),
            jitter: Some(Term::agreed(0.04)),
            error_rate: Some(Term::agreed(0.01)),
        }),
        via: Via::Core,
    };
    let counts = |base, e1, e2| PerLayer { base, e1, e2 };
    let report = MemberReport {
        answer: Some(layercast_core::Answered::Counter),
        most_bps: Some(600_000),
        silence: Some(Silence {
            ms: 2_500,
            overdue: counts(1, 2, 3),
        }),
        level: Level::E1,
        wanted: Some(Level::FULL),
        rate: layercast_core::CellRate(1_440),
        frames: counts(40, 120, 17),
        lost: counts(0, 0, 2),
        late: 1,
        delay_ms_p50: 12.1,
        delay_ms_p99: 0.1 + 0.2,
        playout_ms: 60.0,
        packets: Some(BasePackets {
            expected: 1_000,
            received: 970,
        }),
        marked: 12,
        outage_ms: 2_400,
        end_to_end_ms: Some(EndToEndMs {
            p50: 92.5,
            p99: 130.25,
            mean: 95.0,
            ingest: 60.5,
            queue: 0.25,
            path: 14.0,
            playout: 20.25,
        }),
        source_late_ms: Some(640.0),
        late_stopped: 1,
        source_clock: Some(SourceClockReport {
            ahead_us: -5,
            drift_ppb: 40_000,
            bound_us: 25_000,
            age_ms: 300,
            hops: 2,
        }),
        quality: Some(Quality {
            zone: Zone::Red,
            delay_s: Some(Judged {
                agreed: 0.173,
                measured: 0.201,
                zone: Zone::Red,
            }),
            error_rate: Some(Judged {
                agreed: 0.01,
                measured: 0.0,
                zone: Zone::Green,
            }),
            ..Quality::default()
        }),
    };
    let refusal = Refusal {
        node: "chuff".into(),
        resource: Resource::Link,
        needed: 480,
        available: 479,
        measured: None,
    };
    let stats = MemberStats {
        refused: None,
        member: member.clone(),
        flow,
        node: "rook".into(),
        joined_at_ms: 1_500,
        level: Level::FULL,
        wanted: Level::FULL,
        report: Some(report),
        report_age_ms: Some(420),
        limit: Some(Limit::Link {
            needed: CellRate(1_920),
            available: CellRate(700),
        }),
        upstream: Some("atc".into()),
        next: Some("rook".into()),
        gone: true,
    };
    let level = Level::FULL;
    let bounds = layercast_wire::Bounds {
        throughput: Some([300_000.0, 850_000.0]),
        delay: Some([0.154, 0.1]),
        error_rate: Some([1e-11, 0.0]),
        ..layercast_wire::Bounds::default()
    };
    vec![
        Signal::Hello {
            node: "chuff".into(),
            id: NodeId(2),
            version: 1,
            udp_port: 47_000,
            carriage: Carriage::Cells,
            clock: "lab".into(),
            link_key: Some(Secret("a key".into())),
            repair: Some(7),
            group: Some("239.1.2.3:7700".parse().unwrap()),
            group_repair: Some(9),
            prompt: true,
            clocks: true,
            pings: true,
        },
        Signal::Advertise {
            flow: Box::new(info.clone()),
        },
        Signal::Withdraw {
            flow,
            reason: "the source has gone".into(),
        },
        Signal::Join {
            flow,
            epoch: info.epoch,
            member: member.clone(),
            level,
            proof: Some(vec![7; 300].into()),
            again: false,
            answer: None,
        },
        Signal::Join {
            flow,
            epoch: info.epoch,
            member: member.clone(),
            level,
            proof: None,
            again: true,
            answer: Some(Box::new(bounds)),
        },
        Signal::JoinAck {
            flow,
            vci: 100,
            level,
            agreed: None,
        },
        Signal::JoinAck {
            flow,
            vci: 0,
            level,
            agreed: Some(Box::new(layercast_wire::Agreed {
                member: member.id,
                bounds,
            })),
        },
        Signal::Decline {
            flow,
            member: member.clone(),
            refusal: Box::new(layercast_wire::Refusal {
                resource: layercast_wire::Resource::WantedErrorRate,
                ..refusal.clone()
            }),
            proof: Some(vec![7; 300].into()),
        },
        Signal::JoinNak {
            flow,
            refusal: refusal.clone(),
        },
        Signal::Leave {
            flow,
            member: member.clone(),
        },
        Signal::Left {
            flow,
            member: member.clone(),
        },
        Signal::Filter {
            flow,
            member: member.clone(),
            filter: Some(layercast_core::FilterKind::LowPass(10)),
        },
        Signal::Filtered {
            flow,
            node: "rook".into(),
            filter: None,
        },
        Signal::ToSource {
            flow,
            member: member.clone(),
            body: Upward::App(Control::Data {
                session: 9,
                number: 1,
                oldest: 0,
                data: b"seek 4711 \xff".to_vec().into(),
            }),
        },
        Signal::ToMember {
            flow,
            member: member.clone(),
            body: Downward::App(Control::Taken {
                session: 9,
                next: 2,
            }),
        },
        Signal::ToMember {
            flow,
            member: member.clone(),
            body: Downward::KeyDenied {
                refusal: refusal.clone(),
            },
        },
        Signal::Close {
            flow,
            undelivered: 3,
            last: Some(FlowEnd {
                seq: Serial(961),
                e1_count: 240,
                e2_count: 128,
            }),
        },
        Signal::Report {
            flow,
            member: member.clone(),
            report: Box::new(report),
        },
        Signal::ListFlows,
        Signal::Flows {
            flows: vec![info.clone()],
        },
        Signal::GetStats { flow: None },
        Signal::Stats {
            members: vec![stats],
        },
        Signal::Links {
            links: vec![LinkReport {
                neighbour: "rook".into(),
                sent: counts(100, 200, 300),
                lost: counts(3, 2, 1),
                repairs: counts(3, 2, 0),
                too_late: counts(0, 0, 1),
                over_grant: counts(0, 0, 0),
                repaired: counts(1, 1, 2),
                requested: 4,
                spurious: 5,
                rtt_us: 40_000,
                crowded_out: 6,
                path: Some(PathReport {
                    rate_bps: Some(2_800_000),
                    competes: false,
                    queue_us: 3_100,
                    cuts: 4,
                }),
                clock: Some(ClockReport {
                    ahead_us: -3_600_000,
                    drift_ppb: 41_000,
                    bound_us: 20_010,
                    age_ms: 15,
                    delay_us: 20_900,
                    delay_back_us: 21_300,
                }),
            }],
            node: Some(Box::new(NodeReport {
                udp: UdpStats {
                    received: 9,
                    host_lost: 2,
                    ..UdpStats::default()
                },
                malformed: 3,
                ..NodeReport::default()
            })),
            parts: vec![PartReport {
                kind: PartKind::Port,
                name: "ann".into(),
                counters: serde_json::json!({ "units_in": 7, "queue_full": { "BL": 0 } }),
            }],
        },
        Signal::Clock {
            flow,
            clock: ClockReading {
                here_us: 4_294_967_295,
                source_us: 17,
                drift_ppb: -200_000,
                bound_us: 20_000,
                age_ms: 15,
                hops: 3,
            },
        },
        Signal::Ping,
        Signal::Pong,
        Signal::NameInUse {
            node: "rook".into(),
            name: "ann".into(),
        },
        Signal::Error {
            message: "no such flow".into(),
        },
        Signal::LinkKey {
            key: Secret("another key".into()),
        },
        Signal::Change {
            flow: Box::new(FlowInfo {
                revision: 3,
                ..info.clone()
            }),
            change: 9,
        },
        Signal::ChangeAck {
            flow,
            member: member.clone(),
            change: 9,
        },
        Signal::ChangeNak {
            flow,
            member,
            change: 9,
            refusal,
        },
        Signal::ChangeEnd {
            flow: Box::new(info.clone()),
            change: 9,
            from: Some(Serial(2_400)),
        },
        Signal::ChangeEnd {
            flow: Box::new(info),
            change: 10,
            from: None,
        },
    ]
}
