"""The people of a page: who is listed, in which order and under which name, with which score, and what is said about
them: the facts that fill in the sentences of `butfor.result.words`, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from butfor.decide import USUAL
from butfor.report.text import short, shown
from butfor.result.fresh import NOT_CHECKED, SEED_BOUND, SOLID, UNDECIDED, interval_of
from butfor.result.population import Population
from butfor.result.reviewed import worth_a_review
from butfor.result.run import Run
from butfor.result.verdict import Verdict
from butfor.result.words import CLOSE_CALL, REVIEW, SOLIDITY, STATUS, words_of
from butfor.result.worlds import OneStandard, PersonInWorlds
from butfor.words import percent

MOST_IN_WORLDS = 100
"""The most people listed by how likely their decision is to change."""
LONGEST = 60
"""The most characters of a row's name."""
LINED = (".csv", ".tsv", ".txt", ".xlsx", ".xls")
"""Files whose lines people count: the first row of data is line 2."""
Worlds = tuple[tuple[OneStandard, PersonInWorlds], ...]
NO_DIFFERENCE = """\
**Claim no difference between groups from these shares**: groups of other sizes and labels have other shares by \
construction. A difference is a reason to look at how the labels came about, not a proof of discrimination."""


class Listed:
    """A person of the page: examined (with a `verdict`), or named because one standard changes the decision."""

    weight: tuple[int, int]
    """The order: changes in most worlds, solid, found, changes in some worlds, audited, not audited."""
    left_out: str | None
    """Why somebody was neither audited nor named by one standard; None for the others."""
    decisions: tuple[str | tuple[str, ...], str | tuple[str, ...]]
    """The decision now, and the other one; of several labels each."""

    def __init__(self, run: Run, address: str, verdict: Verdict | None, worlds: Worlds = ()) -> None:
        self.address, self.verdict, self.worlds = address, verdict, worlds
        self.person = v = verdict or worlds[0][1]
        self.name = row_name(run, v.row, v.case)
        self.in_most = any(one.in_most(person) for one, person in worlds)
        most = max((person.worlds for _, person in worlds), default=0)
        adverse, favourable = run.adverse or ("adverse",), run.favourable_labels or ("favourable",)
        if isinstance(v, Verdict):
            self.weight = (0 if self.in_most else 3 if most else 4 if v.eligible else 5), -most
            if v.found and not self.in_most:
                self.weight = 1 if v.solidity == SOLID else 2, v.at_most or 0
            other = adverse if v.prediction in favourable else favourable
            self.decisions = v.prediction, v.counterfactual_prediction or other
            self.left_out = v.left_out if self.weight[0] == 5 else None
        else:
            self.weight, self.left_out = (0 if self.in_most else 3, -most), None
            self.decisions = (adverse, favourable) if v.refused else (favourable, adverse)


def listed(p: Population, addresses: Sequence[str]) -> list[Listed]:
    """Everybody examined, at these addresses, and everybody named by one standard, those who matter most first."""
    worlds: dict[int | None, Worlds] = {}
    for one in p.one_standard:
        for person in (*one.gaining[:MOST_IN_WORLDS], *one.losing):
            worlds[person.case] = (*worlds.get(person.case, ()), (one, person))
    people = [
        Listed(p.run, address, v, worlds.pop(v.case, ())) for v, address in zip(p.verdicts, addresses, strict=True)
    ]
    people += [Listed(p.run, f"#case-{case}", None, found) for case, found in worlds.items()]
    return sorted(people, key=lambda one: one.weight)


def changed_by(people: Sequence[Listed], one: OneStandard) -> list[tuple[Listed, PersonInWorlds]]:
    """Those whose decision changes in worlds of one group, in most worlds first."""
    found = [(each, person) for each in people for world, person in each.worlds if world is one]
    return sorted(found, key=lambda pair: (not pair[1].refused, -pair[1].worlds))


def behind(people: Sequence[Listed]) -> dict[int, list[Listed]]:
    """By position of a training row, those whose flip sets include it: most first."""
    found: dict[int, list[Listed]] = {}
    for one in people:
        for position in one.verdict.positions if one.verdict else ():
            found.setdefault(position, []).append(one)
    return dict(sorted(found.items(), key=lambda each: -len(each[1])))


# --- names --------------------------------------------------------------------------------------------


def row_word(run: Run) -> str:
    """What the numbers of rows are: the table's own ids, lines of a file, or rows."""
    path = Path((run.data.table or "").lower().removesuffix(".gz"))
    return run.data.identifier or ("line" if path.suffix in LINED else "row")


def row_name(run: Run, row: object, case: int | None = None) -> str:
    """A row as the table names it, else by the line of the file; a person without a row by the position."""
    if row is None and case is not None:
        return str(case)
    if row_word(run) == "line" and not run.data.identifier and isinstance(row, Integral):
        return str(int(row) + 2)
    return shown(row, LONGEST)


def who(v: Verdict | PersonInWorlds, run: Run) -> str:
    """ "applicant A-17", "the applicant in line 38": by the table's own id, else by the row."""
    one, word = run.names.one, row_word(run)
    if v.row is None:
        return f"this {one}" if v.case is None else f"{one} {v.case}"
    called = one if run.data.identifier else f"the {one} in {word}"
    return short(f"{called} {row_name(run, v.row)}", 80)


# --- values -------------------------------------------------------------------------------------------


def scores(v: Verdict) -> tuple[float, float | None]:
    """The score, or the margin of a model without scores, now and with the flips; without a find, the closest."""
    now, after = v.scores
    if now is None:
        return v.logit, v.closest_logit if v.counterfactual_logit is None else v.counterfactual_logit
    if after is None and v.closest_logit is not None and not v.run.cut_moves:
        after = v.run.score_of(v.closest_logit)
    return now, after


def cut_of(v: Verdict) -> float:
    """Where the decision changes, on the scale of `scores`."""
    if v.scores[0] is None:
        return 0.0
    threshold = v.run.threshold
    return v.cut if v.cut is not None else (threshold and threshold.probability) or USUAL


def digits(people: Sequence[Listed]) -> int:
    """How many decimals tell every score in a column from its cut: two to six."""
    pairs = [(score, cut_of(one.verdict)) for one in people if one.verdict for score in scores(one.verdict)]
    told = [(score, cut) for score, cut in pairs if score is not None and abs(score - cut) > 1e-6]
    return next((k for k in range(2, 6) if all(round(score, k) != round(cut, k) for score, cut in told)), 6)


def columns_of(v: Verdict, flips: int | None = None, most: int | None = None) -> list[str]:
    """The columns of the person beside the first `flips` flipped rows, in the table's order: at most so many, those
    that differ first."""
    rows = v.flip_set[:flips]
    first = sorted(v.values, key=lambda name: all(row.values[name] == v.values[name] for row in rows))[:most]
    return [name for name in v.values if name in first]


# --- sentences ----------------------------------------------------------------------------------------


def marked(text: str, **given: Any) -> Markup:
    """Words marked as in Markdown (`code`, **bold**, *emphasis*) as HTML; values that are filled in are escaped."""
    html = re.sub("`(.+?)`", lambda found: f"<code>{command(Markup(found[1]))}</code>", str(escape(text)))
    for sign, tag in ((r"\*\*", "strong"), (r"\*", "em")):
        html = re.sub(f"{sign}(.+?){sign}", rf"<{tag}>\1</{tag}>", html)
    return Markup(html).format(**given) if given else Markup(html)


def command(text: str) -> Markup:
    """A command that does not break after a hyphen."""
    return Markup(" ").join(Markup("<span>{}</span>").format(word) for word in text.split(" "))


def base(v: Verdict) -> str:
    """How many fresh seeds decide differently on the unchanged data, with an interval; empty if unknown."""
    if v.base_counts is None:
        return ""
    (count, seeds), (low, high) = v.base_counts, interval_of(*v.base_counts)
    share = f"{percent(count / seeds)}, 95 % interval {100 * low:.0f} to {100 * high:.0f} %"
    return f"{v.base_sentence} ({share})"


def facts(v: Verdict) -> dict[str, Any]:
    """The values of the placeholders in `result.words`."""
    run, label, one, f = v.run, v.run.names.label, len(v.positions) == 1, v.fresh
    rest, counts = f"of the {run.data.training_rows} labels it learned from", ""
    none = f"No change of up to {run.budget} {rest} was found that changes it."
    row = "row" if run.data.identifier else row_word(run)
    if f:
        counts = (
            f"{f.with_flips} of {f.seeds} models trained under fresh seeds decide differently with the flips, "
            f"{f.without_flips} without any"
        )
    return {
        "who": who(v, run),
        "prediction": label(v.prediction),
        "other": label(v.counterfactual_prediction or ""),
        "sentence": v.said(who(v, run)),
        "change": f"{'one' if one else len(v.positions)} {rest} {'was' if one else 'were'} "
        + (label(v.new_label) if v.new_label else "the other way"),
        "budget": f"up to {run.budget} {rest}",
        "tried": none if v.attempts else f"No flip set was tried: {v.reason}",
        "them": "this label" if one else "these labels",
        "rows": f"training {row}{'s' * (not one)} {', '.join(row_name(run, flip.row) for flip in v.flip_set)}",
        "counts": counts,
        "settle": settle(f.would_do if f else None),
        "sensitive": run.names.column(run.sensitive),
        "reason": v.reason,
        "model": "the seed included, training"
        if run.members == 1
        else f"this ensemble of seeds (the mean of {run.members} trainings that differ in the seed alone)",
        "rest": "" if v.complete else ", and above all the rest of this interrupted search",
        "base": base(v),
    }


def settle(seeds: int | None) -> Markup:
    """How to settle an undecided find."""
    none = "let a person decide: no reasonable number of seeds would tell"
    return marked(none if seeds is None else f"try more seeds, `--fresh-seeds {seeds}`")


def steps(v: Verdict) -> list[Markup]:
    """What to do next, in order."""
    words, given = words_of(v.status, v.solidity, v.run.seeded or v.fresh is not None), facts(v)
    close = CLOSE_CALL.steps if v.close_call and v.solidity != SEED_BOUND else ()
    return [marked(each, **given) for each in (*words.steps, *close)]


def steps_of(p: Population) -> list[Markup]:
    """What to do next about many people, in order."""
    more = [v.fresh.would_do for v in p.found if v.fresh and v.solidity == UNDECIDED and v.fresh.would_do]
    found = [REVIEW] if worth_a_review(p.labels) else []
    found += [CLOSE_CALL.many] if any(v.close_call for v in p.eligible) else []
    found += [SOLIDITY[w].many for w in (SOLID, NOT_CHECKED, "leaning", UNDECIDED, SEED_BOUND) if p.solidity[w]]
    if not p.eligible:
        found.append("**Audit other people** (`--cases`), or choose them by another rule (`--phi`).")
    return [
        marked(step, settle=settle(max(more, default=None)))
        for step in (*found, STATUS["not_found"].many, NO_DIFFERENCE)
    ]
