"""A folder that is handed over works: records and pages name the table as seen from where they
lie."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

import butfor
from butfor.report.text import plain_number
from butfor.result.run import Data
from recorded import RUN, changed, fill_in, key_of, run
from report.conftest import QUESTION, table


def commands_on(page: Path) -> list[list[str]]:
    """The commands that a page prints, as words."""
    blocks = re.findall(
        r"<(?:pre|code)>(.*?)</(?:pre|code)>", page.read_text(encoding="utf-8"), re.DOTALL
    )
    texts = (unescape(re.sub(r"<[^>]+>", "", block)).strip() for block in blocks)
    return [shlex.split(text) for text in dict.fromkeys(texts) if text.startswith("butfor ")]


def in_favour(tasks: Path) -> None:
    """Answers that find every label under review wrong, and all others right."""
    fill_in(tasks, {t["id"]: "yes" if t["kind"] == "label" else t["label"] for t in key_of(tasks)})


@pytest.fixture
def moved(loans, tmp_path) -> Path:
    """The folder of the audit, somewhere else."""
    return Path(shutil.copytree(loans, tmp_path / "to a reader"))


def test_every_command_on_a_page_runs_where_the_page_lies(moved, capsys, monkeypatch):
    monkeypatch.chdir(moved / "report")
    printed = commands_on(Path("report.html"))
    assert [words[1] for words in printed] == ["review", "audit", "replay"]
    for words in printed:
        code, out, err = run(capsys, *words[1:])
        assert code == 0 or "--anyway writes them" in out, (
            words,
            err,
        )  # so few labels may show nothing
    assert f"Label audit of loans.csv {chr(183)} " in Path("report.html").read_text(
        encoding="utf-8"
    )


def test_a_record_without_its_table_says_so_and_takes_data(moved, capsys, tmp_path, monkeypatch):
    table = (moved / "loans.csv").rename(tmp_path / "renamed.csv")
    record, tasks, after = moved / "report" / "audit.json", tmp_path / "tasks", tmp_path / "after"
    for command, *options in (("replay",), ("review", "--out", tasks)):
        code, out, err = run(capsys, command, record, *options)
        assert (code, out, err.count("\n"), "--data FILE" in err) == (2, "", 1, True), err
    assert run(capsys, "replay", record, "--data", table)[0] == 0
    assert run(capsys, "review", record, "--out", tasks, "--data", table, "--anyway")[0] == 0
    in_favour(tasks)
    answers = ("review", record, "--answers", tasks / "tasks.csv", "--out", after, "--anyway")
    assert run(capsys, *answers)[0] == 2
    assert run(capsys, *answers, "--data", table)[0] == 0
    assert (
        json.loads((after / "review.json").read_text())["run"]["data"]["table"] == "../renamed.csv"
    )
    monkeypatch.chdir(after)
    (words,) = commands_on(Path("review.html"))
    code, out, err = run(capsys, *words[1:])
    assert code == 0 or "--anyway writes them" in out, err


def test_paths_are_kept_from_the_record_and_as_given_without_one(
    loans, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(loans)
    table = Path("loans.csv").resolve()
    recorded = json.loads(Path("report/audit.json").read_text())["run"]
    assert (recorded["data"]["table"], recorded["data"]["relative"]) == ("../loans.csv", True)
    assert recorded["command"].startswith("butfor audit ../loans.csv ")
    assert "--names ../names.toml" in recorded["command"]
    found = butfor.Population.from_json(Path("report/audit.json"))
    assert found.run.data.table == "loans.csv"
    assert json.loads(found.to_json())["run"]["data"]["table"] == "loans.csv"
    elsewhere = butfor.Population.from_json(found.to_json(tmp_path / "audit.json"))
    assert Path(elsewhere.run.data.table).resolve() == table
    (tmp_path / "link").symlink_to(
        loans / "report"
    )  # a path through a link is not one to its folder's neighbours
    assert (
        Path(butfor.Population.from_json(tmp_path / "link" / "audit.json").run.data.table).resolve()
        == table
    )

    # Those of 0.5: as seen from the working folder, then from the record.
    def typed(record):
        record["run"]["data"].pop("relative")
        record["run"]["data"]["table"] = "loans.csv"

    (old := tmp_path / "old").mkdir()
    changed(loans / "report" / "audit.json", old / "audit.json", typed)
    assert butfor.Population.from_json(old / "audit.json").run.data.table == "loans.csv"
    assert run(capsys, "replay", old / "audit.json")[0] == 0
    monkeypatch.chdir(tmp_path)
    shutil.copy(loans / "loans.csv", old)
    assert butfor.Population.from_json(old / "audit.json").run.data.table == "old/loans.csv"


def test_a_file_on_another_drive_keeps_its_whole_path(monkeypatch, tmp_path):
    def two_drives(*paths):
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    data = Data(table=str(tmp_path / "t.csv"), label="y", sha256="", training_rows=9)
    monkeypatch.setattr("os.path.relpath", two_drives)
    away = replace(RUN, data=data).seen_from(tmp_path / "other").data.table
    assert away == str((tmp_path / "t.csv").resolve())


def test_page_terminal_and_replay_name_rows_and_labels_alike(tmp_path, capsys, monkeypatch):
    """By the line of the file, where the table has no ids; and all count the labels that a review
    asks about."""
    monkeypatch.chdir(tmp_path)
    table().drop(columns="file").to_csv("loans.csv", index=False)
    asked = ("--cases", "0:30", "--out", "report", "--quiet")
    _, out, _ = run(capsys, "audit", "loans.csv", *QUESTION, *asked)
    found = butfor.Population.from_json(Path("report/audit.json"))
    first = [str(label.row + 2) for label in found.to_review[:3]]
    assert (
        f"Next: review first the labels of lines {', '.join(first[:2])} and {first[2]}: butfor "
        "review" in out
    )
    page = Path("report/report.html").read_text(encoding="utf-8")
    assert all(f"<th>{line}</th>" in page for line in first)
    person = found.found[0]
    flipped = {str(flip.row + 2) for flip in person.flip_set}
    assert f"he person in line {person.row + 2}" in page
    assert f"person {person.case} (line {person.row + 2})" in person.sentence
    assert {
        name.removeprefix("training line ") for name in person.to_frame().columns[1:]
    } == flipped
    _, out, _ = run(capsys, "replay", "report/audit.json")
    assert f"line {person.row + 2}: agree" in out
    _, out, _ = run(capsys, "review", "report/audit.json", "--out", "tasks")
    (count,) = re.findall(r"^About \d+ of these (\d+) labels", out, re.MULTILINE)
    assert f" of these {count} labels " in unescape(page)
    assert {label.group for label in found.to_review} < {label.group for label in found.labels}


def test_a_private_page_shows_nothing_of_other_people(moved, capsys, monkeypatch):
    monkeypatch.chdir(moved)
    found = butfor.Population.from_json(Path("report/audit.json"))
    person = next(v for v in found.found if v.found)
    command = ("audit", "loans.csv", *QUESTION, "--id", "file", "--quiet", "--private")
    for extra in (("--cases", person.case), ("--cases", "0:3", "--out", "two")):
        code, _, err = run(capsys, *command, *extra)
        assert (code, "--private is for one person's page" in err) == (2, True)
    assert run(capsys, *command, "--cases", person.case, "--out", "one")[0] == 0
    assert "--private" not in Path("one/report.html").read_text(encoding="utf-8")
    alone = butfor.Verdict.from_json(Path("one/audit.json"))
    written = Path("one/report.html").read_text(encoding="utf-8")
    for verdict, page in ((alone, written), (person, person.to_html(others=False))):
        assert verdict.found
        usual, incomes = (
            verdict.to_html(),
            [plain_number(flip.values["income"]) for flip in verdict.flip_set],
        )
        assert all(flip.row in page for flip in verdict.flip_set), "by their ids"
        assert plain_number(verdict.values["income"]) in page
        assert [income in usual for income in incomes] == [True] * len(incomes)
        assert [income in page for income in incomes] == [False] * len(incomes)
