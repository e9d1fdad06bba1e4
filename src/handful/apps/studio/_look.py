"""The room Look: what a model sees; and that it sees the same when the object moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import viser

from handful.apps.studio._click import Ray
from handful.apps.studio._hand import CALM, FINE, GIZMO, Hand
from handful.apps.studio._models import NONE, Models, held_for
from handful.apps.studio._scenes import SceneChoice, set_options
from handful.apps.studio._session import Pose, Session
from handful.apps.studio._stage import Stage
from handful.apps.studio._words import plain
from handful.clouds import Box, PointCloud, concatenate, standing_in
from handful.errors import OptionError
from handful.geometry import pose_distance
from handful.models import Field, QueryPoints
from handful.policy import Predictor, RankedPoses, ScenePoints, SceneView
from handful.render import Color, box_mesh, joined
from handful.viz import (
    FieldOnCloud,
    FieldPalette,
    energy_heat,
    heat_colors,
    palette_of_field,
    query_meshes,
)

QUIET = 0.4
"""Seconds without a move after which the object is where it belongs, and is looked at again."""
RECORDED, TYPE_0, TYPE_1 = "as it was recorded", "type 0 as colours", "type 1 as arrows"
TYPE_2, TYPE_3 = "type 2 by its strength", "type 3 by its strength"
HEAT = "energy around the best pose"
LAYERS = (TYPE_0, TYPE_1, TYPE_2, TYPE_3, HEAT, RECORDED)
ARROWS = 0.02
"""Metres between arrows."""
FEWEST = 10
"""Points that are an object."""
BEST = 4
"""Poses that are shown."""
YELLOW: Color = (0.95, 0.75, 0.2)
POSES = 30
"""Poses that are looked for."""


@dataclass(frozen=True, eq=False)
class _Seen:
    """What a model sees in the scene as it is now."""

    scene: PointCloud
    predictor: Predictor
    held: PointCloud | None
    view: SceneView
    found: RankedPoses
    field: FieldOnCloud
    queries: QueryPoints

    @property
    def best(self) -> Pose | None:
        return self.found.T_scene_gripper[0] if len(self.found) else None


class LookRoom:
    """The key field on a scene, query points, energies, and an object that can be moved.

    Args:
        session: The studio.
        models: That can be looked into.
    """

    name = "Look"

    def __init__(self, session: Session, models: Models) -> None:
        self._session, self._models = session, models
        self.stage = Stage(session.server.scene, "look")
        self.panel = LookPanel(session)
        self._hands = [Hand(self.stage, f"hand{number}") for number in range(BEST)]
        self._scene: PointCloud | None = None
        self._aimed: PointCloud | None = None
        self._palette: FieldPalette | None = None
        self._object: np.ndarray | None = None
        self._spot: np.ndarray | None = None
        self._center, self._motion = np.eye(4), np.eye(4)
        self._first: tuple[Pose, float] | None = None
        self._along = Hand(self.stage, "along")
        self._seen: _Seen | None = None
        panel = self.panel
        session.clicked(panel.look, lambda _: self._fresh())
        session.edited(panel.model, self._model_chosen)
        panel.scene.on_choice(self._scene_chosen)
        session.edited(panel.layer, self._show)
        session.edited(panel.queries, self._show)
        session.clicked(panel.select, lambda _: self._select_at_best())
        session.clicked(panel.click, lambda _: self._wait_for_click())
        session.edited(panel.size, self._resized, "box")
        session.clicked(panel.back, lambda _: self._put_back())

    def open(self) -> None:
        """Offer what there is."""
        self.panel.scene.refresh()
        labels = self._models.labels()
        fitting = self._models.fitting(self.panel.model.value, self._session.selection.step)
        set_options(self.panel.model, labels or (NONE,), fitting)
        if self._session.clouds()[0] is None:
            self.stage.clear()
            self._scene = self._seen = None
            self.panel.told.content = "Nothing is open: open a cloud in the room Teach."
            return
        if labels:
            self._fresh()
        else:
            self._show_scene()
            self.panel.told.content = "There is no trained model yet: go to the room Train."

    def close(self) -> None:
        """Look no more."""
        self._aimed = None  # other rooms let the pages look elsewhere
        self._session.desk.drop("moved")

    def key(self, name: str, shift: bool, alt: bool) -> None:
        """No keys here."""

    # --- looking ---------------------------------------------------------------------------

    def _model_chosen(self) -> None:
        self.panel.scene.follow(self._models.run_of(self.panel.model.value)[1])
        self._fresh()

    def _scene_chosen(self) -> None:
        step = self._session.selection.step
        self.panel.model.value = self._models.fitting(self.panel.model.value, step)
        self._fresh()

    def _fresh(self) -> None:
        """Look at another scene, or with another model."""
        self._show_scene()
        self._look()

    def _show_scene(self) -> None:
        """The scene as it was recorded: nobody has looked at it yet."""
        scene, _ = self.panel.scene.clouds()
        self.stage.clear()
        self._scene, self._object, self._motion, self._first = scene, None, np.eye(4), None
        self._palette = self._seen = self._spot = None
        self.panel.told.content = self.panel.moved.content = ""
        self.stage.cloud("scene", self._session.prepared(scene).shown())
        if self._aimed is not scene:  # else people have turned the view to it
            self._aimed = scene
            self._session.look_over(scene.points)

    def _now(self) -> PointCloud:
        """The scene with the object where it was moved to."""
        assert self._scene is not None
        if self._object is None:
            return self._scene
        thing = self._scene.selected(self._object).transformed(self._motion)
        return concatenate([self._scene.selected(~self._object), thing])

    def _look(self) -> None:
        """Encode the scene as it is now, and show it."""
        if self._scene is None:
            raise OptionError("nothing is open: open a cloud in the room Teach first.")
        label = self.panel.model.value
        if label == NONE:
            raise OptionError("there is no trained model yet: go to the room Train.")
        self._session.tell("Looking ...")
        predictor = self._models.predictor(label, self._session.state.document.gripper)
        held = held_for(predictor, self.panel.scene.clouds()[1])
        now = self._now()
        energy, _ = predictor.energy(now, held, own_frames=False)
        key = energy.field
        assert isinstance(key, Field)
        if self._palette is None:
            self._palette = palette_of_field(key)
        view = predictor.look(now, held)
        self._seen = _Seen(
            now,
            predictor,
            held,
            view,
            view.sample(POSES),
            FieldOnCloud.of(now, key, self._palette),
            predictor.queries_of_gripper(energy),
        )
        self._show()
        self._tell_motion(self._seen)
        self._session.tell(f"Looked with {label}.")

    def _show(self) -> None:
        """Show what was seen, as the panel asks for it."""
        seen = self._seen
        if seen is None:
            return
        best, layer = seen.best, self.panel.layer.value
        heat = None
        if layer == HEAT and best is not None:
            heat = energy_heat(seen.view, best, seen.predictor.gripper, seen.scene)
        told = []
        try:
            self._paint(seen.field, heat, layer)
        except OptionError as error:  # descriptors without this type: the scene is shown as it is
            told.append(str(error))
            self._paint(seen.field, None, RECORDED)
        self.stage.remove("arrows")
        if layer == TYPE_1:
            self.stage.mesh("arrows", seen.field.arrows(ARROWS))
        self._show_poses(seen.predictor, seen.found.T_scene_gripper, seen.held)
        self.stage.remove("queries")
        if self.panel.queries.value and best is not None:
            balls, arrows = query_meshes(seen.queries, best, seen.field.palette, 0.5)
            for number, ball in enumerate(balls):
                self.stage.mesh(f"queries/{number}", ball)
            if arrows:
                self.stage.mesh("queries/arrows", joined(arrows))
            weights = ", ".join(f"{float(one):.2f}" for one in seen.queries.weights)
            plural = "" if len(seen.queries) == 1 else "s"
            told.append(f"{len(seen.queries)} query point{plural}, weight{plural} {weights}.")
        self.panel.told.content = plain(" ".join(told))

    def _paint(
        self, seen: FieldOnCloud, heat: tuple[np.ndarray, np.ndarray] | None, layer: str
    ) -> None:
        """Colour the scene, and the object that can be moved."""
        assert self._scene is not None
        shown = self._session.prepared(self._scene).levels.shown()
        parts = {"scene": shown}
        if self._object is not None:
            inside = self._object[shown]
            parts = {"scene": shown[~inside], "object/points": shown[inside]}
        for name, numbers in parts.items():
            part = self._scene.selected(numbers)
            moved = part.transformed(self._motion) if name != "scene" else part
            colors = self._colors(seen, heat, layer, moved.points)
            painted = part if colors is None else PointCloud(part.points, colors)
            if name != "scene":  # in the frame of the gizmo
                painted = painted.transformed(np.linalg.inv(self._center))
            self.stage.cloud(name, painted)

    def _colors(
        self,
        seen: FieldOnCloud,
        heat: tuple[np.ndarray, np.ndarray] | None,
        layer: str,
        points: np.ndarray,
    ) -> np.ndarray | None:
        if heat is not None:
            return heat_colors(*heat, points)
        if layer in (TYPE_2, TYPE_3):
            return seen.strength_colors(2 if layer == TYPE_2 else 3, points)
        if layer in (TYPE_0, TYPE_1):
            colors = seen.colors(points)
            return colors if layer == TYPE_0 else 1.0 - 0.5 * (1.0 - colors)
        return None

    def _show_poses(self, predictor: Predictor, poses: np.ndarray, held: PointCloud | None) -> None:
        for number, hand in enumerate(self._hands):
            if number >= len(poses):
                hand.hide()
            elif number == 0:
                hand.show(poses[0], predictor.gripper, color=CALM, opacity=0.7, held=held)
            else:
                hand.show(poses[number], predictor.gripper, color=CALM, opacity=0.15)

    def _tell_motion(self, seen: _Seen) -> None:
        """Whether energies and poses followed the object: the model is equivariant."""
        best = seen.best
        still = self._object is None or np.allclose(self._motion, np.eye(4))
        if best is None or still or self._first is None:
            self._first = None if best is None else (best, float(seen.found.energy[0]))
            taken = 0 if self._object is None else int(self._object.sum())
            told = f"{taken} points are in the box: drag its arrows." if taken else ""
            self.panel.moved.content = plain(told)
            self._along.hide()
            return
        first, before = self._first
        along = self._motion @ first
        self._along.show(along, seen.predictor.gripper, color=FINE, opacity=0.3)
        gaps, angles = _differences(along, seen.found.T_scene_gripper, seen.predictor)
        nearest = int(np.argmin(gaps + 0.1 * angles))
        energy = float(seen.view.energies_at(along[None])[0])
        angle = np.degrees(angles[nearest])
        self.panel.moved.content = plain(
            f"The object was moved. The best pose, moved along with it (green), has energy "
            f"{energy:.2f} there; it had {before:.2f}. The nearest pose that is found there is "
            f"{1000.0 * gaps[nearest]:.1f} mm and {angle:.1f} degrees from it."
        )

    # --- moving ----------------------------------------------------------------------------

    def _select_at_best(self) -> None:
        """Select what the best pose is at."""
        best = None if self._seen is None else self._seen.best
        if best is None:
            raise OptionError("no pose is found here: put the box where you click.")
        gripper = self._session.state.document.gripper
        self._select((best @ gripper.T_gripper_contact)[:3, 3])

    def _wait_for_click(self) -> None:
        """The next click on the scene puts the box there."""
        self._session.tell("Click on the object: the box comes around it.")
        self._session.click.wait(self._clicked)

    def _clicked(self, ray: Ray) -> None:
        if self._scene is None:
            raise OptionError("look at a scene first.")
        spot = ScenePoints(self._now().points).hit(*ray)
        if spot is None:
            raise OptionError("nothing of the scene is there: click on its points.")
        self._select(spot)

    def _resized(self) -> None:
        """The box has another size: what is selected changes, where the object was not moved."""
        if self._spot is not None and np.allclose(self._motion, np.eye(4)):
            self._select(self._spot)

    def _select(self, middle: np.ndarray) -> None:
        """Put a box around a place; what is in it can be moved."""
        assert self._scene is not None
        scene = self._now()
        box = Box.around(middle[None], self.panel.size.value / 2000.0)
        near = standing_in(box, scene.points)
        if near.sum() < FEWEST:
            raise OptionError(
                "hardly anything is in the box: make it larger, or put it where you click."
            )
        # What was moved before stays where it is.
        self._scene, self._object, self._motion = scene, near, np.eye(4)
        self._spot, self._center = middle, np.eye(4)
        self._center[:3, 3] = scene.points[near].mean(axis=0)
        points = scene.points[near].astype(np.float64) - self._center[:3, 3]
        self.stage.remove("object")
        self.stage.gizmo("object", self._center, 1.3 * GIZMO, self._on_move)
        around = Box.around(points, 0.001)
        drawn = box_mesh(around.lower, around.upper, YELLOW)
        self.stage.mesh("object/box", drawn.recolored(YELLOW, 0.12))
        self._look()

    def _on_move(self, pose: Pose) -> None:
        """The gizmo was dragged; called in a thread of the pages."""
        self._session.desk.do(partial(self._dragged, pose), "object")

    def _dragged(self, pose: Pose) -> None:
        self._motion = pose @ np.linalg.inv(self._center)
        self._session.desk.later("moved", QUIET, self._look)

    def _put_back(self) -> None:
        if self._object is None:
            raise OptionError("nothing was moved: select the object first.")
        self._motion = np.eye(4)
        self.stage.place("object", self._center)
        self._look()


def _differences(
    pose: Pose, others: np.ndarray, predictor: Predictor
) -> tuple[np.ndarray, np.ndarray]:
    """Metres between contact points, and radians, from a pose to each of some others."""
    contact = predictor.gripper.T_gripper_contact
    angles, gaps = pose_distance(*map(torch.from_numpy, (pose @ contact, others @ contact)))
    return gaps.numpy(), angles.numpy()


class LookPanel:
    """Fields and buttons of the room.

    Args:
        session: The studio.
    """

    def __init__(self, session: Session) -> None:
        gui = session.server.gui
        self.folder = gui.add_folder("Look")
        with self.folder:
            self.model = gui.add_dropdown("Model", (NONE,), NONE)
            self.scene = SceneChoice(session, gui)
            self.layer = gui.add_dropdown("Key field", LAYERS, TYPE_0)
            self.queries = gui.add_checkbox("Query points", True)
            self.look = gui.add_button("Look", icon=viser.Icon.EYE)
            self.told = gui.add_markdown("")
            with gui.add_folder("Move the object"):
                self.size = gui.add_slider("Box / mm", 40.0, 400.0, 5.0, 200.0)
                self.select = gui.add_button("Select it by a box")
                self.click = gui.add_button("Put the box where I click", icon=viser.Icon.POINTER)
                self.back = gui.add_button("Put it back")
                self.moved = gui.add_markdown("")
