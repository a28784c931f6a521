//! The command line: names, help texts and examples.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use layercast_core::{AdaptMode, Level, OnPlenty, OnScarce, Rate, Span};
use layercast_protect::Control;
use layercast_qos::Merge;
use layercast_sim::scenario::units::QueueSize;
use layercast_switch::FilterPlace;
use layercast_switch::{Jitter, RateSchedule};

use layercast_transport::mets::ParityConfig;

use crate::scenario::ProtectBase;
use crate::units;

/// Layered live media to unequal receivers: the base layer of every admitted flow arrives, in
/// time, while enhancement layers come and go with the bandwidth that is left.
#[derive(Debug, Parser)]
// In a narrower terminal clap would break examples into lines that cannot be copied; the terminal itself can show them.
#[command(name = "layercast", version, arg_required_else_help = true, after_help = EXAMPLES, term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Start here:
  layercast probe clip.m1v                      # the layers of this clip
  layercast serve clip.m1v                      # offer it; prints its URL
  layercast join 'URL' --out - | ffplay -       # watch it: the URL that serve printed
  layercast sim scenarios/quickstart.toml       # a whole network in the simulator
  layercast demo                                # real processes and the simulator, side by side

Exit codes: 0 done, 1 failed, 2 wrong use, 3 done in part (send, receive), 130 stopped by Ctrl-C.";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the layers, rates and GOPs of a clip
    Probe(Probe),
    /// Lower the rate of a clip: drop high frequencies, shape it to a rate, or drop pictures
    Filter(Filter),
    /// Run a scenario in the simulator
    Sim(Sim),
    /// Offer a clip as a layered flow
    Serve(Serve),
    /// Run a software switch: takes flows from upstream, gives each branch what fits
    Switch(Switch),
    /// Receive a flow and write it to a file or a player
    Join(Join),
    /// Ask a server or switch for its flows and its members' statistics
    Stats(Stats),
    /// Run a scenario with real processes on this machine, and in the simulator, and compare
    Demo(Demo),
    /// Let somebody join a flow that takes tokens: print a token, or a join URL with it
    Token(Token),
    /// Send files to many receivers at once, by IP multicast or from host to host
    Send(crate::multicast::args::Send),
    /// Receive the files of `layercast send`
    Receive(crate::multicast::args::Receive),
    /// Many receivers in one process, to try `layercast send` with
    EmulateReceivers(crate::multicast::args::EmulateReceivers),
    /// Run a network in real time with real programs at its hosts, or put an impaired path between two of them
    Emulate(Emulate),
    /// Measure the rate and the burst of a policer on a path, by trains of datagrams
    PolicerProbe(PolicerProbe),
    /// Packet-level FEC: where in a multicast tree redundancy pays, and a tunnel of parities between two hosts
    Fec(Fec),
    /// Models of application traffic: sample them, compare them with data, see what they offer
    Workload(crate::workload::args::Workload),
    /// XTP as a daemon that other processes of this machine use
    Xtpd(crate::xtpd::Xtpd),
}

/// `layercast probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Understands H.264 (byte streams), MPEG-1 and MPEG-2 video (elementary and program streams), all of
them in transport streams, and frame-size traces. A layer is a kind of picture: BL = I pictures,
E1 = P pictures, E2 = B pictures; in H.264 E2 are those that no other refers to. Rates are shown
in Mb/s of video and in ATM cells/s, the unit of admission control.

Examples:
  layercast probe clip.m1v
  layercast probe clip.m1v --json | jq '.layers[].mean_bps'
  ffmpeg -i any.mp4 -an -c:v mpeg1video -g 12 -bf 2 clip.m1v    # a clip with all layers")]
pub struct Probe {
    /// The clip; `-` is standard input
    pub file: PathBuf,
    /// Of a transport stream: this program [default: the first that has video]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub program: Option<u16>,
    /// Print one JSON object (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// `layercast filter`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("how").required(true), after_help = "\
Takes MPEG-1 and MPEG-2 video (4:2:0, frame pictures) and writes an elementary stream that any
decoder accepts. Nothing is decoded: coefficients or pictures are left out of the stream (docs/filters.md).

Examples:
  layercast filter --low-pass 10 clip.m1v -o soft.m1v
  layercast filter --rate 800k clip.m1v -o small.m1v --json
  layercast filter --keep IP clip.m1v -o - | ffplay -")]
pub struct Filter {
    /// Keep the first K of the 64 coefficients of every block
    #[arg(long, value_name = "K", group = "how", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub low_pass: Option<u8>,
    /// Drop what is missed least until every GOP has this rate, e.g. 800k or 1.5Mbit/s
    #[arg(long, value_name = "RATE", group = "how", value_parser = units::short_rate)]
    pub rate: Option<Rate>,
    /// Keep I pictures, or I and P pictures; each of the others repeats one before it
    #[arg(long, value_enum, ignore_case = true, group = "how")]
    pub keep: Option<Keep>,
    /// The clip; `-` is standard input
    pub file: PathBuf,
    /// Where the stream goes; `-` is standard output, and the report then goes to standard error
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
    /// Print one JSON object (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// What `layercast filter --keep` keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Keep {
    /// I pictures
    #[value(name = "I")]
    I,
    /// I and P pictures
    #[value(name = "IP")]
    Ip,
}

/// `layercast sim`.
#[derive(Debug, Args)]
#[command(after_help = "\
The same scenario and seed give the same result, byte for byte, on any machine.

Examples:
  layercast sim scenarios/quickstart.toml
  layercast sim scenarios/demo.toml --seed 7 --json > run.json
  layercast sim scenarios/quickstart.toml --pcap run.pcapng && tshark -r run.pcapng
  layercast sim scenarios/internet/dumbbell.toml --out run
  layercast sim scenarios/internet/xunet.toml --seeds 1..20 --jobs 2 --out sweep
  layercast sim scenarios/internet/tree.toml --threads 2
  layercast sim --check scenarios/internet/xunet.toml
  layercast sim --schema > internet.schema.json")]
pub struct Sim {
    /// The scenario (TOML): of METS, with schema = "internet/1" an internetwork (docs/simulator.md), with "group/1"
    /// reliable multicast (docs/multicast-simulator.md)
    #[arg(required_unless_present = "schema")]
    pub scenario: Option<PathBuf>,
    /// Check the scenario, print what is wrong or surprising, and do not run it
    #[arg(long)]
    pub check: bool,
    /// Print the JSON Schema of internetworks, for editors
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Write summary.json and flows, queues and samples as Parquet to this folder (internetworks)
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    pub out: Option<PathBuf>,
    /// Print one JSON object (docs/json.md) instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write every packet or cell on every link to this file, for tshark or Wireshark
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// With --pcap: only packets, not the cells of an ATM backbone, which then move as trains (internetworks)
    #[arg(long, requires = "pcap")]
    pub no_cells: bool,
    /// Use this seed instead of the scenario's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Protect the base layers of all flows otherwise than the scenario says: off, 6+2, auto (METS)
    #[arg(long, value_name = "off|N+M|auto", value_parser = units::protect_base)]
    pub protect_base: Option<ProtectBase>,
    /// One run for each of these seeds, e.g. 1..20: DIR/seed-1 to DIR/seed-20 as --out writes them, and what they have in
    /// common; seeds that DIR has are kept (internetworks)
    #[arg(long, value_name = "FIRST..LAST", value_parser = units::seeds, requires = "out",
          conflicts_with_all = ["seed", "check", "pcap", "trace"])]
    pub seeds: Option<RangeInclusive<u64>>,
    /// With --seeds: so many runs at a time [default: one for each processor]
    #[arg(long, value_name = "N", requires = "seeds", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Run an internetwork of TCP and UDP flows in so many parts, each with a thread of its own: the result is the same
    /// [default: one for each processor in networks of 2000 nodes or more, where that is quicker]
    #[arg(long, value_name = "N", conflicts_with = "seeds", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Write every event of every machine to this file (JSON-SEQ, in qlog's manner)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Encode and decode every packet at every hop; the result must stay the same
    #[arg(long)]
    pub wire_check: bool,
    /// Move the cells of an ATM backbone one by one instead of as trains: slower, with the same result
    #[arg(long)]
    pub per_cell: bool,
    /// Stop after this much simulated time, e.g. 10s
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub duration: Option<Span>,
}

/// How a child of `layercast demo` is told which node of which scenario it is.
#[derive(Debug, Args, Clone)]
pub struct Role {
    /// Take every parameter from this scenario; needs --node or --receiver
    #[arg(long, value_name = "FILE", hide = true, requires = "addresses")]
    pub scenario: Option<PathBuf>,
    /// The node of the scenario this process is
    #[arg(long, value_name = "NAME", hide = true)]
    pub node: Option<String>,
    /// JSON file: node name -> address
    #[arg(long, value_name = "FILE", hide = true)]
    pub addresses: Option<PathBuf>,
}

/// `layercast serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Receivers and switches connect to the URL it prints, which names its certificate; each gets the highest level that its link
and the network between can carry. Rates are those of the clip as probed.

Examples:
  layercast serve clip.m1v
  layercast serve clip.m1v --flow bunny --loop --listen 0.0.0.0:7400
  layercast serve clip.m1v --start-when-joined 2      # waits for two receivers
  ffmpeg -nostdin -re -i any.mp4 -c:v libx264 -g 25 -bf 2 \\
      -x264-params scenecut=0:b-pyramid=none -c:a aac -f mpegts udp://127.0.0.1:5000 &
  layercast serve udp://127.0.0.1:5000                # live, with sound (docs/media.md)
  layercast serve clip.m1v --rate 4Mbit/s             # as if every link carried 4 Mbit/s")]
pub struct Serve {
    /// The clip: H.264 or MPEG-1/2 video, a transport stream, or a frame-size trace; `-` is standard
    /// input. Live: udp://HOST:PORT or rtp://HOST:PORT to listen on, or a transport stream at `-`
    #[arg(required_unless_present = "scenario")]
    pub clip: Option<PathBuf>,
    /// Name of this node in messages and statistics
    #[arg(long, default_value = "server")]
    pub name: String,
    /// Name of the flow [default: the clip's name without its extension]
    #[arg(long)]
    pub flow: Option<String>,
    /// Address to listen on: UDP, media on the port behind (or a free one); port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7400")]
    pub listen: SocketAddr,
    /// Of a transport stream: serve this program alone [default: the first that has video, and the others as data]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub program: Option<u16>,
    /// Live: look at so much of the stream to learn its rates
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = units::span)]
    pub measure: Span,
    /// Live: reserve so many per cent more than was seen
    #[arg(long, value_name = "PERCENT", default_value = "25", value_parser = clap::value_parser!(u32).range(..=1000))]
    pub headroom: u32,
    /// Live: mean rates of BL, E1 and E2, instead of those seen, e.g. 1Mbit/s,2Mbit/s,500kbit/s
    #[arg(long, value_name = "BL[,E1[,E2]]", value_delimiter = ',', num_args = 1..=3, value_parser = units::rate)]
    pub rates: Option<Vec<Rate>>,
    /// Live: send each frame so long after it came, which takes up the jitter of the encoder
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = units::span)]
    pub lead: Span,
    /// Live: give up when nothing came for this time at the start [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub patience: Option<Span>,
    /// Live RTP: the session description of the sender, with the parameter sets that its stream lacks
    #[arg(long, value_name = "FILE")]
    pub sdp: Option<PathBuf>,
    /// Start again at the end of the clip
    #[arg(long = "loop")]
    pub repeat: bool,
    /// Start when this many receivers joined
    #[arg(long, value_name = "N", conflicts_with = "start_in")]
    pub start_when_joined: Option<u32>,
    /// Start after this time, e.g. 5s
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub start_in: Option<Span>,
    /// Follow the bandwidth by whole layers, or shape the video to any rate
    #[arg(long, value_name = "discrete|continuous", default_value = "discrete", value_parser = units::adapt)]
    pub adapt: AdaptMode,
    /// Promised end-to-end delay: frames are played this long after they were taken
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::span)]
    pub delay_max: Span,
    /// Core switch: the node where all receivers meet the flow; auto is this one
    #[arg(long, value_name = "NODE")]
    pub core: Option<String>,
    /// How packets are spaced: the token bucket of METS; all flows of this host frame after frame at
    /// the rate that receivers say they take in (join --drain), the bucket until they do; or not at all
    #[arg(long, value_name = "HOW", default_value = "paper")]
    pub pacing: Pacing,
    /// Protect the base layer against loss: N+M sends M parities for every N packets, as in 6+2 or
    /// reed-solomon:20+4; auto as many as the loss that receivers report asks for
    #[arg(long, value_name = "N+M|auto")]
    pub protect_base: Option<ParityConfig>,
    /// Seal the media from end to end: switches pass on what they cannot read or change
    #[arg(long)]
    pub seal: bool,
    /// Let only receivers join that show a token (layercast token); seals the media
    #[arg(long)]
    pub require_tokens: bool,
    #[command(flatten)]
    pub link: LinkArgs,
    #[command(flatten)]
    pub own: IdentityArgs,
    /// Print one JSON object per second instead of a status line
    #[arg(long)]
    pub json: bool,
    /// Write every event of the machines to this file (JSON-SEQ)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    pub role: Role,
}

/// `layercast token`.
#[derive(Debug, Args)]
#[command(after_help = "\
Whoever has the token may join the flow, so hand it over like a password: in a file (layercast join --token-file) or
in the environment (LAYERCAST_TOKEN). In a URL on the command line all users of the host see it in the list of
processes. Needs no running server.

Examples:
  layercast token --identity server.pem --flow bunny
  layercast token --identity server.pem --flow bunny --member alice --level 1 --expires 8h \\
      --url 'layercasts://192.0.2.1:7400/bunny?fp=..'        # a whole URL for layercast join")]
pub struct Token {
    /// The file that `serve --identity` uses
    #[arg(long, value_name = "FILE")]
    pub identity: PathBuf,
    /// Name of the flow
    #[arg(long)]
    pub flow: String,
    /// Only for the receiver with this name (join --name) [default: any]
    #[arg(long, value_name = "NAME")]
    pub member: Option<String>,
    /// Highest level: 0 the base layer, 1 with E1, 2 everything
    #[arg(long, value_name = "N", default_value = "2", value_parser = units::level)]
    pub level: Level,
    /// Valid for this time from now on
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = units::span)]
    pub expires: Span,
    /// Print this URL with flow, source and token in it instead
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
}

/// Who `serve` and `switch` are on protected links (docs/security.md).
#[derive(Debug, Args, Clone)]
pub struct IdentityArgs {
    /// Keep certificate and key in this file, made if it is not there: the join URL stays the same
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cert", "insecure"])]
    pub identity: Option<PathBuf>,
    /// Show this certificate (PEM, its issuers behind it) instead of one of our own
    #[arg(
        long,
        value_name = "FILE",
        requires = "key",
        conflicts_with = "insecure"
    )]
    pub cert: Option<PathBuf>,
    /// The private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Take calls in the clear: nothing is encrypted, anybody can forge; for teaching and measuring
    #[arg(long)]
    pub insecure: bool,
    /// What carries the control of sessions in the clear (with --insecure): tcp or xtp, which is XTP over
    /// UDP; the URL that is printed says so. On protected links it is QUIC [default: tcp]
    #[arg(long, value_name = "tcp|xtp", value_parser = units::control)]
    pub control: Option<Control>,
    /// Keep this name for the neighbour with this certificate; may be given several times
    #[arg(long = "reserve", value_name = "NAME=FINGERPRINT", value_parser = units::reservation,
          conflicts_with = "insecure")]
    pub reserved: Vec<(String, layercast_net::Fingerprint)>,
}

/// What `layercast serve --pacing` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Pacing {
    /// A token bucket for each flow
    Paper,
    /// Frame after frame at the receivers' rate
    Serial,
    /// None
    Off,
}

/// Limits of the links of `serve` and `switch`.
#[derive(Debug, Args, Clone)]
pub struct LinkArgs {
    /// Rate of every link towards receivers, e.g. 10Mbit/s [default: as fast as it goes]
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub rate: Option<Rate>,
    /// Rate, delay, queue and loss of the link to one neighbour, and how its rate changes from the
    /// start of the node on: NAME=RATE[,delay=5ms][,queue=500ms|256cells][,loss=0.01][,schedule=10s:60%,20s:100%]
    #[arg(long = "port", value_name = "NAME=RATE,..", value_parser = units::named_port)]
    pub ports: Vec<units::NamedPort>,
    /// Receivers and switches that may be connected at a time; further callers are turned away
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u16).range(1..))]
    pub max_neighbours: u16,
}

/// `layercast switch`.
#[derive(Debug, Args)]
#[command(after_help = "\
A switch joins a flow upstream when somebody asks for it downstream, admits base layers against what
is reserved on each link, and shares the rest fairly among enhancement layers.

Examples:
  layercast switch --upstream 'layercasts://192.0.2.1:7400?fp=..'    # the URL of the server
  layercast switch --upstream URL --name sparrow --port rook=10Mbit/s,delay=2ms
  layercast switch --upstream URL --identity sparrow.pem    # keeps its URL after a restart
  layercast switch --upstream URL --filter bunny@phone=low-pass:10
  layercast switch --upstream URL --multicast 239.1.1.1:7500=ann,bob
  layercast switch --upstream 192.0.2.1:7400 --insecure     # everything in the clear
  layercast switch --upstream 'layercast://192.0.2.1:7400?control=xtp' --insecure --control xtp")]
pub struct Switch {
    /// Let only receivers join that show a token of the flow's source
    #[arg(long)]
    pub require_tokens: bool,
    /// A server or switch to take flows from: its URL, or @FILE that holds it; may be given several times
    #[arg(long, value_name = "URL", required_unless_present = "scenario")]
    pub upstream: Vec<String>,
    /// Believe the authorities in this PEM file where an upstream URL names no fingerprint
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Name of this node in messages and statistics
    #[arg(long, default_value = "switch")]
    pub name: String,
    /// Address to listen on: UDP, media on the port behind (or a free one); port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7410")]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub link: LinkArgs,
    #[command(flatten)]
    pub own: IdentityArgs,
    /// Filter a flow on its way to a neighbour, or to all: keep:I, keep:IP, thin:1/2, low-pass:10 or
    /// drs (shape to what the link has left); may be given several times
    #[arg(long, value_name = "FLOW[@NAME]=RULE", value_parser = units::filter)]
    pub filter: Vec<FilterPlace>,
    /// How demands of several branches become one: join as printed, hull for research
    #[arg(long, value_name = "join|hull", default_value = "join", value_parser = units::merge)]
    pub merge: Merge,
    /// Send the media for these neighbours to an IP multicast group, once for all of them; they
    /// join with --multicast GROUP:PORT; may be given several times
    #[arg(long, value_name = "GROUP:PORT=NAME,..", value_parser = units::group)]
    pub multicast: Vec<units::Group>,
    /// Address of the interface for multicast [default: that of --listen]
    #[arg(long, value_name = "ADDR")]
    pub interface: Option<Ipv4Addr>,
    /// Print one JSON object per second instead of a status line
    #[arg(long)]
    pub json: bool,
    /// Write every event of the machines to this file (JSON-SEQ)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    pub role: Role,
}

/// `layercast join`.
#[derive(Debug, Args)]
#[command(after_help = "\
What is written is a stream any decoder accepts, whatever layers arrived; it starts at the first
I picture. Stopped by Ctrl-C, the file stays valid.

Examples:
  layercast join 'layercasts://192.0.2.1:7400/bunny?fp=..' --out - | ffplay -    # as printed
  layercast join layercasts://media.example.net:7400 --ca ca.pem --list
  layercast join 127.0.0.1:7410/bunny --level 1 --out got.m1v --for 15s    # in the clear
  layercast join URL --out udp://127.0.0.1:6000 &
  ffplay udp://127.0.0.1:6000
  layercast join URL --out rtp://127.0.0.1:6004 --sdp live.sdp &
  sleep 2; ffplay -protocol_whitelist file,udp,rtp live.sdp")]
pub struct Join {
    /// Server or switch, and the flow (may be left out when exactly one is offered): the URL that the
    /// node printed, @FILE that holds it (layercast serve .. > FILE), or HOST:PORT[/FLOW] for one that speaks in the clear
    #[arg(value_name = "URL", required_unless_present = "scenario")]
    pub address: Option<String>,
    /// Believe the authorities in this PEM file if the URL names no fingerprint
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Read the token for the flow from this file. Without it, the environment variable LAYERCAST_TOKEN counts if
    /// the URL has no token. A token in the URL shows in the list of processes
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Keep certificate and key of this receiver in this file, made if it is not there
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Highest level wanted: 0 = BL, 1 = BL+E1, 2 = BL+E1+E2
    #[arg(long, value_name = "0|1|2", default_value = "2", value_parser = units::level)]
    pub level: Level,
    /// What to do when the way here is congested, instead of what the flow says
    #[arg(long, value_name = "drop-layer|inform|disconnect|RULE", value_parser = units::on_scarce)]
    pub on_scarce: Option<OnScarce>,
    /// What to do when there is more bandwidth, instead of what the flow says
    #[arg(long, value_name = "add-layer|inform|ignore", value_parser = units::on_plenty)]
    pub on_plenty: Option<OnPlenty>,
    /// Write the received stream to this file, `.ts` as a transport stream; `-` is standard output;
    /// udp://HOST:PORT sends a transport stream to a player, rtp://HOST:PORT sends RTP
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// With --out rtp://: the session description with which players open it [default: FLOW.sdp]
    #[arg(long, value_name = "FILE", requires = "out")]
    pub sdp: Option<PathBuf>,
    /// Leave after this time, e.g. 15s
    #[arg(long = "for", value_name = "TIME", value_parser = units::span)]
    pub leave_after: Option<Span>,
    /// Name of this receiver in messages and statistics
    #[arg(long, default_value = "receiver")]
    pub name: String,
    /// Play each frame this long after it was sent, instead of the delay the flow promises
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub playout: Option<Span>,
    /// What this host takes in without loss, all flows together, for senders with --pacing serial
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub drain: Option<Rate>,
    /// Take the media from this IP multicast group, to which the switch sends them
    #[arg(long, value_name = "GROUP:PORT")]
    pub multicast: Option<SocketAddrV4>,
    /// Address of the interface for multicast [default: the one towards HOST]
    #[arg(long, value_name = "ADDR")]
    pub interface: Option<Ipv4Addr>,
    /// List the flows on offer and stop
    #[arg(long, conflicts_with_all = ["out", "leave_after"])]
    pub list: bool,
    /// Print one JSON object per second and a summary at the end (on standard error with --out -)
    #[arg(long)]
    pub json: bool,
    /// Write every event of the receiver to this file (JSON-SEQ)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// The receiver of the scenario this process is
    #[arg(long, value_name = "NAME", hide = true)]
    pub receiver: Option<String>,
    #[command(flatten)]
    pub role: Role,
}

/// `layercast stats`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  layercast stats 'layercasts://127.0.0.1:7400?fp=..'
  layercast stats 'layercasts://127.0.0.1:7400?fp=any' --json | jq '.flows[].members[].lost'
  layercast stats xtp+daemon:///run/user/1000/xtpd")]
pub struct Stats {
    /// Server or switch: the URL that the node printed, or HOST:PORT for one that speaks in the clear; or a daemon of XTP
    #[arg(value_name = "URL")]
    pub address: String,
    /// Believe the authorities in this PEM file if the URL names no fingerprint
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `layercast emulate`.
#[derive(Debug, Args)]
#[command(after_help = "\
With a scenario of an internetwork (docs/simulator.md) the hosts that it attaches are real: what iperf3,
curl or ffmpeg send goes through the simulated network in real time, beside its simulated traffic.
--namespaces makes network namespaces with TUN or TAP devices as the scenario says, and removes them at
the end. How late things happened is told every second and at the end.

With --to it is one path: datagrams that come to --listen go on to --to, and the answers back, each way
through a queue, a line of --rate, then delay, jitter and loss; the same seed draws the same loss and
jitter. Clients share the path. TCP connections to the same port are carried too, delayed but not lost,
and a Layercast node behind it is told the port of the path instead of its neighbour's, as behind a NAT;
that takes a link without protection (--insecure). What a full queue drops is dropped without a look
into it; datagrams that wait long are marked (ECN).

Examples:
  sudo layercast emulate scenarios/internet/emulate.toml --namespaces
  layercast emulate --listen 127.0.0.1:9000 --to 127.0.0.1:9001 --delay 20ms --jitter 5ms --loss 3%
  layercast emulate --listen 127.0.0.1:7500 --to 127.0.0.1:7400 --rate 3Mbit/s --queue 200ms \\
      --schedule 10s:60%,20s:100% --json")]
pub struct Emulate {
    /// The internetwork (TOML, schema = "internet/1") that real programs are attached to
    pub scenario: Option<PathBuf>,
    /// Make network namespaces, devices, addresses and routes for the scenario's TUN and TAP attachments; needs root
    #[arg(long, conflicts_with = "to")]
    pub namespaces: bool,
    /// Stop after this time, e.g. 30s [default: run.duration of the scenario]
    #[arg(long, value_name = "TIME", conflicts_with = "to", value_parser = units::span)]
    pub duration: Option<Span>,
    /// Write every packet or cell on every simulated link to this file, for tshark or Wireshark
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    pub pcap: Option<PathBuf>,
    /// With --pcap: only packets, not the cells of an ATM backbone, which then move as trains
    #[arg(long, requires = "pcap")]
    pub no_cells: bool,
    /// Address that clients send to; port 0 takes a free one
    #[arg(
        long,
        conflicts_with = "scenario",
        value_name = "ADDR",
        default_value = "127.0.0.1:0"
    )]
    pub listen: SocketAddr,
    /// Where their datagrams go
    #[arg(long, value_name = "ADDR", conflicts_with = "scenario")]
    pub to: Option<SocketAddr>,
    /// Believe the addresses of all clients. Without it, a client on another host that has no TCP connection here
    /// gets at most three times the bytes that it sends (RFC 9000, 8.1)
    #[arg(long, conflicts_with = "scenario")]
    pub any_client: bool,
    /// Send the datagrams of the only client on from this port, for a program that has to know it beforehand, such as
    /// `fec edge --peer`
    #[arg(long, value_name = "PORT", conflicts_with = "scenario", value_parser = clap::value_parser!(u16).range(1..))]
    pub from_port: Option<u16>,
    /// Rate of the line each way, UDP and IP headers included [default: no limit]
    #[arg(long, conflicts_with = "scenario", value_name = "RATE", value_parser = units::rate)]
    pub rate: Option<Rate>,
    /// How the rate changes, counted from the first datagram: TIME:PERCENT,..
    #[arg(long, conflicts_with = "scenario", value_name = "STEPS", requires = "rate", value_parser = units::schedule)]
    pub schedule: Option<RateSchedule>,
    /// What waits in front of the line at most, in time of the full line, bytes or cells of 48 bytes
    #[arg(long, conflicts_with = "scenario", value_name = "SIZE", default_value = "200ms", value_parser = units::queue)]
    pub queue: QueueSize,
    /// Delay each way
    #[arg(long, conflicts_with = "scenario", value_name = "TIME", default_value = "0s", value_parser = units::span)]
    pub delay: Span,
    /// Random delay on top, in order: uniform up to this, or normal:TIME
    #[arg(long, conflicts_with = "scenario", value_name = "TIME", default_value = "0s", value_parser = units::jitter)]
    pub jitter: Jitter,
    /// Let jitter change the order
    #[arg(long, conflicts_with = "scenario")]
    pub reorder: bool,
    /// Share of datagrams lost each way, such as 3%
    #[arg(long, conflicts_with = "scenario", value_name = "SHARE", default_value = "0", value_parser = units::probability)]
    pub loss: f64,
    /// Lose so many in a row on average instead of each on its own
    #[arg(long, conflicts_with = "scenario", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub burst: Option<u32>,
    /// Share of datagrams that arrive twice
    #[arg(long, conflicts_with = "scenario", value_name = "SHARE", default_value = "0", value_parser = units::probability)]
    pub duplicate: f64,
    /// Seed of loss and jitter [default: 1, or that of the scenario]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print one JSON object per second instead of a status line
    #[arg(long)]
    pub json: bool,
}

/// `layercast policer-probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Sends trains of datagrams to somebody who counts them (the same command with --listen), faster than the
policer lets them pass, and finds the token bucket that would have lost just those that were lost. What is
told are rate and burst in bytes of IP packets, each with the range that fits nearly as well. A queue in
front of a bottleneck takes in a burst, too, and is told as one; where nothing is lost, nothing is told.

Examples:
  layercast policer-probe --listen 0.0.0.0:9400
  layercast policer-probe 192.0.2.7:9400 --at 200Mbit/s
  layercast policer-probe 192.0.2.7:9400 --json | jq .rate_bps")]
pub struct PolicerProbe {
    /// Whom to probe: address and port of the other side
    pub to: Option<SocketAddr>,
    /// Answer those who probe, at this address, until killed
    #[arg(long, value_name = "ADDR", conflicts_with = "to")]
    pub listen: Option<SocketAddr>,
    /// Rate of the first train: more than the policer's
    #[arg(long, value_name = "RATE", default_value = "50Mbit/s", value_parser = units::rate)]
    pub at: Rate,
    /// Bytes of a packet, UDP and IPv4 headers included
    #[arg(long, value_name = "BYTES", default_value = "1400", value_parser = clap::value_parser!(u32).range(64..=9_000))]
    pub packet: u32,
    /// Most packets of a train as long as nothing is lost
    #[arg(long, value_name = "N", default_value = "65536", value_parser = clap::value_parser!(u32).range(1..=500_000))]
    pub packets: u32,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `layercast fec`.
#[derive(Debug, Args)]
pub struct Fec {
    /// What to do
    #[command(subcommand)]
    pub command: FecCommand,
}

/// Commands of `layercast fec`.
#[derive(Debug, Subcommand)]
pub enum FecCommand {
    /// Rank all placements of codes on the parts of a tree
    Plan(FecPlan),
    /// Protect the datagrams of any program between two hosts by parities
    Edge(crate::edge::FecEdge),
}

/// `layercast fec plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
A tree is a TOML file of [[branch]] tables: name, parent (none: the source), loss of one link, hops in a row,
count of alike branches, part (what placements call it, if not the name). What is told of each placement:
transmissions by the source until all receivers have a packet, the gain over no FEC, and the net gain with
the parities counted on the links that carry them; that of the highest net gain first.

Examples:
  layercast fec plan tree.toml
  layercast fec plan tree.toml --code 14+2
  layercast fec plan tree.toml --json | jq '.placements[0]'")]
pub struct FecPlan {
    /// The tree
    #[arg(value_name = "TREE.toml")]
    pub tree: PathBuf,
    /// Longest block for which codes are tried, in packets
    #[arg(long, value_name = "PACKETS", default_value = "100")]
    pub block: usize,
    /// This code on each part instead of the best one
    #[arg(long, value_name = "N+M", value_parser = crate::fec::code)]
    pub code: Option<(usize, usize)>,
    /// Each protected link loses so many times less, at no cost, instead of a code
    #[arg(long, value_name = "TIMES", conflicts_with = "code")]
    pub factor: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `layercast demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Starts one process per node of the scenario on 127.0.0.1, makes the receivers join and leave at their
times, runs the same scenario in the simulator, compares both, checks every received file with ffmpeg,
and writes summary.json and report.html. The exit code is 1 if a promise was broken: no base-layer
frame lost or late, every layer change on a GOP boundary, levels as simulated.

Examples:
  layercast demo
  layercast demo --quick --out /tmp/demo
  layercast demo --scenario scenarios/demo.toml --json | jq .promise")]
pub struct Demo {
    /// The scenario
    #[arg(long, value_name = "FILE", default_value = "scenarios/demo.toml")]
    pub scenario: PathBuf,
    /// Where received streams, summary.json and report.html go
    #[arg(long, value_name = "DIR", default_value = "target/demo")]
    pub out: PathBuf,
    /// Stop after 12 s of the scenario
    #[arg(long)]
    pub quick: bool,
    /// Use this seed instead of the scenario's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Protect the base layers of all flows otherwise than the scenario says: off, 6+2, auto
    #[arg(long, value_name = "off|N+M|auto", value_parser = units::protect_base)]
    pub protect_base: Option<ProtectBase>,
    /// Leave the links unprotected, with the control over tcp or xtp, instead of QUIC
    #[arg(long, value_name = "tcp|xtp", value_parser = units::control)]
    pub control: Option<Control>,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}
