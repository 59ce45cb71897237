"""`butfor replay`, `butfor review` and `butfor gate`: what follows an audit."""

from __future__ import annotations

import shlex
from dataclasses import replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from cloup import argument, command, option

from butfor.cli import options as opt
from butfor.support.errors import SettingError, as_recorded
from butfor.support.terminal import say, say_wrapped, shown_json

if TYPE_CHECKING:
    from butfor.result.population import Population

FILE = click.Path(path_type=Path)
DATA = option(
    "--data",
    type=opt.ROWS,
    help="Where the table is now, if it was moved, with its test file beside it.",
)
OWN_MODEL = option(
    "--model", help="Your model, package.module:name, if the audit was of code of yours."
)


@command()
@argument("file", type=FILE)
@OWN_MODEL
@DATA
@option("--fresh-seeds", is_flag=True, help="Also retrain every find under its fresh seeds.")
def replay(file: Path, model: str | None, data: str | None, fresh_seeds: bool) -> int:
    """Retrain the finds of an audit and compare.

    FILE is the audit.json of 'butfor audit'. Everything it says about people and takes no search is
    computed again and compared, and its checksum. Exit code 1 if anything differs.
    """
    from butfor.models.by_name import model_named
    from butfor.result.population import Population
    from butfor.result.record import opened
    from butfor.review.replay import replay_all

    record = opened(file, allow_changes=True)
    given = None if model is None else model_named(model)
    audit = Population.from_json(record)
    people = with_table(audit, data)
    if not people:
        say("This record has no verdicts to retrain; replay the audit.json of the first round.")
    outcomes = []
    for outcome in replay_all(people, model=given, fresh=fresh_seeds):
        outcomes.append(outcome)
        if outcome.found or not outcome.agrees:
            say(outcome.sentence)
    said = {
        True: "counterfactual datasets agree",
        False: "verdicts without a find agree; no search was repeated",
    }
    for found, what in said.items():
        if agree := [outcome.agrees for outcome in outcomes if outcome.found is found]:
            say(f"{sum(agree)} of {len(agree)} {what}.")
    if audit.one_standard:
        say_wrapped(
            "Decisions under one standard were not trained again; 'butfor audit --config "
            "audit.toml' does it."
        )
    say(record.sentence)
    return 0 if all(outcomes) and record.unchanged else 1


def with_table(audit: Population, table: str | None) -> Population:
    """The audit with its table where --data says, and its other files beside it, if they are
    there."""
    if table is None:
        return audit
    data = audit.run.data
    if data.label is None:
        raise SettingError(f"The record names no such file; leave out --data {table}.")
    others = {name: path for name, path in data.files.items() if name != "table"}
    beside = {name: Path(table).with_name(Path(path).name) for name, path in others.items()}
    moved: dict[str, Any] = {name: str(path) for name, path in beside.items() if path.exists()}
    return audit.with_run(data=replace(data, table=table, **moved))


@command()
@argument("file", type=FILE)
@option("--out", type=FILE, help="Folder for the tasks or, with --answers, for the results.")
@opt.OVERWRITE
@option(
    "--labels",
    type=int,
    help="How many labels to review, the likeliest to be wrong first. Default: up to 100.",
)
@option("--hide", help="Further columns that the reviewer must not see: a,b.")
@option(
    "--file-column", help="Column that names each person's original file, for reviewers to look up."
)
@option("--random-state", type=int, help="Seed of the clear cases and of the order. Default: 0.")
@option(
    "--answers",
    type=FILE,
    multiple=True,
    help="A reviewer's answers: the page's answers.csv, tasks.csv filled in, or Label Studio's "
    "CSV export. Repeat for each.",
)
@option(
    "--key", type=FILE, help="The key of the tasks. Default: FOLDER.key.json beside their folder."
)
@option(
    "--anyway",
    is_flag=True,
    help="Go on although the review can hardly show anything, or the answers show nothing.",
)
@DATA
@OWN_MODEL
def review(
    file: Path,
    out: Path | None,
    overwrite: bool,
    answers: tuple[Path, ...],
    key: Path | None,
    anyway: bool,
    data: str | None,
    model: str | None,
    **choice: Any,
) -> int:
    """Have labels reviewed blind, and see what corrections change.

    \b
    butfor review report/audit.json --out tasks/
    butfor review report/audit.json --answers tasks/answers.csv --out after/
    butfor review after/review.json --out more-tasks/

    FILE is an audit.json, or the review.json of an earlier round. The first command writes tasks
    for a reviewer: labels of a group that are likely to be wrong, mixed with controls (the same
    label of other groups) and clear cases. The second reads the answers, corrects the labels,
    retrains the model and shows whose decisions change. The third starts another round. Exit code 1
    and nothing written: no number of labels is likely to show anything, or the answers show
    nothing.
    """
    from butfor.models.by_name import model_named
    from butfor.result.population import Population
    from butfor.result.record import CHECKSUM, opened
    from butfor.result.reviewed import worth_a_review
    from butfor.review.answers import read_answers
    from butfor.review.close import close_review
    from butfor.review.tasks import read_key, review_of, write_review
    from butfor.support.files import check_folder, claimed, real
    from butfor.support.progress import ConsoleProgress

    record = opened(file)
    audit = with_table(Population.from_json(record), data)
    seal = record.content[CHECKSUM]
    if key is not None and real(key) == real(file):
        raise SettingError(f"--key {key} is the record itself; the key is another file.")
    if out is not None and real(out) in (real(path).parent for path in (file, *answers)):
        raise SettingError(
            f"--out {out} is the folder of a file that this command reads; name another folder."
        )

    if not answers:
        if out is None:
            raise SettingError(
                "Give --out FOLDER to write tasks for a reviewer, or --answers FILE to read them "
                "back."
            )
        choice["hide"] = opt.names_in(choice["hide"])
        choice["random_state"] = choice["random_state"] or 0
        with as_recorded("The record's tasks cannot be made"):
            tasks = review_of(audit, record=seal, **choice)
        refused = tasks.hopeless and not anyway
        shown, kept = ([], None) if refused else write_review(tasks, out, key, overwrite)
        for line in tasks.lines:
            say_wrapped(line)
        if refused:
            say("No tasks were written; --anyway writes them.")
            return 1
        say(
            f"Give the reviewer the folder {shown[0].parent} "
            f"({', '.join(path.name for path in shown)})."
        )
        say(f"Keep {kept}: it tells why each task is asked, and answers cannot be read without it.")
        return 0

    if about_tasks := [name for name, value in choice.items() if value is not None]:
        name = opt.dashed(about_tasks[0])
        raise SettingError(
            f"--{name} says what to review and goes with --out alone, not with --answers."
        )
    if out is None and (anyway or overwrite):
        raise SettingError(
            f"--{'anyway' if anyway else 'overwrite'} is about the files of --out FOLDER: name "
            "that folder, too."
        )
    outcome = read_answers(answers, read_key(key, answers, seal, audit.run))
    nothing = outcome.evidence.shows_nothing
    if out is None or (nothing and not anyway):
        for line in outcome.evidence.lines:
            say_wrapped(line)
        if nothing:
            say("Nothing was corrected or written; --anyway does it.")
            return 1
        say("Add --out FOLDER to correct the labels and retrain the model.")
        return 0
    click.get_current_context().with_resource(claimed(out))
    check_folder(out, overwrite)
    with as_recorded("The record's labels cannot be corrected"):
        given = None if model is None else model_named(model)
        after, written = close_review(audit, outcome, out, given, ConsoleProgress())
    for line in after.run.reviewed.lines if after.run.reviewed else ():
        say_wrapped(line)
    say_wrapped(f"Wrote {', '.join(written)} into {out}. Open {out / 'review.html'}", err=True)
    if worth_a_review(after.to_review):
        say(
            f"Next round: butfor review {shlex.quote(str(out / 'review.json'))} --out TASKS",
            err=True,
        )
    return 0


@command()
@argument("file", type=FILE)
@option("--max-gap", help="The largest gap allowed to any group, in percentage points: 2.")
@option(
    "--except", "without", multiple=True, help="A group that --max-gap leaves out. Repeat for each."
)
@option("--max-solid", help="The share of audited decisions that may have a solid find: 5%.")
@opt.JSON
def gate(
    file: Path, max_gap: str | None, without: tuple[str, ...], max_solid: str | None, json: bool
) -> int:
    """Hold an audit or a comparison of groups to limits.

    \b
    butfor gate report/audit.json --max-gap 2 --max-solid 5%
    butfor gate standards/standard.json --max-gap 2 --except "race = other"

    FILE is the audit.json of 'butfor audit' or the standard.json of 'butfor standard'. Exit code 0:
    every limit is kept; 1: one is broken; 4: the data cannot tell.
    """
    from butfor.result.population import Population
    from butfor.result.record import opened
    from butfor.review.gate import (
        BROKEN,
        KEPT,
        UNKNOWN,
        check_gaps,
        check_solid,
        share_in,
        standards_in,
    )

    gap_limit = None if max_gap is None else share_in(max_gap, "--max-gap")
    solid_limit = None if max_solid is None else share_in(max_solid, "--max-solid")
    if gap_limit is None and solid_limit is None:
        raise SettingError("Give a limit: --max-gap 2, --max-solid 5%.")
    if without and gap_limit is None:
        raise SettingError("--except goes with --max-gap.")
    record = opened(file)
    audit = None if "groups" in record.content else Population.from_json(record)
    if solid_limit is not None and audit is None:
        raise SettingError(
            f"--max-solid: {file} compares groups only; give the audit.json of 'butfor audit'."
        )
    with as_recorded(f"{file} cannot be held to a limit"):
        standards = audit.run.standard if audit is not None else None
        if audit is None:
            standards = standards_in(record)
        checks = [] if gap_limit is None else check_gaps(standards, gap_limit, without)
        if audit is not None and solid_limit is not None:
            checks.append(check_solid(audit, solid_limit))
        cut = audit.run.cut if audit is not None and audit.run.threshold else ""
    if json:
        say(shown_json(dumps([check.to_dict() for check in checks], indent=1, ensure_ascii=False)))
    for line in filter(None, () if json else (cut, *(check.line for check in checks))):
        say_wrapped(line)
    codes = {check.code for check in checks}
    return BROKEN if BROKEN in codes else UNKNOWN if UNKNOWN in codes else KEPT
