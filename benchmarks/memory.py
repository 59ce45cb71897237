"""How much memory does an audit take? Measured in a process of its own, so that nothing measured
before counts."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.work import explain, fit, network
from butfor.audit import LabelAudit
from butfor.explain import eligible_cases
from butfor.support.stopping import max_retrainings
from butfor.table.embedded import load_dataset
from butfor.table.encoding import TableEncoder


def in_own_process(module: str, *words: str) -> dict[str, Any]:
    """The JSON object that `python -m module words` prints last. Being interrupted there is being
    interrupted here; what else goes wrong is told under "failed"."""
    # "-W ignore": what a library warns about must not end up between the numbers.
    command = [sys.executable, "-W", "ignore", "-m", module, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode in (130, -2, -15):
        raise KeyboardInterrupt
    if done.returncode:
        return {
            "failed": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        }
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def peak_memory(dataset: str, people: int, retrainings: int) -> dict[str, Any]:
    return in_own_process("benchmarks.memory", dataset, str(people), str(retrainings))


def audit_for_memory(name: str, people: int, retrainings: int) -> dict[str, Any]:
    """Audit people by the fused engine, Algorithm 1 and the published ranking, and look at the
    high-water mark."""
    data = load_dataset(name)
    setup = data.setup
    audit = LabelAudit(
        network(setup),
        encoder=TableEncoder("embed", setup.numeric),
        budget=setup.budget,
        rank="combined",
        strategy="algorithm1",
        engine="fused",
        members=1,
        fresh_seeds=0,
    )
    fit(audit, data)
    cases = eligible_cases(audit.fitted_, data.X_test, people)
    started = time.perf_counter()
    population = explain(audit, data.X_test, cases=cases, stop=max_retrainings(retrainings))
    return {
        "dataset": name,
        "people": len(cases),
        "retrainings": population.run.retrainings,
        "seconds": time.perf_counter() - started,
        "peak_mib": high_water_mark() / 2**20,
    }


def high_water_mark() -> int:
    """Bytes this process held at most, without those of any helper process it started."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage would also count what the parent held when it started this process.
        marks = [
            text.split()[1] for text in status.read_text().splitlines() if text.startswith("VmHWM")
        ]
        if marks:
            return int(marks[0]) * 1024
    return _largest(resource.RUSAGE_SELF)


def end_workers() -> tuple[float, int]:
    """End this process's workers: the seconds of processor time they took, and the bytes that the
    largest held."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, _largest(resource.RUSAGE_CHILDREN)


def _largest(who: int) -> int:
    used = resource.getrusage(who).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


if __name__ == "__main__":
    print(json.dumps(audit_for_memory(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
