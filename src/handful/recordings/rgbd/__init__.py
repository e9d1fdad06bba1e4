"""Folders of colour and depth images to demonstrations."""

from ._folder import FORMAT as FORMAT
from ._folder import MANIFEST as MANIFEST
from ._folder import VERSION as VERSION
from ._folder import RecordedHand as RecordedHand
from ._folder import import_rgbd as import_rgbd
from ._folder import recorded_hands as recorded_hands
