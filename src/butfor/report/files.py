"""The files of a report: the page about everybody and, where there are many, a file per person beside it.

Every file is written beside its place and then renamed, the page last, once the disk has what it leads to. A folder
from an earlier run loses the people who are no longer in the report, and nothing else.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from butfor.errors import OutputError
from butfor.files import make_folder, on_disk, save_text
from butfor.report.page import person_page, population_page
from butfor.report.people import anchors
from butfor.result.population import Population
from butfor.result.record import written

MOST_IN_ONE = 300
"""People of a report that is one file."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
PATIENCE = 120.0
"""Seconds that a browser has for printing."""
OURS = re.compile(r"(case|person)-[\d.]+\.html")


def folder_beside(path: Path) -> Path:
    """Where the people of the report at `path` have their files."""
    return path.with_name(f"{path.stem}-people")


def write_report(population: Population, path: Path) -> str:
    """Write the report to `path`; its text. Beyond a few hundred people it is an index of files in a folder beside."""
    folder = folder_beside(path)
    if len(population) <= MOST_IN_ONE:
        text = written(population_page(population), path)
        _keep_only(folder, set())
        return text
    make_folder(folder)
    names = [f"{anchor}.html" for anchor in anchors(population.verdicts)]
    for verdict, name in zip(population, names, strict=True):
        save_text(folder / name, person_page(verdict, path.name), at_once=False)
    on_disk()
    text = written(population_page(population, folder.name), path)
    _keep_only(folder, set(names))
    return text


def write_pdf(page: Path) -> Path | None:
    """The page printed by a Chromium, beside it; None where there is none."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return None
    pdf = page.with_suffix(".pdf")
    with tempfile.TemporaryDirectory() as profile:
        options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer")
        command = [browser, *options, f"--user-data-dir={profile}", f"--print-to-pdf={pdf}", page.resolve().as_uri()]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        except (OSError, subprocess.SubprocessError) as error:
            raise OutputError(pdf, error) from error
    return pdf


def _keep_only(folder: Path, names: set[str]) -> None:
    """Remove people's files of an earlier report, which nothing leads to any more."""
    if not folder.is_dir():
        return
    for file in folder.iterdir():
        if OURS.fullmatch(file.name) and file.name not in names:
            file.unlink()
    if not names and not any(folder.iterdir()):
        folder.rmdir()
