"""What reviewers answered, or a sentence on why it cannot be used; and whether the answers show
anything."""

import csv
import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact

from butfor.errors import TableError
from butfor.result.reviewed import Evidence, chance
from butfor.review.answers import Outcome, cohens_kappa, read_answers
from butfor.review.tasks import simulated_power
from recorded import OTHER, answered, changed, fill_in, key_of, key_with, of_kind, run, sealed

DEEP = "[" * 100_000


def export_of(tasks: Path, annotations: dict[str, list[str]]) -> str:
    """Label Studio's CSV export of tasks.csv: a row per annotation, columns in the alphabet's
    order. An empty annotation is that of a skipped task."""
    rows = []
    for task in pd.read_csv(tasks / "tasks.csv", keep_default_na=False).to_dict("records"):
        for number, answer in enumerate(annotations[task["id"]]):
            about = {"annotator": number, "annotation_id": len(rows), "answer": answer}
            rows.append(task | about | {"lead_time": 2.5, "was_cancelled": answer == ""})
    frame = pd.DataFrame(rows)
    return frame[sorted(frame.columns)].to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC)


def test_a_table_of_any_separator_and_label_studio_give_the_same(
    german_file, tasks, tmp_path, capsys
):
    answers = answered(tasks, 12, 1)
    path = tmp_path / "export.csv"  # beside tasks.key.json
    filled = [fill_in(tasks, answers, separator, f"{k}.csv") for k, separator in enumerate(",;\t")]
    annotations = {task: [label, label, ""] for task, label in answers.items()}
    path.write_text(export_of(tasks, annotations))
    outputs = [run(capsys, "review", german_file, "--answers", file) for file in (*filled, path)]
    assert outputs == [outputs[0]] * 4
    assert outputs[0][0] == 0
    assert (
        f"The reviewer changed 12 of {len(of_kind(tasks, 'control'))} labels of sex = female"
        in outputs[0][1]
    )
    differ, skipped, unseen = list(answers)[:3]
    annotations[differ] = [answers[differ], OTHER[answers[differ]]]
    annotations[skipped] = [""]
    path.write_text(export_of(tasks, annotations))
    read = read_answers([path], sealed(tasks)).reviewers[0]
    assert [task for task, label in read.items() if label == "cannot tell"] == [differ, skipped]
    annotations[unseen] = []
    path.write_text(export_of(tasks, annotations))
    missing = run(capsys, "review", german_file, "--answers", path)[2]
    assert f"1 of {len(answers)} tasks has no answer; the first is task {unseen}" in missing


def test_the_labelling_interface_of_the_documents_fits_the_tasks(tasks):
    text = (Path(__file__).parents[2] / "docs" / "review.md").read_text()
    interface = ElementTree.fromstring(re.search("```xml\n(.*?)```", text, re.DOTALL)[1])
    columns = pd.read_csv(tasks / "tasks.csv").columns
    shown = " ".join(field.get("value") for field in interface.iter("Text"))
    assert set(re.findall(r"\$(\w+)", shown)) <= set(columns)
    choices = [choice.get("value") for choice in interface.iter("Choice")]
    assert choices == ["bad credit", "good credit", "cannot tell"]
    assert [field.get("name") for field in interface.iter("Choices")] == ["answer"]


@pytest.mark.parametrize(
    ("names", "meant"),
    [
        (
            ("deny = no", "deny = yes"),
            {"YES": "deny = yes", "Deny = No": "deny = no", "Cannot Tell": "cannot tell"},
        ),
        (("b", "B"), {"b": "b", "B": "B"}),
        (("Cannot Tell", "yes"), {"Cannot Tell": "Cannot Tell"}),
        (("no", "yes", "yes "), {"yes ": "yes ", "yes": "yes", " no ": "no"}),
        (("=1+1", "no"), {"'=1+1": "=1+1"}),  # no spreadsheet calculates an answer
        (("ab", "AB"), {"Ab": None}),
        (("x = 1", "y = 1"), {"1": None}),
        (("granted = 0", "granted = 1"), {"1.0": "granted = 1", "0": "granted = 0", "0.5": None}),
    ],
)
def test_labels_are_read_as_they_are_meant(tmp_path, names, meant):
    path, key = tmp_path / "answers.csv", key_with(names[:1], names)
    for given, label in meant.items():
        path.write_text(f'id,label\r\n"K-0","{given}"\r\n', newline="")
        if label is not None:
            assert read_answers([path], key).reviewers[0]["K-0"] == label
            continue
        with pytest.raises(TableError, match=f"'{given}' is not a label; write '{names[0]}'"):
            read_answers([path], key)


def test_answers_and_keys_that_cannot_be_used_change_nothing(
    german_file, salary_file, tasks, tmp_path, capsys
):
    filled, key = fill_in(tasks, answered(tasks, 9, 2)), tasks.with_name("tasks.key.json")
    good = ["id,label", *(f"{task},{label}" for task, label in answered(tasks, 9, 2).items())]
    task = good[3].partition(",")[0]
    json_goes = "are JSON, which is no longer read: export them from Label Studio as CSV"
    studio = "annotation_id,id,answer"
    contents = [
        (
            [*good[:3], f"{task},maybe"],
            f"line 4 (task {task}): 'maybe' is not a label; write 'bad credit'",
        ),
        (
            [*good[:3], f"{task},", *good[4:]],
            f"tasks has no answer; the first is task {task} (line 4). Write a label",
        ),
        ([*good[:3], "17,bad credit"], "line 4: this review has no task '17'; its ids begin"),
        ([*good, good[3]], f"task {task} has an answer already, in line 4"),
        (["number,label", *good[1:]], "no column 'id'"),
        (["id,label,label", "1,yes,no"], "have 2 columns 'label'"),
        ([""], "no column 'id'"),
        (["id,label", f"{'x' * 200_000},yes"], "are not a CSV file (field larger than"),
        ([DEEP], json_goes),
        (["", json.dumps([{"data": {"id": task}, "annotations": []}])], json_goes),
        ([studio, f"7,{task},maybe"], f"line 2 (task {task}): 'maybe' is not a label"),
        ([studio, "7,17,bad credit"], "line 2: this review has no task '17'"),
        (["annotation_id,id", f"7,{task}"], "have no column 'label'"),
        (["annotation_id,answer,id,answer", f"7,a,{task},b"], "have 2 columns 'answer'"),
        (["\udcff"], "it is not UTF-8 text"),
    ]
    refused = [((tmp_path / f"answers{k}",), sentence) for k, (_, sentence) in enumerate(contents)]
    for (lines, _), ((path,), _) in zip(contents, refused, strict=True):
        path.write_bytes("\n".join(lines).encode(errors="surrogateescape"))

    # A key that was changed, or belongs to another review.
    os.mkfifo(tmp_path / "pipe")
    record = json.loads(key.read_text())
    record["tasks"][0]["label"] = OTHER[record["tasks"][0]["label"]]
    keys = {"changed": json.dumps(record), "deep": DEEP, "empty": "{}"}
    for name, content in keys.items():
        (tmp_path / name).write_text(content)
    other = ("--out", tmp_path / "other", "--labels", 29, "--anyway")
    assert run(capsys, "review", german_file, *other)[0] == 0

    def bent(name, of, **fields):
        """The key with one task altered, and a checksum of its new content."""
        alter = lambda r: next(t for t in r["tasks"] if t["kind"] == of).update(fields)  # noqa: E731
        return changed(key, tmp_path / name, alter)

    for path, sentence in (
        (tmp_path / "changed", "was changed since butfor wrote it"),
        (bent("position", "clear case", position=0), "in the table, it is row"),
        (
            bent("control", "control", label="good credit"),
            "with label 'good credit'; in the table, it is row",
        ),
        (
            changed(key, tmp_path / "away.json", lambda r: r.update(audit_sha256="sha256:0")),
            "belongs to another audit",
        ),
        (tmp_path / "other.key.json", "Use the answers that were given for this review"),
        (tmp_path / "deep", "is not the key of a review"),
        (tmp_path / "empty", "is not the key of a review"),
        (tmp_path / "no", "cannot be read"),
        (tmp_path / "pipe", "it is not a file"),
    ):
        refused.append(((filled, "--key", path), sentence))
    refused.append(((filled, "--answers", filled), "names the same file twice"))
    for arguments, sentence in refused:
        code, out, err = run(
            capsys, "review", german_file, "--answers", *arguments, "--out", tmp_path / "x"
        )
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert sentence in err
    assert not (tmp_path / "x").exists()
    assert "belongs to another audit" in run(capsys, "review", salary_file, "--answers", filled)[2]
    key.rename(tmp_path / "elsewhere.json")
    assert "--key" in run(capsys, "review", german_file, "--answers", filled)[2]
    assert (
        run(
            capsys, "review", german_file, "--answers", filled, "--key", tmp_path / "elsewhere.json"
        )[0]
        == 0
    )


def test_two_reviewers_correct_what_they_agree_on_in_both_groups(german_file, tasks, capsys):
    one, other = answered(tasks, 14, 2, 1), answered(tasks, 12, 1)
    other[of_kind(tasks, "label")[0]["id"]] = "cannot tell"
    files = [
        fill_in(tasks, answers, name=name) for name, answers in (("a.csv", one), ("b.csv", other))
    ]
    outcome, n = read_answers(files, sealed(tasks)), len(one)
    agreed = {t["position"] for t in key_of(tasks) if one[t["id"]] == other[t["id"]] != t["label"]}
    assert {task.position for task, _ in outcome.corrections} == agreed
    assert len(agreed) == 11 + 1
    code, out, _ = run(capsys, "review", german_file, "--answers", files[0], "--answers", files[1])
    pairs, clear = len(of_kind(tasks, "control")) - 1, len(of_kind(tasks, "clear case"))
    assert code == 0
    assert f"The reviewers changed 11 of {pairs} labels of sex = female" in out
    assert f"Reviewer error on clear cases: reviewer 1 {100 / clear:.1f} %, 1 of {clear}" in out
    assert f"same answer to {n - 5} of {n} tasks (Cohen's κ {outcome.evidence.kappa:.2f})" in out
    one, other = dict(enumerate("aabb")), dict(enumerate("aaab"))
    assert cohens_kappa([one, other, one]) == pytest.approx(2 / 3), "the mean of 1/2, 1 and 1/2"
    assert cohens_kappa([dict(enumerate("aaaa"))] * 2) is None


# --- what answers show ----------------------------------------------------------------------------

NAMES = ("refused", "granted")


def evidence(labels=(9, 30), controls=(1, 30), errors=((0, 30),), **changes: object) -> Evidence:
    told = {"alone": (0, 0), "tasks": 90, "unsure": 0, "expected": 9.0, "most": 20.0} | changes
    return Evidence(
        group="sex = f", others="other groups", errors=errors, strata=((labels, controls),), **told
    )


def reviews(pairs: int, wrong_share: float, answer, times: int, clear: int = 20) -> float:
    """The share of simulated reviews whose answers show something: refused labels, a share of them
    wrong, with controls, and clear cases of both labels. `answer`: from the truth to the answers of
    one reviewer or several."""
    kinds = ["label"] * pairs + ["control"] * pairs + ["clear case"] * clear
    labels = ["refused"] * 2 * pairs + [NAMES[k % 2] for k in range(clear)]
    controls = [pairs + k for k in range(pairs)] + [None] * (pairs + clear)
    key, shows = key_with(labels, NAMES, kind=kinds, control=controls), 0
    for seed in range(times):
        rng = np.random.default_rng(seed)
        truth = np.array([label == "granted" for label in labels])
        truth[:pairs] = rng.random(pairs) < wrong_share
        given = [
            {f"K-{k}": NAMES[int(a)] for k, a in enumerate(one)}
            for one in np.atleast_2d(answer(truth, rng))
        ]
        shows += not Outcome(key, tuple(given)).evidence.shows_nothing
    return shows / times


def erring(share: float, reviewers: int = 1):
    return lambda truth, rng: truth ^ (rng.random((reviewers, len(truth))) < share)


@pytest.mark.parametrize(
    ("wrong", "answer", "least", "most"),
    [
        (0.3, lambda truth, rng: rng.random(len(truth)) < 0.5, 0.0, 0.05),
        (0.3, lambda truth, rng: rng.random(len(truth)) < 0.8, 0.0, 0.05),
        (0.3, lambda truth, rng: np.ones(len(truth), bool), 0.0, 0.0),
        (0.0, erring(0.1), 0.0, 0.06),
        (0.3, erring(0.1), 0.65, 1.0),
        (0.3, erring(0.1, 2), 0.85, 1.0),
    ],
    ids=[
        "at random",
        "mostly favourable",
        "always favourable",
        "nothing is wrong",
        "careful",
        "two who are careful",
    ],
)
def test_careless_answers_show_nothing_and_careful_ones_do_where_labels_are_wrong(
    wrong, answer, least, most
):
    assert least <= reviews(40, wrong, answer, times=100) <= most


def test_the_power_that_is_foretold_is_that_of_the_reviews():
    foretold = simulated_power(np.full(40, 0.25), np.ones(40, bool), np.ones(40, bool), 20)
    assert foretold == pytest.approx(
        reviews(40, 0.25, erring(0.1), times=200), abs=0.1
    )  # three standard errors


def test_the_test_is_fishers_among_all_and_among_those_alike_and_guessing_is_refused():
    for labels, controls in (
        ((6, 10), (1, 10)),
        ((1, 10), (6, 10)),
        ((9, 29), (1, 29)),
        ((10, 30), (3, 30)),
    ):
        table, found = [[hit, n - hit] for hit, n in (labels, controls)], evidence(labels, controls)
        p = fisher_exact(table, alternative="greater")[1]
        assert found.p == pytest.approx(p)
        assert found.interval[0] < found.difference < found.interval[1]
        assert (found.interval[0] > 0, not found.shows_nothing) in (
            (p <= 0.05, p <= 0.05),
            (False, False),
        )
    assert evidence((0, 0), (0, 0)).p is None
    # The others' standard favours 20 labels and 5 controls. Whoever follows it changes these and
    # nothing else.
    assert chance((((0, 10), (0, 25)), ((20, 20), (5, 5)))) == 1
    assert chance((((8, 10), (3, 25)), ((16, 20), (1, 5)))) < 0.001
    assert not evidence(errors=((9, 30),)).shows_nothing
    assert (
        "the reviewer changed 10 of 30 clear cases (33 %)"
        in evidence(errors=((10, 30),)).shows_nothing
    )
    assert "reviewer 2 changed 10 of 30" in evidence(errors=((9, 30), (10, 30))).shows_nothing
    assert "not known, since no clear case got a label" in " ".join(
        evidence(errors=((0, 0),)).lines
    )
    many, few = (evidence((hit, 30), (1, 30), alone=(2, 5)).lines[-1] for hit in (19, 18))
    assert few == "About 9 of the group's 35 labels were expected to be wrong."
    assert many.startswith(f"{few} Reviewers changed 21, far more than that")
