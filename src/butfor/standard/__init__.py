"""One standard for all: are a group's labels what a model of the other groups' rows would have given?"""

from butfor.standard.compare import compare_standards
from butfor.standard.groups import ASSUMPTION, GroupStandard, Standards

__all__ = ["ASSUMPTION", "GroupStandard", "Standards", "compare_standards"]
