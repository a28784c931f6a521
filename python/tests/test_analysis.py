import itertools
import random
from fractions import Fraction

import polars as pl
import pytest

from layercast_lab import analysis, units
from layercast_lab.compare import compare


def brute_force_p(base: list[float], new: list[float]) -> Fraction:
    """Every choice of a number of all values, by U counted pair by pair, ties as halves."""

    def u(first, second) -> Fraction:
        return sum(Fraction(int(a > b) * 2 + int(a == b), 2) for a in first for b in second)

    everything = [*base, *new]
    half = Fraction(len(base) * len(new), 2)
    found, as_far, all_choices = abs(u(base, new) - half), 0, 0
    for chosen in itertools.combinations(range(len(everything)), len(base)):
        first = [everything[i] for i in chosen]
        second = [everything[i] for i in range(len(everything)) if i not in chosen]
        all_choices += 1
        as_far += abs(u(first, second) - half) >= found
    return Fraction(as_far, all_choices)


def test_p_values_are_those_of_all_permutations():
    draw = random.Random(1)
    for _ in range(60):
        n, m = draw.randint(1, 5), draw.randint(1, 4)
        # Few different values, so that there are ties.
        base, new = ([float(draw.randint(0, 6)) for _ in range(k)] for k in (n, m))
        assert analysis.p_value(base, new) == brute_force_p(base, new), (base, new)
    assert analysis.p_value([1, 2, 3], [4, 5, 6]) == Fraction(1, 10)
    assert analysis.p_value([1.0] * 3, [1.0] * 3) == 1


def test_p_values_are_those_of_scipy():
    # scipy 1.17, mannwhitneyu(method="exact"), which has no ties.
    base = [19.1, 22.4, 16.3, 29.9, 24.6, 20.2, 17.7]
    new = [20.9, 11.5, 12.8, 17.1, 13.2]
    assert float(analysis.p_value(base, new)) == pytest.approx(0.047979797979797977, abs=1e-15)
    more = [31.0, 33.5, 27.25, 18.5, 40.0, 22.0, 26.5, 35.75, 30.5]
    assert float(analysis.p_value(base, more)) == pytest.approx(0.022902097902097902, abs=1e-15)


def test_orders_are_counted_one_by_one():
    for n, m in itertools.product(range(1, 5), repeat=2):
        counts = [0] * (n * m + 1)
        for places in itertools.combinations(range(n + m), n):
            counts[sum(place - i for i, place in enumerate(places))] += 1
        assert analysis.orders(n, m) == tuple(counts)


def test_the_interval_is_that_of_the_specification():
    base, new = [10.0, 11.0, 12.0], [8.0, 9.0, 10.5]
    at_90 = analysis.shift(base, new)
    assert (at_90.low, at_90.high, at_90.estimate, at_90.significant) == (-4, 0.5, -2, False)
    at_80 = analysis.shift(base, new, 0.8)
    assert (at_80.low, at_80.high, at_80.significant) == (-3, -0.5, True)
    # Coverage of D(1).., D(2).., D(3).., in percent.
    for (n, m), coverage in {
        (3, 3): (90.0, 80.0, 60.0, 30.0),
        (3, 4): (94.3, 88.6, 77.1, 60.0),
        (4, 4): (97.1, 94.3, 88.6, 80.0),
        (5, 5): (99.2, 98.4, 96.8, 94.4),
    }.items():
        for rank, percent in enumerate(coverage, 1):
            tail = Fraction(sum(analysis.orders(n, m)[:rank]), sum(analysis.orders(n, m)))
            assert round(float(100 * (1 - 2 * tail)), 1) == percent
            found = analysis.shift([0.0] * n, [float(i) for i in range(m)], 1 - 2 * tail)
            assert found.confidence == 1 - 2 * tail


def test_an_interval_holds_the_shift_as_often_as_it_says():
    # Every order of three and three values is equally probable if nothing differs: 18 of 20 hold zero.
    held = 0
    for chosen in itertools.combinations(range(6), 3):
        base = [float(i) for i in chosen]
        new = [float(i) for i in range(6) if i not in chosen]
        found = analysis.shift(base, new)
        held += found.low <= 0 <= found.high
        assert found.significant == bool(analysis.separated(base, new))
    assert Fraction(held, 20) == Fraction(9, 10)


def test_an_interval_is_what_the_test_does_not_refuse():
    draw = random.Random(2)
    for _ in range(30):
        base = [draw.uniform(0, 10) for _ in range(draw.randint(4, 6))]
        new = [draw.uniform(0, 10) for _ in range(draw.randint(4, 6))]
        found = analysis.shift(base, new)
        for by, inside in (
            (found.low - 1e-6, 0),
            (found.low + 1e-6, 1),
            (found.high - 1e-6, 1),
            (found.high + 1e-6, 0),
        ):
            assert (analysis.p_value(base, [v - by for v in new]) > Fraction(1, 10)) == bool(inside)


def test_a_paired_interval_is_what_all_signs_leave():
    for n in range(1, 7):
        sums = [0] * (n * (n + 1) // 2 + 1)
        for chosen in itertools.product((0, 1), repeat=n):
            sums[sum(rank * one for rank, one in enumerate(chosen, 1))] += 1
        assert analysis.signs(n) == tuple(sums)
    draw = random.Random(3)
    for _ in range(30):
        differences = [draw.uniform(-5, 10) for _ in range(draw.randint(5, 8))]
        found = analysis.paired_shift([0.0] * len(differences), differences)
        assert found.confidence >= Fraction(9, 10)
        for by, inside in ((found.low - 1e-6, 0), (found.low + 1e-6, 1), (found.high - 1e-6, 1)):
            assert (signed_rank_p([value - by for value in differences]) > Fraction(1, 10)) == bool(inside)


def signed_rank_p(differences: list[float]) -> Fraction:
    """Wilcoxon's test of signed ranks over all signs, without ties."""
    ranks = {value: rank for rank, value in enumerate(sorted(differences, key=abs), 1)}
    half = Fraction(sum(ranks.values()), 2)
    found = abs(sum(rank for value, rank in ranks.items() if value > 0) - half)
    sums = [
        sum(rank * one for rank, one in zip(ranks.values(), chosen, strict=True))
        for chosen in itertools.product((0, 1), repeat=len(ranks))
    ]
    return Fraction(sum(abs(total - half) >= found for total in sums), len(sums))


def test_seeds_in_common_drop_out():
    base = [10.0, 50.0, 30.0, 20.0, 40.0]
    new = [value + by for value, by in zip(base, (1.0, 1.5, 2.0, 1.25, 1.75), strict=True)]
    assert not analysis.shift(base, new).significant
    found = analysis.paired_shift(base, new)
    assert (found.low, found.high, found.estimate) == (1.0, 2.0, 1.5)
    assert found.confidence == Fraction(15, 16)
    with pytest.raises(ValueError, match=r"4 pairs: at most 0\.875"):
        analysis.paired_shift(base[1:], new[1:])


def test_too_few_values_are_refused():
    with pytest.raises(ValueError, match=r"2\+3 values: at most 0.8"):
        analysis.shift([1, 2], [3, 4, 5])
    assert analysis.shift([1, 2], [3, 4, 5], 0.8).significant
    assert analysis.shift([1.0] * 3, [1.0] * 3).low == analysis.shift([1.0] * 3, [1.0] * 3).high == 0
    for wrong in ([], [1.0]):
        with pytest.raises(ValueError):
            analysis.shift(wrong, [1.0, 2.0, 3.0])


def test_quantiles_are_interpolated():
    values = [4.0, 1.0, 3.0, 2.0]
    assert [analysis.quantile(values, q) for q in (0, 0.25, 0.5, 0.9, 1)] == [1, 1.75, 2.5, 3.7, 4]
    with pytest.raises(ValueError):
        analysis.quantile([], 0.5)


def test_false_discoveries_are_those_of_the_definition():
    # Benjamini and Hochberg 1995, the fifteen p of their example; q as scipy 1.17 has it.
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719]
    p += [0.6528, 0.7590, 1.0000]
    q = analysis.false_discovery(p)
    assert [value <= 0.05 for value in q] == [True] * 4 + [False] * 11
    for i, value in enumerate(q):
        assert value == pytest.approx(min(p[j] * 15 / (j + 1) for j in range(i, 15)))
    # Their order does not matter.
    order = [7, 0, 14, 3, 9, 1, 12, 5, 2, 13, 4, 8, 6, 11, 10]
    assert analysis.false_discovery([p[i] for i in order]) == [q[i] for i in order]
    assert analysis.false_discovery([]) == []


def frame() -> pl.DataFrame:
    rows = [
        {"qos": qos, "mux": mux, "seed": seed, "metric": metric, "value": value + seed, "unit": "s"}
        for qos, mux, metric, value in (
            ("none", "app", "wait", 10.0),
            ("none", "conv", "wait", 20.0),
            ("none", "app", "loss", 5.0),
            ("sp", "app", "wait", 4.0),
            ("sp", "conv", "wait", 20.5),
            ("sp", "app", "loss", 5.0),
        )
        for seed in (1, 2, 3)
    ]
    return pl.DataFrame(rows)


def test_comparisons_are_along_one_axis():
    found = compare(frame(), "qos", "none")
    assert found.select("mux", "metric", "base", "new").rows() == [
        ("app", "wait", "none", "sp"),
        ("conv", "wait", "none", "sp"),
        ("app", "loss", "none", "sp"),
    ]
    assert found["change"].to_list() == [-6, 0.5, 0]
    assert found["percent"].to_list() == pytest.approx([-50, 100 * 0.5 / 22, 0])
    assert found["significant"].to_list() == [True, False, False]
    assert found["separated"].to_list() == [-1, 0, 0]
    assert found["p"].to_list() == pytest.approx([0.1, 0.7, 1])
    assert found["q"].to_list() == pytest.approx([0.3, 1, 1])
    assert found["low"].to_list()[0] < found["shift"].to_list()[0] < found["high"].to_list()[0] < 0
    [pair] = compare(frame(), "mux", "app").filter(pl.col("qos") == "sp").rows(named=True)
    assert (pair["new"], pair["n_base"], pair["n_new"], pair["percent"]) == ("conv", 3, 3, 275)


def test_a_comparison_of_too_few_runs_is_left_open():
    two = frame().filter(~((pl.col("qos") == "sp") & (pl.col("seed") == 3)))
    found = compare(two, "qos", "none")
    assert found["significant"].to_list() == [None] * 3
    assert found["low"].to_list() == [None] * 3
    assert found["change"].to_list()[0] == -6.5
    with pytest.raises(ValueError, match="'sp'"):
        compare(frame(), "qos", "fifo")


def test_numbers_are_shown_with_handy_units():
    assert units.scale(0.0123, "s") == (1e-3, "ms")
    assert units.scale(93e6, "bit/s") == (1e6, "Mbit/s")
    assert units.scale(0, "s") == (1, "s")
    assert units.scale(0.2, "") == (1, "")
    assert units.number("50 packets") == (50, "packets")
    assert units.number("1.5s") == (1.5, "s")
    assert units.number(3) == (3, "")
    assert units.number("exp(1ms)") is None
    assert units.number(True) is None
