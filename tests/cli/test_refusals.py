"""Bad input gets one sentence and exit code 2; the sentence names the option."""

import pytest

from conftest import odd_table
from recorded import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made, table = tmp_path_factory.mktemp("tables"), odd_table(200)
    table.to_csv(made / "good.csv", index=False)
    table.assign(granted=[*"abcd"] * 50).to_csv(made / "grades.csv", index=False)
    table.assign(région=["atlantis", *table["région"][1:]]).to_csv(made / "rare.csv", index=False)
    return made


AUDIT = [
    ("nosuch.csv L S", "There is no file 'nosuch.csv'. Give a CSV, Parquet, Feather or Excel file"),
    ("germn", "There is no file 'germn'. Did you mean 'german'?"),
    (". L S", "is a directory"),
    ("good.csv", "--label and --sensitive"),
    ("good.csv --label grantd --sensitive région", "--label: there is no column 'grantd'. Did you mean 'granted'?"),
    ("good.csv --label granted --sensitive gender", "there is no column 'gender'. The table has 'Income"),
    ("good.csv L S --drop membr", "--drop: there is no column 'membr'. Did you mean 'member'?"),
    ("good.csv L --sensitive granted", "is the label"),
    ("good.csv L --sensitive région,member --drop member", "drop all of the protected columns or none"),
    ("good.csv L S --model lojistic", "There is no model 'lojistic'. Did you mean 'logistic'?"),
    ("good.csv L S --model no.such:thing", "cannot be loaded: ModuleNotFoundError"),
    ("good.csv L S --model sklearn.cluster:KMeans", "is not a classifier"),
    ("good.csv L S --model forest --set hidden=4", "hidden, batch-size and epochs are for --model mlp"),
    ("good.csv L S --model knn --set rank=gradient", "needs a butfor.MLP"),
    ("good.csv L S --model knn --engine fused", "does not train KNeighborsClassifier"),
    ("good.csv L S --adverse Flase", "--adverse: there is no label 'Flase'. Did you mean 'False'?"),
    ("good.csv L S --set towards=maybe", "--set towards: there is no label 'maybe'. The labels are 'False', "),
    ("good.csv L S --bands 25", "of 'région', 0 hold numbers"),
    ("good.csv L S --bands 25 --bands age=3", "name each column"),
    ("good.csv L --sensitive Income_(k€),_net --bands 60,25", "from small to large"),
    ("good.csv L S --budget 0", "must be above 0"),
    ("good.csv L S --budget 121", "more than the 120 training labels"),
    ("good.csv L S --set rank=gradent", "There is no ranking 'gradent'. Did you mean 'gradient'?"),
    ("good.csv L S --set strategy=best", "no strategy 'best'"),
    ("good.csv L S --phi nobody", "no rule 'nobody'"),
    ("good.csv L S --phi in_group(région,nort)", "'région' has no value 'nort'. Did you mean 'north'?"),
    ("good.csv L S --set epochs=0", "epochs=0"),
    ("good.csv L S --random-state -1", "--random-state -1 must be"),
    ("good.csv L S --engine turbo", "no engine 'turbo'"),
    ("good.csv L S --set strategy=exhaustive --budget 5", "exhaustive"),
    ("good.csv L S --frobnicate", "No such option"),
    ("good.csv L S --model logistic --threshold high", "--threshold 'high' is not a threshold"),
    ("good.csv L S --model logistic --threshold 20", "'top 20%'"),
    ("good.csv L S --model logistic --threshold 1.5", "Error: --threshold "),
    ("good.csv L S --model ridge --threshold 0.8", "--threshold 'top 20%'"),
    ("grades.csv L S --model logistic --threshold 0.8", "with 4 labels"),
    ("german --label credit", "leave out --label"),
    ("german --set split-seed=-4", "-4 is not in the range"),
    ("salary --engine cuda:99", "--engine cuda:99|device='cuda:99' is not available"),
    ("good.csv L S --epochs 3", "'--epochs' is a setting: --set epochs=VALUE."),
    ("good.csv L S --set epoch=3", "Did you mean 'epochs'?"),
    ("good.csv L S --set epochs", "give a setting and its value, such as --set epochs=20"),
    ("good.csv L S --set epochs=few", "'few' is not a valid integer"),
    ("good.csv L S --budgt 3", "--budget"),
    ("--config no.toml", "--config 'no.toml' cannot be read"),
    ("", "Missing argument 'TABLE'"),
]
STANDARD = [
    ("--reference no", "--reference: 'no' is a group of 'black', 'married'; say of which: --reference black=no."),
    ("--reference black=no,black=yes", "--reference black=no,black=yes: give one group per attribute."),
    ("--reference black=maybe", "--reference: 'black' has no group 'maybe'."),
    ("--cluster black", "Error: --cluster: the people "),
    ("--weight nothing", "--weight: there is no column 'nothing'."),
    ("--weight applied", "Column 'applied', row 0 (and 599 more rows) holds '"),
    ("--weight less", "--weight must be finite numbers, at least 0"),
    ("--label score", "comparing them: score >= "),
    ("--adverse maybe", "--adverse: there is no label 'maybe'."),
    ("--model sklearn.svm:LinearSVC", "fit and predict_proba"),
    ("--draws -2", "--draws -2 must be"),
    ("--random-state -1", "--random-state -1 must be"),
]


def refused(ending: tuple[int, str, str], said: str) -> None:
    code, out, err = ending
    assert (code, out) == (2, "")
    assert any(one in err for one in said.split("|"))
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(("arguments", "said"), AUDIT)
def test_an_audit_that_cannot_be_meant_gets_one_sentence(capsys, folder, monkeypatch, arguments, said):
    monkeypatch.chdir(folder)
    words = {"L": ["--label", "granted"], "S": ["--sensitive", "région"]}
    given = [w.replace("_", " ") if "(k" in w else w for word in arguments.split() for w in words.get(word, [word])]
    refused(run(capsys, "audit", *given, "--quiet"), said)


@pytest.mark.parametrize(("arguments", "said"), STANDARD)
def test_a_comparison_that_cannot_be_meant_gets_one_sentence(capsys, loans, arguments, said):
    question = ("--label", "score>=65", "--sensitive", "black,married", "--adverse", "score<65", "--draws", 0)
    refused(run(capsys, "standard", loans, *question, *arguments.split(), "--quiet"), said)


def test_a_person_who_is_not_there_is_refused_before_anything_is_announced(capsys):
    refused(run(capsys, "audit", "salary", "--cases", 99999), "There is no person 99999: the people of the table are")


def test_a_category_unseen_in_training_is_named(capsys, folder):
    # one row has a value of its own: under one split it is a training row, under the other a test row
    given = (
        "--label",
        "granted",
        "--sensitive",
        "protected group?",
        "--model",
        "logistic",
        "--cases",
        "0:3",
        "--quiet",
    )
    refusing = ("audit", folder / "rare.csv", *given, "--set", "unknown=refuse")
    assert run(capsys, *refusing, "--set", "split-seed=0")[0] == 0
    refused(run(capsys, *refusing, "--set", "split-seed=6"), "Column 'région', row 0 holds 'atlantis'")


@pytest.mark.parametrize("content", ["{}", "[1]", "nonsense", '{"schema_version": 99, "status": "found", "flips": []}'])
def test_files_that_are_no_record_are_refused(capsys, tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    for command in (["replay"], ["gate", "--max-solid", "5%"], ["review", "--out", tmp_path / "o"]):
        code, _, err = run(capsys, command[0], tmp_path / "x.json", *command[1:])
        assert (code, len(err.strip().splitlines())) == (2, 1)
