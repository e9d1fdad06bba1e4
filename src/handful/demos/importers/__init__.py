"""Importers: other people's demonstrations to a `DemoSet`."""

from ._edf import import_edf as import_edf
from ._npz import import_npz as import_npz
from ._posed_clouds import import_posed_clouds as import_posed_clouds
