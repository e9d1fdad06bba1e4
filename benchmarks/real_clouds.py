"""What a pick model answers on clouds of real cameras, as sentences and as one picture.

    python benchmarks/real_clouds.py --run runs/mug --clouds ../shared/data/real --picture real.png

Clouds in a camera's frame (y down, z forward) are turned so that their largest plane lies at z = 0;
`--upright` names those that are upright already, by the beginning of their names. A cloud without
colours is painted grey. Nothing is cropped. Shown is the pose that `Predictor.answer` says to
execute; where it says to execute none, the pose that the model likes best. Nobody has labelled
these clouds: look at the picture.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image

from handful.clouds import PointCloud, read_cloud
from handful.learning import RunFolder
from handful.policy import Predictor
from handful.render import tile
from handful.viz import picture_of_poses

PLANES, NEAR = 500, 0.006
"""Planes through three points that are tried; metres within which a point lies in one."""


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    predictor = RunFolder(options.run).predictor(options.step)
    pictures = []
    for path in sorted(p for p in options.clouds.iterdir() if p.suffix in (".ply", ".pcd")):
        cloud = read_cloud(path)
        if not path.name.startswith(tuple(options.upright)):
            cloud = turned_upright(cloud)
        if not cloud.has_colors:
            cloud = PointCloud(cloud.points, np.full((len(cloud), 3), 0.6))
        pictures.append(_asked(predictor, cloud, path.stem))
    if options.picture is not None:
        tile(pictures, columns=2).save(options.picture)
        print(f"Picture: {options.picture}")


def turned_upright(cloud: PointCloud) -> PointCloud:
    """A cloud in a camera's frame with its largest plane at z = 0 and the camera above it."""
    points = cloud.points.astype(np.float64)
    rng = np.random.default_rng(0)
    some = points[rng.permutation(len(points))[:5_000]]
    most, best = 0, (np.array([0.0, -1.0, 0.0]), 0.0)
    for _ in range(PLANES):
        first, second, third = some[rng.choice(len(some), 3, replace=False)]
        normal = np.cross(second - first, third - first)
        if (size := np.linalg.norm(normal)) < 1e-9:
            continue
        normal = normal / size * (1.0 if normal @ first < 0 else -1.0)  # towards the camera
        inside = int((np.abs((some - first) @ normal) < NEAR).sum())
        if inside > most:
            most, best = inside, (normal, float(first @ normal))
    up, height = best
    return cloud.transformed(_upright(up, height, points.mean(axis=0)))


def _upright(
    up: Float[np.ndarray, "3"], height: float, middle: Float[np.ndarray, "3"]
) -> Float[np.ndarray, "4 4"]:
    """T_scene_camera: z along `up`, zero at a height along it, the middle above the origin."""
    across = np.cross(up, np.eye(3)[int(np.abs(up).argmin())])
    across /= np.linalg.norm(across)
    T = np.eye(4)
    T[:3, :3] = np.stack([across, np.cross(up, across), up])
    T[:3, 3] = -T[:3, :3] @ middle
    T[2, 3] = -height
    return T


def _asked(predictor: Predictor, scene: PointCloud, name: str) -> Image.Image:
    """Ask, say what came out, and draw it."""
    chosen = predictor.answer(scene).best
    if chosen is not None:
        pose, sure, verdict = np.array(chosen.T_scene_gripper), chosen.confidence, "execute"
    else:
        found = predictor.sample(scene, n=8)
        pose, sure, verdict = found.T_scene_gripper[0], float(found.confidence[0]), "do nothing"
    words = f"{name}: {verdict}, confidence {sure:.2f}"
    print(words, flush=True)
    return picture_of_poses(scene, pose[None], predictor.gripper, best=1, title=words)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="a run of `handful train`")
    parser.add_argument("--step", default="pick")
    parser.add_argument("--clouds", type=Path, required=True, help="folder of PLY and PCD files")
    parser.add_argument("--upright", nargs="*", default=["fused"])
    parser.add_argument("--picture", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
