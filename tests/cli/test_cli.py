"""The command line as a user meets it: results on stdout, one sentence and exit code 2 for bad input."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.cli import main
from butfor.cli.commands import audit
from conftest import odd_table


@pytest.fixture
def loans(tmp_path):
    path = tmp_path / "loans & co.csv"
    odd_table(600).to_csv(path, index=False)
    return path


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_datasets_prints_the_published_sizes(capsys):
    code, out, _ = run(capsys, "datasets")
    assert code == 0
    for name, sizes in {"salary": "30 11 11", "german": "600 200 200", "bank": "18292 6098 6098"}.items():
        line = next(line.split() for line in out.splitlines() if line.strip().startswith(name))
        assert " ".join(line[2:5]) == sizes
    code, out, _ = run(capsys, "datasets", "--json")
    assert [row["inputs"] for row in json.loads(out)] == [5, 36, 36, 13, 27, 35, 28]


def test_one_case_as_json_is_one_document(capsys):
    code, out, _ = run(capsys, "audit", "salary", "--members", 1, "--fresh-seeds", 2, "--cases", 4, "--json")
    record = json.loads(out)
    assert code == 0
    assert set(record) == {"schema_version", "run", "people", "checksum"}
    assert [person["case"] for person in record["people"]] == [4]
    assert record["run"]["data"]["table"] == "salary"
    assert {"data", "versions", "learner", "random_state", "command"} <= set(record["run"])
    assert len(record["run"]["data"]["sha256"]) == 64


def test_the_recorded_command_gives_the_same_record(capsys):
    import shlex

    _, out, _ = run(
        capsys,
        "audit",
        "salary",
        "--cases",
        4,
        "--members",
        2,
        "--fresh-seeds",
        2,
        "--budget",
        2,
        "--epochs",
        20,
        "--json",
    )
    first = json.loads(out)
    _, out, _ = run(capsys, *shlex.split(first["run"]["command"])[1:], "--json")
    second = json.loads(out)
    for record in (first, second):
        record["run"].pop("seconds")
        record.pop("checksum")
    assert first == second


def test_a_population_is_written_and_replays(capsys, tmp_path):
    out_dir = tmp_path / "report"
    code, out, err = run(
        capsys, "audit", "salary", "--members", "1", "--fresh-seeds", "0", "--strategy", "exhaustive", "--out", out_dir,
        "--engine", "fused",
    )  # fmt: skip
    assert code == 0
    assert "3 of 10 eligible people" in out
    assert str(out_dir / "report.html") in err
    assert sorted(p.name for p in out_dir.iterdir()) == [
        "audit.json",
        "audit.toml",
        "keystones.csv",
        "people.csv",
        "report.html",
    ]
    assert len(pd.read_csv(out_dir / "people.csv")) == 11
    code, out, _ = run(capsys, "replay", out_dir / "audit.json")
    assert code == 0
    assert out.count(": agree") == 3
    record = json.loads((out_dir / "audit.json").read_text())
    next(p for p in record["people"] if "flip_set" in p)["logit"] *= 2
    (out_dir / "audit.json").write_text(json.dumps(record))
    code, out, _ = run(capsys, "replay", out_dir / "audit.json")
    assert code == 1
    assert "DISAGREE" in out


def test_a_table_of_ones_own(capsys, loans, tmp_path):
    code, out, err = run(
        capsys, "audit", loans, "--label", "granted", "--sensitive", "protected group?", "--cases", "0:40",
        "--budget", "2%", "--members", 2, "--fresh-seeds", 3, "--epochs", 10, "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0
    assert "αλφα" in out
    assert "360 training rows" in err
    record = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert record["run"]["budget"] == 8
    assert record["run"]["label_names"] == ["granted = False", "granted = True"]
    assert (tmp_path / "out" / "report.html").stat().st_size < 1_000_000
    assert any("flip_set" in person for person in record["people"])
    assert run(capsys, "replay", tmp_path / "out" / "audit.json")[0] == 0


def test_processes_that_trained_are_gone_soon_after_the_answer(tmp_path):
    script = (
        "import time\n"
        "from joblib import Parallel, delayed\n"
        "from butfor.cli import end_processes\n"
        "end_processes()\n"  # nobody was started: nothing to end
        "Parallel(n_jobs=2)(delayed(abs)(k) for k in range(4))\n"
        "from joblib.externals.loky import reusable_executor\n"
        "workers = list(reusable_executor._executor._processes.values())\n"
        "assert workers and all(worker.is_alive() for worker in workers)\n"
        "end_processes()\n"
        "assert not any(worker.is_alive() for worker in workers)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_command_says_everything_and_tells_everyone_before_it_ends_at_once():
    script = (
        "import atexit, sys, time\n"
        "from butfor import cli\n"
        "class Slow:\n"
        "    def __del__(self): print('taken apart', flush=True)\n"
        "kept = Slow()\n"
        "atexit.register(print, 'told')\n"
        "def main():\n"
        "    print('said')\n"
        "    return 3\n"
        "cli.main = main\n"
        "cli.run()\n"
    )
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=buffered, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (3, ["said", "told"], "")


@pytest.mark.system
def test_ctrl_c_while_the_command_still_loads_ends_it_as_later():
    script = (
        "import os, signal, sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'butfor.cli.commands': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from butfor.__main__ import run\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped.\n")


def test_without_a_command_the_help_is_shown_as_it_is_laid_out(capsys):
    assert main([]) == 2
    bare = capsys.readouterr()
    main(["--help"])
    assert bare.out == capsys.readouterr().out
    assert bare.out.count("\n") > 10
    assert bare.err == ""


def test_a_changed_table_does_not_replay(capsys, loans):
    arguments = [
        "audit",
        loans,
        "--label",
        "granted",
        "--sensitive",
        "région",
        "--cases",
        "0:15",
        "--epochs",
        20,
        "--budget",
        6,
        "--members",
        1,
        "--fresh-seeds",
        0,
        "--json",
    ]
    _, out, _ = run(capsys, *arguments)
    record = loans.with_name("audit.json")
    record.write_text(out)
    assert "flip_set" in out
    odd_table(600, seed=1).to_csv(loans, index=False)
    code, _, err = run(capsys, "replay", record)
    assert code == 2
    assert "rows have changed" in err


def test_parquet_and_options(capsys, tmp_path):
    path = tmp_path / "t.parquet"
    odd_table(300).to_parquet(path)
    code, out, err = run(
        capsys, "audit", path, "--label", "granted", "--positive", "False", "--sensitive", "région",
        "--drop", "member,# debts", "--cases", "3,5", "--hidden", "6,5", "--batch-size", "32", "--epochs", 12,
        "--encoding", "ordinal", "--random-state", 4, "--split-seed", 2, "--rank", "distance", "--budget", 3, "--phi",
        "everyone", "--psi", "everything", "--max-retrainings", 5, "--members", 1, "--n-jobs", 1, "--json", "--quiet",
    )  # fmt: skip
    assert (code, err) == (0, "")
    record = json.loads(out)
    learner = record["run"]["learner"]["recipe"]
    assert (learner["hidden"], learner["batch_size"], learner["max_epochs"], learner["seed"]) == (
        [6, 5],
        32,
        12,
        4,
    )
    assert [p["case"] for p in record["people"]] == [3, 5]
    assert set(record["people"][0]["values"]) == {"Income (k€), net", "protected group?", "région"}
    assert record["run"]["label_names"] == ["granted = True", "granted = False"]
    assert record["run"]["retrainings"] <= 5


def bad_tables(tmp_path):
    table = odd_table(200)
    frames = {
        "missing": table.assign(**{"# debts": table["# debts"].where(table.index != 7)}),
        "infinite": table.assign(**{"# debts": table["# debts"].astype(float).where(table.index != 9, np.inf)}),
        "oneclass": table.assign(granted=True),
        "manyclasses": table.assign(granted=np.arange(200) % 100),
        "nolabel": table.assign(granted=table["granted"].where(table.index != 3)),
        "short": table.head(5),
        "rare": table.assign(région=["atlantis", *table["région"][1:]]),
    }
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "prose.csv").write_text("Dear sir\nI write to you\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "fake.parquet").write_text("not parquet")
    table.to_csv(tmp_path / "good.csv", index=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("nosuch.csv --label y --sensitive s", "There is no file 'nosuch.csv'"),
        ("nosuch", "There is no file 'nosuch'"),
        ("missing.csv L S --missing refuse", "Column '# debts', row 7 is missing a value"),
        ("infinite.csv L S", "Column '# debts', row 9 holds an infinite value"),
        ("oneclass.csv L S", "one value only"),
        ("manyclasses.csv L S", "100 different values"),
        ("nolabel.csv L S --missing refuse", "Column 'granted', row 3 is missing a value"),
        ("short.csv L S", "5 rows"),
        ("binary.csv L S", "not a table"),
        ("prose.csv L S", "not a table"),
        ("empty.csv L S", "not a table"),
        ("fake.parquet L S", "not a table"),
        (". L S", "is a directory"),
        ("good.csv", "--label and --sensitive"),
        ("good.csv --label grantd --sensitive région", "there is no column 'grantd'"),
        ("good.csv --label granted --sensitive gender", "there is no column 'gender'"),
        ("good.csv L S --drop height", "there is no column 'height'"),
        ("good.csv L --sensitive granted", "is the label"),
        ("good.csv L --sensitive région,member --drop member", "drop all or none"),
        ("good.csv L S --model magic", "There is no model 'magic'"),
        ("good.csv L S --model no.such:thing", "cannot be loaded: ModuleNotFoundError"),
        ("good.csv L S --model os:path", "cannot be made"),
        ("good.csv L S --model os:getcwd", "neither a scikit-learn classifier nor a learner"),
        ("good.csv L S --model sklearn.cluster:KMeans", "is not a classifier"),
        ("good.csv L S --model sklearn.ensemble:RandomForestClassifier", "random_state=0"),
        ("good.csv L S --model forest --hidden 4", "--hidden belong to --model mlp"),
        ("good.csv L S --model knn --rank gradient", "needs a butfor.MLP"),
        ("good.csv L S --model knn --engine fused", "does not train KNeighborsClassifier"),
        ("good.csv L S --positive maybe", "'maybe' is not a value"),
        ("good.csv L S --bands 25", "of 'région' 0 hold numbers"),
        ("good.csv L --sensitive Income_(k€),_net --bands 60,25", "from small to large"),
        ("good.csv L S --cases 4000", "There is no person 4000"),
        ("good.csv L S --cases 9:3", "a range goes from"),
        ("good.csv L S --cases a:b", "or a range such as 0:200"),
        ("good.csv L S --cases 500:600", "only people 0 to 39"),
        ("good.csv L S --budget 0", "must be a number above 0"),
        ("good.csv L S --budget 121", "more than the 120 training labels"),
        ("good.csv L S --budget lots", "give a share"),
        ("good.csv L S --budget 200%", "below 100 %"),
        ("good.csv L S --rank best", "no ranking 'best'"),
        ("good.csv L S --strategy best", "no strategy 'best'"),
        ("good.csv L S --phi nobody", "no rule 'nobody'"),
        ("good.csv L S --hidden wide", "give widths"),
        ("good.csv L S --hidden 0", "at least one neuron"),
        ("good.csv L S --batch-size big", "'full'"),
        ("good.csv L S --epochs 0", "max_epochs"),
        ("good.csv L S --random-state -1", "random_state"),
        ("good.csv L S --n-jobs 0", "jobs=0"),
        ("good.csv L S --engine turbo", "no engine 'turbo'"),
        ("good.csv L S --strategy exhaustive --budget 5", "exhaustive"),
        ("good.csv L S --frobnicate", "No such option"),
        ("german --label credit", "leave out --label"),
        ("german --split-seed -4", "-4 is not in the range"),
    ],
)
def test_bad_input_gets_one_sentence(capsys, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    bad_tables(tmp_path)
    words = {"L": ["--label", "granted"], "S": ["--sensitive", "région"]}
    given = [w.replace("_", " ") for word in arguments.split() for w in words.get(word, [word])]
    code, out, err = run(capsys, "audit", *given, "--quiet")
    assert code == 2
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_category_unseen_in_training_is_named(capsys, tmp_path):
    # a value that one row only has, tried over splits until that row is not among the training rows
    table = odd_table(200)
    table.assign(région=["atlantis", *table["région"][1:]]).to_csv(tmp_path / "rare.csv", index=False)
    said = set()
    for split in range(6):
        code, _, err = run(
            capsys, "audit", tmp_path / "rare.csv", "--label", "granted", "--sensitive", "protected group?",
            "--split-seed", split, "--unknown", "refuse", "--members", 1, "--fresh-seeds", 0, "--epochs", 2, "--quiet",
            "--cases", "0:3",
        )  # fmt: skip
        said.add((code, "Column 'région', row 0 holds 'atlantis'" in err))
    assert said == {(0, False), (2, True)}


@pytest.mark.parametrize("content", ["{}", "[1]", "nonsense", '{"schema_version": 99, "status": "found", "flips": []}'])
def test_files_that_are_no_record_are_refused(capsys, tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    code, _, err = run(capsys, "replay", tmp_path / "x.json")
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert run(capsys, "replay", tmp_path / "nosuch.json")[0] == 2


@pytest.mark.parametrize("model", ["mlp", "logistic"])
def test_a_device_that_is_named_and_not_there_is_refused(capsys, monkeypatch, model):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    code, out, err = run(capsys, "audit", "salary", "--cases", 4, "--engine", "cuda:1", "--model", model, "--quiet")
    assert (code, out) == (2, "")
    assert err.startswith("Error: device='cuda:1' is not there")
    assert len(err.splitlines()) == 1


def test_a_device_for_a_model_that_cannot_use_it_is_refused(capsys, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    code, _, err = run(capsys, "audit", "salary", "--cases", 4, "--engine", "cuda", "--model", "knn", "--quiet")
    assert code == 2
    assert "is trained on the CPU only; leave out engine 'cuda'" in err


def test_a_gpu_that_was_not_named_and_fails_leaves_the_cpu(monkeypatch):
    from butfor.errors import EngineError
    from butfor.learn import engines
    from butfor.learn.learners import as_learner

    def broken(device):
        raise EngineError("The GPU is broken.")

    monkeypatch.setattr(engines, "best_device", lambda: "cuda")
    monkeypatch.setattr("butfor.mlp.stacked.present", broken)
    told = []
    assert engines.choose_engine("auto", as_learner(butfor.MLP()), note=told.append).name == "fused"
    assert told == ["The GPU is broken. Using the CPU instead."]


def test_help_shows_at_most_28_options_in_four_groups(capsys):
    code, out, _ = run(capsys, "audit", "--help")
    assert code == 0
    assert [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")] == [
        "Table:",
        "Model:",
        "Question:",
        "Output:",
        "Other options:",
    ]
    assert len(re.findall(r"^  (?:-h, )?--", out, re.MULTILINE)) <= 28
    assert "--config files: docs/data.md lists them" in " ".join(out.split())


def test_settings_that_the_help_leaves_out_are_in_the_docs():
    docs = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    left_out = [option.name.replace("_", "-") for option in audit.params if getattr(option, "hidden", False)]
    assert len(left_out) == 20
    assert [name for name in left_out if f"`{name}`" not in docs] == []


def test_the_answer_about_many_people_fits_a_terminal(capsys):
    code, out, err = run(capsys, "audit", "german", "--model", "logistic", "--budget", "2", "--cases", "0:60")
    assert code == 0
    assert len(out.splitlines()) + len(err.splitlines()) <= 25


def test_help_names_the_choices(capsys):
    code, out, _ = run(capsys, "audit", "--help")
    assert code == 0
    for word in ("boosting", "algorithm1", "stable_under_switch", "same_group", "fused"):
        assert word in out


@pytest.mark.system
@pytest.mark.parametrize("lost", ["Held()", "swallow()", "change()"])
def test_ctrl_c_that_is_swallowed_below_is_not_lost(lost):
    script = f"""
import os, signal, time
from butfor.__main__ import run
import butfor.cli.wiring as wiring

class Held:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.001)  # here Python hears it, and can only drop it

def swallow():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    except BaseException:
        pass

def change():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    except BaseException:
        raise RuntimeError from None

def load(*_):
    {lost}
    time.sleep(10)

wiring.load = load
import sys
sys.argv = ["butfor", "audit", "german", "--quiet"]
run()
"""
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.endswith("Stopped.\n")
    assert time.monotonic() - started < 8
