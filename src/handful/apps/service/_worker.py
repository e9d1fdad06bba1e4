"""A worker process: it holds the models, and answers one job after the other until it is told.

A job that nobody waits for is ended by a signal: its handler raises in the main thread, between two
operations of the network, which are milliseconds long. The worker stays, with its models loaded.
"""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import signal
import traceback
from collections.abc import Iterator
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from handful.answers import answer_to_json
from handful.apps._limits import limits_of
from handful.apps.service._config import ServiceConfig
from handful.apps.service._entry import CANCEL
from handful.apps.service._inputs import uploaded_cloud
from handful.apps.service._jobs import Message, Uploads, not_started, problem, reply
from handful.clouds import Box, PointCloud
from handful.demos import load_gripper
from handful.errors import FileFormatError, HandfulError, OptionError
from handful.learning import RunFolder, only_edf
from handful.nn import keep_freed_memory
from handful.policy import (
    Limits,
    Pace,
    Predictor,
    RankedPoses,
    Tracked,
    answer_to_track,
    rated_answer,
)

GRASP_REACH = 0.3
"""Metres from the contact point: what depth images of the hand show farther away is not held."""


class Cancelled(BaseException):
    """Nobody waits for the job any more."""


class Inference:
    """The models of a run, and answers of them.

    Args:
        config: What is served.

    Raises:
        HandfulError: The run, a step or the gripper is missing, unfinished or partial.
    """

    def __init__(self, config: ServiceConfig) -> None:
        self._config = config
        folder = RunFolder(Path(config.run))
        task = folder.task
        names = config.steps or task.names
        self.predictors = {name: _predictor(folder, task.step(name).name, config) for name in names}
        if config.gripper:
            gripper = load_gripper(config.gripper)
            self.predictors = {
                name: one.for_gripper(gripper) for name, one in self.predictors.items()
            }
        self._limits = limits_of(config.workspace, config.approach, config.table)

    def describe(self) -> dict[str, Any]:
        """What callers are told of the task: its steps, the gripper, and the limits."""
        gripper = next(iter(self.predictors.values())).gripper
        return {
            "steps": [
                {
                    "name": one.step.name,
                    "action": one.step.action.value,
                    "needs_grasp": one.step.action.holding,
                    "needs_colors": one.model.config.encoder.use_colors,
                }
                for one in self.predictors.values()
            ],
            "gripper": {
                "name": gripper.name,
                "opening": gripper.opening,
                "T_gripper_contact": gripper.T_gripper_contact.tolist(),
                "shape_known": gripper.shape is not None,
            },
        }

    def answer(self, job: Message) -> Message:
        """The reply to one job; whatever is wrong with it is a sentence with status 422."""
        try:
            return self._answer(job)
        except HandfulError as error:
            return problem(422, str(error))
        except MemoryError:
            return problem(413, "the scene needs more memory than there is: crop or thin it.")
        except Exception as error:  # a bug of ours must not end the worker
            traceback.print_exc()
            kind = type(error).__name__
            return problem(500, f"a bug in handful ({kind}): please report it with the request.")

    def _answer(self, job: Message) -> Message:
        header = job.header
        predictor = self.predictors[header["step"]]
        scene, grasp = self._clouds(job, predictor)
        options: dict[str, Any] = {
            "limits": self._within(header["workspace"]),
            "frame": header["frame"],
            "stamp": header["stamp"],
            "least_confidence": self._config.least_confidence,
        }
        if header["kind"] == "rate":
            poses = np.array(header["poses"], dtype=np.float64)
            answer = rated_answer(predictor, poses, scene, grasp, **options)
        elif header["kind"] == "track":
            return self._track(header, predictor, scene, grasp, options)
        else:
            answer = predictor.answer(
                scene, grasp, n=header["n"], seed=header["seed"], beside=header["beside"], **options
            )
        return reply(200, answer_to_json(answer), seconds=answer.seconds)

    def _track(
        self,
        header: dict[str, Any],
        predictor: Predictor,
        scene: PointCloud,
        grasp: PointCloud | None,
        options: dict[str, Any],
    ) -> Message:
        state, limits = header["state"], options["limits"]
        previous = None if state is None else tracked_from_state(state, predictor)
        tracked = predictor.track(
            scene, previous, grasp, n=header["n"], budget=header["budget"],
            workspace=limits.workspace,
        )  # fmt: skip
        answer = answer_to_track(predictor, scene, tracked, grasp, **options)
        return reply(200, answer_to_json(answer), seconds=answer.seconds, state=state_of(tracked))

    def _clouds(self, job: Message, predictor: Predictor) -> tuple[PointCloud, PointCloud | None]:
        blobs, most = iter(job.blobs), self._config.max_points
        uploads = [Uploads(**job.header[name]) for name in ("scene", "grasp")]
        scene = uploaded_cloud(uploads[0], blobs, "scene", "T_scene_camera", most)
        grasp = uploaded_cloud(uploads[1], blobs, "grasp", "T_gripper_camera", most)
        if scene is None:
            raise OptionError("scene is missing: give a cloud, or depth images with cameras.")
        if grasp is not None and uploads[1].depth:
            grasp = grasp.within(predictor.gripper.T_gripper_contact[:3, 3], GRASP_REACH)
        name, holding = predictor.step.name, predictor.step.action.holding
        if holding and grasp is None:
            raise OptionError(f"grasp is missing: in the step {name!r} the gripper is full.")
        if grasp is not None and not holding:
            raise OptionError(f"leave out grasp: in the step {name!r} the gripper is empty.")
        return scene, grasp

    def _within(self, workspace: list[float] | None) -> Limits:
        """The service's limits, and those of one request."""
        if workspace is None:
            return self._limits
        low, high = np.array(workspace[:3]), np.array(workspace[3:])
        if self._limits.workspace is not None:
            low = np.maximum(low, self._limits.workspace.lower)
            high = np.minimum(high, self._limits.workspace.upper)
            if not (low < high).all():
                raise OptionError("workspace: shares nothing with that of the service.")
        return replace(self._limits, workspace=Box(tuple(low.tolist()), tuple(high.tolist())))


def _predictor(folder: RunFolder, step: str, config: ServiceConfig) -> Predictor:
    """The model of a step; where it is missing, the message says what could be served, too."""
    try:
        return only_edf(folder.predictor(step), "the service")
    except FileFormatError as error:
        trained = [name for name in folder.task.names if folder.model(name).is_dir()]
        if config.steps or not trained:
            raise
        options = " ".join(f"--step {shlex.quote(name)}" for name in trained)
        raise FileFormatError(f"{error}, or serve what there is: {options}") from error


def state_of(tracked: Tracked) -> dict[str, Any]:
    """What the next frame of a stream needs to know of this one."""
    return {
        "poses": tracked.T_scene_gripper[:1].tolist(),
        "energy": tracked.energy[:1].tolist(),
        "confidence": tracked.confidence[:1].tolist(),
        "seconds": tracked.seconds,
        "next_part": tracked.next_part,
        "pace": asdict(tracked.pace),
    }


def tracked_from_state(state: dict[str, Any], predictor: Predictor) -> RankedPoses:
    """The answer to the frame before."""
    return Tracked(
        np.array(state["poses"], dtype=np.float64).reshape(-1, 4, 4),
        np.array(state["energy"], dtype=np.float64),
        np.array(state["confidence"], dtype=np.float64),
        float(state["seconds"]),
        predictor.gripper,
        next_part=int(state["next_part"]),
        pace=Pace(**state["pace"]),
    )


class _Interrupt:
    """Raises `Cancelled` in the main thread while a job is done, and at no other time."""

    def __init__(self) -> None:
        self.armed = False
        signal.signal(CANCEL, self._cancel)

    def _cancel(self, *_: object) -> None:
        if self.armed:
            self.armed = False
            raise Cancelled

    def guarded(self, inference: Inference, job: Message) -> Message:
        """The reply to a job; one that says so if the job was cancelled."""
        try:
            self.armed = True
            answer = inference.answer(job)
            self.armed = False
        except Cancelled:
            answer = problem(499, "nobody waits for the answer any more.")
        return answer


def work(connection: Connection, config: ServiceConfig) -> None:
    """The main function of a worker process: say what is served, then answer until the pipe ends.

    Args:
        connection: To the service.
        config: What is served.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which then tells us
    interrupt = _Interrupt()
    torch.set_num_threads(1)
    keep_freed_memory()
    with contextlib.suppress(OSError):  # the service is gone
        try:
            inference = Inference(config)
            warm_up(inference)
        except HandfulError as error:
            connection.send_bytes(not_started(error).encoded())
            return
        connection.send_bytes(reply(200, json.dumps(inference.describe())).encoded())
        for job in _jobs(connection):
            connection.send_bytes(interrupt.guarded(inference, job).encoded())


def _jobs(connection: Connection) -> Iterator[Message]:
    while True:
        try:
            yield Message.decoded(connection.recv_bytes())
        except (EOFError, OSError):
            return


def warm_up(inference: Inference) -> None:
    """Ask every model once about a made-up scene, so that the first caller waits no longer."""
    line = np.linspace(-0.05, 0.05, 20)
    x, y = (grid.ravel() for grid in np.meshgrid(line, line))
    points = np.stack([x, y, 0.02 * np.cos(math.pi * x / 0.1)], axis=1)
    cloud = PointCloud(points, np.full_like(points, 0.5))
    for predictor in inference.predictors.values():
        grasp = cloud if predictor.step.action.holding else None
        with contextlib.suppress(HandfulError):  # it need not make sense
            predictor.answer(cloud, grasp, n=1)
