"""Options that cannot be: each is refused before anything is trained, in one sentence that names it."""

import pytest

from hostile.harness import audit, saved

HUGE = 99999999999999999999
IMPOSSIBLE = {
    "--budget": ["inf", "-inf", "nan", "-1", "0", "1e400", "1e30", "0%", "100%", "150%", "-5%", "nan%", "inf%", "1.5",
                 "three", "", " ", "%", "1,5", "0x10", HUGE],
    "--hidden": [HUGE, "0", "-1", "32,-32", "32,,32", "a", "1.5", "1e3", f"32,{HUGE}", ",".join(["8"] * 500),
                 "1000000000", 2**31, 2**63],
    "--batch-size": [2**63, HUGE, "0", "-1", "half", "1.5", "nan", ""],
    "--epochs": [0, -1, HUGE, 2**63, "1.5", "many", ""],
    "--split-seed": [-1, 2**32, 2**63, HUGE, "1.5", "x"],
    "--random-state": [-1, 2**63, HUGE, "1.5", "x"],
    "--n-jobs": [5000, 0, -1, HUGE, "1.5", "all"],
    "--members": [0, -1, HUGE, 100_000, "1.5", "few"],
    "--fresh-seeds": [-1, HUGE, 10_000_000, "1.5"],
    "--shuffles": [-1, HUGE, 10_000_000, "1.5"],
    "--max-retrainings": [0, -1, "1.5"],
    "--tries": [0, -1, "1.5"],
    "--margin": ["nan", "inf", "-1", "x"],
    "--max-categories": [0, 1, -1, "1.5"],
    "--cases": [-1, 12, HUGE, "1.5", "x", "-1:3", "3:1", "1:1", "500:", "a:b", "1:2:3", "1,", "", ":0", f"{HUGE}:"],
    "--engine": ["warp", "", "fused ", "../fused", "cpu:x", "cuda:99", "cuda:-1", "meta", "local:x", "tcp://"],
    "--rank": ["none", "", "averaged(", "os.system"],
    "--strategy": ["none", "", "exhaustive()"],
    "--encoding": ["none", "", "hash"],
    "--missing": ["none", ""],
    "--unknown": ["none", ""],
    "--model": ["none", "", "os", "os:", ":name",
                "os:system", "os:path", "nowhere.at:all", "os:nothing", "butfor:MLP:x", "../evil:x", "builtins:exec"],
    "--adverse": ["maybe", ""],
    "--positive": ["maybe", ""],
    "--label": ["nothing", "", "x,sex", "sex "],
    "--sensitive": ["nothing", "", "granted", ",", "sex,nothing", "sex,granted"],
    "--drop": ["nothing", "x,sex,debts"],
    "--keep": ["nothing", "x,sex,debts"],
    "--id": ["nothing", "", "sex", "debts"],
    "--test": ["/nowhere/at.csv", "/", "/dev/zero", "/dev/null"],
    "--validation": ["/nowhere/at.csv", "/", "/dev/zero", "/dev/null"],
    "--out": ["/dev/null/x", "/proc/none/x", "/dev/null", "a\0b"],
    "--ledger": ["/dev/null/x", "/proc/none/x", "/", "/nowhere/at.db"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option, values in IMPOSSIBLE.items() for value in values]
)
def test_an_impossible_value_is_refused(tmp_path, option, value):
    assert audit(saved(tmp_path), option, value).code == 2
