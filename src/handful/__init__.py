"""Teach a robot to pick and place from a handful of demonstrations."""

__version__ = "0.1.0"
