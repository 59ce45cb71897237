"""What runs an audit again, with what the defaults were spelled out."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from butfor import LabelAudit


def command_again(
    table: str,
    single: tuple[int, ...],
    cases: str | None,
    people: list[int],
    labels: LabelAudit,
    options: dict[str, Any],
) -> str:
    """The command that runs this audit again, with what the defaults were spelled out."""
    words = ["butfor", "audit", table]
    for name in ("label", "positive", "sensitive", "drop", "keep", "test", "validation", "rank"):
        if options[name]:
            words += [f"--{name}", options[name]]
    if options["identifier"]:
        words += ["--id", options["identifier"]]
    words += ["--missing", options["missing"], "--unknown", options["unknown"]]
    if options["max_categories"] is not None:
        words += ["--max-categories", str(options["max_categories"])]
    for case in single:
        words += ["--case", str(case)]
    if cases is not None or not single:
        words += ["--cases", cases or f"0:{len(people)}"]
    words += ["--model", options["model"]]
    if options["model"] == "mlp":
        model, encoder = labels.model, labels.encoder
        words += [
            "--hidden", ",".join(map(str, model.hidden)) or "none", "--batch-size", str(model.batch_size or "full"),
            "--epochs", str(model.max_epochs), "--encoding", encoder.categorical,
        ]  # fmt: skip
    elif options["encoding"]:
        words += ["--encoding", options["encoding"]]
    words += [
        "--budget", str(labels.budget_), "--protocol", labels.protocol_.name,
        "--phi", labels.phi_.text, "--psi", labels.psi_.text, "--share" if labels.share_ else "--no-share",
        "--seed", str(options["seed"]), "--split-seed", str(labels.origin_["split_seed"]),
        "--members", str(labels.members_), "--fresh-seeds", str(labels.fresh_seeds),
        "--alternatives", str(labels.alternatives),
    ]  # fmt: skip
    if labels.null:
        words += ["--null", str(labels.null)]
    if labels.steady is not None:
        words += ["--steady", str(labels.steady)]
    if options["margin"] is not None:
        words += ["--margin", str(options["margin"])]
    if options["tries"]:
        words += ["--tries", str(options["tries"])]
    if labels.max_retrainings:
        words += ["--max-retrainings", str(labels.max_retrainings)]
    return shlex.join(words)
