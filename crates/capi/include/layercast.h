/* Layercast: live layered media to many unequal receivers, with the three sockets of METS.
 * Made by cbindgen from crates/capi; do not edit. Link with -llayercast_c. */

#ifndef LAYERCAST_H
#define LAYERCAST_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Done.
#define LC_OK 0

// An argument makes no sense: a null pointer, a descriptor that is none, a wrong size, a structure
// that contradicts itself.
#define LC_EINVAL -1

// The media socket is not registered: see lc_register_soc().
#define LC_ENOTREG -2

// A node on the way has too little of something; lc_last_error() names node, resource, what is needed
// and what there is.
#define LC_EADMIT -3

// The policy of the flow forbids it.
#define LC_EPOLICY -4

// Another request is outstanding, or too many control messages wait.
#define LC_EBUSY -5

// There is no such filter for this flow in this place.
#define LC_ENOFILTER -6

// Nothing came in time.
#define LC_ETIMEDOUT -7

// The flow is over.
#define LC_ECLOSED -8

// Sockets, names of hosts, neighbours: lc_last_error() says what.
#define LC_ENET -9

// A mistake of this library; nothing was done.
#define LC_EINTERNAL -10

// Of lc_stream_wait(): the group is advertised, and can be joined.
#define LC_SERVED 0

// Of lc_stream_wait(): all that came has left.
#define LC_ENDED 1

// Base layer.
#define LC_BL 0

// First enhancement layer.
#define LC_E1 1

// Second enhancement layer.
#define LC_E2 2

// A frame that is due at its slot of the frame rate.
#define LC_NO_TIME UINT64_MAX

// Most filters at a time.
#define LC_MAX_FILTERS 4

// Option of lc_change_qos(): a new flow specification, an lc_flow_spec.
#define LC_FLOW_SPEC 1

// Option: a new policy, an lc_qos_policy.
#define LC_QOS_POLICY 2

// Option: maintain the flow, no periodic signals; no structure.
#define LC_MAINT 4

// Option: maintain the flow and signal periodically; no structure.
#define LC_MONITOR 8

// Option: signal periodically only; no structure.
#define LC_SIGNAL 16

// Option: how the flow follows the bandwidth, an lc_adapt.
#define LC_ADAPT 32

// Option: these filters and no others, an lc_filters.
#define LC_FILTER 64

// Option: attach an alarm, an lc_alarm; with a window of 0 remove it.
#define LC_EVENT 128

// Of lc_flow_spec: a higher layer adds to the lower ones.
#define LC_ADDITIVE 0

// Of lc_flow_spec: a higher layer replaces the lower ones.
#define LC_ALTERNATIVE 1

// A descriptor of a server or of a media, control or management socket: above zero, never used again
// once closed.
typedef int32_t lc_socket;

// Periodic figures of a flow.
typedef struct {
  // Length of the window, us.
  uint64_t window_us;
  // Frames received whole, or sent.
  uint64_t frames;
  // Their bytes.
  uint64_t bytes;
  // Frames lost.
  uint64_t lost;
  // Frames late.
  uint64_t late;
  // Frames of layers that are not granted.
  uint64_t withheld;
  // Deadlines missed on this host.
  uint64_t missed;
  // Mean one-way delay, us.
  int64_t delay_mean_us;
  // Greatest one-way delay, us.
  int64_t delay_max_us;
  // Jitter, us (RFC 3550).
  uint64_t jitter_us;
  // Playout delay, us.
  int64_t playout_us;
  // Cells/s.
  uint32_t rate;
  // Level in force.
  uint32_t level;
  // Eras with congestion.
  uint32_t congested_eras;
} lc_metric;

// An upcall of a management socket.
typedef struct {
  // 1: periodic figures, in `metric`; 2: an event.
  uint32_t kind;
  // Name of the event, such as "LAYER_ADD"; "QOS_METRIC" for figures.
  char name[32];
  // The event in words.
  char text[480];
  // Of TARGET_RATE: what the encoder may send now, all media of the flow together, in bit/s.
  uint64_t target_bps;
  // For kind 1.
  lc_metric metric;
} lc_upcall;

// Rate of one layer in ATM cells of 48 bytes.
typedef struct {
  // Mean, cells/s; 0 if the layer is not used.
  uint32_t mean;
  // Highest over one group of pictures, cells/s; 0 means the mean.
  uint32_t peak;
  // Largest frame, cells.
  uint32_t burst;
} lc_layer;

// What a flow needs; see lc_flow_spec_default().
typedef struct {
  // Frames per second, all layers together: numerator.
  uint32_t frame_rate_num;
  // Denominator.
  uint32_t frame_rate_den;
  // Frames in a group of pictures.
  uint32_t gop_n;
  // From one anchor picture to the next.
  uint32_t gop_m;
  // Largest frame, bytes.
  uint32_t max_frame;
  // BL, E1, E2.
  lc_layer layers[3];
  // Frames are played this long after they were sent, ms; 0: adapted to the observed delays.
  uint32_t delay_max_ms;
  // Bound of the jitter, ms; 0: none.
  uint32_t jitter_max_ms;
  // Bound of the loss, permille.
  uint32_t loss_max_permille;
  // What the layers are to each other. LC_ADDITIVE: a level is the sum of its layers. LC_ALTERNATIVE: a level is one
  // layer, a whole rendition, and its rate in `layers` is that of the level. Frames of one time are sent together then,
  // the base layer first, and the frame rate counts all of them.
  uint32_t composition;
  // Pictures per second, where frames are sound too or pictures of several renditions: numerator; 0 if every frame is a
  // picture.
  uint32_t picture_rate_num;
  // Denominator.
  uint32_t picture_rate_den;
} lc_flow_spec;

// What is known of a group.
typedef struct {
  // The flow.
  uint32_t flow;
  // Members known here.
  uint32_t members;
  // 0 open, 1 draining, 2 lingering, 3 closed.
  uint32_t state;
  // What it needs.
  lc_flow_spec spec;
  // Name of the group.
  char name[260];
  // The node it comes from.
  char server[260];
  // Its core switch; empty if there is none.
  char core[260];
} lc_group_info;

// A member of a group.
typedef struct {
  // Its number.
  uint32_t id;
  // Its name, with a final zero.
  char name[260];
} lc_member;

// What a member receives.
typedef struct {
  // The member.
  lc_member member;
  // Level granted, 0..2.
  uint32_t level;
  // Frames played by layer.
  uint64_t frames[3];
  // Frames lost by layer.
  uint64_t lost[3];
  // Frames late.
  uint64_t late;
} lc_member_stats;

// How to join; see lc_join_options_default(). All zero but `level` and `registered` is the default.
typedef struct {
  // Name of the member; null: one is made up.
  const char *name;
  // PEM file with authorities to believe, where the address has no fingerprint; null: none.
  const char *authorities;
  // Highest level wanted, 0..2.
  uint32_t level;
  // 0: nothing is joined before lc_register_soc().
  uint32_t registered;
  // Frames are played this long after they were sent, ms; 0: as the flow specifies.
  uint32_t playout_ms;
  // Frames are played this long after their time at the source, ms, at the same moment at all members, on any host; 0: they
  // are not. It replaces `playout_ms`.
  uint32_t sync_ms;
  // How long the join may take while no node answers or the flow is missing, ms; 0: 10 s.
  uint32_t flow_within_ms;
  // What the user wants of the network: the name of a profile of the library, such as "conferencing", or the path of a file; null:
  // what the flow offers. AGREED tells what is agreed.
  const char *profile;
} lc_join_options;

// A frame that is due.
typedef struct {
  // LC_BL, LC_E1 or LC_E2.
  uint8_t layer;
  // Not 0 if it opens a group of pictures.
  uint8_t gop_start;
  // Not 0 if it is sound. Pictures come in the order of their numbers, and so does sound; while pictures wait for a missing
  // one, sound may overtake them, and the other way round.
  uint8_t sound;
  // Its number in the flow; frames of layers that are not granted leave gaps.
  uint32_t seq;
  // From emission to arrival, us.
  uint64_t delay_us;
  // Its bytes.
  size_t len;
} lc_played;

// A filter.
typedef struct {
  // 0 jitter, 1 picture dropping, 2 low-pass, 3 dynamic rate shaping.
  uint32_t kind;
  // Low-pass: coefficients of 64 that are kept.
  uint32_t keep;
} lc_filter;

// Filters, for LC_FILTER.
typedef struct {
  // How many.
  uint32_t count;
  // The filters.
  lc_filter filters[LC_MAX_FILTERS];
} lc_filters;

// What to do when quality cannot be had, or more can; see lc_qos_policy_default().
typedef struct {
  // 0 maint, 1 monitor, 2 signal.
  uint32_t mode;
  // 0 none, 1 discrete, 2 continuous.
  uint32_t adapt;
  // 0 inform, 1 drop a layer, 2 put in `scarce_filter`, 3 disconnect.
  uint32_t on_scarce;
  // For on_scarce 2.
  lc_filter scarce_filter;
  // 0 ignore, 1 inform (answer with lc_allow_raise()), 2 add a layer.
  uint32_t on_plenty;
  // Never less than this level, 0..2.
  uint32_t min_level;
  // Never more than this level, 0..2.
  uint32_t max_level;
  // Filters in use.
  lc_filters filters;
  // Period of signals, ms.
  uint32_t signal_period_ms;
  // Missed deadlines of 24 that raise MISSED_DEADLINE.
  uint32_t missed_deadline_threshold;
  // Late frames in a group of pictures that move the playout point.
  uint32_t late_threshold;
} lc_qos_policy;

// A frame to send.
typedef struct {
  // LC_BL, LC_E1 or LC_E2.
  uint8_t layer;
  // Not 0 if it opens a group of pictures.
  uint8_t gop_start;
  // Not 0 if it is sound or other data beside the pictures, in the base layer: nothing refers from one to the other.
  uint8_t sound;
  // When it is due, us from the start of the flow, or LC_NO_TIME.
  uint64_t time_us;
  // Its bytes.
  const uint8_t *data;
  // How many, at least one.
  size_t len;
} lc_frame;

// How a stream is served; see lc_serve_options_default().
typedef struct {
  // File with certificate and key (PEM), made if it is missing: URLs stay the same as long as it is kept. Null: an identity
  // of its own each time.
  const char *identity;
  // Which pictures are in which layer, as `layercast serve --map` takes it. Null: as the codec has it.
  const char *map;
  // The program of the transport stream that is served alone; 0: the first with video.
  uint32_t program;
  // Not 0: the programs of the transport stream are renditions of one film.
  uint32_t renditions;
  // Frames are played this long after they were sent, ms.
  uint32_t delay_max_ms;
  // Most that frames wait so that they leave evenly spaced, ms; 0: they leave as they come.
  uint32_t lead_ms;
} lc_serve_options;

// How the flow follows the bandwidth, for LC_ADAPT.
typedef struct {
  // 0 none, 1 discrete, 2 continuous.
  uint32_t mode;
} lc_adapt;

// An alarm, for LC_EVENT.
typedef struct {
  // 0 loss (permille), 1 late frames, 2 delay (us), 3 jitter (us), 4 rate (cells/s).
  uint32_t metric;
  // 0: when it rises above the threshold, 1: when it falls below.
  uint32_t below;
  // Over how long it is taken, ms; 0 removes the alarm.
  uint32_t window_ms;
  // Whether the alarm is gone once it fired.
  uint32_t oneshot;
  // In the unit of the metric.
  double threshold;
  // How far it has to come back before the alarm is armed again.
  double hysteresis;
} lc_alarm;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Binds a media socket to its management socket (registerSoc): only then requests are served, and a flow
// is joined. Sockets are registered from the start unless lc_join_options says otherwise.
int32_t lc_register_soc(lc_socket management_socket,
                        lc_socket media);

// Asks for a change of quality of service (changeQoS): LC_OK is the Ack; anything else is a Nak, after
// which everything is as it was. `options` is exactly one LC_FLOW_SPEC .. LC_EVENT, `structure` points to
// the structure that it names, `size` is its sizeof (null and 0 where there is none).
//
// # Safety
// `structure` is null or points to `size` bytes.
int32_t lc_change_qos(lc_socket management_socket,
                      uint32_t options,
                      const void *structure,
                      size_t size);

// Takes the next upcall (signalQoS). LC_ECLOSED after the last one.
//
// # Safety
// `upcall` is null or points to `size` bytes.
int32_t lc_signal_qos(lc_socket management_socket,
                      lc_upcall *upcall,
                      size_t size,
                      int32_t timeout_ms);

// What is known of the group (getGroupInfo).
//
// # Safety
// `info` is null or points to `size` bytes.
int32_t lc_get_group_info(lc_socket management_socket, lc_group_info *info, size_t size);

// The receivers of the flow, with their quality (getGroupStats): at most `capacity` of them, each of `size`
// bytes. `count` gets the total number.
//
// # Safety
// `stats` is null or points to `capacity` times `size` bytes, `count` is null or has room for a number.
int32_t lc_get_group_stats(lc_socket management_socket,
                           lc_member_stats *stats,
                           size_t size,
                           size_t capacity,
                           size_t *count);

// The answer to a MAY_RAISE upcall: a higher level is welcome.
int32_t lc_allow_raise(lc_socket management_socket);

// Wants something else of the network than before: the name of a profile of the library or the path of a file; null: nothing any more.
// AGREED tells when another contract is in force; LC_EADMIT: it is not offered, and everything is as it was.
//
// # Safety
// `profile` is null or a text.
int32_t lc_set_profile(lc_socket management_socket,
                       const char *profile);

// Leaves the group (leaveGroup): 0 because the user had enough, 1 because of its policy, 2 because its
// host fails. The branch is pruned and its reservations are released when it returns.
int32_t lc_leave_group(lc_socket management_socket,
                       uint32_t reason);

// Every way of joining at its default: all layers, registered.
//
// # Safety
// `options` is null or points to `size` bytes.
int32_t lc_join_options_default(lc_join_options *options, size_t size);

// Joins the flow at `url` (joinGroup): when it returns the base layer is reserved on the whole way.
// Gives its media socket, and its control and management sockets where those are not null. Without
// `options` they are the default.
//
// # Safety
// `url` is a text; `options` is null or points to `size` bytes, its members are null or texts; the others
// are null or have room for a descriptor.
int32_t lc_join_group(const char *url,
                      const lc_join_options *options,
                      size_t size,
                      lc_socket *media,
                      lc_socket *control,
                      lc_socket *management);

// Joins the flow at `url` as lc_join_group() does, and writes its media to the file descriptor `fd` as one MPEG transport
// stream (AV1, VP8 and VP9 in IVF), frame by frame when they are due. `fd` is the library's from then on, also where the call fails: it is closed at the
// end of the flow. If they are not read in time, frames are left out. A reader that closes its end of a pipe raises SIGPIPE in this
// process, and one of a socket, such as socketpair() makes, raises nothing. The flow is left once `management` and `control` are
// closed; one of them may be null.
//
// # Safety
// `url` is a text; `options` is null or points to `size` bytes, its members are null or texts; `fd` is open, and nothing
// else closes it; the others are null or have room for a descriptor.
int32_t lc_join_stream(const char *url,
                       const lc_join_options *options,
                       size_t size,
                       int32_t fd,
                       lc_socket *control,
                       lc_socket *management);

// Takes the next frame, when it is due. Its bytes go to `buffer`; if that is too small `frame->len` says
// how large it has to be, the call gives LC_EINVAL, and the frame can be taken again. LC_ECLOSED after
// the last frame of the flow.
//
// # Safety
// `frame` is null or points to `size` bytes, `buffer` is null or points to `capacity` bytes.
int32_t lc_recv(lc_socket media,
                lc_played *frame,
                size_t size,
                uint8_t *buffer,
                size_t capacity,
                int32_t timeout_ms);

// Sends a message of at most 16 KiB on a control socket, reliably and in order: to the source, or from a
// source to the member `to`.
//
// # Safety
// `to` is null or points to `size` bytes, `data` is null or points to `len` bytes.
int32_t lc_control_send(lc_socket control,
                        const lc_member *to,
                        size_t size,
                        const uint8_t *data,
                        size_t len);

// Takes the next message from a control socket, as lc_recv() takes a frame. `len` gets its length; at a source
// `from`, if not null, gets its sender.
//
// # Safety
// `from` is null or points to `size` bytes, `buffer` is null or points to `capacity` bytes, `len` is null or
// has room for a number.
int32_t lc_control_recv(lc_socket control,
                        lc_member *from,
                        size_t size,
                        uint8_t *buffer,
                        size_t capacity,
                        size_t *len,
                        int32_t timeout_ms);

// A file descriptor that is readable while the media, control or management socket has something to
// take, or is over; for poll() and its kin only. It goes with the socket.
//
// Gives the file descriptor, or LC_EINVAL for a descriptor that is none or has nothing to take.
int32_t lc_poll_fd(lc_socket socket);

// Closes a descriptor. A stream that is served ends. A sink leaves its flow once its media, control and
// management sockets are all closed; a server stops, and closes its flows in order, once its groups are closed
// too: closed after them it returns when the members have been notified, or after a few seconds.
int32_t lc_close(lc_socket socket);

// A host with sources that listens on `address`, HOST:PORT; port 0 lets the system choose. Its links are
// protected; members know it by the fingerprint in lc_group_url().
//
// # Safety
// `address` is a text; `server` is null or has room for a descriptor.
int32_t lc_server_open(const char *address,
                       lc_socket *server);

// A flow specification with every field at its default and no layer in use.
//
// # Safety
// `spec` is null or points to `size` bytes.
int32_t lc_flow_spec_default(lc_flow_spec *spec, size_t size);

// A policy with every field at its default: maintain and signal each second, whole layers, drop a layer
// when bandwidth is scarce and add one when there is more.
//
// # Safety
// `policy` is null or points to `size` bytes.
int32_t lc_qos_policy_default(lc_qos_policy *policy,
                              size_t size);

// Opens a group (openGroup) and gives its media socket, and its control and management sockets where
// those are not null. Without `spec` what the flow needs is learned from its first group of pictures, at
// 24 frames a second, and renegotiated when later ones need more; without `policy` it has the default.
//
// # Safety
// `name` is a text; `spec` and `policy` are null or point to as many bytes as their sizes say; the
// others are null or have room for a descriptor.
int32_t lc_open_group(lc_socket server,
                      const char *name,
                      const lc_flow_spec *spec,
                      size_t spec_size,
                      const lc_qos_policy *policy,
                      size_t policy_size,
                      lc_socket *media,
                      lc_socket *control,
                      lc_socket *management);

// What a sink joins the group with, by its media socket or its stream, with its final zero. LC_EINVAL if `size` is too
// small.
//
// # Safety
// `url` is null or points to `size` bytes.
int32_t lc_group_url(lc_socket media,
                     char *url,
                     size_t size);

// Waits until the group has this number of members.
int32_t lc_wait_for_members(lc_socket media, uint32_t members, int32_t timeout_ms);

// Sends a frame: frames of every layer, in the order in which they are decoded. Waits while the flow is a
// few frames ahead of its schedule; after LC_ETIMEDOUT the frame was not sent.
//
// # Safety
// `frame` is null or points to `size` bytes, its `data` to `len` bytes.
int32_t lc_send(lc_socket media,
                const lc_frame *frame,
                size_t size,
                int32_t timeout_ms);

// Closes the group (closeGroup): queued frames leave within `grace_ms`, then the members are notified and
// released. `undelivered`, if not null, gets the number of frames that could not leave in time.
//
// # Safety
// `undelivered` is null or has room for a number.
int32_t lc_close_group(lc_socket media,
                       uint32_t grace_ms,
                       uint32_t *undelivered);

// Name of a status code, such as "EADMIT"; never null.
const char *lc_status_name(int32_t status);

// Why the last call of this thread that failed did so, as text, cut to `size` with its final zero.
// Gives the length of the whole text.
//
// # Safety
// `text` is null or points to `size` bytes.
size_t lc_last_error(char *text, size_t size);

// Every way of serving a stream at its default.
//
// # Safety
// `options` is null or points to `size` bytes.
int32_t lc_serve_options_default(lc_serve_options *options, size_t size);

// Serves the MPEG transport stream that is read from the file descriptor `fd` as the group `name`, from a host of its own
// that listens on `address`, HOST:PORT; port 0 lets the system choose. It is read as `layercast serve -` reads it: live, or
// as fast as its media play. `fd` is the library's from then on, also where the call fails; it is closed at its end, or where
// the stream cannot be served. The call does not wait for media: lc_stream_wait() says when the group can be joined, and
// lc_group_url() by what. The group ends with the stream, or when the descriptor is closed. Without `options` they are the
// default.
//
// # Safety
// `address` and `name` are texts; `options` is null or points to `size` bytes, its members are null or texts; `fd` is open,
// and nothing else closes it; `stream` is null or has room for a descriptor.
int32_t lc_serve_stream(const char *address,
                        const char *name,
                        const lc_serve_options *options,
                        size_t size,
                        int32_t fd,
                        lc_socket *stream);

// Waits until a stream of lc_serve_stream() is served (LC_SERVED) or at its end (LC_ENDED). A stream that cannot be served
// gives the cause: it is no transport stream, its video cannot be read, or it ended before it could be served. LC_ECLOSED
// if it is closed meanwhile.
int32_t lc_stream_wait(lc_socket stream,
                       uint32_t until,
                       int32_t timeout_ms);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LAYERCAST_H */
