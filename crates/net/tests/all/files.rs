//! Files to several receivers over sockets, through paths that do everything wrong.

mod mangler;
mod strangers;
mod trees;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::time::Duration;

use layercast_core::{Off, Rate, Span, Stream};
use layercast_multicast::{Failure, Members, Outcome, RateControl, SenderConfig, Weak};
use layercast_net::{
    CancellationToken, Destination, EmulateConfig, Emulated, Ended, FileReceiver, Folder, NetError,
    RECEIVE_BUFFER, ReceiveConfig, ReceiveEvent, ReceivedFile, ReceiverReport, Reception,
    SendConfig, SentFile, emulate_receivers, member_of, send_files,
};
use layercast_wire::Payload;
use layercast_wire::multicast::{
    Accept, Body, Data, DataFlags, MemberId, Packet, Reason, Report, State, Symbol,
};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use self::mangler::{Faults, Mangler};
use crate::common::{localhost, real_time};

const LONG: Duration = Duration::from_secs(60);

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("files")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A file of `octets` octets that look random.
fn make(folder: &Path, name: &str, octets: usize) -> (PathBuf, Vec<u8>) {
    let mut random = Stream::new(7, name);
    let content: Vec<u8> = (0..octets.div_ceil(8))
        .flat_map(|_| random.below(u64::MAX).to_le_bytes())
        .take(octets)
        .collect();
    let path = folder.join(name);
    fs::write(&path, &content).unwrap();
    (path, content)
}

struct Receiving {
    addr: SocketAddr,
    out: PathBuf,
    stop: CancellationToken,
    task: JoinHandle<Result<Reception, NetError>>,
}

fn receiver_at(member: u64, out: &Path, listen: SocketAddr, most: u64) -> ReceiveConfig {
    ReceiveConfig {
        name: member.to_string(),
        folder: Folder {
            path: out.to_owned(),
            overwrite: false,
            most,
        },
        group: None,
        side: None,
        listen,
        member: MemberId(member),
        identity: Some(member),
        buffer: RECEIVE_BUFFER,
        key: None,
        forever: false,
        patience: Span::ZERO,
    }
}

fn begin(config: ReceiveConfig) -> Receiving {
    let out = config.folder.path.clone();
    let receiver = FileReceiver::bind(config).unwrap();
    let addr = receiver.local_addr();
    let stop = CancellationToken::new();
    let (told, _) = mpsc::channel(1);
    Receiving {
        addr,
        out,
        task: {
            let stop = stop.clone();
            tokio::spawn(async move { receiver.run(stop, told, &mut Off).await })
        },
        stop,
    }
}

fn receiver(member: u64, out: &Path) -> Receiving {
    fs::create_dir_all(out).unwrap();
    begin(receiver_at(member, out, localhost(), u64::MAX))
}

impl Receiving {
    async fn end(self) -> Vec<ReceivedFile> {
        let received = timeout(LONG, self.task).await.unwrap().unwrap().unwrap();
        assert_eq!((received.ended, received.missing), (Ended::All, 0));
        received.files
    }

    /// As `kill -9` does it, but for what the system has been handed already.
    async fn kill(self) -> SocketAddr {
        self.task.abort();
        let _ = self.task.await;
        self.addr
    }
}

fn config(files: &[&Path], to: Vec<SocketAddr>, mbps: u64) -> SendConfig {
    let mut machine = SenderConfig::layercast(Rate::from_bps(mbps * 1_000_000));
    machine.opening.wait = Span::from_ms(200);
    machine.opening.tries = 10;
    SendConfig {
        files: files.iter().map(|&path| path.to_owned()).collect(),
        members: Members::Anyone {
            expect: Some(to.len() as u32),
            most: 1_000,
            late: true,
        },
        to: Destination::Hosts(to),
        machine,
    }
}

fn start(
    config: SendConfig,
    stop: &CancellationToken,
) -> JoinHandle<Result<Vec<SentFile>, NetError>> {
    let (told, _) = mpsc::channel(1);
    let stop = stop.clone();
    tokio::spawn(async move {
        let report = send_files(config, stop, told, &mut Off).await?;
        // If no receiver takes the list of files they are not tried.
        Ok(match report.sent.is_empty() {
            true => report.manifest.into_iter().collect(),
            false => report.sent,
        })
    })
}

async fn send(config: SendConfig) -> Vec<SentFile> {
    let sending = start(config, &CancellationToken::new());
    timeout(LONG, sending).await.unwrap().unwrap().unwrap()
}

fn delivered(file: &SentFile) -> usize {
    let done = file.receivers.iter();
    done.filter(|it| it.outcome == Outcome::Delivered).count()
}

/// Nothing but the files of these names is left in the folder.
fn only(out: &Path, names: &[&str]) {
    let mut there: Vec<String> = fs::read_dir(out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort();
    assert_eq!(there, names);
}

#[tokio::test]
async fn several_files_reach_several_receivers() {
    let folder = folder("plain");
    let (large, content) = make(&folder, "large.bin", 3_000_001);
    let (empty, _) = make(&folder, "empty", 0);
    let (small, little) = make(&folder, "small", 10);
    let receivers: Vec<Receiving> = (0..3)
        .map(|member| receiver(member, &folder.join(format!("r{member}"))))
        .collect();
    let to = receivers.iter().map(|it| it.addr).collect();
    let sent = send(config(&[&large, &empty, &small], to, 200)).await;
    assert_eq!(sent.len(), 3);
    for file in &sent {
        assert_eq!((delivered(file), &file.failure), (3, &None), "{file:#?}");
        assert_eq!(file.stats.forged, 0);
    }
    for it in receivers {
        let out = it.out.clone();
        let files = it.end().await;
        assert!(files.iter().all(|file| file.path.is_some()), "{files:#?}");
        assert!(fs::read(out.join("large.bin")).unwrap() == content);
        assert!(fs::read(out.join("small")).unwrap() == little);
        only(&out, &["empty", "large.bin", "small"]);
    }
}

#[tokio::test]
async fn loss_duplicates_disorder_and_corruption_leave_the_files_identical() {
    let folder = folder("faults");
    let (path, content) = make(&folder, "film", 2_000_003);
    let mut receivers = Vec::new();
    let mut paths = Vec::new();
    for member in 0..4 {
        let it = receiver(member, &folder.join(format!("r{member}")));
        let faults = match member {
            // One of them loses half of what there is.
            3 => Faults {
                loss: 0.5,
                ..Faults::default()
            },
            _ => Faults {
                loss: 0.05,
                duplicate: 0.1,
                reorder: 0.1,
                corrupt: 0.1,
                ..Faults::default()
            },
        };
        paths.push(Mangler::start(it.addr, faults, member).await);
        receivers.push(it);
    }
    let to = paths.iter().map(|it| it.addr).collect();
    let sent = send(config(&[&path], to, 100)).await;
    assert_eq!(
        (delivered(&sent[0]), &sent[0].failure),
        (4, &None),
        "{sent:#?}"
    );
    for it in receivers {
        let out = it.out.clone();
        let files = it.end().await;
        assert!(files[0].stats.rebuilt > 0, "{files:#?}");
        assert!(fs::read(out.join("film")).unwrap() == content);
    }
}

#[real_time(tokio)]
async fn a_whole_receiver_ends_without_a_release() {
    let folder = folder("no-release");
    let (path, _) = make(&folder, "film", 100_000);
    let tree = folder.join("tree");
    fs::create_dir_all(tree.join("empty")).unwrap();
    // By its own silence, and by the patience of its user; folders are whole without a file.
    for (case, input, wait, files) in [
        ("silence", &path, Span::ZERO, 1),
        ("patience", &path, Span::from_secs(3), 1),
        ("folders", &tree, Span::from_secs(3), 0),
    ] {
        let out = folder.join(case);
        fs::create_dir_all(&out).unwrap();
        let it = begin(ReceiveConfig {
            patience: wait,
            ..receiver_at(1, &out, localhost(), u64::MAX)
        });
        let faults = Faults {
            no_release: true,
            ..Faults::default()
        };
        let path = Mangler::start(it.addr, faults, 1).await;
        send(config(&[input], vec![path.addr], 100)).await;
        let ended = timeout(Duration::from_secs(15), it.task).await;
        let received = ended.expect(case).unwrap().unwrap();
        let found = (received.ended, received.missing, received.files.len());
        assert_eq!(found, (Ended::All, 0, files), "{case}");
        // The silence is no part of the transfer.
        let is_quick = |it: &ReceivedFile| it.path.is_some() && it.took < Span::from_secs(2);
        assert!(received.files.iter().all(is_quick), "{case}: {received:#?}");
    }
}

#[real_time(tokio)]
async fn a_receiver_that_was_killed_goes_on_where_it_was() {
    let folder = folder("killed-receiver");
    let (path, content) = make(&folder, "film", 8_000_000);
    let [one, two] = [1, 2].map(|member| receiver(member, &folder.join(format!("r{member}"))));
    let to = vec![one.addr, two.addr];
    let sending = start(config(&[&path], to, 10), &CancellationToken::new());
    // Partial files are saved every two seconds; the whole takes six.
    sleep(Duration::from_millis(3_500)).await;
    let out = two.out.clone();
    let listen = two.kill().await;
    let two = begin(receiver_at(2, &out, listen, u64::MAX));
    let sent = timeout(LONG, sending).await.unwrap().unwrap().unwrap();
    assert_eq!(delivered(&sent[0]), 2, "{sent:#?}");
    let files = two.end().await;
    assert!(files[0].held_before > 0, "{files:#?}");
    assert!(fs::read(out.join("film")).unwrap() == content);
    one.end().await;
}

#[real_time(tokio)]
async fn when_the_sender_was_killed_receivers_wait_for_it_and_go_on() {
    let folder = folder("killed-sender");
    let (path, content) = make(&folder, "film", 4_000_000);
    let it = receiver(1, &folder.join("r1"));
    let sending = start(
        config(&[&path], vec![it.addr], 10),
        &CancellationToken::new(),
    );
    sleep(Duration::from_millis(1_500)).await;
    sending.abort();
    let _ = sending.await;
    // Silent for long enough to be believed to be gone.
    sleep(Duration::from_millis(2_100)).await;
    let sent = send(config(&[&path], vec![it.addr], 100)).await;
    assert_eq!(delivered(&sent[0]), 1, "{sent:#?}");
    let packets = 4_000_000_u64.div_ceil(1_400);
    assert!(sent[0].stats.data < packets * 8 / 10, "{sent:#?}");
    let out = it.out.clone();
    it.end().await;
    assert!(fs::read(out.join("film")).unwrap() == content);
}

#[real_time(tokio)]
async fn who_stops_tells_the_other_side() {
    let folder = folder("stopped");
    let (path, _) = make(&folder, "film", 8_000_000);
    let [one, two] = [1, 2].map(|member| receiver(member, &folder.join(format!("r{member}"))));
    let stop = CancellationToken::new();
    let sending = start(config(&[&path], vec![one.addr, two.addr], 10), &stop);
    sleep(Duration::from_millis(1_000)).await;
    two.stop.cancel();
    let received = timeout(LONG, two.task).await.unwrap().unwrap().unwrap();
    assert_eq!(
        (received.files.len(), received.ended, received.missing),
        (0, Ended::Stopped, 1)
    );
    sleep(Duration::from_millis(500)).await;
    stop.cancel();
    let sent = timeout(LONG, sending).await.unwrap().unwrap().unwrap();
    let user = Outcome::Failed(Reason::User);
    assert!(
        sent[0].receivers.iter().all(|it| it.outcome == user),
        "{sent:#?}"
    );
    one.stop.cancel();
    let files = timeout(LONG, one.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap()
        .files;
    assert_eq!(files.len(), 0);
}

#[tokio::test]
async fn nobody_there_and_no_room_are_told() {
    let folder = folder("nobody");
    let (path, _) = make(&folder, "film", 100_000);
    let nobody = UdpSocket::bind(localhost()).await.unwrap();
    let addr = nobody.local_addr().unwrap();
    let out = folder.join("r1");
    let it = begin(receiver_at(1, &out, localhost(), 99_999));
    let mut config = config(&[&path], vec![addr, it.addr], 100);
    config.machine.opening.tries = 2;
    let sent = send(config).await;
    assert!(sent[0].failure.is_some(), "{sent:#?}");
    assert_eq!(sent[0].unreached, [addr]);
    assert_eq!(
        sent[0].receivers[0].outcome,
        Outcome::Failed(Reason::NoRoom)
    );
    let files = it.end().await;
    assert_eq!(
        (files[0].reason, &files[0].path),
        (Some(Reason::NoRoom), &None)
    );
}

#[tokio::test]
async fn forged_feedback_and_hostile_datagrams_do_no_harm() {
    let folder = folder("forged");
    let (path, content) = make(&folder, "film", 2_000_000);
    let master = [9; 32];
    let mut config_of_it = receiver_at(1, &folder.join("r1"), localhost(), u64::MAX);
    config_of_it.key = Some(master);
    let it = begin(config_of_it);
    // Hears what the receiver hears, as anybody in a group can, and speaks in its name.
    let forger = Mangler::start(it.addr, Faults::default(), 1).await;
    let heard = forger.listen();
    let mut config = config(&[&path], vec![forger.addr], 20);
    config.machine.receipts = Some(master);
    let sending = start(config, &CancellationToken::new());
    let forging = tokio::spawn(forge(heard, it.addr));
    let sent = timeout(LONG, sending).await.unwrap().unwrap().unwrap();
    forging.abort();
    let out = it.out.clone();
    let files = it.end().await;
    assert!(files[0].path.is_some(), "{files:#?}");
    assert!(fs::read(out.join("film")).unwrap() == content);
    let receivers = &sent[0].receivers;
    let told = receivers
        .iter()
        .find(|it| it.member == MemberId(1))
        .unwrap();
    assert_eq!(told.outcome, Outcome::Delivered);
    assert!(
        sent[0].malformed > 0,
        "what is not sealed is not heard: {sent:#?}"
    );
    let believed = |it: &&layercast_net::ReceiverReport| it.outcome == Outcome::Delivered;
    assert_eq!(receivers.iter().filter(believed).count(), 1, "{sent:#?}");
}

#[tokio::test]
async fn who_has_a_key_believes_announcements_made_with_it_only() {
    let folder = folder("announced");
    let (path, content) = make(&folder, "film", 300_000);
    let mut config_of_it = receiver_at(1, &folder.join("r1"), localhost(), u64::MAX);
    config_of_it.key = Some([9; 32]);
    let it = begin(config_of_it);
    for key in [None, Some([8; 32])] {
        let mut config = config(&[&path], vec![it.addr], 100);
        config.machine.receipts = key;
        config.machine.opening.tries = 2;
        let sent = send(config).await;
        assert_eq!(sent[0].failure, Some(Failure::NoReceivers), "{key:?}");
    }
    assert!(fs::read_dir(&it.out).is_err(), "nothing was begun");
    let mut config = config(&[&path], vec![it.addr], 100);
    config.machine.receipts = Some([9; 32]);
    assert_eq!(delivered(&send(config).await[0]), 1);
    let out = it.out.clone();
    it.end().await;
    assert!(fs::read(out.join("film")).unwrap() == content);
}

/// Speaks in the receiver's name and in another's to the sender, and in the sender's to the receiver.
async fn forge(mut heard: mpsc::Receiver<(SocketAddr, Vec<u8>)>, receiver: SocketAddr) {
    let socket = UdpSocket::bind(localhost()).await.unwrap();
    let mut random = Stream::new(1, "forger");
    while let Some((sender, bytes)) = heard.recv().await {
        let complete = |member| {
            let state = State::Complete { receipt: [0; 16] };
            Body::Report(Box::new(Report::alone(MemberId(member), state)))
        };
        let accept = Body::Accept(Accept::alone(MemberId(66)));
        let poison = Body::Data(Data {
            round: 0,
            flags: DataFlags::default(),
            symbol: Symbol::Source(random.below(1_400)),
            payload: Payload::Zeros(1_400),
        });
        let abort = Body::Abort {
            reason: Reason::User,
        };
        // The number of the session shows.
        let session = u64::from_be_bytes(bytes[2..10].try_into().unwrap());
        for (to, body) in [
            (sender, complete(1)),
            (sender, accept),
            (sender, complete(66)),
            (receiver, poison),
            (receiver, abort),
        ] {
            let mut forged = Vec::new();
            Packet { session, body }.encode_into(&mut forged);
            let _ = socket.send_to(&forged, to).await;
        }
        // And what is no packet at all.
        let noise = &bytes[..random.below(bytes.len() as u64) as usize];
        let _ = socket.send_to(noise, receiver).await;
        let _ = socket.send_to(noise, sender).await;
    }
}

#[tokio::test]
async fn a_group_on_loopback() {
    let folder = folder("group");
    let (path, content) = make(&folder, "film", 1_500_000);
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 9), 47_809);
    let mut receivers = Vec::new();
    for member in 0..3 {
        let out = folder.join(format!("r{member}"));
        let mut config = receiver_at(member, &out, localhost(), u64::MAX);
        config.group = Some((group, Ipv4Addr::LOCALHOST));
        match FileReceiver::bind(config.clone()) {
            Ok(probe) => drop(probe),
            Err(error) => {
                println!("skipped: the kernel refuses multicast on loopback: {error}");
                return;
            }
        }
        receivers.push(begin(config));
    }
    let mut config = config(&[&path], Vec::new(), 100);
    config.to = Destination::Group {
        group,
        interface: Ipv4Addr::LOCALHOST,
        hops: 1,
        side: None,
    };
    config.members = Members::Anyone {
        expect: Some(3),
        most: 10,
        late: true,
    };
    let sent = send(config).await;
    assert_eq!(delivered(&sent[0]), 3, "{sent:#?}");
    let packets = 1_500_000_u64.div_ceil(1_400);
    assert!(sent[0].datagrams < packets * 11 / 10, "{sent:#?}");
    for it in receivers {
        let out = it.out.clone();
        it.end().await;
        assert!(fs::read(out.join("film")).unwrap() == content);
    }
}

/// A receiver that joins when most has been sent lacks too much: it is served in the second group, and the
/// others, which are complete by then, get none of that.
#[real_time(tokio)]
async fn who_comes_late_is_served_aside() {
    let folder = folder("side");
    let (path, content) = make(&folder, "film", 3_000_000);
    let [group, side] =
        [9, 10].map(|it| SocketAddrV4::new(Ipv4Addr::new(239, 255, 78, it), 47_811));
    let begin_one = |member: u64| {
        let out = folder.join(format!("r{member}"));
        let mut config = receiver_at(member, &out, localhost(), u64::MAX);
        config.group = Some((group, Ipv4Addr::LOCALHOST));
        config.side = Some(side);
        match FileReceiver::bind(config.clone()) {
            Ok(probe) => drop(probe),
            Err(error) => {
                println!("skipped: the kernel refuses multicast on loopback: {error}");
                return None;
            }
        }
        Some(begin(config))
    };
    let early = [begin_one(0), begin_one(1), begin_one(2)];
    if early.iter().any(Option::is_none) {
        return;
    }
    let mut config = config(&[&path], Vec::new(), 20);
    config.to = Destination::Group {
        group,
        interface: Ipv4Addr::LOCALHOST,
        hops: 1,
        side: Some(side),
    };
    config.members = Members::Anyone {
        expect: Some(3),
        most: 10,
        late: true,
    };
    // The whole takes 1.2 s; announcements come each second.
    let sending = start(config, &CancellationToken::new());
    sleep(Duration::from_millis(600)).await;
    let late = begin_one(3).unwrap();
    let sent = timeout(LONG, sending).await.unwrap().unwrap().unwrap();
    assert_eq!(delivered(&sent[0]), 4, "{sent:#?}");
    let packets = 3_000_000_u64.div_ceil(1_400);
    assert!(sent[0].stats.data > packets * 3 / 2, "{sent:#?}");
    let asked = |it: &ReceiverReport| it.repairs;
    let asked: u64 = sent[0].receivers.iter().map(asked).sum();
    assert!((packets / 2..=packets).contains(&asked), "{sent:#?}");
    for (it, is_late) in early
        .into_iter()
        .flatten()
        .zip([false; 3])
        .chain([(late, true)])
    {
        let out = it.out.clone();
        let files = it.end().await;
        assert!(fs::read(out.join("film")).unwrap() == content);
        // Data of the second group do not reach receivers that do not need them.
        let heard = files[0].stats.data;
        assert!(is_late || heard < packets * 11 / 10, "{files:#?}");
    }
}

#[tokio::test]
async fn files_go_as_streams_too_in_order_for_all() {
    let folder = folder("streams");
    let (path, content) = make(&folder, "film", 700_001);
    let (empty, _) = make(&folder, "empty", 0);
    let mut receivers = Vec::new();
    let mut paths = Vec::new();
    for member in 0..3 {
        let it = receiver(member, &folder.join(format!("r{member}")));
        let faults = Faults {
            loss: 0.01,
            duplicate: 0.02,
            reorder: 0.02,
            corrupt: 0.01,
            ..Faults::default()
        };
        paths.push(Mangler::start(it.addr, faults, member).await);
        receivers.push(it);
    }
    let to = paths.iter().map(|it| it.addr).collect();
    let mut config = config(&[&path, &empty], to, 50);
    config.machine = SenderConfig {
        packet_size: 1_400,
        opening: config.machine.opening,
        weak: Weak::Keep,
        ..SenderConfig::frm()
    };
    let sent = send(config).await;
    for file in &sent {
        assert_eq!((delivered(file), &file.failure), (3, &None), "{file:#?}");
    }
    for it in receivers {
        let out = it.out.clone();
        let files = it.end().await;
        assert!(files.iter().all(|file| file.path.is_some()), "{files:#?}");
        assert!(fs::read(out.join("film")).unwrap() == content);
        only(&out, &["empty", "film"]);
    }
}

/// Sends a file to emulated receivers, if the kernel has multicast on loopback.
async fn emulated(kind: Emulated, receivers: u32, port: u16, machine: SenderConfig) {
    let folder = folder(&format!("emulated-{port}"));
    let (path, _) = make(&folder, "film", 400_000);
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 10), port);
    let emulate = EmulateConfig {
        group,
        interface: Ipv4Addr::LOCALHOST,
        receivers,
        kind,
        key: machine.receipts,
        patience: Span::ZERO,
    };
    let emulating = tokio::spawn(emulate_receivers(emulate, CancellationToken::new()));
    sleep(Duration::from_millis(100)).await;
    if emulating.is_finished() {
        let error = emulating.await.unwrap().unwrap_err();
        println!("skipped: the kernel refuses multicast on loopback: {error}");
        return;
    }
    let mut config = config(&[&path], Vec::new(), 50);
    config.machine = machine;
    // Beside many other tests the receivers may take seconds to answer.
    config.machine.opening.tries = 100;
    config.to = Destination::Group {
        group,
        interface: Ipv4Addr::LOCALHOST,
        hops: 1,
        side: None,
    };
    config.members = Members::Anyone {
        expect: Some(receivers),
        most: 1_000,
        late: false,
    };
    let sent = send(config).await;
    assert_eq!(delivered(&sent[0]), receivers as usize, "{sent:#?}");
    let told = timeout(LONG, emulating).await.unwrap().unwrap().unwrap();
    assert_eq!(told.joined, u64::from(receivers), "{told:?}");
    assert!(told.complete > 0 && told.sent >= told.joined, "{told:?}");
}

#[real_time(tokio)]
async fn many_receivers_of_one_process_lose_each_for_itself() {
    let mars = Emulated::Mars {
        loss: 0.03,
        delay: Span::from_ms(3),
    };
    let mut machine = SenderConfig::layercast(Rate::from_bps(50_000_000));
    machine.receipts = Some([5; 32]);
    emulated(mars, 40, 47_820, machine).await;
}

#[real_time(tokio)]
async fn who_only_says_yes_is_heard_one_after_the_other() {
    let lares = Emulated::Lares {
        gap: Span::from_us(200),
    };
    let machine = SenderConfig {
        rate: RateControl::Fixed(Rate::from_bps(50_000_000)),
        ..SenderConfig::rmtp()
    };
    emulated(lares, 300, 47_821, machine).await;
}
