"""The conclusions of the study, asked again of other disciplines and on other networks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from layercast_lab.experiment import Row
from layercast_lab.insane.conclusions import CONCLUSIONS
from layercast_lab.insane.judge import Judged, judge, measured, tolerance
from layercast_lab.insane.study import Values
from layercast_lab.insane.target import Pair, Target

State = Literal["holds", "direction only", "gone", "reversed", "not tested"]
"""What became of a statement; "direction only" is not significant where it was, "reversed" the other way."""
LEAST = 1.0
"""Percent."""
STATES: Sequence[State] = ("holds", "direction only", "gone", "reversed", "not tested")


@dataclass(frozen=True)
class Asked:
    """A statement that a conclusion stands on, as the thesis has it and as it is asked here."""

    conclusion: str
    before: Target
    now: Target


def instead(target: Target, scheduler: str, of: str = "sp") -> Target:
    """The same about another scheduler in the place of one of the study."""

    def swap(text: str) -> str:
        return f"{scheduler}-{text.removeprefix(f'{of}-')}" if text.startswith(f"{of}-") else text

    pairs = tuple(Pair(swap(p.label), p.base and swap(p.base), swap(p.new)) for p in target.pairs)
    significant, insignificant = (
        tuple(map(swap, labels)) for labels in (target.significant, target.insignificant)
    )
    return replace(target, pairs=pairs, significant=significant, insignificant=insignificant)


def within(target: Target, policies: Collection[str]) -> Target | None:
    """What is left of it where only these policies are run; nothing if that is no pair."""
    pairs = tuple(p for p in target.pairs if p.new in policies and (p.base is None or p.base in policies))
    labels = {pair.label for pair in pairs}
    significant, insignificant = (
        tuple(label for label in all if label in labels) for all in (target.significant, target.insignificant)
    )
    return (
        replace(target, pairs=pairs, significant=significant, insignificant=insignificant) if pairs else None
    )


def ask(policies: Collection[str], scheduler: str = "sp") -> list[Asked]:
    """All statements that can be asked of these policies; of the thesis, of the same setups.

    With another scheduler in the place of sp, only those that it has a part in.
    """
    found = []
    for conclusion in CONCLUSIONS:
        for target in conclusion.targets:
            now = within(instead(target, scheduler), policies)
            if now is not None and scheduler != "sp":
                now = within(now, {*policies} - {p.new for p in now.pairs if not p.new.startswith(scheduler)})
            if now is not None:
                found.append(Asked(conclusion.text, instead(now, "sp", scheduler), now))
    return found


def state(judged: Judged) -> State:
    """In a word. A direction with less than a percent behind it is gone, significant or not."""
    small = judged.target.grade == "S" and not any(
        effect.change if effect.percent is None else abs(effect.percent) >= LEAST for effect in judged.effects
    )
    match judged.verdict:
        case "missing":
            return "not tested"
        case "reproduced" if not small:
            return "holds"
        case "differs" if not small and judged.goes:
            return "direction only"
    sign = judged.target.sign
    against = [effect for effect in judged.effects if effect.significant and effect.direction() == -sign]
    return "reversed" if sign and not small and 2 * len(against) > len(judged.effects) else "gone"


def row(where: str, asked: Asked, thesis: Values, values: Values) -> Row:
    """A line of a report: beside the study, in the same setups, what is found here."""
    before, now = judge(asked.before, thesis), judge(asked.now, values)
    number = asked.conclusion.partition(" ")[0]
    note = "; ".join(filter(None, (state(now), now.note)))
    return Row(
        f"{where}, {number}: {asked.now.name}",
        f"{state(before)}: {measured(before)}",
        measured(now),
        tolerance(asked.now),
        now.verdict,
        note,
    )


def conclusions(asked: Iterable[Asked], values: Values) -> Mapping[str, list[State]]:
    """By conclusion, what became of each of its statements."""
    found: dict[str, list[State]] = {one.text: [] for one in CONCLUSIONS}
    for one in asked:
        found[one.conclusion].append(state(judge(one.now, values)))
    return found


def told(states: Sequence[State]) -> str:
    """What became of the statements of a conclusion: one word if all agree, else how many of each."""
    if not states:
        return "not tested"
    counts = {state: states.count(state) for state in STATES if state in states}
    return next(iter(counts)) if len(counts) == 1 else ", ".join(f"{n} {s}" for s, n in counts.items())


def table(columns: Mapping[str, Mapping[str, Sequence[State]]]) -> str:
    """Conclusion by conclusion as Markdown, a column for each of what was asked."""
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for one in CONCLUSIONS:
        cells = " | ".join(told(column[one.text]) for column in columns.values())
        lines.append(f"| {one.text} | {cells} |")
    return "\n".join(lines) + "\n"
