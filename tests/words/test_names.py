"""A names.toml, and the plain forms where it names nothing."""

import pytest

from butfor import Population
from butfor.cli import main
from butfor.support import errors
from butfor.words.names import Names, template
from recorded import audited

NAMES = Names.of(
    {
        "people": {"noun": "applicants"},
        "groups": {"race": {"hispanic": "Hispanic", "white": "White"}, "sex": {"f": "female"}},
        "labels": {"no": "were refused", "approved = yes": "were approved"},
        "columns": {"obrat": "debt ratio"},
    }
)
PLAIN = Names()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (NAMES.count(1), "1 applicant"),
        (NAMES.people_in("race", "hispanic"), "Hispanic applicants"),
        (NAMES.people_in("race", "black"), "applicants with race = black"),
        (NAMES.people_in("race × sex", "hispanic · f"), "Hispanic female applicants"),
        (
            NAMES.people_in("race × sex", "hispanic · m"),
            "applicants with race = hispanic and sex = m",
        ),
        (NAMES.group("race × sex", "a · f"), "race = a and sex = f"),
        (NAMES.value("race", "white") + NAMES.value("race", "a"), "Whitea"),
        (NAMES.comparable("race", "white"), "comparable White applicants"),
        (NAMES.were("approved = no"), "were refused"),
        (NAMES.label("approved = yes"), "approved"),
        (PLAIN.were("approved = no"), "were labelled approved = no"),
        (NAMES.label(("approved = no", "approved = later")), "refused or approved = later"),
        (
            NAMES.were(("approved = no", "approved = later")),
            "were refused or labelled approved = later",
        ),
        (NAMES.were(("good", "fair")), "were labelled 'good' or 'fair'"),
        (PLAIN.label("25 000 or more"), "'25 000 or more'"),
        (NAMES.column("obrat") + NAMES.column("income"), "debt ratioincome"),
    ],
)
def test_words_and_plain_forms(said, expected):
    assert said == expected


def test_a_template_is_written_once_and_names_come_from_python_too(tmp_path):
    file = tmp_path / "names.toml"
    assert main(["check-table", "german", "--write-names", str(file)]) == 0
    assert Names.read(file) == Names(groups={"sex": {}})
    assert main(["check-table", "german", "--write-names", str(file)]) == 2
    file.write_text(file.read_text().replace('# "female"', '"female"').replace("# noun", "noun"))
    assert Names.read(file).people_in("sex", "female") == "female applicants"
    odd = 'a "b" \\ [c]\t\x7f#'
    file.write_text(template({odd: [odd]}, [odd], [odd]).replace("# ", ""), encoding="utf-8")
    file.write_text(
        file.read_text().replace("Take away", "# Take away").replace("As in", "# As in")
    )
    assert Names.read(file).columns == {odd: odd}
    with pytest.raises(errors.SettingError, match="Did you mean 'columns'"):
        Names.of({"colums": {}})


def test_a_record_holds_the_names_once_and_every_part_speaks_in_them(tmp_path, capsys):
    names = tmp_path / "names.toml"
    names.write_text("[people]\nnoun = 'applicants'\n[groups.sex]\nmale = 'Men'")
    small = ("--model", "ridge", "--budget", "1", "--cases", "0:2", "--names", str(names))
    record = audited(tmp_path / "out", "german", *small)
    assert "\nMen " in capsys.readouterr().out
    assert record.read_text().count('"noun"') == 1
    run = Population.from_json(record).run
    for said in (run.standard.answer, run.how_accurate):
        assert ("applicants" in said, "people" in said) == (True, False)
