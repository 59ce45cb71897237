"""`butfor review` and `butfor gate`: what follows an audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from cloup import argument, command, option

from butfor.cli.wiring import names_in
from butfor.errors import SettingError
from butfor.terminal import say

if TYPE_CHECKING:
    from butfor.result.population import Population

FILE = click.Path(path_type=Path)


@command()
@argument("file", type=FILE)
@option("--out", type=FILE, help="A new folder for the tasks; with --answers, the folder for corrections.csv.")
@option("--all", "every", is_flag=True, help="The labels of every find, not of the solid ones alone.")
@option("--most", type=int, help="At most so many labels, those in most people's flip sets first.")
@option("--hide", help="Further columns not to show, separated by commas. The protected ones never are.")
@option("--random-state", type=int, help="Seed of decoys, order and ids. Default: 0.")
@option("--answers", type=FILE, help="What reviewers answered: tasks.csv filled in, or Label Studio's JSON export.")
@option("--key", type=FILE, help="The key of the tasks. Default: FOLDER.key.json beside their folder.")
def review(file: Path, out: Path | None, answers: Path | None, key: Path | None, **choice: Any) -> None:
    """Have the labels that decisions hinge on reviewed by someone who does not know which they are.

    \b
    butfor review report/audit.json --out tasks/
    butfor review report/audit.json --answers tasks/tasks.csv

    FILE is the JSON of 'butfor audit'. The first command writes the labels in the flip sets of solid finds, and as many
    decoys; the second compares what reviewers say about them.
    """
    from butfor.result.population import Population

    audit = Population.from_json(file)
    if answers is not None:
        given = [name for name, value in choice.items() if value]
        if given:
            flag = "all" if given[0] == "every" else given[0].replace("_", "-")
            raise SettingError(f"--{flag} says what to review and goes with --out alone, not with --answers.")
        _compare(audit, answers, key, out)
    elif out is not None:
        _hand_out(audit, out, key, **choice)
    else:
        raise SettingError("Give --out FOLDER to write tasks for a reviewer, or --answers FILE to read what came back.")


def _hand_out(
    audit: Population, out: Path, key: Path | None, *, hide: str | None, random_state: int | None, **choice: Any
) -> None:
    from butfor.review.select import make_review
    from butfor.review.tasks import write_review

    made = make_review(audit, hide=names_in(hide), seed=random_state or 0, **choice)
    shown, kept = write_review(made, out, key)
    say(made.sentence)
    say(f"For the reviewer: the folder {shown[0].parent} ({', '.join(path.name for path in shown)}).")
    say(
        f"Not for the reviewer: {kept}, which tells what the labels are and which matter. Keep it: answers cannot be "
        "read without it."
    )


def _compare(audit: Population, answers: Path, key: Path | None, out: Path | None) -> None:
    from butfor.files import make_folder, save_table
    from butfor.result.record import checksum
    from butfor.review.answers import read_answers
    from butfor.review.tasks import key_for, read_key

    tasks = read_key(key or key_for(answers), checksum(audit.to_dict()))
    first, second = audit.run["label_names"]
    outcome = read_answers(answers, tasks, (str(first), str(second)))
    say(outcome.sentence)
    if outcome.lines:
        say("\n  ".join(["Keystones whose label the reviewer would change:", *outcome.lines]))
    if out is not None:
        make_folder(out)
        save_table(out / "corrections.csv", outcome.corrections(), index=False)
        say(f"Wrote {out / 'corrections.csv'}.", err=True)


@command()
@argument("file", type=FILE)
@option("--max-solid", help="People with a solid find at the most, of all eligible: 5%.")
@option("--max-gap", help="Difference between groups' shares of these at the most: 10pp.")
@option("--max-close-calls", help="Close calls at the most, of all eligible people: 30%.")
@option("--max-switch", help="Decisions at the most that a switch of the protected attribute changes: 1%.")
@option("--markdown", type=FILE, help="Also write a table for a pull request.")
@option("--junit", type=FILE, help="Also write JUnit XML, a test case per limit.")
def gate(file: Path, markdown: Path | None, junit: Path | None, **given: str | None) -> int:
    """Hold an audit to limits: exit code 0 where all are kept, 1 where one is not.

    \b
    butfor gate report/audit.json --max-solid 5% --max-gap 10pp --max-switch 1%

    FILE is the JSON of 'butfor audit'. A limit that cannot be measured, as without fresh seeds, is not kept.
    """
    from butfor.files import save_text
    from butfor.result.population import Population
    from butfor.review import gate as limits

    texts = {name: text for name, text in given.items() if text is not None}
    shares = {name: limits.share_in(text, f"--{name.replace('_', '-')}") for name, text in texts.items()}
    if not shares:
        raise SettingError(
            "Give at least one limit: --max-solid 5%, --max-gap 10pp, --max-close-calls 30% or --max-switch 1%."
        )
    checks = limits.check(Population.from_json(file), **shares)
    for check in checks:
        say(check.line)
    if markdown:
        save_text(markdown, limits.markdown(checks))
    if junit:
        save_text(junit, limits.junit(checks))
    return 0 if all(check.kept for check in checks) else 1
