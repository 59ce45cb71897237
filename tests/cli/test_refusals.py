"""Bad input gets one sentence and exit code 2, a few of each kind through the command."""

import numpy as np
import pytest

import butfor
from butfor.cli import main
from conftest import odd_table


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tables")
    bad_tables(made)
    return made


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "nosuch.csv --label y --sensitive s",
            "There is no file 'nosuch.csv'. Give a CSV, Parquet, Feather or Excel file",
        ),
        ("germn", "There is no file 'germn'. Did you mean 'german'?"),
        ("missing.csv L S --missing refuse", "Column '# debts', row 7 is missing a value"),
        ("infinite.csv L S", "Column '# debts', row 9 holds an infinite value"),
        ("oneclass.csv L S", "one value only"),
        ("manyclasses.csv L S", "100 different values"),
        ("nolabel.csv L S --missing refuse", "Column 'granted', row 3 is missing a value"),
        ("short.csv L S", "5 rows"),
        ("binary.csv L S", "cannot be read as a table"),
        ("prose.csv L S", "not a table"),
        ("empty.csv L S", "not a table"),
        ("fake.parquet L S", "cannot be read as a table"),
        (". L S", "is a directory"),
        ("good.csv", "--label and --sensitive"),
        ("good.csv --label grantd --sensitive région", "--label: there is no column 'grantd'. Did you mean 'granted'?"),
        ("good.csv --label granted --sensitive gender", "there is no column 'gender'. The table has 'Income"),
        ("good.csv L S --drop membr", "--drop: there is no column 'membr'. Did you mean 'member'?"),
        ("good.csv L --sensitive granted", "is the label"),
        ("good.csv L S --drop member,granted", "--drop 'granted' is the label, which is never learned from"),
        ("good.csv L --sensitive région,member --drop member", "drop all of the protected columns or none"),
        ("good.csv L S --model lojistic", "There is no model 'lojistic'. Did you mean 'logistic'?"),
        ("good.csv L S --model no.such:thing", "cannot be loaded: ModuleNotFoundError"),
        ("good.csv L S --model sklearn.cluster:KMeans", "is not a classifier"),
        ("good.csv L S --model forest --hidden 4", "--hidden: for --model mlp only"),
        ("good.csv L S --model knn --rank gradient", "needs a butfor.MLP"),
        ("good.csv L S --model knn --engine fused", "does not train KNeighborsClassifier"),
        ("good.csv L S --adverse Flase", "--adverse: there is no label 'Flase'. Did you mean 'False'?"),
        ("good.csv L S --towards maybe", "--towards: there is no label 'maybe'. The labels are 'False', 'True'."),
        ("good.csv L S --bands 25", "of 'région', 0 hold numbers"),
        ("good.csv L --sensitive Income_(k€),_net --bands 60,25", "from small to large"),
        ("good.csv L S --cases 4000", "There is no person 4000"),
        ("good.csv L S --budget 0", "must be above 0"),
        ("good.csv L S --budget 121", "more than the 120 training labels"),
        ("good.csv L S --rank gradent", "There is no ranking 'gradent'. Did you mean 'gradient'?"),
        ("good.csv L S --strategy best", "no strategy 'best'"),
        ("good.csv L S --phi nobody", "no rule 'nobody'"),
        ("good.csv L S --phi in_group(région,nort)", "'région' has no value 'nort'. Did you mean 'north'?"),
        ("good.csv L S --epochs 0", "max_epochs"),
        ("good.csv L S --random-state -1", "random_state"),
        ("good.csv L S --engine turbo", "no engine 'turbo'"),
        ("good.csv L S --strategy exhaustive --budget 5", "exhaustive"),
        ("good.csv L S --frobnicate", "No such option"),
        ("german --label credit", "leave out --label"),
        ("german --split-seed -4", "-4 is not in the range"),
    ],
)
def test_bad_input_gets_one_sentence(capsys, folder, monkeypatch, arguments, said):
    monkeypatch.chdir(folder)
    words = {"L": ["--label", "granted"], "S": ["--sensitive", "région"]}
    given = [w.replace("_", " ") if "(k" in w else w for word in arguments.split() for w in words.get(word, [word])]
    code, out, err = run(capsys, "audit", *given, "--quiet")
    assert code == 2
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_earlier_results_are_replaced_only_on_purpose(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)
    cheap = ("good.csv", "--label", "granted", "--sensitive", "région", "--model", "logistic", "--cases", "0:3")
    (folder / "rep").mkdir()
    (folder / "rep" / "notes.txt").write_text("mine")
    assert run(capsys, "audit", *cheap, "--out", "rep", "--quiet")[0] == 0
    before = (folder / "rep" / "audit.json").read_bytes()
    for command in ("audit", "standard"):
        code, out, err = run(capsys, command, *cheap[:5], "--adverse", "False", "--out", "rep", "--quiet")
        assert (code, out) == (2, "")
        assert "'rep' holds earlier results (audit.json): name another folder, or replace them with --overwrite." in err
    assert (folder / "rep" / "audit.json").read_bytes() == before
    assert run(capsys, "audit", *cheap, "--budget", 5, "--out", "rep", "--overwrite", "--quiet")[0] == 0
    assert (folder / "rep" / "audit.json").read_bytes() != before


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
    assert err.startswith("Error: device='cuda:1' is not available")
    assert len(err.splitlines()) == 1


def test_a_device_for_a_model_that_cannot_use_it_is_refused(capsys, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    code, _, err = run(capsys, "audit", "salary", "--cases", 4, "--engine", "cuda", "--model", "knn", "--quiet")
    assert code == 2
    assert "trains on the CPU only; leave out engine 'cuda'" in err


def test_a_gpu_that_was_not_named_and_fails_leaves_the_cpu(monkeypatch):
    from butfor.errors import EngineError
    from butfor.models import engines
    from butfor.models.learners import as_learner

    def broken(device):
        raise EngineError("The GPU is broken.")

    monkeypatch.setattr(engines, "best_device", lambda: "cuda")
    monkeypatch.setattr("butfor.models.network.find_device", broken)
    told = []
    assert engines.choose_engine("auto", as_learner(butfor.MLP()), note=told.append).name == "fused"
    assert told == ["The GPU is broken. Using the CPU instead."]
