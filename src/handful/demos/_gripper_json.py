"""The gripper object of `demos.json`, and of a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from handful._files import atomic_write_text
from handful._strict_json import Fields, read_json
from handful.demos._cloud_folder import member_path
from handful.demos._gripper import ContactFrame, Gripper, HandBox, HandShape, gripper_from_tip
from handful.demos._hand_mesh import HandMesh, obj_text, read_hand_meshes
from handful.demos._hands import HANDS, gripper_named
from handful.demos._poses import QUATERNION_ORDERS, numbers_from_json
from handful.errors import DemoError, errors_at, unknown_name_message

MESH_FILE = "hand.obj"
WHAT_TO_WRITE = (
    'write "gripper": {"contact": {"position": [x, y, z], "quat_wxyz": [w, x, y, z]}, "axis": "x", '
    '"opening": 0.08} with lengths in metres, or "gripper": "NAME" with one of the known hands '
    f"{', '.join(sorted(HANDS))}"
)
"""For messages about a gripper that is missing or has a field missing."""

_NO_TURN = (1.0, 0.0, 0.0, 0.0)
_TIP_OF_VERSION_1, _OPENING_OF_VERSION_1, _AXIS_OF_VERSION_1 = 0.15, 0.08, "x"


def load_gripper(name_or_file: str | Path) -> Gripper:
    """A gripper by the name of a known hand, or from a JSON file with the object of the format.

    Args:
        name_or_file: The name or the path. A name of a known hand wins over a file of that name.

    Raises:
        HandfulError: There is neither, or the file is wrong.
    """
    text, path = str(name_or_file), Path(name_or_file)
    if text in HANDS:
        return HANDS[text]
    if path.suffix.lower() != ".json":
        raise DemoError(
            f"{unknown_name_message('gripper', text, HANDS)} For another hand give a .json file "
            'with {"contact": {"position": [x, y, z], "quat_wxyz": [w, x, y, z]}, "axis": "x", '
            '"opening": 0.08}, lengths in metres.'
        )
    return gripper_from_json(read_json(path), str(path), path.parent)


def gripper_from_json(value: Any, address: str, folder: Path) -> Gripper:
    """The gripper of version 2: the name of a known hand, or an object that describes one.

    Args:
        value: What the file holds.
        address: File and field, for messages.
        folder: Where a mesh that it names is.

    Raises:
        HandfulError: Something is missing or wrong; the message says what to write.
    """
    if isinstance(value, str):
        with errors_at(address):
            return gripper_named(value)
    if not isinstance(value, dict):
        raise DemoError(f"{address}: is neither an object nor a name: {WHAT_TO_WRITE}.")
    fields = Fields(value, address, DemoError)
    for name in ("contact", "axis", "opening"):
        if not fields.has(name):
            raise DemoError(f"{address}: field {name!r} is missing: {WHAT_TO_WRITE}.")
    contact = _contact(fields.any("contact"), f"{address}: contact")
    axis, opening = fields.text("axis"), fields.number("opening")
    where = f"{address}: shape"
    shape = _shape(fields.any("shape"), where, folder) if fields.has("shape") else None
    name = fields.text("name", "")
    fields.done()
    with errors_at(address):
        return Gripper(contact, axis, opening, shape, name)


def gripper_from_json_1(value: Any, address: str) -> Gripper:
    """The gripper of version 1: height of the finger tips, opening and axis, each with a default.

    Args:
        value: What the file holds; an empty object when it says nothing of the gripper.
        address: File and field, for messages.
    """
    fields = Fields(value, address, DemoError)
    tip = fields.number("tip", _TIP_OF_VERSION_1)
    opening = fields.number("opening", _OPENING_OF_VERSION_1)
    axis = fields.text("axis", _AXIS_OF_VERSION_1)
    fields.done()
    with errors_at(address):
        return gripper_from_tip(tip, opening, axis)


def gripper_to_json(gripper: Gripper, folder: Path) -> dict[str, Any]:
    """The object that `gripper_from_json` reads back as an equal gripper.

    Args:
        gripper: What to write.
        folder: Where its meshes are written, if it has any, as `hand.obj`.
    """
    value: dict[str, Any] = {"name": gripper.name} if gripper.name else {}
    value["contact"] = _placed("position", gripper.contact.position, gripper.contact.quat_wxyz)
    value |= {"axis": gripper.axis, "opening": gripper.opening}
    if gripper.shape is not None:
        value["shape"] = _shape_to_json(gripper.shape, folder)
    return value


def _contact(value: Any, address: str) -> ContactFrame:
    fields = Fields(value, address, DemoError)
    if not fields.has("position"):
        raise DemoError(
            f"{address}: field 'position' is missing: write the point where an object is held as "
            "[x, y, z] in the gripper frame, metres."
        )
    position = _numbers(fields, "position", 3)
    quat_wxyz = _quaternion(fields)
    fields.done()
    with errors_at(address):
        return ContactFrame(position, quat_wxyz)


def _shape(value: Any, address: str, folder: Path) -> HandShape:
    fields = Fields(value, address, DemoError)
    listed = fields.items("boxes") if fields.has("boxes") else []
    boxes = tuple(_box(box, where) for where, box in listed)
    meshes: tuple[HandMesh, ...] = ()
    if fields.has("mesh"):
        where = f"{address}: field 'mesh'"
        path = member_path(folder, fields.text("mesh"), where)
        with errors_at(where):
            meshes = read_hand_meshes(path)
    fields.done()
    with errors_at(address):
        return HandShape(boxes, meshes)


def _box(value: Any, address: str) -> HandBox:
    fields = Fields(value, address, DemoError)
    center, size = _numbers(fields, "center", 3), _numbers(fields, "size", 3)
    quat_wxyz, side = _quaternion(fields), fields.integer("side", 0)
    fields.done()
    with errors_at(address):
        return HandBox(center, size, quat_wxyz, side)


def _quaternion(fields: Fields) -> tuple[float, ...]:
    """The object's quaternion in the order wxyz; no rotation when it has none."""
    if not any(fields.has(order) for order in QUATERNION_ORDERS):
        return _NO_TURN
    order = fields.choose(QUATERNION_ORDERS)
    values = _numbers(fields, order, 4)
    return tuple(values[index] for index in QUATERNION_ORDERS[order])


def _numbers(fields: Fields, name: str, count: int) -> tuple[float, ...]:
    values = numbers_from_json(fields.any(name), (count,), f"{fields.address}: field {name!r}")
    return tuple(values.tolist())


def _shape_to_json(shape: HandShape, folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = {}
    if shape.boxes:
        value["boxes"] = [_box_to_json(box) for box in shape.boxes]
    if shape.meshes:
        atomic_write_text(folder / MESH_FILE, obj_text(shape.meshes))
        value["mesh"] = MESH_FILE
    return value


def _box_to_json(box: HandBox) -> dict[str, Any]:
    value = {**_placed("center", box.center, box.quat_wxyz), "size": list(box.size)}
    return {**value, "side": box.side} if box.side else value


def _placed(name: str, position: tuple[float, ...], quat_wxyz: tuple[float, ...]) -> dict[str, Any]:
    value: dict[str, Any] = {name: list(position)}
    return value if quat_wxyz == _NO_TURN else {**value, "quat_wxyz": list(quat_wxyz)}
