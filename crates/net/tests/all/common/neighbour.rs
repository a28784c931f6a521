//! A neighbour that only a test would be: it has an identity and keys, and does with them what it likes.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use layercast_core::{CellRate, FlowId, GroupId, Level, LevelSet, NodeId, PerLayer, Serial};
use layercast_net::{
    Hello, Identity, NodeConfig, NodeEvent, QuicChannel, Remote, SignalChannel, SignalReceiver,
    SignalSender, TcpChannel, Trust, clock_name,
};
use layercast_protect::{LinkKey, LinkOpener, LinkSealer};
use layercast_wire::{
    AdapterKind, AdapterMsg, Carriage, FrameType, LinkPdu, Member, Signal, decode_datagram,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::Running;

const SOON: Duration = super::LONG;

pub fn identity() -> Arc<Identity> {
    Arc::new(Identity::generate().unwrap())
}

/// `config` as a node that takes protected calls only.
pub fn protected(mut config: NodeConfig, own: &Arc<Identity>) -> NodeConfig {
    config.identity = Some(Arc::clone(own));
    config
}

/// The node of the identity `of`, as its callers know it.
pub fn trusted(addr: SocketAddr, of: &Identity) -> Remote {
    Remote::protected(addr, Trust::Node(of.fingerprint()))
}

/// Where the neighbour `name` of `node` takes its datagrams.
pub async fn joined_by(mut node: Running, name: &str) -> (Running, SocketAddr) {
    let up = async {
        loop {
            if let Some(NodeEvent::PeerUp {
                name: who, addr, ..
            }) = node.events.recv().await
                && who == name
            {
                return addr;
            }
        }
    };
    let addr = timeout(SOON, up).await.expect("it is connected");
    (node, addr)
}

/// What is left of a neighbour that hung up.
pub struct Ears {
    opener: LinkOpener,
    socket: UdpSocket,
}

impl Ears {
    /// Listens until a hundred datagrams in a row do not open.
    pub async fn refused_until_nothing_opens(&mut self) {
        let mut buffer = vec![0; 2_000];
        let mut refused = 0;
        let listening = async {
            while refused < 100 {
                match self.socket.recv(&mut buffer) {
                    Ok(len) => match self.opener.open(&mut buffer[..len]) {
                        Ok(_) => refused = 0,
                        Err(_) => refused += 1,
                    },
                    Err(_) => sleep(Duration::from_millis(5)).await,
                }
            }
        };
        timeout(2 * SOON, listening).await.expect("the key changes");
    }
}

pub struct Neighbour {
    name: String,
    own: Option<Arc<Identity>>,
    say: mpsc::Sender<Vec<Signal>>,
    heard: mpsc::Receiver<Signal>,
    socket: UdpSocket,
    node: SocketAddr,
    sealer: Option<LinkSealer>,
    opener: Option<LinkOpener>,
    /// The session of the counters of the node, if the node repairs losses on the link.
    pub session: Option<u16>,
}

impl Neighbour {
    pub async fn call(
        addr: SocketAddr,
        of: &Identity,
        own: &Arc<Identity>,
        name: &str,
    ) -> Neighbour {
        Neighbour::try_call(addr, of, own, name).await.unwrap()
    }

    /// Says hello as `name` with the certificate of `own`; an error is what the node says.
    pub async fn try_call(
        addr: SocketAddr,
        of: &Identity,
        own: &Arc<Identity>,
        name: &str,
    ) -> Result<Neighbour, String> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Neighbour::greet(addr, of, own, name, socket).await
    }

    /// The same neighbour, from the same address, calls again.
    pub async fn call_again(self, addr: SocketAddr, of: &Identity) -> Neighbour {
        let own = self.own.expect("a protected link");
        let again = Neighbour::greet(addr, of, &own, &self.name, self.socket);
        again.await.unwrap()
    }

    async fn greet(
        addr: SocketAddr,
        of: &Identity,
        own: &Arc<Identity>,
        name: &str,
        socket: UdpSocket,
    ) -> Result<Neighbour, String> {
        let trust = Trust::Node(of.fingerprint());
        let channel = QuicChannel::connect(addr, None, own, &trust).await;
        let channel = channel.map_err(|error| error.to_string())?;
        // Another one for each connection, as nodes do.
        static KEYS: AtomicU8 = AtomicU8::new(0);
        let key = LinkKey::new(0, [KEYS.fetch_add(1, Ordering::Relaxed); 32]);
        let sealer = Some(LinkSealer::new(&key));
        let mut neighbour =
            Neighbour::start(channel, addr, name, socket, (Some(key), None)).await?;
        neighbour.own = Some(Arc::clone(own));
        neighbour.sealer = sealer;
        Ok(neighbour)
    }

    pub async fn call_in_the_clear(addr: SocketAddr, name: &str) -> Neighbour {
        Neighbour::call_with_repair(addr, name, None).await
    }

    /// Calls in the clear with this session for the repair of losses.
    pub async fn call_with_repair(addr: SocketAddr, name: &str, repair: Option<u16>) -> Neighbour {
        Neighbour::try_call_in_the_clear(addr, name, repair)
            .await
            .unwrap()
    }

    /// The same; an error is what the node answers.
    pub async fn try_call_in_the_clear(
        addr: SocketAddr,
        name: &str,
        repair: Option<u16>,
    ) -> Result<Neighbour, String> {
        let channel = TcpChannel::connect(addr, None).await.unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Neighbour::start(channel, addr, name, socket, (None, repair)).await
    }

    async fn start<C: SignalChannel>(
        channel: C,
        addr: SocketAddr,
        name: &str,
        socket: UdpSocket,
        (link_key, repair): (Option<LinkKey>, Option<u16>),
    ) -> Result<Neighbour, String> {
        socket.set_nonblocking(true).unwrap();
        let hello = Hello {
            node: name.into(),
            id: NodeId(77),
            udp_port: socket.local_addr().unwrap().port(),
            carriage: Carriage::Datagrams,
            clock: clock_name(),
            link_key,
            repair,
            group: None,
            group_repair: None,
            prompt: false,
            clocks: false,
            pings: false,
        };
        let (mut receiver, mut sender) = channel.split();
        sender.send(&[hello.signal()]).await.unwrap();
        let answer = match timeout(SOON, receiver.recv()).await.unwrap() {
            Ok(Some(Signal::Error { message })) => return Err(message),
            Ok(Some(Signal::NameInUse { name, .. })) => return Err(format!("{name} is in use")),
            Ok(Some(signal)) => Hello::from_signal(signal)?,
            other => return Err(format!("{other:?}")),
        };
        let (say, mut to_say) = mpsc::channel::<Vec<Signal>>(1);
        // The reader stops when this is full.
        let (told, heard) = mpsc::channel(64);
        tokio::spawn(async move {
            let reading = async {
                while let Ok(Some(signal)) = receiver.recv().await {
                    if told.send(signal).await.is_err() {
                        return;
                    }
                }
            };
            let writing = async {
                while let Some(signals) = to_say.recv().await {
                    if sender.send(&signals).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = reading => {}
                () = writing => {}
            }
        });
        Ok(Neighbour {
            name: name.into(),
            own: None,
            say,
            heard,
            socket,
            node: SocketAddr::new(addr.ip(), answer.udp_port),
            sealer: None,
            opener: answer.link_key.as_ref().map(LinkOpener::new),
            session: answer.repair,
        })
    }

    /// Says something on the session channel.
    pub async fn say(&mut self, signal: Signal) {
        self.say.send(vec![signal]).await.unwrap();
    }

    /// Sends signals, or finds that there is no listener any more.
    pub async fn try_say(&mut self, signals: &[Signal]) -> Result<(), ()> {
        self.say.send(signals.to_vec()).await.map_err(drop)
    }

    pub async fn wait_for(&mut self, what: impl Fn(&Signal) -> bool) -> Signal {
        let found = async {
            loop {
                let signal = self.heard.recv().await.expect("the channel is open");
                if what(&signal) {
                    return signal;
                }
            }
        };
        timeout(SOON, found).await.expect("it is said")
    }

    /// Whether the node closes the connection.
    pub async fn is_cut_off(&mut self) -> bool {
        let end = async { while self.heard.recv().await.is_some() {} };
        timeout(SOON, end).await.is_ok()
    }

    /// Joins the flow `name`.
    pub async fn join(&mut self, name: &str) {
        let advertised = self
            .wait_for(|signal| matches!(signal, Signal::Advertise { flow } if flow.name == name))
            .await;
        let Signal::Advertise { flow } = advertised else {
            unreachable!("an advertisement");
        };
        let member = Member {
            name: self.name.clone(),
            id: NodeId(77),
        };
        let join = Signal::Join {
            flow: flow.id,
            epoch: flow.epoch,
            member,
            level: Level::FULL,
            proof: None,
            again: false,
            answer: None,
        };
        self.say(join).await;
        self.wait_for(|signal| matches!(signal, Signal::JoinAck { .. }))
            .await;
    }

    /// RES or ADAPT for flow 1 in the clear.
    pub fn adapter(&self, kind: AdapterKind, max: Level, era: u32) -> Vec<u8> {
        let message = AdapterMsg {
            kind,
            group: GroupId(1),
            flow: FlowId(1),
            era: Serial(era),
            origin: NodeId(77),
            min: Level::BASE,
            max,
            hops: 0,
            levels: LevelSet::EMPTY,
            rate_min: CellRate(0),
            rate_max: CellRate(1_780 * u32::from(max.get() > 0)),
            residual: CellRate(0),
            drain: CellRate(0),
        };
        let mut out = Vec::new();
        LinkPdu::Adapter(message).encode_into(&mut out);
        out
    }

    /// A datagram as the link wants it.
    pub fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let sealer = self.sealer.as_mut().expect("a protected link");
        sealer
            .seal(&mut out, |out| out.extend_from_slice(plain))
            .unwrap();
        out
    }

    /// Sends a datagram from the address the node knows.
    pub fn send(&self, datagram: &[u8]) {
        self.socket.send_to(datagram, self.node).unwrap();
    }

    /// The datagrams that have arrived, as they are.
    pub fn take(&self) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; 2_000];
        let datagrams = std::iter::from_fn(|| {
            let len = self.socket.recv(&mut buffer).ok()?;
            Some(buffer[..len].to_vec())
        });
        datagrams.collect()
    }

    /// Takes the media from a multicast group instead of its own address.
    pub fn listen_to(&mut self, group: SocketAddrV4) {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&SocketAddr::V4(group).into()).unwrap();
        socket
            .join_multicast_v4(group.ip(), &Ipv4Addr::LOCALHOST)
            .unwrap();
        socket.set_nonblocking(true).unwrap();
        self.socket = socket.into();
    }

    /// Closes the session channel and listens on.
    pub fn hang_up(self) -> Ears {
        let opener = self.opener.expect("a protected link");
        Ears {
            opener,
            socket: self.socket,
        }
    }

    /// Opens and counts the media that come from now on, until there is enough.
    pub async fn media_until(&mut self, enough: impl Fn(&PerLayer<u64>) -> bool) {
        let mut buffer = vec![0; 2_000];
        while self.socket.recv(&mut buffer).is_ok() {}
        let mut kinds = PerLayer::default();
        let counting = async {
            while !enough(&kinds) {
                let Ok(len) = self.socket.recv(&mut buffer) else {
                    sleep(Duration::from_millis(5)).await;
                    continue;
                };
                let datagram = &mut buffer[..len];
                let plain = match &mut self.opener {
                    // What was under way when the node was restarted.
                    Some(opener) => match opener.open(datagram) {
                        Ok(plain) => plain.to_vec(),
                        Err(_) => continue,
                    },
                    None => datagram.to_vec(),
                };
                let carriage = Carriage::Datagrams;
                let decoded = decode_datagram(carriage, plain.into(), false, &mut |pdu| {
                    if let LinkPdu::Mets(packet) = pdu {
                        match packet.header.kind {
                            FrameType::BL => kinds.base += 1,
                            FrameType::E1 => kinds.e1 += 1,
                            FrameType::E2 => kinds.e2 += 1,
                            _ => {}
                        }
                    }
                });
                decoded.unwrap();
            }
        };
        timeout(SOON, counting).await.expect("media come");
    }
}
