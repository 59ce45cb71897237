"""Texts of options as values, and what is refused of them."""

import pytest

from butfor.cli.parse import bands_in, batch_in, budget_in, cases_in, layers_in, names_in, seconds_in
from butfor.errors import SettingError

HUGE = "99999999999999999999"


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (names_in, " a, b,,c ", ["a", "b", "c"]),
        (names_in, None, []),
        (bands_in, ["25,60"], [25, 60]),
        (bands_in, ["age=25,60", "pay=1e3"], {"age": [25, 60], "pay": [1000]}),
        (bands_in, [], None),
        (budget_in, "0.1%", 0.001),
        (budget_in, "3", 3),
        (budget_in, "0.01", 0.01),
        (seconds_in, "90s", 90),
        (seconds_in, "1.5 h", 5400),
        (layers_in, "32, 16", (32, 16)),
        (layers_in, "none", ()),
        (batch_in, "full", None),
        (batch_in, "64", 64),
    ],
)
def test_what_is_meant(parse, text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("text", "people"), [("3,1,3", [3, 1]), ("8:", [8, 9]), (":2,5", [0, 1, 5]), ("7:50", [7, 8, 9])]
)
def test_people_by_position(text, people):
    assert cases_in(text, 10) == people


@pytest.mark.parametrize(
    ("parse", "texts", "said"),
    [
        (
            budget_in,
            ["inf", "-inf", "nan", "1e400", "nan%", "three", "", " ", "%", "1,5", "0x10"],
            "a share such as 0.1%",
        ),
        (budget_in, ["0%", "100%", "150%", "-5%"], "above 0 % and below 100 %"),
        (layers_in, ["32,,32", "a", "1.5", "1e3", ""], "give widths such as 32,32"),
        (batch_in, ["half", "1.5", "nan", ""], "a number of rows, or 'full'"),
        (seconds_in, ["", "0", "0s", "-5", "soon", "10d", "1e3"], "is not a time above 0"),
        (lambda text: bands_in([text]), ["a", "25,", "age=", "age"], "cut points such as 25,60"),
        (lambda text: cases_in(text, 12), ["1.5", "x", "a:b", "1:2:3", "1,", ""], "or a range such as 0:200"),
        (lambda text: cases_in(text, 12), ["-1:3", "3:1", "1:1", ":0"], "from a smaller to a larger position"),
        (lambda text: cases_in(text, 12), ["500:", f"{HUGE}:"], "only people 0 to 11"),
    ],
)
def test_what_cannot_be_meant_is_refused(parse, texts, said):
    for text in texts:
        with pytest.raises(SettingError, match=said):
            parse(text)


def test_cut_points_of_several_columns_need_their_names():
    with pytest.raises(SettingError, match="each needs its name"):
        bands_in(["25", "age=60"])
