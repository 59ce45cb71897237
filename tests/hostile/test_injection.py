"""No cell that butfor writes is a formula, no line it prints steers a terminal, and rules are data, not code."""

import csv
import io
import json
import re

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from butfor import files, terminal
from butfor.files import as_csv
from hostile.harness import CONTROL, QUICK, audit, people, run, saved, strict_json

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
        assert float(cells(as_csv(pd.DataFrame({"a": [float(text)]}), index=False))[1]) == float(text)


@settings(max_examples=40, deadline=None)
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


@pytest.mark.parametrize("text", ["=1+1", "\tx"])
def test_the_files_of_an_audit_hold_no_formula(tmp_path, text):
    table = people().replace({"sex": {"f": text}}).assign(note=text).rename(columns={"debts": f"{text}!"})
    given = ("--set", "keep=note", "--out", tmp_path / "out", "--psi", "everything", "--budget", "30%")
    assert audit(saved(tmp_path, table), *given).code == 0
    for file in (tmp_path / "out").glob("*.csv"):
        assert not any(map(calculated, cells(file.read_text())))
    strict_json((tmp_path / "out" / "audit.json").read_text())


RULES = [
    "(" * 500 + "everyone" + ")" * 500, "~" * 500 + "everyone", " & ".join(["everyone"] * 3000), "everyone" * 1000,
    "__import__('os')", "everyone.__class__", "everyone()()", "lambda: 0", "everyone if 1 else everyone", "1", "''", "",
    " ", "everyone &", "& everyone", "everyone and everyone", "in_group(", "in_group()", "in_group(sex)",
    "in_group(sex, x)", "in_group(sex, f, m)", "in_group(*sex)", "predicted(maybe)", "stable_under_switch(nothing)",
    "everyone; everyone", "everyone\neveryone", "[everyone]", "everyone[0]", "everyone == everyone", "φ", "\x1b[31m",
    "in_group('a' 'b', 'c'", "predicted(f'{1}')", "predicted(1+1)", "everyone@everyone", "everyone := 1", "'" * 3,
    "(" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("option", ["--phi", "--psi"])
def test_a_rule_that_is_none_is_refused(tmp_path, option):
    table = saved(tmp_path)
    for rule in RULES[option == "--psi" :: 2]:
        assert audit(table, option, rule).code == 2, rule


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-16"])
def test_any_terminal_takes_what_is_printed(tmp_path, encoding):
    table = saved(tmp_path, people().replace({"sex": {"f": "αλφα", "m": "→ \U0001f4a3"}}))
    given = ["audit", table, "--label", "granted", "--sensitive", "sex", *QUICK["logistic"][:-2]]
    for more in ([], ["--quiet", "--json"], ["--quiet", "--phi", "φ"]):
        ending = run(*given, *more, encoding=encoding)
        assert ending.code == (2 if "φ" in more else 0)
        assert "Traceback" not in ending.err
        if "--json" in more:
            assert {person["values"]["sex"] for person in ending.record["people"]} <= {"αλφα", "→ \U0001f4a3"}
