"""Test accuracy of each data set's published network: is what we audit a sensible model at all?

python -m benchmarks.accuracy
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.rows import Columns, Row, names, options, parse, run, show
from benchmarks.work import EMBEDDED, network
from butfor.table.embedded import load_dataset
from butfor.table.encoding import TableEncoder


def accuracy_of(name: str, encoder: TableEncoder | None = None) -> float:
    """Published split, layers, batch size and, unless another encoder is given, encoding; seed
    0."""
    data = load_dataset(name)
    encoder = (encoder or TableEncoder("embed", data.setup.numeric)).fit(data.X_train)
    model = network(data.setup)
    validation = (encoder.transform(data.X_val), data.y_val)
    model.fit(encoder.transform(data.X_train), data.y_train, validation=validation)
    return float(model.score(encoder.transform(data.X_test), data.y_test))


def accuracies(datasets: Sequence[str]) -> Iterator[Row]:
    for name in datasets:
        yield {"dataset": name, "accuracy": accuracy_of(name)}


COLUMNS: Columns = {"dataset ": "{dataset}", "accuracy": "{accuracy:.3f}"}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--datasets", type=names, default=EMBEDDED)
    as_json, given = parse(parser, arguments)
    show(accuracies(**given), COLUMNS, as_json)


if __name__ == "__main__":
    run(main)
