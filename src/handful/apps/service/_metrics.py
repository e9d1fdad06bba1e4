"""Figures for Prometheus: requests, times, workers, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from starlette.types import Scope

SECONDS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Metrics:
    """Counts what happens, in a registry of its own.

    Args:
        figures: Of the workers; see `Pool.figures`.
    """

    def __init__(self, figures: Callable[[], dict[str, float]]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "handful_requests", "Requests by route and status.", ("route", "status"),
            registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "handful_request_seconds", "Time of requests by route.", ("route",), buckets=SECONDS,
            registry=self._registry,
        )  # fmt: skip
        self._inference = Histogram(
            "handful_inference_seconds", "Time of inference by step.", ("step",), buckets=SECONDS,
            registry=self._registry,
        )  # fmt: skip
        self._registry.register(_Workers(figures))
        ProcessCollector(registry=self._registry)

    def request(self, scope: Scope, status: int, seconds: float) -> None:
        """A request was answered; 499 means that the caller had gone."""
        route = getattr(scope.get("route"), "path", "none")
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def inference(self, step: str, seconds: float) -> None:
        """A model answered."""
        self._inference.labels(step).observe(seconds)

    def text(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)


class _Workers(Collector):
    """Figures of the workers when they are asked for."""

    def __init__(self, figures: Callable[[], dict[str, float]]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """One gauge for each figure."""
        for name, value in self._figures().items():
            unit = "memory_bytes" if name == "memory" else name
            yield GaugeMetricFamily(f"handful_workers_{unit}", f"Workers: {name}.", value)
