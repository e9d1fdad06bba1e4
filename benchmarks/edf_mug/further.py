"""Judge a trained run on further scenes of the paper's authors, which it was not trained on.

    handful import edf DEMOS --out out/mug && handful train out/mug --out runs/edf
    handful import edf MORE --out out/more
    python benchmarks/edf_mug/further.py --run runs/edf --demos out/more --picture out/further.png

For each scene and step: the verdict on the best pose, its confidence, and the share of the best ten
that are good. A scene whose mug or hanger the judge cannot fit is said to be so and counts for
nothing; look at the picture.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edf_mug.evaluate import JUDGED, judged
from edf_mug.variants import make_variant
from handful.demos import load_demos
from handful.learning import RunFolder
from handful.render import tile
from handful.viz import picture_of_inference


def main() -> None:
    options = _options()
    demos, run = load_demos(options.demos), RunFolder(options.run)
    pictures = []
    for step in run.task:
        predictor, good, told = run.predictor(step.name), 0, 0
        for demo in demos:
            test = make_variant(demo, step.name, "as_is", 0)
            grasp = test.grasp if step.action.holding else None
            found = predictor.sample(test.scene, grasp)
            try:
                verdicts = judged(test, found.T_scene_gripper[:JUDGED], demos.gripper)
            except ValueError as error:
                print(f"{step.name} {demo.name}: the judge cannot tell: {error}")
                verdicts = []
            if verdicts:
                told, good = told + 1, good + verdicts[0].ok
                share = sum(verdict.ok for verdict in verdicts) / len(verdicts)
                why = "good" if verdicts[0].ok else "; ".join(verdicts[0].reasons)
                print(f"{step.name} {demo.name}: confidence {found.confidence[0]:.2f}, {why}; "
                      f"{share:.0%} of the best {len(verdicts)} are good", flush=True)  # fmt: skip
            pictures.append(
                picture_of_inference(
                    test.scene, found.T_scene_gripper[:1], predictor.gripper, grasp=grasp
                )
            )
        print(f"{step.name}: {good} of {told} good")
    if options.picture:
        tile(pictures, len(demos), [""] * len(pictures), "").save(options.picture)
        print(f"Picture: {options.picture}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="of `handful train`")
    parser.add_argument("--demos", type=Path, required=True, help="demonstrations to judge on")
    parser.add_argument("--picture", type=Path, help="draw the best poses: .png")
    return parser.parse_args()


if __name__ == "__main__":
    main()
