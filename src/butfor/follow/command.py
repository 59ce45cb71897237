"""`butfor review` and `butfor gate`: what follows an audit, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from butfor.errors import SettingError
from butfor.files import make_folder, save_table, save_text
from butfor.terminal import say


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="A new folder for the tasks; with --answers, the folder for corrections.csv.",
)
@click.option("--all", "every", is_flag=True, help="The labels of every find, not of the solid ones alone.")
@click.option("--most", type=int, help="At most so many labels, those in most people's flip sets first.")
@click.option("--hide", help="Further columns not to show, separated by commas. The protected ones never are.")
@click.option("--seed", type=int, help="Seed of decoys, order and ids. Default: 0.")
@click.option(
    "--answers",
    type=click.Path(path_type=Path),
    help="What reviewers answered: tasks.csv filled in, or Label Studio's JSON export.",
)
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    help="The key of the tasks. Default: FOLDER.key.json beside their folder.",
)
def review(file: Path, out: Path | None, answers: Path | None, key: Path | None, **options: Any) -> None:
    """Have the labels that decisions hinge on reviewed by someone who does not know which they are.

    \b
    butfor review report/audit.json --out tasks/
    butfor review report/audit.json --answers tasks/tasks.csv

    FILE is the JSON of 'butfor audit'. The first command writes the labels in the flip sets of solid finds, and as many
    decoys; the second compares what reviewers say about them.
    """
    from butfor.follow.audited import read_audit

    audit = read_audit(file)
    if answers is not None:
        given = [f"--{'all' if name == 'every' else name}" for name, value in options.items() if value]
        if given:
            raise SettingError(f"{given[0]} says what to review and goes with --out alone, not with --answers.")
        _compare(audit, answers, key, out)
    elif out is None:
        raise SettingError("Give --out FOLDER to write tasks for a reviewer, or --answers FILE to read what came back.")
    else:
        _hand_out(audit, out, key, options)


def _hand_out(audit: Any, out: Path, key: Path | None, options: dict[str, Any]) -> None:
    from butfor.follow.review import make_review
    from butfor.follow.tasks import write_review

    hide = [column.strip() for column in (options["hide"] or "").split(",") if column.strip()]
    made = make_review(audit, every=options["every"], most=options["most"], hide=hide, seed=options["seed"] or 0)
    shown, kept = write_review(made, out, key)
    say(made.sentence)
    say(f"For the reviewer: the folder {shown[0].parent} ({', '.join(path.name for path in shown)}).")
    say(
        f"Not for the reviewer: {' and '.join(str(path) for path in kept)}, which tell what the labels are and which "
        "matter. Keep the key: answers cannot be read without it."
    )


def _compare(audit: Any, answers: Path, key: Path | None, out: Path | None) -> None:
    from butfor.follow.answers import read_answers
    from butfor.follow.tasks import key_for, read_key

    tasks = read_key(key or key_for(answers), audit.sha256)
    first, second = audit.run["label_names"]
    outcome = read_answers(answers, tasks, (str(first), str(second)))
    say(outcome.sentence)
    if outcome.lines:
        say("Keystones whose label the reviewer would change:")
    for line in outcome.lines:
        say(f"  {line}")
    if out is not None:
        make_folder(out)
        save_table(out / "corrections.csv", outcome.corrections(), index=False)
        say(f"Wrote {out / 'corrections.csv'}.", err=True)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--max-solid", help="People with a solid find at the most, of all eligible: 5%.")
@click.option("--max-gap", help="Difference between groups' shares of these at the most: 10pp.")
@click.option("--max-close-calls", help="Close calls at the most, of all eligible people: 30%.")
@click.option("--max-switch", help="Decisions at the most that a switch of the protected attribute changes: 1%.")
@click.option(
    "--markdown", "markdown_file", type=click.Path(path_type=Path), help="Also write a table for a pull request."
)
@click.option(
    "--junit", "junit_file", type=click.Path(path_type=Path), help="Also write JUnit XML, a test case per limit."
)
def gate(
    file: Path,
    max_solid: str | None,
    max_gap: str | None,
    max_close_calls: str | None,
    max_switch: str | None,
    markdown_file: Path | None,
    junit_file: Path | None,
) -> int:
    """Hold an audit to limits: exit code 0 where all are kept, 1 where one is not.

    \b
    butfor gate report/audit.json --max-solid 5% --max-gap 10pp --max-switch 1%

    FILE is the JSON of 'butfor audit'. A limit that cannot be measured, as without fresh seeds, is not kept.
    """
    from butfor.follow.audited import read_audit
    from butfor.follow.gate import check, junit, markdown, share_in

    given = {
        "max_solid": max_solid, "max_gap": max_gap, "max_close_calls": max_close_calls, "max_switch": max_switch,
    }  # fmt: skip
    limits = {name: share_in(text, f"--{name.replace('_', '-')}") for name, text in given.items() if text is not None}
    if not limits:
        raise SettingError(
            "Give at least one limit: --max-solid 5%, --max-gap 10pp, --max-close-calls 30% or --max-switch 1%."
        )
    checks = check(read_audit(file).population, **limits)
    for one in checks:
        say(one.line)
    if markdown_file:
        save_text(markdown_file, markdown(checks))
    if junit_file:
        save_text(junit_file, junit(checks))
    return 0 if all(one.kept for one in checks) else 1
