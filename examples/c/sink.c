/* Writes a flow to standard output, and its upcalls to standard error: sink URL | ffplay -
 *   cargo build --release -p layercast-c
 *   cc sink.c -I../../crates/capi/include -L../../target/release -Wl,-rpath,$PWD/../../target/release \
 *      -llayercast_c -o sink */
#include <layercast.h>
#include <poll.h>
#include <stdio.h>

static uint8_t picture[1 << 20];

int main(int argc, char **argv) {
    lc_socket media, management;
    lc_played frame;
    lc_upcall upcall;
    char text[512];
    if (argc != 2) return fprintf(stderr, "usage: sink URL\n"), 2;
    if (lc_join_group(argv[1], NULL, 0, &media, NULL, &management)) {
        lc_last_error(text, sizeof text);
        return fprintf(stderr, "%s\n", text), 1;
    }
    lc_alarm late = {.metric = 1, .window_ms = 1000, .threshold = 0};
    int status = lc_change_qos(management, LC_EVENT, &late, sizeof late);
    fprintf(stderr, "alarm on late frames: %s\n", lc_status_name(status));
    struct pollfd ready[] = {{.fd = lc_poll_fd(media), .events = POLLIN},
                             {.fd = lc_poll_fd(management), .events = POLLIN}};
    unsigned long frames = 0;
    while (poll(ready, 2, -1) > 0) {
        status = lc_recv(media, &frame, sizeof frame, picture, sizeof picture, 0);
        if (status == LC_OK) {
            fwrite(picture, 1, frame.len, stdout);
            frames++;
        } else if (status != LC_ETIMEDOUT) break;
        if (lc_signal_qos(management, &upcall, sizeof upcall, 0) == LC_OK && upcall.kind == 2)
            fprintf(stderr, "%s\n", upcall.text);
    }
    fprintf(stderr, "%lu frames, then %s\n", frames, lc_status_name(status));
    lc_close(media), lc_close(management);
    return status == LC_ECLOSED ? 0 : 1;
}
