//! The counters that a command has in its summary too: those of the parts of a node, and of a receiver.

use super::super::place::Step::{self, Key, Keys};
use super::{BITS, Family, LAYER, MS, US, counter, gauge};

const PORT: &[Step] = &[Key("stats"), Key("node"), Key("ports"), Keys("port")];
const FILTER: &[Step] = &[Key("stats"), Key("node"), Key("filters"), Keys("filter")];
const ADMISSION: &[Step] = &[Key("stats"), Key("node"), Key("admission"), Keys("port")];
const SOURCE: &[Step] = &[Key("stats"), Key("node"), Key("sources"), Keys("flow")];
const PARITIES: &[Step] = &[Key("parities")];
const IMPAIRED: &[Step] = &[Key("stats"), Key("node"), Key("links"), Keys("neighbour")];
const REPAIRED: &[Step] = &[Key("stats"), Key("node"), Key("repairs"), Keys("neighbour")];
const OWN_LINK: &[Step] = &[Key("receiver"), Key("link_repair")];
const COUNTED: &[Step] = &[Key("counted")];
const SINK: &[Step] = &[Key("counted"), Key("sink")];
const DROPPED: &[Step] = &[Key("counted"), Key("sink"), Key("dropped"), Keys("cause")];
const BASE: &[Step] = &[Key("counted"), Key("sink"), Key("repair")];
const OUTPUT: &[Step] = &[Key("counted"), Key("output")];
const STREAM: &[Step] = &[Key("counted"), Key("output"), Key("stream")];
const SOCKET: &[Step] = &[Key("counted"), Key("udp")];
const CHANNEL: &[Step] = &[Key("counted"), Key("channels")];
const TIMERS: &[Step] = &[Key("counted"), Key("timers")];

/// Queues of the ports of a node.
pub const PORTS: &[Family] = &[
    counter(
        "layercast_port_received_units",
        &[PORT, &[Key("units_in")]],
        "Units that came in from the neighbour; a unit is a cell or a datagram",
    ),
    counter(
        "layercast_port_received_bytes",
        &[PORT, &[Key("bytes_in")]],
        "Bytes of these, link headers included",
    ),
    counter(
        "layercast_port_sent_units",
        &[PORT, &[Key("units_out")]],
        "Units sent",
    ),
    counter(
        "layercast_port_sent_bytes",
        &[PORT, &[Key("bytes_out")]],
        "Bytes sent, link headers included",
    ),
    counter(
        "layercast_port_queue_full_units",
        &[PORT, &[Key("queue_full"), LAYER]],
        "Units dropped because the queue was full",
    ),
    counter(
        "layercast_port_selectively_discarded_units",
        &[PORT, &[Key("selective_discard"), LAYER]],
        "Units of frames refused early to protect the base layer",
    ),
    counter(
        "layercast_port_partially_discarded_units",
        &[PORT, &[Key("partial_discard"), LAYER]],
        "Units of frames that were already damaged",
    ),
    counter(
        "layercast_port_adapter_units",
        &[PORT, &[Key("adapter")]],
        "RES and ADAPT queued",
    ),
    counter(
        "layercast_port_adapter_dropped_units",
        &[PORT, &[Key("adapter_dropped")]],
        "RES and ADAPT dropped because the queue was full",
    ),
    gauge(
        "layercast_port_longest_queue_cells",
        &[PORT, &[Key("max_queue")]],
        "Largest queue, in cells",
    ),
    counter(
        "layercast_port_waited_seconds",
        &[PORT, &[Key("waited_us")]],
        "Sum of the waiting times of cells",
    )
    .scaled(US),
    counter(
        "layercast_port_marked_units",
        &[PORT, &[Key("marked")]],
        "Units marked with congestion experienced",
    ),
];

/// Filters.
pub const FILTERS: &[Family] = &[
    counter(
        "layercast_filter_frames",
        &[FILTER, &[Key("frames")]],
        "Frames that entered the filter",
    ),
    counter(
        "layercast_filter_received_bytes",
        &[FILTER, &[Key("bytes_in")]],
        "Bytes that entered the filter",
    ),
    counter(
        "layercast_filter_sent_bytes",
        &[FILTER, &[Key("bytes_out")]],
        "Bytes that left the filter",
    ),
    counter(
        "layercast_filter_passed_frames",
        &[FILTER, &[Key("passed")]],
        "Frames that could not be filtered and passed unchanged",
    ),
    counter(
        "layercast_filter_over_budget_frames",
        &[FILTER, &[Key("over_budget")]],
        "Frames that exceed their budget although nothing is left to drop",
    ),
    counter(
        "layercast_filter_dropped_frames",
        &[FILTER, &[Key("dropped"), LAYER]],
        "Frames dropped because the shaper of the filter was full",
    ),
    counter(
        "layercast_filter_broken_packets",
        &[FILTER, &[Key("broken")]],
        "Packets or AAL5 frames that could not be reassembled",
    ),
];

/// Ports that admit base layers by measurement.
pub const ADMISSIONS: &[Family] = &[
    gauge(
        "layercast_admission_window_seconds",
        &[ADMISSION, &[Key("window_ms")]],
        "Measurement window",
    )
    .scaled(MS),
    gauge(
        "layercast_admission_trigger_bytes_per_second",
        &[ADMISSION, &[Key("trigger")]],
        "Measured rate at which the window grows",
    )
    .scaled(BITS),
    gauge(
        "layercast_admission_estimated_bytes_per_second",
        &[ADMISSION, &[Key("estimate")]],
        "Estimated rate of the base layers",
    )
    .scaled(BITS),
    gauge(
        "layercast_admission_measured_bytes_per_second",
        &[ADMISSION, &[Key("measured")]],
        "Rate of the base layers in the last half second",
    )
    .scaled(BITS),
    gauge(
        "layercast_admission_declared_bytes_per_second",
        &[ADMISSION, &[Key("declared")]],
        "Sum of the declared rates of the base layers",
    )
    .scaled(BITS),
    gauge(
        "layercast_admission_flows",
        &[ADMISSION, &[Key("flows")]],
        "Base layers on the port",
    ),
    gauge(
        "layercast_admission_late_ratio",
        &[ADMISSION, &[Key("late_ppm")]],
        "Share of the bits that were late or lost in this period",
    )
    .scaled(1e-6),
    gauge(
        "layercast_admission_target_ratio",
        &[ADMISSION, &[Key("target_ppm")]],
        "Share of the bits that may be late or lost",
    )
    .scaled(1e-6),
    gauge(
        "layercast_admission_kept",
        &[ADMISSION, &[Key("kept")]],
        "Whether the promise is kept in this period up to now",
    ),
    counter(
        "layercast_admission_kept_periods",
        &[ADMISSION, &[Key("periods_kept")]],
        "Periods that ended with the promise kept",
    ),
    counter(
        "layercast_admission_broken_periods",
        &[ADMISSION, &[Key("periods_broken")]],
        "Periods that ended with the promise broken",
    ),
    counter(
        "layercast_admission_admitted_flows",
        &[ADMISSION, &[Key("admitted")]],
        "Base layers admitted",
    ),
    counter(
        "layercast_admission_survived_flows",
        &[ADMISSION, &[Key("survived")]],
        "Base layers admitted without a test, as they were in progress before the node started again",
    ),
    counter(
        "layercast_admission_rolled_back_flows",
        &[ADMISSION, &[Key("rolled_back")]],
        "Admissions taken back, as a node upstream refused",
    ),
    counter(
        "layercast_admission_refused_flows",
        &[ADMISSION, &[Key("refused")]],
        "Base layers refused: too much now",
    ),
    counter(
        "layercast_admission_refused_for_ever_flows",
        &[ADMISSION, &[Key("refused_never")]],
        "Base layers refused: more than the link can ever carry",
    ),
];

/// Sources of flows.
pub const SOURCES: &[Family] = &[
    counter(
        "layercast_source_submitted_frames",
        &[SOURCE, &[Key("submitted")]],
        "Frames taken from the application",
    ),
    counter(
        "layercast_source_too_large_frames",
        &[SOURCE, &[Key("too_large")]],
        "Frames refused because they are too large or empty",
    ),
    counter(
        "layercast_source_sent_frames",
        &[SOURCE, &[Key("sent"), LAYER]],
        "Frames handed to the shaper",
    ),
    counter(
        "layercast_source_masked_frames",
        &[SOURCE, &[Key("masked"), LAYER]],
        "Frames not sent because no receiver is granted their layer",
    ),
    counter(
        "layercast_source_dropped_frames",
        &[SOURCE, &[Key("dropped"), LAYER]],
        "Frames dropped because the queue of the shaper was full",
    ),
    counter(
        "layercast_source_sent_bytes",
        &[SOURCE, &[Key("bytes")]],
        "Media bytes handed to the shaper",
    ),
    counter(
        "layercast_source_sent_packets",
        &[SOURCE, &[Key("packets")]],
        "Packets handed to the shaper",
    ),
    counter(
        "layercast_source_sent_cells",
        &[SOURCE, &[Key("cells")]],
        "Cells, or credits, sent",
    ),
    gauge(
        "layercast_source_level",
        &[SOURCE, &[Key("level")]],
        "Level advertised: 0 is the base layer alone, 2 all layers",
    ),
    gauge(
        "layercast_source_cells_per_second",
        &[SOURCE, &[Key("rate")]],
        "Cells per second advertised, base layer included",
    ),
    counter(
        "layercast_source_res",
        &[SOURCE, &[Key("res")]],
        "RES accepted",
    ),
    counter(
        "layercast_source_adapt",
        &[SOURCE, &[Key("adapt")]],
        "ADAPT sent",
    ),
    counter(
        "layercast_source_rejected_inputs",
        &[SOURCE, &[Key("rejected")]],
        "Inputs that are not valid in this state",
    ),
    counter(
        "layercast_source_missed_deadlines",
        &[SOURCE, &[Key("missed_deadlines")]],
        "Deadlines missed by more than a tick",
    ),
    counter(
        "layercast_source_missed_ticks",
        &[SOURCE, &[Key("missed_ticks")]],
        "Ticks of the shaper that ran late",
    ),
    counter(
        "layercast_source_denied_keys",
        &[SOURCE, &[Key("denied")]],
        "Key requests refused",
    ),
    counter(
        "layercast_source_rekeys",
        &[SOURCE, &[Key("rekeys")]],
        "Key epochs started after the first",
    ),
    counter(
        "layercast_source_declined_members",
        &[SOURCE, &[Key("declined")]],
        "Members that did not join since the offered contract has nothing in common with their profiles",
    ),
    gauge(
        "layercast_source_members",
        &[SOURCE, &[Key("members")]],
        "Known members",
    ),
    counter(
        "layercast_source_merged_signals",
        &[SOURCE, &[Key("merged_signals")]],
        "Periodic signals merged into the next one",
    ),
    counter(
        "layercast_source_protected_packets",
        &[SOURCE, PARITIES, &[Key("packets")]],
        "Base-layer packets protected by parities",
    ),
    counter(
        "layercast_source_protected_bytes",
        &[SOURCE, PARITIES, &[Key("bytes")]],
        "Bytes of these packets, METS headers included",
    ),
    counter(
        "layercast_source_parities",
        &[SOURCE, PARITIES, &[Key("parities")]],
        "Parities made",
    ),
    counter(
        "layercast_source_parity_bytes",
        &[SOURCE, PARITIES, &[Key("parity_bytes")]],
        "Bytes of the parities, METS headers included",
    ),
    counter(
        "layercast_source_dropped_parities",
        &[SOURCE, PARITIES, &[Key("dropped")]],
        "Parities dropped because the shaper was full",
    ),
    gauge(
        "layercast_source_block_packets",
        &[SOURCE, PARITIES, &[Key("n")]],
        "Source packets of a block now",
    ),
    gauge(
        "layercast_source_block_parities",
        &[SOURCE, PARITIES, &[Key("m")]],
        "Parities of a block now",
    ),
];

/// Links with impairments.
pub const IMPAIRMENTS: &[Family] = &[
    counter(
        "layercast_impaired_sent_items",
        &[IMPAIRED, &[Key("sent")]],
        "Items sent",
    ),
    counter(
        "layercast_impaired_delivered_items",
        &[IMPAIRED, &[Key("delivered")]],
        "Items that arrived, duplicates included",
    ),
    counter(
        "layercast_impaired_lost_items",
        &[IMPAIRED, &[Key("lost")]],
        "Items lost at random, or because the link was down",
    ),
    counter(
        "layercast_impaired_duplicated_items",
        &[IMPAIRED, &[Key("duplicated")]],
        "Items that arrived twice",
    ),
    counter(
        "layercast_impaired_overflow_items",
        &[IMPAIRED, &[Key("overflow")]],
        "Items lost because too many were in flight",
    ),
];

/// The repair of a link, whose counters are at `$at`, with these names.
macro_rules! repair {
    ($prefix:literal, $received:literal, $at:expr) => {
        &[
            counter(concat!($prefix, "_sent_datagrams"), &[$at, &[Key("sending"), Key("layers"), LAYER, Key("sent")]], "Datagrams sent for the first time"),
            counter(concat!($prefix, "_sent_bytes"), &[$at, &[Key("sending"), Key("layers"), LAYER, Key("octets")]], "Bytes of these"),
            counter(concat!($prefix, "_lost_datagrams"), &[$at, &[Key("sending"), Key("layers"), LAYER, Key("lost")]], "Datagrams sent and lost, repairs included"),
            counter(concat!($prefix, "_repairs"), &[$at, &[Key("sending"), Key("layers"), LAYER, Key("repairs")]], "Repairs sent"),
            counter(concat!($prefix, "_repair_bytes"), &[$at, &[Key("sending"), Key("layers"), LAYER, Key("repair_octets")]], "Bytes of the repairs"),
            counter(concat!($prefix, "_parities"), &[$at, &[Key("sending"), Key("layers"), LAYER, Key("parities")]], "Parities among the repairs"),
            counter(concat!($prefix, "_parities_ahead"), &[$at, &[Key("sending"), Key("layers"), LAYER, Key("ahead")]], "Parities that were sent before a loss was known"),
            counter(concat!($prefix, "_uncovered"), &[$at, &[Key("sending"), Key("layers"), LAYER, Key("uncovered")]], "Losses that the parities do not cover, where nothing is sent again"),
            counter(concat!($prefix, "_too_late"), &[$at, &[Key("sending"), Key("layers"), LAYER, Key("too_late")]], "Losses not repaired because a repair would arrive after the deadline of the frame"),
            counter(concat!($prefix, "_over_grant"), &[$at, &[Key("sending"), Key("layers"), LAYER, Key("over_grant")]], "Losses not repaired because the rate for repairs was used up"),
            counter(concat!($prefix, "_unsent_datagrams"), &[$at, &[Key("sending"), Key("layers"), LAYER, Key("unsent")]], "Datagrams and repairs discarded in the queue of the pacer"),
            counter(concat!($prefix, "_accepted_feedback"), &[$at, &[Key("sending"), Key("feedback")]], "Feedback messages that were used"),
            counter(concat!($prefix, "_ignored_feedback"), &[$at, &[Key("sending"), Key("feedback_ignored")]], "Feedback messages that were ignored: old, too frequent, or about counters that were never sent"),
            counter(concat!($prefix, "_markers"), &[$at, &[Key("sending"), Key("markers")]], "Markers sent"),
            counter(concat!($prefix, "_forgotten"), &[$at, &[Key("sending"), Key("forgotten")]], "Losses of which the content was no longer in the history"),
            counter(concat!($prefix, "_unresolved_datagrams"), &[$at, &[Key("sending"), Key("unresolved")]], "Datagrams forgotten before feedback said whether they arrived"),
            gauge(concat!($prefix, "_round_trip_seconds"), &[$at, &[Key("sending"), Key("rtt_us")]], "Smoothed round trip; 0: not known").scaled(US),
            counter(concat!($prefix, "_repair_rounds"), &[$at, &[Key("sending"), Key("rounds")]], "Rounds of repairs to a group"),
            counter(concat!($prefix, "_unheeded"), &[$at, &[Key("sending"), Key("unheeded")]], "Losses not repaired because all members that report them lose too much"),
            gauge(concat!($prefix, "_members"), &[$at, &[Key("sending"), Key("members")]], "Members of a group whose feedback is used"),
            gauge(concat!($prefix, "_members_left"), &[$at, &[Key("sending"), Key("left")]], "Members of a group that lose too much now: their losses are not repaired"),
            counter($received, &[$at, &[Key("receiving"), Key("received")]], "Numbered datagrams received, repairs included"),
            counter(concat!($prefix, "_missing_datagrams"), &[$at, &[Key("receiving"), Key("gaps")]], "Datagrams found missing: gaps in the counters"),
            counter(concat!($prefix, "_requested_datagrams"), &[$at, &[Key("receiving"), Key("requested")]], "Datagrams reported missing"),
            counter(concat!($prefix, "_repaired_datagrams"), &[$at, &[Key("receiving"), Key("repaired"), LAYER]], "Datagrams that arrived in spite of their loss"),
            counter(concat!($prefix, "_spurious_repairs"), &[$at, &[Key("receiving"), Key("spurious")]], "Repairs of the neighbour whose content had arrived, or arrived later"),
            counter(concat!($prefix, "_given_up_datagrams"), &[$at, &[Key("receiving"), Key("given_up")]], "Datagrams given up: neither they nor a repair arrived in time"),
            counter(concat!($prefix, "_duplicate_datagrams"), &[$at, &[Key("receiving"), Key("duplicates")]], "Datagrams that arrived twice, or so late that this is not known; dropped"),
            counter(concat!($prefix, "_stray_datagrams"), &[$at, &[Key("receiving"), Key("strays")]], "Datagrams of another session, or far from all other counters; dropped"),
            counter(concat!($prefix, "_sent_feedback"), &[$at, &[Key("receiving"), Key("feedback")]], "Feedback messages sent"),
            gauge(concat!($prefix, "_reorder_window_seconds"), &[$at, &[Key("receiving"), Key("window_us")]], "The reorder window").scaled(US),
            counter(concat!($prefix, "_received_parities"), &[$at, &[Key("receiving"), Key("parities"), LAYER]], "Parities received"),
            counter(concat!($prefix, "_surplus_parities"), &[$at, &[Key("receiving"), Key("surplus"), LAYER]], "Parities in vain: nothing was missing, or not enough came"),
            counter(concat!($prefix, "_suppressed_requests"), &[$at, &[Key("receiving"), Key("suppressed")]], "Requests of a member of a group not sent because repairs for others filled the gap before"),
            counter(concat!($prefix, "_put_off_requests"), &[$at, &[Key("receiving"), Key("put_off")]], "Requests of a member of a group that waited because members share a rate for them"),
        ]
    };
}

/// Links on which a node repairs.
pub const REPAIRS: &[Family] = repair!(
    "layercast_link",
    "layercast_link_received_datagrams",
    REPAIRED
);

/// The link of a receiver.
pub const RECEIVER_REPAIRS: &[Family] = repair!(
    "layercast_receiver",
    "layercast_receiver_datagrams",
    OWN_LINK
);

/// All counters of a receiver that its status of each second does not have.
pub const RECEIVER: &[Family] = &[
    counter("layercast_receiver_damaged_frames", &[SINK, &[Key("damaged")]], "Frames played in which zeros replace lost cells"),
    counter("layercast_receiver_played_bytes", &[SINK, &[Key("bytes")]], "Media bytes played"),
    counter("layercast_receiver_withheld_frames", &[SINK, &[Key("withheld"), LAYER]], "Frames of layers that were not granted"),
    counter("layercast_receiver_withheld_by_source_frames", &[SINK, &[Key("withheld_by_source"), LAYER]], "Frames of layers that the source did not send"),
    counter("layercast_receiver_withheld_by_switch_frames", &[SINK, &[Key("withheld_by_switch"), LAYER]], "Frames that a node of the path withheld"),
    counter("layercast_receiver_late_stopped_frames", &[SINK, &[Key("late_stopped")]], "Late frames that arrived while this host did not run the receiver"),
    counter("layercast_receiver_packets", &[SINK, &[Key("packets")]], "Packets of the flow received, parities included"),
    counter("layercast_receiver_marked_packets", &[SINK, &[Key("marked")]], "Packets or cells with the congestion mark"),
    counter("layercast_receiver_before_start_frames", &[SINK, &[Key("before_start")]], "Frames that arrived before the first start of a GOP"),
    counter("layercast_receiver_fast_start_frames", &[SINK, &[Key("fast_start")]], "Frames of a fast start"),
    counter("layercast_receiver_cut_starts", &[SINK, &[Key("cut_starts"), Key("starts")]], "GOP starts of which only a part arrived while the receiver waited for a complete one"),
    counter("layercast_receiver_cut_start_bytes", &[SINK, &[Key("cut_starts"), Key("bytes")]], "Bytes that these have"),
    counter("layercast_receiver_cut_start_received_bytes", &[SINK, &[Key("cut_starts"), Key("came")]], "Bytes of these that arrived"),
    gauge("layercast_receiver_lateness_seconds", &[SINK, &[Key("late_ms"), Keys("quantile")]], "Delay of late frames after their deadline: p50 and p99").scaled(MS),
    gauge("layercast_receiver_source_late_seconds", &[SINK, &[Key("source_late_ms")]], "How long after their time live frames came to the source in the last seconds").scaled(MS),
    gauge("layercast_receiver_source_skipped_seconds", &[SINK, &[Key("source_skipped_ms")]], "By how much the source moved its timeline in all").scaled(MS),
    counter("layercast_receiver_overflow_frames", &[SINK, &[Key("overflow"), LAYER]], "Frames dropped because the playout buffer was full"),
    counter("layercast_receiver_dropped_packets", &[DROPPED], "Packets or cells dropped, by cause"),
    counter("layercast_receiver_res", &[SINK, &[Key("res")]], "RES sent"),
    counter("layercast_receiver_adapt", &[SINK, &[Key("adapt")]], "ADAPT accepted"),
    counter("layercast_receiver_stale_adapt", &[SINK, &[Key("adapt_stale")]], "ADAPT ignored because a newer one arrived before"),
    counter("layercast_receiver_joins", &[SINK, &[Key("joins")]], "Joins sent"),
    counter("layercast_receiver_merged_signals", &[SINK, &[Key("merged_signals")]], "Periodic signals merged into the next one"),
    counter("layercast_receiver_base_parities", &[BASE, &[Key("parities")]], "Parities of the base layer accepted"),
    counter("layercast_receiver_base_recovered_packets", &[BASE, &[Key("recovered")]], "Base-layer packets recovered"),
    counter("layercast_receiver_base_unrecoverable_packets", &[BASE, &[Key("unrecoverable")]], "Base-layer packets that cannot be recovered any more"),
    counter("layercast_receiver_base_unused_parities", &[BASE, &[Key("unused")]], "Duplicate parities, and parities of closed blocks"),
    counter("layercast_receiver_base_malformed_parities", &[BASE, &[Key("malformed")]], "Parities that contradict their header, their block or the flow description"),
    counter("layercast_receiver_base_corrupt_packets", &[BASE, &[Key("corrupt")]], "Recovered packets that are not of this flow"),
    counter("layercast_receiver_base_expected_packets", &[BASE, &[Key("packets"), Key("expected")]], "Packets of closed blocks of the base layer, parities included"),
    counter("layercast_receiver_base_received_packets", &[BASE, &[Key("packets"), Key("received")]], "Of these, packets that arrived"),
    gauge("layercast_receiver_whole_end_to_end_seconds", &[SINK, &[Key("end_to_end_ms"), Keys("part")]], "Delay of all live frames from the source's input to the hand-over: p50, p99, mean and its parts").scaled(MS),
    counter("layercast_receiver_written_bytes", &[OUTPUT, &[Key("bytes")]], "Bytes of media written"),
    counter("layercast_receiver_output_dropped_frames", &[OUTPUT, &[Key("dropped")]], "Frames dropped because the reader of the output was too slow, or gone"),
    gauge("layercast_receiver_first_written_frame", &[STREAM, &[Key("first")]], "Number of the first frame of the output"),
    counter("layercast_receiver_written_frames", &[STREAM, &[Key("written")]], "Frames written"),
    counter("layercast_receiver_repeated_frames", &[STREAM, &[Key("repeated")]], "Repeat pictures written in place of missing and undecodable frames"),
    counter("layercast_receiver_undecodable_frames", &[STREAM, &[Key("undecodable")]], "Frames left out, marked or replaced because they are malformed or depend on a missing one"),
    counter("layercast_receiver_input_damaged_frames", &[STREAM, &[Key("damaged")]], "Of these, pictures of which something was lost on the way to the source"),
    counter("layercast_receiver_skipped_frames", &[STREAM, &[Key("skipped")]], "Frames before the first one at which a receiver can start"),
    counter("layercast_receiver_stale_frames", &[STREAM, &[Key("stale")]], "Frames with a sequence number not after the last one"),
    counter("layercast_receiver_unfilled_frames", &[STREAM, &[Key("unfilled")]], "Missing frames beyond the longest gap that is filled"),
    counter("layercast_receiver_socket_received_datagrams", &[SOCKET, &[Key("received")]], "Datagrams received, those that were dropped included"),
    counter("layercast_receiver_socket_unknown_datagrams", &[SOCKET, &[Key("unknown")]], "Datagrams from another address than that of the node, dropped"),
    counter("layercast_receiver_socket_forged_datagrams", &[SOCKET, &[Key("forged")]], "Datagrams whose authentication failed, dropped"),
    counter("layercast_receiver_socket_replayed_datagrams", &[SOCKET, &[Key("replayed")]], "Datagrams received before, or so late that this is not known, dropped"),
    counter("layercast_receiver_socket_crowded_out_datagrams", &[SOCKET, &[Key("crowded_out")]], "Datagrams dropped because they came faster than this host processes them"),
    counter("layercast_receiver_socket_host_lost_datagrams", &[SOCKET, &[Key("host_lost")]], "Datagrams that the kernel dropped before they were read"),
    counter("layercast_receiver_socket_sent_datagrams", &[SOCKET, &[Key("sent")]], "Datagrams sent"),
    counter("layercast_receiver_socket_unsent_datagrams", &[SOCKET, &[Key("send_failed")]], "Datagrams that the kernel refused to send"),
    counter("layercast_receiver_malformed_datagrams", &[COUNTED, &[Key("malformed")]], "Datagrams of the node that do not decode"),
    counter("layercast_receiver_accepted_connections", &[CHANNEL, &[Key("accepted")]], "Session channels accepted; a receiver accepts none"),
    counter("layercast_receiver_rejected_connections", &[CHANNEL, &[Key("rejected")]], "Session channels refused"),
    counter("layercast_receiver_malformed_messages", &[CHANNEL, &[Key("malformed")]], "Messages of the session channel that do not decode"),
    counter("layercast_receiver_slow_neighbours", &[CHANNEL, &[Key("slow")]], "Times that the node was disconnected because it did not read"),
    counter("layercast_receiver_connections", &[COUNTED, &[Key("connected")]], "Connections to the node since the start"),
    counter("layercast_receiver_timers", &[TIMERS, &[Key("fired")]], "Timers that ran"),
    gauge("layercast_receiver_worst_timer_seconds", &[TIMERS, &[Key("worst_us")]], "Largest lateness of a timer").scaled(US),
    counter("layercast_receiver_missed_ticks", &[TIMERS, &[Key("missed_ticks")]], "Milliseconds by which timers ran late, in all"),
];
