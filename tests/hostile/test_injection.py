"""Columns, groups and labels may be called anything: no cell that butfor writes is a formula, no
line it prints steers a terminal."""

import csv
import io
import json
import re

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from butfor.support import files, terminal
from butfor.support.files import as_csv
from hostile.harness import CONTROL, QUICK, attempt, audit, people, run, saved, strict_json

FORMULAS = ["=1+1", "+1+1", "-1+cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\r=1", " =1", "=HYPERLINK(\"http://x\",\"y\")",
            "a;=1+1", "a\n=1", "'=1", "\uff1d1+1", "=", "-", "+", "@", "-x", "--1", "a\t@x", "\"=1"]  # fmt: skip
STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def cells(text: str) -> list[str]:
    """What a spreadsheet may take for cells, whether it separates by comma, semicolon or tab."""
    comma = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    return comma + [part for cell in comma for part in re.split(r"[;\t\r\n]", cell)]


def calculated(cell: str) -> bool:
    return cell.lstrip(' \t\r\n"').startswith(STARTS) and not files.NUMBER.fullmatch(cell)


def test_no_cell_header_or_index_is_a_formula_and_numbers_stay_numbers():
    for text in FORMULAS:
        frame = pd.DataFrame({text: [text, "y"]}, index=pd.Index([text, "s"], name=text))
        assert not any(map(calculated, cells(as_csv(frame)))), text
    for text in ("-1", "+1", "-1.5", "-.5", "+2e5", "-1e-7", "0", "12"):
        assert text in cells(as_csv(pd.DataFrame({"a": [text, "word"]}), index=False))
        assert float(cells(as_csv(pd.DataFrame({"a": [float(text)]}), index=False))[1]) == float(
            text
        )


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=30))
def test_whatever_a_text_holds_it_is_neither_calculated_nor_obeyed_nor_lost(text):
    written = cells(as_csv(pd.DataFrame({"a": [text]}), index=False))
    assert not any(map(calculated, written))
    assert files.harmless(text).replace("'", "") == text.replace("'", "")
    assert not CONTROL.search(terminal.shown(text))
    assert "\n" not in terminal.one_line(text)
    shown = terminal.shown_json(json.dumps({"a": text}, ensure_ascii=False))
    assert not CONTROL.search(shown)
    assert strict_json(shown) == {"a": text}


def test_the_files_of_an_audit_hold_no_formula(tmp_path):
    text = "\t=1+1"
    table = people().replace({"sex": {"f": text}}).rename(columns={"debts": f"{text}!"})
    given = ("--out", tmp_path / "out", "--psi", "everything", "--budget", "30%")
    assert audit(saved(tmp_path, table), *given).code == 0
    for file in (tmp_path / "out").glob("*.csv"):
        assert not any(map(calculated, cells(file.read_text())))
    strict_json((tmp_path / "out" / "audit.json").read_text())


def test_any_terminal_takes_what_is_printed(tmp_path):
    table = saved(tmp_path, people().replace({"sex": {"f": "αλφα", "m": "→ \U0001f4a3"}}))
    given = ["audit", table, "--label", "granted", "--sensitive", "sex", *QUICK["logistic"][:-2]]
    for encoding in ("ascii", "cp1252", "utf-16"):
        for more in ([], ["--quiet", "--json"], ["--quiet", "--phi", "φ"]):
            ending = run(*given, *more, encoding=encoding)
            assert (ending.code, "Traceback" in ending.err) == (2 if "φ" in more else 0, False), (
                encoding,
                more,
            )
            if "--json" in more:
                assert {person["values"]["sex"] for person in ending.record["people"]} <= {
                    "αλφα",
                    "→ \U0001f4a3",
                }


# --- names ----------------------------------------------------------------------------------------

OURS = [
    "people", "cases", "found", "share", "low", "high", "eligible", "median_margin", "solid", "close_calls", "case",
    "row", "group", "status", "flips", "index", "level_0", "label", "y", "0", "None", "nan", "self", "columns",
    "values", "switch_changes", "share_solid", "prediction", "id", "position", "everyone", "x=1", "a.b", "base",
]  # fmt: skip


def test_columns_and_the_protected_attribute_may_be_called_as_ours_are(tmp_path):
    ordinary = people()
    for name in OURS:
        ordinary[name] = ordinary["debts"]
    table = saved(tmp_path, ordinary.drop(columns="debts"))
    assert audit(table, "--set", "max-retrainings=5", "--out", tmp_path / "out").code == 0
    assert (tmp_path / "out" / "keystones.csv").exists()
    for name in OURS[::5]:
        assert (
            audit(saved(tmp_path, people().rename(columns={"sex": name})), sensitive=name).code == 0
        ), name
    for name in ("label before", "label after"):  # verdicts need these
        assert audit(saved(tmp_path, people().rename(columns={"debts": name}))).code == 2


NAMES = [
    "a\nb", "a\tb", "\x1b[31mred\x1b[0m", "\x1b]0;owned\x07", "\x9b31m", "\u202eabc", "[bold]x[/bold]",
    "<script>alert(1)</script>", 'a"b', "a,b", "{0}", "%s%n", "{{7*7}}", "n" * 5000, "null", " ", "\U0001f4a3",
    "e" + "\u0301" * 50, "\\x1b[2J", "a\rb", "=1+1", "\u200b", "a\u2028b", "\ue000",
]  # fmt: skip


def test_names_and_values_are_shown_never_obeyed(tmp_path):
    given = (
        "--label",
        "granted",
        "--sensitive",
        "sex",
        "--model",
        "logistic",
        "--cases",
        "0:3",
        "--overwrite",
    )
    ended = []
    for k, name in enumerate(NAMES):
        table = people()
        if k % 3 == 0:
            table = table.rename(columns={"debts": name})
        else:
            table = table.replace(
                {"sex": {"f": name}} if k % 3 == 1 else {"granted": {"yes": name}}
            )
        ended.append(
            attempt("audit", saved(tmp_path, table), *given, "--out", tmp_path / "out").code
        )
        if ended[-1] == 0:
            strict_json((tmp_path / "out" / "audit.json").read_text())
            page = (tmp_path / "out" / "report.html").read_text()
            assert ("<script>alert" in page, "\x1b" in page) == (False, False), name
    assert ended.count(0) > len(NAMES) / 2


def test_what_is_quoted_in_a_refusal_is_shown_never_obeyed(tmp_path):
    for option in ("--label", "--sensitive", "--drop", "--id", "--adverse", "--names", "--config"):
        for value in ("\x1b[31mred\n", "\u202e"):
            assert audit(saved(tmp_path), option, value).code == 2
    for command in (["replay"], ["gate", "--max-solid", "5%"], ["review", "--out", "x"]):
        assert attempt(command[0], tmp_path / "\x1b[31mno\nthing.json", *command[1:]).code == 2
