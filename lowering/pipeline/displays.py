"""How times and statistics are shown: the values of flags, which are known before anything runs."""

from enum import StrEnum


class TimeDisplay(StrEnum):
    """In one list by name, or as passes are nested."""

    LIST = "list"
    TREE = "tree"


class TimeFormat(StrEnum):
    """For people or for scripts."""

    TEXT = "text"
    JSON = "json"


class StatisticsDisplay(StrEnum):
    """By the name of a pass, or in the order of the pipeline."""

    LIST = "list"
    PIPELINE = "pipeline"
