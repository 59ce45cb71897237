"""Tables, rows, labels, groups and their bands as users hand them over in Python."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import butfor
from butfor.errors import SettingError, TableError
from butfor.explain import eligible_cases, flippable_labels
from butfor.result.population import Population
from butfor.search import rules
from butfor.table.groups import Bands, Sensitive
from recorded import run

RNG = np.random.default_rng(0)
AGES, INCOME = RNG.integers(18, 80, 200), RNG.normal(50, 10, 200)
GOOD = 0.1 * (INCOME - 50) + 0.03 * (AGES - 45) + RNG.normal(0, 1, 200) > 0
PLAIN = pd.DataFrame(
    {
        "age": AGES,
        "income": INCOME,
        "sex": RNG.choice(["f", "m"], 200),
        "own": RNG.random(200) < 0.5,
    }
)
LABELS = pd.Series(np.where(GOOD, "yes", "no"), name="granted")
ZERO_ONE = ("granted = 0", "granted = 1")
THREE = ("under 25", "25 to under 60", "60 and over")


def fitted(
    X: pd.DataFrame = PLAIN, y=LABELS, sensitive="sex", bands=None, cluster=None, **settings
) -> butfor.LabelAudit:
    settings = {"budget": 3, "fresh_seeds": 0, "phi": "everyone"} | settings
    audit = butfor.LabelAudit(LogisticRegression(max_iter=1000), **settings)
    return audit.fit(X, y, sensitive_features=sensitive, sensitive_bands=bands, cluster=cluster)


def test_a_person_as_a_row_a_table_or_of_another_library():
    polars = pytest.importorskip("polars")
    for audit in (fitted(), fitted(PLAIN.astype({"age": "int8"}))):
        for age, own in ((40.9, True), (300, False)):
            row = {"age": age, "income": 50.0, "sex": "f", "own": own}
            verdict = audit.explain(pd.Series(row))
            assert verdict.values["age"] == age
            assert verdict.logit == pytest.approx(audit.explain(pd.DataFrame([row])).logit)
    verdict = audit.explain(polars.from_pandas(PLAIN)[36])
    assert verdict.row is None
    assert "this person" in verdict.sentence.lower()
    assert verdict.logit == audit.explain(PLAIN.iloc[[36]]).logit
    assert audit.explain_all(polars.from_pandas(PLAIN), cases=[36])[0].row == 36


def test_a_person_with_holes_and_cells_that_only_look_like_numbers():
    audit = fitted(PLAIN.assign(code=pd.Series([1, "1"] * 100, dtype=object)))
    assert all(
        butfor.replay(verdict).agrees
        for verdict in audit.explain_all(PLAIN.assign(code="1").iloc[:2])
    )
    for nothing in (None, np.nan):
        row = {"age": np.nan, "income": 50.0, "sex": nothing, "own": nothing, "code": nothing}
        verdict = audit.explain(pd.DataFrame([row]))
        assert verdict.group == "missing"
        assert audit.explain(pd.Series(row)).logit == verdict.logit


def test_rows_of_several_levels_and_labels_that_are_called_after_their_series():
    X = PLAIN.set_axis(pd.MultiIndex.from_product([["a", "b"], range(100)]))
    audit = fitted(X, (LABELS == "yes").set_axis(X.index), budget=20, psi="everything")
    found = audit.explain_all(X.iloc[:5]).found
    assert len(found[0].to_frame().columns) == 1 + len(found[0].positions)
    assert found[0].prediction.startswith("granted = ")
    numbers = (LABELS == "yes").astype(int)
    compared = butfor.compare_standards(
        PLAIN, numbers, sensitive_features="sex", adverse=0, draws=0
    )
    assert (
        fitted(y=numbers).fitted_.label_names
        == (*compared.sides[0], *compared.sides[1])
        == ZERO_ONE
    )
    assert fitted(y=(LABELS == "yes").to_numpy()).explain(PLAIN.iloc[[1]]).prediction in (
        "True",
        "False",
    )
    assert fitted(y=[*LABELS[:199], np.nan]).classes_.tolist() == ["no", "yes"], (
        "not the text 'nan'"
    )


def test_groups_may_stand_beside_the_table_also_in_bands():
    X, person = PLAIN[["income", "own"]], PLAIN[["income", "own"]].iloc[[0]]
    audit = fitted(X, sensitive=PLAIN["sex"])
    verdict = audit.explain(person, sensitive_features=PLAIN["sex"].iloc[[0]])
    assert verdict.group == PLAIN["sex"][0]
    again = fitted(X, sensitive=list(PLAIN["sex"])).explain(
        person, sensitive_features=[verdict.group]
    )
    assert again.logit == verdict.logit
    with pytest.raises(SettingError, match="with one value per person"):
        audit.explain(person)
    with pytest.raises(TableError, match="'x', which no training row has"):
        audit.explain(person, sensitive_features=["x"])
    audit = fitted(X[:150], LABELS[:150], PLAIN["age"][:150], {"age": [25, 60]})
    assert (
        tuple(audit.explain_all(X[150:], sensitive_features=PLAIN["age"][150:]).by_group.index)
        == THREE
    )
    with pytest.raises(TableError, match="Column 'age', row 0 holds 'old', which is not a number"):
        audit.explain_all(
            X[:2], sensitive_features=pd.Series(["old", 30], name="age", dtype=object)
        )


ONES = (PLAIN["sex"] == "m").astype(int)
HOLED = ONES.astype(float).where(ONES.index != 150)
STORED = {
    "a missing value": (ONES, HOLED, {0, 1, "missing"}),
    "text": (ONES, ONES.map({0: "0", 1: "1.0"}), {0, 1}),
    "numbers for text": (ONES.astype(str), ONES.astype(float), {"0", "1"}),
    "missing values in training": (
        ONES.astype(float).where(ONES.index > 9),
        ONES,
        {0, 1, "missing"},
    ),
    "truth values": (ONES.astype(bool), ONES.astype(float), {False, True}),
    "text for truth values": (ONES.astype(bool), ONES.astype(bool).astype(str), {False, True}),
    "numbers for categories": (ONES.astype(str).astype("category"), ONES, {"0", "1"}),
}


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("case", STORED)
def test_a_group_is_one_however_its_value_is_stored(case, beside):
    """In further rows, in people and in ψ; with the groups as a column or beside the table."""
    training, later, groups = STORED[case]
    X, found = PLAIN[["income", "own"]], []
    for values in (later, training):
        own, more = (
            (X[:140], X[140:])
            if beside
            else (X[:140].assign(code=training), X[140:].assign(code=values))
        )
        model = LogisticRegression(max_iter=1000)
        audit = butfor.LabelAudit(model, encoder=butfor.TableEncoder(), budget=3, fresh_seeds=0)
        given, further = (training[:140], (values[140:],)) if beside else ("code", ())
        also = (more, LABELS[140:], *further)
        audit.fit(
            own, LABELS[:140], sensitive_features=given, adverse="no", also_labelled=also, draws=20
        )
        asked = {"sensitive_features": values[140:150]} if beside else {}
        people = audit.fitted_.people(more[:10], **asked)[0]
        allowed = flippable_labels(audit.fitted_, more[:10], **asked).counts.tolist()
        found.append((people.groups.tolist(), people.logits.tolist(), allowed))
        if values is later:
            assert set(audit.fitted_.labelled.groups) == groups
            assert max(allowed) > 0
    assert found[0] == found[1]


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_columns_of_other_libraries_are_what_those_of_pandas_are(library):
    pytest.importorskip(library)
    frame = PLAIN.assign(home=np.arange(200) // 4, w=1.0 + (np.arange(200) % 3))
    if library == "polars":
        import polars

        other = polars.from_pandas(frame)
    else:
        import pyarrow

        other = pyarrow.Table.from_pandas(frame)

    def answers(table):
        audit = butfor.LabelAudit(LogisticRegression(max_iter=1000), fresh_seeds=0, budget=3)
        inputs = ["age", "income", "sex", "own"]
        X = table.select(inputs) if table is other else table[inputs]
        audit.fit(
            X,
            LABELS,
            sensitive_features=table["sex"],
            cluster=table["home"],
            sample_weight=table["w"],
        )
        population = audit.explain_all(X, cases=range(3))
        return population.direct, audit.fitted_.data_hash, [verdict.logit for verdict in population]

    assert answers(other) == answers(frame)
    X, beside = (
        frame[["income", "own"]],
        frame[["sex", "home"]].assign(home=lambda t: t["home"] % 2),
    )
    given = beside.set_axis(range(200))
    given = polars.from_pandas(given) if library == "polars" else pyarrow.Table.from_pandas(given)
    audit = fitted(X.set_axis(range(7, 207)), LABELS.to_numpy(), given)
    assert audit.fitted_.sensitive.attributes == ("sex", "home")
    person = audit.explain(X.iloc[[0]], sensitive_features=given[:1])
    assert person.group == f"{frame['sex'][0]} · 0"
    turned = beside[["home", "sex"]].astype({"home": float})
    assert audit.explain(X.iloc[[0]], sensitive_features=turned[:1]).group == person.group
    with pytest.raises(
        TableError, match="has 1 column; give those of the training rows: 'sex', 'home'"
    ):
        audit.explain(X.iloc[[0]], sensitive_features=beside["sex"][:1])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"X": PLAIN.rename(columns={"age": 0, "own": "0"})}, "Column 0, '0' needs a name of its "
                                                              "own"),
        ({"X": PLAIN.rename(columns={"age": "(bias)"})}, "'(bias)'"),
        ({"X": PLAIN.rename(columns={"age": ("a", "b")})}, "Column ('a', 'b') needs a name of its "
                                                           "own"),
        ({"X": PLAIN.assign(age=pd.Series([[1, 2]] * 200))}, "Column 'age' holds 'list' instead"),
        ({"X": PLAIN.assign(age=np.arange(200) * 1j)}, "Column 'age' has type complex128"),
        ({"X": "loans.csv"}, "a pyarrow Table), not 'loans.csv'"),
        ({"y": pd.Series([0, "0"] * 100, dtype=object)}, "mix types that cannot be compared "
                                                         "('int', 'str')"),
        ({"y": [True, 0] * 100}, "mix types that cannot be compared ('bool', 'int')"),
        ({"y": LABELS.where(LABELS.index % 2 > 0, LABELS + " ")}, "'no' and 'no ', which differ "
                                                                  "only in spaces"),
        ({"sensitive": "sexx"}, "X has no column 'sexx'. Did you mean 'sex'?"),
        ({"sensitive": ["m", "M"] * 100}, "'group' has the values 'm' and 'M', which differ only "
                                          "in spaces"),
        ({"sensitive": [1] * 199}, "or hold one value for each of its 200 rows"),
        ({"sensitive": PLAIN["sex"].str.upper()}, "has the name 'sex' of a column of X but other "
                                                  "values"),
        ({"sensitive": PLAIN["sex"].set_axis(range(1, 201)).rename("s")}, "index of the groups "
                                                                          "does not match"),
        ({"cluster": PLAIN[["sex", "own"]]}, "The table has 200 rows but there are 400 values of "
                                             "cluster"),
        ({"cluster": 3}, "there are 1 values of cluster"),
        ({"cluster": PLAIN["own"].set_axis(range(1, 201))}, "index of the values of cluster does "
                                                            "not match"),
        ({"rank": lambda model, table, people: np.full((len(people), table.n), "much")}, "scores that are no numbers"),
        ({"sensitive": "age", "bands": [60, 25]}, "from small to large"),
        ({"sensitive": "age", "bands": [25, 200]}, "no training row is in '200 and over'; its "
                                                   "values go from 18 to 79"),
        ({"sensitive": "age", "bands": {"agee": [25]}}, "no protected attribute with numbers. Did "
                                                        "you mean 'age'?"),
        ({"bands": [25]}, "'sex', which is no protected attribute with numbers. Leave them out."),
        ({"sensitive": ["age", "income"], "bands": [25]}, "'age', 'income' all hold numbers. Name "
                                                          "the column"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_gets_a_sentence(change, said):
    with pytest.raises((SettingError, TableError)) as caught:
        fitted(**change).explain_all(PLAIN.iloc[:2])
    assert said in str(caught.value)


# --- bands of a numeric attribute -----------------------------------------------------------------


def test_bands_reach_up_to_the_next_cut_point_few_numbers_stay_and_several_attributes_are_joined():
    of = Bands((25.0, 60.0)).of(pd.Series([18, 24.9, 25, 59, 60, np.nan])).fillna("none")
    assert of.tolist() == [THREE[0], THREE[0], THREE[1], THREE[1], THREE[2], "none"]
    few = PLAIN.assign(age=AGES % 10)
    holed = PLAIN.assign(sex=PLAIN["sex"].where(PLAIN.index > 5).replace("m", "missing"))
    for X, sensitive, bands, groups in (
        (few, "age", None, set(range(10))),
        (few, "age", [5], {"under 5", "5 and over"}),
        (holed, "sex", None, {"f", "missing"}),
        (
            PLAIN,
            ["sex", "age"],
            [40],
            {f"{sex} · {band}" for sex in "fm" for band in ("under 40", "40 and over")},
        ),
    ):
        assert set(fitted(X, sensitive=sensitive, bands=bands).fitted_.sensitive.values) == groups


def test_many_numbers_need_bands_and_the_refusal_has_some_that_leave_none_empty():
    for values, bands in (
        (-np.arange(50.0), "[-32, -16]"),
        (np.linspace(1.001, 1.002, 40), "[1.0013333333333332, 1.0016666666666667]"),
        (np.r_[np.zeros(900), np.arange(1, 101)], "[1]"),
        (np.r_[np.arange(12), np.full(500, 11)], "[11]"),
        (np.linspace(0, 1, 31), "[0.33, 0.67]"),
    ):
        X = pd.DataFrame({"n": values, "x": range(len(values))})
        y = np.where(np.arange(len(X)) % 2, "yes", "no")
        with pytest.raises(SettingError, match="protected attribute needs groups") as error:
            butfor.compare_standards(X, y, sensitive_features="n", adverse="no")
        assert str(error.value).endswith(f"near their thirds: sensitive_bands={{'n': {bands}}}")
        given = json.loads(bands)
        groups = Sensitive.of("n", X, given).values
        assert set(groups) == set(Bands(tuple(given)).names)


def test_a_switch_goes_to_the_median_of_the_other_bands_and_a_rule_names_one(monkeypatch):
    audit, age, switched = fitted(sensitive="age", bands=[25, 60]), PLAIN["age"], []
    person = audit.fitted_.people(PLAIN)[0]
    medians = {
        int(age[person.groups == band].quantile(interpolation="lower")): band for band in THREE
    }
    with monkeypatch.context() as patch:
        patch.setattr(
            rules,
            "decisions_about",
            lambda people, model, table: switched.append(people) or person.decisions,
        )
        assert not person.switch_changes.any()
    assert len(switched) == 3
    for other in switched:
        (target,) = set(other["age"][other["age"] != age])
        assert (other["age"] == age.where(person.groups == medians.pop(target), target)).all()
        assert other["income"].equals(PLAIN["income"])
    audit.phi = "in_group(age, 'under 25')"
    assert eligible_cases(audit.with_search().fitted_, PLAIN) == list(np.flatnonzero(AGES < 25))


def test_the_command_that_a_refusal_prints_runs_and_its_bands_are_said(capsys, tmp_path):
    holed = PLAIN.assign(granted=LABELS, age=PLAIN["age"].where(PLAIN.index % 30 != 1))
    holed["born on"] = BORN.dt.strftime("%Y-%m-%d")
    holed.to_csv(tmp_path / "the table.csv", index=False)
    out, asked = tmp_path / "out", ("--model", "logistic", "--budget", 1, "--cases", "0:12")
    columns = ("--label", "granted", "--sensitive", "age,born on")
    refused = run(capsys, "audit", tmp_path / "the table.csv", *columns, *asked, "--out", out)
    assert refused[:2] == (2, "")
    assert "'age' holds numbers with " in refused[2]
    command = shlex.split(refused[2].partition("near their thirds: butfor ")[2])
    assert (command[0], command[-4], command[-2]) == ("audit", "--bands", "--bands")
    code, _, said = run(capsys, *command)
    assert (code, "'age' is a number, cut into bands: 'under " in " ".join(said.split())) == (
        0,
        True,
    )
    assert "is a number, cut into bands" in (out / "report.html").read_text()
    record = json.loads((out / "audit.json").read_text())
    cuts = record["run"]["sensitive_bands"]
    assert command[-3] == f"age={','.join(f'{cut:g}' for cut in cuts['age'])}"
    assert command[-1] == f"born on={','.join(cuts['born on'])}"
    names = [*Bands(tuple(cuts["age"])).names, "missing"]
    of_age = [group.split(" · ")[0] for group in Population.from_dict(record).by_group.index]
    assert set(of_age) <= set(names)


# --- dates ----------------------------------------------------------------------------------------

BORN = pd.Series(pd.Timestamp("1960-01-01") + pd.to_timedelta(AGES * 250, "D"))
CUTS = ["1975-01-01", "1995-06-30"]
BORN_IN = ("under 1975-01-01", "1975-01-01 to under 1995-06-30", "1995-06-30 and over")
AS_THEY_COME = (
    BORN,
    BORN.dt.date,
    BORN.dt.strftime("%Y-%m-%d"),
    BORN.where(BORN.index > 3).dt.tz_localize("UTC"),
)


@pytest.mark.parametrize("where", ["a column", "beside", "a pipeline's own"])
def test_protected_dates_are_cut_at_dates_and_called_by_them(where):
    expected = np.array(BORN_IN, object)[np.searchsorted(pd.to_datetime(CUTS), BORN, side="right")]
    for born in AS_THEY_COME:
        X = (
            PLAIN[["income", "sex"]]
            if where == "beside"
            else PLAIN[["income", "sex"]].assign(born=born)
        )
        model = LogisticRegression()
        if where == "a pipeline's own":
            model = make_pipeline(make_column_transformer((StandardScaler(), ["income"])), model)
        audit = butfor.LabelAudit(model, budget=3, fresh_seeds=0, phi="everyone")
        given = born[:150].rename("born") if where == "beside" else "born"
        audit.fit(X[:150], LABELS[:150], sensitive_features=given, sensitive_bands=CUTS)
        asked = born[150:] if where == "beside" else None
        assert (
            audit.fitted_.people(X[150:], None, asked)[0].groups.tolist() == expected[150:].tolist()
        )
        assert set(audit.fitted_.sensitive.values) - {"missing"} == set(BORN_IN)
    population = audit.explain_all(X[150:], cases=[0], sensitive_features=asked)
    assert population.run.sensitive_bands == {"born": tuple(CUTS)}
    assert list(population.by_group.index) == [expected[150]]
    assert butfor.Population.from_json(population.to_json()).run == population.run


def test_a_comparison_says_dates_in_groups_and_slices():
    def compared(born, **how):
        table = PLAIN[["sex", "income"]].assign(born=born)
        return butfor.compare_standards(table, LABELS, adverse="no", n_jobs=1, **how)

    two = pd.to_datetime(pd.Series(np.where(PLAIN["own"], "1980-01-01", "1990-06-01")))
    found = compared(two, sensitive_features=["born", "sex"], draws=0)
    assert [c.name for c in found.comparisons[:2]] == ["born = 1980-01-01", "born = 1990-06-01"]
    found = compared(two, sensitive_features="sex", draws=2)
    assert {s.value for s in found.parts if s.column == "born"} == {"1980-01-01", "1990-06-01"}
    with pytest.raises(
        SettingError, match=r"'born' holds dates .*\{'born': \['1988-09-30', '2002-06-09'\]\}"
    ):
        compared(BORN, sensitive_features="born")
    with pytest.raises(
        SettingError,
        match="Bands of 'born': give cut points from early to late, such as 1980-01-01",
    ):
        compared(BORN, sensitive_features="born", sensitive_bands=["1980-02-30"])


def test_a_command_takes_dates_as_cut_points_and_writes_them_down(capsys, tmp_path):
    PLAIN.assign(granted=LABELS, born=BORN.dt.strftime("%Y-%m-%d")).to_csv(
        tmp_path / "t.csv", index=False
    )
    asked = (
        "--model",
        "logistic",
        "--budget",
        1,
        "--cases",
        "0:2",
        "--fresh-seeds",
        0,
        "--out",
        tmp_path / "out",
    )
    columns = ("--label", "granted", "--sensitive", "born", "--bands", f"born={','.join(CUTS)}")
    code, out, _ = run(capsys, "audit", tmp_path / "t.csv", *columns, *asked)
    assert (code, BORN_IN[1] in out) == (0, True)
    assert f'bands = ["born={",".join(CUTS)}"]' in (tmp_path / "out" / "audit.toml").read_text()
    assert run(capsys, "replay", tmp_path / "out" / "audit.json")[0] == 0
    code, _, said = run(
        capsys, "audit", tmp_path / "t.csv", *columns[:-1], "born=1980-02-30", *asked[:-2]
    )
    assert (code, "give cut points from early to late" in said) == (2, True)
