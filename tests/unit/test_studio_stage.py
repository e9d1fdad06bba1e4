"""What is drawn on the pages: only what changed is sent."""

from unittest.mock import Mock

import numpy as np
import pytest

from handful.clouds import PointCloud

pytest.importorskip("viser", reason="the studio needs the extra `view`")

from viser import PointCloudHandle, SceneApi

from handful.apps.studio._stage import Stage


class _Pages:
    """Keeps what would be sent to pages."""

    def __init__(self) -> None:
        self.sent: list[Mock] = []
        self.scene = Mock(spec=SceneApi)
        self.scene.add_point_cloud.side_effect = self._sent

    def _sent(self, name: str, *, point_size: float, **values: object) -> Mock:
        node = Mock(spec=PointCloudHandle)
        node.name, node.point_size = name, point_size
        self.sent.append(node)
        return node

    @property
    def removed(self) -> int:
        return sum(node.remove.called for node in self.sent)


def table(points: int = 4000) -> PointCloud:
    rng = np.random.default_rng(0)
    flat = np.column_stack([rng.uniform(-0.5, 0.5, (points, 2)), np.zeros(points)])
    return PointCloud(flat, rng.uniform(0, 1, (points, 3)))


def test_blocks_that_did_not_change_are_not_sent_again():
    pages, cloud = _Pages(), table()
    stage = Stage(pages.scene, "room")
    stage.cloud("scene", cloud)
    first = len(pages.sent)
    assert first > 50
    stage.cloud("scene", cloud)
    assert len(pages.sent) == first
    corner = (cloud.points[:, :2] > 0.3).all(axis=1)
    stage.cloud("scene", cloud.selected(~corner))
    again = pages.sent[first:]
    assert 0 < len(again) < first / 4  # those that the corner cut through
    assert pages.removed > 0  # those that are empty now
    shown = stage.contents().clouds[0]
    assert len(shown) == (~corner).sum()
    colors = PointCloud(cloud.points, 1.0 - cloud.colors)
    stage.cloud("scene", colors)
    assert len(pages.sent) >= first + len(again) + first  # other colours are sent


def test_a_removed_cloud_is_sent_again_when_it_comes_back():
    pages, cloud = _Pages(), table()
    stage = Stage(pages.scene, "room")
    stage.cloud("scene", cloud)
    first = len(pages.sent)
    stage.remove("scene")
    assert pages.removed == first
    stage.cloud("scene", cloud)
    assert len(pages.sent) == 2 * first
