"""How much memory does an audit take? Measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from butfor.audit import LabelAudit
from butfor.data import load_dataset
from butfor.encode import TableEncoder
from butfor.mlp.mlp import MLP

AUDIT = """
import json, sys
from butfor.bench.memory import audit_for_memory
print(json.dumps(audit_for_memory(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
"""


def peak_memory(dataset: str, people: int, retrainings: int) -> dict[str, Any]:
    """The audit in a process of its own, so that nothing measured before counts."""
    given = [dataset, str(people), str(retrainings)]
    # "-W ignore": what a library warns about must not end up between the numbers.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AUDIT, *given], stdout=subprocess.PIPE, text=True, check=True
    )
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def audit_for_memory(name: str, people: int, retrainings: int) -> dict[str, Any]:
    """Audit people by the fused engine, Algorithm 1 and the published ranking, and look at the high-water mark."""
    data = load_dataset(name)
    setup = data.setup
    audit = LabelAudit(
        MLP(setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size),
        encoder=TableEncoder("embed", setup.numeric), budget=setup.budget, rank="combined", protocol="algorithm1",
        engine="fused", max_retrainings=retrainings, members=1, fresh_seeds=0,
    )  # fmt: skip
    audit.fit(
        data.X_train, data.y_train, sensitive_features=data.sensitive, validation=(data.X_val, data.y_val)
    )  # fmt: skip
    cases = audit.eligible_cases(data.X_test, people)
    started = time.perf_counter()
    population = audit.explain_all(data.X_test, cases=cases)
    return {
        "dataset": name, "people": len(cases), "retrainings": population.run["retrainings"],
        "seconds": time.perf_counter() - started, "peak_mib": high_water_mark() / 2**20,
    }  # fmt: skip


def high_water_mark() -> int:
    """Bytes this process held at most, without those of any helper process it started."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage would also count what the parent held when it started this process.
        marks = [text.split()[1] for text in status.read_text().splitlines() if text.startswith("VmHWM")]
        if marks:
            return int(marks[0]) * 1024
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
