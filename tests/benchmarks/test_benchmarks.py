"""Every benchmark runs on little, and what it reports hangs together; how fast anything is, is not
tested."""

import json
import os
import shlex
import signal
from functools import partial
from importlib import import_module
from itertools import product

import pytest

import butfor
from benchmarks import cluster, engines, models, scale, solid
from benchmarks.rows import line, run

TINY = engines.Sizes(
    dataset="salary", hidden=(4, 4), batch_size=8, networks=3, epochs=2, rounds=2, people=5, sgemm=64,
    exhaustive="salary", sample=2, scaling_rows=(6, 12), scaling_networks=(1, 2), scaling_hidden=(2, 4),
    scaling_epochs=2, scaling_rounds=1, gpu_networks=4,
)  # fmt: skip


def searches_find_no_more_than_there_is(rows):
    found = {row["strategy"]: row["found"] for row in rows}
    return (
        found.keys() == {"singles", "exhaustive", "guided"}
        and found["guided"] == found["exhaustive"] > 0
    )


def nothing_is_refuted(rows):
    shares = [row["exact"] + row["bracketed"] + row["none_at_all"] for row in rows]
    return shares == pytest.approx([1] * len(rows)) and not any(row["refuted"] for row in rows)


def solid_is_found(rows):
    """Of 30 seeds there is one look."""
    return [row["search"] for row in rows] == ["published", "solid, margin 2"] and all(
        row["one_look"] == row["solid"] <= row["found"] <= row["people"] == 4 for row in rows
    )


SALARY = "--datasets salary"
BENCHMARKS = {
    "accuracy": (SALARY, lambda rows: rows[0]["accuracy"] == pytest.approx(9 / 11)),
    "effectiveness": (f"{SALARY} --ranks combined", searches_find_no_more_than_there_is),
    "models": (
        f"{SALARY} --people 2 --budget 10%",
        lambda rows: rows[1]["found"] >= rows[0]["found"],
    ),
    "proofs": (f"{SALARY} --people 3", nothing_is_refuted),
    "proofs --refute": (
        f"{SALARY} --people 5 --models ridge --retrainings 20",
        lambda rows: not rows[0]["refuted"],
    ),
    "solid": (
        f"{SALARY} --budget 3 --members 2 --people 4 --fresh 30 --searches 'published;solid, "
        "margin 2' "
        "--picture {folder}/solid.png",
        solid_is_found,
    ),
    "threshold": (
        "--datasets german --models logistic --people 1 --budget 1% --n-jobs 1",
        lambda rows: abs(rows[1]["accepted"] / rows[1]["test_people"] - rows[1]["recorded"]) < 0.01,
    ),
    "wide": (
        "--rows 200 --epochs 1",
        lambda rows: [row["inputs"] for row in rows] == [360, 360, 41],
    ),
    "agreement": (
        f"{SALARY} --sets 2 --max-epochs 20",
        lambda rows: all(
            row["predictions"] == 22 and 0 <= row["median"] <= row["max"] < 0.1 for row in rows
        ),
    ),
    "scale": (
        "--rows= --people= --inputs= --members 2 --epochs 1 --classes 4",
        lambda rows: (
            (rows[0]["axis"], rows[0]["encoded"]) == ("classes", 32) and rows[0]["peak_mb"] > 50
        ),
    ),
    "cluster": (
        "--dataset salary --workers 1 --seconds 0.05 --rounds 1",
        lambda rows: all(row["same_answers"] for row in rows),
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=[pytest.mark.system] if each in ("scale", "cluster") else [])
        for each in BENCHMARKS
    ],
)
def test_benchmarks_print_rows_that_hang_together(name, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(scale, "Point", partial(scale.Point, rows=400))
    network = lambda setup, seed=0: butfor.MLP(setup.hidden, max_epochs=40, random_state=seed)  # noqa: E731
    for module in (cluster, solid):
        monkeypatch.setattr(module, "network", network)
    asked, holds = BENCHMARKS[name]
    which, *option = name.split()
    benchmark = import_module(f"benchmarks.{which}")
    benchmark.main([*option, *shlex.split(asked.format(folder=tmp_path)), "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert rows
    assert holds(rows)
    assert option or all(line(row, benchmark.COLUMNS) for row in rows)  # the table can show each


def test_engines_are_measured_in_all_parts():
    record = engines.engines_bench(TINY, device="cpu", every=True)
    for found in (record["exhaustive"], record["gpu"]["exhaustive"]):
        assert (found["retrainings"], found["people"]) == (30, 11)
    sizes = [
        ("rows", 6),
        ("rows", 12),
        ("networks", 1),
        ("networks", 2),
        ("hidden", 2),
        ("hidden", 4),
    ]
    scaling = [(at["batch_size"], at["axis"], at["value"]) for at in record["scaling"]]
    assert scaling == [(batch, *size) for batch, size in product((8, None), sizes)]
    memory = {"people": 5, "dataset": "x", "retrainings": 2, "seconds": 1, "peak_mib": 77}
    shown = engines.table(json.loads(json.dumps(record)) | {"memory": memory})
    for word in (
        "batch 8",
        "full batch",
        "% of the core's peak",
        "extrapolated",
        "ps / flop",
        "77 MiB",
        "a second",
    ):
        assert word in shown


@pytest.mark.parametrize(
    ("people", "code", "said"), [("1", 130, "Stopped."), ("0", 2, "people=0 must be at least 1")]
)
def test_an_audit_that_was_interrupted_or_refused_is_no_measurement(
    monkeypatch, capsys, people, code, said
):
    real = butfor.LabelAudit.explain_all

    def pressed(self, X, **_):
        os.kill(os.getpid(), signal.SIGINT)
        return real(self, X, cases=[0])

    monkeypatch.setattr(butfor.LabelAudit, "explain_all", pressed)
    with pytest.raises(SystemExit) as end:
        run(lambda: models.main(["--datasets", "salary", "--people", people, "--json"]))
    printed = capsys.readouterr()
    assert (end.value.code, printed.out) == (code, "")
    assert said in printed.err
