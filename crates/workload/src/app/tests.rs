use std::sync::Arc;

use layercast_core::{Off, Stream};

use super::*;
use crate::dist::Distribution;

fn dist(text: &str) -> Distribution {
    Distribution::find(text, &|_| Err(String::new())).unwrap()
}

fn stream() -> Stream {
    Stream::new(1, "test")
}

fn at(ms: u64) -> Time {
    Time::ZERO.saturating_add(Span::from_ms(ms))
}

/// What a conversation wants and says after an input.
fn drive(app: &mut Conversation, now: Time, input: AppInput) -> (Vec<Act>, Vec<Record>) {
    app.handle(now, input, &mut Off);
    drained(app, now)
}

fn drained(app: &mut Conversation, now: Time) -> (Vec<Act>, Vec<Record>) {
    let acts = std::iter::from_fn(|| app.poll_transmit(now, &mut Off)).collect();
    (acts, std::iter::from_fn(|| app.poll_event()).collect())
}

fn woken(app: &mut Conversation) -> (Time, Vec<Act>, Vec<Record>) {
    let now = app.next_timeout().expect("it wants to act");
    app.on_timeout(now, &mut Off);
    let (acts, records) = drained(app, now);
    (now, acts, records)
}

const CONN: ConnId = ConnId(0);
const CLIENT: HostId = HostId(1);
const SERVER: HostId = HostId(2);

fn got(conn: ConnId, end: End, bytes: u64) -> AppInput {
    AppInput::Received { conn, end, bytes }
}

fn telnet(interarrival: &str) -> Conversation {
    let model = TelnetModel {
        interarrival: dist(interarrival),
        replysize: dist("const(3) B"),
        duration: dist("const(1) s"),
    };
    let telnet = Telnet::new(Arc::new(model), stream(), CLIENT, SERVER);
    Conversation::Telnet(Box::new(telnet))
}

#[test]
fn telnet_types_without_waiting_and_measures_each_reply() {
    let mut app = telnet("const(400) ms");
    let (acts, _) = drive(&mut app, at(0), AppInput::Start);
    assert!(matches!(
        acts[..],
        [Act::Connect {
            to: SERVER,
            to_port: 23,
            ..
        }]
    ));
    let (acts, records) = drive(&mut app, at(70), AppInput::Established { conn: CONN });
    assert!(acts.is_empty());
    assert_eq!(
        records,
        [Record::TelnetConnect {
            took: Span::from_ms(70)
        }]
    );
    for typed in [470, 870] {
        let (now, acts, _) = woken(&mut app);
        assert_eq!(now, at(typed));
        assert_eq!(
            acts[0],
            Act::Write {
                conn: CONN,
                end: End::Client,
                bytes: 1
            }
        );
    }
    // Both keystrokes reach the server immediately: one write of both replies.
    let (acts, _) = drive(&mut app, at(900), got(CONN, End::Server, 2));
    assert_eq!(
        acts,
        [Act::Write {
            conn: CONN,
            end: End::Server,
            bytes: 6
        }]
    );
    let (_, records) = drive(&mut app, at(950), got(CONN, End::Client, 4));
    assert_eq!(
        records,
        [Record::TelnetRtt {
            bytes: 3,
            took: Span::from_ms(480)
        }]
    );
    let (_, records) = drive(&mut app, at(960), got(CONN, End::Client, 2));
    assert_eq!(
        records,
        [Record::TelnetRtt {
            bytes: 3,
            took: Span::from_ms(90)
        }]
    );
    assert_eq!(
        app.next_timeout(),
        None,
        "the next keystroke would be after the end"
    );
    drive(
        &mut app,
        at(970),
        AppInput::Ended {
            conn: CONN,
            end: End::Server,
        },
    );
    assert!(!app.is_done());
    drive(
        &mut app,
        at(980),
        AppInput::Ended {
            conn: CONN,
            end: End::Client,
        },
    );
    assert!(app.is_done());
}

#[test]
fn a_server_that_never_reads_stalls_the_user() {
    let mut app = telnet("const(0.01) ms");
    drive(&mut app, at(0), AppInput::Start);
    drive(&mut app, at(0), AppInput::Established { conn: CONN });
    let (mut written, mut stalled) = (0, 0);
    while app.next_timeout().is_some() {
        let (_, acts, records) = woken(&mut app);
        written += acts
            .iter()
            .filter(|act| matches!(act, Act::Write { .. }))
            .count();
        stalled += records
            .iter()
            .filter(|it| **it == Record::UserStalled)
            .count();
    }
    assert_eq!(written, 65_536);
    assert_eq!(written + stalled, 100_000);
}

#[test]
fn ftp_fetches_one_file_after_another_on_connections_of_the_server() {
    let model = FtpModel {
        nitems: dist("const(2) files"),
        itemsize: dist("const(0) B"),
        ctlsize: dist("const(10) B"),
    };
    let ftp = Ftp::new(Arc::new(model), stream(), CLIENT, SERVER);
    let mut app = Conversation::Ftp(Box::new(ftp));
    drive(&mut app, at(0), AppInput::Start);
    drive(&mut app, at(10), AppInput::Established { conn: CONN });
    for file in 1..=2 {
        let data = ConnId(file);
        let (acts, _) = drive(&mut app, at(20), got(CONN, End::Server, 4));
        assert!(acts.is_empty(), "the command is not complete");
        let (acts, _) = drive(&mut app, at(20), got(CONN, End::Server, 6));
        assert!(matches!(
            acts[..],
            [Act::Connect {
                opener: End::Server,
                from: SERVER,
                from_port: Some(20),
                to: CLIENT,
                ..
            }]
        ));
        let (acts, records) = drive(&mut app, at(30), AppInput::Established { conn: data });
        assert_eq!(
            acts[0],
            Act::Write {
                conn: data,
                end: End::Server,
                bytes: 1
            }
        );
        assert_eq!(records, [Record::ZeroLength]);
        drive(&mut app, at(40), got(data, End::Client, 1));
        let (acts, records) = drive(
            &mut app,
            at(40),
            AppInput::Ended {
                conn: data,
                end: End::Client,
            },
        );
        assert!(matches!(records[0], Record::FtpFile { bytes: 1, .. }));
        assert_eq!(
            acts[0],
            Act::Close {
                conn: data,
                end: End::Client
            }
        );
        let last = matches!(
            acts[1],
            Act::Close {
                conn: CONN,
                end: End::Client
            }
        );
        assert_eq!(last, file == 2);
        assert_eq!(
            last,
            matches!(
                records.last(),
                Some(Record::FtpSession {
                    files: 2,
                    bytes: 2,
                    ..
                })
            )
        );
    }
}

#[test]
fn a_lost_data_connection_costs_one_file() {
    let model = FtpModel {
        nitems: dist("const(2) files"),
        itemsize: dist("const(5) B"),
        ctlsize: dist("const(1) B"),
    };
    let ftp = Ftp::new(Arc::new(model), stream(), CLIENT, SERVER);
    let mut app = Conversation::Ftp(Box::new(ftp));
    drive(&mut app, at(0), AppInput::Start);
    drive(&mut app, at(0), AppInput::Established { conn: CONN });
    drive(&mut app, at(0), got(CONN, End::Server, 1));
    let (acts, records) = drive(&mut app, at(9), AppInput::Failed { conn: ConnId(1) });
    assert_eq!(records, [Record::Failed { conn: ConnId(1) }]);
    assert!(matches!(
        acts[..],
        [Act::Write {
            conn: CONN,
            end: End::Client,
            ..
        }]
    ));
}

fn browser(parallel: u32) -> Conversation {
    let messages = |request, reply| Messages {
        request: dist(request),
        reply: dist(reply),
    };
    let model = HttpModel {
        first: messages("const(100) B", "const(1000) B"),
        others: messages("const(50) B", "const(500) B"),
        files_per_page: dist("const(3) files"),
        think: dist("const(5) s"),
        consecutive_pages: dist("const(2) pages"),
        parallel,
    };
    let servers = [(SERVER, 3.0), (HostId(3), 1.0)];
    let servers = servers
        .map(|(host, weight)| Server { host, weight })
        .to_vec();
    let browser = Browser::new(Arc::new(model), stream(), CLIENT, servers);
    Conversation::Browser(Box::new(browser))
}

#[test]
fn a_browser_fetches_files_in_turn_and_then_thinks() {
    let mut app = browser(1);
    let (mut acts, _) = drive(&mut app, at(0), AppInput::Start);
    for (file, sizes) in [(1, (100, 1000)), (2, (50, 500)), (3, (50, 500))] {
        let conn = ConnId(file);
        assert!(
            matches!(acts.last(), Some(Act::Connect { conn: it, to_port: 80, .. }) if *it == conn)
        );
        (acts, _) = drive(&mut app, at(10), AppInput::Established { conn });
        assert_eq!(
            acts,
            [Act::Write {
                conn,
                end: End::Client,
                bytes: sizes.0
            }]
        );
        (acts, _) = drive(&mut app, at(20), got(conn, End::Server, sizes.0));
        assert_eq!(
            acts[0],
            Act::Write {
                conn,
                end: End::Server,
                bytes: sizes.1
            }
        );
        drive(&mut app, at(30), got(conn, End::Client, sizes.1));
        let records;
        (acts, records) = drive(
            &mut app,
            at(40),
            AppInput::Ended {
                conn,
                end: End::Client,
            },
        );
        assert!(matches!(records[0], Record::HttpItem { bytes, .. } if bytes == sizes.1));
        let page = Record::HttpPage {
            files: 3,
            bytes: 2000,
            took: Span::from_ms(40),
        };
        assert_eq!(records.get(1), (file == 3).then_some(&page));
    }
    assert_eq!(app.next_timeout(), Some(at(5040)));
    assert!(!app.is_done());
}

#[test]
fn a_browser_opens_as_many_connections_as_it_may_and_gives_a_page_up_that_fails() {
    let mut app = browser(2);
    let (acts, _) = drive(&mut app, at(0), AppInput::Start);
    assert_eq!(acts.len(), 2);
    let (acts, records) = drive(&mut app, at(5), AppInput::Failed { conn: ConnId(1) });
    assert!(acts.is_empty(), "no further file of this page is asked for");
    assert_eq!(records.len(), 1);
    assert_eq!(
        app.next_timeout(),
        None,
        "the other file is still under way"
    );
    drive(&mut app, at(6), AppInput::Failed { conn: ConnId(2) });
    assert_eq!(app.next_timeout(), Some(at(5006)));
}

#[test]
fn messages_are_handed_over_back_to_back() {
    let model = PushModel {
        nitems: dist("const(3) articles"),
        itemsize: dist("const(7) B"),
        port: 119,
    };
    let mut app = Conversation::Push(Box::new(Push::new(
        Arc::new(model),
        stream(),
        CLIENT,
        SERVER,
    )));
    drive(&mut app, at(0), AppInput::Start);
    let (acts, _) = drive(&mut app, at(1), AppInput::Established { conn: CONN });
    assert_eq!(acts.len(), 4);
    assert_eq!(
        acts[3],
        Act::Close {
            conn: CONN,
            end: End::Client
        }
    );
    drive(
        &mut app,
        at(2),
        AppInput::Ended {
            conn: CONN,
            end: End::Server,
        },
    );
    let (_, records) = drive(
        &mut app,
        at(3),
        AppInput::Ended {
            conn: CONN,
            end: End::Client,
        },
    );
    assert_eq!(
        records,
        [Record::Pushed {
            bytes: 21,
            took: Span::from_ms(3)
        }]
    );
    assert!(app.is_done());
}

fn run(mut app: Conversation) -> (Vec<(Time, u32)>, Record) {
    drive(&mut app, at(0), AppInput::Start);
    let mut sent = Vec::new();
    loop {
        let (now, acts, records) = woken(&mut app);
        for act in acts {
            if let Act::Datagram { bytes, .. } = act {
                sent.push((now, bytes));
                drive(&mut app, now, AppInput::Datagram { sent: now });
            }
        }
        if let Some(record) = records.first() {
            assert!(app.is_done());
            return (sent, *record);
        }
    }
}

#[test]
fn voice_is_packets_while_somebody_talks() {
    let model = AudioModel {
        talkspurt: dist("phone.talkspurt"),
        pause: dist("phone.pause"),
        duration: dist("const(20000) s"),
        payload: 320,
        period: Span::from_ms(40),
        bound: Span::from_ms(150),
    };
    let audio = Audio::new(Arc::new(model), stream(), CLIENT, SERVER);
    let (sent, record) = run(Conversation::Audio(Box::new(audio)));
    let gaps = sent.windows(2).map(|pair| pair[1].0.since(pair[0].0));
    assert!(gaps.clone().all(|gap| gap >= Span::from_ms(40)));
    // specs/insane-workloads.md 5.2: active for 0.451 of the time, 28.9 kbit/s.
    let rate = sent.len() as f64 * 320.0 * 8.0 / 20_000.0;
    assert!((rate / 28_900.0 - 1.0).abs() < 0.05, "{rate}");
    let n = sent.len() as u64;
    let media = Media::Audio;
    assert_eq!(
        record,
        Record::Stream {
            media,
            sent: n,
            received: n,
            overdue: 0
        }
    );
}

#[test]
fn video_falls_on_two_lines() {
    let model = VideoModel {
        size_cr: dist("video.size_cr"),
        size_bg: dist("video.size_bg"),
        packets_cr: dist("geometric(0.1984,37) packets"),
        packets_bg: dist("lomax(1.9,3.5823,462) packets"),
        duration: dist("const(20000) s"),
        rate: layercast_core::Rate::from_bps(128_000),
        frame: Span::from_ms(125),
        bound: Span::from_ms(150),
    };
    let video = Video::new(Arc::new(model), stream(), CLIENT, SERVER);
    let (sent, _) = run(Conversation::Video(Box::new(video)));
    let mut motion = (0u64, 0u64);
    let mut background = (0u64, 0u64);
    for pair in sent.windows(2) {
        let gap = pair[1].0.since(pair[0].0);
        let bytes = u64::from(pair[0].1);
        let on_line = gap == layercast_core::Rate::from_bps(128_000).time_for(bytes);
        assert!(on_line || gap == Span::from_ms(125), "{gap:?}");
        let sum = if on_line {
            &mut motion
        } else {
            &mut background
        };
        *sum = (sum.0 + 1, sum.1 + bytes);
    }
    let mean = |sum: (u64, u64)| sum.1 as f64 / sum.0 as f64;
    // specs/insane-workloads.md 3.2: 758 and 338 B, 53.6 kbit/s.
    assert!(
        (mean(motion) / 758.0 - 1.0).abs() < 0.02,
        "{}",
        mean(motion)
    );
    assert!(
        (mean(background) / 338.0 - 1.0).abs() < 0.02,
        "{}",
        mean(background)
    );
    let rate = (motion.1 + background.1) as f64 * 8.0 / 20_000.0;
    assert!((rate / 53_600.0 - 1.0).abs() < 0.05, "{rate}");
}

#[test]
fn a_trace_is_sent_as_it_was() {
    let trace = Trace::parse("time_s,bytes\n10.5,100\n10.5,200\n# pause\n11.0,300\n").unwrap();
    let replay = Replay::new(Arc::new(trace), CLIENT, SERVER, Span::from_ms(1));
    let (sent, _) = run(Conversation::Replay(Box::new(replay)));
    assert_eq!(sent, [(at(0), 100), (at(0), 200), (at(500), 300)]);
    let wrong = |text| Trace::parse(text).unwrap_err();
    assert_eq!(wrong(""), TraceError::Empty);
    assert_eq!(wrong("1.0\n"), TraceError::Syntax(1));
    assert_eq!(wrong("1,5\n0.5,5\n"), TraceError::Order(2));
    assert_eq!(wrong("nan,5\n"), TraceError::Syntax(1));
    assert_eq!(wrong("0,5\n20000000,5\n"), TraceError::Range(2));
    // Times since 1970 count from the first, to the microsecond.
    let epoch = Trace::parse("1764177983.000001,100\n1764177983.125002,100\n").unwrap();
    assert_eq!(epoch.packets()[1], (Span::from_us(125_001), 100));
    assert_eq!(wrong("1,0\n"), TraceError::Size(1));
    assert_eq!(
        wrong("1,5\n2,\n"),
        TraceError::Syntax(2),
        "cut off in mid line"
    );
}
