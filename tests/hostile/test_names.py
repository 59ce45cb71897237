"""Columns may be called anything; a header or a line that says two things is refused with the place."""

import pytest

from hostile.harness import attempt, audit, people, saved, strict_json

OURS = [
    "people", "cases", "found", "share", "low", "high", "eligible", "median_margin", "solid", "close_calls", "case",
    "row", "group", "status", "flips", "index", "level_0", "label", "y", "0", "None", "nan", "self", "columns",
    "values", "switch_changes", "share_solid", "prediction", "id", "position", "everyone", "x=1", "a.b", "base",
]  # fmt: skip


def test_columns_may_be_called_as_ours_are(tmp_path):
    ordinary = people()
    for name in OURS:
        ordinary[name] = ordinary["debts"]
    table = saved(tmp_path, ordinary.drop(columns="debts"))
    assert audit(table, "--set", "max-retrainings=5", "--out", tmp_path / "out").code == 0
    assert (tmp_path / "out" / "keystones.csv").exists()
    for name in ("label before", "label after"):  # verdicts need these
        assert audit(saved(tmp_path, people().rename(columns={"debts": name}))).code == 2


def test_the_protected_attribute_may_be_called_as_our_columns_are(tmp_path):
    for name in OURS[::5]:
        assert audit(saved(tmp_path, people().rename(columns={"sex": name})), sensitive=name).code == 0, name


@pytest.mark.parametrize(("hidden", "members"), [("none", 1), ("none", 2), ("1", 1), ("2,1", 2), ("4, 4", 2)])
def test_networks_of_any_depth_are_searched_by_default(tmp_path, hidden, members):
    assert audit(saved(tmp_path), "--set", f"hidden={hidden}", "--members", members).code == 0


HEADERS = {
    "twice": "x,x,sex,granted",
    "twice but for a space": "x, x,sex,granted",
    "the label twice": "x,granted,sex,granted",
    "one name too few": "x,sex,granted",
    "one name too many": "x,sex,debts,more,granted",
    "quoted twice": '"x",x,sex,granted',
    "empty": "",
    "one column": "granted",
    "a quotation mark": 'x,"sex,debts,granted',
}


def test_a_header_that_says_two_things_is_refused(tmp_path):
    path = saved(tmp_path)
    rows = path.read_text().partition("\n")[2]
    for name, header in HEADERS.items():
        path.write_text(header + "\n" + rows)
        assert audit(path).code == 2, name


BROKEN = [(",", ',"'), (",", ',"stray,'), ("\n", ",extra\n"), (",", ""), (",", ",\0"), ("\n", '"\n')]


@pytest.mark.parametrize(("old", "new"), BROKEN)
def test_a_broken_line_is_refused(tmp_path, old, new):
    path = saved(tmp_path)
    whole = path.read_text().splitlines(keepends=True)
    for start in (2, 50):
        line = next(k for k in range(start, len(whole) + 1) if old in whole[k - 1])
        broken = [text.replace(old, new, 1) if k == line - 1 else text for k, text in enumerate(whole)]
        path.write_text("".join(broken))
        ending = audit(path)
        assert ending.code == 2
        if "\0" not in new and new != '"\n':  # a binary file, and a third label: no line is to blame
            assert f"line {line} " in ending.err.lower()


def test_a_quotation_mark_that_is_closed_lines_later_is_refused_with_its_line(tmp_path):
    path = saved(tmp_path, people().assign(remark='said "yes, please"\nand left'))
    assert audit(path).code == 0, "values of several lines that are meant"
    lines = saved(tmp_path).read_text().splitlines()
    lines[4] = lines[4].replace(",f,", ',"f,').replace(",m,", ',"m,')
    lines[7] = lines[7].replace(",f,", ',f",').replace(",m,", ',m",')
    path.write_text("\n".join(lines))
    ending = audit(path)
    assert (ending.code, "line 5" in ending.err) == (2, True)


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
    given = ("--label", "granted", "--sensitive", "sex", "--members", 1, "--fresh-seeds", 0, "--set", "epochs=2")
    more = ("--cases", "0:3", "--set", "max-retrainings=5", "--out", tmp_path / "out")
    if attempt("audit", saved(tmp_path, table), *given, *more).code == 0:
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
