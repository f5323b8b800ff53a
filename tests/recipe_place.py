"""A folder in which the commands of docs/guides/workflows.md can be run, for ``tests/recipes``."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from commands import typed
from phantoms import head, save
from studies import content, write_tsv

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guides" / "workflows.md"
SUBJECTS = ("sub-01", "sub-02")


@dataclass(frozen=True)
class Place:
    """A folder with a study of two scans, and with the recipes."""

    path: Path

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in a shell that finds the programs."""
        programs = (Path(os.environ["NDFLOW_RECIPES"]).absolute(), Path(sys.executable).parent)
        here = {
            "PATH": os.pathsep.join((*map(str, programs), os.environ["PATH"])),
            "HOME": str(self.path.parent),  # where some of them keep things
            "NO_ET": "1",  # Nipype does not ask the network whether it is up to date
        }
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.path,
            env=os.environ | here,
            capture_output=True,
            text=True,
        )

    def well(self, command: str) -> str:
        """Run a command that must succeed, and return all that it printed."""
        done = self.run(command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def by_hand(self, name: str = "by hand") -> dict[str, bytes]:
        """Return the images that the commands give when they are typed one by one."""
        folder = self.path / name
        folder.mkdir()
        images = {one: self.path / f"scans/{one}_T1w.nii.gz" for one in SUBJECTS}
        masks = {one: self.path / f"scans/{one}_mask.nii.gz" for one in SUBJECTS}
        mixtures = [folder / f"{one}_mixture.json" for one in SUBJECTS]
        for one, mixture in zip(SUBJECTS, mixtures, strict=True):
            typed("fit", images[one], "--mask", masks[one], "-o", mixture, "-q")
        reference = folder / "reference.json"
        typed("reference", *mixtures, "--channel", "T1w", "-o", reference, "-q")
        made = {}
        for one in SUBJECTS:
            result = folder / f"{one}.nii.gz"
            typed("normalise", images[one], "--mask", masks[one], "--to", reference, "-o", result)
            made[one] = content(result)
        return made

    def images(self, pattern: str) -> dict[str, bytes]:
        """Return the images of all subjects, each of which must have a sidecar."""
        files = {one: self.path / pattern.format(one) for one in SUBJECTS}
        assert all(path.with_name(f"{path.name[:-7]}.json").exists() for path in files.values())
        return {one: content(path) for one, path in files.items()}

    def change(self, subject: str) -> None:
        """Replace the scan of a subject by another."""
        save(self.path / f"scans/{subject}_T1w.nii.gz", head(9, shape=(24, 28, 20)))


def place_in(folder: Path) -> Place:
    """Fill a folder with two scans, their masks and a table."""
    (folder / "scans").mkdir()
    rows = []
    for number, one in enumerate(SUBJECTS):
        voxels = head(number, shape=(24, 28, 20), gain=1 + number)
        save(folder / f"scans/{one}_T1w.nii.gz", voxels)
        save(folder / f"scans/{one}_mask.nii.gz", (voxels > 0).astype(np.uint8))
        files = {"image": f"scans/{one}_T1w.nii.gz", "mask": f"scans/{one}_mask.nii.gz"}
        rows.append({**files, "lesion": "n/a", "site": "Bonn"})
    write_tsv(folder / "study.tsv", rows)
    return Place(folder)


def command_of_page(first: str, last: str = "") -> str:
    """Return the one command on the page that begins and ends with these words."""
    lines = [line for block in _blocks("sh") for line in block.splitlines()]
    (found,) = (one for one in lines if one.startswith(f"{first} ") and one.endswith(last))
    return found


def block_of_page(language: str, word: str) -> str:
    """Return the one block on the page that has this word."""
    (found,) = (block for block in _blocks(language) if word in block)
    return found


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
