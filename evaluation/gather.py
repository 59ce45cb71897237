"""From options to results: read from files, or computed here with progress on stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from butfor.errors import DatasetError, SettingError
from butfor.table.embedded import DATASETS, spec_named
from evaluation.results import Result, read_result
from evaluation.runs import Machinery, run_dataset
from evaluation.stopwatch import LineProgress

SMALL = ("salary", "student", "german")


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def machinery_of(given: argparse.Namespace) -> Machinery:
    return Machinery(given.engine, given.device, given.n_jobs, given.ledger, given.data_home)


def results_for(
    given: argparse.Namespace,
    ranks: Sequence[str],
    *,
    default: Sequence[str] = SMALL,
    left_out: dict[str, str] | None = None,
    keep: Path | None = None,
) -> list[Result]:
    """The results asked for, read or computed. Sets nobody named and that cannot be had are
    `left_out`."""
    if given.cases is not None and given.cases < 1:
        raise SettingError(f"--cases {given.cases}: at least one person is needed.")
    if given.datasets == [] or given.ranks == []:
        raise SettingError("Name at least one, separated by commas.")
    for name in given.datasets or ():
        spec_named(name)
    if given.results is not None:
        return _read(given, left_out)
    return _computed(
        given, ranks, given.datasets or default, left_out if given.datasets is None else None, keep
    )


def _read(given: argparse.Namespace, left_out: dict[str, str] | None) -> list[Result]:
    if given.cases is not None or given.seeds != 1:
        raise SettingError(
            "--cases and --seeds say what to run; results in files are shown as they are."
        )
    if not given.results.is_dir():
        raise SettingError(
            f"--results {given.results} is not a directory; name one that holds <data set>.json "
            "files."
        )
    found = []
    for name in given.datasets or DATASETS:
        path = given.results / f"{name}.json"
        if path.exists():
            found.append(read_result(path))
        elif given.datasets:
            raise SettingError(
                f"There is no '{path}'; run 'python -m evaluation runs --datasets {name} --out …'."
            )
        elif left_out is not None:
            left_out[name] = "no result in the directory that was shown."
    if not found:
        raise SettingError(
            f"There is no result in '{given.results}'; it should hold files such as adult.json."
        )
    return found


def _computed(
    given: argparse.Namespace,
    ranks: Sequence[str],
    names: Sequence[str],
    left_out: dict[str, str] | None,
    keep: Path | None,
) -> list[Result]:
    wanted = given.ranks or ranks
    people = (
        f"the first {given.cases} eligible people (a sample)"
        if given.cases
        else "up to 200 eligible people"
    )
    seeds = f", {given.seeds} model seeds" if given.seeds > 1 else ""
    tell(f"Running {', '.join(names)}: {people}{seeds}, rankings {', '.join(wanted)}.")
    results = []
    for name in names:
        try:
            result = run_dataset(
                name,
                wanted,
                sample=given.cases,
                seeds=given.seeds,
                machinery=machinery_of(given),
                progress_kind=LineProgress,
                save=(lambda result: result.write(keep)) if keep else None,
            )
            results.append(result)
        except DatasetError as error:
            if left_out is None:
                raise
            left_out[name] = (
                "left out, because its file is not here and could not be fetched (see BUTFOR_DATA)."
            )
            tell(f"{name} is left out: {error}")
        except KeyboardInterrupt:
            kept = (
                f"what was trained is in {given.ledger}"
                if given.ledger
                else "with --ledger FILE it would be kept"
            )
            tell(f"Interrupted; {kept}.")
            raise
    return results
