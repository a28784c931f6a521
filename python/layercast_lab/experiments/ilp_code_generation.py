"""ILP code generation: what the emitted loops send, what they access, what they gain."""

from __future__ import annotations

import tempfile
from pathlib import Path

import layercast
from layercast_lab import ilp
from layercast_lab.experiment import Context, Report, Row, experiment, judge, judge_shape
from layercast_lab.ilp import ENCRYPTION, EXAMPLE, HARDWARE, PAPER_GENERATION

SPEC = "ilp-code-generation"
TITLES = {
    "b1": "A file transfer with fused loops",
    "b2": "Simple loops",
    "b3": "Generated and written by hand",
    "g1": "Golden octets",
    "g2": "All ways give the same octets",
    "g3": "Accesses to memory",
    "g4": "The gain on this machine",
    "g5": "The gain in the simulator",
    "g6": "Where a fault is found",
}
OURS = "specs/ilp-code-generation.md 4"

# Sends the words of the command line and prints octets; then flips a bit of one and prints the level.
SEND = r"""
#include <stdio.h>
#include <stdlib.h>
#include "ilp.h"
static unsigned long reads, writes;
#ifdef COUNTED
#undef readreg
#undef writereg
#define readreg(src, reg) do { reads++; (reg) = *(src); } while (0)
#define writereg(reg, dst) do { writes++; *(dst) = (reg); } while (0)
#endif
#include "if_ilp.c"
int main(int argc, char **argv) {
    static ILP_VAR_TYPE var;
    static u_int words[4096], out[8192], back[4096];
    size_t count = (size_t)argc - 3;
    const char *key = argv[1];
    for (int j = 0; j < 8; j++) {
        unsigned octet;
        sscanf(key + 2 * j, "%2x", &octet);
        saferk64_user_key[j] = octet;
    }
    for (int at = 3; at < argc; at++) words[at - 3] = strtoul(argv[at], 0, 10);
    ilp_init(&var);
    u_int *end = ilp_send_words(&var, out, out + 8192, words, count);
    printf("%lu %lu ", reads, writes);
    for (u_char *p = (u_char *)out; p < (u_char *)end; p++) printf("%02x", *p);
    long flip = strtol(argv[2], 0, 10);
    if (flip >= 0) ((u_char *)out)[flip] ^= 4;
    reads = writes = 0;
    int level = ilp_receive_words(&var, out, end, back, count);
    printf(" %d %lu %lu\n", level, reads, writes);
    return 0;
}
"""
KEY = "0807060504030201"
GOLDEN = (
    (KEY, (1, 2), "a6ac11c325b3a8900000794c"),
    (KEY, (1, 2, 3), "a6ac11c325b3a89073d3a4932cd9a357000090b4"),
)
VECTORS = (
    ("0000000000000000", (0, 0), "032808c90ee7ab7f"),
    (KEY, (0x01020304, 0x05060708), "c8f29cdd87783ed9"),
    ("0000000000000000", (0x01020304, 0x05060708), "7d28038633b92eb4"),
)


def sent(config: str, key: str, words, flip: int = -1, *flags: str) -> list[str]:
    """Reads, writes and octets of the sender; level, reads and writes of the receiver."""
    with tempfile.TemporaryDirectory() as folder:
        program = ilp.compiled(config, SEND, Path(folder), *flags)
        return ilp.printed(program, key, flip, *words).split()


def row(name: str, told: str, here: str, note: str = "") -> Row:
    """Two texts that must be equal."""
    return Row(name, told, here, "equal", judge(told == here), note)


@experiment(f"{SPEC}/g1", title=TITLES["g1"], paper=f"{OURS} and 2.7")
def g1(context: Context) -> Report:
    """G1: the example of the paper and SAFER K-64, by the emitted C."""
    rows = [
        row(f"ADU {', '.join(map(str, words))}", told, sent(EXAMPLE + ENCRYPTION, key, words)[2])
        for key, words, told in GOLDEN
    ]
    told = "0000000100000002000000030000fff9"
    rows.append(row("ADU 1, 2, 3, checksum only", told, sent(EXAMPLE, KEY, (1, 2, 3))[2]))
    alone = ENCRYPTION.replace("NEXT=CHECKSUM\n", "")
    rows += [
        row(f"SAFER K-64, key {key}, {words[0]:08x}{words[1]:08x}", told, sent(alone, key, words)[2])
        for key, words, told in VECTORS
    ]
    return Report(f"{SPEC}/g1", TITLES["g1"], rows)


@experiment(f"{SPEC}/g2", title=TITLES["g2"], paper=OURS)
def g2(context: Context) -> Report:
    """G2: random chains of one to five stages over random ADUs, one loop each, fused and in strips."""
    cases = (context.seeds or 10) * 1_000
    found = ilp.ask("verify", "--cases", str(cases))
    rows = [
        row(
            "sequential, fused and strips send the same octets",
            f"ours: {cases} cases",
            f"ours: {found['same']} cases",
        ),
        row("what is sent is received", f"ours: {cases} cases", f"ours: {found['returned']} cases"),
        row(
            "a flipped bit is reported where a stage checks",
            f"ours: {found['flipped']} cases",
            f"ours: {found['reported']} cases",
        ),
    ]
    return Report(f"{SPEC}/g2", TITLES["g2"], rows)


def chain(stages: int) -> str:
    """A configuration of this number of stages of one word: ciphers, and a checksum at the bottom."""
    blocks = []
    for at in range(stages - 1):
        macros = ("pes_encrypt", "pes_decrypt") if at % 2 == 0 else ("byte_swap", "byte_swap")
        below = f"S{at + 1}" if at + 2 < stages else "CHECKSUM"
        top = "POSITION=TOP\n" if at == 0 else ""
        blocks.append(
            f"[S{at}]\n{top}NEXT={below}\nLENGTH=4\nMACRONAME_S={macros[0]}\nMACRONAME_R={macros[1]}\n"
        )
    return "".join(blocks) + EXAMPLE


@experiment(f"{SPEC}/g3", title=TITLES["g3"], paper=f"{PAPER_GENERATION}, section 2")
def g3(context: Context) -> Report:
    """G3: reads and writes of memory by the hooks, whatever the number of stages."""
    rows = []
    words = range(1, 101)
    for stages in range(1, 6):
        found = sent(chain(stages), KEY, words, -1, "-DCOUNTED")
        # One word more goes to the trailer, and comes from it.
        writes, reads, level = int(found[1]), int(found[4]), found[3]
        rows.append(
            row(
                f"{stages} stages, 100 words and 1 of the trailer",
                "one write and one read a word: 101 and 101",
                f"one write and one read a word: {writes} and {reads}",
                f"level {level}",
            )
        )
    return Report(f"{SPEC}/g3", TITLES["g3"], rows)


def gains(context: Context) -> dict[tuple[str, int, bool], dict]:
    """Measured chains by name, octets and whether cold."""
    return {
        (one["chain"], one["octets"], one["cold"]): one
        for one in ilp.measured(10 * (context.seeds or 10) + 1)
    }


CIPHERS = {
    "trivial cipher": ("bswap, pes, checksum", (166, 190, 199)),
    "SAFER, 1 round": ("bswap, safer-k64 of 1, checksum", (19, 16, 17)),
    "SAFER, 6 rounds": ("bswap, safer-k64 of 6, checksum", (3, 2, 3)),
}
OCTETS = (1_024, 16_384, 65_536)


@experiment(f"{SPEC}/g4", title=TITLES["g4"], paper=OURS)
def g4(context: Context) -> Report:
    """G4: one fused loop beside a copy and one loop for each stage, on this machine."""
    found = gains(context)
    rows = []
    for at, octets in enumerate(OCTETS):
        warm = {name: 100 * (found[chain, octets, False]["gain"] - 1) for name, (chain, _) in CIPHERS.items()}
        values = list(warm.values())
        rows.append(
            Row(
                f"{octets} octets, warm: gain of {', '.join(warm)}",
                "the specification's own run: " + ", ".join(f"{told[at]} %" for _, told in CIPHERS.values()),
                ", ".join(f"{value:.0f} %" for value in values),
                "in this order, none below 0",
                judge(values[0] > values[1] > values[2] >= 0),
                HARDWARE,
            )
        )
        for name in list(CIPHERS)[1:]:
            cold = 100 * (found[CIPHERS[name][0], octets, True]["gain"] - 1)
            rows.append(
                Row(
                    f"{octets} octets, {name}: gain cold and warm",
                    "cold at least as much",
                    f"{cold:.0f} % and {warm[name]:.0f} %",
                    "cold at least warm",
                    judge(cold >= warm[name]),
                    HARDWARE,
                )
            )
        one = found[CIPHERS["trivial cipher"][0], octets, False]
        rows.append(
            Row(
                f"{octets} octets: a call for each stage and unit",
                "function calls spoil it",
                f"{one['calls_ns'] / one['fused_ns']:.1f} times the time",
                "slower",
                judge(one["calls_ns"] > one["fused_ns"]),
                HARDWARE,
            )
        )
    return Report(f"{SPEC}/g4", TITLES["g4"], rows)


@experiment(f"{SPEC}/g6", title=TITLES["g6"], paper=OURS)
def g6(context: Context) -> Report:
    """G6: a bit flipped in each region of an ADU, and the level that is reported."""
    two = (
        """
[CRC]
POSITION=TOP
NEXT=CIPHER
LENGTH=4
MACRONAME_S=crc32c
MACRONAME_R=crc32c
RESULT=(u_int, crc, ~0u)
VARIABLE=(u_int*, table)
INIT=crc32c_ilp_init
FINAL_S=(crc_final(crc))
FINAL_R=(crc_final(crc))
[CIPHER]
NEXT=CHECKSUM
LENGTH=4
MACRONAME_S=pes_encrypt
MACRONAME_R=pes_decrypt
"""
        + EXAMPLE
    )
    regions = (
        ("nothing", -1, 0),
        ("first word", 0, 1),
        ("last word", 15, 1),
        ("result of the top stage", 16, 3),
        ("result of the bottom stage", 20, 1),
    )
    rows = []
    for name, at, told in regions:
        level = sent(two, KEY, (1, 2, 3, 4), at)[3]
        rows.append(row(f"flipped: {name}", f"level {told}", f"level {level}"))
    return Report(f"{SPEC}/g6", TITLES["g6"], rows)


@experiment(
    f"{SPEC}/b2", title=TITLES["b2"], paper="Clark and Tennenhouse 1990, as quoted in PfHSN'96 chapter 13"
)
def b2(context: Context) -> Report:
    """B2: simple loops gain much, by the model of a machine of the time and on this one."""
    found = ilp.plan("copy,checksum", "ss2", True)
    simple = 100 * (found["sequential_ns"] / found["fused_ns"] - 1)
    full = transfer_gain(10_000_000)
    rows = [
        Row(
            "copy and checksum on SS-2, cold",
            "50 %",
            f"{simple:.0f} % by the model",
            "more than in a whole system",
            judge_shape(simple > 2 * full),
            f"whole system: {full:.0f} %",
        )
    ]
    one = gains(context)["bswap, pes, checksum", 16_384, False]
    rows.append(
        Row(
            "three simple loops on this machine",
            "50 %",
            f"{100 * (one['gain'] - 1):.0f} %",
            "-",
            "open",
            HARDWARE,
        )
    )
    return Report(f"{SPEC}/b2", TITLES["b2"], rows)


HAND = r"""
#include <stdio.h>
#include <time.h>
#include "if_ilp.c"
#define WORDS 4096
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
static u_int hand(const u_int *words, u_int *out) {
    u_int sum = 0;
    for (int at = 0; at < WORDS; at++) {
        u_int w = words[at];
        pes_encrypt(w);
        tcp_checksum(w, sum);
        writereg(w, out + at);
    }
    TCP_xsum_final(&sum);
    writereg(sum, out + WORDS);
    return sum;
}
int main(void) {
    static ILP_VAR_TYPE var;
    static u_int words[WORDS], one[WORDS + 8], two[WORDS + 8];
    double generated = 1e18, written = 1e18;
    for (int at = 0; at < WORDS; at++) words[at] = 2654435761u * at;
    for (int run = 0; run < 2001; run++) {
        double start = now();
        ilp_send_words(&var, one, one + WORDS + 8, words, WORDS);
        double middle = now();
        hand(words, two);
        double end = now();
        if (middle - start < generated) generated = middle - start;
        if (end - middle < written) written = end - middle;
    }
    for (int at = 0; at <= WORDS; at++) if (one[at] != two[at]) return 1;
    printf("%.4f %.4f\n", generated / (4 * WORDS), written / (4 * WORDS));
    return 0;
}
"""


@experiment(f"{SPEC}/b3", title=TITLES["b3"], paper=f"{PAPER_GENERATION}, section 6")
def b3(context: Context) -> Report:
    """B3: the emitted loop beside one written by hand with the same macros."""
    found = sent(chain(2), KEY, range(1, 101), -1, "-DCOUNTED")
    with tempfile.TemporaryDirectory() as folder:
        times = ilp.printed(ilp.compiled(chain(2), HAND, Path(folder))).split()
    generated, written = map(float, times)
    rows = [
        row("writes of the generated loop, 100 words", "101, as by hand", f"{found[1]}, as by hand"),
        Row(
            "time generated by time written by hand",
            "no noticeable difference",
            f"{generated:.3f} and {written:.3f} ns/octet, {generated / written - 1:+.0%}",
            "5 %",
            judge(abs(generated / written - 1) <= 0.05),
            HARDWARE,
        ),
    ]
    return Report(f"{SPEC}/b3", TITLES["b3"], rows)


SEGMENT = 4_096
# What a packet costs a host of 1996 (specs/mets.md 3.2): to send, to receive and deliver.
SENT_US, RECEIVED_US = 200, 400


def transfer(per_octet_ns: float, rate_bps: int) -> float:
    """Goodput of a greedy transfer of which each host pays `per_octet_ns` for an octet, in Mbit/s."""
    cost = {
        "per_sent": f"{SENT_US}us",
        "per_sent_byte": f"{per_octet_ns:.0f}ns",
        "per_packet": f"{RECEIVED_US}us",
        "per_byte": f"{per_octet_ns:.0f}ns",
    }
    scenario = {
        "schema": "internet/1",
        "name": "ilp",
        "run": {"duration": "22s", "warm_up": "2s"},
        "tcp": {"default": {"mss": SEGMENT}},
        "host": [{"name": "a", "cpu": cost}, {"name": "b", "cpu": cost}],
        "atm": {"policy": "noqos-conv-svc", "mtu": SEGMENT + 40},
    }
    scenario["atm"]["switch"] = [{"name": "x"}]
    scenario["atm"]["link"] = [
        {"ends": [end, "x"], "rate": f"{rate_bps} bit/s", "delay": "50us"} for end in ("a", "b")
    ]
    scenario["flow"] = [{"from": "a", "to": "b"}]
    summary = layercast.run(scenario, seed=1).summary
    return summary["flows"][0]["goodput_bps"] / 1e6


def transfer_gain(rate_bps: int) -> float:
    """Gain in goodput by fused loops, in percent."""
    found = ilp.plan("xdr,safer-k64,checksum", "ss2", True)
    found = {way: found[f"{way}_ns"] for way in ("fused", "sequential")}
    fused, apart = transfer(found["fused"], rate_bps), transfer(found["sequential"], rate_bps)
    return 100 * (fused / apart - 1)


def of_system(rates: tuple[int, ...]) -> list[Row]:
    """Gains of a whole file transfer."""
    rows = []
    for rate in rates:
        gain = transfer_gain(rate)
        rows.append(
            Row(
                f"marshalling, SAFER K-64 and checksum, link of {rate / 1e6:g} Mbit/s",
                "10-20 % more throughput",
                f"{gain:.1f} %",
                "10 to 20 %",
                judge(10 <= gain <= 20),
                "both hosts are SPARCstations 2 of the model, with the packet costs of 1996",
            )
        )
    return rows


@experiment(f"{SPEC}/b1", title=TITLES["b1"], paper=f"{PAPER_GENERATION}, quoting Braun and Diot 1995")
def b1(context: Context) -> Report:
    """B1: a file transfer over TCP with loops that are fused or not, in the simulator."""
    return Report(f"{SPEC}/b1", TITLES["b1"], of_system((10_000_000,)))


@experiment(f"{SPEC}/g5", title=TITLES["g5"], paper=OURS)
def g5(context: Context) -> Report:
    """G5: the same over links of 10 and 155 Mbit/s."""
    return Report(f"{SPEC}/g5", TITLES["g5"], of_system((10_000_000, 155_520_000)))
