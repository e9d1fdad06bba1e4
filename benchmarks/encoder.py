"""Our encoders against the same architecture on e3nn's FullyConnectedTensorProduct, in one run.

    python benchmarks/encoder.py                      # on the project's own sample
    python benchmarks/encoder.py --demos out/mug      # on a scene of a demonstration folder

Prints the ratio of times of one forward and backward pass for the depthwise and the dense
convolution, how the time grows with the number of
edges, how many positions of the field are evaluated in a second, and how much
slower a pass over a large cloud is when the allocator does not keep freed memory.
"""

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from e3nn import o3
from torch import Tensor, nn

from handful.clouds import PointCloud, radius_graph, voxel_filter
from handful.demos import load_demos, make_sample
from handful.models import DescriptorField, EncoderConfig
from handful.nn import (
    DepthwiseTransformerLayer,
    EdgeGeometry,
    RadialNetwork,
    TransformerLayer,
    Types,
    keep_freed_memory,
    return_freed_memory,
)

RADIUS = 0.045


class E3nnTransformerLayer(TransformerLayer):
    """The same layer with messages from e3nn's tensor product and weights for each edge."""

    def __init__(self, in_degree: int, degree: int, channels: int, heads: int = 4) -> None:
        super().__init__(in_degree, degree, channels, heads)
        irreps = [
            o3.Irreps([(channels, (d, 1)) for d in range(top + 1)]) for top in (in_degree, degree)
        ]
        keys = heads * self._key_channels
        self._harmonics = o3.Irreps([(1, (d, 1)) for d in range(degree + 1)])
        self._product = o3.FullyConnectedTensorProduct(
            irreps[0], self._harmonics, irreps[1] + o3.Irreps([(keys, (0, 1))]),
            shared_weights=False, internal_weights=False,
        )  # fmt: skip
        self._radial = RadialNetwork(8, 32, self._product.weight_numel)

    def _attend(self, features: Tensor, edges: EdgeGeometry) -> Tensor:
        def flat(values: Tensor, degree: int) -> Tensor:
            blocks = values.split([2 * d + 1 for d in range(degree + 1)], dim=1)
            return torch.cat([block.transpose(1, 2).flatten(1) for block in blocks], 1)

        harmonics = o3.spherical_harmonics(self._harmonics, edges.direction, True, "component")
        sources = flat(features, self._in_degree).index_select(0, edges.source)
        out = self._product(sources, harmonics, self._radial(edges.length))
        channels = features.shape[2]
        sizes = [channels * (2 * d + 1) for d in range(self.degree + 1)]
        *blocks, keys = out.split([*sizes, out.shape[1] - sum(sizes)], dim=1)
        messages = torch.cat(
            [b.unflatten(1, (channels, -1)).transpose(1, 2) for b in blocks], dim=1
        )
        strength = self._strength(self._queries(features[:, 0]), keys, edges)
        return self._weighted_mean([(edges, messages, strength)], edges.targets, messages.shape[1])


def encoder(layer: type[TransformerLayer], config: EncoderConfig) -> nn.ModuleList:
    return nn.ModuleList(
        layer(config.degree, config.degree, config.channels, config.heads)
        for _ in range(config.layers)
    )


def pass_over(layers: nn.ModuleList, cloud: PointCloud, backward: bool = True) -> None:
    """Graph, geometry, forward and backward, as one training step does them."""
    points = torch.tensor(cloud.points)
    found = radius_graph(cloud.points, RADIUS)
    edges = EdgeGeometry.between(
        torch.from_numpy(found.target), torch.from_numpy(found.source), points, points, RADIUS
    )
    channels = layers[0]._queries.in_features
    components = (layers[0].degree + 1) ** 2
    features = torch.ones(len(points), components, channels)
    for layer in layers:
        features = layer(features, edges)
    if backward:
        features.square().mean().backward()


def seconds(work: Callable[[], None], repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demos", help="a demonstration folder to take the scene from")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # e3nn's, of torch.jit
    torch.set_num_threads(options.threads)
    keep_freed_memory()  # as the command line does
    torch.manual_seed(0)
    demos = load_demos(options.demos) if options.demos else make_sample(1)
    raw = demos[0].steps[0].scene
    scene = voxel_filter(raw, 0.017)
    count = len(radius_graph(scene.points, RADIUS).target)
    config = EncoderConfig(radius=RADIUS, layers=3, degree=2, channels=16)
    print(f"scene: {len(scene)} points, {count} edges; {config.layers} layers, degree "
          f"{config.degree}, {config.channels} channels, {options.threads} thread(s)")  # fmt: skip
    kinds = {"depthwise": DepthwiseTransformerLayer, "dense": TransformerLayer}
    encoders = {name: encoder(kind, config) for name, kind in kinds.items()}
    theirs = encoder(E3nnTransformerLayer, config)
    for name, backward in (("forward", False), ("forward + backward", True)):
        slow = seconds(lambda b=backward: pass_over(theirs, scene, b), 1)
        for kind, ours in encoders.items():
            fast = seconds(lambda o=ours, b=backward: pass_over(o, scene, b), 5)
            print(f"{name:20s} e3nn {slow:7.3f} s / {kind:9s} {fast:7.3f} s = {slow / fast:5.1f}x")
    ours = encoders["depthwise"]
    field = DescriptorField(
        EncoderConfig(radius=RADIUS, convolution="depthwise"), Types((16, 8, 4, 4))
    )
    with torch.no_grad():
        prepared = field(raw)
        near = prepared.encoded.points[torch.randint(len(prepared.encoded.points), (10_000,))]
        near = near + 0.01 * torch.randn_like(near)
        asked = seconds(lambda: prepared(near), 3)
        encoded = seconds(lambda: field(raw), 3)
    print(f"default field: encoding {encoded:.3f} s, then {10_000 / asked:,.0f} positions a second")
    print("growth with the number of points (forward + backward, same density):")
    base = None
    for points in (500, 2000, 8000):
        cloud = flat_cloud(points)
        edges = len(radius_graph(cloud.points, RADIUS).target)
        rate = seconds(lambda c=cloud: pass_over(ours, c), 3) / edges * 1e6
        base = base or rate
        growth = f"{rate:6.2f} us an edge = {rate / base:4.2f}x the first"
        print(f"  {points:5d} points {edges:7d} edges {growth}")
    kept = seconds(lambda: pass_over(ours, cloud), 3)
    return_freed_memory()
    returned = seconds(lambda: pass_over(ours, cloud), 3)
    print(f"8000 points without kept memory: {returned:.3f} s / {kept:.3f} s = "
          f"{returned / kept:.2f}x")  # fmt: skip


def flat_cloud(points: int) -> PointCloud:
    """A rough surface whose points are as dense as those of a voxel-filtered scene."""
    rng = np.random.default_rng(0)
    side = 0.0145 * points**0.5
    xyz = np.column_stack([rng.uniform(0, side, (points, 2)), rng.normal(0, 0.005, points)])
    return PointCloud(xyz)


if __name__ == "__main__":
    main()
