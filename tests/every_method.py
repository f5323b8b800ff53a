"""All methods of the registry by name, and short ways to call them."""

from importlib import import_module
from typing import Any

from ndflow import Histogram
from ndflow.methods.base import LandmarkMethod, Method, Solution
from ndflow.options import METHODS, Options
from ndflow.population import Landmarks

EVERY_METHOD: dict[str, Method] = {
    method.name: method
    for module in dict.fromkeys(METHODS.values())
    for method in import_module(f"ndflow.methods.{module}").METHODS
}
LANDMARK_METHODS: dict[str, LandmarkMethod] = {
    name: method for name, method in EVERY_METHOD.items() if isinstance(method, LandmarkMethod)
}


def measure(name: str, histogram: Histogram, **options: Any) -> Landmarks:
    """Return the landmarks of a scan that a method looks at."""
    return LANDMARK_METHODS[name].measure(histogram, Options(method=name, **options))


def join(own: Landmarks, target: Landmarks) -> Solution:
    """Return the map from the landmarks of a scan to those of a target."""
    return LANDMARK_METHODS[own.method].join(own.values, target.values)
