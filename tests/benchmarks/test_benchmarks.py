"""Every benchmark runs on little, and what it reports hangs together; how fast anything is, is not tested."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from importlib import import_module
from itertools import product

import numpy as np
import pandas as pd
import pytest

import butfor
from benchmarks import agreement, cluster, models, scale, solid
from benchmarks.__main__ import main as list_benchmarks
from benchmarks.engines import Sizes, engines_bench
from benchmarks.enginetable import table
from benchmarks.rows import line, run
from benchmarks.work import encoded
from butfor.errors import ButforError
from butfor.nets import Recipe, train_one

TINY = Sizes(
    dataset="salary", hidden=(4, 4), batch_size=8, networks=3, epochs=2, rounds=2, people=5, sgemm=64,
    exhaustive="salary", sample=2, scaling_rows=(6, 12), scaling_networks=(1, 2), scaling_hidden=(2, 4),
    scaling_epochs=2, scaling_rounds=1, gpu_networks=4,
)  # fmt: skip


@pytest.fixture
def quick(monkeypatch):
    """Networks of these benchmarks are trained for a few epochs."""
    for module in (cluster, solid):
        monkeypatch.setattr(
            module, "network", lambda setup, seed=0: butfor.MLP(setup.hidden, max_epochs=40, random_state=seed)
        )


@pytest.fixture
def measured(capsys):
    """The rows that a benchmark prints as JSON."""

    def rows(name: str, *arguments: object, columns: str = "COLUMNS") -> list[dict]:
        benchmark = import_module(f"benchmarks.{name}")
        benchmark.main([*map(str, arguments), "--json"])
        found = json.loads(capsys.readouterr().out)
        shown = getattr(benchmark, columns, {})
        assert all(line(row, shown) or not shown for row in found)  # the table can show each of them
        return found

    return rows


def test_engines_are_measured_in_all_parts():
    record = engines_bench(TINY, device="cpu", every=True)
    for key in ("speedup_minibatch", "speedup_full_batch", "speedup_direct_minibatch", "gflops", "peak_share"):
        assert record[key] > 0
    for found in (record["exhaustive"], record["gpu"]["exhaustive"]):
        assert (found["retrainings"], found["people"]) == (30, 11)
    sizes = [("rows", 6), ("rows", 12), ("networks", 1), ("networks", 2), ("hidden", 2), ("hidden", 4)]
    scaling = [(at["batch_size"], at["axis"], at["value"]) for at in record["scaling"]]
    assert scaling == [(batch, *size) for batch, size in product((8, None), sizes)]
    memory = {"people": 5, "dataset": "x", "retrainings": 2, "seconds": 1, "peak_mib": 77}
    shown = table(json.loads(json.dumps(record)) | {"memory": memory})
    for word in ("batch 8", "full batch", "% of the core's peak", "extrapolated", "ps / flop", "77 MiB", "a second"):
        assert word in shown


def test_agreement_counts_what_differs(measured):
    expected = agreement.Answers(np.array([[1.0, -0.25], [2.0, 3.0]]), np.array([5, 6]))
    found = agreement.difference(expected, agreement.Answers(np.array([[1.5, 0.25], [2.0, 7.0]]), np.array([5, 9])))
    assert (found["max"], found["max_same_epoch"]) == (4, 0.5)
    assert (found["differ"], found["largest_logit"], found["other_epoch"]) == (1, 0.25, 1)
    rows = measured("agreement", "--datasets", "salary", "--sets", 2, "--max-epochs", 20)
    assert [(row["batch_size"], row["engine"]) for row in rows] == [*product((8, None), ("fused", "floor"))]
    assert all(row["predictions"] == 22 and 0 <= row["median"] <= row["p99"] <= row["max"] < 0.1 for row in rows)
    data, people, setup = encoded("salary")
    recipe = Recipe(setup.hidden, batch_size=8, max_epochs=3)
    other = agreement.train_batches_reversed(recipe, data, (4,)).logits(people)  # the same up to rounding
    np.testing.assert_allclose(other, train_one(recipe, data, (4,)).logits(people), rtol=1e-4, atol=1e-5)


def test_searches_models_and_proofs_on_salary(measured):
    (row,) = measured("accuracy", "--datasets", "salary")
    assert row["accuracy"] == pytest.approx(9 / 11)
    found = {
        row["strategy"]: row["found"]
        for row in measured("effectiveness", "--datasets", "salary", "--ranks", "combined")
    }
    assert found.keys() == {"singles", "exhaustive", "guided"}
    assert found["guided"] == found["exhaustive"] > 0
    prefix, guided = measured("models", "--datasets", "salary", "--people", 2, "--budget", "10%")
    assert (prefix["search"], guided["search"]) == ("influence prefix", "guided")
    assert guided["found"] >= prefix["found"]
    for row in measured("proofs", "--datasets", "salary", "--people", 3):
        assert row["exact"] + row["bracketed"] + row["none_at_all"] == pytest.approx(1)
        assert row["refuted"] == 0
    (row,) = measured(
        "proofs", "--datasets", "salary", "--people", 5, "--models", "ridge", "--refute", "--retrainings", 20
    )
    assert row["refuted"] == 0


@pytest.mark.usefixtures("quick")
def test_solid_judges_searches_on_the_same_people_and_by_further_seeds(measured, tmp_path):
    given = ["--datasets", "salary", "--budget", 3, "--members", 2, "--people", 4, "--fresh", 30]
    searches = "published;top of both;solid, margin 2"
    rows = measured("solid", *given, "--searches", searches, "--picture", tmp_path / "solid.png")
    assert (tmp_path / "solid.png").stat().st_size > 5000
    assert [row["search"] for row in rows] == searches.split(";")
    assert all(row["solid"] <= row["found"] <= row["people"] == 4 for row in rows)
    assert all(row["one_look"] == row["solid"] for row in rows)  # of 30 seeds there is one look


def test_wide_tables_are_measured_three_ways(measured):
    rows = measured("wide", "--rows", 200, "--epochs", 1)
    ways = [(row["table"], row["way"], row["inputs"]) for row in rows]
    assert ways == [("one-hot", "by entries", 360), ("one-hot", "whole rows", 360), ("dense", "whole rows", 41)]


def test_thresholds_are_measured_on_the_same_table(measured, tmp_path):
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"ratio": rng.normal(size=240), "single": rng.choice(["yes", "no"], 240)})
    people["afam"] = rng.choice(["yes", "no"], 240)
    odds = 1 - 1.5 * people["ratio"] - 0.5 * (people["afam"] == "yes") + rng.logistic(size=240)
    people.assign(deny=np.where(odds > 0, "no", "yes")).to_csv(tmp_path / "HMDA.csv", index=False)
    small = ("--datasets", "HMDA", "--tables", tmp_path, "--models", "logistic", "--people", 1, "--budget", "1%")
    half, top = measured("threshold", *small, "--n-jobs", 1)
    assert (half["cut"], top["cut"]) == ("0.5", f"top {100 * top['recorded']:.3g}%")
    assert abs(top["accepted"] / top["test_people"] - top["recorded"]) < 0.01


@pytest.mark.system
def test_scale_measures_each_point_in_a_process_of_its_own(measured, monkeypatch):
    monkeypatch.setattr(scale, "Point", partial(scale.Point, rows=400))
    one = ["--rows", "", "--people", "", "--inputs", "", "--members", 2, "--epochs", 1]
    (row,) = measured("scale", *one, "--classes", 4)
    assert (row["axis"], row["value"], row["encoded"]) == ("classes", 4, 32)
    assert row["peak_mb"] > 50


@pytest.mark.system
@pytest.mark.usefixtures("quick")
def test_a_cluster_gives_the_local_engines_answers(measured):
    rows = measured("cluster", "--dataset", "salary", "--workers", 1, "--seconds", 0.05, "--rounds", 1)
    assert all(row["same_answers"] and row["local_seconds"] > 0 and row["cluster_seconds"] > 0 for row in rows)


def test_the_list_names_every_benchmark(capsys):
    list_benchmarks()
    assert {"accuracy", "cluster", "engines", "influence", "models"} <= set(capsys.readouterr().out.split())


# --- what is no measurement prints no figure ----------------------------------------------------------


def test_an_audit_that_was_interrupted_is_no_measurement(monkeypatch, capsys):
    real = butfor.LabelAudit.explain_all

    def pressed(self, X, **_):
        os.kill(os.getpid(), signal.SIGINT)
        return real(self, X, cases=[0])

    monkeypatch.setattr(butfor.LabelAudit, "explain_all", pressed)
    with pytest.raises(SystemExit) as end:
        run(lambda: models.main(["--datasets", "salary", "--json"]))
    assert end.value.code == 130
    assert capsys.readouterr().out == ""


@pytest.mark.system
def test_a_signal_ends_a_benchmark_at_once_also_while_it_is_still_loading():
    """As soon as Python says that it has imported this much."""
    command = [sys.executable, "-X", "importtime", "-m", "benchmarks.models", "--datasets", "german"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert any(text.split("|")[-1].strip() == "numpy" for text in started.stderr)
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=120)
    assert (started.returncode, out) == (130, "")
    assert err.endswith("Stopped.\n")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("models", ["--people", "0"], "people=0 must be at least 1"),
        ("solid", ["--searches", "fast"], "no search 'fast'"),
        ("scale", ["--rows", "0"], "rows=0"),
        ("bias", ["--kinds", "unifrom"], "there is no 'unifrom'"),
        ("bias", ["--share", "2"], "--share 2.0 must be"),
    ],
)
def test_bad_settings_are_one_sentence(name, arguments, words):
    with pytest.raises((ButforError, SystemExit), match=words):
        import_module(f"benchmarks.{name}").main(arguments)
