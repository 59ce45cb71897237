"""The seven data sets of the published evaluation: the catalogue, the files, and how to load them."""

from butfor.data.catalogue import DATASETS, Setup
from butfor.data.load import Dataset, catalogue_frame, load_dataset

__all__ = ["DATASETS", "Dataset", "Setup", "catalogue_frame", "load_dataset"]
