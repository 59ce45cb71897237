"""Options and settings that cannot be: each is refused before anything is trained, in one sentence."""

import pytest

from butfor.cli.options import SETTINGS
from hostile.harness import audit, saved

HUGE = 99999999999999999999
IMPOSSIBLE = {
    "budget": ["-1", "1e30", "1.5", "three", "inf", HUGE, "nan%", "", "%", "1,5", "0%", "100%"],
    "hidden": [HUGE, "0", "32,-32", ",".join(["8"] * 500), "1000000000", "32,,32", "a", ""],
    "batch-size": [2**63, HUGE, "0", ""],
    "epochs": [-1, HUGE, "1.5", ""],
    "split-seed": [2**32, "x"],
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
    "keep": ["nothing", "x,sex,debts"],
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
