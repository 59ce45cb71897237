"""Options that cannot be: each is refused before anything is trained, in one sentence that names it. Texts that cannot
be read at all are in tests/cli/test_parse.py."""

import pytest

from hostile.harness import audit, saved

HUGE = 99999999999999999999
IMPOSSIBLE = {
    "--budget": ["-1", "1e30", "1.5", "three", HUGE],
    "--hidden": [HUGE, "0", "32,-32", f"32,{HUGE}", ",".join(["8"] * 500), "1000000000", 2**63],
    "--batch-size": [2**63, HUGE, "0", "-1", ""],
    "--epochs": [-1, HUGE, "1.5", ""],
    "--split-seed": [2**32, HUGE, "x"],
    "--random-state": [-1, 2**63, HUGE, "1.5"],
    "--n-jobs": [5000, 0, HUGE, "all"],
    "--members": [0, HUGE, 100_000, "few"],
    "--fresh-seeds": [-1, HUGE, 10_000_000],
    "--max-retrainings": [0, "1.5"],
    "--max-categories": [1, -1, "1.5"],
    "--cases": [-1, 12, HUGE, "x"],
    "--engine": ["warp", "", "fused ", "../fused", "cpu:x", "cuda:99", "cuda:-1", "meta", "local:x", "tcp://"],
    "--rank": ["none", "", "averaged(", "os.system"],
    "--strategy": ["none", "", "exhaustive()"],
    "--encoding": ["none", ""],
    "--missing": ["none", ""],
    "--unknown": ["none"],
    "--model": ["none", "", "os", "os:", ":name",
                "os:system", "os:path", "nowhere.at:all", "os:nothing", "butfor:MLP:x", "../evil:x", "builtins:exec"],
    "--adverse": ["maybe", ""],
    "--label": ["nothing", "", "x,sex", "sex "],
    "--sensitive": ["nothing", "", "granted", ",", "sex,nothing", "sex,granted"],
    "--drop": ["nothing", "x,sex,debts"],
    "--keep": ["nothing", "x,sex,debts"],
    "--id": ["nothing", "", "sex", "debts"],
    "--test": ["/nowhere/at.csv", "/", "/dev/zero", "/dev/null"],
    "--validation": ["/nowhere/at.csv", "/dev/zero"],
    "--out": ["/dev/null/x", "/proc/none/x", "/dev/null", "a\0b"],
    "--ledger": ["/dev/null/x", "/proc/none/x", "/", "/nowhere/at.db"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option, values in IMPOSSIBLE.items() for value in values]
)
def test_an_impossible_value_is_refused(tmp_path, option, value):
    assert audit(saved(tmp_path), option, value).code == 2
