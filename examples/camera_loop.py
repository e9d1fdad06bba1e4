"""A depth camera in a loop: every frame goes to the service, which follows the target.

    handful serve runs/mug
    python examples/camera_loop.py --url http://127.0.0.1:8720 --step pick --frames 20

Needs numpy and httpx, and neither torch nor the rest of handful: it can run on the robot's own
computer. The camera here is made up, a ball that moves over a table; put yours where the comment
says. A frame that is late or refused is skipped, as the next one is better anyway.
"""

import argparse
import time

import numpy as np

from handful.client import Client, ClientError, View

WIDTH, HEIGHT, FOCAL = 160, 120, 150.0


def camera_frame(number: int) -> View:
    """Your camera: a depth image, colours registered to it, intrinsics, and where it stands."""
    row, column = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float64)
    x, y = (column - 79.5) / FOCAL, (row - 59.5) / FOCAL
    middle = 0.06 * np.cos(0.2 * number), 0.04 * np.sin(0.2 * number)
    ball = 0.05**2 - (0.55 * x - middle[0]) ** 2 - (0.55 * y - middle[1]) ** 2
    depth = 0.6 - np.sqrt(np.clip(ball, 0.0, None))
    color = np.where(ball[..., None] > 0, (200, 60, 40), (120, 120, 120)).astype(np.uint8)
    T_scene_camera = np.diag([1.0, -1.0, -1.0, 1.0])  # looks down from 0.6 m
    T_scene_camera[2, 3] = 0.6
    return View(depth.astype(np.float32), T_scene_camera, FOCAL, FOCAL, 79.5, 59.5, color)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8720")
    parser.add_argument("--token", default="")
    parser.add_argument("--step", required=True, help="a step with an empty gripper")
    parser.add_argument("--frames", type=int, default=20)
    parser.add_argument("--rate", type=float, default=5.0, help="frames a second")
    options = parser.parse_args()
    with Client(options.url, options.token) as client, client.track(options.step) as track:
        for number in range(options.frames):
            began = time.time()
            try:
                answer = track.frame(camera_frame(number), stamp=began, budget=0.1, timeout=5.0)
            except ClientError as error:
                print(f"{number}: skipped: {error}")
                continue
            best = answer.best
            where = None if best is None else best.T_scene_gripper[:3, 3].round(3)
            said = answer.reason if where is None else f"go to {where}"
            print(f"{number}: {1000 * (time.time() - began):.0f} ms: {said}", flush=True)
            time.sleep(max(began + 1.0 / options.rate - time.time(), 0.0))


if __name__ == "__main__":
    main()
