"""Columns, groups and labels may be called anything, and are shown, never obeyed."""

import pytest

from hostile.harness import attempt, audit, people, saved, strict_json

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
        assert audit(saved(tmp_path, people().rename(columns={"sex": name})), sensitive=name).code == 0, name
    for name in ("label before", "label after"):  # verdicts need these
        assert audit(saved(tmp_path, people().rename(columns={"debts": name}))).code == 2


NAMES = [
    "a\nb", "a\tb", "\x1b[31mred\x1b[0m", "\x1b]0;owned\x07", "\x9b31m", "\u202eabc", "[bold]x[/bold]",
    "<script>alert(1)</script>", 'a"b', "a,b", "{0}", "%s%n", "{{7*7}}", "n" * 5000, "null", " ", "\U0001f4a3",
    "e" + "\u0301" * 50, "\\x1b[2J", "a\rb", "=1+1", "\u200b", "a\u2028b", "\ue000",
]  # fmt: skip


@pytest.mark.parametrize(("where", "name"), [(("column", "group", "label")[k % 3], n) for k, n in enumerate(NAMES)])
def test_names_and_values_are_shown_never_obeyed(tmp_path, name, where):
    table = people()
    if where == "column":
        table = table.rename(columns={"debts": name})
    else:
        column, old = {"group": ("sex", "f"), "label": ("granted", "yes")}[where]
        table[column] = table[column].replace(old, name)
    given = ("--label", "granted", "--sensitive", "sex", "--model", "logistic", "--cases", "0:3")
    if attempt("audit", saved(tmp_path, table), *given, "--out", tmp_path / "out").code == 0:
        strict_json((tmp_path / "out" / "audit.json").read_text())
        page = (tmp_path / "out" / "report.html").read_text()
        assert "<script>alert" not in page
        assert "\x1b" not in page


def test_what_is_quoted_in_a_refusal_is_shown_never_obeyed(tmp_path):
    for option in ("--label", "--sensitive", "--drop", "--id", "--adverse", "--names", "--config"):
        for value in ("\x1b[31mred\n", "\u202e"):
            assert audit(saved(tmp_path), option, value).code == 2
    for command in (["replay"], ["gate", "--max-solid", "5%"], ["review", "--out", "x"]):
        assert attempt(command[0], tmp_path / "\x1b[31mno\nthing.json", *command[1:]).code == 2
