"""Studies that are stopped by a signal at a random moment, and then run again."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from commands import NDFLOW
from fuzz.conftest import Fuzz
from fuzz.judge import typed_in
from fuzz.small_study import SmallStudy
from studies import contents

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]
FILES = 9  # that a run makes, at most


@cache
def expected() -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        study = SmallStudy(Path(folder)).fill()
        assert typed_in("", *study.words()).code == 0
        return results(study)


def results(study: SmallStudy) -> dict[str, bytes]:
    """Return images and models, which do not depend on the folder that they are in."""
    found = contents(study.out).items()
    return {name: part for name, part in found if name.startswith(("images", "models"))}


def stopped(random: Random, folder: Path) -> bool:
    study = SmallStudy(folder).fill()
    words = [str(word) for word in study.words("-j", random.choice([1, 1, 2]))]
    number, whole_group = random.choice(SIGNALS), random.random() < 0.5
    # Not before the first file: what Python says when it is interrupted at its start is its own.
    files, pause = random.randrange(1, FILES), random.random() * 0.05
    # Workers may outlive a process that is killed, so stderr is no pipe that they keep open.
    with (
        (folder / "err").open("wb") as err,
        subprocess.Popen(
            [*NDFLOW, *words],
            stderr=err,
            start_new_session=True,
            env=os.environ | {"JOBLIB_TEMP_FOLDER": str(folder)},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as child,
    ):
        try:
            while child.poll() is None and sum(map(Path.is_file, study.out.rglob("*"))) < files:
                time.sleep(0.002)
            time.sleep(pause)
            if child.poll() is None and whole_group:
                os.killpg(child.pid, number)
            else:
                child.send_signal(number)
            child.wait(timeout=90)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode in (0, 128 + number, -number), (folder / "err").read_text()
    for name, content in results(study).items():
        assert name.endswith(".tmp") or content == expected()[name], f"{name} is damaged"
    assert typed_in("", *study.words()).code == 0
    assert results(study) == expected()
    for left in Path("/dev/shm").glob(f"sem.loky-{child.pid}-*"):
        left.unlink(missing_ok=True)
    return child.returncode == 0


def test_signals(fuzz: Fuzz) -> None:
    fuzz(stopped, 3, slow=True, both=False)
