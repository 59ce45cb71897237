"""The benchmarks run, and what they report hangs together; how fast anything is, is not tested."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import product

import numpy as np
import pytest

import butfor
from benchmarks import accuracy, agreement, cluster, effectiveness, engines, models, proofs, scale, solid, wide
from benchmarks.__main__ import main as list_benchmarks
from benchmarks.engines import Sizes, engines_bench, training_flop
from benchmarks.enginetable import table
from benchmarks.memory import high_water_mark
from benchmarks.rows import line, run
from benchmarks.work import encoded, random_flip_sets
from butfor import signals
from butfor.errors import EngineError, SettingError
from butfor.nets import train_one as train
from butfor.nets.recipe import Recipe
from butfor.run import verdicts

# One worker compiles for all tests that train by the fused engine.
pytestmark = pytest.mark.xdist_group("fused")

TINY = Sizes(
    dataset="salary",
    hidden=(4, 4),
    batch_size=8,
    networks=3,
    epochs=2,
    rounds=2,
    people=5,
    sgemm=64,
    exhaustive="salary",
    sample=2,
    scaling_rows=(6, 12, 24),
    scaling_networks=(1, 2, 4),
    scaling_hidden=(2, 4),
    scaling_epochs=2,
    scaling_rounds=1,
    gpu_networks=4,
)


@pytest.fixture
def rows(capsys):
    """The rows that a benchmark prints as JSON."""

    def measured(benchmark, *arguments: object) -> list[dict]:
        benchmark.main([*map(str, arguments), "--json"])
        found = json.loads(capsys.readouterr().out)
        columns = getattr(benchmark, "COLUMNS", {})
        assert all(line(row, columns) or not columns for row in found)  # the table can show each of them
        return found

    return measured


@pytest.fixture(scope="module")
def record() -> dict:
    return engines_bench(TINY, device="cpu", every=True)


@pytest.mark.parametrize(
    "key",
    ["speedup_minibatch", "speedup_full_batch", "speedup_direct_minibatch", "gflops", "peak_share", "peak_gflops"],
)
def test_engines_figures_are_positive(record, key):
    assert record[key] > 0


def test_engines_record_says_what_was_measured(record):
    said = record["settings"]
    assert said["shape"] == {"rows": 30, "inputs": 5, "validation": 11, "hidden": [4, 4]}
    assert said["K"] == 3
    assert said["cores"] >= 1
    assert said["machine"]
    assert {"torch", "numba", "numpy", "python"} <= said["versions"].keys()
    assert record["left_out"] is None
    for name in ("minibatch", "full_batch"):
        low, high = record[f"speedup_{name}_range"]
        assert low <= record[f"speedup_{name}"] <= high
    json.dumps(record)


def test_every_label_is_retrained_once_and_the_loop_extrapolated(record):
    for found in (record["exhaustive"], record["gpu"]["exhaustive"]):
        assert found["retrainings"] == 30
        assert found["people"] == 11
        assert found["seconds"] > 0
    assert record["exhaustive"]["loop_seconds"] > 0


def test_scaling_covers_every_size(record):
    sizes = [("rows", v) for v in (6, 12, 24)] + [("networks", v) for v in (1, 2, 4)] + [("hidden", v) for v in (2, 4)]
    measured = [(at["batch_size"], at["axis"], at["value"]) for at in record["scaling"]]
    assert measured == [(batch, *size) for batch, size in product((8, None), sizes)]
    for at in record["scaling"]:
        assert at["ps_per_flop"] > 0


def test_the_table_shows_all_parts(record):
    shown = table(record | {"memory": {"people": 5, "dataset": "x", "retrainings": 2, "seconds": 1, "peak_mib": 77}})
    for word in ("batch 8", "full batch", "% of the core's peak", "extrapolated", "ps / flop", "77 MiB", "a second"):
        assert word in shown


def test_without_numba_the_fused_part_is_left_out_and_said_so(monkeypatch):
    def refused(name, *given, **named):
        raise EngineError("Engine 'fused' needs numba.")

    monkeypatch.setattr(engines, "engine_named", refused)
    record = engines_bench(TINY)
    assert record["speedup_minibatch"] is None
    assert "numba" in record["left_out"]
    assert "needs numba" in table(record)


def test_engines_command_prints_one_json_object(monkeypatch, capsys):
    monkeypatch.setattr(engines, "QUICK", TINY)
    engines.main(["--json", "--quick", "--parts", "speed"])
    record = json.loads(capsys.readouterr().out)
    assert record["speedup_full_batch"] > 0
    assert "scaling" not in record


def test_a_part_that_does_not_exist_is_refused(capsys):
    with pytest.raises(SystemExit):
        engines.main(["--parts", "spede"])
    assert "spede" in capsys.readouterr().err


def test_flop_of_one_layer_counted_by_hand():
    # 3 inputs, 1 logit: 3 multiply-adds forth and 3 for the gradient; nothing is sent further back.
    assert training_flop((3, 1), n=10, n_val=4) == 2 * (10 * 6 + 4 * 3)
    # A hidden layer of 2: 6 + 2 forth, as many for the gradient, 2 back.
    assert training_flop((3, 2, 1), n=1, n_val=0) == 2 * (8 + 8 + 2)


def test_flip_sets_are_different_and_no_more_than_there_are():
    assert len(set(random_flip_sets(30, 3, 50))) == 50
    assert sorted(random_flip_sets(5, 1, 50)) == [(row,) for row in range(5)]
    assert random_flip_sets(30, 3, 4) == random_flip_sets(30, 3, 4)


def test_high_water_mark_grows_with_what_is_held():
    before = high_water_mark()
    held = np.ones(2**25)
    assert high_water_mark() >= max(before, held.nbytes)


def test_predictions_differ_only_within_the_reported_difference(rows, monkeypatch):
    monkeypatch.setattr(agreement, "available_cores", lambda: 1)  # no processes for two small networks
    table = rows(agreement, "--datasets", "salary", "--sets", 2, "--max-epochs", 20)
    assert [(row["batch_size"], row["engine"]) for row in table] == [
        (8, "fused"),
        (8, "floor"),
        (None, "fused"),
        (None, "floor"),
    ]
    for row in table:
        assert row["networks"] == 2
        assert row["predictions"] == 2 * 11
        assert 0 <= row["median"] <= row["p99"] <= row["max"] < 0.1
        assert (row["largest_logit"] is None) == (row["differ"] == 0)
        assert (row["largest_logit"] or 0) <= row["max"]
        if not row["other_epoch"]:
            assert row["max_same_epoch"] == row["max"]


def test_difference_counts_what_differs():
    expected = agreement.Answers(np.array([[1.0, -0.25], [2.0, 3.0]]), np.array([5, 6]))
    got = agreement.Answers(np.array([[1.5, 0.25], [2.0, 7.0]]), np.array([5, 9]))
    found = agreement.difference(expected, got)
    assert found["max"] == 4
    assert found["max_same_epoch"] == 0.5
    assert (found["differ"], found["largest_logit"], found["other_epoch"]) == (1, 0.25, 1)


def test_the_floor_is_the_same_training_up_to_rounding():
    rows, people, setup = encoded("salary")
    recipe = Recipe(setup.hidden, batch_size=8, max_epochs=3)
    usual, other = train(recipe, rows, (4,)), agreement.train_batches_reversed(recipe, rows, (4,))
    np.testing.assert_allclose(other.logits(people), usual.logits(people), rtol=1e-4, atol=1e-5)
    # and the reference is as it was before
    np.testing.assert_array_equal(train(recipe, rows, (4,)).logits(people), usual.logits(people))


# --- every benchmark, on a few people -----------------------------------------------------------------


def test_a_table_has_a_line_per_row_under_its_headings(capsys):
    accuracy.main(["--datasets", "salary"])
    assert capsys.readouterr().out.splitlines() == ["dataset  accuracy", "salary      0.818"]


def test_what_is_not_known_is_a_dash_and_what_failed_says_why():
    columns = {"name ": "{name}", "  mean": "{mean:.1f}"}
    assert line({"name": "a", "mean": None}, columns) == "a          –"
    assert line({"name": "b", "failed": "no memory"}, columns) == "b          – no memory"


def test_guided_finds_on_salary_what_enumeration_finds(rows):
    table = rows(effectiveness, "--datasets", "salary", "--ranks", "combined")
    by_strategy = {row["strategy"]: row for row in table}
    assert {"singles", "exhaustive", "guided"} == by_strategy.keys()
    assert by_strategy["guided"]["found"] == by_strategy["exhaustive"]["found"] > 0


def test_solid_judges_searches_on_the_same_people(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(
        solid, "network", lambda setup, seed: butfor.MLP(setup.hidden, max_epochs=40, random_state=seed)
    )
    given = ["--datasets", "salary", "--budget", 3, "--members", 2, "--people", 4, "--fresh", 9]
    searches = "published;top of both;solid, margin 2"
    table = rows(solid, *given, "--searches", searches, "--picture", tmp_path / "solid.png")
    assert (tmp_path / "solid.png").stat().st_size > 5000
    assert [row["search"] for row in table] == searches.split(";")
    assert all(row["solid"] <= row["found"] <= row["people"] == 4 for row in table)
    assert table[1]["mean_flips"] == 3
    with pytest.raises(SettingError, match="no search 'fast'"):
        solid.main(["--searches", "fast"])


def test_the_guided_search_is_compared_with_influence_prefixes(rows):
    prefix, guided = rows(models, "--datasets", "salary", "--people", 3, "--budget", "10%")
    assert (prefix["search"], guided["search"]) == ("influence prefix", "guided")
    assert prefix["budget"] == guided["budget"] == 3
    assert guided["found"] >= prefix["found"]


def test_proofs_hold_and_nothing_refutes_them(rows):
    small = ["--datasets", "salary", "--people", 5]
    for row in rows(proofs, *small):
        assert row["exact"] + row["bracketed"] + row["none_at_all"] == pytest.approx(1)
        assert row["refuted"] == 0
    (row,) = rows(proofs, *small, "--models", "ridge", "--refute", "--retrainings", 20)
    assert row["refuted"] == 0


@pytest.mark.system
def test_scale_measures_each_point_in_a_process_of_its_own(rows, monkeypatch):
    monkeypatch.setattr(scale, "Point", partial(scale.Point, rows=400))
    one = ["--rows", "", "--people", "", "--members", 2, "--epochs", 1]
    row, many = rows(scale, *one, "--inputs", 40, "--classes", 4)
    assert (row["axis"], row["value"], row["encoded"]) == ("inputs", 40, 42)
    assert (many["axis"], many["value"], many["encoded"]) == ("classes", 4, 32)
    assert row["peak_mb"] > 50
    assert row["trainings"] >= 2
    with pytest.raises(SettingError, match="rows=0"):
        rows(scale, "--rows", 0)


@pytest.mark.system
def test_scale_has_the_plain_loop_beside_any_model(rows):
    some = ["--rows", "200,400", "--people", "", "--inputs", "", "--classes", ""]
    some += ["--labels", 3, "--model", "logistic"]
    first, second = rows(scale, *some)
    assert first["slope"] is None
    assert second["slope"] == pytest.approx(np.log2(second["search_seconds"] / first["search_seconds"]), abs=0.02)
    assert second["plain_seconds"] > 0
    assert second["ratio"] == pytest.approx(second["plain_seconds"] / second["search_seconds"], rel=0.2)


@pytest.mark.system
def test_a_cluster_gives_the_local_engines_answers_and_its_overhead_is_told(rows):
    given = ["--dataset", "salary", "--workers", 1, "--seconds", 0.05, "--rounds", 1]
    table = rows(cluster, *given)
    assert [row["engine"] for row in table] == ["fused", "joblib"]
    assert all(row["same_answers"] and row["local_seconds"] > 0 and row["cluster_seconds"] > 0 for row in table)


def test_wide_tables_are_measured_three_ways(rows):
    table = rows(wide, "--rows", 200, "--epochs", 1)
    ways = [(row["table"], row["way"], row["inputs"]) for row in table]
    assert ways == [("one-hot", "by entries", 360), ("one-hot", "whole rows", 360), ("dense", "whole rows", 41)]
    assert all(row["ms"] > 0 for row in table)


def test_the_list_names_every_benchmark(capsys):
    list_benchmarks()
    said = capsys.readouterr().out
    for name in ("accuracy", "agreement", "cluster", "effectiveness", "engines", "influence", "models", "proofs"):
        assert f"\n{name} " in said
    assert "rows" not in [text.split()[0] for text in said.splitlines() if text]


# --- interruptions ------------------------------------------------------------------------------------


def test_a_search_that_was_interrupted_is_no_measurement(monkeypatch, capsys):
    real = butfor.LabelAudit.explain_all

    def interrupted(self, X, **_):
        return real(self, X, cases=[0]).with_run(interrupted=True)

    monkeypatch.setattr(butfor.LabelAudit, "explain_all", interrupted)
    with pytest.raises(SystemExit) as end:
        run(lambda: models.main(["--datasets", "salary", "--json"]))
    assert end.value.code == 130
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "Stopped.\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_verdicts_are_drawn_up_ends_a_benchmark_too(monkeypatch, capsys, number):
    before = signal.signal(number, signals.end_process)

    def pressed(*given):
        os.kill(os.getpid(), number)
        return verdicts.verdicts_of(*given)

    monkeypatch.setattr("butfor.explain.verdicts_of", pressed)
    try:
        with pytest.raises(SystemExit) as end:
            run(lambda: models.main(["--datasets", "salary", "--people", "2", "--json"]))
    finally:
        signal.signal(number, before)
    assert end.value.code == 130
    assert capsys.readouterr().out == ""


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("loaded", ["argparse", "numpy", "pandas", None])
def test_a_signal_ends_a_benchmark_at_once_without_a_figure(number, loaded):
    """Also while it is still loading: as soon as Python says that it has imported this much."""
    command = [sys.executable, "-X", "importtime", "-m", "benchmarks.models", "--datasets", "german"]
    command = [part for part in command if loaded or part not in ("-X", "importtime")]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert started.stderr is not None
    if loaded is None:
        assert started.stdout.readline().startswith("dataset")
        time.sleep(1)
    else:
        assert any(text.split("|")[-1].strip() == loaded for text in started.stderr)
    started.send_signal(number)
    out, err = started.communicate(timeout=120)
    assert (started.returncode, out) == (130, "")
    assert err.endswith("Stopped.\n")
    assert "Traceback" not in err


def test_bad_settings_are_one_sentence(capsys):
    with pytest.raises(SystemExit) as end:
        run(lambda: models.main(["--people", "0"]))
    assert end.value.code == 2
    assert capsys.readouterr().err == "Error: people=0 must be at least 1.\n"
