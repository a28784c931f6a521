/* Initialisation and results of the manipulations of ilp.h. */
#include "ilp.h"

u_char saferk64_user_key[8];

void TCP_xsum_final(u_int *xsum) {
    while (*xsum > 0xffff) *xsum = (*xsum & 0xffff) + (*xsum >> 16);
    *xsum = ~*xsum & 0xffff;
}

void crc_final(u_int *crc) { *crc = ~*crc; }

void crc32_aal5_ilp_init(u_int **table) {
    static u_int own[256];
    for (u_int at = 0; at < 256; at++) {
        u_int crc = at << 24;
        for (int bit = 0; bit < 8; bit++) crc = crc << 1 ^ (crc >> 31 ? 0x04c11db7u : 0);
        own[at] = crc;
    }
    *table = own;
}

void crc32c_ilp_init(u_int **table) {
    static u_int own[256];
    for (u_int at = 0; at < 256; at++) {
        u_int crc = at;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        own[at] = crc;
    }
    *table = own;
}

void saferk64_ilp_init(char **key, u_int **logtab, u_int **exptab) {
    static u_int log_[256], exp_[256];
    static u_char keys[8 * (2 * SAFER_ROUNDS + 1)];
    u_int power = 1;
    for (u_int at = 0; at < 256; at++) {
        exp_[at] = power & 0xff;
        log_[power & 0xff] = at;
        power = power * 45 % 257;
    }
    u_char run[8];
    for (int j = 0; j < 8; j++) keys[j] = run[j] = saferk64_user_key[j];
    for (int i = 2; i <= 2 * SAFER_ROUNDS + 1; i++)
        for (int j = 0; j < 8; j++) {
            run[j] = (u_char)(run[j] << 3 | run[j] >> 5);
            keys[8 * (i - 1) + j] = run[j] + exp_[exp_[(9 * i + j + 1) & 0xff]];
        }
    *key = (char *)keys;
    *logtab = log_;
    *exptab = exp_;
}
