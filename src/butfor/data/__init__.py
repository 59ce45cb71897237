"""Tables: the seven embedded sets and files of one's own, read, checked, split and described."""

from butfor.data.load import (
    DATASETS,
    SPECS,
    Dataset,
    Setup,
    catalogue_frame,
    load_dataset,
    spec_named,
)

__all__ = ["DATASETS", "SPECS", "Dataset", "Setup", "catalogue_frame", "load_dataset", "spec_named"]
