"""Every error a user can meet. Each message says what is wrong, where, and what to do.

    ButforError
    ├── TableError          a table's cell, column or label cannot be used
    ├── SettingError        an option or argument cannot be used
    ├── DatasetError        a data set is unknown, missing or altered
    ├── LearnerError        the model given cannot be audited, or its training failed
    ├── EngineError         a training engine cannot do the work
    ├── ReplayError         a recorded verdict cannot be run again
    ├── OutputError         a result cannot be written: no such place, no permission, no space
    └── Stopped             the work was interrupted, or the time was up

Table and setting errors are also ``ValueError``, as scikit-learn's callers expect. The command line
prints the message and exits with code 2, or with code 3 if disk space or memory ran out.
"""

from butfor.support.errors import (
    ButforError,
    DatasetError,
    EngineError,
    LearnerError,
    OutputError,
    ReplayError,
    SettingError,
    Stopped,
    TableError,
)

__all__ = [
    "ButforError",
    "DatasetError",
    "EngineError",
    "LearnerError",
    "OutputError",
    "ReplayError",
    "SettingError",
    "Stopped",
    "TableError",
]
