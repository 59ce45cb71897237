"""Columns may be called anything; a header that says two things is refused with the place."""

import pytest

from hostile.harness import attempt, audit, people, run, saved, strict_json

OURS = [
    "people", "cases", "found", "share", "low", "high", "eligible", "median_margin", "solid", "close_calls", "case",
    "row", "group", "status", "flips", "index", "level_0", "label", "y", "0", "None", "nan", "self", "columns",
    "values", "switch_changes", "share_solid", "prediction", "id", "position", "everyone", "x=1", "a.b", "base",
]  # fmt: skip


@pytest.mark.parametrize("some", [OURS[::3], OURS[1::3], OURS[2::3]])
def test_columns_may_be_called_as_ours_are(tmp_path, some):
    ordinary = people()
    for name in some:
        ordinary[name] = ordinary["debts"]
    table = saved(tmp_path, ordinary.drop(columns="debts"))
    ending = audit(table, "--max-retrainings", 5, "--out", tmp_path / "out")
    assert ending.code == 0
    assert (tmp_path / "out" / "keystones.csv").exists()


@pytest.mark.parametrize("name", OURS[::3])
def test_the_protected_attribute_may_be_called_as_our_columns_are(tmp_path, name):
    table = saved(tmp_path, people().rename(columns={"sex": name}))
    given = ("--label", "granted", "--sensitive", name, "--members", 1, "--fresh-seeds", 0, "--cases", "0:4")
    assert attempt("audit", table, *given, "--epochs", 2, "--quiet").code == 0


@pytest.mark.parametrize("name", ["label before", "label after"])
def test_names_that_verdicts_need_are_refused(tmp_path, name):
    assert audit(saved(tmp_path, people().rename(columns={"debts": name}))).code == 2


@pytest.mark.parametrize(
    ("hidden", "members"), [("none", 1), ("none", 2), ("1", 1), ("2,1", 2), (" 4 ", 1), ("4, 4", 2)]
)
def test_networks_of_any_depth_are_searched_by_default(tmp_path, hidden, members):
    assert audit(saved(tmp_path), "--hidden", hidden, "--members", members).code == 0


HEADERS = {
    "twice": "x,x,sex,granted",
    "twice but for a space": "x, x,sex,granted",
    "the label twice": "x,granted,sex,granted",
    "the attribute twice": "x,sex,sex,granted",
    "one name too few": "x,sex,granted",
    "one name too many": "x,sex,debts,more,granted",
    "quoted twice": '"x",x,sex,granted',
    "empty": "",
    "one column": "granted",
    "a quotation mark": 'x,"sex,debts,granted',
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_header_that_says_two_things_is_refused(tmp_path, header):
    path = saved(tmp_path)
    path.write_text(header + "\n" + path.read_text().partition("\n")[2])
    assert audit(path).code == 2


@pytest.mark.parametrize("line", [2, 30, 50])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (",", ',"'), (",", ',"stray,'), ("\n", ',extra\n'), (",", ""), (",f", ',"f'), (",m", ',"m'),
        (",", ",\0"), ("\n", '"\n'),
    ],
)  # fmt: skip
def test_a_broken_line_is_refused(tmp_path, line, old, new):
    path = saved(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    line = next(k for k in range(line, len(lines) + 1) if old in lines[k - 1])
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    path.write_text("".join(lines))
    ending = audit(path)
    assert ending.code == 2
    if "\0" not in new and new != '"\n':  # a binary file, and a third label: no line is to blame
        assert f"line {line} " in ending.err.lower()


def test_a_quotation_mark_that_is_closed_lines_later_is_refused_with_its_line(tmp_path):
    path = saved(tmp_path)
    lines = path.read_text().splitlines()
    lines[4] = lines[4].replace(",f,", ',"f,').replace(",m,", ',"m,')
    lines[7] = lines[7].replace(",f,", ',f",').replace(",m,", ',m",')
    path.write_text("\n".join(lines))
    ending = audit(path)
    assert ending.code == 2
    assert "line 5" in ending.err


def test_values_of_several_lines_that_are_meant_work(tmp_path):
    table = people().assign(remark='said "yes, please"\nand left')
    assert audit(saved(tmp_path, table)).code == 0


NAMES = {
    "line break": "a\nb", "tab": "a\tb", "colour": "\x1b[31mred\x1b[0m", "title": "\x1b]0;owned\x07", "bell": "\x07",
    "csi": "\x9b31m", "right to left": "\u202eabc", "markup": "[bold]x[/bold]", "script": "<script>alert(1)</script>",
    "quote": 'a"b', "comma": "a,b", "brace": "{0}", "percent": "%s%n", "template": "{{7*7}}", "long": "n" * 5000,
    "null word": "null", "space": " ", "emoji": "\U0001f4a3", "combining": "e" + "\u0301" * 50, "backslash": "\\x1b[2J",
    "return": "a\rb", "formula": "=1+1", "zero width": "\u200b", "separator": "a\u2028b", "private": "\ue000",
}  # fmt: skip


WHERE = [(("column", "group", "label")[k % 3], name) for k, name in enumerate(NAMES)]


@pytest.mark.parametrize(("where", "name"), [*WHERE, ("column", "colour"), ("group", "script"), ("label", "return")])
def test_names_and_values_are_shown_never_obeyed(tmp_path, name, where):
    table, name = people(), NAMES[name]
    if where == "column":
        table = table.rename(columns={"debts": name})
    else:
        column, old = {"group": ("sex", "f"), "label": ("granted", "yes")}[where]
        table[column] = table[column].replace(old, name)
    path = saved(tmp_path, table)
    given = ("--label", "granted", "--sensitive", "sex", "--members", 1, "--fresh-seeds", 0, "--epochs", 2)
    ending = attempt("audit", path, *given, "--cases", "0:3", "--max-retrainings", 5, "--out", tmp_path / "out")
    if ending.code == 0:
        strict_json((tmp_path / "out" / "audit.json").read_text())
        assert "<script>alert" not in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("option", ["--label", "--sensitive", "--drop", "--keep", "--id", "--adverse"])
@pytest.mark.parametrize("value", ["\x1b[31mred\n", "\u202e"])
def test_what_is_quoted_in_a_refusal_is_shown_never_obeyed(tmp_path, option, value):
    assert audit(saved(tmp_path), option, value).code == 2


@pytest.mark.parametrize("command", [["replay"], ["gate", "--max-solid", "5%"], ["review", "--out", "x"]])
def test_a_file_name_is_shown_never_obeyed(tmp_path, command):
    assert attempt(command[0], tmp_path / "\x1b[31mno\nthing.json", *command[1:]).code == 2


def test_help_and_version_work():
    assert "Usage" in run("--help").out
    assert run("--version").code == 0
