/* Data manipulations as macros: N registers, then parameters. For reproduction; see crates/ilp for the product stages. */
#ifndef ILP_H
#define ILP_H
#include <stddef.h>
#include <stdint.h>
#define u_int uint32_t
#define u_char uint8_t

/* Registers hold values; memory holds network order. */
#define writereg(reg, dst) do { u_char *p_ = (u_char *)(dst); u_int r_ = (reg); \
    p_[0] = r_ >> 24; p_[1] = r_ >> 16; p_[2] = r_ >> 8; p_[3] = r_; } while (0)
#define readreg(src, reg) do { const u_char *p_ = (const u_char *)(src); \
    (reg) = (u_int)p_[0] << 24 | (u_int)p_[1] << 16 | (u_int)p_[2] << 8 | p_[3]; } while (0)

#define copy_word(r1) do { (void)(r1); } while (0)
#define byte_swap(r1) do { u_int w_ = (r1); (r1) = w_ >> 24 | (w_ >> 8 & 0xff00) | (w_ << 8 & 0xff0000) | w_ << 24; } while (0)
/* Folded at once, so that 32 bits never overflow. */
#define tcp_checksum(r1, xsum) do { (xsum) += ((r1) >> 16) + ((r1) & 0xffff); \
    (xsum) = ((xsum) & 0xffff) + ((xsum) >> 16); } while (0)
#define xor_parity(r1, parity) do { (parity) ^= (r1); } while (0)
#define crc32_aal5(r1, crc, table) do { (crc) ^= (r1); \
    for (int i_ = 0; i_ < 4; i_++) (crc) = (crc) << 8 ^ (table)[(crc) >> 24]; } while (0)
#define crc32c(r1, crc, table) do { u_int x_ = (r1); byte_swap(x_); (crc) ^= x_; \
    for (int i_ = 0; i_ < 4; i_++) (crc) = (crc) >> 8 ^ (table)[(crc) & 0xff]; } while (0)
#define pes_encrypt(r1) do { u_int w_ = (r1) ^ 0x9e3779b9u; (r1) = (w_ << 5 | w_ >> 27) + 0x7f4a7c15u; } while (0)
#define pes_decrypt(r1) do { u_int w_ = (r1) - 0x7f4a7c15u; (r1) = (w_ >> 5 | w_ << 27) ^ 0x9e3779b9u; } while (0)
#define saferk64_encrypt(r1, r2, key, logtab, exptab) do { u_char b_[8]; writereg(r1, b_); writereg(r2, b_ + 4); \
    saferk64_block(b_, (const u_char *)(key), logtab, exptab); readreg(b_, r1); readreg(b_ + 4, r2); } while (0)
#define saferk64_decrypt(r1, r2, key, logtab, exptab) do { u_char b_[8]; writereg(r1, b_); writereg(r2, b_ + 4); \
    saferk64_unblock(b_, (const u_char *)(key), logtab, exptab); readreg(b_, r1); readreg(b_ + 4, r2); } while (0)

/* Octets 1, 4, 5 and 8 are mixed by exclusive or first. */
#define SAFER_X(j) ((j) == 0 || (j) == 3 || (j) == 4 || (j) == 7)
#define SAFER_ROUNDS 6
static const u_char safer_pairs[24] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 4, 6, 1, 3, 5, 7, 0, 4, 1, 5, 2, 6, 3, 7};
static const u_char safer_order[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static inline void saferk64_block(u_char *b, const u_char *key, const u_int *logtab, const u_int *exptab) {
    u_char t[8];
    for (int q = 0; q < SAFER_ROUNDS; q++, key += 16) {
        for (int j = 0; j < 8; j++)
            b[j] = SAFER_X(j) ? exptab[b[j] ^ key[j]] + key[8 + j] : logtab[(u_char)(b[j] + key[j])] ^ key[8 + j];
        for (int p = 0; p < 24; p += 2) { b[safer_pairs[p + 1]] += b[safer_pairs[p]]; b[safer_pairs[p]] += b[safer_pairs[p + 1]]; }
        for (int j = 0; j < 8; j++) t[j] = b[safer_order[j]];
        for (int j = 0; j < 8; j++) b[j] = t[j];
    }
    for (int j = 0; j < 8; j++) b[j] = SAFER_X(j) ? b[j] ^ key[j] : b[j] + key[j];
}

static inline void saferk64_unblock(u_char *b, const u_char *key, const u_int *logtab, const u_int *exptab) {
    u_char t[8];
    key += 16 * SAFER_ROUNDS;
    for (int j = 0; j < 8; j++) b[j] = SAFER_X(j) ? b[j] ^ key[j] : b[j] - key[j];
    for (int q = 0; q < SAFER_ROUNDS; q++) {
        key -= 16;
        for (int j = 0; j < 8; j++) t[safer_order[j]] = b[j];
        for (int p = 22; p >= 0; p -= 2) { t[safer_pairs[p]] -= t[safer_pairs[p + 1]]; t[safer_pairs[p + 1]] -= t[safer_pairs[p]]; }
        for (int j = 0; j < 8; j++)
            b[j] = SAFER_X(j) ? logtab[(u_char)(t[j] - key[8 + j])] ^ key[j] : exptab[t[j] ^ key[8 + j]] - key[j];
    }
}

extern u_char saferk64_user_key[8];
void saferk64_ilp_init(char **key, u_int **logtab, u_int **exptab);
void crc32_aal5_ilp_init(u_int **table);
void crc32c_ilp_init(u_int **table);
void TCP_xsum_final(u_int *xsum);
void crc_final(u_int *crc);
#endif
