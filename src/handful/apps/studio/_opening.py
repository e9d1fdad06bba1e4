"""Opening what people have: cloud files, demonstration sets, folders of RGB-D recordings."""

from __future__ import annotations

from pathlib import Path

from handful.apps.studio._config import StudioConfig
from handful.apps.studio._document import Document, Scene
from handful.clouds import PointCloud, cloud_from_bytes, read_cloud
from handful.demos import load_demos
from handful.errors import OptionError

RECORDINGS = "recordings.json"


def opened_upload(document: Document, name: str, content: bytes, config: StudioConfig) -> Document:
    """The document with an uploaded cloud as a scene.

    Raises:
        HandfulError: It is too large, or no cloud.
    """
    return document.with_scene(Scene(Path(name).stem, uploaded_cloud(name, content, config)))


def uploaded_cloud(name: str, content: bytes, config: StudioConfig) -> PointCloud:
    """The cloud of an uploaded file.

    Raises:
        HandfulError: It is too large, or no cloud.
    """
    if len(content) > config.max_bytes:
        raise OptionError(
            f"{name}: has {len(content) / 2**20:.0f} MiB: at most {config.max_bytes / 2**20:.0f}."
        )
    return cloud_from_bytes(content, Path(name).name, max_points=config.max_points)


def opened_path(document: Document, path: Path, config: StudioConfig) -> Document:
    """The document with what is at a path of this computer.

    Args:
        document: What is taught.
        path: A cloud file, a demonstration set, or a folder of RGB-D recordings.
        config: Limits.

    Raises:
        HandfulError: There is nothing of the kind.
    """
    if path.is_dir() and (path / RECORDINGS).is_file():
        from handful.recordings.rgbd import import_rgbd

        return document.with_demos(import_rgbd(path))
    if path.is_dir():
        return document.with_demos(load_demos(path))
    return document.with_scene(Scene(path.stem, read_cloud(path, max_points=config.max_points)))
