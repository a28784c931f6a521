//! Protected links: impostors and replayed messages change nothing, and the promise is kept meanwhile.

use crate::common;

use std::any::Any;
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::neighbour::{Neighbour, identity, joined_by, protected, trusted};
use crate::common::{LONG, join, join_config, real_time, server, sink, start, switch};
use layercast_core::{FlowId, Level, NodeId, Span, Stream};
use layercast_net::{
    Bearer, Control, Fingerprint, Identity, JoinEvent, JoinSummary, MAX_PER_CERTIFICATE, NetError,
    NodeEvent, QuicChannel, Remote, Trust, XtpChannel, get_stats, list_flows,
};
use layercast_protect::{LinkKey, LinkSealer};
use layercast_wire::{AdapterKind, Carriage, Member, Secret, Signal};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const DATAGRAMS: Carriage = Carriage::Datagrams;
const FILM: FlowId = FlowId(1);

/// A receiver of a node that only takes protected calls.
fn guest(addr: SocketAddr, of: &Identity) -> layercast_net::JoinConfig {
    let mut config = join_config(addr, sink("guest", 11, DATAGRAMS));
    config.upstream = trusted(addr, of);
    config
}

fn joined(event: &JoinEvent) -> bool {
    matches!(event, JoinEvent::Joined(_))
}

fn keeps_its_promise(summary: &JoinSummary) {
    let receiver = &summary.receiver;
    let broken = (receiver.lost.base, receiver.late_base);
    assert_eq!(broken, (0, 0), "{receiver:#?}");
    assert!(receiver.frames.base > 8, "{receiver:#?}");
}

#[real_time(tokio)]
async fn a_flow_goes_over_protected_links_hop_by_hop() {
    for carriage in [Carriage::Datagrams, Carriage::Cells] {
        let (near, far) = (identity(), identity());
        let server = start(protected(server(carriage, 4), &near)).await;
        let mut config = protected(switch("chuff", 2, carriage, &[]), &far);
        config.upstreams = vec![trusted(server.addr, &near)];
        let chuff = start(config).await;
        let mut config = join_config(chuff.addr, sink("guest", 11, carriage));
        config.upstream = trusted(chuff.addr, &far);
        let summary = join(config).end().await.unwrap();
        keeps_its_promise(&summary);
        let highest = summary.receiver.received.iter().map(|(_, level)| *level);
        assert_eq!(highest.max(), Some(Level::FULL), "{:#?}", summary.receiver);
        for udp in [summary.udp, chuff.stop().await.udp, server.stop().await.udp] {
            assert_eq!((udp.forged, udp.replayed), (0, 0));
            assert!(udp.received > 0);
        }
    }
}

#[real_time(tokio)]
async fn forged_and_replayed_adaptation_changes_nothing() {
    let own = identity();
    let node = start(protected(server(DATAGRAMS, 6), &own)).await;
    let mut other = join(guest(node.addr, &own));
    other.wait_for(joined).await;

    let mut victim = Neighbour::call(node.addr, &own, &identity(), "victim").await;
    victim.join("film").await;
    let wish = victim.adapter(AdapterKind::Res, Level::FULL, 1);
    let sealed = victim.seal(&wish);
    victim.send(&sealed);
    victim.media_until(|kinds| kinds.e2 > 0).await;

    // A sender from the victim's address has its socket, as far as the node can see.
    let mut forger = LinkSealer::new(&LinkKey::new(0, [66; 32]));
    for era in 2..12 {
        for kind in [AdapterKind::Res, AdapterKind::Adapt] {
            let lie = victim.adapter(kind, Level::BASE, era);
            victim.send(&lie);
            let mut forged = Vec::new();
            forger
                .seal(&mut forged, |out| out.extend_from_slice(&lie))
                .unwrap();
            victim.send(&forged);
        }
        victim.send(&sealed);
        sleep(Duration::from_millis(20)).await;
    }
    // A bit of an honest message turned over on its way, in every octet.
    let honest = victim.seal(&wish);
    for at in 0..honest.len() {
        let mut changed = honest.clone();
        changed[at] ^= 0x10;
        victim.send(&changed);
    }
    victim.media_until(|kinds| kinds.e2 > 0).await;
    let members = get_stats(trusted(node.addr, &own), Some(FILM)).await;
    assert!(!members.unwrap().is_empty());

    keeps_its_promise(&other.end().await.unwrap());
    let summary = node.stop().await;
    let told = format!("{:#?}", summary.udp);
    assert_eq!(summary.udp.forged, 40 + honest.len() as u64, "{told}");
    assert_eq!(summary.udp.replayed, 10, "{told}");
    assert_eq!(summary.malformed, 0, "no other code parsed them");
}

#[real_time(tokio)]
async fn datagrams_in_the_name_of_a_dead_node_are_not_believed() {
    let own = identity();
    let node = start(protected(server(DATAGRAMS, 60), &own)).await;
    let media = node.media;
    let mut receiver = join(guest(node.addr, &own));
    let playing = |event: &JoinEvent| matches!(event, JoinEvent::Second(p) if p.frames.base > 0);
    receiver.wait_for(playing).await;
    let (node, to) = joined_by(node, "guest").await;
    node.kill().await;
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Disconnected { .. }))
        .await;

    // Its address is free now: its next owner sends from the node's address.
    let impostor = UdpSocket::bind(media).unwrap();
    let mut sealer = LinkSealer::new(&LinkKey::new(0, [66; 32]));
    for _ in 0..50 {
        let mut forged = Vec::new();
        sealer
            .seal(&mut forged, |out| out.resize(out.len() + 500, 1))
            .unwrap();
        impostor.send_to(&forged, to).unwrap();
        impostor.send_to(&[2; 300], to).unwrap();
    }
    sleep(Duration::from_millis(200)).await;
    let summary = receiver.stop().await;
    assert_eq!(summary.udp.forged, 100, "{:?}", summary.udp);
    assert_eq!(summary.malformed, 0);
}

#[real_time(tokio)]
async fn a_name_in_use_is_not_given_to_another_identity() {
    let own = identity();
    let node = start(protected(server(DATAGRAMS, 8), &own)).await;
    let first = identity();
    let mut victim = Neighbour::call(node.addr, &own, &first, "victim").await;
    victim.join("film").await;
    let thief = Neighbour::try_call(node.addr, &own, &identity(), "victim").await;
    let refused = thief.err().expect("the name was given away");
    assert!(refused.contains("victim is in use"), "{refused}");
    victim.media_until(|kinds| kinds.base > 0).await;

    // The same identity has noticed before us that its connection is dead.
    let mut again = Neighbour::call(node.addr, &own, &first, "victim").await;
    again.join("film").await;
    again.media_until(|kinds| kinds.base > 0).await;
    assert!(victim.is_cut_off().await);
    node.stop().await;
}

#[real_time(tokio)]
async fn a_reserved_name_belongs_to_one_identity_even_while_it_is_away() {
    let (own, boss) = (identity(), identity());
    let mut config = protected(server(DATAGRAMS, 8), &own);
    config.identities.insert("boss".into(), boss.fingerprint());
    let node = start(config).await;
    let thief = Neighbour::try_call(node.addr, &own, &identity(), "boss").await;
    let refused = thief.err().expect("the name was given away");
    assert!(
        refused.contains("is reserved for another certificate"),
        "{refused}"
    );
    Neighbour::call(node.addr, &own, &boss, "boss").await;
    node.stop().await;
}

#[real_time(tokio)]
async fn a_leave_in_somebody_elses_name_changes_nothing() {
    let own = identity();
    let node = start(protected(server(DATAGRAMS, 5), &own)).await;
    let mut victim = join(guest(node.addr, &own));
    victim.wait_for(joined).await;
    let mut enemy = Neighbour::call(node.addr, &own, &identity(), "enemy").await;
    let member = Member {
        name: "guest".into(),
        id: NodeId(11),
    };
    for _ in 0..5 {
        let (flow, member) = (FILM, member.clone());
        enemy.say(Signal::Leave { flow, member }).await;
        sleep(Duration::from_millis(100)).await;
    }
    keeps_its_promise(&victim.end().await.unwrap());
    node.stop().await;
}

#[real_time(tokio)]
async fn no_neighbour_takes_a_flow_away_or_its_place() {
    let own = identity();
    let server = start(protected(server(DATAGRAMS, 7), &own)).await;
    let mut config = switch("chuff", 2, DATAGRAMS, &[]);
    config.upstreams = vec![trusted(server.addr, &own)];
    let chuff = start(protected(config, &own)).await;
    let mut victims = Vec::new();
    for addr in [server.addr, chuff.addr] {
        let mut victim = join(guest(addr, &own));
        victim.wait_for(joined).await;
        victims.push(victim);
    }
    for addr in [server.addr, chuff.addr] {
        let mut enemy = Neighbour::call(addr, &own, &identity(), "enemy").await;
        let heard = enemy
            .wait_for(|signal| matches!(signal, Signal::Advertise { .. }))
            .await;
        let Signal::Advertise { flow } = heard else {
            unreachable!("it waited for this")
        };
        // The same flow as if its source had started again, and another one of the same name.
        let (mut later, mut other) = (flow.clone(), flow.clone());
        later.epoch.0 += 1_000_000;
        other.id = FlowId(0);
        for forged in [&flow, &later, &other] {
            let flow = forged.clone();
            enemy.say(Signal::Advertise { flow }).await;
        }
        sleep(Duration::from_millis(300)).await;
        let mut config = join_config(addr, sink("late", 12, DATAGRAMS));
        config.upstream = trusted(addr, &own);
        let mut late = join(config);
        late.wait_for(joined).await;
        let (flow, reason) = (FILM, "over".into());
        enemy.say(Signal::Withdraw { flow, reason }).await;
        victims.push(late);
    }
    for victim in victims {
        keeps_its_promise(&victim.end().await.unwrap());
    }
    chuff.stop().await;
    server.stop().await;
}

#[real_time(tokio)]
async fn a_node_with_the_wrong_certificate_is_not_talked_to() {
    let own = identity();
    let node = start(protected(server(DATAGRAMS, 4), &own)).await;
    let expected = Fingerprint::of(b"another certificate");
    let wrong = Remote::protected(node.addr, Trust::Node(expected));
    let error = list_flows(wrong.clone()).await.unwrap_err();
    assert!(matches!(error, NetError::Untrusted { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains(&own.fingerprint().to_string()), "{told}");
    assert!(told.contains(&expected.to_string()), "{told}");

    let mut config = join_config(node.addr, sink("guest", 11, DATAGRAMS));
    config.upstream = wrong;
    config.start_within = Some(Span::from_secs(20));
    let error = join(config).end().await.unwrap_err();
    assert!(matches!(error, NetError::Untrusted { .. }), "{error}");
    // A caller that needs no authentication can say so.
    let anyone = Remote::protected(node.addr, Trust::Anyone);
    assert_eq!(list_flows(anyone).await.unwrap().len(), 1);
    node.stop().await;
}

#[real_time(tokio)]
async fn a_caller_in_the_clear_is_told_what_to_do() {
    let own = identity();
    let node = start(protected(server(DATAGRAMS, 4), &own)).await;
    let error = list_flows(node.addr).await.unwrap_err();
    assert!(matches!(error, NetError::TurnedAway { .. }), "{error}");
    assert!(error.to_string().contains("layercasts://"), "{error}");
    let mut config = join_config(node.addr, sink("plain", 11, DATAGRAMS));
    config.start_within = Some(Span::from_secs(20));
    let error = join(config).end().await.unwrap_err();
    assert!(matches!(error, NetError::TurnedAway { .. }), "{error}");
    // A silent caller does not keep the others from being answered.
    let _silent = TcpStream::connect(node.addr).await.unwrap();
    assert!(list_flows(node.addr).await.is_err());
    let summary = node.stop().await;
    assert_eq!(summary.udp.received, 0);
    assert!(summary.channels.rejected >= 3, "{:?}", summary.channels);
}

#[real_time(tokio)]
async fn a_protected_call_to_a_node_in_the_clear_ends_in_time() {
    let node = start(server(DATAGRAMS, 8)).await;
    let begun = Instant::now();
    let anyone = Remote::protected(node.addr, Trust::Anyone);
    let error = list_flows(anyone).await.unwrap_err();
    assert!(matches!(error, NetError::Unreachable { .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    node.stop().await;
}

#[real_time(tokio)]
async fn keys_said_in_the_clear_are_worth_nothing() {
    let node = start(server(DATAGRAMS, 5)).await;
    let mut neighbour = Neighbour::call_in_the_clear(node.addr, "naive").await;
    let key = Secret(LinkKey::new(0, [1; 32]).to_text());
    neighbour.say(Signal::LinkKey { key }).await;
    neighbour.join("film").await;
    let wish = neighbour.adapter(AdapterKind::Res, Level::FULL, 1);
    neighbour.send(&wish);
    neighbour.media_until(|kinds| kinds.e2 > 0).await;
    assert_eq!(node.stop().await.udp.forged, 0);
}

#[real_time(tokio)]
async fn a_restarted_node_has_its_identity_and_other_keys() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("identity");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("chuff.pem");
    let near = identity();
    let first = Arc::new(Identity::load_or_create(&file).unwrap());
    let server = start(protected(server(DATAGRAMS, 60), &near)).await;
    let config = |listen: SocketAddr| {
        let own = Arc::new(Identity::load_or_create(&file).unwrap());
        let mut config = protected(switch("chuff", 2, DATAGRAMS, &[]), &own);
        config.upstreams = vec![trusted(server.addr, &near)];
        config.listen = listen;
        config
    };
    let chuff = start(config(common::localhost())).await;
    let listen = chuff.addr;
    let mut receiver = join(guest(listen, &first));
    let playing = |event: &JoinEvent| matches!(event, JoinEvent::Second(p) if p.frames.base > 0);
    receiver.wait_for(playing).await;

    let mut victim = Neighbour::call(listen, &first, &identity(), "victim").await;
    victim.join("film").await;
    let wish = victim.adapter(AdapterKind::Res, Level::FULL, 1);
    let before = victim.seal(&wish);
    victim.send(&before);
    victim.media_until(|kinds| kinds.base > 0).await;
    chuff.kill().await;
    receiver
        .wait_for(|event| matches!(event, JoinEvent::Disconnected { .. }))
        .await;
    // The old connections may hold the port for a moment.
    sleep(Duration::from_millis(500)).await;

    let chuff = start(config(listen)).await;
    receiver.wait_for(joined).await;
    receiver.wait_for(playing).await;
    let mut victim = victim.call_again(listen, &first).await;
    // What was sealed for the node before is a forgery now.
    victim.send(&before);
    victim.join("film").await;
    victim.media_until(|kinds| kinds.base > 0).await;
    assert!(receiver.stop().await.connected >= 2);
    let summary = chuff.stop().await;
    assert_eq!(summary.udp.forged, 1, "{:?}", summary.udp);
    server.stop().await;
}

#[real_time(tokio)]
async fn garbage_for_the_port_of_the_session_channel_does_no_harm() {
    let own = identity();
    let node = start(protected(server(DATAGRAMS, 4), &own)).await;
    let mut receiver = join(guest(node.addr, &own));
    receiver.wait_for(joined).await;
    let (addr, media) = (node.addr, node.media);
    let storm = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut noise = Stream::new(7, "garbage");
        let end = Instant::now() + Duration::from_secs(2);
        let mut to_media = 0;
        while Instant::now() < end {
            for _ in 0..20 {
                let len = 1 + noise.below(1_300) as usize;
                let mut bytes: Vec<u8> = (0..len).map(|_| noise.below(256) as u8).collect();
                // Some look like the first packet of a call, some like a sealed datagram.
                bytes[0] = [bytes[0], 0xC3, 0x43, 0xD0][noise.below(4) as usize];
                if len > 5 {
                    bytes[1..5].copy_from_slice(&1_u32.to_be_bytes());
                }
                let _ = socket.send_to(&bytes, addr);
                to_media += u64::from(socket.send_to(&bytes, media).is_ok());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        to_media
    });
    sleep(Duration::from_millis(500)).await;
    assert_eq!(list_flows(trusted(addr, &own)).await.unwrap().len(), 1);
    keeps_its_promise(&receiver.end().await.unwrap());
    let to_media = storm.join().unwrap();
    let summary = node.stop().await;
    assert_eq!(summary.udp.unknown, to_media, "{:?}", summary.udp);
    assert_eq!(summary.channels.malformed, 0);
}

#[real_time(tokio)]
async fn a_neighbour_that_reads_nothing_is_cut_off() {
    let own = identity();
    let node = start(protected(server(DATAGRAMS, 60), &own)).await;
    let mut deaf = Neighbour::call(node.addr, &own, &identity(), "deaf").await;
    let questions = vec![Signal::ListFlows; 100];
    let asking = async { while deaf.try_say(&questions).await.is_ok() {} };
    assert!(
        timeout(LONG, asking).await.is_ok(),
        "the node still listens to somebody who does not"
    );
    let summary = node.stop().await;
    assert_eq!(summary.channels.slow, 1, "{:?}", summary.channels);
}

#[real_time(tokio)]
async fn a_neighbour_that_is_dead_is_missed() {
    let own = identity();
    let mut node = start(protected(server(DATAGRAMS, 60), &own)).await;
    let (addr, trust) = (node.addr, own.clone());
    let (told, dead) = std::sync::mpsc::channel::<()>();
    // A thread that stops turning its runtime answers no more, as a process that was killed.
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let neighbour = runtime.block_on(Neighbour::call(addr, &trust, &identity(), "frozen"));
        let _ = dead.recv();
        drop(neighbour);
    });
    let down = async {
        while let Some(event) = node.events.recv().await {
            if let NodeEvent::PeerDown { name, .. } = event {
                return name;
            }
        }
        String::new()
    };
    let down = timeout(LONG, down).await;
    assert_eq!(down.as_deref(), Ok("frozen"));
    told.send(()).unwrap();
    thread.join().unwrap();
    node.stop().await;
}

mod authorities {
    use std::path::{Path, PathBuf};

    use layercast_net::{Authorities, IdentityError};
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose,
    };

    use super::*;

    /// An authority, its certificate in a file, and that of a node it vouches for.
    struct Issued {
        authority: PathBuf,
        certificate: PathBuf,
        key: PathBuf,
    }

    fn issue(folder: &Path, name: &str, hosts: &[&str]) -> Issued {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(hosts).unwrap();
        let certificate = certificate.signed_by(&key, &issuer).unwrap();
        let write = |what: &str, text: String| {
            let path = folder.join(format!("{name}-{what}.pem"));
            std::fs::write(&path, text).unwrap();
            path
        };
        Issued {
            authority: write("ca", issuer.pem()),
            certificate: write("certificate", certificate.pem()),
            key: write("key", key.serialize_pem()),
        }
    }

    #[tokio::test]
    async fn a_certificate_of_an_authority_stands_for_its_host() {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authorities");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let good = issue(&folder, "good", &["localhost", "127.0.0.1"]);
        let other = issue(&folder, "other", &["localhost"]);
        let own = Identity::from_pem(&good.certificate, &good.key).unwrap();
        let node = start(protected(server(DATAGRAMS, 4), &Arc::new(own))).await;
        let ask = async |authority: &Path, host: &str| {
            let authorities = Authorities::from_pem(authority, host).unwrap();
            list_flows(Remote::protected(
                node.addr,
                Trust::Authorities(authorities),
            ))
            .await
        };
        for host in ["localhost", "127.0.0.1"] {
            assert_eq!(ask(&good.authority, host).await.unwrap().len(), 1, "{host}");
        }
        for (authority, host) in [
            (&good.authority, "example.net"),
            (&other.authority, "localhost"),
        ] {
            let error = ask(authority, host).await.unwrap_err();
            assert!(
                matches!(error, NetError::Untrusted { .. }),
                "{host}: {error}"
            );
        }
        let mixed = Identity::from_pem(&good.certificate, &other.key);
        assert!(
            matches!(mixed, Err(IdentityError::Mismatch(_))),
            "{mixed:?}"
        );
        let swapped = Identity::from_pem(&good.key, &good.key);
        assert!(
            matches!(swapped, Err(IdentityError::Content { .. })),
            "{swapped:?}"
        );
        node.stop().await;
    }
}

#[real_time(tokio)]
async fn one_certificate_does_not_get_all_places_and_is_told_why() {
    let (own, greedy) = (identity(), identity());
    let mut config = protected(server(DATAGRAMS, 30), &own);
    config.max_connections = MAX_PER_CERTIFICATE + 2;
    let node = start(config).await;
    let mut held = Vec::new();
    for n in 0..MAX_PER_CERTIFICATE {
        held.push(Neighbour::call(node.addr, &own, &greedy, &format!("n{n}")).await);
    }
    let refused = Neighbour::try_call(node.addr, &own, &greedy, "one more").await;
    let why = refused.err().unwrap();
    assert!(why.contains("one certificate"), "{why}");
    // A receiver gets the reason, and no question whether a node listens there.
    let mut config = guest(node.addr, &own);
    config.identity = Some(Arc::clone(&greedy));
    config.start_within = Some(Span::from_secs(20));
    let error = join(config).end().await.unwrap_err();
    assert!(matches!(error, NetError::TurnedAway { .. }), "{error}");
    // Others have the places that are left, and then hear that there are none.
    for name in ["first", "second"] {
        held.push(Neighbour::call(node.addr, &own, &identity(), name).await);
    }
    let mut config = guest(node.addr, &own);
    config.start_within = Some(Span::from_secs(20));
    let error = join(config).end().await.unwrap_err();
    assert!(matches!(error, NetError::TurnedAway { .. }), "{error}");
    assert!(error.to_string().contains("--max-neighbours"), "{error}");
    // With the first one goes its place.
    held.remove(0).hang_up();
    let mut again = Err(String::new());
    for _ in 0..50 {
        again = Neighbour::try_call(node.addr, &own, &greedy, "again").await;
        if again.is_ok() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert!(again.is_ok(), "{:?}", again.err());
    drop(held);
    node.stop().await;
}

/// Opens connections over one bearer that say nothing, more than there are places, and new ones for as long as it runs.
async fn say_nothing(to: Remote, opened: Arc<AtomicUsize>) {
    let own = identity();
    let mut held = VecDeque::new();
    loop {
        let channel: Option<Box<dyn Any + Send>> = match &to.bearer {
            Bearer::Tcp => match TcpStream::connect(to.addr).await {
                Ok(stream) => Some(Box::new(stream)),
                Err(_) => None,
            },
            Bearer::Xtp => match XtpChannel::connect(to.addr, None).await {
                Ok(channel) => Some(Box::new(channel)),
                Err(_) => None,
            },
            Bearer::Quic(trust) => match QuicChannel::connect(to.addr, None, &own, trust).await {
                Ok(channel) => Some(Box::new(channel)),
                Err(_) => None,
            },
        };
        if let Some(channel) = channel {
            held.push_back(channel);
            opened.fetch_add(1, Ordering::Relaxed);
        }
        if held.len() > 30 {
            held.pop_front();
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[real_time(tokio)]
async fn connections_that_say_nothing_keep_no_receiver_out() {
    const PLACES: usize = 16;
    for bearer in ["tcp", "xtp", "quic"] {
        let own = identity();
        let mut config = server(DATAGRAMS, 3);
        config.max_connections = PLACES;
        match bearer {
            "xtp" => config.control = Control::Xtp,
            "quic" => config = protected(config, &own),
            _ => {}
        }
        let node = start(config).await;
        let upstream = match bearer {
            "xtp" => Remote::new(node.addr, Bearer::Xtp),
            "quic" => trusted(node.addr, &own),
            _ => node.addr.into(),
        };
        let opened = Arc::new(AtomicUsize::new(0));
        let attack = tokio::spawn(say_nothing(upstream.clone(), Arc::clone(&opened)));
        let filling = async {
            while opened.load(Ordering::Relaxed) < 2 * PLACES {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LONG, filling).await.expect("the attack begins");
        let begun = Instant::now();
        let mut config = guest(node.addr, &own);
        config.upstream = upstream;
        let mut receiver = join(config);
        receiver.wait_for(joined).await;
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(2), "{bearer}: {took:?}");
        // It keeps its place.
        let summary = receiver.end().await.unwrap();
        attack.abort();
        keeps_its_promise(&summary);
        assert_eq!(summary.connected, 1, "{bearer}");
        assert!(node.stop().await.channels.rejected > 0, "{bearer}");
    }
}

#[real_time(tokio)]
async fn media_come_from_the_address_that_is_called_whatever_others_the_node_has() {
    // All of 127.0.0.0/8 are addresses of this host; it answers from the first one unless configured otherwise.
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    for is_protected in [false, true] {
        let (near, far) = (identity(), identity());
        let bound = |mut config: layercast_net::NodeConfig, own: &Arc<Identity>| {
            config.listen = everywhere;
            match is_protected {
                true => protected(config, own),
                false => config,
            }
        };
        let at = |host: u8, port: u16, of: &Identity| {
            let addr = SocketAddr::from(([127, 0, 0, host], port));
            match is_protected {
                true => trusted(addr, of),
                false => addr.into(),
            }
        };
        let server = start(bound(server(DATAGRAMS, 3), &near)).await;
        let mut config = bound(switch("chuff", 2, DATAGRAMS, &[]), &far);
        config.upstreams = vec![at(2, server.addr.port(), &near)];
        let chuff = start(config).await;
        let mut config = join_config(chuff.addr, sink("guest", 11, DATAGRAMS));
        config.upstream = at(3, chuff.addr.port(), &far);
        let summary = join(config).end().await.unwrap();
        keeps_its_promise(&summary);
        for udp in [summary.udp, chuff.stop().await.udp, server.stop().await.udp] {
            assert_eq!(udp.unknown, 0, "protected: {is_protected}");
            assert!(udp.received > 0);
        }
    }
}
