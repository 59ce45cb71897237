"""The published evaluation: its numbers hold together, Salary's row comes out, and pages and files
say so."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import evaluation
from butfor.errors import ButforError, SettingError
from evaluation import gather, runs, tables
from evaluation.command import main
from evaluation.published import PUBLISHED
from evaluation.results import Result

FIVE = ("combined", "chance", "distance", "surrogate", "activation")


@pytest.fixture(scope="module")
def salary() -> Result:
    return runs.run_dataset("salary", FIVE, machinery=runs.Machinery("fused"))


@pytest.fixture(scope="module")
def folder(salary, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("results")
    salary.write(directory)
    return directory


@pytest.fixture
def command(capsys):
    """What a command prints."""

    def run(*arguments: object) -> str:
        main([str(a) for a in arguments])
        return capsys.readouterr().out

    return run


def test_salary_reproduces_its_published_row(salary):
    run, published = salary.first, PUBLISHED["salary"]
    assert len(run.eligible) == published.eligible
    assert run.n_psi == published.n_psi
    assert run.ground_truth == [4, 6, 9]
    for rank in ("combined", "chance", "surrogate"):
        assert len(run.rankings[rank].found) == published.found[rank]
        assert len(run.rankings[rank].one_shot) == published.one_shot[rank]
    for ranking in run.rankings.values():  # none finds what enumeration does not
        assert set(ranking.found) <= set(run.ground_truth)
        assert [p.case for p in ranking.people] == run.eligible
        for person in ranking.people:
            assert person.found == (len(person.positions) == 1) == (person.attempt is not None)
            assert not person.found or person.logit * person.counterfactual_logit <= 0


def test_rows_have_the_documented_shape_and_tables_put_ours_beside_theirs(salary):
    (row,) = tables.rows([replace(salary, runs=[salary.first, salary.first])])
    assert set(row) >= {
        "dataset",
        "eligible",
        "n_psi",
        "ground_truth",
        "found",
        "one_shot",
        "published",
    }
    assert (row["seeds"], row["ranges"]["found"]["combined"]) == (2, [3, 3])
    assert (row["found"]["combined"], row["found"]["random"]) == (3, 1)
    assert set(row["published"]["found"]) >= {"combined", "random", "distance"}
    shown = tables.shown(tables.table1([salary]))
    assert shown.loc[0, ["#φ", "GT", "method", "random"]].tolist() == [
        "10 (10)",
        "3 (3)",
        "3 (3)",
        "1 (1)",
    ]
    other = replace(salary.first, ground_truth=[4])
    shown = tables.shown(tables.table1([replace(salary, runs=[salary.first, other])]))
    assert shown.loc[0, "GT"] == "2 [1–3] (3)"
    for make in (
        tables.table2,
        tables.oneshot,
        tables.overlap,
        tables.ablation,
        tables.setup,
        tables.logits,
    ):
        assert len(tables.flat(make([salary])))


def test_what_a_file_has_is_shown_and_not_run_again(folder, monkeypatch, command):
    monkeypatch.setattr(runs.Evaluation, "search", lambda *_: pytest.fail("ran again"))
    ranks = ",".join(FIVE)
    said = command(
        "runs", "--datasets", "salary", "--ranks", ranks, "--out", folder, "--engine", "fused"
    )
    assert "10 eligible, ground truth 3" in said
    monkeypatch.setattr(gather, "run_dataset", lambda *_, **__: pytest.fail("computed"))
    assert json.loads(command("table1", "--results", folder, "--json"))[0]["ground_truth"] == 3
    for name in ("table1", "table2", "oneshot", "overlap", "ablation", "boundary"):
        assert "salary" in command(name, "--results", folder)
    assert "for person 4" in command("cases", "--results", folder)
    assert "27132/9045/9045" in command("setup")


def test_everything_is_written(folder, tmp_path, command):
    command("all", "--results", folder, "--out", tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert {"page.html", "rows.json", "table1.csv", "table2.csv", "overlap.svg"} <= written
    assert {"case-salary-4.svg", "ablation.svg", "boundary.svg", "setup.csv"} <= written
    assert "no result in the directory" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["table1", "--datasets", "nosuch"], "There is no data set 'nosuch'"),
        (["table1", "--results", "."], "no result in"),
        (["table1", "--datasets", "salary", "--ranks", "best"], "no ranking 'best'"),
        (["sweep", "--datasets", "adult"], "no ground truth"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ButforError, match=re.escape(said)):
        main(arguments)


def test_finds_are_judged_by_fresh_seeds(command, tmp_path):
    results = Path(evaluation.__file__).parents[1] / "docs" / "results"
    given = [
        "seeds",
        "--results",
        results,
        "--datasets",
        "salary",
        "--json",
        "--out",
        tmp_path,
        "--fresh-seeds",
    ]
    (row,) = json.loads(command(*given, 30))
    assert pd.read_csv(tmp_path / "seeds.csv").to_dict("records") == [row]
    assert (row["dataset"], row["ranking"], row["found"], row["seeds"]) == (
        "salary",
        "combined",
        3,
        30,
    )
    assert row["solid"] + row["leaning"] + row["seed-bound"] + row["undecided"] == 3
    with pytest.raises(SettingError, match="--fresh-seeds 0"):
        command(*given, 0)
