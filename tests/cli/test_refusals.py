"""Bad input gets one sentence and exit code 2, before anything is trained; it names the option, or
their file."""

import json
import os

import numpy as np
import pandas as pd
import pytest

from applicants import COLUMNS, applicants, holed
from butfor.cli.options import SETTINGS
from butfor.result.population import Population
from butfor.result.record import with_checksum
from conftest import odd_table
from hostile.harness import audit, saved
from recorded import RUN, run

T = applicants()
TEXT = T.to_csv(index=False).splitlines()
FILES = {  # by name: text, bytes or a table
    "good": odd_table(200),
    "t": T,
    "holed": holed(),
    "few": T.head(19),
    "shifted": [TEXT[0], *(f"9,{line}" for line in TEXT[1:])],
    "short-line": [*TEXT[:9], "A8,55.0", *TEXT[9:]],
    "unclosed": [*TEXT[:5], TEXT[5].replace("A4", '"A4'), *TEXT[6:]],
    "closed-late": [*TEXT[:5], TEXT[5].replace("A4", '"A4'), TEXT[6], TEXT[7].replace("A6", 'A6"'), *TEXT[8:]],
    "no-header": [f"{k % 7}.5, Not in universe, f, Not in universe, yes" for k in range(90)],
    "separators": [",,,,", *TEXT],
    "title": ["Loans of 2024,,,,", *TEXT],
    "pipes": [line.replace(",", "|") for line in TEXT],
    "half-utf-16": b"\xff\xfe\x00\xd8\x00",
    "binary": b"a,b\n\0,1\n",
    "shift-jis": b"a,b\n\x81@,1\n",
    "numbers": T.assign(granted=T.index),
    "twins": T.assign(ref=T["ref"].where(T.index != 5, "A4")),
    "no-id": T.assign(ref=T["ref"].where(T.index != 5)),
    "many-groups": T.assign(sex=T["ref"].str[-2:]),
    "family": T.assign(home=T.index % 12, weight=1.0),
    "joined": T.assign(sex=np.where(T.index % 3, "a", "a · b"), job=np.where(T.index % 2, "b · c", "c")),
    "other/no-job": T.drop(columns="job"),
    "other/shoe": T.assign(shoe=1),
    "other/text": T.assign(income="lots"),
    "other/label": T.assign(granted="perhaps"),
    "other/unlabelled": T.assign(granted=None),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tables")
    (made / "other").mkdir()
    for name, content in FILES.items():
        if isinstance(content, pd.DataFrame):
            content = content.to_csv(index=False).encode()
        elif isinstance(content, list):
            content = "\n".join(content).encode()
        (made / f"{name}.csv").write_bytes(content)
    os.mkfifo(made / "fifo")
    (made / "loop").symlink_to("loop")
    record = with_checksum(Population([], RUN).to_dict())
    (made / "record.json").write_text(json.dumps(record))
    return made


AUDIT = [
    ("nosuch.csv L S", "There is no file 'nosuch.csv'. Give a CSV, Parquet, Feather or Excel file"),
    ("germn", "There is no file 'germn'. Did you mean 'german'?"),
    (". L S", "is a directory"),
    ("good.csv", "--label and --sensitive"),
    (
        "good.csv --label grantd --sensitive région",
        "--label: there is no column 'grantd'. Did you mean 'granted'?",
    ),
    (
        "good.csv --label granted --sensitive gender",
        "there is no column 'gender'. The table has 'Income",
    ),
    ("good.csv L --sensitive granted", "is the label"),
    ("good.csv L S --model lojistic", "There is no model 'lojistic'. Did you mean 'logistic'?"),
    ("good.csv L S --model no.such:thing", "cannot be loaded: ModuleNotFoundError"),
    (
        "good.csv L S --model forest --set hidden=4",
        "hidden, batch-size and epochs are for --model mlp",
    ),
    ("good.csv L S --model knn --set rank=gradient", "needs a butfor.MLP"),
    ("good.csv L S --model knn --engine fused", "does not train KNeighborsClassifier"),
    ("good.csv L S --adverse Flase", "--adverse: there is no label 'Flase'. Did you mean 'False'?"),
    (
        "good.csv L S --adverse 1",
        "--adverse: there is no label '1'. The labels are 'False', 'True'.",
    ),
    (
        "good.csv L S --set towards=maybe",
        "--set towards: there is no label 'maybe'. The labels are 'False', ",
    ),
    ("good.csv L S --bands 25 --bands age=3", "name each column"),
    ("good.csv L S --budget 121", "more than the 120 training labels"),
    (
        "good.csv L S --phi in_group(région,nort)",
        "'région' has no value 'nort'. Did you mean 'north'?",
    ),
    ("good.csv L S --engine turbo", "no engine 'turbo'"),
    ("good.csv L S --frobnicate", "No such option"),
    ("good.csv L S --model logistic --threshold 1.5", "Error: --threshold "),
    ("german --label credit", "leave out --label"),
    ("salary --cases 99999", "There is no person 99999: the people of the table are"),
    ("salary --engine cuda:99", "cuda:99"),
    ("good.csv L S --epochs 3", "'--epochs' is a setting: --set epochs=VALUE."),
    ("good.csv L S --set epoch=3", "Did you mean 'epochs'?"),
    ("good.csv L S --set fresh-seeds=3", "this is an option: --fresh-seeds 3."),
    ("good.csv L S --set epochs", "give a setting and its value, such as --set epochs=20"),
    ("good.csv L S --set epochs=few", "'few' is not a valid integer"),
    ("good.csv L S --budgt 3", "--budget"),
    ("--config no.toml", "--config 'no.toml' cannot be read"),
    ("german --names no.toml", "'no.toml' cannot be read"),
    ("", "Missing argument 'TABLE'"),
    (
        "good.csv L S --public",
        "--public was removed in 0.6. groups.csv, which --out FOLDER writes, has",
    ),
]
STANDARD = [
    (
        "--reference no",
        "--reference: 'no' is a group of 'black', 'married'; say of which: --reference black=no.",
    ),
    (
        "--reference black=no,black=yes",
        "--reference black=no,black=yes: give one group per attribute.",
    ),
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


# Lines of a file for --config; what they say stands beside an audit that could be made.
FILE = [
    ("buget = 2", "'a.toml': there is no option 'buget'. Did you mean 'budget'?"),
    (
        "public = true",
        "'a.toml': public was removed in 0.6. groups.csv, which --out FOLDER writes, has",
    ),
    ("max_retraining = 2", "Did you mean 'max-retrainings'?"),
    ("config = 'other.toml'", "there is no option 'config'"),
    ("random-state = 'one'", "'--random-state': 'one' is not a valid integer"),
    ("random-state = true", "'True' is not a valid integer"),
    ("missing = 'perhaps'", "'--missing': 'perhaps' is not one of"),
    ("overwrite = 'perhaps'", "'--overwrite': 'perhaps' is not a valid boolean"),
    ("label = { column = 'x' }", "is a section"),
    ("label = 'granted', ", "'a.toml' is not a TOML file ("),
    (
        f"x = {'[' * 2000}{']' * 2000}",
        "'a.toml' is not a TOML file (its values are nested too deeply).",
    ),
    (f"x = {'{a=' * 2000}1{'}' * 2000}", "(its values are nested too deeply)."),
    (f"epochs = {'9' * 5000}", "(a number has too many digits)."),
    (f"{'.'.join('a' * 20_000)} = 1", "(a key has more than 50 parts)."),
    (f"[{'.'.join('a' * 20_000)}]", "(a key has more than 50 parts)."),
    ('drop = "a\\u0000b"', "(it holds the character NUL)."),
    (f"#{'x' * 1_100_000}", "--config 'a.toml' cannot be read (it is larger than 1 MB)."),
    (f"{'x' * 5000} = 1", f"there is no option '{'x' * 79}…'."),
]
# Places of files that are written or read.
PLACES = [
    ("audit t.csv P --config fifo", "--config 'fifo' cannot be read (it is not a file)."),
    ("audit t.csv P --config /dev/zero", "--config '/dev/zero' cannot be read (it is not a file)."),
    ("audit t.csv P --config loop", "--config 'loop' cannot be read ("),
    (
        "audit t.csv P --names fifo --model logistic",
        "The names 'fifo' cannot be read (it is not a file).",
    ),
    (
        "audit t.csv P --out loop",
        "'loop' is a loop of links, which leads nowhere: name another place.",
    ),
    ("audit t.csv P --out loop/x", "'loop/x' is a loop of links"),
    ("standard t.csv P --out loop", "'loop' is a loop of links"),
    ("check-table t.csv P --write-names loop", "'loop' is a loop of links"),
    ("review loop --out tasks", "'loop' cannot be read"),
    ("review record.json --out loop", "'loop' is a loop of links"),
    ("review record.json --answers loop", "'loop' is a loop of links"),
    ("review record.json --answers t.csv --key loop", "'loop' is a loop of links"),
    (
        "review record.json --answers t.csv --labels 0",
        "--labels says what to review and goes with --out alone",
    ),
    ("review record.json --answers t.csv --anyway", "--anyway is about the files of --out FOLDER"),
    (
        "review record.json --answers t.csv --overwrite",
        "--overwrite is about the files of --out FOLDER",
    ),
]
# What is wrong with a table, and with a file of names.
CHECK = [
    ("shifted.csv P", "Line 2 of 'shifted.csv' has 6 values, but the header names 5"),
    ("short-line.csv P", "Line 10 of 'short-line.csv' has 2 values, but the header names 5"),
    ("unclosed.csv P", "the quotation mark in line 6 is never closed"),
    (
        "closed-late.csv P",
        "A quotation mark in line 6 of 'closed-late.csv' is closed only in line 8",
    ),
    ("no-header.csv P", "If the first line is data, write a line of names above it."),
    ("separators.csv P", "'separators.csv' is not a table: its first line names no column."),
    ("title.csv P", "its first line names only 'Loans of 2024'."),
    ("pipes.csv P", "first line names only 'ref|granted'. Begin with"),
    ("half-utf-16.csv P", "cannot be read as a table (it is not text in UTF-8, UTF-16 or"),
    ("shift-jis.csv P", "Windows-1252: save it as UTF-8)"),
    ("binary.csv P", "cannot be read as a table (it is not a text file)"),
    ("few.csv P", "The table has 19 rows; at least 20 are needed"),
    (
        "holed.csv P --missing refuse",
        "Column 'income', row |Column 'job', row |Column 'sex', row |--missing drop",
    ),
    ("numbers.csv P", "granted >= "),
    ("twins.csv P --id ref", "'A4' occurs 2 times"),
    ("no-id.csv P --id ref", "Column 'ref', row 5 is missing a value"),
    ("t.csv P --drop ref,income,job,sex", "leaves no column to learn from"),
    ("family.csv P --cluster home", "The table has 12 clusters; at least 20"),
    ("many-groups.csv P", "different values, too many for a protected attribute"),
    ("joined.csv P --sensitive sex,job", "two groups would have the same name"),
    ("t.csv P --test other/no-job.csv", "other/no-job.csv' lacks column 'job'"),
    ("t.csv P --test other/shoe.csv", "other/shoe.csv' has besides column 'shoe'"),
    (
        "t.csv P --test other/text.csv",
        "differs from the training file: Column 'income', row 0 (and 119 more rows)",
    ),
    ("t.csv P --test other/label.csv", "No training row has the label 'granted = perhaps'"),
    ("t.csv P --test other/unlabelled.csv", "no rows that can be used"),
    ("german --id age --test t.csv", "leave out --test and --id"),
    ("german --drop sex,age --sensitive sex,job", "drop all of the protected columns or none"),
]
NAMES = [
    ("[poeple]", "Did you mean 'people'"),
    ("[people]\nnuon = 'x'", "nuon|Did you mean 'noun'"),
    ("[labels]\n1 = 2", "[labels] 1 = 2|in quotes"),
    ("[columns]\nage = ' '", "[columns] age = ' '|in quotes"),
    ("[groups.sex]\nmale = ''", "[groups.sex] male = ''|in quotes"),
    ("[groups]\nsex = 'x'", "[groups.sex] must hold names"),
    ("groups = 1", "[groups.race]"),
    ("labels = [1]", "[labels]"),
    ("[groups.sxe]\nmale = 'M'", "sxe|Did you mean 'sex'"),
    ("[groups.sex]\nmael = 'M'", "mael|group of sex|Did you mean 'male'"),
    ("[labels]\n'bad credt' = 'x'", "label|Did you mean 'bad credit'"),
    ("[columns]\nAge = 'x'", "column|Did you mean 'age'"),
    ("[", "not a TOML file"),
    (f"[people]\nnoun = {'[' * 2000}{']' * 2000}", "(its values are nested too deeply)."),
    (f"[people]\nnoun = {'9' * 5000}", "(a number has too many digits)."),
    (f"people{'.a' * 20_000} = 'x'", "(a key has more than 50 parts)."),
    ('[people]\nnoun = "a\\u0000b"', "(it holds the character NUL)."),
]
TABLES = {
    "audit": AUDIT,
    "standard": STANDARD,
    "check-table": CHECK,
    "--config": FILE,
    "--names": NAMES,
    "places": PLACES,
}


@pytest.mark.parametrize(
    ("command", "given", "said"),
    [(command, *row) for command, rows in TABLES.items() for row in rows],
)
def test_what_cannot_be_meant_gets_one_sentence(
    capsys, folder, loans, monkeypatch, command, given, said
):
    monkeypatch.chdir(folder)
    words = {"L": ["--label", "granted"], "S": ["--sensitive", "région"], "P": list(COLUMNS)}
    arguments = [command, *(word for each in given.split() for word in words.get(each, [each]))]
    if command == "standard":
        question = (
            "--label",
            "score>=65",
            "--sensitive",
            "black,married",
            "--adverse",
            "score<65",
            "--draws",
            0,
        )
        arguments = ["standard", loans, *question, *given.split()]
    elif command == "--config":
        (folder / "a.toml").write_text(f"table = 'good.csv'\n{given}\n")
        arguments = ["audit", "--config", "a.toml"]
    elif command == "--names":
        (folder / "a.toml").write_text(given)
        arguments = ["audit", "german", "--model", "logistic", "--names", "a.toml"]
    elif command == "places":
        command, arguments = arguments[1], arguments[1:]
    code, out, err = run(
        capsys,
        *arguments,
        *(["--quiet"] if command in ("audit", "standard", "--config", "--names") else []),
    )
    assert (code, out, len(err.strip().splitlines())) == (2, "", 1)
    assert [part for part in said.split("|") if part not in err] == []


HUGE = 99999999999999999999
IMPOSSIBLE = {
    "budget": ["-1", "1e30", "1.5", "three", "inf", HUGE, "nan%", "", "%", "1,5", "0%", "100%"],
    "hidden": [HUGE, "0", "32,-32", ",".join(["8"] * 500), "1000000000", "32,,32", "a", ""],
    "batch-size": [2**63, HUGE, "0", ""],
    "epochs": [-1, 0, HUGE, "1.5", ""],
    "split-seed": [-4, 2**32, "x"],
    "random-state": [-1, HUGE, "1.5"],
    "n-jobs": [5000, 0, HUGE, "all"],
    "members": [0, HUGE, 100_000, "few"],
    "fresh-seeds": [-1, HUGE, 10_000_000],
    "max-seconds": ["0", "-5s", "nan", "inf", "", "soon", "10d"],
    "max-retrainings": [0, "1.5"],
    "max-categories": [1, -1, "1.5"],
    "cases": [-1, 12, HUGE, "x", f"{HUGE}:", "1:2:3", "1,", "", "-1:3", "3:1", "1:1"],
    "bands": ["a", "25,", "age=", "age"],
    "engine": ["", "fused ", "../fused", "cpu:x", "cuda:-1", "meta", "local:x", "tcp://"],
    "threshold": ["0", "1", "-0.2", "nan", "", "top", "top 0%", "top 120%"],
    "rank": ["", "averaged(", "os.system"],
    "strategy": ["", "exhaustive()"],
    "encoding": ["none", ""],
    "model": ["", "os", "os:", ":name", "os:system", "os:path", "butfor:MLP:x", "../evil:x", "builtins:exec"],
    "adverse": ["maybe", ""],
    "label": ["nothing", "", "x,sex", "sex "],
    "sensitive": ["nothing", "sex,nothing", "sex,granted"],
    "drop": ["nothing", "x,sex,debts"],
    "id": ["nothing", "", "sex", "debts"],
    "test": ["/nowhere/at.csv", "/", "/dev/zero", "/dev/null"],
    "validation": ["/nowhere/at.csv", "/dev/zero"],
    "names": ["/nowhere/at.toml", "/", "/dev/null/x"],
    "phi": ["~" * 500 + "everyone",
        "(" * 500 + "everyone" + ")" * 500, " & ".join(["everyone"] * 3000), "__import__('os')", "everyone.__class__",
        "everyone()()", "lambda: 0", "1", "''", " ", "everyone and everyone", "in_group(", "in_group(sex)",
        "in_group(*sex)", "stable_under_switch(nothing)", "everyone; everyone", "everyone\neveryone", "everyone[0]",
        "φ", "\x1b[31m", "predicted(f'{1}')", "predicted(1+1)", "everyone := 1", "(" * 5000,
    ],
    "psi": ["~" * 500 + "everyone", "everyone if 1 else everyone", "", "& everyone", "in_group(sex, x)"],
    "ledger": ["/dev/null/x", "/proc/none/x", "/", "/nowhere/at.db"],
}  # fmt: skip


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_value_is_refused(tmp_path, name):
    table = saved(tmp_path)
    for value in IMPOSSIBLE[name]:
        setting = name.replace("-", "_") in SETTINGS
        given = ("--set", f"{name}={value}") if setting else (f"--{name}", value)
        assert audit(table, *given, model="mlp").code == 2, value
