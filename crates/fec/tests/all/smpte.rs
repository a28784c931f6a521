//! SMPTE 2022-1 with GStreamer and ffmpeg, over sockets, both ways, with loss.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use layercast_core::{Span, Stream, Time};
use layercast_fec::{
    SmpteConfig, SmpteReceiver, SmpteReceiverConfig, SmpteReceiverStats, SmpteSender, SmpteStream,
};

const HERE: &str = "127.0.0.1";
/// Longest that a peer may take to start, and to pass a packet on.
const STARTS_WITHIN: Duration = Duration::from_secs(60);
const PASSES_WITHIN: Duration = Duration::from_secs(5);
/// Between two packets: some 2 Mbit/s.
const GAP: Duration = Duration::from_millis(3);

/// A process that ends with the test.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a peer is there; under LAYERCAST_REQUIRE_TOOLS it has to be.
fn have(command: &[&str]) -> bool {
    let mut tool = Command::new(command[0]);
    tool.args(&command[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let found = tool.status().is_ok_and(|status| status.success());
    let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(found || !required, "{command:?} is missing");
    if !found {
        eprintln!("left out: {command:?} is missing");
    }
    found
}

fn have_gstreamer(element: &str) -> bool {
    have(&["gst-inspect-1.0", "--exists", element])
}

fn start(command: &str, args: &[&str]) -> Helper {
    let child = Command::new(command)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn();
    Helper(child.expect("it starts"))
}

fn gstreamer(pipeline: &str) -> Helper {
    let args: Vec<&str> = pipeline.split_whitespace().collect();
    start("gst-launch-1.0", &[&["-q"], &args[..]].concat())
}

fn socket() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind((HERE, 0)).expect("a port");
    socket.set_nonblocking(true).expect("not blocking");
    let port = socket.local_addr().expect("an address").port();
    (socket, port)
}

/// Ports for a peer: free now.
fn ports<const N: usize>() -> [u16; N] {
    let held: [_; N] = std::array::from_fn(|_| socket());
    held.map(|(_, port)| port)
}

/// RTP packets of a transport stream, of the source 0 as GStreamer wants it.
fn media(count: u16) -> Vec<Vec<u8>> {
    let mut random = Stream::new(5, "media");
    let packet = |number: u16| {
        let mut packet = vec![0x80, 33];
        packet.extend_from_slice(&(65_400_u16.wrapping_add(number)).to_be_bytes());
        packet.extend_from_slice(&(u32::from(number) * 270).to_be_bytes());
        packet.extend_from_slice(&[0; 4]);
        for _ in 0..7 {
            packet.push(0x47);
            packet.extend((1..188).map(|_| random.below(256) as u8));
        }
        packet
    };
    (0..count).map(packet).collect()
}

fn number(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[2], packet[3]])
}

fn now(since: Instant) -> Time {
    Time::ZERO + Span::from_us(since.elapsed().as_micros() as u64)
}

/// Media packets that are lost: singles, and a burst as long as a row.
fn lost(number: usize) -> bool {
    number >= 100 && (number.is_multiple_of(23) || (210..215).contains(&number))
}

#[test]
fn what_gstreamer_protects_comes_back_here() {
    if !have_gstreamer("rtpst2022-1-fecenc") {
        return;
    }
    let [input] = ports();
    let (media_in, media_port) = socket();
    let (columns_in, columns) = socket();
    let (rows_in, rows) = socket();
    let caps = "application/x-rtp,media=video,clock-rate=90000,encoding-name=MP2T,payload=33";
    let _encoder = gstreamer(&format!(
        "udpsrc port={input} address={HERE} caps={caps} ! rtpst2022-1-fecenc name=e rows=5 columns=5 \
         e.src ! udpsink host={HERE} port={media_port} sync=false async=false \
         e.fec_0 ! udpsink host={HERE} port={columns} sync=false async=false \
         e.fec_1 ! udpsink host={HERE} port={rows} sync=false async=false"
    ));
    let out = socket().0;
    let sent = media(400);
    let mut receiver = Lossy::default();
    // Consecutive numbers are required: the first one is sent until it comes through.
    let begun = Instant::now();
    while !receiver.take(&[&media_in], &columns_in, &rows_in, |_| false) {
        assert!(begun.elapsed() < STARTS_WITHIN, "GStreamer does not start");
        out.send_to(&sent[0], (HERE, input)).expect("sent");
        std::thread::sleep(Duration::from_millis(100));
        // One that waited in the socket would be a second one with its number.
        if receiver.take(&[&media_in], &columns_in, &rows_in, |_| false) {
            break;
        }
    }
    for packet in &sent[1..] {
        out.send_to(packet, (HERE, input)).expect("sent");
        std::thread::sleep(GAP);
        receiver.take(&[&media_in], &columns_in, &rows_in, |packet| {
            lost(usize::from(number(packet).wrapping_sub(65_400)))
        });
    }
    let stats = receiver.finish(&media_in, &columns_in, &rows_in, sent.len());
    assert!(
        stats.parities[0] > 50 && stats.parities[1] > 50,
        "{stats:?}"
    );
    let wanted = (0..400).filter(|&it| lost(it)).count() as u64;
    assert_eq!(
        (stats.recovered, stats.lost, stats.bad),
        (wanted, 0, 0),
        "{stats:?}"
    );
    assert!(receiver.found == sent);
}

/// A receiver in front of which media packets are lost.
struct Lossy {
    since: Instant,
    receiver: SmpteReceiver,
    found: Vec<Vec<u8>>,
    /// Those that were lost, by number.
    lost: BTreeMap<u16, Vec<u8>>,
    buffer: Vec<u8>,
}

impl Default for Lossy {
    fn default() -> Lossy {
        Lossy {
            since: Instant::now(),
            receiver: SmpteReceiver::new(SmpteReceiverConfig::default()),
            found: Vec::new(),
            lost: BTreeMap::new(),
            buffer: vec![0; 65_536],
        }
    }
}

impl Lossy {
    /// Takes what has come; whether media did.
    fn take(
        &mut self,
        media: &[&UdpSocket],
        columns: &UdpSocket,
        rows: &UdpSocket,
        is_lost: impl Fn(&[u8]) -> bool,
    ) -> bool {
        let mut some = false;
        for socket in media {
            while let Ok((len, _)) = socket.recv_from(&mut self.buffer) {
                some = true;
                let packet = &self.buffer[..len];
                if is_lost(packet) {
                    self.lost.insert(number(packet), packet.to_vec());
                } else if !self.receiver.on_media(now(self.since), packet) {
                    self.found.push(packet.to_vec());
                }
            }
        }
        for socket in [columns, rows] {
            while let Ok((len, _)) = socket.recv_from(&mut self.buffer) {
                let parity = self
                    .receiver
                    .on_parity(now(self.since), &self.buffer[..len]);
                parity.expect("a parity packet");
            }
        }
        while let Some(packet) = self.receiver.poll(now(self.since)) {
            self.found.push(packet.to_vec());
        }
        some
    }

    fn finish(
        &mut self,
        media: &UdpSocket,
        columns: &UdpSocket,
        rows: &UdpSocket,
        wanted: usize,
    ) -> SmpteReceiverStats {
        let begun = Instant::now();
        while self.found.len() < wanted && begun.elapsed() < PASSES_WITHIN {
            std::thread::sleep(GAP);
            self.take(&[media], columns, rows, |_| false);
        }
        self.receiver.finish();
        while let Some(packet) = self.receiver.poll(now(self.since)) {
            self.found.push(packet.to_vec());
        }
        self.receiver.stats()
    }
}

#[test]
fn what_is_protected_here_comes_back_in_gstreamer() {
    if !have_gstreamer("rtpst2022-1-fecdec") {
        return;
    }
    let [media_port, columns, rows] = ports();
    let (back, port) = socket();
    let caps = "application/x-rtp,media=video,clock-rate=90000,encoding-name=MP2T,payload=33";
    let fec = "application/x-rtp,payload=96";
    let _decoder = gstreamer(&format!(
        "rtpst2022-1-fecdec name=d ! udpsink host={HERE} port={port} sync=false async=false \
         udpsrc port={media_port} address={HERE} caps={caps} ! d.sink \
         udpsrc port={columns} address={HERE} caps={fec} ! d.fec_0 \
         udpsrc port={rows} address={HERE} caps={fec} ! d.fec_1"
    ));
    let out = socket().0;
    let sent = media(400);
    let mut found: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    let mut buffer = vec![0; 65_536];
    let mut take = |found: &mut BTreeMap<u16, Vec<u8>>| {
        let mut some = false;
        while let Ok((len, _)) = back.recv_from(&mut buffer) {
            found.insert(number(&buffer), buffer[..len].to_vec());
            some = true;
        }
        some
    };
    let begun = Instant::now();
    while !take(&mut found) {
        assert!(begun.elapsed() < STARTS_WITHIN, "GStreamer does not start");
        out.send_to(&sent[0], (HERE, media_port)).expect("sent");
        std::thread::sleep(Duration::from_millis(100));
    }
    let config = SmpteConfig {
        columns: 5,
        rows: 5,
        with_rows: true,
    };
    let mut sender = SmpteSender::new(config, 1).expect("a block");
    for (at, packet) in sent.iter().enumerate() {
        if !lost(at) && at > 0 {
            out.send_to(packet, (HERE, media_port)).expect("sent");
        }
        sender.push(packet);
        // Media and parities come through different sockets there.
        std::thread::sleep(GAP);
        while let Some(parity) = sender.poll() {
            let port = match parity.stream {
                SmpteStream::Columns => columns,
                SmpteStream::Rows => rows,
            };
            out.send_to(&parity.octets, (HERE, port)).expect("sent");
        }
        take(&mut found);
    }
    let begun = Instant::now();
    // The columns of the last block were not sent.
    while found.len() < sent.len() && begun.elapsed() < PASSES_WITHIN {
        std::thread::sleep(GAP);
        take(&mut found);
    }
    for (at, packet) in sent.iter().enumerate() {
        let came = found.get(&number(packet));
        assert!(came == Some(packet), "packet {at}: lost {}", lost(at));
    }
}

#[test]
fn what_ffmpeg_protects_comes_back_here() {
    let has_prompeg = || {
        let output = Command::new("ffmpeg")
            .args(["-v", "quiet", "-protocols"])
            .output();
        output.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("prompeg"))
    };
    if !have(&["ffmpeg", "-version"]) || !has_prompeg() {
        return;
    }
    // Three ports, two apart.
    let (media_in, columns_in, rows_in, port) = loop {
        let (media, port) = socket();
        let beside = |offset: u16| {
            let socket = UdpSocket::bind((HERE, port.checked_add(offset)?)).ok()?;
            socket.set_nonblocking(true).ok()?;
            Some(socket)
        };
        if let (Some(columns), Some(rows)) = (beside(2), beside(4)) {
            break (media, columns, rows, port);
        }
    };
    let to = format!("rtp://{HERE}:{port}?pkt_size=1328");
    let _encoder = start(
        "ffmpeg",
        &[
            "-v",
            "error",
            "-nostdin",
            "-re",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=320x240:rate=25",
            "-t",
            "20",
            "-c:v",
            "mpeg2video",
            "-b:v",
            "2M",
            "-muxrate",
            "2500k",
            "-f",
            "rtp_mpegts",
            "-fec",
            "prompeg=l=5:d=5",
            &to,
        ],
    );
    let mut receiver = Lossy::default();
    let begun = Instant::now();
    let is_lost = |packet: &[u8]| {
        let number = number(packet);
        number.is_multiple_of(23) || number % 200 < 4
    };
    while receiver.found.len() < 600 {
        assert!(begun.elapsed() < STARTS_WITHIN, "600 packets do not come");
        std::thread::sleep(GAP);
        // Until parities come, media pass by with their losses.
        let is_active = receiver.receiver.stats().parities[0] > 5;
        receiver.take(&[&media_in], &columns_in, &rows_in, |it| {
            is_active && is_lost(it)
        });
    }
    let stats = receiver.receiver.stats();
    assert!(stats.recovered >= 20, "{stats:?}");
    assert_eq!((stats.lost, stats.bad), (0, 0), "{stats:?}");
    let found: BTreeMap<u16, &Vec<u8>> = receiver.found.iter().map(|it| (number(it), it)).collect();
    let first = number(&receiver.found[0]);
    for (number, packet) in &receiver.lost {
        if let Some(came) = found.get(number) {
            assert!(*came == packet, "packet {}", number.wrapping_sub(first));
        }
    }
}
