//! The metrics of all commands: their names, and where their values are in what a command prints with `--json`.
//!
//! Names and units are those of the Prometheus conventions: seconds and bytes, never milliseconds and bits.

mod counted;

use super::place::Step::{self, Each, Items, Key, Keys, Text, Unless};

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name; that of a counter without `_total`, which the format appends.
    pub name: &'static str,
    /// What it says, in one sentence without its full stop.
    pub help: &'static str,
    /// Whether it only increases while the command runs.
    pub is_counter: bool,
    /// By what the value in the JSON is multiplied.
    pub scale: f64,
    /// Where the value is, in parts that metrics share.
    pub at: &'static [&'static [Step]],
}

/// Metrics of one kind of command.
pub struct Group {
    /// The commands, and what the metrics describe.
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "a heading of the reference page, which a test writes"
        )
    )]
    pub title: &'static str,
    /// The metrics.
    pub families: &'static [Family],
}

const fn counter(name: &'static str, at: &'static [&'static [Step]], help: &'static str) -> Family {
    Family {
        name,
        help,
        is_counter: true,
        scale: 1.0,
        at,
    }
}

const fn gauge(name: &'static str, at: &'static [&'static [Step]], help: &'static str) -> Family {
    Family {
        is_counter: false,
        ..counter(name, at, help)
    }
}

impl Family {
    /// The value in the JSON is in other units.
    const fn scaled(self, scale: f64) -> Family {
        Family { scale, ..self }
    }

    /// The name as scraped.
    pub fn full_name(&self) -> String {
        format!(
            "{}{}",
            self.name,
            if self.is_counter { "_total" } else { "" }
        )
    }
}

const MS: f64 = 1e-3;
const US: f64 = 1e-6;
const NS: f64 = 1e-9;
const BITS: f64 = 0.125;

const FLOW: &[Step] = &[
    Key("stats"),
    Key("flows"),
    Each(&[("flow", &["name"]), ("source", &["source"])]),
];
const MEMBER: &[Step] = &[
    Key("members"),
    Each(&[("member", &["member", "name"]), ("node", &["node"])]),
];
/// Of a member that declined the offer nothing else is known.
const JOINED: &[Step] = &[Unless("refused")];
const REPORT: &[Step] = &[Key("report")];
const LINK: &[Step] = &[
    Key("stats"),
    Key("links"),
    Each(&[("neighbour", &["neighbour"])]),
];
const LAYER: Step = Keys("layer");
const LEVELS: Step = Items("level", &["BL", "BL+E1", "BL+E1+E2"]);
const NODE: &[Step] = &[Key("node")];
const INPUT: &[Step] = &[Key("node"), Key("input")];
const UDP: &[Step] = &[Key("stats"), Key("node"), Key("udp")];
const CHANNELS: &[Step] = &[Key("stats"), Key("node"), Key("channels")];
const TIMERS: &[Step] = &[Key("stats"), Key("node"), Key("timers")];
const SWITCH: &[Step] = &[Key("stats"), Key("node"), Key("switch")];
const RECEIVER: &[Step] = &[Key("receiver")];
const SILENCE: &[Step] = &[Key("silence")];
const EDGE_SENT: &[Step] = &[Key("edge"), Key("sent")];
const EDGE_GOT: &[Step] = &[Key("edge"), Key("received")];
const PATH: &[Step] = &[Key("path"), Keys("direction")];
const EMULATION: &[Step] = &[Key("emulation")];
const SENDING: &[Step] = &[Key("send"), Key("progress")];
const SENT: &[Step] = &[Key("send"), Key("files")];
const RECEIVING: &[Step] = &[Key("receive"), Key("progress")];
const RECEIVED: &[Step] = &[Key("receive"), Key("files")];
const MONITOR: &[Step] = &[Key("monitor")];
const OUT: &[Step] = &[Key("monitor"), Key("outbound")];
const IN: &[Step] = &[Key("monitor"), Key("inbound")];
const XTP: &[Step] = &[Key("xtpd")];
const ENDPOINT: &[Step] = &[Key("xtpd"), Key("endpoint")];
const CAMPAIGN: &[Step] = &[Key("campaign")];

/// All metrics, in the order of the reference page.
pub const GROUPS: &[Group] = &[
    Group {
        title: "All commands",
        families: &[
            gauge("layercast_start_time_seconds", &[&[Key("command"), Key("start_s")]], "Start of the command, in seconds since 1970"),
        ],
    },
    Group {
        title: "`serve`, `switch`: the node",
        families: &[
            gauge("layercast_node_neighbours", &[NODE, &[Key("neighbours")]], "Neighbours with a session channel"),
            gauge("layercast_node_branches", &[NODE, &[Key("branches")]], "Branches to which media are sent"),
            counter("layercast_node_received_datagrams", &[UDP, &[Key("received")]], "Datagrams received, those that were dropped included"),
            counter("layercast_node_unknown_datagrams", &[UDP, &[Key("unknown")]], "Datagrams from an address of no neighbour, dropped"),
            counter("layercast_node_forged_datagrams", &[UDP, &[Key("forged")]], "Datagrams whose authentication failed, dropped"),
            counter("layercast_node_replayed_datagrams", &[UDP, &[Key("replayed")]], "Datagrams received before, or so late that this is not known, dropped"),
            counter("layercast_node_crowded_out_datagrams", &[UDP, &[Key("crowded_out")]], "Datagrams dropped because their neighbour sends faster than this host processes them"),
            counter("layercast_node_host_lost_datagrams", &[UDP, &[Key("host_lost")]], "Datagrams that the kernel dropped before they were read"),
            counter("layercast_node_sent_datagrams", &[UDP, &[Key("sent")]], "Datagrams sent"),
            counter("layercast_node_unsent_datagrams", &[UDP, &[Key("send_failed")]], "Datagrams that the kernel refused to send"),
            counter("layercast_node_malformed_datagrams", &[&[Key("stats"), Key("node"), Key("malformed")]], "Datagrams that do not decode"),
            counter("layercast_node_accepted_connections", &[CHANNELS, &[Key("accepted")]], "Session channels accepted"),
            counter("layercast_node_rejected_connections", &[CHANNELS, &[Key("rejected")]], "Session channels refused: no valid hello in time, wrong version, or too many"),
            counter("layercast_node_malformed_messages", &[CHANNELS, &[Key("malformed")]], "Messages of session channels that do not decode"),
            counter("layercast_node_slow_neighbours", &[CHANNELS, &[Key("slow")]], "Neighbours disconnected because they did not read"),
            counter("layercast_node_timers", &[TIMERS, &[Key("fired")]], "Timers that ran"),
            counter("layercast_node_missed_ticks", &[TIMERS, &[Key("missed_ticks")]], "Milliseconds by which timers ran late, in all: this host did not run the node"),
            gauge("layercast_node_worst_timer_seconds", &[TIMERS, &[Key("worst_us")]], "Largest lateness of a timer").scaled(US),
            counter("layercast_node_rejected_signals", &[SWITCH, &[Key("rejected_signals"), Keys("cause")]], "Signals refused, by cause"),
            counter("layercast_node_rejected_pdus", &[SWITCH, &[Key("rejected_pdus"), Keys("cause")]], "PDUs not forwarded, by cause"),
            counter("layercast_node_unknown_frames", &[SWITCH, &[Key("unknown_types")]], "Frames of an unknown type, which are treated as base layer"),
            counter("layercast_node_copied_units", &[SWITCH, &[Key("copies")]], "Copies of data units towards ports"),
            counter("layercast_node_unwanted_units", &[SWITCH, &[Key("unwanted")]], "Data units without a member behind this node"),
            counter("layercast_node_resyncs", &[SWITCH, &[Key("resyncs")]], "Starts of a frame without the end of the frame before"),
            counter("layercast_node_clipped_answers", &[SWITCH, &[Key("clipped_answers")]], "Answers of members that went beyond what the flow offers"),
            counter("layercast_node_fast_starts", &[SWITCH, &[Key("fast_starts")]], "Receivers that got the running GOP when they joined"),
            counter("layercast_node_fast_starts_skipped", &[SWITCH, &[Key("fast_starts_skipped")]], "Receivers that joined between two GOP starts and begin with the next one"),
            counter("layercast_node_fast_start_units", &[SWITCH, &[Key("fast_start_units")]], "Data units sent for fast starts"),
            counter("layercast_node_fast_start_bytes", &[SWITCH, &[Key("fast_start_bytes")]], "Bytes sent for fast starts, link headers included"),
        ],
    },
    Group {
        title: "`serve`: the live input",
        families: &[
            counter("layercast_input_lost_packets", &[INPUT, &[Keys("format"), Key("lost")]], "Packets of the transport stream (ts) or of RTP (rtp) that were lost before they came here"),
            counter("layercast_input_dropped_packets", &[INPUT, &[Keys("format"), Key("dropped")]], "Duplicate, damaged or late packets of the input that were dropped"),
            counter("layercast_input_foreign_datagrams", &[INPUT, &[Key("foreign")]], "Datagrams that are neither a transport stream nor RTP"),
            counter("layercast_input_damaged_pictures", &[INPUT, &[Key("ts"), Key("damaged")]], "Pictures of a transport stream of which something was lost before it came here"),
            counter("layercast_input_incomplete_pictures", &[INPUT, &[Key("rtp"), Key("incomplete")]], "Pictures left out because a packet of RTP was lost before it came here"),
            counter("layercast_input_other_codec_packets", &[INPUT, &[Key("ts"), Key("other_codec")]], "Packets of a transport stream that were left out: streams in another codec than that of the flow, or that the program map no longer names"),
            counter("layercast_input_scrambled_packets", &[INPUT, &[Key("ts"), Key("scrambled")]], "Packets of the video of a transport stream that are scrambled"),
            gauge("layercast_input_speed_ratio", &[INPUT, &[Key("media_ms_per_s")]], "Media time that arrived for each second of time in the last 10 s; below 1 the encoder is too slow").scaled(MS),
            gauge("layercast_input_slow", &[INPUT, &[Key("slow")]], "Whether the input is slower than real time"),
            counter("layercast_input_restarts", &[INPUT, &[Key("restarts")]], "Times that the timeline of the input began again"),
            counter("layercast_input_clock_jumps", &[INPUT, &[Key("clock_jumps")]], "Times that the timeline of the input began again since its time stamps jumped back or ahead"),
            counter("layercast_input_dropped_frames", &[INPUT, &[Key("dropped")]], "Frames that were not sent since they came faster than real time or than the flow takes them"),
        ],
    },
    Group {
        title: "`serve`, `switch`: flows",
        families: &[
            gauge("layercast_flow_level_bytes_per_second", &[FLOW, &[Key("level_bps"), LEVELS]], "Rate of the flow at each level on a link, with all headers").scaled(BITS),
            gauge("layercast_flow_frames_per_second", &[FLOW, &[Key("fps")]], "Pictures per second of the flow"),
            gauge("layercast_flow_delay_bound_seconds", &[FLOW, &[Key("delay_max_ms")]], "Delay bound of the flow").scaled(MS),
            gauge("layercast_flow_source_speed_ratio", &[FLOW, &[Key("media_ms_per_s")]], "Media time that the source delivers for each second, if it is slower than real time").scaled(MS),
            counter("layercast_flow_input_damaged_pictures", &[FLOW, &[Key("input_damaged")]], "Pictures that cannot be shown since packets were lost on the way to the source"),
        ],
    },
    Group {
        title: "`serve`, `switch`: members (receivers)",
        families: &[
            gauge("layercast_member_level", &[FLOW, MEMBER, JOINED, &[Key("level")]], "Level granted: 0 is the base layer alone, 2 all layers"),
            gauge("layercast_member_level_wanted", &[FLOW, MEMBER, JOINED, &[Key("wanted")]], "Level that the member selected"),
            gauge("layercast_member_declined", &[FLOW, MEMBER, &[Key("refused"), Key("resource"), Text("by")]], "Why the member has not joined: what the flow offers is not what its profile wants; 1 for the parameter"),
            gauge("layercast_member_limited", &[FLOW, MEMBER, &[Key("limit"), Key("kind"), Text("by")]], "Why the member is below the highest level of the flow; 1 for the reason that holds"),
            gauge("layercast_member_report_age_seconds", &[FLOW, MEMBER, &[Key("report_age_ms")]], "Age of the last report of the member").scaled(MS),
            counter("layercast_member_frames", &[FLOW, MEMBER, REPORT, &[Key("frames"), LAYER]], "Frames played"),
            counter("layercast_member_lost_frames", &[FLOW, MEMBER, REPORT, &[Key("lost"), LAYER]], "Frames of granted layers that were lost"),
            counter("layercast_member_late_frames", &[FLOW, MEMBER, REPORT, &[Key("late")]], "Frames that arrived after their playout time"),
            counter("layercast_member_outage_seconds", &[FLOW, MEMBER, REPORT, &[Key("outage_ms")]], "Time without a picture that can be decoded").scaled(MS),
            gauge("layercast_member_silent_seconds", &[FLOW, MEMBER, REPORT, SILENCE, &[Key("ms")]], "Time since the last packet of the flow came to the member, while none comes").scaled(MS),
            gauge("layercast_member_overdue_frames", &[FLOW, MEMBER, REPORT, SILENCE, &[Key("overdue"), LAYER]], "Frames whose playout time has passed since that packet, by the rate of the flow"),
            counter("layercast_member_marked_packets", &[FLOW, MEMBER, REPORT, &[Key("marked")]], "Packets or cells with the congestion mark"),
            gauge("layercast_member_delay_p50_seconds", &[FLOW, MEMBER, REPORT, &[Key("delay_ms_p50")]], "Median one-way delay").scaled(MS),
            gauge("layercast_member_delay_p99_seconds", &[FLOW, MEMBER, REPORT, &[Key("delay_ms_p99")]], "99th percentile of the one-way delay").scaled(MS),
            gauge("layercast_member_playout_delay_seconds", &[FLOW, MEMBER, REPORT, &[Key("playout_ms")]], "Playout delay").scaled(MS),
            gauge("layercast_member_end_to_end_p50_seconds", &[FLOW, MEMBER, REPORT, &[Key("end_to_end_ms"), Key("p50")]], "Median delay of live frames from the source's input to the hand-over").scaled(MS),
            gauge("layercast_member_end_to_end_p99_seconds", &[FLOW, MEMBER, REPORT, &[Key("end_to_end_ms"), Key("p99")]], "99th percentile of the delay of live frames from the source's input to the hand-over").scaled(MS),
            gauge("layercast_member_zone", &[FLOW, MEMBER, REPORT, &[Key("quality"), Key("zone"), Text("zone")]], "The zone of the member: green, yellow, red or grey, the worst of all it was promised; 1 for the one that holds"),
            gauge("layercast_member_agreed_bytes_per_second", &[FLOW, MEMBER, REPORT, &[Key("quality"), Key("throughput_bps"), Key("agreed")]], "Least throughput that was agreed; 0: any").scaled(BITS),
            gauge("layercast_member_measured_bytes_per_second", &[FLOW, MEMBER, REPORT, &[Key("quality"), Key("throughput_bps"), Key("measured")]], "Throughput that makes its zone, with headers").scaled(BITS),
            gauge("layercast_member_agreed_delay_seconds", &[FLOW, MEMBER, REPORT, &[Key("quality"), Key("delay_s"), Key("agreed")]], "Delay in the network that was agreed"),
            gauge("layercast_member_measured_delay_seconds", &[FLOW, MEMBER, REPORT, &[Key("quality"), Key("delay_s"), Key("measured")]], "Mean delay in the network that makes its zone"),
            gauge("layercast_member_agreed_jitter_seconds", &[FLOW, MEMBER, REPORT, &[Key("quality"), Key("jitter_s"), Key("agreed")]], "Jitter that was agreed"),
            gauge("layercast_member_measured_jitter_seconds", &[FLOW, MEMBER, REPORT, &[Key("quality"), Key("jitter_s"), Key("measured")]], "Jitter that makes its zone, by RFC 3550"),
            gauge("layercast_member_agreed_loss_ratio", &[FLOW, MEMBER, REPORT, &[Key("quality"), Key("error_rate"), Key("agreed")]], "Share of the bits that may be lost or late, as agreed"),
            gauge("layercast_member_measured_loss_ratio", &[FLOW, MEMBER, REPORT, &[Key("quality"), Key("error_rate"), Key("measured")]], "Share of the bits that were lost or late, over 10 s, that makes its zone"),
        ],
    },
    Group {
        title: "`serve`, `switch`: links to neighbours",
        families: &[
            counter("layercast_link_crowded_out_datagrams", &[LINK, &[Key("crowded_out")]], "Datagrams of the neighbour dropped because they came faster than this host processes them"),
            gauge("layercast_link_path_bytes_per_second", &[LINK, &[Key("path"), Key("rate_bps")]], "Estimated rate of the path, of ports with --rate auto; absent until the path has been full").scaled(BITS),
            gauge("layercast_link_path_queue_seconds", &[LINK, &[Key("path"), Key("queue_us")]], "Time that packets wait in queues of the path").scaled(US),
            gauge("layercast_link_path_competes", &[LINK, &[Key("path"), Key("competes")]], "Whether other flows keep a queue on the path"),
            counter("layercast_link_path_cuts", &[LINK, &[Key("path"), Key("cuts")]], "Times that the rate was cut because of a queue"),
            gauge("layercast_link_delay_seconds", &[LINK, &[Key("clock"), Key("delay_us")]], "One-way delay to the neighbour").scaled(US),
            gauge("layercast_link_delay_back_seconds", &[LINK, &[Key("clock"), Key("delay_back_us")]], "One-way delay from the neighbour").scaled(US),
            gauge("layercast_link_clock_ahead_seconds", &[LINK, &[Key("clock"), Key("ahead_us")]], "By how much the clock of the neighbour is ahead").scaled(US),
            gauge("layercast_link_clock_drift_ratio", &[LINK, &[Key("clock"), Key("drift_ppb")]], "By how much the clock of the neighbour gains").scaled(NS),
            gauge("layercast_link_clock_bound_seconds", &[LINK, &[Key("clock"), Key("bound_us")]], "Most error of what is known of that clock").scaled(US),
        ],
    },
    Group {
        title: "`serve`, `switch`: repair on links",
        families: counted::REPAIRS,
    },
    Group {
        title: "`serve`, `switch`: links with impairments",
        families: counted::IMPAIRMENTS,
    },
    Group {
        title: "`serve`, `switch`: ports",
        families: counted::PORTS,
    },
    Group {
        title: "`serve`, `switch`: filters",
        families: counted::FILTERS,
    },
    Group {
        title: "`serve`, `switch`: ports that admit base layers by measurement",
        families: counted::ADMISSIONS,
    },
    Group {
        title: "`serve`: sources",
        families: counted::SOURCES,
    },
    Group {
        title: "`join`: the receiver",
        families: &[
            gauge("layercast_receiver_joined", &[RECEIVER, &[Key("joined")]], "Whether the receiver is a member of the flow"),
            gauge("layercast_receiver_level", &[RECEIVER, &[Key("level")]], "Level granted: 0 is the base layer alone, 2 all layers"),
            gauge("layercast_receiver_bytes_per_second", &[RECEIVER, &[Key("rate_bps")]], "Media played in the last second").scaled(BITS),
            counter("layercast_receiver_frames", &[RECEIVER, &[Key("frames"), LAYER]], "Frames played"),
            counter("layercast_receiver_lost_frames", &[RECEIVER, &[Key("lost"), LAYER]], "Frames of granted layers that were lost"),
            counter("layercast_receiver_outage_frames", &[RECEIVER, &[Key("outage"), LAYER]], "Frames sent while the session channel was down; no part of the lost ones"),
            counter("layercast_receiver_late_frames", &[&[Key("counted"), Key("sink"), Key("late"), LAYER]], "Frames dropped because they arrived after their deadline"),
            gauge("layercast_receiver_silent_seconds", &[RECEIVER, SILENCE, &[Key("ms")]], "Time since the last packet of the flow, while none comes").scaled(MS),
            gauge("layercast_receiver_overdue_frames", &[RECEIVER, SILENCE, &[Key("overdue"), LAYER]], "Frames whose playout time has passed since the last packet, by the rate of the flow"),
            counter("layercast_receiver_outage_seconds", &[RECEIVER, &[Key("outage_ms")]], "Time without a picture that can be decoded").scaled(MS),
            gauge("layercast_receiver_delay_seconds", &[RECEIVER, &[Key("delay_ms")]], "Largest delay from emission to arrival in the last second").scaled(MS),
            gauge("layercast_receiver_end_to_end_seconds", &[RECEIVER, &[Key("end_to_end_ms"), Keys("part")]], "Mean delay of the live frames of the last second (mean), and its parts").scaled(MS),
            gauge("layercast_receiver_source_clock_ahead_seconds", &[RECEIVER, &[Key("source_clock"), Key("ahead_us")]], "By how much the clock of the source is ahead").scaled(US),
            gauge("layercast_receiver_source_clock_drift_ratio", &[RECEIVER, &[Key("source_clock"), Key("drift_ppb")]], "By how much the clock of the source gains").scaled(NS),
            gauge("layercast_receiver_source_clock_bound_seconds", &[RECEIVER, &[Key("source_clock"), Key("bound_us")]], "Most error of what is known of that clock").scaled(US),
            gauge("layercast_receiver_source_clock_age_seconds", &[RECEIVER, &[Key("source_clock"), Key("age_ms")]], "Age of the oldest measurement that this follows from").scaled(MS),
            gauge("layercast_receiver_source_clock_hops", &[RECEIVER, &[Key("source_clock"), Key("hops")]], "Hops that were measured"),
            gauge("layercast_receiver_zone", &[RECEIVER, &[Key("quality"), Key("zone"), Text("zone")]], "The zone of the receiver: green, yellow, red or grey, the worst of all it was promised; 1 for the one that holds"),
            gauge("layercast_receiver_agreed_bytes_per_second", &[RECEIVER, &[Key("quality"), Key("throughput_bps"), Key("agreed")]], "Least throughput that was agreed; 0: any").scaled(BITS),
            gauge("layercast_receiver_measured_bytes_per_second", &[RECEIVER, &[Key("quality"), Key("throughput_bps"), Key("measured")]], "Throughput that makes its zone, with headers").scaled(BITS),
            gauge("layercast_receiver_agreed_delay_seconds", &[RECEIVER, &[Key("quality"), Key("delay_s"), Key("agreed")]], "Delay in the network that was agreed"),
            gauge("layercast_receiver_measured_delay_seconds", &[RECEIVER, &[Key("quality"), Key("delay_s"), Key("measured")]], "Mean delay in the network that makes its zone"),
            gauge("layercast_receiver_agreed_jitter_seconds", &[RECEIVER, &[Key("quality"), Key("jitter_s"), Key("agreed")]], "Jitter that was agreed"),
            gauge("layercast_receiver_measured_jitter_seconds", &[RECEIVER, &[Key("quality"), Key("jitter_s"), Key("measured")]], "Jitter that makes its zone, by RFC 3550"),
            gauge("layercast_receiver_agreed_loss_ratio", &[RECEIVER, &[Key("quality"), Key("error_rate"), Key("agreed")]], "Share of the bits that may be lost or late, as agreed"),
            gauge("layercast_receiver_measured_loss_ratio", &[RECEIVER, &[Key("quality"), Key("error_rate"), Key("measured")]], "Share of the bits that were lost or late, over 10 s, that makes its zone"),
        ],
    },
    Group {
        title: "`join`: the link to the node",
        families: counted::RECEIVER_REPAIRS,
    },
    Group {
        title: "`join`: all other counters",
        families: counted::RECEIVER,
    },
    Group {
        title: "`send`",
        families: &[
            gauge("layercast_send_files", &[SENT, &[Key("of")]], "Files of the transfer"),
            counter("layercast_send_files_done", &[SENT, &[Key("done")]], "Files whose session is over"),
            gauge("layercast_send_file_sent_bytes", &[SENDING, &[Key("octets")]], "Bytes of content sent in the session of the current file"),
            gauge("layercast_send_bytes_per_second", &[SENDING, &[Key("rate_bps")]], "Bytes of content sent per second since the last report").scaled(BITS),
            gauge("layercast_send_receivers", &[SENDING, &[Key("receivers")]], "Receivers of the session"),
            gauge("layercast_send_receivers_complete", &[SENDING, &[Key("delivered")]], "Receivers that have the whole file"),
            gauge("layercast_send_pass", &[SENDING, &[Key("pass")]], "Pass of the current file: 0 for the first, then that of the repair"),
        ],
    },
    Group {
        title: "`receive`",
        families: &[
            counter("layercast_receive_files", &[RECEIVED, &[Keys("outcome")]], "Files that ended, by outcome"),
            gauge("layercast_receive_received_bytes", &[RECEIVING, &[Key("octets")]], "Bytes received of the whole transfer"),
            gauge("layercast_receive_expected_bytes", &[RECEIVING, &[Key("of_octets")]], "Bytes of the whole transfer"),
            gauge("layercast_receive_bytes_per_second", &[RECEIVING, &[Key("rate_bps")]], "Bytes received per second since the last report").scaled(BITS),
        ],
    },
    Group {
        title: "`send`, `receive`: the QoS monitor of their sessions",
        families: &[
            gauge("layercast_sessions", &[MONITOR, &[Key("open")]], "Sessions that are open"),
            counter("layercast_sessions_closed", &[MONITOR, &[Key("closed")]], "Sessions that are over"),
            gauge("layercast_sessions_zone", &[MONITOR, &[Key("zone"), Text("zone")]], "The worst zone of the open sessions; grey: nothing was agreed, as of all files today; 1 for the one that holds"),
            counter("layercast_sessions_lost_events", &[MONITOR, &[Key("events_lost")]], "Events that the monitor had no place for: its counts lack them"),
            counter("layercast_sessions_bad_reports", &[MONITOR, &[Key("bad_reports")]], "Reports of peers, or parts of them, that cannot be"),
            counter("layercast_sessions_sent_packets", &[OUT, &[Key("packets")]], "Packets sent, those of repairs and polls included"),
            counter("layercast_sessions_sent_bytes", &[OUT, &[Key("bits")]], "Bytes of these").scaled(BITS),
            counter("layercast_sessions_sent_content_bytes", &[OUT, &[Key("user_bits")]], "Bytes of content sent, each once").scaled(BITS),
            gauge("layercast_sessions_sent_bytes_per_second", &[OUT, &[Key("throughput_bps")]], "Bytes of packets sent in the last second").scaled(BITS),
            gauge("layercast_sessions_sent_content_bytes_per_second", &[OUT, &[Key("goodput_bps")]], "Bytes of content sent in the last second, each once").scaled(BITS),
            gauge("layercast_sessions_delay_seconds", &[OUT, &[Key("delay_ns")]], "Half of the last round trip, the largest of the open sessions").scaled(NS),
            gauge("layercast_sessions_max_delay_seconds", &[OUT, &[Key("max_delay_ns")]], "The largest of these since the start").scaled(NS),
            counter("layercast_sessions_received_packets", &[IN, &[Key("packets")]], "Packets that came, reports included"),
            counter("layercast_sessions_received_bytes", &[IN, &[Key("bits")]], "Bytes of these").scaled(BITS),
            counter("layercast_sessions_received_content_bytes", &[IN, &[Key("user_bits")]], "Bytes of content that came, each once; without those that parities replace").scaled(BITS),
            counter("layercast_sessions_missing_bytes", &[IN, &[Key("error_bits")]], "Bytes that the sender sent and that did not come").scaled(BITS),
            gauge("layercast_sessions_received_bytes_per_second", &[IN, &[Key("throughput_bps")]], "Bytes of packets that came in the last second").scaled(BITS),
            gauge("layercast_sessions_received_content_bytes_per_second", &[IN, &[Key("goodput_bps")]], "Bytes of content that came in the last second, each once").scaled(BITS),
            gauge("layercast_sessions_loss_ratio", &[IN, &[Key("error_rate")]], "Share of the bits that were missing, over 10 s, the largest of the open sessions"),
        ],
    },
    Group {
        title: "`xtpd`",
        families: &[
            counter("layercast_xtpd_clients_served", &[XTP, &[Key("served")]], "Clients since the start"),
            counter("layercast_xtpd_clients_expelled", &[XTP, &[Key("expelled")]], "Clients whose messages were not valid or exceeded a limit"),
            counter("layercast_xtpd_contexts_orphaned", &[XTP, &[Key("orphaned")]], "Contexts whose client ended without closing them"),
            gauge("layercast_xtpd_contexts", &[XTP, &[Key("contexts")]], "Contexts of the endpoint"),
            counter("layercast_xtpd_received_packets", &[ENDPOINT, &[Key("received")]], "Packets received"),
            counter("layercast_xtpd_sent_packets", &[ENDPOINT, &[Key("sent")]], "Packets sent"),
            counter("layercast_xtpd_retransmitted_packets", &[ENDPOINT, &[Key("retransmitted")]], "Data packets sent again"),
            counter("layercast_xtpd_damaged_packets", &[ENDPOINT, &[Key("damaged")]], "Packets with a wrong checksum"),
            counter("layercast_xtpd_malformed_packets", &[ENDPOINT, &[Key("malformed")]], "Packets that do not decode for other reasons"),
            counter("layercast_xtpd_stray_packets", &[ENDPOINT, &[Key("stray")]], "Packets for unknown contexts"),
            counter("layercast_xtpd_refused_packets", &[ENDPOINT, &[Key("refused")]], "FIRST packets refused"),
            counter("layercast_xtpd_crowded_out_packets", &[ENDPOINT, &[Key("crowded_out")]], "Packets dropped before they were processed, because those of their association took up its share of the buffers"),
        ],
    },
    Group {
        title: "`fec edge`",
        families: &[
            counter("layercast_edge_sent_packets", &[EDGE_SENT, &[Key("packets")]], "Packets of the user that were protected"),
            counter("layercast_edge_sent_bytes", &[EDGE_SENT, &[Key("octets")]], "Bytes of these packets"),
            counter("layercast_edge_sent_parities", &[EDGE_SENT, &[Key("parities")]], "Parities made"),
            counter("layercast_edge_tunnel_bytes", &[EDGE_SENT, &[Key("tunnel_octets")]], "Bytes of all datagrams of the tunnel"),
            counter("layercast_edge_unprotected_packets", &[EDGE_SENT, &[Key("unprotected")]], "Packets sent unprotected because their parities would not fit"),
            counter("layercast_edge_refused_packets", &[EDGE_SENT, &[Key("refused")]], "Packets dropped because they are too long for the tunnel"),
            gauge("layercast_edge_peer_loss_ratio", &[EDGE_SENT, &[Key("peer_loss")]], "Share lost before decoding that the peer reports"),
            counter("layercast_edge_received_packets", &[EDGE_GOT, &[Key("packets")]], "Packets delivered to the user, recovered ones included"),
            counter("layercast_edge_received_bytes", &[EDGE_GOT, &[Key("octets")]], "Bytes of these packets"),
            counter("layercast_edge_recovered_packets", &[EDGE_GOT, &[Key("recovered")]], "Packets recovered from parities"),
            counter("layercast_edge_lost_packets", &[EDGE_GOT, &[Key("lost")]], "Packets that were not recovered"),
            gauge("layercast_edge_raw_loss_ratio", &[EDGE_GOT, &[Key("raw_loss")]], "Share lost before decoding"),
            gauge("layercast_edge_residual_loss_ratio", &[EDGE_GOT, &[Key("residual_loss")]], "Share lost after decoding"),
            counter("layercast_edge_strangers", &[&[Key("edge"), Key("strangers")]], "Datagrams from other addresses than that of the peer; dropped"),
            counter("layercast_edge_send_failures", &[&[Key("edge"), Key("send_failed")]], "Datagrams that this host could not send"),
        ],
    },
    Group {
        title: "`emulate`",
        families: &[
            counter("layercast_path_offered_datagrams", &[PATH, &[Key("offered")]], "Datagrams that entered the path"),
            counter("layercast_path_queue_full_datagrams", &[PATH, &[Key("queue_full")]], "Datagrams dropped because the queue was full"),
            counter("layercast_path_marked_datagrams", &[PATH, &[Key("marked")]], "Datagrams marked with congestion experienced"),
            counter("layercast_path_delivered_datagrams", &[PATH, &[Key("link"), Key("delivered")]], "Datagrams that arrived, duplicates included"),
            counter("layercast_path_lost_datagrams", &[PATH, &[Key("link"), Key("lost")]], "Datagrams lost at random"),
            counter("layercast_path_duplicated_datagrams", &[PATH, &[Key("link"), Key("duplicated")]], "Datagrams that arrived twice"),
            counter("layercast_emulation_injected_packets", &[EMULATION, &[Key("injected")]], "Packets that programs sent into the emulated network"),
            counter("layercast_emulation_delivered_packets", &[EMULATION, &[Key("delivered")]], "Packets that arrived at programs"),
            gauge("layercast_emulation_behind_seconds", &[EMULATION, &[Key("behind_ms")]], "How far the simulator is behind the clock").scaled(MS),
        ],
    },
    Group {
        title: "`sim --seeds`",
        families: &[
            gauge("layercast_campaign_runs", &[CAMPAIGN, &[Key("of")]], "Runs that were missing at the start"),
            counter("layercast_campaign_runs_done", &[CAMPAIGN, &[Key("done")]], "Runs made since the start"),
        ],
    },
];

/// All metrics.
pub fn all() -> impl Iterator<Item = &'static Family> {
    GROUPS.iter().flat_map(|group| group.families)
}
