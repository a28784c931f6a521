//! The three sockets of source and sink, end to end on 127.0.0.1.

use std::time::{Duration, Instant};

// The base layer is whole on a machine in time.
use flaky_test::flaky_test as real_time;
use layercast::link::LinkConfig;
use layercast::net::{Neighbour, NodeConfig};
use layercast::switch::{PortConfig, SwitchConfig};
use layercast::{
    AdaptMode, Alarm, AlarmOp, CellRate, FlowSpec, Frame, Group, Join, Layer, LayerRate,
    LeaveReason, Level, ManagementSocket, Metric, OpenGroup, PerLayer, QosEvent, QosOption,
    QosSignal, Rate, Server, Span, Status, join,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// I P B, forty-eight frames a second.
fn spec() -> FlowSpec {
    let layer = |mean| LayerRate {
        mean: CellRate(mean),
        ..LayerRate::default()
    };
    FlowSpec {
        gop_n: 3,
        gop_m: 1,
        delay_max_ms: 200,
        frame_rate: layercast::FrameRate { num: 48, den: 1 },
        layers: PerLayer {
            base: layer(200),
            e1: layer(100),
            e2: layer(100),
        },
        ..FlowSpec::default()
    }
}

fn picture(number: usize) -> Frame {
    let data = vec![number as u8; 200];
    match number % 3 {
        0 => Frame::base(data),
        1 => Frame::e1(data),
        _ => Frame::e2(data),
    }
}

/// Sends pictures until the group is closed.
fn film(group: &std::sync::Arc<OpenGroup>) -> JoinHandle<()> {
    let group = std::sync::Arc::clone(group);
    tokio::spawn(async move {
        for number in 0.. {
            if group.send(picture(number)).await.is_err() {
                return;
            }
        }
    })
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let within = timeout(Duration::from_secs(60), future).await;
    within.unwrap_or_else(|_| panic!("{what} did not happen"))
}

async fn event(management: &ManagementSocket, wanted: fn(&QosEvent) -> bool) -> QosEvent {
    let found = async {
        while let Some(signal) = management.signal().await {
            match signal {
                QosSignal::Event(event) if wanted(&event) => return event,
                _ => {}
            }
        }
        panic!("the upcalls ended without it");
    };
    soon("an upcall", found).await
}

async fn metric(management: &ManagementSocket) -> layercast::QosMetric {
    let found = async {
        loop {
            if let Some(QosSignal::Signal(metric)) = management.signal().await {
                return *metric;
            }
        }
    };
    soon("a periodic signal", found).await
}

#[real_time(tokio)]
async fn media_control_and_management_from_joining_to_leaving() {
    let server = Server::bind("127.0.0.1:0").await.unwrap();
    let group = Group::new("film").spec(spec()).wait_for(1);
    let group = std::sync::Arc::new(server.open_group(group).await.unwrap());
    let playing = film(&group);
    let member = Join::new(group.url()).name("alice");
    let (mut media, control, management) = member.connect().await.unwrap();

    let joined = event(&group.management(), |it| {
        matches!(it, QosEvent::MemberJoined { .. })
    })
    .await;
    assert!(joined.to_string().contains("alice"), "{joined}");
    // Enhancement layers come when the adapter has seen that they fit; the base layer is whole.
    let mut base = 0..9;
    while !base.is_empty() {
        let frame = soon("a frame", media.recv()).await.unwrap();
        assert_eq!(frame.data, picture(frame.seq as usize).data);
        assert_eq!(frame.gop_start, frame.layer == Layer::Base);
        if frame.gop_start {
            assert_eq!(Some(frame.seq / 3), base.next());
        }
    }

    // Control: up, and the answer down.
    control.send("pause").await.unwrap();
    let (from, message) = soon("a message", group.control().recv()).await.unwrap();
    assert_eq!((from.name.as_str(), &message[..]), ("alice", &b"pause"[..]));
    group.control().send(&from, "paused").await.unwrap();
    let answer = soon("an answer", control.recv()).await.unwrap();
    assert_eq!(&answer[..], b"paused");
    let long = control.send(vec![0; 17_000]).await.unwrap_err();
    assert_eq!(long.code(), "EINVAL");
    let nobody = layercast::Member {
        name: "bob".into(),
        id: from.id,
    };
    let error = group.control().send(&nobody, "x").await.unwrap_err();
    assert_eq!(error.code(), "ECLOSED");

    // Management, on both sides.
    let info = management.info().await.unwrap();
    assert_eq!((info.name.as_str(), info.layers.len()), ("film", 3));
    let stats = group.management().stats().await.unwrap();
    assert_eq!(stats[0].member.name, "alice");
    assert!(metric(&management).await.frames > 0);
    while management.stats().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    management.change_qos(QosOption::Maint).await.unwrap();
    let adapt = QosOption::Adapt(AdaptMode::None);
    management.change_qos(adapt).await.unwrap();
    let wrong = Alarm {
        metric: Metric::Loss,
        op: AlarmOp::Above,
        threshold: f64::NAN,
        window_ms: 1_000,
        hysteresis: 0.0,
        oneshot: false,
    };
    let nak = management.change_qos(QosOption::Event(wrong)).await;
    assert_eq!(nak.unwrap_err().code(), "EINVAL");
    let rate = Alarm {
        metric: Metric::Rate,
        threshold: 1.0,
        window_ms: 200,
        ..wrong
    };
    let ack = management.change_qos(QosOption::Event(rate)).await;
    assert_eq!(ack, Ok(()));
    event(&management, |it| matches!(it, QosEvent::Alarm { .. })).await;
    assert!(management.register(&media).await.is_ok());
    assert_eq!(
        management.register_group(&group).await.unwrap_err().code(),
        "EINVAL"
    );

    soon("leaving", management.leave(LeaveReason::User))
        .await
        .unwrap();
    let left = event(&group.management(), |it| {
        matches!(it, QosEvent::MemberLeft { .. })
    })
    .await;
    assert!(left.to_string().contains("alice"), "{left}");
    let after = management.change_qos(QosOption::Monitor).await;
    assert_eq!(after, Err(Status::Closed));
    while soon("the last frames", media.recv()).await.is_some() {}
    assert!(soon("the end", control.recv()).await.is_none());

    group.close(Span::from_secs(2)).await.unwrap();
    soon("the source", playing).await.unwrap();
    assert_eq!(group.close(Span::ZERO).await.unwrap(), 0);
    let summary = soon("the server", server.close()).await.unwrap();
    assert_eq!(summary.sources["film"].members, 0);
}

#[real_time(tokio)]
async fn a_group_without_a_specification_learns_it() {
    let server = Server::bind("127.0.0.1:0").await.unwrap();
    let group = Group::new("film").frame_rate(48, 1).wait_for(1);
    let group = server.open_group(group).await.unwrap();
    let url = group.url();
    let sink = tokio::spawn(async move {
        let (mut media, _control, management) = join(&url).await?;
        let spec = management.info().await?.spec;
        let mut base = 0;
        while let Some(frame) = media.recv().await {
            base += u32::from(frame.gop_start);
        }
        let closed = event(&management, |it| matches!(it, QosEvent::GroupClosed { .. })).await;
        Ok::<_, layercast::Error>((spec, base, closed))
    });
    for number in 0..48 {
        group.send(picture(number)).await.unwrap();
    }
    assert_eq!(
        group.send(Frame::base("")).await.unwrap_err().code(),
        "EINVAL"
    );
    let huge = vec![0; 1 << 24];
    assert_eq!(
        group.send(Frame::base(huge)).await.unwrap_err().code(),
        "EINVAL"
    );
    assert_eq!(group.close(Span::from_secs(10)).await.unwrap(), 0);
    let (spec, base, closed) = soon("the sink", sink).await.unwrap().unwrap();
    assert_eq!((spec.gop_n, base), (3, 16));
    assert_eq!(closed, QosEvent::GroupClosed { undelivered: 0 });
    let late = group.send(picture(0)).await.unwrap_err();
    assert_eq!(late.code(), "ECLOSED");
}

/// Learned from black pictures, the flow has room for one key frame of the content in 35 s.
#[real_time(tokio)]
async fn a_group_that_begins_with_black_pictures_gets_what_its_content_takes() {
    const BLACK: usize = 8;
    const CONTENT: usize = 40;
    let server = Server::bind("127.0.0.1:0").await.unwrap();
    let group = Group::new("film").frame_rate(48, 1).wait_for(1);
    let group = server.open_group(group).await.unwrap();
    let url = group.url();
    let sink = tokio::spawn(async move {
        let (mut media, _control, _management) = join(&url).await?;
        let mut sizes = Vec::new();
        while let Some(frame) = media.recv().await {
            if frame.gop_start {
                sizes.push(frame.data.len());
            }
        }
        Ok::<_, layercast::Error>(sizes)
    });
    // Four groups of pictures a second, with a key frame of 834 cells.
    let send = async {
        for number in 0..(BLACK + CONTENT) * 12 {
            let size = if number / 12 < BLACK { 40 } else { 40_000 };
            let frame = match number % 12 {
                0 => Frame::base(vec![1; size]),
                _ => Frame::e1(vec![1; size / 20]),
            };
            group.send(frame).await.unwrap();
        }
        // Larger than a frame of the flow may be so far.
        group.send(Frame::base(vec![1; 300_000])).await.unwrap();
    };
    soon("the sending", send).await;
    let spec = group.management().info().await.unwrap().spec;
    assert!(spec.layers.base.mean.0 >= 4 * 834, "{spec:?}");
    assert!(spec.layers.e1.mean.0 >= 44 * 42, "{spec:?}");
    assert_eq!(spec.max_frame, 1_200_000);
    assert_eq!(group.close(Span::from_secs(10)).await.unwrap(), 0);
    let sizes = soon("the sink", sink).await.unwrap().unwrap();
    let content = sizes.iter().filter(|size| **size == 40_000).count();
    // Frames that are sent before the flow has its rates may be late.
    assert!(content >= CONTENT - 12, "{sizes:?}");
}

#[tokio::test]
async fn nothing_is_served_before_the_media_socket_is_registered() {
    let server = Server::bind("127.0.0.1:0").await.unwrap();
    let group = Group::new("film")
        .spec(spec())
        .registered(false)
        .wait_for(1);
    let group = std::sync::Arc::new(server.open_group(group).await.unwrap());
    let nak = group.management().change_qos(QosOption::Maint).await;
    assert_eq!(nak, Err(Status::NotRegistered));
    group.management().register_group(&group).await.unwrap();
    let playing = film(&group);
    let unregistered = Join::new(group.url()).registered(false);
    let (mut media, _control, management) = unregistered.connect().await.unwrap();
    let nak = management.change_qos(QosOption::Maint).await;
    assert_eq!(nak, Err(Status::NotRegistered));
    assert!(media.try_recv().is_none());
    management.register(&media).await.unwrap();
    assert!(soon("a frame", media.recv()).await.is_some());
    management.change_qos(QosOption::Maint).await.unwrap();
    // Without its sockets the member leaves.
    drop((media, _control, management));
    event(&group.management(), |it| {
        matches!(it, QosEvent::MemberLeft { .. })
    })
    .await;
    group.close(Span::ZERO).await.unwrap();
    soon("the source", playing).await.unwrap();
}

/// A server in the clear whose link to `narrow` has this rate.
async fn server_with_narrow(rate: Rate) -> Server {
    let mut config = NodeConfig::new(
        SwitchConfig {
            name: "server".into(),
            ..SwitchConfig::default()
        },
        "127.0.0.1:0".parse().unwrap(),
        PortConfig::default(),
    );
    let narrow = Neighbour {
        port: PortConfig {
            rate: Some(rate),
            ..PortConfig::default()
        },
        link: LinkConfig::default(),
    };
    config.ports.insert("narrow".into(), narrow);
    Server::run(config).await.unwrap()
}

#[tokio::test]
async fn the_encoder_is_told_what_the_link_of_its_only_member_carries() {
    let server = server_with_narrow(CellRate(300).rate()).await;
    let group = Group::new("film").spec(spec());
    let group = server.open_group(group).await.unwrap();
    let member = Join::new(group.url()).name("narrow").connect();
    let joined = soon("an answer", member).await.unwrap();
    let is_target = |event: &QosEvent| matches!(event, QosEvent::TargetRate { .. });
    let target = event(&group.management(), is_target).await;
    // Three quarters of its 400 cells/s of 48 octets.
    let rate = Rate::from_bps(300 * 48 * 8);
    assert_eq!(target, QosEvent::TargetRate { rate });
    drop(joined);
    drop(server.close().await.unwrap());
}

#[tokio::test]
async fn what_cannot_be_joined_says_why() {
    let server = server_with_narrow(Rate::from_bps(10_000)).await;
    let group = server
        .open_group(Group::new("film").spec(spec()))
        .await
        .unwrap();
    let twice = server.open_group(Group::new("film")).await.unwrap_err();
    assert_eq!(twice.code(), "EINVAL");
    for (group, says) in [
        (Group::new(""), "the flow: it is empty"),
        (Group::new("a\x1b[2J"), "control character"),
        (Group::new("a").core(""), "the core switch: it is empty"),
    ] {
        let error = server.open_group(group).await.unwrap_err();
        let said = error.to_string();
        assert!(error.code() == "EINVAL" && said.contains(says), "{said}");
    }
    let nameless = Join::new(group.url()).name("a\nb");
    let error = soon("an answer", nameless.connect()).await.unwrap_err();
    assert_eq!(error.code(), "EINVAL", "{error}");
    let member = Join::new(group.url()).name("narrow").level(Level::BASE);
    let error = soon("an answer", member.connect()).await.unwrap_err();
    assert_eq!(error.code(), "EADMIT", "{error}");
    assert!(error.to_string().contains("server"), "{error}");
    let address = server.local_addr();
    let missing = Join::new(format!("{address}/opera")).flow_within(Span::from_ms(200));
    let error = soon("an answer", missing.connect()).await.unwrap_err();
    assert_eq!(error.code(), "EINVAL", "{error}");
    assert!(error.to_string().contains("film"), "{error}");
    assert_eq!(join("http://nowhere").await.unwrap_err().code(), "EINVAL");
    drop(server.close().await.unwrap());
    // No node there, a name that does not exist: each within its time, in the clear and protected, with a flow and without.
    let fingerprint = "A".repeat(43);
    for url in [
        format!("{address}/film"),
        format!("{address}"),
        format!("layercasts://{address}/film?fp={fingerprint}"),
        format!("layercasts://{address}?fp={fingerprint}"),
        "nowhere.invalid:7400/film".to_owned(),
    ] {
        let begun = Instant::now();
        let dead = Join::new(&url).flow_within(Span::from_ms(500));
        let error = soon("an answer", dead.connect()).await.unwrap_err();
        let passed = begun.elapsed();
        assert_eq!(error.code(), "ENET", "{url}: {error}");
        assert!(passed >= Duration::from_millis(500), "{url}: {passed:?}");
        assert!(passed < Duration::from_secs(6), "{url}: {passed:?}");
    }
}

/// Members know of the end when `close` returns: otherwise they would wait for the source to come back.
#[tokio::test]
async fn a_program_may_exit_when_its_group_is_closed() {
    let (give, url) = tokio::sync::oneshot::channel();
    let program = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let server = Server::bind("127.0.0.1:0").await.unwrap();
            let group = Group::new("film").spec(spec()).wait_for(1);
            let group = server.open_group(group).await.unwrap();
            give.send(group.url()).unwrap();
            for number in 0..48 {
                group.send(picture(number)).await.unwrap();
            }
            group.close(Span::from_secs(10)).await.unwrap()
        })
    });
    let (mut media, _control, management) = join(&url.await.unwrap()).await.unwrap();
    let ended = async { while media.recv().await.is_some() {} };
    soon("the end of the flow", ended).await;
    event(&management, |it| matches!(it, QosEvent::GroupClosed { .. })).await;
    assert_eq!(program.join().unwrap(), 0);
}

#[tokio::test]
async fn a_group_that_nobody_joins_can_be_closed_while_its_source_waits() {
    let server = Server::bind("127.0.0.1:0").await.unwrap();
    for group in [
        Group::new("known").spec(spec()).wait_for(1),
        Group::new("learned").wait_for(1),
    ] {
        let group = std::sync::Arc::new(server.open_group(group).await.unwrap());
        let playing = film(&group);
        // It runs ahead until there is no more room.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!playing.is_finished());
        let left = soon("closing", group.close(Span::ZERO)).await.unwrap();
        assert!(left > 0);
        soon("the source", playing).await.unwrap();
    }
}

#[tokio::test]
async fn a_group_with_tokens_is_open_to_those_who_have_one() {
    let server = Server::bind("127.0.0.1:0").await.unwrap();
    let group = Group::new("film").spec(spec()).require_tokens();
    let group = std::sync::Arc::new(server.open_group(group).await.unwrap());
    let filming = film(&group);

    let without = soon("a refusal", join(&group.url())).await;
    assert_eq!(without.unwrap_err().code(), "EADMIT");

    let valid = Span::from_secs(3_600);
    let url = group.url_for(Some("ann"), Level::E1, valid).unwrap();
    let nameless = group.url_for(Some(""), Level::E1, valid).unwrap_err();
    assert_eq!(nameless.code(), "EINVAL", "{nameless}");
    let somebody_else = soon("a refusal", Join::new(&url).name("bob").connect()).await;
    assert_eq!(somebody_else.unwrap_err().code(), "EADMIT");

    let joined = soon("a join", Join::new(&url).name("ann").connect()).await;
    let (mut media, _control, _management) = joined.unwrap();
    for _ in 0..12 {
        let frame = soon("a frame", media.recv()).await.unwrap();
        assert_ne!(frame.layer, Layer::E2, "a token for E1 plays no E2");
        assert_eq!(frame.data.len(), 200);
        assert!(
            frame.data.iter().all(|&byte| byte == frame.data[0]),
            "as it was sent"
        );
    }
    drop(media);
    filming.abort();

    let open = server
        .open_group(Group::new("open").spec(spec()))
        .await
        .unwrap();
    assert_eq!(
        open.url_for(None, Level::FULL, valid).unwrap_err().code(),
        "EINVAL"
    );
}
