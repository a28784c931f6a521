// Speed of ISA-L (Debian libisal) on one core: GB/s of source packets of 1,400 octets encoded, as
// crates/fec/examples/throughput.rs measures its own codes. Prints JSON.
#include <isa-l.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OCTETS = 1400, MOST = 128 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static unsigned char *packets[MOST], *parities[MOST];
static unsigned char tables[32 * MOST * MOST], matrix[2 * MOST * MOST];

// The best of five measurements of 60 ms, as in Rust; what: 0 a copy, 1 Reed-Solomon, 2 XOR.
static double speed(int n, int m, int what) {
    double best = 0;
    for (int round = 0; round < 5; round++) {
        double start = now(), passed = 0;
        long times = 0;
        while (passed < 0.06) {
            for (int i = 0; i < 16; i++) {
                if (what == 0) {
                    for (int p = 0; p < n; p++) memcpy(parities[p], packets[p], OCTETS);
                } else if (what == 1) {
                    ec_encode_data(OCTETS, n, m, tables, packets, parities);
                } else {
                    void *all[MOST];
                    for (int p = 0; p < n; p++) all[p] = packets[p];
                    all[n] = parities[0];
                    xor_gen(n + 1, OCTETS, all);
                }
                __asm__ volatile("" ::: "memory");
            }
            times += 16;
            passed = now() - start;
        }
        double gigabytes = 1e-9 * times * n * OCTETS / passed;
        if (gigabytes > best) best = gigabytes;
    }
    return best;
}

int main(void) {
    const int shapes[][2] = {{7, 1}, {6, 2}, {20, 4}, {100, 20}};
    for (int p = 0; p < MOST; p++) {
        // xor_gen asks for alignment to 32 octets.
        if (posix_memalign((void **)&packets[p], 64, 1408) || posix_memalign((void **)&parities[p], 64, 1408)) return 1;
        for (int at = 0; at < OCTETS; at++) packets[p][at] = 7 * at + 13 * p;
    }
    printf("[{\"scheme\": \"memcpy-c\", \"n\": 0, \"m\": 0, \"encode\": %f}", speed(7, 0, 0));
    printf(", {\"scheme\": \"isal-xor\", \"n\": 7, \"m\": 1, \"encode\": %f}", speed(7, 1, 2));
    for (int shape = 0; shape < 4; shape++) {
        int n = shapes[shape][0], m = shapes[shape][1];
        gf_gen_cauchy1_matrix(matrix, n + m, n);
        ec_init_tables(n, m, &matrix[n * n], tables);
        printf(", {\"scheme\": \"isal\", \"n\": %d, \"m\": %d, \"encode\": %f}", n, m, speed(n, m, 1));
    }
    printf("]\n");
    return 0;
}
