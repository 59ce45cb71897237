"""What a report says about one person, as plain values for the templates."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup, escape

from butfor.errors import plural
from butfor.rank.mix import leader_words
from butfor.report import charts
from butfor.report.text import differs, short, shown
from butfor.result.fresh import SEED_BOUND, SOLID, FreshSeeds, exact_interval
from butfor.result.run import Agreement, Run
from butfor.result.verdict import Verdict
from butfor.result.words import CLOSE_CALL, RANKINGS, SOLIDITY, STATUS, STRATEGIES, base_sentence, words_of
from butfor.rules import meanings
from butfor.words import percent, signed

LONGEST = 60
"""The most characters of a value in a table."""
MOST_PULLS = 12

Facts = list[tuple[str, Any, Any]]
"""Each a name, a value, and a line in small print or nothing."""


def marked(text: str, **given: Any) -> Markup:
    """Words marked as in Markdown (`code`, **bold**, *emphasis*) as HTML; values that are filled in are escaped."""
    html = re.sub("`(.+?)`", lambda found: f"<code>{command(Markup(found[1]))}</code>", str(escape(text)))
    for sign, tag in ((r"\*\*", "strong"), (r"\*", "em")):
        html = re.sub(f"{sign}(.+?){sign}", rf"<{tag}>\1</{tag}>", html)
    return Markup(html).format(**given) if given else Markup(html)


def command(text: str) -> Markup:
    """A command that does not break after a hyphen."""
    return Markup(" ").join(Markup("<span>{}</span>").format(word) for word in text.split(" "))


def person(verdict: Verdict) -> dict[str, Any]:
    """Everything that a page says about one person."""
    v, given = verdict, _given(verdict)
    words = words_of(v.status, v.solidity, v.run.seeded or v.fresh is not None)
    close = CLOSE_CALL.steps if v.close_call and v.solidity != SEED_BOUND else ()
    return headlines(v) | {
        "plain": marked(STATUS[v.status].plain, **given),
        "measure": _measure(v),
        "note": words if v.solidity not in (None, SOLID) else None,
        "base": given["base"],
        "shares": _shares(v.fresh) if v.fresh else [],
        "pulls": _pulls(v) if v.pulls is not None else [],
        "facts": _search_facts(v) if v.eligible else [],
        "shows": marked(words.shows, **given),
        "lacks": [marked(each, **given) for each in words.lacks],
        "steps": [marked(each, **given) for each in (*words.steps, *close)],
    }


def headlines(v: Verdict) -> dict[str, Any]:
    """What both kinds of pages show: badges (each a class, a sign and words), how far to believe it, the decision, and
    the chart of fresh seeds."""
    badges = [(v.status, STATUS[v.status].sign, STATUS[v.status].title)]
    badges += [("close-call", CLOSE_CALL.sign, "close call")] if v.close_call else []
    badges += [(v.solidity.replace(" ", "-"), SOLIDITY[v.solidity].sign, v.solidity)] if v.solidity else []
    belief = (v.belief, v.doubt_sentence, v.collateral.sentence if v.collateral else "")
    drawing = charts.seed_logits(v)
    return {
        "badges": badges,
        "belief": " ".join(filter(None, belief)),
        "decision": v.prediction + (f" → {v.counterfactual_prediction}" if v.found else ""),
        "dots": drawing.svg() if drawing else "",
    }


def _measure(v: Verdict) -> tuple[str, str]:
    """The name and the value of the score or margin."""
    text, _, cut = v.course_in_words.removeprefix(f"{v.run.measure} ").partition(", ")
    return f"{v.run.measure.capitalize()}: {v.run.measure_in_words}{f', {cut}' if cut else ''}", text


def in_worlds(v: Verdict) -> str:
    """In how many worlds the decision changes; empty if in none."""
    return " ".join(filter(None, (one.about(v.case) for one in v.run.one_standard)))


def comparison(verdict: Verdict, flips: int | None = None, lines: int | None = None, longest: int = 300) -> Any:
    """The person beside the flipped rows: at most `flips` rows and `lines` columns, those that differ first. Each line
    has a column's name, the person's value, and each row's value with whether it differs."""
    rows = verdict.flip_set[:flips]
    every = []
    for column, own in verdict.values.items():
        cells = [(shown(row.values[column], longest), differs(own, row.values[column])) for row in rows]
        every.append((shown(column, longest), shown(own, longest), cells))
    first = sorted(range(len(every)), key=lambda k: (not any(other for _, other in every[k][2]), k))[:lines]
    who = short(verdict.who, 80)
    return {
        "who": f"{who[0].upper()}{who[1:]}",
        "lines": [every[k] for k in sorted(first)],
        "flips": [
            tuple(shown(each, longest) for each in (row.row, row.label, verdict.label_after(row.label))) for row in rows
        ],
        "doubts": [] if verdict.doubted is None else ["" if r.doubt is None else f"{r.doubt:.2f}" for r in rows],
        "more_rows": len(verdict.flip_set) - len(rows),
        "more_columns": len(every) - len(first),
    }


def _given(v: Verdict) -> dict[str, Any]:
    """The values of the placeholders in `result.words`."""
    one, fresh, members = len(v.positions) == 1, v.fresh, v.run.members
    mean = f"this ensemble of seeds (the mean of {members} trainings that differ in the seed alone)"
    rest = f"of the {v.run.data.training_rows} labels it learned from"
    none = f"No change of up to {v.run.budget} {rest} was found that changes it."
    return {
        "who": short(v.who, 80),
        "prediction": v.prediction,
        "other": v.counterfactual_prediction,
        "sentence": v.sentence,
        "change": f"{'one' if one else len(v.positions)} {rest} {'was' if one else 'were'} "
        + (f"'{v.new_label}'" if v.new_label else "the other way"),
        "budget": f"up to {v.run.budget} {rest}",
        "tried": none if v.attempts else f"No flip set was tried: {v.reason}",
        "them": "this label" if one else "these labels",
        "rows": f"training row{'s' * (not one)} {', '.join(shown(flip.row) for flip in v.flip_set)}",
        "counts": f"{fresh.with_flips} of {fresh.seeds} models trained under fresh seeds decide differently with the "
        f"flips, {fresh.without_flips} without any"
        if fresh
        else "",
        "settle": settle(fresh.would_do if fresh else None),
        "sensitive": v.run.sensitive,
        "reason": v.reason,
        "model": mean if members > 1 else "the seed included, training",
        "rest": "" if v.complete else ", and above all the rest of this interrupted search",
        "base": _base_words(v),
    }


def settle(seeds: int | None) -> Markup:
    """How to settle an undecided find."""
    if seeds is None:
        return Markup("let a person decide: no reasonable number of seeds would tell")
    return marked(f"try more seeds, `--fresh-seeds {seeds}`")


def _pulls(v: Verdict) -> list[tuple[str, ...]]:
    """The columns with the strongest pull on this decision: name, value and pull."""
    rows = v.local_weights().head(MOST_PULLS).iterrows()
    return [
        (shown(name, LONGEST), shown(row["value"], LONGEST) if name in v.values else "", signed(row["pull"]))
        for name, row in rows
    ]


def _shares(fresh: FreshSeeds) -> list[tuple[str, str, str]]:
    """Hold, base and effect, each with its interval, as text."""

    def row(name: str, share: float, interval: tuple[float, float], unit: str) -> tuple[str, str, str]:
        text, low, high = (f"{round(100 * each)}".replace("-", "−") for each in (share, *interval))
        return name, f"{text} {unit}", f"{low} to {high} {unit}"

    return [
        row("Hold: with the flips", fresh.hold, fresh.hold_interval, "%"),
        row("Base: without any", fresh.base, fresh.base_interval, "%"),
        row("Effect: the difference", fresh.effect, fresh.effect_interval, "points"),
    ]


def _base_words(v: Verdict) -> str:
    """How many fresh seeds decide differently on the unchanged data, with an interval; empty if unknown."""
    if v.base_counts is None:
        return ""
    count, seeds = v.base_counts
    low, high = exact_interval(count, seeds)
    return (
        f"{base_sentence(count, seeds)} ({percent(count / seeds)}, 95 % interval {100 * low:.0f} to {100 * high:.0f} %)"
    )


def _search_facts(v: Verdict) -> Facts:
    one = "An attempt flips some labels, trains the model again in exactly the same way, and asks it about this person."
    shared = ", then found with a model that was trained for somebody else" if v.shared else ""
    attempts = f"{v.attempts or 'none'}{'' if v.complete else ', then stopped early'}{shared}"
    size, smaller = len(v.positions), "A different, smaller set may still exist."
    fewer = [f"shrunk from {plural(v.first_size, 'flip')} to {size}"] if v.found and v.first_size > size else []
    if v.minimal and size > 1:
        fewer.append("no flip can be left out: every set with one flip fewer was trained, and the decision stays")
    return [
        ("Attempts", attempts, one),
        ("Flippable labels", v.flippable, "Training labels that the rule ψ allows to flip for this person."),
        *([("Could fewer do?", "; ".join(fewer), smaller if size > 1 else "")] if fewer else []),
        *method_facts(v.run),
    ]


def method_facts(run: Run) -> Facts:
    """Ranking, strategy and rules of the search, and its cost."""
    rank, strategy = run.rank, run.strategy
    budget = f"at most {plural(run.budget, 'label')} flipped together, of {run.data.training_rows}"
    first = f"Which labels to try first: {RANKINGS[rank]}. Only retraining proves anything." if rank in RANKINGS else ""
    how = STRATEGIES.get(strategy, "")
    facts: Facts = [("Budget", budget, ""), ("Ranking", rank, first)]
    facts.append(("Strategy", strategy, f"{how[0].upper()}{how[1:]}." if how else ""))
    if run.agreement:
        facts.append(_agreement(run.agreement))
    for name, text in (("Who is audited (φ)", run.phi), ("Which labels may be flipped (ψ)", run.psi)):
        facts.append((name, text, marked(" ".join(f"`{rule}`: {meaning}" for rule, meaning in meanings(text).items()))))
    if run.engine:
        small = "Every find was confirmed by retraining with the model's own fit."
        facts.append(("Retrainings", run.retrainings, small))
    return facts


def _agreement(trial: Agreement) -> tuple[str, Any, Any]:
    """How well predicted and measured effects of single flips agree, and which ranking led the search."""
    rank = trial.spearman
    led = f"{leader_words(trial.leader, trial.gains)} moved decisions furthest and led the search"
    if rank is None:
        return "What led the search?", f"With the whole budget, {led}.", ""
    how = "poorly" if trial.poor else "well" if rank >= 0.7 else "fairly"
    return (
        "Was the gradient right?" if not trial.gains or "gradient" in trial.gains else "Were predictions right?",
        f"Predicted and measured effects of single flips agree {how}: rank correlation {signed(rank)} (1 is best), "
        f"measured effects {trial.slope or 0.0:.2f} × the predicted ones ({plural(trial.flips, 'flip')} retrained, "
        f"{plural(trial.people, 'person')}); with the whole budget, {led}.",
        "",
    )
