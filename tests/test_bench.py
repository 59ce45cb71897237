"""The benchmarks run, and what they report hangs together; how fast anything is, is not tested."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

from butfor.bench import agreement, engines
from butfor.bench.effectiveness import effectiveness
from butfor.bench.engines import Sizes, engines_bench, training_flop
from butfor.bench.enginetable import table
from butfor.bench.memory import high_water_mark
from butfor.bench.work import encoded, random_flip_sets
from butfor.errors import EngineError, SettingError
from butfor.mlp.recipe import Recipe
from butfor.mlp.reference import train

# One worker compiles for all tests that train by the fused engine.
pytestmark = pytest.mark.xdist_group("fused")

TINY = Sizes(
    dataset="salary", hidden=(4, 4), batch_size=8, networks=3, epochs=2, rounds=2, people=5, sgemm=64,
    exhaustive="salary", sample=2, scaling_rows=(6, 12, 24), scaling_networks=(1, 2, 4), scaling_hidden=(2, 4),
    scaling_epochs=2, scaling_rounds=1, gpu_networks=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def record() -> dict:
    return engines_bench(TINY, device="cpu", all_rows=True)


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


def test_scaling_covers_every_size_and_explains_what_is_not_straight(record):
    sizes = [("rows", v) for v in (6, 12, 24)] + [("networks", v) for v in (1, 2, 4)] + [("hidden", v) for v in (2, 4)]
    measured = [(at["batch_size"], at["axis"], at["value"]) for at in record["scaling"]]
    assert measured == [(batch, *size) for batch, size in product((8, None), sizes)]
    for at in record["scaling"]:
        assert at["ps_per_flop"] > 0
        assert (at["explanation"] is None) == (abs(at["against_largest"] - 1) <= engines.STRAIGHT)


def test_the_table_shows_all_parts(record):
    shown = table(record | {"memory": {"people": 5, "dataset": "x", "retrainings": 2, "seconds": 1, "peak_mib": 77}})
    for word in ("batch 8", "full batch", "% of the core's peak", "extrapolated", "ps / flop", "77 MiB", "a second"):
        assert word in shown


def test_without_numba_the_fused_part_is_left_out_and_said_so(monkeypatch):
    def refused(name, *given, **named):
        raise EngineError("Engine 'fused' needs numba.")

    monkeypatch.setattr(engines, "network_engine", refused)
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


@pytest.fixture(scope="module")
def salary_rows() -> list[dict]:
    return agreement.agreement_bench(["salary"], sets=3, engine="fused", jobs=1, max_epochs=30)


def test_predictions_differ_only_within_the_reported_difference(salary_rows):
    assert [row["batch_size"] for row in salary_rows] == [8, None]
    for row in salary_rows:
        assert row["networks"] == row["sets"] == 3
        assert row["predictions"] == 3 * 11
        for found in (row, row["floor"]):
            assert 0 <= found["median"] <= found["p99"] <= found["max"] < 0.1
            assert (found["largest_logit"] is None) == (found["differ"] == 0)
            assert (found["largest_logit"] or 0) <= found["max"]
            if not found["other_epoch"]:
                assert found["max_same_epoch"] == found["max"]


def test_difference_counts_what_differs():
    class Given:
        def __init__(self, logits, best_epoch):
            self.logits, self.best_epoch = np.array(logits), np.array(best_epoch)

    expected = agreement.Answers(Given([[1.0, -0.25], [2.0, 3.0]], [5, 6]))
    got = agreement.Answers(Given([[1.5, 0.25], [2.0, 7.0]], [5, 9]))
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


def test_agreement_command_prints_table_and_json(capsys):
    given = ["--datasets", "salary", "--sets", "2", "--max-epochs", "3", "--engine", "stacked"]
    agreement.main(given)
    assert "floor" in capsys.readouterr().out
    agreement.main([*given, "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert all(0 <= row["max"] < 1e-4 for row in rows)


def test_guided_finds_on_salary_what_enumeration_finds():
    rows = effectiveness(["salary"], ranks=("combined",))
    by_protocol = {row["protocol"]: row for row in rows}
    assert {"singles", "exhaustive", "guided"} == by_protocol.keys()
    assert by_protocol["guided"]["found"] == by_protocol["exhaustive"]["found"] > 0


def test_solid_judges_searches_on_the_same_people(capsys, tmp_path):
    from butfor.bench import solid

    picture = tmp_path / "solid.png"
    searches = "published;top of combined;top of both;solid, margin 2"
    given = ["--datasets", "salary", "--budget", "3", "--members", "3", "--people", "6", "--searches", searches]
    solid.main([*given, "--picture", str(picture)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert picture.stat().st_size > 5000
    rows = list(solid.solid(["salary"], searches=["top of combined"], people=6, members=3, budget=3))
    assert rows[0]["solid"] <= rows[0]["found"] <= rows[0]["people"] == 6
    assert rows[0]["mean_flips"] == 3
    assert set(solid.SEARCHES) - set(solid.USUAL) == {"whole, measured"}  # hours on a CPU: only where it is named
    with pytest.raises(SettingError, match="no search 'fast'"):
        solid.main(["--searches", "fast"])


def test_scale_measures_each_point_in_a_process_of_its_own(capsys):
    from butfor.bench.scale import main

    main(["--rows", "300", "--people", "3", "--inputs", "40", "--members", "2", "--epochs", "1", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [(row["axis"], row["value"]) for row in rows] == [("rows", 300), ("people", 3), ("inputs", 40)]
    assert all(row["peak_mb"] > 50 and row["trainings"] >= 2 for row in rows)
    assert rows[2]["encoded"] == 40
    with pytest.raises(SettingError, match="rows=0"):
        main(["--rows", "0", "--people", "", "--inputs", ""])


def test_a_cluster_gives_the_local_engines_answers_and_its_overhead_is_told(capsys):
    from butfor.bench.cluster import main

    main(["--dataset", "salary", "--workers", "1", "--seconds", "0.05", "--rounds", "1", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["engine"] for row in rows] == ["fused", "joblib"]
    assert all(row["same_answers"] and row["local_seconds"] > 0 and row["cluster_seconds"] > 0 for row in rows)


def test_a_cluster_of_devices_is_compared_with_the_device_here(capsys):
    from butfor.bench.cluster import main

    small = ["--dataset", "salary", "--workers", "1", "--seconds", "0.05", "--rounds", "1"]
    main([*small, "--device", "cpu", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert row["engine"] == "stacked"
    assert row["cluster_seconds"] > 0


def test_wide_tables_are_measured_three_ways(capsys):
    from butfor.bench.wide import main

    main(["--rows", "200", "--epochs", "1", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [(row["table"], row["way"]) for row in rows] == [
        ("one-hot", "by entries"), ("one-hot", "whole rows"), ("dense", "whole rows"),
    ]  # fmt: skip
    assert [row["inputs"] for row in rows] == [360, 360, 41]
    assert all(row["ms"] > 0 for row in rows)
