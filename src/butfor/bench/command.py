"""`butfor bench`: the measurements from the command line."""

from __future__ import annotations

import json
from typing import Any

import click


@click.group(invoke_without_command=True)
@click.pass_context
def bench(ctx: click.Context) -> None:
    """How fast, as ratios measured in one run; and who finds most. Without a command: engines."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(engines)


@bench.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
@click.option("--quick", is_flag=True, help="Fewer repetitions and no scaling.")
@click.option("--device", help="Also measure the stacked engine there, such as cuda.")
@click.option("--memory", is_flag=True, help="Also measure the peak memory of an Adult audit.")
@click.option("--exhaustive", is_flag=True, help="With --device: also flip every Adult label alone.")
def engines(as_json: bool = False, **options: Any) -> None:
    """The engines against the plain PyTorch loop, on Adult's shape and on German."""
    from butfor.bench.engines import main

    flags = [f"--{name}" for name, on in options.items() if on is True]
    device = ["--device", options["device"]] if options.get("device") else []
    main([*flags, *device, *(["--json"] if as_json else [])])


@bench.command()
@click.option("--datasets", help="Names, separated by commas.")
@click.option("--sets", type=int, help="Random flip sets per data set.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else.")
def agreement(datasets: str | None, sets: int | None, as_json: bool) -> None:
    """How far the engines' networks are from the reference's, and what rounding alone does."""
    from butfor.bench.agreement import main

    given = [("--datasets", datasets), ("--sets", sets)]
    main([word for name, value in given if value is not None for word in (name, str(value))] + ["--json"] * as_json)


@bench.command("effectiveness")
@click.option("--datasets", help="Names, separated by commas. Default: the six embedded ones.")
@click.option("--ranks", help="Rankings, separated by commas. Default: all.")
@click.option("--people", default=200, show_default=True, help="Eligible people per data set.")
@click.option("--engine", default="auto", show_default=True, help="What trains.")
@click.option("--device", help="A torch device, such as cuda.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON, and nothing else.")
def effectiveness_command(
    datasets: str | None, ranks: str | None, people: int, engine: str, device: str | None, as_json: bool
) -> None:
    """Who finds most with how many retrainings: every ranking and the guided search, same people."""
    from butfor.bench.effectiveness import EMBEDDED, HEADER, RANKS, effectiveness, line

    if not as_json:
        click.echo(HEADER)
    rows = []
    for row in effectiveness(
        datasets.split(",") if datasets else EMBEDDED,
        ranks=ranks.split(",") if ranks else RANKS,
        people=people,
        engine=engine,
        device=device,
    ):
        rows.append(row)
        if not as_json:
            click.echo(line(row))
    if as_json:
        click.echo(json.dumps(rows, indent=1))


@bench.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else.")
def influence(as_json: bool) -> None:
    """Influence functions for one Student person: ours, dattri's, and where the published hours come from."""
    from butfor.bench.influence import main

    main(["--json"] * as_json)


@bench.command()
@click.option("--datasets", help="Names, separated by commas. Default: german, compas, adult.")
@click.option("--budget", default="1%", show_default=True, help="Labels that may be flipped, a share.")
@click.option("--people", default=200, show_default=True, help="Eligible people per data set.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON, and nothing else.")
def models(datasets: str | None, budget: str, people: int, as_json: bool) -> None:
    """Logistic regression: the guided search against the shortest influence prefix that works."""
    from butfor.bench.models import DATASETS, main

    given = ["--datasets", datasets or ",".join(DATASETS), "--budget", budget, "--people", str(people)]
    main([*given, *["--json"] * as_json])


@bench.command("solid")
@click.option("--datasets", help="Names, separated by commas. Default: german, compas, adult.")
@click.option("--searches", help="Names, separated by semicolons. Default: all but 'whole, measured', which is slow.")
@click.option("--people", default=200, show_default=True, help="People per data set.")
@click.option("--members", default=16, show_default=True, help="Members of the ensemble.")
@click.option("--budget", help="A share or a count of labels. Default: 5 % of German, 1 % of Compas, 0.1 % of Adult.")
@click.option("--engine", help="What trains.")
@click.option("--device", help="A torch device, such as cuda.")
@click.option("--seed", default=0, show_default=True, help="The first member's; all other seeds are counted from it.")
@click.option("--picture", help="Also draw the rows into this file.")
@click.option("--confirm", is_flag=True, help="Let the definition confirm every find.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON, and nothing else.")
def solid_command(confirm: bool, as_json: bool, **options: Any) -> None:
    """What holds whatever the seed: finds of several searches, judged on seeds that none has seen."""
    from butfor.bench.solid import main

    given = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    main([*given, *["--confirm"] * confirm, *["--json"] * as_json])


@bench.command("review")
@click.option("--seeds", default=1, show_default=True, help="Ways of choosing the labels to flip.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON, and nothing else.")
def review_command(seeds: int, as_json: bool) -> None:
    """How many planted wrong labels a review contains, among keystones and among decoys."""
    from butfor.bench.review import main

    main(["--seeds", str(seeds), *["--json"] * as_json])


@bench.command("wide")
@click.option("--rows", default=4000, show_default=True, help="Training rows.")
@click.option("--epochs", default=40, show_default=True, help="Epochs of every training.")
@click.option("--device", help="A CUDA device instead of this machine's cores.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON, and nothing else.")
def wide_command(rows: int, epochs: int, device: str | None, as_json: bool) -> None:
    """What one-hot inputs cost: by their entries, by whole rows, and dense."""
    from butfor.bench.wide import main

    on = ["--device", device] if device else []
    main(["--rows", str(rows), "--epochs", str(epochs), *on, *["--json"] * as_json])


@bench.command("scale")
@click.option("--rows", default="10000,30000,100000", show_default=True, help="Training rows, separated by commas.")
@click.option("--people", default="10,100,1000", show_default=True, help="People asked about.")
@click.option("--inputs", default="30,100,300,500", show_default=True, help="One-hot inputs.")
@click.option("--members", default=4, show_default=True, help="Members of the ensemble.")
@click.option("--epochs", default=20, show_default=True, help="Epochs of every training.")
@click.option("--device", help="A torch device, such as cuda.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON, and nothing else.")
def scale_command(
    rows: str, people: str, inputs: str, members: int, epochs: int, device: str | None, as_json: bool
) -> None:
    """How far it goes: seconds and peak memory against rows, people and inputs."""
    from butfor.bench.scale import main

    given = ["--rows", rows, "--people", people, "--inputs", inputs, "--members", str(members), "--epochs", str(epochs)]
    main([*given, *(["--device", device] if device else []), *["--json"] * as_json])


@bench.command("proofs")
@click.option("--datasets", help="Names, separated by commas. Default: the six embedded ones.")
@click.option(
    "--models",
    "which",
    default="ridge,linear,knn,steady",
    show_default=True,
    help="Whose minima are proven; also kernel-ridge, on small tables.",
)
@click.option("--people", default=200, show_default=True, help="People per data set.")
@click.option("--splits", default=0, help="Mean over that many splits instead of the published one.")
@click.option("--first", default=0, show_default=True, help="The first split's seed.")
@click.option("--refute", is_flag=True, help="Instead: search for sets smaller than are said to be possible.")
@click.option("--retrainings", default=2000, show_default=True, help="With --refute: per data set and model.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON, and nothing else.")
def proofs_command(
    datasets: str | None,
    which: str,
    people: int,
    splits: int,
    first: int,
    refute: bool,
    retrainings: int,
    as_json: bool,
) -> None:
    """How much can be proven: exact minima, brackets, and the price of a steady learner."""
    from butfor.bench.proofs import DATASETS, main

    given = ["--datasets", datasets or ",".join(DATASETS), "--models", which]
    given += ["--people", str(people), "--splits", str(splits), "--first", str(first)]
    given += ["--retrainings", str(retrainings)]
    main([*given, *["--refute"] * refute, *["--json"] * as_json])


@bench.command("cluster")
@click.option("--dataset", default="german", show_default=True, help="An embedded data set.")
@click.option("--workers", type=int, help="Worker processes here, and threads of the local engine. Default: the cores.")
@click.option("--seconds", default=10.0, show_default=True, help="What one turn takes, about.")
@click.option("--rounds", default=5, show_default=True, help="Turns of each.")
@click.option("--device", help="Compare stacked tensors on this device instead, such as cuda with one worker.")
@click.option("--json", "as_json", is_flag=True, help="Print rows as JSON, and nothing else.")
def cluster_command(as_json: bool, **options: Any) -> None:
    """What a cluster costs on one machine: the same trainings by the local engine and by worker processes."""
    from butfor.bench.cluster import main

    given = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    main([*given, *["--json"] * as_json])
