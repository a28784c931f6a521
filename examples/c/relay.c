/* Relays MPEG-1 video from standard input, picture by picture, as it comes. Prints the URL to join.
 *   ffmpeg -f v4l2 -i /dev/video0 -c:v mpeg1video -r 25 -g 12 -bf 2 -f mpeg1video - | ./relay 0.0.0.0:7400
 *   cargo build --release -p layercast-c
 *   cc relay.c -I../../crates/capi/include -L../../target/release -Wl,-rpath,$PWD/../../target/release \
 *      -llayercast_c -o relay */
#include <layercast.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint8_t video[8 << 20];

/* What is reserved, in cells of 48 bytes per second: about 1, 1.5 and 1 Mbit/s of BL, E1 and E2. */
static const lc_layer RATES[3] = {{2600, 8000, 1400}, {3900, 12000, 1400}, {2600, 8000, 1400}};

static int failed(const char *what) {
    char text[512];
    lc_last_error(text, sizeof text);
    return fprintf(stderr, "%s: %s\n", what, text), 1;
}

/* The end of the first picture in `size` bytes: where the headers of the next one begin. 0: not here yet.
 * `kind` gets its type: 1 I, 2 P, 3 B. */
static size_t first_picture(size_t size, int *kind) {
    *kind = 0;
    for (size_t at = 0; at + 6 <= size; at++) {
        if (video[at] || video[at + 1] || video[at + 2] != 1) continue;
        uint8_t code = video[at + 3];
        if (*kind && (code == 0x00 || code == 0xb3 || code == 0xb8)) return at;
        if (code == 0x00) *kind = video[at + 5] >> 3 & 7;
    }
    return 0;
}

int main(int argc, char **argv) {
    lc_socket server, media;
    lc_flow_spec spec;
    char url[512];
    if (argc != 2) return fprintf(stderr, "usage: relay HOST:PORT < VIDEO\n"), 2;
    if (lc_server_open(argv[1], &server)) return failed(argv[1]);
    lc_flow_spec_default(&spec, sizeof spec);
    spec.frame_rate_num = 25, spec.frame_rate_den = 1;
    spec.gop_n = 12, spec.gop_m = 3, spec.max_frame = 64 << 10, spec.delay_max_ms = 1000;
    memcpy(spec.layers, RATES, sizeof RATES);
    if (lc_open_group(server, "camera", &spec, sizeof spec, NULL, 0, &media, NULL, NULL)) return failed("group");
    lc_group_url(media, url, sizeof url);
    printf("%s\n", url), fflush(stdout);
    size_t size = 0;
    for (ssize_t got; size < sizeof video && (got = read(0, video + size, sizeof video - size)) > 0;) {
        size += got;
        int kind;
        for (size_t end; (end = first_picture(size, &kind)) > 0;) {
            lc_frame frame = {.layer = kind - 1, .gop_start = kind == 1, .time_us = LC_NO_TIME, .data = video, .len = end};
            if (lc_send(media, &frame, sizeof frame, -1)) return failed("send");
            memmove(video, video + end, size -= end);
        }
    }
    if (lc_close_group(media, 5000, NULL)) return failed("close");
    return lc_close(media) || lc_close(server);
}
