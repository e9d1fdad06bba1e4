"""The tasks of the protocol, one file each, behind one small interface."""

from ._registry import TASKS as TASKS
