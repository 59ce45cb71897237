"""What `benchmarks.engines` measured, as a table to read."""

from __future__ import annotations

from typing import Any

from benchmarks.rows import Columns, line
from benchmarks.work import batch_in_words


def table(record: dict[str, Any]) -> str:
    said, shape = record["settings"], record["settings"]["shape"]
    lines = [
        f"{said['machine']}; {said['cores']} cores, load {said['load_before']}; "
        + ", ".join(f"{name} {number}" for name, number in said["versions"].items() if number),
        f"Loop, one thread: {said['baseline']}.",
    ]
    if record["left_out"]:
        lines.append(f"Left out: {record['left_out']}")
    if record["speedup_minibatch"] is not None:
        lines += ["", *speed_lines(record, shape)]
    if "exhaustive" in record:
        lines += ["", *exhaustive_lines(record["exhaustive"])]
    if "scaling" in record:
        lines += ["", " ".join(SCALING), *(line(at, SCALING) for at in record["scaling"])]
    if "memory" in record:
        used = record["memory"]
        lines += [
            "",
            f"Memory: auditing {used['people']} people of {used['dataset']} by fused "
            f"({used['retrainings']} retrainings, {used['seconds']:.0f} s) took "
            f"{used['peak_mib']:.0f} MiB at most.",
        ]
    if "gpu" in record:
        lines += ["", *device_lines(record["gpu"])]
    return "\n".join(lines)


def speed_lines(record: dict[str, Any], shape: dict[str, Any]) -> list[str]:
    said = record["settings"]
    lines = [
        f"{shape['rows']} × {shape['inputs']} rows, {shape['validation']} validation rows, hidden "
        f"{'×'.join(map(str, shape['hidden']))}; fused: {said['K']} networks on "
        f"{said['fused_threads']} threads",
        f"{'milliseconds per network and epoch':36} {'loop':>9} {'direct':>9} {'fused':>9} "
        f"{'speedup':>9} {'min – max':>17} {'GFLOP/s per core':>17}",
    ]
    for name, words in (
        ("minibatch", f"batch {said['sizes']['batch_size']}"),
        ("full_batch", "full batch"),
    ):
        low, high = record[f"speedup_{name}_range"]
        lines.append(
            f"{words:36} {1e3 * record[f'loop_seconds_{name}']:>9.2f} "
            f"{1e3 * record[f'direct_seconds_{name}']:>9.2f} "
            f"{1e3 * record[f'fused_seconds_{name}']:>9.2f} {record[f'speedup_{name}']:>7.1f} × "
            f"{f'{low:.1f} – {high:.1f}':>17} {record[f'gflops_{name}']:>17.1f}"
        )
    lines.append(
        f"Direct, the same bits as the loop, is {record['speedup_direct_minibatch']:.1f} and "
        f"{record['speedup_direct_full_batch']:.1f} times as fast."
    )
    lines.append(
        f"Full batch reaches {100 * record['peak_share']:.0f} % of the core's peak, "
        f"{record['peak_gflops']:.1f} GFLOP/s (float32 product of two matrices of size "
        f"{said['sizes']['sgemm']}, one thread, same run)."
    )
    return lines


def exhaustive_lines(found: dict[str, Any]) -> list[str]:
    return [
        f"{found['dataset']}, every label alone: {found['retrainings']} retrainings answer "
        f"{found['people']} people in {found['seconds']:.2f} s; the loop takes "
        f"{found['loop_seconds']:.0f} s (extrapolated from {found['loop_sample']} trainings), "
        f"{found['speedup']:.1f} × as long.",
        f"For {found['changed']} people some single label turns the decision (before the "
        "reference confirms it).",
    ]


SCALING: Columns = {
    "against  ": "{axis}",
    "batch     ": lambda at: batch_in_words(at["batch_size"]),
    "       ": "{value}",
    "  rows": "{rows}",
    "   K": "{networks}",
    "   hidden": lambda at: "×".join(map(str, at["hidden"])),
    "  seconds": "{seconds:.3f}",
    "ms / network": "{ms_per_network:.2f}",
    "ps / flop": "{ps_per_flop:.2f}",
    "/ largest": "{against_largest:.2f}",
}


def device_lines(found: dict[str, Any]) -> list[str]:
    lines = [
        f"{found['device']}: {found['per_second']:.0f} retrainings of {found['dataset']} a second "
        f"({found['networks']} different sets of {found['labels_flipped']} labels, full batch, "
        f"early stopping after {found['mean_epochs']:.0f} epochs on average, {found['people']} "
        f"people answered) in {found['seconds']:.2f} s."
    ]
    if "exhaustive" in found:
        every = found["exhaustive"]
        lines.append(
            f"Every label alone: {every['retrainings']} retrainings answer {every['people']} "
            f"people in {every['seconds']:.1f} s, {every['per_second']:.0f} a second; for "
            f"{every['changed']} people some single label turns the decision (before the "
            "reference confirms it)."
        )
    return lines
