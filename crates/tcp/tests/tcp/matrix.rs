//! Open, close, half close and reset in every order.

use bytes::Bytes;
use layercast_core::{Machine, Off, Span};
use layercast_tcp::{Failure, Profile, State, TcpConfig, TcpError, TcpEvent};
use layercast_wire::Payload;

use super::net::{Net, PORT, address, ms};

const PROFILES: [Profile; 5] = [
    Profile::Bsd44Lite,
    Profile::SunOs413,
    Profile::Solaris,
    Profile::Tick10,
    Profile::Modern,
];

fn text(bytes: &'static [u8]) -> Payload {
    Payload::Bytes(Bytes::from_static(bytes))
}

fn state(net: &Net, host: usize, id: layercast_tcp::ConnId) -> Option<State> {
    net.hosts[host].info(id).map(|info| info.state)
}

#[test]
fn a_question_an_answer_and_good_bye() {
    for profile in PROFILES {
        let mut net = Net::plain(profile, ms(20));
        let (near, far) = net.open();
        net.write(0, near, text(b"question"));
        net.hosts[0].shutdown(near).unwrap();
        net.run(Span::from_secs(1));
        assert_eq!(state(&net, 0, near), Some(State::FinWait2));
        assert_eq!(state(&net, 1, far), Some(State::CloseWait));
        assert!(net.was_told(1, TcpEvent::PeerClosed(far)));
        assert_eq!(net.read(1, far), b"question");
        assert_eq!(
            net.hosts[0].write(near, &text(b"more")),
            Err(TcpError::Shut)
        );
        // The other half stays open as long as it likes.
        net.run(Span::from_secs(1_000));
        net.write(1, far, text(b"answer"));
        let now = net.now;
        net.hosts[1].close(now, far).unwrap();
        net.run(Span::from_secs(2));
        assert_eq!(net.read(0, near), b"answer", "{profile:?}");
        assert_eq!(state(&net, 0, near), Some(State::TimeWait));
        assert_eq!(state(&net, 1, far), None);
        assert!(net.was_told(1, TcpEvent::Closed(far)));
        let now = net.now;
        net.hosts[0].close(now, near).unwrap();
        net.run(Span::from_secs(61));
        assert_eq!(net.hosts[0].connections() + net.hosts[1].connections(), 0);
        assert_eq!((net.failure(0), net.failure(1)), (None, None));
    }
}

#[test]
fn both_close_at_once() {
    for profile in PROFILES {
        let mut net = Net::plain(profile, ms(20));
        let (near, far) = net.open();
        net.hosts[0].shutdown(near).unwrap();
        net.hosts[1].shutdown(far).unwrap();
        net.run(ms(30));
        assert_eq!(state(&net, 0, near), Some(State::Closing));
        assert_eq!(state(&net, 1, far), Some(State::Closing));
        net.run(ms(100));
        assert_eq!(state(&net, 0, near), Some(State::TimeWait));
        assert_eq!(state(&net, 1, far), Some(State::TimeWait));
        assert!(net.was_told(0, TcpEvent::Closed(near)) && net.was_told(1, TcpEvent::Closed(far)));
    }
}

#[test]
fn both_open_at_once() {
    for profile in PROFILES {
        let mut net = Net::plain(profile, ms(20));
        let (a, b) = (address(0, 1_000), address(1, 2_000));
        let near = net.hosts[0].connect(net.now, a, b).unwrap();
        let far = net.hosts[1].connect(net.now, b, a).unwrap();
        net.run(ms(300));
        assert!(net.was_told(0, TcpEvent::Connected(near)), "{profile:?}");
        assert!(net.was_told(1, TcpEvent::Connected(far)));
        net.write(0, near, text(b"hello"));
        net.write(1, far, text(b"hi"));
        net.run(Span::from_secs(1));
        assert_eq!(net.read(1, far), b"hello");
        assert_eq!(net.read(0, near), b"hi");
    }
}

#[test]
fn nobody_listens() {
    let mut net = Net::plain(Profile::Modern, ms(20));
    let id = net.connect();
    net.run(ms(100));
    assert!(net.was_told(0, TcpEvent::Failed(id, Failure::Refused)));
    assert_eq!(net.hosts[0].write(id, &text(b"x")), Err(TcpError::Unknown));
    assert_eq!(net.hosts[0].connections(), 0);
}

#[test]
fn nobody_answers() {
    for profile in PROFILES {
        let config = TcpConfig::from(profile);
        let silence = Box::new(|_, _| Vec::new());
        let mut net = Net::new([config.clone(), config], silence);
        let id = net.connect();
        net.run(Span::from_secs(76));
        assert!(
            net.was_told(0, TcpEvent::Failed(id, Failure::TimedOut)),
            "{profile:?}"
        );
        // Its user has heard of it, and can still ask what was done for it.
        let counts = net.hosts[0].counts(id).unwrap();
        assert_eq!(counts.sent, net.hosts[0].stats().sent, "{profile:?}");
        assert!(counts.sent > 1 && counts.timeouts > 1, "{counts:?}");
    }
}

#[test]
fn the_path_goes_away() {
    for profile in PROFILES {
        let mut net = Net::plain(profile, ms(20));
        let (near, _) = net.open();
        net.channel = Box::new(|_, _| Vec::new());
        net.write(0, near, text(b"hello?"));
        net.run(Span::from_secs(1_200));
        assert!(
            net.was_told(0, TcpEvent::Failed(near, Failure::TimedOut)),
            "{profile:?}"
        );
    }
}

#[test]
fn an_abort_is_heard() {
    let mut net = Net::plain(Profile::Modern, ms(20));
    let (near, far) = net.open();
    net.write(1, far, text(b"lost"));
    net.hosts[0].abort(near).unwrap();
    net.run(ms(100));
    assert!(net.was_told(1, TcpEvent::Failed(far, Failure::Reset)));
    assert_eq!(net.hosts[0].connections() + net.hosts[1].connections(), 0);
}

#[test]
fn closing_with_data_unread_resets() {
    let mut net = Net::plain(Profile::Modern, ms(20));
    let (near, far) = net.open();
    net.write(0, near, text(b"unread"));
    net.run(ms(100));
    let now = net.now;
    net.hosts[1].close(now, far).unwrap();
    net.run(ms(100));
    assert!(net.was_told(0, TcpEvent::Failed(near, Failure::Reset)));
}

#[test]
fn data_after_close_reset() {
    let mut net = Net::plain(Profile::Modern, ms(20));
    let (near, far) = net.open();
    let now = net.now;
    net.hosts[1].close(now, far).unwrap();
    net.run(ms(100));
    assert_eq!(state(&net, 0, near), Some(State::CloseWait));
    net.write(0, near, text(b"too late"));
    net.run(ms(100));
    assert_eq!(net.failure(0), Some(Failure::Reset));
    assert_eq!(net.hosts[1].connections(), 0);
}

#[test]
fn a_peer_that_never_closes_is_given_up() {
    for profile in PROFILES {
        let mut net = Net::plain(profile, ms(20));
        let (_, far) = net.open();
        let now = net.now;
        net.hosts[1].close(now, far).unwrap();
        net.run(ms(500));
        assert_eq!(net.hosts[1].connections(), 1);
        net.run(Span::from_secs(601));
        assert_eq!(net.hosts[1].connections(), 0, "{profile:?}");
    }
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    for profile in PROFILES {
        let mut net = Net::plain(profile, ms(20));
        let config = TcpConfig::from(profile);
        let (near, far) = net.open();
        let total = 3 * config.recv_buffer.min(config.send_buffer) as usize / 2;
        let mut left = total;
        let mut push = |net: &mut Net| {
            let taken = net.hosts[0]
                .write(near, &Payload::Zeros(left as u32))
                .unwrap();
            left -= taken;
        };
        push(&mut net);
        net.run(Span::from_secs(100));
        push(&mut net);
        net.run(Span::from_secs(300));
        assert_eq!(
            net.hosts[0].info(near).unwrap().peer_window,
            0,
            "{profile:?}"
        );
        // The update that opens the window is lost: only a probe can find out.
        net.channel = Box::new(|_, _| Vec::new());
        let mut got = net.read(1, far).len();
        net.run(ms(1));
        net.channel = Box::new(|_, packet| vec![(ms(20), packet)]);
        for _ in 0..200 {
            net.run(Span::from_secs(1));
            push(&mut net);
            got += net.read(1, far).len();
        }
        assert_eq!(got, total, "{profile:?}");
        assert_eq!(net.failure(0), None);
    }
}

#[test]
fn what_came_before_it_was_accepted_is_told_once_and_then() {
    for profile in PROFILES {
        let mut net = Net::plain(profile, ms(20));
        net.hosts[1].listen(PORT, 8).unwrap();
        let near = net.connect();
        // With the acknowledgement of the handshake, or right behind it.
        net.write(0, near, text(b"all"));
        net.hosts[0].shutdown(near).unwrap();
        net.run(Span::from_secs(2));
        assert_eq!(net.events[1], [TcpEvent::Incoming(PORT)], "{profile:?}");
        let (far, _) = net.hosts[1].accept(PORT).unwrap();
        assert_eq!(net.read(1, far), b"all");
        net.run(Span::from_secs(2));
        let told = [TcpEvent::Readable(far), TcpEvent::PeerClosed(far)];
        assert_eq!(net.events[1][1..], told, "{profile:?}");
    }
}

#[test]
fn time_wait_yields_to_a_new_connection() {
    let mut net = Net::plain(Profile::Modern, ms(20));
    net.hosts[1].listen(PORT, 8).unwrap();
    let (local, remote) = (address(0, 5_000), address(1, PORT));
    let near = net.hosts[0].connect(net.now, local, remote).unwrap();
    net.run(ms(200));
    let (far, _) = net.hosts[1].accept(PORT).unwrap();
    let now = net.now;
    // The server closes first, so that it has TIME-WAIT.
    net.hosts[1].close(now, far).unwrap();
    net.run(ms(100));
    let now = net.now;
    net.hosts[0].close(now, near).unwrap();
    net.run(ms(100));
    assert_eq!(
        (net.hosts[0].connections(), net.hosts[1].connections()),
        (0, 1)
    );
    let again = net.hosts[0].connect(net.now, local, remote).unwrap();
    net.run(ms(200));
    assert!(net.was_told(0, TcpEvent::Connected(again)));
}

#[test]
fn ports_and_places_are_bounded() {
    let config = TcpConfig {
        max_connections: 2,
        ..TcpConfig::from(Profile::Modern)
    };
    let mut net = Net::new([config.clone(), config], Box::new(|_, _| Vec::new()));
    net.connect();
    net.connect();
    let (local, remote) = (address(0, 0), address(1, PORT));
    assert_eq!(
        net.hosts[0].connect(net.now, local, remote),
        Err(TcpError::Full(2))
    );
    assert_eq!(net.hosts[0].listen(PORT, 1), Ok(()));
    assert_eq!(net.hosts[0].listen(PORT, 1), Err(TcpError::PortInUse(PORT)));
    let nobody = address(1, 0);
    assert_eq!(
        net.hosts[0].connect(net.now, local, nobody),
        Err(TcpError::Address(nobody))
    );
}

#[test]
fn a_late_driver_loses_nothing() {
    let mut net = Net::plain(Profile::Bsd44Lite, ms(20));
    let (near, far) = net.open();
    net.write(0, near, Payload::Zeros(8_000));
    for _ in 0..50 {
        // The driver sleeps through ticks, then wakes both hosts together.
        net.now += Span::from_ms(777);
        let now = net.now;
        for host in &mut net.hosts {
            host.on_timeout(now, &mut Off);
        }
        net.run(ms(1));
    }
    assert_eq!(net.read(1, far).len(), 8_000);
}
