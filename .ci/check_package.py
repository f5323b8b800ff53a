"""Build the package, and use it as somebody who has nothing else would.

    python .ci/check_package.py

Builds the sdist, and from it the wheel, into dist/; checks what they hold, and that their README
renders; installs the wheel into an empty environment, with nothing but what it needs, and runs the
self-test, one scan, and a dataset, as the container does; and tests the sdist in the same way.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
IN_SDIST = (
    *("CHANGELOG.md", "CITATION.cff", "Dockerfile", "LICENSE", "Makefile", "README.md"),
    *("tests/conftest.py", ".ci/run"),
)

# Run in the new environment: a head with three tissues, for `ndflow normalise`.
PHANTOM = """
import nibabel, numpy, sys
random = numpy.random.default_rng(0)
axes = numpy.meshgrid(*[numpy.linspace(-1.1, 1.1, 40)] * 3, indexing="ij")
radius = numpy.sqrt(sum(axis**2 for axis in axes))
mean = numpy.array([1000, 700, 300])[numpy.digitize(radius, [0.6, 0.85])]
head = numpy.where(radius < 1, mean + 50 * random.standard_normal(radius.shape), 0)
nibabel.save(nibabel.Nifti1Image(head.astype("float32"), numpy.eye(4)), sys.argv[1])
"""
MEAN = """
import nibabel, numpy, sys
voxels = numpy.asarray(nibabel.load(sys.argv[1]).dataobj)
print(round(float(voxels[voxels != 0].mean())))
"""


def main() -> None:
    """Build, check, install and run."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    check_wheel(wheel)
    check_sdist(sdist)
    with TemporaryDirectory(prefix="ndflow-package-") as folder:
        environment = Path(folder, "environment")
        venv.create(environment)  # without pip: that of this environment installs into it
        binaries = environment / "bin"
        pip = (sys.executable, "-m", "pip", "--python", binaries / "python", "install")
        options = ("--quiet", "--disable-pip-version-check", "--no-compile")
        run(*pip, *options, wheel)
        check_installed(binaries)
        use(binaries, Path(folder))
        # What it requires is there: the wheel was built from it.
        run(*pip, *options, "--no-deps", "--force-reinstall", sdist)
        check_installed(binaries)
    print(f"{sdist.name} and {wheel.name} are complete, install and run")


def run(*words: object) -> str:
    """Run a command that must succeed, and return what it printed."""
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, env=outside)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_wheel(wheel: Path) -> None:
    """Fail unless the wheel holds the package, all of it, and nothing else."""
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in (source / "ndflow").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        text = archive.read(metadata).decode()
    if names != expected:
        sys.exit(f"{wheel.name}: missing {expected - names}, not of the package {names - expected}")
    if relative := re.findall(r"\]\((?!https://|#)([^)]*)\)", text):
        sys.exit(f"{wheel.name}: links of the README that lead nowhere on the index: {relative}")


def check_sdist(sdist: Path) -> None:
    """Fail unless the sdist holds what a packager needs, and no data."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    if missing := set(IN_SDIST) - names:
        sys.exit(f"{sdist.name}: {missing} are missing")
    if data := [name for name in names if name.endswith((".nii", ".nii.gz", ".pyc"))]:
        sys.exit(f"{sdist.name}: {data} do not belong there")


def check_installed(binaries: Path) -> None:
    """Fail unless this version is installed, works, and nothing else is there."""
    found = run(binaries / "ndflow", "doctor")  # fails if its self-test does
    version = re.search(r'__version__ = "(.*)"', (ROOT / "src/ndflow/_version.py").read_text())
    assert version is not None
    assert found.startswith(f"ndflow {version[1]}, "), found
    assert "[report] lacks" in found, "the environment was not empty"


def use(binaries: Path, folder: Path) -> None:
    """Normalise one scan, and a dataset as the container does."""
    python, ndflow = binaries / "python", binaries / "ndflow"
    anat = folder / "raw" / "sub-1" / "anat"
    anat.mkdir(parents=True)
    scan, out = anat / "sub-1_T1w.nii.gz", folder / "out.nii.gz"
    run(python, "-c", PHANTOM, scan)
    to = ("--to", "builtin:T1w", "--preset", "paper")  # whose mean does not depend on proportions
    run(ndflow, "normalise", scan, *to, "-o", out)
    mean = int(run(python, "-c", MEAN, out))
    assert abs(mean - 500) < 10, mean
    described = {"Name": "phantom", "BIDSVersion": "1.10.0"}
    (folder / "raw" / "dataset_description.json").write_text(json.dumps(described))
    entry = re.search(r"^ENTRYPOINT (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert entry is not None
    program, *words = json.loads(entry[1])
    app = (binaries / program, *words, folder / "raw", folder / "derivative")
    run(*app, "participant")
    run(*app, "group", "--no-report")
    assert list((folder / "derivative").rglob("*_desc-ndflow_T1w.nii.gz"))


if __name__ == "__main__":
    main()
