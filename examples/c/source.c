/* Sends a video file, picture by picture: source FILE HOST:PORT
 *   cargo build --release -p layercast-c
 *   cc source.c -I../../crates/capi/include -L../../target/release -Wl,-rpath,$PWD/../../target/release \
 *      -llayercast_c -o source */
#include <layercast.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what) {
    char text[512];
    lc_last_error(text, sizeof text);
    fprintf(stderr, "%s: %s\n", what, text);
    return 1;
}

/* Where the next picture starts after `at`: its headers come first. */
static size_t next(const uint8_t *film, size_t size, size_t at) {
    for (int seen = film[at + 3] == 0; ++at + 4 <= size;)
        if (!film[at] && !film[at + 1] && film[at + 2] == 1 && film[at + 3] == 0 && !seen++) continue;
        else if (!film[at] && !film[at + 1] && film[at + 2] == 1 && seen
                 && (film[at + 3] == 0 || film[at + 3] == 0xb3 || film[at + 3] == 0xb8)) return at;
    return size;
}

int main(int argc, char **argv) {
    FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (!file) return fprintf(stderr, "usage: source FILE HOST:PORT\n"), 2;
    uint8_t *film = malloc(64 << 20);
    size_t size = fread(film, 1, 64 << 20, file);
    lc_socket server, media;
    char url[512];
    if (lc_server_open(argv[2], &server)) return failed(argv[2]);
    if (lc_open_group(server, "film", NULL, 0, NULL, 0, &media, NULL, NULL)) return failed("group");
    lc_group_url(media, url, sizeof url);
    printf("%s\n", url), fflush(stdout);
    for (size_t at = 0, end; size > 4 && at < size; at = end) {
        end = next(film, size, at);
        int kind = 1;   /* 1 I, 2 P, 3 B: three bits behind the picture start code */
        for (size_t i = at; i + 5 < end; i++)
            if (!film[i] && !film[i + 1] && film[i + 2] == 1 && !film[i + 3]) { kind = film[i + 5] >> 3 & 7; break; }
        lc_frame frame = {.layer = kind - 1, .gop_start = kind == 1, .time_us = LC_NO_TIME,
                          .data = film + at, .len = end - at};
        if (lc_send(media, &frame, sizeof frame, -1)) return failed("send");
    }
    if (lc_close_group(media, 5000, NULL)) return failed("close");
    free(film), fclose(file);
    return lc_close(media) || lc_close(server);
}
