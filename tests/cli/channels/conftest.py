"""Subjects with two channels, their densities, and references of them, made once."""

import pytest
from channel_phantoms import Desk, save_channels, words
from commands import typed


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    folder = tmp_path_factory.mktemp("channels")
    for how, options in {"separate": (), "joint": ("--joint",)}.items():
        models = []
        for seed, gains in {1: (1.3, 0.7), 2: (0.8, 1.1)}.items():
            files = save_channels(folder, seed, gains=gains, correlation=0.6)
            models.append(folder / f"{how}{seed}.json")
            typed("fit", *words(files), *options, "-o", models[-1], "-q")
        typed("reference", *models, "-o", folder / f"{how}.json", "-q")
    files = save_channels(folder, 0)
    return Desk(folder, files, folder / "separate.json", folder / "joint.json")
