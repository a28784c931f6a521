//! The command line: names, help texts and examples.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};
use layercast_core::quantity::QueueSize;
use layercast_core::{AdaptMode, Contract, Level, OnPlenty, OnScarce, Rate, Span};
use layercast_fec::SmpteConfig;
use layercast_link::{Jitter, RateSchedule};
use layercast_media::Map;
use layercast_mets::switch::FilterPlace;
use layercast_net::Means;
use layercast_protect::Control;
use layercast_qos::Merge;
use layercast_sim::scenario::DiscardSpec;

use layercast_mets::ParityConfig;

use crate::explain::Promise;
use crate::metrics::MetricsArgs;
use crate::renditions::{self, Renditions};
use crate::scenario::ProtectBase;
use crate::units;

/// Delivers layered live media to receivers of unequal capacity. The base layer of every admitted flow is
/// reserved and arrives in time; enhancement layers use the bandwidth that is left.
#[derive(Debug, Parser)]
// In a narrower terminal clap would break examples into lines that cannot be copied; the terminal itself can show them.
#[command(name = "layercast", version, arg_required_else_help = true, after_help = EXAMPLES, term_width = 100)]
pub struct Cli {
    /// The command.
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

Exit codes: 0 success, 1 failure, 2 wrong use, 3 a part is missing (join: the flow went away; send,
receive: a file or receiver lacks), 130 stopped by Ctrl-C (SIGINT), 143 stopped by SIGTERM
(docs/src/reference/exit-codes.md).";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the layers, rates and GOPs of a clip
    Probe(Probe),
    /// Lower the rate of a clip: remove high frequencies, shape it to a rate, or drop pictures
    Filter(Filter),
    /// Run a scenario in the simulator
    Sim(Sim),
    /// Find out which discard policy keeps a stream watchable when more comes than a line carries
    Overload(Overload),
    /// Explain what a user's wish costs on the network, and what a rate pays for
    Explain(crate::explain::Explain),
    /// Put a transport stream into a file of ATM cells with classes and times
    Prepacketize(crate::cells::args::Prepacketize),
    /// Send the cells of a file, each at its time
    PlayCells(crate::cells::args::PlayCells),
    /// Make a transport stream of cells, from a file or as they arrive
    ReceiveCells(crate::cells::args::ReceiveCells),
    /// Offer a clip or a live stream as a layered flow
    Serve(Box<Serve>),
    /// Run a software switch between servers and receivers: each branch gets the layers that fit
    Switch(Switch),
    /// Receive a flow; write it to a file, a player or a UDP address
    Join(Join),
    /// Show the flows of a server or switch and the statistics of their receivers
    Stats(Stats),
    /// Show flows in a browser, with a dashboard of their receivers and links
    Web(crate::web::WebArgs),
    /// Run a scenario with real processes and in the simulator, and compare the two
    Demo(Demo),
    /// Print a token, or a join URL with it, for a flow that requires tokens
    Token(Token),
    /// Send files to many receivers, by IP multicast or to listed hosts
    Send(crate::multicast::args::Send),
    /// Receive files that `layercast send` sends
    Receive(crate::multicast::args::Receive),
    /// Run many receivers in one process, to test `layercast send`
    EmulateReceivers(crate::multicast::args::EmulateReceivers),
    /// Run a simulated network in real time with real programs at its hosts, or impair one path
    Emulate(Emulate),
    /// Measure rate and burst of a traffic policer on a path
    PolicerProbe(PolicerProbe),
    /// Find out whether a path carries a real-time service now
    Path(crate::path::args::Path),
    /// Packet-level FEC: plan codes on a multicast tree, or protect UDP traffic between two hosts
    Fec(Fec),
    /// Loops over data, fused where it pays: plan, calibrate, measure, emit
    Ilp(crate::ilp::Ilp),
    /// Simulate a host: network interface, processor, protocols
    Nif(crate::nif::Nif),
    /// Models of application traffic: sample, compare with data, import, analyze
    Workload(crate::workload::args::Workload),
    /// Run an XTP daemon for the processes of this machine
    Xtpd(crate::xtpd::Xtpd),
}

/// How an input is read.
#[derive(Debug, Args)]
pub struct Reading {
    /// What reads the input: auto (ffmpeg, if it is no form of Layercast's own), ffmpeg, or none (never ffmpeg)
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        default_value = "auto",
        hide_possible_values = true,
        value_name = "auto|ffmpeg|none"
    )]
    pub via: Via,
    /// Which picture goes into which layer: auto; ipb (I pictures, pictures that others refer to, the others); split (all
    /// that others refer to, the others in turn); temporal (temporal layers); vp8-ts3, vp9-ts3 (three temporal layers of
    /// libvpx, by the place of a frame)
    #[arg(long, value_name = "auto|ipb|split|temporal|vp8-ts3|vp9-ts3", default_value = "auto", value_parser = units::map)]
    pub map: Map,
}

/// `layercast probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Understands H.264 and H.265 (byte streams), MPEG-1 and MPEG-2 video (elementary and program
streams), all of them in transport streams, AV1, VP8 and VP9 (IVF, OBUs; WebM, Matroska and MP4 by
ffmpeg), and frame-size traces. A layer is a kind of picture: of MPEG-1/2 BL = I pictures, E1 = P
pictures, E2 = B pictures; of H.264 and H.265 BL = all that others refer to, E1 and E2 = the
others, or BL, E1 and E2 = temporal layers (docs/src/reference/media.md). Rates are shown in
Mbit/s of video and in cells/s, the unit in which nodes reserve rates: a cell carries 48 bytes and
counts 53 on a link, so 1000 cells/s are 0.424 Mbit/s (docs/src/explanation/base-layer.md). The
second table shows for each level its pictures per second, its share of the octets, what a link
has to carry for it, and the rate of a link (switch --port NAME=RATE) that shows this level and
not the next one, with the least serve --delay-max for its key frames on such a link.

Examples:
  layercast probe clip.m1v
  layercast probe clip.m1v --json | jq '.layers[].mean_bps'
  layercast probe clip.ts --map ipb                             # the key frames alone as base layer
  layercast probe clip.m1v --json | jq -r '.levels[0].limit'    # a link that shows BL alone
  layercast probe --classes clip.ts                             # what a network can discard first
  ffmpeg -i any.mp4 -an -c:v mpeg1video -g 12 -bf 2 clip.m1v    # a clip with all layers")]
pub struct Probe {
    /// The clip; `-` is standard input
    pub file: PathBuf,
    /// Of a transport stream: this program [default: the first that has video]
    #[arg(long, value_name = "N", value_parser = units::whole(1..=u16::MAX))]
    pub program: Option<u16>,
    #[command(flatten)]
    pub reading: Reading,
    /// Another rendition of the clip, as a transport stream; given once or twice
    #[arg(long, value_name = "FILE", conflicts_with_all = ["program", "map"])]
    pub rendition: Vec<PathBuf>,
    /// Show how much is headers (S) and data of I, P and B pictures, in octets, packets and cells, and the order of the
    /// pictures
    #[arg(long, conflicts_with_all = ["program", "map", "rendition"])]
    pub classes: bool,
    /// With --classes --json: each picture with its class and its size, too
    #[arg(long, requires_all = ["classes", "json"])]
    pub pictures: bool,
    /// Print one JSON object (docs/src/reference/json.md)
    #[arg(long)]
    pub json: bool,
}

/// `layercast filter`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("how").required(true), after_help = "\
Takes MPEG-1 and MPEG-2 video (4:2:0, frame pictures) and writes an elementary stream that any
decoder accepts. Nothing is decoded: coefficients or pictures are left out of the stream
(docs/src/how-to/filters.md).

Examples:
  layercast filter --low-pass 10 clip.m1v -o soft.m1v
  layercast filter --rate 800k clip.m1v -o small.m1v --json
  layercast filter --keep IP clip.m1v -o - | ffplay -")]
pub struct Filter {
    /// Keep the first K of the 64 coefficients of every block
    #[arg(long, value_name = "K", group = "how", value_parser = units::whole(1..=64_u8))]
    pub low_pass: Option<u8>,
    /// Shape every GOP to this rate, least important coefficients first, e.g. 800k or 1.5Mbit/s
    #[arg(long, value_name = "RATE", group = "how", value_parser = units::short_rate)]
    pub rate: Option<Rate>,
    /// Keep I pictures, or I and P pictures; every dropped picture repeats the one before it
    #[arg(long, value_enum, ignore_case = true, group = "how")]
    pub keep: Option<Keep>,
    /// The clip; `-` is standard input
    pub file: PathBuf,
    /// Output file; `-` is standard output, and the report goes to standard error
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
    /// Print one JSON object (docs/src/reference/json.md)
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
The same scenario and seed give the same --json, --out, --pcap and --trace, byte for byte, on any
machine, except for wall_seconds, the real time of the run.

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
    /// Scenario file (TOML): layered flows (METS, docs/src/reference/scenario-mets.md); with schema = "internet/1" an internetwork (docs/src/reference/simulator.md); with
    /// schema = "group/1" reliable multicast (docs/src/reference/multicast-simulator.md); `-` is standard input
    #[arg(required_unless_present = "schema")]
    pub scenario: Option<PathBuf>,
    /// Check the scenario, print errors and warnings, and do not run it
    #[arg(long)]
    pub check: bool,
    /// Print the JSON Schema of a kind of scenario, for editors; without KIND that of internetworks
    #[arg(long, value_enum, value_name = "KIND", num_args = 0..=1, require_equals = true,
          default_missing_value = "internet", conflicts_with_all = ["check", "out", "json", "pcap", "seed", "protect_base",
          "threads", "trace", "wire_check", "per_cell", "duration", "seeds", "jobs", "no_cells", "series"])]
    pub schema: Option<SchemaKind>,
    /// Write summary.json to this folder; of an internetwork flows, queues and samples as Parquet; of layered flows with a
    /// clip the stream that each receiver plays, as join --out writes it
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    pub out: Option<PathBuf>,
    /// Print one JSON object (docs/src/reference/json.md) instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write every packet or cell on every link to this file, for tshark or Wireshark
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// With --pcap: capture packets only, not the cells of an ATM backbone (internetworks only; faster)
    #[arg(long, requires = "pcap")]
    pub no_cells: bool,
    /// Seed [default: that of the scenario]
    #[arg(long, value_name = "N", value_parser = units::whole(0..=u64::MAX))]
    pub seed: Option<u64>,
    /// Override the base-layer protection of all flows: off, N+M parities such as 6+2, or auto (layered flows only)
    #[arg(long, value_name = "off|N+M|auto", value_parser = units::protect_base)]
    pub protect_base: Option<ProtectBase>,
    /// Run once per seed, e.g. 1..20, and write DIR/seed-1 to DIR/seed-20 and a summary of all runs; finished seeds
    /// in DIR are kept (internetworks only)
    #[arg(long, value_name = "FIRST..LAST", value_parser = units::seeds, requires = "out",
          conflicts_with_all = ["seed", "check", "pcap", "trace", "series"])]
    pub seeds: Option<RangeInclusive<u64>>,
    /// With --seeds: serve the progress for Prometheus at http://ADDR/metrics; a port alone is one of 127.0.0.1
    #[arg(long, value_name = "ADDR", requires = "seeds", value_parser = crate::metrics::address)]
    pub metrics: Option<std::net::SocketAddr>,
    /// Number of parallel runs of --seeds [default: number of processors]
    #[arg(long, value_name = "N", requires = "seeds", conflicts_with_all = ["seed", "check", "pcap", "trace", "series"],
          value_parser = units::whole(1..=1024_u16))]
    pub jobs: Option<u16>,
    /// Number of threads for an internetwork of TCP and UDP flows; the result does not depend on it [default: number
    /// of processors for networks of 2000 nodes or more if that is faster, else 1]
    #[arg(long, value_name = "N", conflicts_with = "seeds", value_parser = units::whole(1..=64_u16))]
    pub threads: Option<u16>,
    /// Write every event of every protocol machine to this file (JSON text sequence, similar to qlog)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the state of each flow and queue at regular instants (window, round trip, rate, queue, marks, drops) to this
    /// Parquet file, or to series.parquet in this folder; layercast-lab series draws it (internetworks and layered flows;
    /// one thread)
    #[arg(long, value_name = "FILE.parquet|DIR", conflicts_with = "check")]
    pub series: Option<PathBuf>,
    /// With --series: time between two points
    #[arg(long, value_name = "TIME", requires = "series", default_value = "10ms", value_parser = units::duration)]
    pub series_interval: Span,
    /// Encode and decode every packet at every hop, to test the codecs; the result is the same; of internetworks,
    /// packets of METS nodes
    #[arg(long)]
    pub wire_check: bool,
    /// Simulate ATM cells one by one instead of in trains (runs of cells with one spacing): slower, same result
    #[arg(long)]
    pub per_cell: bool,
    /// Stop after this simulated time, e.g. 10s, at most that of the scenario [default: that of the scenario]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Span>,
}

/// What `layercast sim --schema` prints the schema of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum SchemaKind {
    /// Internetworks (internet/1)
    Internet,
    /// Reliable multicast (group/1)
    Group,
    /// Layered flows of METS
    Mets,
}

/// Which node of which scenario a child of `layercast demo` is.
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
Prints the URL that receivers and switches connect to; it contains the fingerprint of the server's
certificate. Each receiver gets the highest level that its link and the network between can carry:
the base layer (BL), BL+E1 or BL+E1+E2 (all pictures). layercast probe shows what each level of a
clip is; of MPEG-1/2 they are I, I and P, and all pictures.

Examples:
  layercast serve clip.m1v
  layercast serve clip.m1v --flow bunny --loop --listen 0.0.0.0:7400
  layercast serve clip.m1v --start-when-joined 2      # waits for two receivers
  ffmpeg -nostdin -re -i any.mp4 -c:v libx264 -g 25 -bf 2 \\
      -x264-params scenecut=0:b-pyramid=none -c:a aac -f mpegts udp://127.0.0.1:5000 &
  layercast serve udp://127.0.0.1:5000                # live, with sound
  layercast serve any.mp4                             # a file of another container, through ffmpeg
  layercast serve 'srt://:9000?mode=listener'         # what is pushed by SRT
  layercast serve rtmp://:1935/live                   # what is pushed by RTMP
  layercast serve clip.m1v --rate 4Mbit/s             # as if every link carried 4 Mbit/s
  layercast serve clip.m1v --rate auto                # measures what each path carries")]
pub struct Serve {
    /// The clip: H.264 or MPEG-1/2 video, a transport stream, a frame-size trace, or a file that ffmpeg opens; `-` is
    /// standard input. Live: udp://HOST:PORT or rtp://HOST:PORT to listen on, a transport stream at `-`, or
    /// another URL that ffmpeg opens (srt://:PORT listens)
    #[arg(required_unless_present = "scenario")]
    pub clip: Option<PathBuf>,
    /// Name of this node in messages and statistics, different from those of other nodes [default: server- and six
    /// hexadecimal digits, the same after a restart with --identity or --insecure]
    #[arg(long, value_name = "NAME", value_parser = units::Name)]
    pub name: Option<String>,
    /// Name of the flow [default: file name of the clip without its extension]
    #[arg(long, value_parser = units::Name)]
    pub flow: Option<String>,
    /// Address to listen on (UDP); media use the next port, or a free one; port 0 selects a free port
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7400", value_parser = units::listen)]
    pub listen: SocketAddr,
    /// Of a transport stream: serve this program alone [default: the first that has video, and the others as data]
    #[arg(long, value_name = "N", value_parser = units::whole(1..=u16::MAX))]
    pub program: Option<u16>,
    #[command(flatten)]
    pub reading: Reading,
    /// Levels are whole renditions: programs takes the 2 or 3 programs of the transport stream as such, a list has ffmpeg
    /// encode them, each with its rows and the rate of its video
    #[arg(long, value_name = "programs|ROWSp:RATE,..", conflicts_with_all = ["program", "map"], value_parser = renditions::parse)]
    pub renditions: Option<Renditions>,
    /// Levels are whole renditions: another one of the clip, as a transport stream; given once or twice
    #[arg(long, value_name = "INPUT", conflicts_with_all = ["program", "map", "renditions", "sdp"])]
    pub rendition: Vec<PathBuf>,
    /// Live: measure the rates of the stream for this time before offering it [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub measure: Option<Span>,
    /// Live: headroom above the measured rates, in percent [default: 25]
    #[arg(long, value_name = "PERCENT", value_parser = units::whole(0..=1000_u32))]
    pub headroom: Option<u32>,
    /// Live: mean rates of BL, E1 and E2 instead of measured ones, e.g. 1Mbit/s,2Mbit/s,500kbit/s
    #[arg(long, value_name = "BL[,E1[,E2]]", value_delimiter = ',', num_args = 1..=3, value_parser = units::rate)]
    pub rates: Option<Vec<Rate>>,
    /// Live: most that frames wait so that they leave evenly spaced: absorbs the jitter of the encoder; 0 sends each
    /// frame as it arrives; at most 10s [default: 40ms]
    #[arg(long, value_name = "TIME", value_parser = units::span_within(Span::from_secs(10)))]
    pub lead: Option<Span>,
    /// Live: fail if no media arrive for this time at the start [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub patience: Option<Span>,
    /// Live RTP: the session description of the sender, with the parameter sets that its stream lacks
    #[arg(long, value_name = "FILE")]
    pub sdp: Option<PathBuf>,
    /// Live RTP: bring lost packets back with the parities of SMPTE 2022-1 (Pro-MPEG) that come to the ports 2 and 4 above
    /// that of the media
    #[arg(long)]
    pub rtp_fec: bool,
    /// Live: start this shell command, and write a line to its standard input with the rate at which to encode, in whole bit/s,
    /// all media of the stream together: at the start, and when what the links to the receivers carry changes it by more than
    /// 5 %, once a second at most. Links with the rate auto (--rate) follow their path
    #[arg(long, value_name = "CMD", value_parser = NonEmptyStringValueParser::new())]
    pub encoder_cmd: Option<String>,
    /// Start again at the end of the clip
    #[arg(long = "loop")]
    pub repeat: bool,
    /// Start when this number of receivers has joined
    #[arg(long, value_name = "N", conflicts_with = "start_in", value_parser = units::whole(1..=u32::MAX))]
    pub start_when_joined: Option<u32>,
    /// Start after this time, e.g. 5s
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub start_in: Option<Span>,
    /// How a flow adapts: by whole layers (discrete), or shaped to any rate (continuous)
    #[arg(long, value_name = "discrete|continuous", default_value = "discrete", value_parser = units::adapt)]
    pub adapt: AdaptMode,
    /// Promised end-to-end delay, from capture of a frame to its playout; 0 promises none
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::promise)]
    pub delay_max: Span,
    /// Promise the delay, jitter and loss of an application, in place of --delay-max; receivers report when they do not get it: broadcasting, playback, control, conferencing, collaboration, or
    /// a file; `layercast explain PROFILE` says what it is
    #[arg(long, value_name = "PROFILE", conflicts_with = "delay_max", value_parser = crate::explain::promise)]
    pub profile: Option<Promise>,
    /// With --profile: each receiver agrees to a contract of its own, or all have one, the least of what they take
    #[arg(
        long,
        value_name = "per-member|single-rate",
        default_value = "per-member",
        hide_possible_values = true,
        requires = "profile"
    )]
    pub group: GroupContract,
    /// Core switch, through which all receivers join; auto is this node [default: none]
    #[arg(long, value_name = "NODE", value_parser = units::Name)]
    pub core: Option<String>,
    /// Spacing of packets [default: off for live media, else paper]
    #[arg(long, value_name = "HOW")]
    pub pacing: Option<Pacing>,
    /// Protect the base layer against loss: N+M sends M parities per N packets, e.g. 6+2 or reed-solomon:20+4;
    /// auto follows the reported loss [default: none]
    #[arg(long, value_name = "N+M|auto")]
    pub protect_base: Option<ParityConfig>,
    /// Encrypt the media end to end: switches forward them without reading them
    #[arg(long)]
    pub seal: bool,
    /// Admit only receivers with a token (see layercast token); implies --seal
    #[arg(long)]
    pub require_tokens: bool,
    #[command(flatten)]
    pub link: LinkArgs,
    #[command(flatten)]
    pub own: IdentityArgs,
    /// Print one JSON object per second instead of a status line (docs/src/reference/json.md)
    #[arg(long)]
    pub json: bool,
    /// Show the flow and its receivers in a browser, at this address; a port alone is one of 127.0.0.1. The URL of the page is printed
    /// (docs/src/how-to/web.md)
    #[arg(long, value_name = "ADDR", value_parser = crate::metrics::address)]
    pub web: Option<SocketAddr>,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Write every event of the protocol machines to this file (JSON text sequence)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    pub role: Role,
}

/// `layercast token`.
#[derive(Debug, Args)]
#[command(after_help = "\
A token admits its holder to the flow: treat it as a password. Pass it in a file (layercast join
--token-file) or in the environment (LAYERCAST_TOKEN); a URL on the command line is visible to all
users of the host in the list of processes. No server has to run.

Examples:
  layercast token --identity server.pem --flow bunny
  layercast token --identity server.pem --flow bunny --member alice --level 1 --expires 8h \\
      --url 'layercasts://192.0.2.1:7400/bunny?fp=..'        # a whole URL for layercast join")]
pub struct Token {
    /// Identity file of the server (serve --identity)
    #[arg(long, value_name = "FILE")]
    pub identity: PathBuf,
    /// Name of the flow
    #[arg(long, value_parser = units::Name)]
    pub flow: String,
    /// Valid only for the receiver with this name (join --name) [default: any]
    #[arg(long, value_name = "NAME", value_parser = units::Name)]
    pub member: Option<String>,
    /// Highest level: 0 (base layer), 1 (BL+E1) or 2 (all layers)
    #[arg(long, value_name = "N", default_value = "2", value_parser = units::level)]
    pub level: Level,
    /// Validity from now on
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = units::span)]
    pub expires: Span,
    /// Print this URL completed with flow, source key and token, instead of the bare token
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
}

/// The identity of `serve` and `switch` on protected links (docs/src/explanation/security.md).
#[derive(Debug, Default, Args, Clone)]
pub struct IdentityArgs {
    /// File with certificate and key, created if missing: the join URL survives restarts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cert", "insecure"])]
    pub identity: Option<PathBuf>,
    /// Present this certificate chain (PEM) instead of a self-signed one
    #[arg(
        long,
        value_name = "FILE",
        requires = "key",
        conflicts_with = "insecure"
    )]
    pub cert: Option<PathBuf>,
    /// The private key of --cert (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "cert",
        conflicts_with = "insecure"
    )]
    pub key: Option<PathBuf>,
    /// Use unencrypted, unauthenticated links; for teaching and measurements only
    #[arg(long)]
    pub insecure: bool,
    /// Transport of session control with --insecure: tcp, or xtp (XTP over UDP). Protected links use QUIC
    /// [default: tcp]
    #[arg(long, value_name = "tcp|xtp", value_parser = units::control)]
    pub control: Option<Control>,
    /// Reserve a name for the neighbour with this certificate; repeatable
    #[arg(long = "reserve", value_name = "NAME=FINGERPRINT", value_parser = units::reservation,
          conflicts_with = "insecure")]
    pub reserved: Vec<(String, layercast_net::Fingerprint)>,
}

impl IdentityArgs {
    /// Whether the identity is in a file, and so the same after a restart.
    pub fn is_kept(&self) -> bool {
        self.identity.is_some() || self.cert.is_some()
    }
}

/// What `layercast serve --pacing` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Pacing {
    /// A token bucket for each flow, as in the papers on METS (docs/src/specs/mets.md)
    Paper,
    /// Frame after frame at the rate that receivers announce (join --drain)
    Serial,
    /// None: the link alone paces
    Off,
}

/// `layercast overload`.
#[derive(Debug, Args)]
#[command(after_help = "\
Copies of the stream, each begun at a random time and repeated, share the queue of one port, which
is that of a switch. Their load is what they send in parts of what the line carries: 1.1 is 110 %.
What the queue discards is the policy (docs/src/how-to/overload.md):
  fifo         the datagram that arrives
  layers       new B pictures above half of the queue, P above three quarters (as a switch does)
  clp          the youngest of P and B pictures, for headers, sound and I pictures
  exclp        the youngest of B pictures, then P, then I
  exclp_epd    the same, and whole groups of B pictures early
  dependent    the same, and all that refers to a lost picture
  whole_gops   the same, and before B pictures whole GOPs, of each copy in turn
  thresholds   B pictures from 70 % of the queue on, P from 85 %, I from 95 %
  dedicated    what exceeds the part of the queue of its kind
A picture is decodable if it came whole, with all that it refers to. PSNR is that of ffmpeg, with
the last picture in the place of one that is missing; without ffmpeg there is none.

Examples:
  layercast overload clip.ts --load 1.1
  layercast overload clip.ts --copies 20 --load 1.05 --policy fifo --policy whole_gops --json
  layercast overload clip.ts --load 1.2 --policy dependent --out seen   # seen/dependent-0.ts")]
pub struct Overload {
    /// A transport stream of MPEG-2, H.264, H.265 or AV1
    pub file: PathBuf,
    /// Copies that share the line
    #[arg(long, value_name = "K", default_value = "50", value_parser = units::whole(1..=layercast_sim::overload::MOST_COPIES))]
    pub copies: u16,
    /// What they send in parts of what the line carries
    #[arg(long, value_name = "LOAD", default_value = "1.1", value_parser = units::load)]
    pub load: f64,
    /// Compare these policies only; repeat for each
    #[arg(long, value_name = "POLICY", value_parser = units::policy)]
    pub policy: Vec<DiscardSpec>,
    /// Longest wait in the queue
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = units::duration)]
    pub queue: Span,
    /// Over what packets are spread evenly
    #[arg(long, value_enum, ignore_case = true, default_value = "none")]
    pub smooth: crate::cells::args::Smooth,
    /// Seed of the times of begin
    #[arg(long, value_name = "N", default_value = "1", value_parser = units::whole(0..=u64::MAX))]
    pub seed: u64,
    /// Copies whose PSNR is measured
    #[arg(long, value_name = "N", default_value = "1", value_parser = units::whole(0..=layercast_sim::overload::MOST_COPIES))]
    pub watch: u16,
    /// Write what came of the watched copies to this folder, as transport streams
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print one JSON object (docs/src/reference/json-media.md)
    #[arg(long)]
    pub json: bool,
}

/// Values of `--via`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub enum Via {
    /// ffmpeg reads and writes what is no form of Layercast's own
    #[default]
    Auto,
    /// ffmpeg does
    Ffmpeg,
    /// It is not used
    None,
}

/// Values of `--repair` of `serve` and `switch`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub enum RepairMode {
    /// Lost packets are sent again, or parities of them, while they arrive in time; where a request would come too late, parities
    /// of all layers are sent ahead, as many as the measured loss needs
    #[default]
    Auto,
    /// No repair
    Off,
    /// Lost packets are sent again while they arrive in time; no parities
    Arq,
    /// Parities of all layers are sent ahead on a link that loses packets; nothing is sent again
    Fec,
}

impl RepairMode {
    /// What is done about losses.
    pub fn means(self) -> Option<Means> {
        match self {
            RepairMode::Auto => Some(Means::Auto),
            RepairMode::Off => None,
            RepairMode::Arq => Some(Means::Requests),
            RepairMode::Fec => Some(Means::Parities),
        }
    }
}

/// Values of `--repair` of `join`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub enum JoinRepair {
    /// Lost packets are requested again, if the node supports it
    #[default]
    Auto,
    /// No repair
    Off,
}

/// Values of `--undecodable`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub enum Undecodable {
    /// It is left out; MPEG-1/2 elementary streams repeat the picture before
    #[default]
    Drop,
    /// In a transport stream that was served as one, its packets have the transport error indicator; else as drop
    Mark,
}

/// Values of `serve --group`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub enum GroupContract {
    /// Each receiver has a contract of its own
    #[default]
    PerMember,
    /// All have the same: the least of what they take
    SingleRate,
}

/// Values of `--fast-start`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub enum FastStart {
    /// A receiver gets the running GOP from its key frame on
    #[default]
    On,
    /// A receiver waits for the next key frame
    Off,
}

/// Values of `--fast-start` of `join`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub enum JoinFastStart {
    /// A file does; a player behind a pipe, udp:// or rtp:// does not, since it would stay behind by their age
    #[default]
    Auto,
    /// It does
    On,
    /// It begins with the next key frame
    Off,
}

/// Limits of the links of `serve` and `switch`.
#[derive(Debug, Args, Clone)]
pub struct LinkArgs {
    /// Rate of every link towards receivers: 10Mbit/s, auto or unlimited. With auto the node finds out what the path carries, by
    /// the reports of link repair [default: auto to other machines, unlimited on this one]
    #[arg(long, value_name = "RATE", value_parser = units::link_rate)]
    pub rate: Option<units::LinkRate>,
    /// Rate, delay, queue, what a full queue discards (a policy of `layercast overload`), whether the adapter divides the rate among
    /// the flows (with adapt=off each has all its layers, and the queue alone decides what is lost), loss and rate schedule (times
    /// count from the start of the node) of the link to one neighbour (a cell of the queue holds 48 bytes); repeatable:
    /// NAME=RATE[,delay=5ms][,queue=500ms|256cells][,discard=POLICY][,adapt=off][,loss=0.01][,schedule=10s:60%,20s:100%]
    #[arg(long = "port", value_name = "NAME=RATE,..", value_parser = units::named_port)]
    pub ports: Vec<units::NamedPort>,
    /// Maximum number of connected receivers and switches; further ones are refused
    #[arg(long, value_name = "N", default_value = "256", value_parser = units::whole(1..=u16::MAX))]
    pub max_neighbours: u16,
    /// Repair of packets that links lose, with neighbours that support it; repairs count to the rate of the link;
    /// links that carry ATM cells have no repair
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub repair: RepairMode,
    /// What a receiver gets that joins between two key frames. The running GOP, all since the last key frame, is sent
    /// faster than it plays, with the rate that the link has left; not on links that carry ATM cells
    #[arg(long, value_name = "HOW", default_value = "on")]
    pub fast_start: FastStart,
    /// How base layers are admitted on links with a rate
    #[arg(long, value_name = "HOW", default_value = "declared")]
    pub admission: Admission,
    /// With --admission measured: most base-layer bits that are late or lost at a link, e.g. 0.1% [default: 0.1%]
    #[arg(long, value_name = "SHARE", value_parser = units::late_target)]
    pub late_target: Option<u32>,
    /// With --admission measured: time in the queue and on the line after which a bit is late [default: 16ms]
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub within: Option<Span>,
    /// With --admission measured: time over which the target holds, e.g. 12h [default: 12h]
    #[arg(long, value_name = "TIME", value_parser = units::span)]
    pub period: Option<Span>,
}

/// Values of `--admission`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub enum Admission {
    /// By the rates that flows declare
    #[default]
    Declared,
    /// By the measured rate of the base layers, up to a target of late bits
    Measured,
}

/// `layercast switch`.
#[derive(Debug, Args)]
#[command(after_help = "\
A switch joins a flow upstream when a receiver asks for it downstream. It admits base layers while
each link has unreserved rate, and shares the remaining rate fairly among enhancement layers. With
--admission measured it admits them while their measured rate leaves room.

Examples:
  layercast switch --upstream 'layercasts://192.0.2.1:7400?fp=..'    # the URL of the server
  layercast switch --upstream URL --name sparrow --port rook=10Mbit/s,delay=2ms
  layercast switch --upstream URL --identity sparrow.pem    # keeps its URL after a restart
  layercast switch --upstream URL --filter bunny@phone=low-pass:10
  layercast switch --upstream URL --multicast 239.1.1.1:7500=ann,bob
  layercast switch --upstream URL --rate 10Mbit/s --admission measured --late-target 0.1%
  layercast switch --upstream 192.0.2.1:7400 --insecure     # everything in the clear
  layercast switch --upstream 'layercast://192.0.2.1:7400?control=xtp' --insecure --control xtp")]
pub struct Switch {
    /// Admit only receivers with a token of the flow's source
    #[arg(long)]
    pub require_tokens: bool,
    /// A server or switch to take flows from: its URL, or @FILE that holds it; may be given several times
    #[arg(long, value_name = "URL", required_unless_present = "scenario")]
    pub upstream: Vec<String>,
    /// Certification authorities (PEM) for upstream URLs without a fingerprint
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Name of this node in messages and statistics, different from those of other neighbours of its upstreams
    /// [default: switch- and six hexadecimal digits, the same after a restart with --identity]
    #[arg(long, value_name = "NAME", value_parser = units::Name)]
    pub name: Option<String>,
    /// Address to listen on (UDP); media use the next port, or a free one; port 0 selects a free port
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7410", value_parser = units::listen)]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub link: LinkArgs,
    #[command(flatten)]
    pub own: IdentityArgs,
    /// Filter a flow towards one neighbour, or all: keep:I, keep:IP, thin:1/2, low-pass:10 or drs (shape to the
    /// rate that is left); repeatable (docs/src/how-to/filters.md)
    #[arg(long, value_name = "FLOW[@NAME]=RULE", value_parser = units::filter)]
    pub filter: Vec<FilterPlace>,
    /// How the demands of several branches are merged: join: the higher level each, wanted and to fall back to; hull: the
    /// highest wanted and the lowest to fall back to, for research (docs/src/specs/mets.md)
    #[arg(long, value_name = "join|hull", default_value = "join", value_parser = units::merge)]
    pub merge: Merge,
    /// Send the media of these neighbours once, to an IP multicast group; they use join --multicast GROUP:PORT;
    /// repeatable
    #[arg(long, value_name = "GROUP:PORT=NAME,..", value_parser = units::group)]
    pub multicast: Vec<units::Group>,
    /// Address of the multicast interface [default: that of --listen]
    #[arg(long, value_name = "ADDR", requires = "multicast", value_parser = units::interface)]
    pub interface: Option<Ipv4Addr>,
    /// Print one JSON object per second instead of a status line (docs/src/reference/json.md)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Write every event of the protocol machines to this file (JSON text sequence)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    pub role: Role,
}

/// `layercast join`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The output is a stream that any decoder accepts, whatever layers arrived; it starts at the first
key frame. The file is valid when Ctrl-C stops the command. Layers are kinds of pictures. Of H.264,
H.265 and AV1, BL is all that others refer to, and E1 and E2 are the others in turn, or they are
temporal layers; of MPEG-1/2, BL is the I, E1 the P and E2 the B pictures. serve --map says it, and
layercast probe shows those of a clip (docs/src/reference/media.md).

Lines such as \"green -> red: lost or late 4 %, at most 1 % agreed\" say that the receiver does not
get what was agreed, or does again (docs/src/reference/statistics.md#zones).

Examples:
  layercast join 'layercasts://192.0.2.1:7400/bunny?fp=..' --out - | ffplay -    # as printed
  layercast join layercasts://media.example.net:7400 --ca ca.pem --list
  layercast join 127.0.0.1:7410/bunny --level 1 --out got.m1v --for 15s    # in the clear
  layercast join URL --out got.mp4 --for 5s                # another container, by ffmpeg
  layercast join URL --out 'srt://127.0.0.1:9000?mode=listener' &    # for a player that calls
  sleep 2; ffplay srt://127.0.0.1:9000
  layercast join URL --out udp://127.0.0.1:6000 &
  ffplay udp://127.0.0.1:6000
  layercast join URL --out rtp://127.0.0.1:6004 --sdp live.sdp &
  until [ -s live.sdp ]; do sleep 1; done; ffplay -protocol_whitelist file,udp,rtp live.sdp")]
pub struct Join {
    /// Server or switch, and the flow (may be left out when exactly one is offered): the URL that the
    /// node printed, @FILE that holds it (layercast serve .. > FILE), or HOST:PORT[/FLOW] for one that speaks in the clear
    #[arg(value_name = "URL", required_unless_present = "scenario")]
    pub address: Option<String>,
    /// Certification authorities (PEM) for a URL without a fingerprint
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// File with the token for the flow [default: the token of the URL, else the environment variable
    /// LAYERCAST_TOKEN]. A token in the URL is visible in the list of processes
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with certificate and key of this receiver, created if missing
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Highest level wanted: 0 = the base layer (BL), 1 = BL+E1, 2 = BL+E1+E2, all layers; the members of a group
    /// (--multicast) get the highest that one of them wants
    #[arg(long, value_name = "0|1|2", default_value = "2", value_parser = units::level)]
    pub level: Level,
    /// Reaction to congestion: give up a layer, report it only, leave, or ask for a filter on the way, thin, low-pass:K or
    /// drs (docs/src/how-to/filters.md) [default: that of the flow]
    #[arg(long, value_name = "drop-layer|inform|disconnect|FILTER", value_parser = units::on_scarce)]
    pub on_scarce: Option<OnScarce>,
    /// Reaction to spare bandwidth: ask for the next layer, report it only, or nothing [default: that of the flow]
    #[arg(long, value_name = "add-layer|inform|ignore", value_parser = units::on_plenty)]
    pub on_plenty: Option<OnPlenty>,
    /// Write the received stream to this file, `.ts` as a transport stream; `-` is standard output;
    /// udp://HOST:PORT sends a transport stream to a player, rtp://HOST:PORT sends RTP. A file is created, or emptied, when
    /// the first data arrive; a file that is being served or written is refused. ffmpeg writes other containers (.mp4,
    /// .mkv, ..) and URLs (srt://HOST:PORT, rtmp://, rtsp://, ..)
    #[arg(long, value_name = "FILE|URL")]
    pub out: Option<PathBuf>,
    /// What writes --out: auto (ffmpeg, if it is no form of Layercast's own), ffmpeg, or none (never ffmpeg)
    #[arg(
        long,
        value_enum,
        ignore_case = true,
        default_value = "auto",
        hide_possible_values = true,
        value_name = "auto|ffmpeg|none"
    )]
    pub via: Via,
    /// With --out rtp://: the session description with which players open it [default: FLOW.sdp]
    #[arg(long, value_name = "FILE", requires = "out")]
    pub sdp: Option<PathBuf>,
    /// With --out rtp://: parities of SMPTE 2022-1 (Pro-MPEG) for blocks of L columns and D rows of packets, to the ports 2
    /// and 4 above that of the media; with :columns to the first of them alone
    #[arg(long, value_name = "LxD[:columns]", requires = "out", value_parser = units::rtp_fec)]
    pub rtp_fec: Option<SmpteConfig>,
    /// What becomes of a picture in the output that refers to a lost one
    #[arg(long, value_name = "HOW", default_value = "drop", requires = "out")]
    pub undecodable: Undecodable,
    /// Whether the output gets the frames of a fast start (serve --fast-start)
    #[arg(long, value_name = "HOW", default_value = "auto", requires = "out")]
    pub fast_start: JoinFastStart,
    /// Leave after this time, e.g. 15s [default: at the end of the flow]
    #[arg(long = "for", value_name = "TIME", value_parser = units::duration)]
    pub leave_after: Option<Span>,
    /// Name of this receiver in messages and statistics, different from those of other receivers
    /// [default: receiver- and six hexadecimal digits, the same after a restart with --identity; with a token for one
    /// receiver, the name in the token]
    #[arg(long, value_name = "NAME", value_parser = units::Name)]
    pub name: Option<String>,
    /// End with an error if the flow is away for this time: at the start, while the host name has no address, no node
    /// answers or the node does not have the flow; or later, e.g. after the server died. --list does not wait. The file of @FILE is waited for 15 s, and 60 s for the URL in it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::span)]
    pub patience: Span,
    /// What the user wants of the network, as `layercast explain PROFILE` shows it: the receiver accepts what a flow of serve
    /// --profile offers, counters with a value within the offer, or refuses; broadcasting, playback, conferencing, or a file
    #[arg(long, value_name = "PROFILE", value_parser = crate::explain::wishes)]
    pub profile: Option<Box<Contract>>,
    /// Fixed playout delay after sending, e.g. 120ms, the same at all receivers that share a clock [default: the
    /// smallest at which less than one frame in a thousand is late, at most what the flow promises]. At most 60s: the
    /// receiver keeps the frames until then
    #[arg(long, value_name = "TIME", value_parser = units::span_within(Span::from_secs(60)))]
    pub playout: Option<Span>,
    /// Play each frame this long after its time at the source, e.g. 400ms: at the same moment at all receivers with the
    /// same --sync, on any host. The nodes of the path measure their clocks; the path has to take less than this. At most 60s
    #[arg(long, value_name = "TIME", value_parser = units::span_within(Span::from_secs(60)), conflicts_with = "playout")]
    pub sync: Option<Span>,
    /// Repair of packets that the link loses, while they arrive before the playout
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub repair: JoinRepair,
    /// Rate that this host receives without loss, all flows together, for servers with serve --pacing serial
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub drain: Option<Rate>,
    /// Receive the media from this IP multicast group (switch --multicast)
    #[arg(long, value_name = "GROUP:PORT", value_parser = units::group_address)]
    pub multicast: Option<SocketAddrV4>,
    /// Address of the multicast interface [default: the one towards the node]
    #[arg(long, value_name = "ADDR", requires = "multicast", value_parser = units::interface)]
    pub interface: Option<Ipv4Addr>,
    /// List the offered flows and exit
    #[arg(long, conflicts_with_all = ["out", "leave_after", "sdp", "undecodable", "fast_start", "on_scarce", "on_plenty",
          "playout", "sync", "repair", "drain", "multicast", "interface", "trace", "explain", "level", "name", "patience",
          "identity", "profile"])]
    pub list: bool,
    /// Print one JSON object per second and a summary at the end, also if the receiver is refused (on standard error with --out -)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Write every event of the receiver to this file (JSON-SEQ)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write to this file what became of each frame, and what held it and for how long (JSON lines)
    #[arg(long, value_name = "FILE")]
    pub explain: Option<PathBuf>,
    /// The receiver of the scenario this process is
    #[arg(long, value_name = "NAME", hide = true)]
    pub receiver: Option<String>,
    #[command(flatten)]
    pub role: Role,
}

/// `layercast stats`.
#[derive(Debug, Args)]
#[command(after_help = "\
What the columns count is in docs/src/reference/statistics.md. The column zone says whether a
receiver gets what was agreed: green, yellow, red or grey (docs/src/reference/statistics.md#zones).

Examples:
  layercast stats 'layercasts://127.0.0.1:7400?fp=..'
  layercast stats 'layercasts://127.0.0.1:7400?fp=any' --json | jq '.flows[].members[].report.lost'
  layercast stats xtp+daemon:///run/user/1000/xtpd")]
pub struct Stats {
    /// Server or switch: the URL that it printed, @FILE that holds it, or HOST:PORT without encryption; or an XTP daemon:
    /// xtp+daemon://PATH
    #[arg(value_name = "URL")]
    pub address: String,
    /// Certification authorities (PEM) for a URL without a fingerprint
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `layercast emulate`.
#[derive(Debug, Args)]
#[command(after_help = "\
With a scenario of an internetwork (docs/src/reference/simulator.md) its attached hosts are real:
the traffic of iperf3, curl or ffmpeg crosses the simulated network in real time, together with
simulated traffic. --namespaces creates network namespaces with the TUN or TAP devices of the
scenario, and removes them at the end. Lateness of events is reported every second and at the end.

With --to it is one path: datagrams to --listen are forwarded to --to, and answers back, each way
through a queue, a line of --rate, then delay, jitter and loss. The same seed gives the same loss
and jitter. All clients share the path. TCP connections to the same port are forwarded too, delayed
but without loss. A Layercast node behind the path sees the path's port instead of its neighbour's,
as behind a NAT; this needs links without encryption (--insecure). The queue drops the arriving
datagram when full and marks long waits (ECN).

Examples:
  sudo layercast emulate scenarios/internet/emulate.toml --namespaces
  layercast emulate --listen 127.0.0.1:9000 --to 127.0.0.1:9001 --delay 20ms --jitter 5ms --loss 3%
  layercast emulate --listen 127.0.0.1:7500 --to 127.0.0.1:7400 --rate 3Mbit/s --queue 200ms \\
      --schedule 10s:60%,20s:100% --json")]
pub struct Emulate {
    /// Scenario of an internetwork (TOML, schema = "internet/1") with attached programs
    pub scenario: Option<PathBuf>,
    /// Create network namespaces, devices, addresses and routes for the attached hosts; needs root
    #[arg(long, conflicts_with = "to")]
    pub namespaces: bool,
    /// Stop after this time, e.g. 30s [default: run.duration of the scenario]
    #[arg(long, value_name = "TIME", conflicts_with = "to", value_parser = units::duration)]
    pub duration: Option<Span>,
    /// Write every packet or cell on every simulated link to this file, for tshark or Wireshark
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    pub pcap: Option<PathBuf>,
    /// With --pcap: only packets, not the cells of an ATM backbone, which then move as trains
    #[arg(long, requires = "pcap", conflicts_with = "to")]
    pub no_cells: bool,
    /// Address that clients send to; port 0 selects a free port
    #[arg(
        long,
        conflicts_with = "scenario",
        value_name = "ADDR",
        default_value = "127.0.0.1:0",
        value_parser = units::listen
    )]
    pub listen: SocketAddr,
    /// Destination of the datagrams of clients
    #[arg(long, value_name = "ADDR", conflicts_with = "scenario", value_parser = units::destination)]
    pub to: Option<SocketAddr>,
    /// Believe the addresses of all clients. Without it, a client on another host that has no TCP connection here
    /// gets at most three times the bytes that it sends (RFC 9000, 8.1)
    #[arg(long, conflicts_with = "scenario")]
    pub any_client: bool,
    /// Send the datagrams of the only client on from this port, for a program that has to know it beforehand, such as
    /// `fec edge --peer`
    #[arg(long, value_name = "PORT", conflicts_with = "scenario", value_parser = units::whole(1..=u16::MAX))]
    pub from_port: Option<u16>,
    /// Rate of the line each way, UDP and IP headers included [default: no limit]
    #[arg(long, conflicts_with = "scenario", value_name = "RATE", value_parser = units::rate)]
    pub rate: Option<Rate>,
    /// Changes of the rate, counted from the first datagram: TIME:PERCENT,.. e.g. 10s:60%,20s:100%
    #[arg(long, conflicts_with = "scenario", value_name = "STEPS", requires = "rate", value_parser = units::schedule)]
    pub schedule: Option<RateSchedule>,
    /// Size of the queue, as time at the full rate, bytes, or cells of 48 bytes; it holds a datagram of 1,500 bytes at least
    #[arg(long, conflicts_with = "scenario", value_name = "SIZE", default_value = "200ms", value_parser = units::queue)]
    pub queue: QueueSize,
    /// Delay each way
    #[arg(long, conflicts_with = "scenario", value_name = "TIME", default_value = "0s", value_parser = units::span)]
    pub delay: Span,
    /// Additional random delay without reordering: uniform up to this, or normal:TIME
    #[arg(long, conflicts_with = "scenario", value_name = "TIME", default_value = "0s", value_parser = units::jitter)]
    pub jitter: Jitter,
    /// Let jitter reorder datagrams
    #[arg(long, conflicts_with = "scenario")]
    pub reorder: bool,
    /// Probability of loss each way, e.g. 0.03 or 3%
    #[arg(long, conflicts_with = "scenario", value_name = "SHARE", default_value = "0", value_parser = units::probability)]
    pub loss: f64,
    /// Mean length of a burst of losses, in datagrams [default: independent losses]
    #[arg(long, conflicts_with = "scenario", value_name = "N", value_parser = units::whole(1..=1_000_u32))]
    pub burst: Option<u32>,
    /// Probability that a datagram is duplicated, e.g. 1%
    #[arg(long, conflicts_with = "scenario", value_name = "SHARE", default_value = "0", value_parser = units::probability)]
    pub duplicate: f64,
    /// Seed of loss and jitter [default: 1, or that of the scenario]
    #[arg(long, value_name = "N", value_parser = units::whole(0..=u64::MAX))]
    pub seed: Option<u64>,
    /// Print one JSON object per second instead of a status line (docs/src/reference/json.md)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub metrics: MetricsArgs,
}

/// `layercast policer-probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Sends trains of datagrams, faster than the policer's rate, to the same command with --listen at the
other end, and fits the token bucket that explains the observed losses. Reports rate and burst, in
bytes of IP packets, each with its plausible range. The queue of a bottleneck looks like a burst.
Without loss there is no result.

Examples:
  layercast policer-probe --listen 0.0.0.0:9400
  layercast policer-probe 192.0.2.7:9400 --at 200Mbit/s
  layercast policer-probe 192.0.2.7:9400 --json | jq .rate_bps")]
pub struct PolicerProbe {
    /// Address and port of the other end, e.g. 192.0.2.7:9400
    #[arg(value_parser = units::destination)]
    pub to: Option<SocketAddr>,
    /// Answer probes at this address until stopped
    #[arg(long, value_name = "ADDR", conflicts_with = "to", value_parser = units::listen)]
    pub listen: Option<SocketAddr>,
    /// Rate of the first train; must exceed the policer's rate
    #[arg(long, value_name = "RATE", default_value = "50Mbit/s", value_parser = units::rate)]
    pub at: Rate,
    /// Packet size in bytes, UDP and IPv4 headers included
    #[arg(long, value_name = "BYTES", default_value = "1400", value_parser = units::whole(64..=9_000_u32))]
    pub packet: u32,
    /// Maximum packets of a train while nothing is lost
    #[arg(long, value_name = "N", default_value = "65536", value_parser = units::whole(1..=500_000_u32))]
    pub packets: u32,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `layercast fec`.
#[derive(Debug, Args)]
pub struct Fec {
    /// The command
    #[command(subcommand)]
    pub command: FecCommand,
}

/// Commands of `layercast fec`.
#[derive(Debug, Subcommand)]
pub enum FecCommand {
    /// Rank the placements of codes on the parts of a multicast tree
    Plan(FecPlan),
    /// Protect the UDP datagrams of any program between two hosts by parities
    Edge(crate::edge::FecEdge),
}

/// `layercast fec plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
A tree is a TOML file of [[branch]] tables: name, parent (default: the source), loss per link, hops
in a row, count of equal branches, part (name in placements; default: name). For each placement it
prints the number of transmissions until all receivers have a packet, the gain over no FEC, and the
net gain, which counts parities on the links that carry them; the highest net gain first.

Examples:
  layercast fec plan tree.toml
  layercast fec plan tree.toml --code 14+2
  layercast fec plan tree.toml --json | jq '.placements[0]'
  layercast fec plan --schema > tree.schema.json")]
pub struct FecPlan {
    /// TOML file of the tree (docs/src/reference/tree-file.md)
    #[arg(value_name = "TREE.toml", required_unless_present = "schema")]
    pub tree: Option<PathBuf>,
    /// Print the JSON Schema of the tree file, for editors
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// Longest block of the candidate codes, in packets
    #[arg(long, value_name = "PACKETS", default_value = "100", conflicts_with_all = ["code", "factor"], value_parser = units::whole(0..=usize::MAX))]
    pub block: usize,
    /// Use this code on each part instead of the best one
    #[arg(long, value_name = "N+M", value_parser = crate::fec::code)]
    pub code: Option<(usize, usize)>,
    /// Instead of a code: divide each protected link's loss by this factor, at zero overhead
    #[arg(long, value_name = "TIMES", conflicts_with = "code", value_parser = crate::fec::factor)]
    pub factor: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `layercast demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Starts one process per node of the scenario on 127.0.0.1; receivers join and leave at the times of
the scenario. Runs the same scenario in the simulator, compares both, checks every received file
with ffmpeg, and writes summary.json and report.html, which has pictures of what each receiver saw.
Exit code 1: a base-layer frame was lost or late, a layer changed inside a GOP, the levels differ
from the simulation, or ffmpeg has complaints.

Examples:
  layercast demo
  layercast demo --quick --out /tmp/demo
  layercast demo --scenario scenarios/demo.toml --json | jq .promise")]
pub struct Demo {
    /// The scenario
    #[arg(long, value_name = "FILE", default_value = "scenarios/demo.toml")]
    pub scenario: PathBuf,
    /// Folder for received streams, pictures, summary.json and report.html
    #[arg(long, value_name = "DIR", default_value = "target/demo")]
    pub out: PathBuf,
    /// Stop after 12 s of the scenario
    #[arg(long)]
    pub quick: bool,
    /// Seed [default: that of the scenario]
    #[arg(long, value_name = "N", value_parser = units::whole(0..=u64::MAX))]
    pub seed: Option<u64>,
    /// Override the base-layer protection of all flows: off, N+M parities such as 6+2, or auto
    #[arg(long, value_name = "off|N+M|auto", value_parser = units::protect_base)]
    pub protect_base: Option<ProtectBase>,
    /// Use unencrypted links with session control over tcp or xtp, instead of QUIC
    #[arg(long, value_name = "tcp|xtp", value_parser = units::control)]
    pub control: Option<Control>,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}
