//! One connection over a pipe: hello, signals, end.

use std::io;

use layercast_core::NodeId;
use layercast_wire::Carriage;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::task::JoinHandle;

use super::*;
use crate::channel::{BytesIn, BytesOut, LineReceiver, LineSender};

/// A pipe to a neighbour whose certificate is known, if there is one.
struct Pipe(DuplexStream, Option<Fingerprint>);

impl SignalChannel for Pipe {
    type Receiver = LineReceiver<ReadHalf<DuplexStream>>;
    type Sender = LineSender<WriteHalf<DuplexStream>>;

    fn identity(&self) -> Option<Fingerprint> {
        self.1
    }

    fn split(self) -> (Self::Receiver, Self::Sender) {
        let (read, write) = split(self.0);
        (LineReceiver::new(read), LineSender::new(write))
    }
}

impl BytesIn for ReadHalf<DuplexStream> {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        AsyncReadExt::read(self, buffer).await
    }
}

impl BytesOut for WriteHalf<DuplexStream> {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).await
    }

    async fn end(&mut self) {
        let _ = self.shutdown().await;
    }
}

/// A connection under test, and the neighbour at its other end.
struct Bench {
    receiver: LineReceiver<ReadHalf<DuplexStream>>,
    sender: WriteHalf<DuplexStream>,
    events: mpsc::Receiver<PeerEvent>,
    connection: Connection,
    running: JoinHandle<Result<(), CallError>>,
}

const ADDR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7);

fn hello(udp_port: u16, link_key: Option<LinkKey>) -> Hello {
    Hello {
        node: "chuff".into(),
        id: NodeId(2),
        udp_port,
        carriage: Carriage::Datagrams,
        clock: "one".into(),
        link_key,
        repair: None,
        group: None,
        group_repair: None,
        prompt: false,
        clocks: false,
        pings: false,
    }
}

fn key() -> LinkKey {
    LinkKey::new(0, [1; 32])
}

fn bench(protected: bool, upstream: Option<usize>) -> Bench {
    bench_of(protected, upstream, hello(9, None))
}

/// The same with a hello of ours.
fn bench_of(protected: bool, upstream: Option<usize>, hello: Hello) -> Bench {
    let (ours, theirs) = duplex(1 << 20);
    let (told, events) = mpsc::channel(256);
    let connection = Connection {
        events: told,
        counters: Arc::default(),
        stop: CancellationToken::new(),
        next: Arc::default(),
        hello,
    };
    let channel = Pipe(ours, protected.then(|| Fingerprint::of(b"certificate")));
    let runs = connection.clone();
    let running = tokio::spawn(async move { runs.run(channel, ADDR, upstream).await });
    let (read, sender) = split(theirs);
    Bench {
        receiver: LineReceiver::new(read),
        sender,
        events,
        connection,
        running,
    }
}

impl Bench {
    async fn say(&mut self, line: &[u8]) {
        self.sender.write_all(line).await.unwrap();
    }

    async fn greet(&mut self, hello: &Hello) {
        self.say(&hello.signal().to_line().unwrap()).await;
    }

    /// The next signal that the neighbour receives; `None` when the connection is closed.
    async fn heard(&mut self) -> Option<Signal> {
        let heard = timeout(Duration::from_secs(10), self.receiver.recv());
        heard.await.expect("there is an answer").unwrap()
    }

    async fn event(&mut self) -> PeerEvent {
        let event = timeout(Duration::from_secs(10), self.events.recv());
        event.await.expect("something happens").unwrap()
    }

    async fn opened(&mut self) -> Newcomer {
        match self.event().await {
            PeerEvent::Opened(newcomer) => *newcomer,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_neighbour_on_a_protected_link_needs_a_key_for_its_datagrams() {
    for (protected, port, link_key, taken) in [
        (true, 9, None, false),
        (true, 9, Some(key()), true),
        // It takes no datagrams, but asks a question.
        (true, 0, None, true),
        (false, 9, None, true),
    ] {
        let mut bench = bench(protected, None);
        bench.greet(&hello(port, link_key)).await;
        match taken {
            true => drop(bench.opened().await),
            false => {
                let message = "expected a hello: hello without a link key".into();
                assert_eq!(bench.heard().await, Some(Signal::Error { message }));
                assert_eq!(bench.heard().await, None);
                let ended = bench.running.await.unwrap();
                assert!(matches!(ended, Err(CallError::Unreachable(_))), "{ended:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_key_counts_on_a_protected_link_only() {
    for (protected, taken) in [(true, Some(key())), (false, None)] {
        let mut bench = bench(protected, None);
        bench.greet(&hello(9, Some(key()))).await;
        let newcomer = bench.opened().await;
        assert_eq!(newcomer.hello, hello(9, taken));
        assert_eq!(newcomer.proven.is_some(), protected);
    }
}

#[tokio::test]
async fn a_call_begins_with_our_hello_and_with_our_key_where_it_is_a_secret() {
    for protected in [true, false] {
        let mut bench = bench(protected, Some(3));
        let said = bench.heard().await.unwrap();
        let said = Hello::from_signal(said).unwrap();
        bench.greet(&hello(9, protected.then(key))).await;
        let newcomer = bench.opened().await;
        let ours = newcomer.proven.map(|proven| proven.key);
        assert_eq!(ours.is_some(), protected);
        assert_eq!(said, hello(9, ours));
        assert_eq!(newcomer.upstream, Some(3));
    }
}

#[tokio::test]
async fn a_caller_without_hello_hears_what_was_expected() {
    let mut bench = bench(false, None);
    bench.say(&Signal::ListFlows.to_line().unwrap()).await;
    let message = "expected a hello: the first message is no hello".into();
    assert_eq!(bench.heard().await, Some(Signal::Error { message }));
    assert_eq!(bench.heard().await, None, "and nothing more");
}

/// A node does not see pings, so that nothing but a bound keeps a flood of them from taking its time.
#[tokio::test]
async fn a_flood_of_pings_ends_the_connection() {
    for signal in [Signal::Ping, Signal::Pong] {
        let mut bench = bench(false, None);
        bench.greet(&hello(9, None)).await;
        let _newcomer = bench.opened().await;
        let line = signal.to_line().unwrap();
        bench.say(&line.repeat(MOST_PULSES as usize)).await;
        bench.say(&Signal::ListFlows.to_line().unwrap()).await;
        let said = bench.event().await;
        assert!(matches!(said, PeerEvent::Signal { .. }), "{said:?}");
        bench.say(&line).await;
        match bench.event().await {
            PeerEvent::Closed { reason, .. } => assert!(reason.contains("16 pings"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn signals_go_both_ways_in_order_until_we_hang_up() {
    let mut bench = bench(false, None);
    bench.greet(&hello(9, None)).await;
    let newcomer = bench.opened().await;
    bench.say(&Signal::ListFlows.to_line().unwrap()).await;
    let said = bench.event().await;
    let signal = Signal::ListFlows;
    assert!(matches!(said, PeerEvent::Signal { signal: it, .. } if it == signal));
    let numbered = |number: u32| Signal::Error {
        message: number.to_string(),
    };
    for number in 0..200 {
        newcomer.sender.send(numbered(number));
    }
    drop(newcomer);
    for number in 0..200 {
        assert_eq!(bench.heard().await, Some(numbered(number)));
    }
    assert_eq!(bench.heard().await, None);
    let closed = bench.event().await;
    assert!(
        matches!(&closed, PeerEvent::Closed { reason, .. } if reason == "closed"),
        "{closed:?}"
    );
    assert_eq!(bench.connection.counters.read(), ChannelStats::default());
}

#[tokio::test]
async fn each_message_that_cannot_be_read_is_counted_once() {
    let mut bench = bench(false, None);
    bench.say(b"[1]\n").await;
    bench.greet(&hello(9, None)).await;
    let _newcomer = bench.opened().await;
    for _ in 0..2 {
        bench.say(b"[2]\n[3]\n").await;
        bench.say(&Signal::ListFlows.to_line().unwrap()).await;
        bench.event().await;
    }
    assert_eq!(bench.connection.counters.read().malformed, 5);
}

#[tokio::test]
async fn a_neighbour_that_does_not_read_is_cut_off_and_counted() {
    let mut bench = bench(false, None);
    bench.greet(&hello(9, None)).await;
    let newcomer = bench.opened().await;
    for _ in 0..=MAX_OUTGOING {
        newcomer.sender.send(Signal::ListFlows);
    }
    let closed = bench.event().await;
    let why = "does not read what it is sent";
    assert!(
        matches!(&closed, PeerEvent::Closed { reason, .. } if reason == why),
        "{closed:?}"
    );
    assert_eq!(bench.connection.counters.read().slow, 1);
}

#[tokio::test]
async fn a_call_that_fails_is_reported_and_counted_if_it_came_from_outside() {
    for (upstream, rejected) in [(None, 1), (Some(4), 0)] {
        let mut bench = bench(false, upstream);
        let error = CallError::Unreachable("away".into());
        bench.connection.fail(ADDR, upstream, error).await;
        let failed = bench.event().await;
        let known = matches!(
            &failed,
            PeerEvent::Failed { addr: ADDR, upstream: it, error: CallError::Unreachable(_) } if *it == upstream
        );
        assert!(known, "{failed:?}");
        assert_eq!(bench.connection.counters.read().rejected, rejected);
    }
}

#[tokio::test]
async fn a_call_over_a_repaired_link_names_the_session_of_its_counters() {
    for repair in [Some(5), None] {
        let own = Hello {
            repair,
            ..hello(9, None)
        };
        let mut bench = bench_of(false, Some(3), own);
        let said = Hello::from_signal(bench.heard().await.unwrap()).unwrap();
        bench.greet(&hello(9, None)).await;
        let newcomer = bench.opened().await;
        assert_eq!(said.repair, repair.map(|_| newcomer.session));
    }
}

#[tokio::test]
async fn a_neighbour_that_hangs_up_before_its_hello_is_not_up_or_speaks_another_protocol() {
    for (said, is_up) in [(&b""[..], false), (b"[1]\n", true)] {
        let mut bench = bench(false, Some(3));
        bench.say(said).await;
        bench.sender.shutdown().await.unwrap();
        let ended = bench.running.await.unwrap();
        let is_right = match &ended {
            Err(CallError::Unreachable(why)) => is_up && why == "it speaks another protocol",
            Err(CallError::NoAnswer(why)) => !is_up && why == "closed before hello",
            _ => false,
        };
        assert!(is_right, "{ended:?}");
    }
}

#[tokio::test]
async fn a_neighbour_that_answers_pings_is_kept_while_it_does() {
    let mut bench = bench(false, None);
    let theirs = Hello {
        pings: true,
        ..hello(9, None)
    };
    bench.greet(&theirs).await;
    let _newcomer = bench.opened().await;
    bench.say(&Signal::Ping.to_line().unwrap()).await;
    assert_eq!(bench.heard().await, Some(Signal::Pong));
    for _ in 0..3 {
        assert_eq!(bench.heard().await, Some(Signal::Ping));
        bench.say(&Signal::Pong.to_line().unwrap()).await;
    }
    // The node sees none of them. From here on nothing is answered.
    let closed = bench.event().await;
    let why = "said nothing for 3 s: it was stopped, or its host has no time for it";
    assert!(
        matches!(&closed, PeerEvent::Closed { reason, .. } if reason == why),
        "{closed:?}"
    );
    assert_eq!(bench.heard().await, Some(Signal::Ping));
    assert_eq!(bench.heard().await, Some(Signal::Ping));
    assert_eq!(bench.heard().await, None);
}

/// A neighbour whose channel ends with an error, and that takes everything.
struct Broken(Option<ChannelError>);

struct Takes;

impl SignalChannel for Broken {
    type Receiver = Broken;
    type Sender = Takes;

    fn split(self) -> (Broken, Takes) {
        (self, Takes)
    }
}

impl SignalReceiver for Broken {
    async fn recv(&mut self) -> Result<Option<Signal>, ChannelError> {
        Err(self.0.take().expect("it ends once"))
    }

    fn malformed(&self) -> u32 {
        0
    }
}

impl SignalSender for Takes {
    async fn send(&mut self, _: &[Signal]) -> Result<(), ChannelError> {
        Ok(())
    }

    async fn close(&mut self) {}
}

#[tokio::test]
async fn a_connection_that_breaks_is_called_again_as_one_that_gives_no_answer() {
    let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
    for (error, is_answered) in [
        (ChannelError::Io(reset()), false),
        (ChannelError::Slow, true),
    ] {
        let connection = bench(false, None).connection;
        let said = error.to_string();
        let ended = connection.run(Broken(Some(error)), ADDR, Some(3)).await;
        let is_right = match &ended {
            Err(CallError::NoAnswer(why)) => !is_answered && *why == said,
            Err(CallError::Unreachable(why)) => is_answered && *why == said,
            _ => false,
        };
        assert!(is_right, "{ended:?}");
    }
}
