"""All methods of the registry by name, and short ways to call them."""

from importlib import import_module
from typing import Any

import pytest

from ndflow import Histogram, InvalidValueError, Landmarks
from ndflow.methods.base import Method, method_of
from ndflow.methods.landmark_method import Joined, LandmarkMethod
from ndflow.methods.matching import Matching
from ndflow.methods.registry import METHODS

EVERY_METHOD: dict[str, Method] = {
    method.name: method
    for module in dict.fromkeys(METHODS.values())
    for method in import_module(f"ndflow.methods.{module}").METHODS
}
LANDMARK_METHODS: dict[str, LandmarkMethod] = {
    name: method for name, method in EVERY_METHOD.items() if isinstance(method, LandmarkMethod)
}


def installed(name: str) -> Method:
    """Return a method as users get it; skip the test where its package is not installed."""
    try:
        return method_of(Matching(method=name))
    except InvalidValueError as error:
        if "not installed" not in str(error):
            raise
        pytest.skip(str(error))


def measure(name: str, histogram: Histogram, **options: Any) -> Landmarks:
    """Return the landmarks of a scan that a method looks at."""
    return LANDMARK_METHODS[name].measure(histogram, Matching(method=name, **options))


def join(own: Landmarks, target: Landmarks) -> Joined:
    """Return the map from the landmarks of a scan to those of a target."""
    return LANDMARK_METHODS[own.method].join(own.values, target.values)
