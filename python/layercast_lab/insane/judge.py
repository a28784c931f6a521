"""What was reported beside what campaigns found, and whether it is that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

from layercast_lab import units
from layercast_lab.analysis import attainable, shift
from layercast_lab.analysis import exact as exact_level
from layercast_lab.experiment import Row, Verdict
from layercast_lab.insane.study import Values, unit
from layercast_lab.insane.target import Pair, Target

LONGEST_LIST = 6


@dataclass(frozen=True)
class Effect:
    """One metric under two policies, or under one."""

    pair: Pair
    metric: str
    base: Sequence[float]
    """Of each run; nothing without a base."""
    new: Sequence[float]
    confidence: Fraction

    @property
    def before(self) -> float:
        """Mean over the runs of the base."""
        return sum(self.base) / len(self.base)

    @property
    def after(self) -> float:
        """Mean over the runs of the new policy."""
        return sum(self.new) / len(self.new)

    @property
    def change(self) -> float:
        """Of the mean."""
        return self.after - self.before

    @property
    def percent(self) -> float | None:
        """The change in percent of the base."""
        return 100 * self.change / self.before if self.before else None

    @property
    def tested(self) -> bool:
        """Whether there are as many runs as the confidence takes."""
        return bool(self.base) and attainable(len(self.base), len(self.new)) >= self.confidence

    @property
    def significant(self) -> bool:
        """Whether Mann and Whitney's interval of the shift leaves zero out."""
        return self.tested and shift(self.base, self.new, self.confidence).significant

    def direction(self) -> int:
        """1 if the new is more in the mean, -1 if less."""
        return (self.change > 0) - (self.change < 0)

    def on(self, scale: str) -> float | None:
        """The number that a range is of."""
        match scale:
            case "percent":
                return self.percent
            case "change":
                return self.change
            case "value":
                return self.after
        raise KeyError(scale)


@dataclass(frozen=True)
class Judged:
    """A target with what was found."""

    target: Target
    effects: list[Effect]
    missing: list[str]
    """Policies of which there are too few runs."""
    verdict: Verdict
    note: str = ""

    @property
    def goes(self) -> bool:
        """Whether it goes the way that was reported, however far."""
        if self.verdict == "reproduced":
            return True
        target = self.target
        match target.grade:
            case "B" if target.range.scale == "value" and not target.sign:
                return False
            case "B" | "S":
                return goes(target.sign or (1 if target.range.high > 0 else -1), self.effects)
            case "N":
                return sum(effect.significant for effect in self.effects) <= by_chance(len(self.effects))
        return False

    def row(self) -> Row:
        """As a line of a report."""
        target = self.target
        note = self.note
        if self.missing:
            note = f"too few runs of {some(self.missing)}"
        name = f"{target.section} {target.name}"
        return Row(name, target.reported, measured(self), tolerance(target), self.verdict, note)


def judge(target: Target, values: Values) -> Judged:
    """The verdict on a target by its grade; `missing` unless all policies it is about have enough runs."""
    confidence = exact_level(target.confidence)
    effects, missing = [], []
    for pair in target.pairs:
        for metric in target.metrics:
            base = values.get((pair.base, metric), []) if pair.base else []
            effect = Effect(pair, metric, base, values.get((pair.new, metric), []), confidence)
            tests = target.grade == "N" or target.significant or target.insignificant
            short = [
                name
                for name, runs in ((pair.base, base), (pair.new, effect.new))
                if name and (not runs or (tests and attainable(len(runs), len(runs)) < confidence))
            ]
            missing += short
            if not short:
                effects.append(effect)
    missing = list(dict.fromkeys(missing))
    if missing:
        return Judged(target, effects, missing, "missing")
    verdict, note = {"E": exact, "B": band, "S": direction, "N": nothing, "R": unjudged}[target.grade](
        target, effects
    )
    return Judged(target, effects, missing, verdict, note)


def exact(target: Target, effects: list[Effect]) -> tuple[Verdict, str]:
    """In the range, or identical run by run if there is none."""
    if target.range is None:
        others = sorted({effect.metric for effect in effects if list(effect.base) != list(effect.new)})
        return ("differs", f"other: {some(others)}") if others else ("reproduced", "")
    values = [value for effect in effects for value in effect.new]
    return (
        "reproduced" if target.range.low <= min(values) <= max(values) <= target.range.high else "differs"
    ), ""


def band(target: Target, effects: list[Effect]) -> tuple[Verdict, str]:
    """Reproduced if the range over our policies is in the reported one, widened, and goes the same way."""
    reported = target.range
    found = [number for effect in effects if (number := effect.on(reported.scale)) is not None]
    if len(found) < len(effects):
        return "differs", "the base is zero"
    low, high = reported.widened()
    inside = sum(low <= number <= high for number in found)
    if reported.scale != "value" or target.sign:
        right = goes(target.sign or (1 if reported.high > 0 else -1), effects)
    else:
        right = True
    if inside == len(found) and right:
        return "reproduced", ""
    return "differs", f"{inside} of {len(found)} inside" if len(found) > 1 else ""


def goes(sign: int, effects: list[Effect]) -> bool:
    """Whether the differences have this sign in the mean.

    Of those that are significant none may have the other sign, or of many one in twenty, which is what
    chance makes.
    """
    changes = [effect.percent if effect.percent is not None else effect.direction() for effect in effects]
    against = [effect for effect in effects if effect.significant and effect.direction() == -sign]
    return sum(changes) * sign > 0 and len(against) <= len(effects) // 20


def direction(target: Target, effects: list[Effect]) -> tuple[Verdict, str]:
    """Reproduced if direction and significance are as reported."""
    if target.every:
        right = all(effect.direction() == target.sign for effect in effects)
    else:
        right = goes(target.sign, effects)
    if not right:
        return "differs", ""
    lacking = [e for e in effects if e.pair.label in target.significant and not e.significant]
    surplus = [e for e in effects if e.pair.label in target.insignificant and e.significant]
    notes = []
    if lacking:
        notes.append(f"not significant: {some(labels(lacking))}")
    if surplus:
        notes.append(f"significant: {some(labels(surplus))}")
    return ("differs" if notes else "reproduced"), "; ".join(notes)


def nothing(target: Target, effects: list[Effect]) -> tuple[Verdict, str]:
    """Reproduced if no difference is significant; the note says how many chance makes of as many tests."""
    found = [effect for effect in effects if effect.significant]
    if not found:
        return "reproduced", ""
    told = [f"{effect.metric} {effect.pair.label} {number(effect, 'percent')}" for effect in found]
    return "differs", f"{some(told)}; chance makes up to {by_chance(len(effects))}"


def unjudged(target: Target, effects: list[Effect]) -> tuple[Verdict, str]:
    """What the specification reports without asking for it."""
    return "open", ""


def by_chance(tests: int) -> int:
    """Most false alarms of `tests` independent tests at 90 %, in nine of ten cases, if nothing differs."""
    tenth, total = Fraction(1, 10), Fraction(0)
    for count in range(tests + 1):
        total += comb(tests, count) * tenth**count * (1 - tenth) ** (tests - count)
        if total >= 1 - tenth:
            return count
    return tests


def labels(effects: Sequence[Effect]) -> list[str]:
    """What to call them: by what tells them apart."""
    if len({effect.metric for effect in effects}) > 1:
        return [f"{effect.metric} {effect.pair.label}" for effect in effects]
    return [effect.pair.label for effect in effects]


def some(names: Sequence[str]) -> str:
    """A list of names, not all if they are many."""
    more = len(names) - LONGEST_LIST
    return ", ".join(names[:LONGEST_LIST]) + (f" and {more} more" if more > 0 else "")


def measured(judged: Judged) -> str:
    """What was found, in the scale of the range or in percent."""
    target, effects = judged.target, judged.effects
    if not effects:
        return "not run"
    if target.grade == "N" or (target.grade == "E" and target.range is None):
        what = "significant" if target.grade == "N" else "different"
        count = sum(e.significant if target.grade == "N" else list(e.base) != list(e.new) for e in effects)
        return f"{count} of {len(effects)} {what}"
    scale = target.range.scale if target.range else "percent"
    found = [number for effect in effects if (number := effect.on(scale)) is not None]
    one = target.metrics[0]
    if not found:
        after = [effect.after for effect in effects]
        return "the base is zero" + (
            f", then {span(min(after), max(after), 'value', one)}" if any(after) else ""
        )
    text = span(min(found), max(found), scale, one)
    if effects[0].base and len(target.metrics) == 1:
        before, after = ([mean(e) for e in effects] for mean in (lambda e: e.before, lambda e: e.after))
        both = [span(min(means), max(means), "value", one) for means in (before, after)]
        text += f" ({' → '.join(both)})"
    if any(effect.tested for effect in effects):
        strong = [effect for effect in effects if effect.significant]
        text += "; sig. " + (
            "all" if len(strong) == len(effects) else some(labels(strong)) if strong else "none"
        )
    return text


def tolerance(target: Target) -> str:
    """What is asked for, in words."""
    match target.grade:
        case "B":
            return "all in " + span(*target.range.widened(), target.range.scale, target.metrics[0])
        case "E":
            return "exact" if target.range else "identical"
        case "N":
            return "none significant"
        case "R":
            return "none"
    text = "more" if target.sign > 0 else "less"
    text += " in all" if target.every else ""
    if target.significant:
        text += f"; sig. {some(target.significant)}"
    if target.insignificant:
        text += f"; n.s. {some(target.insignificant)}"
    return text


def number(effect: Effect, scale: str) -> str:
    """The number of an effect with its unit."""
    found = effect.on(scale)
    return "?" if found is None else write(found, scale, effect.metric)


def write(found: float, scale: str, metric: str) -> str:
    """A number with its unit; differences with their sign."""
    factor, shown = unit_for(abs(found), scale, metric)
    return f"{digits(found / factor, scale)} {shown}".rstrip()


def span(low: float, high: float, scale: str, metric: str) -> str:
    """Two numbers with their unit."""
    factor, shown = unit_for(max(abs(low), abs(high)), scale, metric)
    ends = [digits(end / factor, scale) for end in (low, high)]
    return f"{' to '.join(dict.fromkeys(ends))} {shown}".rstrip()


def digits(found: float, scale: str) -> str:
    """Three digits, or all before the point."""
    sign = "" if scale == "value" else "+"
    return f"{found:{sign}.3g}" if abs(found) < 999.5 else f"{found:{sign},.0f}".replace(",", " ")


def unit_for(most: float, scale: str, metric: str) -> tuple[float, str]:
    """What to divide by, and the unit after that."""
    if scale == "percent":
        return 1, "%"
    found = unit(metric)
    return (0.01, "%") if found == "%" else units.scale(most, found)
