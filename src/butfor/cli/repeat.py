"""What runs an audit again, as a command and as a settings file, with what the defaults were spelled out."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from butfor import LabelAudit

AS_GIVEN = ("label", "positive", "sensitive", "drop", "keep", "names", "test", "validation", "rank")
WHERE_GIVEN = ("max_categories", "margin", "tries", "max_retrainings", "time", "steady", "strict")


def settings_again(
    table: str,
    single: tuple[int, ...],
    cases: str | None,
    people: list[int],
    labels: LabelAudit,
    options: dict[str, Any],
) -> dict[str, Any]:
    """The options, by their names on the command line, of an audit that is the same."""
    said: dict[str, Any] = {"table": table}
    said |= {name: options[name] for name in AS_GIVEN if options[name]}
    if options["identifier"]:
        said["id"] = options["identifier"]
    cuts = labels.sensitive_.cuts
    if cuts:
        said["bands"] = [f"{name}={','.join(f'{cut:.17g}' for cut in one)}" for name, one in cuts.items()]
    said |= {"missing": options["missing"], "unknown": options["unknown"]}
    if single:
        said["case"] = list(single)
    if cases is not None or not single:
        said["cases"] = cases or f"0:{len(people)}"
    said["model"] = options["model"]
    if options["model"] == "mlp":
        model, encoder = labels.model, labels.encoder
        said |= {
            "hidden": ",".join(map(str, model.hidden)) or "none", "batch-size": str(model.batch_size or "full"),
            "epochs": model.max_epochs, "encoding": encoder.categorical,
        }  # fmt: skip
    elif options["encoding"]:
        said["encoding"] = options["encoding"]
    said |= {
        "budget": str(labels.budget_), "protocol": labels.protocol_.name, "phi": labels.phi_.text,
        "psi": labels.psi_.text, "share": labels.share_, "seed": options["seed"],
        "split-seed": labels.origin_["split_seed"], "members": labels.members_, "fresh-seeds": labels.fresh_seeds,
        "alternatives": labels.alternatives,
    }  # fmt: skip
    if labels.null:
        said["null"] = labels.null
    given = [name for name in WHERE_GIVEN if options[name] is not None and options[name] is not False]
    return said | {name.replace("_", "-"): options[name] for name in given}


def command_again(settings: dict[str, Any]) -> str:
    """The same as a command."""
    words = ["butfor", "audit", settings["table"]]
    for name, value in settings.items():
        if name == "table":
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
            continue
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{name}", str(one)]
    return shlex.join(words)
