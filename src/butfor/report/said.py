"""What a page says about people: the facts that fill in the sentences of `butfor.result.words`, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from butfor.report.people import Listed, row_name, row_word
from butfor.report.text import differs, short
from butfor.result.fresh import NOT_CHECKED, SEED_BOUND, SOLID, UNDECIDED, exact_interval
from butfor.result.population import Population
from butfor.result.reviewed import worth_a_review
from butfor.result.run import Run
from butfor.result.verdict import Verdict
from butfor.result.words import CLOSE_CALL, REVIEW, SOLIDITY, STATUS, words_of
from butfor.result.worlds import PersonInWorlds
from butfor.words import percent


def marked(text: str, **given: Any) -> Markup:
    """Words marked as in Markdown (`code`, **bold**, *emphasis*) as HTML; values that are filled in are escaped."""
    html = re.sub("`(.+?)`", lambda found: f"<code>{command(Markup(found[1]))}</code>", str(escape(text)))
    for sign, tag in ((r"\*\*", "strong"), (r"\*", "em")):
        html = re.sub(f"{sign}(.+?){sign}", rf"<{tag}>\1</{tag}>", html)
    return Markup(html).format(**given) if given else Markup(html)


def command(text: str) -> Markup:
    """A command that does not break after a hyphen."""
    return Markup(" ").join(Markup("<span>{}</span>").format(word) for word in text.split(" "))


def who(v: Verdict | PersonInWorlds, run: Run) -> str:
    """ "applicant A-17", "the applicant in line 38": by the table's own id, else by the row."""
    one, word = run.names.one, row_word(run)
    if v.row is None:
        return f"this {one}" if v.case is None else f"{one} {v.case}"
    named = f"{one} {{}}" if run.data.identifier else f"the {one} in {word} {{}}"
    return short(named.format(row_name(run, v.row)), 80)


def badges(v: Verdict) -> list[tuple[str, str, str]]:
    """Each a class, a sign and words."""
    found = [(v.status, STATUS[v.status].sign, STATUS[v.status].title)]
    found += [("close-call", CLOSE_CALL.sign, "close call")] if v.close_call else []
    return found + ([(v.solidity.replace(" ", "-"), SOLIDITY[v.solidity].sign, v.solidity)] if v.solidity else [])


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
    found += [
        STATUS["not_found"].many,
        "**Claim no difference between groups from these shares**: groups of other sizes and labels have other shares "
        "by construction. A difference is a reason to look at how the labels came about, not a proof of "
        "discrimination.",
    ]
    return [marked(step, settle=settle(max(more, default=None))) for step in found]


def behind(people: Sequence[Listed]) -> dict[int, list[Listed]]:
    """By position of a training row, those whose flip sets include it: most first."""
    found: dict[int, list[Listed]] = {}
    for one in people:
        for position in one.verdict.positions if one.verdict else ():
            found.setdefault(position, []).append(one)
    return dict(sorted(found.items(), key=lambda each: -len(each[1])))


def facts(v: Verdict) -> dict[str, Any]:
    """The values of the placeholders in `result.words`."""
    one, fresh, members = len(v.positions) == 1, v.fresh, v.run.members
    word = "row" if v.run.data.identifier else row_word(v.run)
    mean = f"this ensemble of seeds (the mean of {members} trainings that differ in the seed alone)"
    rest = f"of the {v.run.data.training_rows} labels it learned from"
    none = f"No change of up to {v.run.budget} {rest} was found that changes it."
    return {
        "who": who(v, v.run),
        "prediction": v.run.names.label(v.prediction),
        "other": v.run.names.label(v.counterfactual_prediction or ""),
        "sentence": v.said(who(v, v.run)),
        "change": f"{'one' if one else len(v.positions)} {rest} {'was' if one else 'were'} "
        + (v.run.names.label(v.new_label) if v.new_label else "the other way"),
        "budget": f"up to {v.run.budget} {rest}",
        "tried": none if v.attempts else f"No flip set was tried: {v.reason}",
        "them": "this label" if one else "these labels",
        "rows": f"training {word}{'s' * (not one)} {', '.join(row_name(v.run, flip.row) for flip in v.flip_set)}",
        "counts": f"{fresh.with_flips} of {fresh.seeds} models trained under fresh seeds decide differently with the "
        f"flips, {fresh.without_flips} without any"
        if fresh
        else "",
        "settle": settle(fresh.would_do if fresh else None),
        "sensitive": v.run.names.column(v.run.sensitive),
        "reason": v.reason,
        "model": mean if members > 1 else "the seed included, training",
        "rest": "" if v.complete else ", and above all the rest of this interrupted search",
        "base": base(v),
    }


def settle(seeds: int | None) -> Markup:
    """How to settle an undecided find."""
    if seeds is None:
        return Markup("let a person decide: no reasonable number of seeds would tell")
    return marked(f"try more seeds, `--fresh-seeds {seeds}`")


def base(v: Verdict) -> str:
    """How many fresh seeds decide differently on the unchanged data, with an interval; empty if unknown."""
    if v.base_counts is None:
        return ""
    count, seeds = v.base_counts
    low, high = exact_interval(count, seeds)
    return f"{v.base_sentence} ({percent(count / seeds)}, 95 % interval {100 * low:.0f} to {100 * high:.0f} %)"


def columns_of(v: Verdict, flips: int | None = None, most: int | None = None) -> list[str]:
    """The columns of the person beside the first `flips` flipped rows, in the table's order: at most so many, those
    that differ first."""
    rows = v.flip_set[:flips]
    alike = {name: not any(differs(own, row.values[name]) for row in rows) for name, own in v.values.items()}
    kept = set(sorted(alike, key=lambda name: alike[name])[:most])
    return [name for name in v.values if name in kept]
