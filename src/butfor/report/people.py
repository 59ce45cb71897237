"""The people of a page: who is listed, in which order and under which name, with which score, what
is said about them in plain words, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup, escape

from butfor.report.text import short, shown
from butfor.result.fresh import SOLID
from butfor.result.population import Population
from butfor.result.reviewed import TrainingLabel, worth_a_review
from butfor.result.run import Run
from butfor.result.verdict import Verdict
from butfor.result.words import (
    CLOSE_CALL,
    NO_DIFFERENCE,
    REVIEW,
    SOLIDITY,
    STATUS,
)
from butfor.result.worlds import OneStandard, PersonInWorlds
from butfor.table.decisions import USUAL

MOST_LISTED = 1000
"""The most people in the list: those who matter most."""
MOST_DETAILED = 300
"""The most people one by one below it."""
MOST_IN_WORLDS = 100
"""The most people listed by how likely their decision is to change."""
LONGEST_NAME = 60
"""The most characters of a row's name."""
NOT_AUDITED_WEIGHT = 5
"""The weight of people who were not audited."""
Worlds = tuple[tuple[OneStandard, PersonInWorlds], ...]


class Listed:
    """A person of the page: examined (with a `verdict`), or named because one standard changes the
    decision."""

    weight: tuple[float, float]
    """The order: changes in most worlds, solid, found, changes in some worlds, audited, not
    audited."""
    decisions: tuple[str | tuple[str, ...], str | tuple[str, ...]]
    """The decision now, and the other one; of several labels each."""

    listed = detailed = False
    """Whether this person is in the list, and below it."""

    def __init__(self, run: Run, anchor: str, verdict: Verdict | None, worlds: Worlds = ()) -> None:
        self.anchor = anchor
        self.verdict = verdict
        self.worlds = worlds
        self.person = v = verdict or worlds[0][1]
        self.name = row_name(run, v.row, v.case)
        self.in_most = any(one.in_most(person) for one, person in worlds)
        most = max((one.moved(person) for one, person in worlds), default=0)
        adverse = run.adverse or ("adverse",)
        favourable = run.favourable_labels or ("favourable",)
        if isinstance(v, Verdict):
            other = adverse if v.prediction in favourable else favourable
            self.decisions = (v.prediction, v.counterfactual_prediction or other)
        else:
            self.decisions = (adverse, favourable) if v.refused else (favourable, adverse)
        if self.in_most:
            self.weight = (0, -most)
        elif isinstance(v, Verdict) and v.found:
            self.weight = (1 if v.solidity == SOLID else 2, v.at_most or 0)
        elif most or not isinstance(v, Verdict):
            self.weight = (3, -most)
        else:
            self.weight = (4 if v.eligible else NOT_AUDITED_WEIGHT, -most)


def listed(p: Population) -> list[Listed]:
    """Everybody examined, and everybody named by one standard, those who matter most first."""
    worlds: dict[int | None, Worlds] = {}
    for one in p.one_standard:
        for person in (*one.gaining[:MOST_IN_WORLDS], *one.losing):
            worlds[person.case] = (*worlds.get(person.case, ()), (one, person))
    people = []
    for k, v in enumerate(p, start=1):
        anchor = f"person-{k}" if v.case is None else f"case-{v.case}"
        people.append(Listed(p.run, anchor, v, worlds.pop(v.case, ())))
    people += [Listed(p.run, f"case-{case}", None, others) for case, others in worlds.items()]
    people.sort(key=lambda row: row.weight)
    for place, row in enumerate(people):
        row.listed = place < MOST_LISTED
        row.detailed = place < MOST_DETAILED and row.weight[0] < NOT_AUDITED_WEIGHT
    return people


def changed_by(people: Sequence[Listed], one: OneStandard) -> list[tuple[Listed, PersonInWorlds]]:
    """Those whose decision changes in worlds of one group: who gains before who loses, the
    likeliest first."""
    pairs = [(row, person) for row in people for world, person in row.worlds if world is one]
    loses = {person.case for person in one.losing}
    return sorted(pairs, key=lambda pair: (pair[1].case in loses, -one.moved(pair[1])))


def under_one_standard(run: Run, one: OneStandard, person: PersonInWorlds) -> tuple[str, ...]:
    """What this person gets if the decision changes: of a model without a seed the other decision
    than now, else what most worlds decide."""
    gains = person.refused if one.control is None else one.accepted(person)
    if gains:
        return run.favourable_labels or ("favourable",)
    return run.adverse or ("adverse",)


def shares_in_words(one: OneStandard, person: PersonInWorlds) -> tuple[str, ...]:
    """In how many worlds the decision changes; beside controls, also in how many of these it is the
    same, and whether it is a close call."""
    if one.control is None:
        return (f"{person.worlds} of {len(one.worlds)}",)
    close = f"{CLOSE_CALL.sign} {CLOSE_CALL.title.lower()}" if person.close_call else ""
    return (*one.in_words(person), close)


def behind(people: Sequence[Listed]) -> dict[int, list[Listed]]:
    """By position of a training row, those whose flip sets include it: most first."""
    by_position: dict[int, list[Listed]] = {}
    for one in people:
        for position in one.verdict.positions if one.verdict else ():
            by_position.setdefault(position, []).append(one)
    return dict(sorted(by_position.items(), key=lambda item: -len(item[1])))


# --- names ----------------------------------------------------------------------------------------


def row_word(run: Run) -> str:
    """What the numbers of rows are: the table's own ids, lines of a file, or rows."""
    return run.row_word


def row_name(run: Run, row: object, case: int | None = None) -> str:
    """A row as the table names it, else by the line of the file; a person without a row by the
    position."""
    if row is None and case is not None:
        return str(case)
    number = run.row_number(row)
    return str(number) if number is not row else shown(row, LONGEST_NAME)


def who(v: Verdict | PersonInWorlds, run: Run) -> str:
    """ "applicant A-17", "the applicant in line 38": by the table's own id, else by the row."""
    one = run.names.one
    word = row_word(run)
    if v.row is None:
        return f"this {one}" if v.case is None else f"{one} {v.case}"
    called = one if run.data.identifier else f"the {one} in {word}"
    return short(f"{called} {row_name(run, v.row)}", 80)


# --- values ---------------------------------------------------------------------------------------


def scores(v: Verdict) -> tuple[float, float | None]:
    """The score, or the margin of a model without scores, now and with the flips; without a find,
    the closest."""
    now, after = v.scores
    if now is None:
        flipped = v.counterfactual_logit
        return v.logit, v.closest_logit if flipped is None else flipped
    if after is None and v.closest_logit is not None and not v.run.cut_moves:
        after = v.run.score_of(v.closest_logit)
    return now, after


def cut_of(v: Verdict) -> float:
    """Where the decision changes, on the scale of `scores`."""
    if v.scores[0] is None:
        return 0.0
    if v.cut is not None:
        return v.cut
    threshold = v.run.threshold
    return (threshold and threshold.probability) or USUAL


def digits(people: Sequence[Listed]) -> int:
    """How many decimals tell every score in a column from its cut: two to six."""
    pairs = list[tuple[float, float]]()
    for one in people:
        if one.verdict:
            cut = cut_of(one.verdict)
            shown_scores = [score for score in scores(one.verdict) if score is not None]
            pairs += [(score, cut) for score in shown_scores if abs(score - cut) > 1e-6]
    for digits in range(2, 6):
        if all(round(score, digits) != round(cut, digits) for score, cut in pairs):
            return digits
    return 6


def columns_of(v: Verdict, flips: int | None = None, most: int | None = None) -> list[str]:
    """The columns of the person beside the first `flips` flipped rows, in the table's order: at
    most so many, those that differ first."""
    rows = v.flip_set[:flips]

    def alike(name: str) -> bool:
        return all(row.values[name] == v.values[name] for row in rows)

    first = sorted(v.values, key=alike)[:most]
    return [name for name in v.values if name in first]


# --- sentences ------------------------------------------------------------------------------------


def marked(text: str) -> Markup:
    """Words marked as in Markdown (`code`, **bold**) as HTML."""

    def code(match: re.Match[str]) -> str:
        return f"<code>{command(Markup(match[1]))}</code>"

    html = re.sub("`(.+?)`", code, str(escape(text)))
    return Markup(re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html))


def command(text: str) -> Markup:
    """A command that does not break after a hyphen."""
    return Markup(" ").join(Markup("<span>{}</span>").format(word) for word in text.split(" "))


def plainly(v: Verdict) -> str:
    """The answer for lay readers."""
    run = v.run
    label = v.run.names.label
    count = len(v.positions)
    decides = f"The model's decision about {who(v, run)} is {label(v.prediction)}."
    learned = f"of the {run.data.training_rows} labels it learned from"
    if v.status == "not_eligible":
        return v.said(who(v, run))
    if v.found:
        change = f"one {learned} was" if count == 1 else f"{count} {learned} were"
        other = label(v.new_label) if v.new_label else "the other way"
        return (
            f"{decides} If {change} {other}, it would be "
            f"{label(v.counterfactual_prediction or '')}."
        )
    if v.status == "proven_none":
        to = f" to {label(v.new_label)}" if v.new_label else ""
        return f"{decides} Proven: changing up to {run.budget} {learned}{to} cannot change that."
    tried = f"No change of up to {run.budget} {learned} was found that changes it."
    if not v.attempts:
        tried = f"No flip set was tried: {v.reason}"
    return f"{decides} {tried} That does not mean that the decision is fair."


def of_record(what: str, run: Run, options: str = "") -> str:
    """ "butfor review audit.json --out tasks/", as it runs where a page lies that the command wrote
    beside the record. A table from standard input has to be named."""
    named = "" if run.data.table else " --data TABLE"
    return f"butfor {what} audit.json{named}{options}"


def review_command(run: Run) -> str:
    """What prepares the tasks of a review, of a page that the command wrote or one written in
    Python."""
    if run.command:
        return of_record("review", run, " --out tasks/")
    return "audit.review_tasks(population)"


def steps(
    run: Run, verdicts: Sequence[Verdict], labels: Sequence[TrainingLabel] = ()
) -> list[Markup]:
    """What to do next about these people and labels, in order; each step once."""
    texts = list[str]()
    if worth_a_review(labels):
        texts.append(REVIEW.format(review_command(run)))
    for solidity, words in SOLIDITY.items():
        if any(v.solidity == solidity for v in verdicts):
            texts += words.steps
    if any(v.close_call for v in verdicts):
        texts += CLOSE_CALL.steps
    audited = [v for v in verdicts if v.eligible]
    for status, words in STATUS.items():
        if any(v.status == status for v in audited):
            texts += words.steps
    if not audited:
        texts += STATUS["not_eligible"].steps
    if len(verdicts) > 1:
        texts.append(NO_DIFFERENCE)
    return list(map(marked, dict.fromkeys(texts)))
