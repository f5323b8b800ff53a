"""Tasks on a Dask cluster whose scheduler and workers were started separately."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from commands import typed, wait_until
from phantoms import head, save
from studies import SMALL, results_of

from ndflow.errors import FileError
from ndflow.study import tasks
from ndflow.study.tasks import Task, connect, run_tasks

pytest.importorskip("distributed")

DASK = [sys.executable, "-m", "dask"]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The scheduler file of a cluster with two workers."""
    with cluster(tmp_path_factory.mktemp("cluster"), 2) as file:
        yield file


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Path]:
    """Start a scheduler and workers, and give the file that the scheduler writes."""
    file = folder / "scheduler.json"
    shared = ["--scheduler-file", str(file), "--no-dashboard", "--host", "tcp://127.0.0.1"]
    commands = [
        [*DASK, "scheduler", "--port", "0", *shared],
        [*DASK, "worker", "--nworkers", str(workers), "--nthreads", "1", *shared],
    ]
    processes: list[subprocess.Popen[bytes]] = []
    with (folder / "log").open("w") as log, ExitStack() as ending:
        ending.callback(end, processes)
        for command in commands:
            how: dict[str, Any] = {"stdout": log, "stderr": log, "cwd": folder}
            processes.append(subprocess.Popen(command, start_new_session=True, **how))
            wait_until(file.exists)
        with connect(str(file)) as client:  # a worker that dies while others start ends them all
            client.wait_for_workers(workers)
            state = partial(client.run, lambda dask_worker: dask_worker.status.name, nanny=True)
            wait_until(lambda: {*state().values()} == {"running"})
        yield file


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End processes, and those that they have started."""
    for process in reversed(processes):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_a_study_is_the_same_on_a_cluster_as_here(scheduler: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for seed in range(2):
        save(tmp_path / "in" / f"s{seed}.nii.gz", head(seed, shape=SMALL))
    (tmp_path / "in" / "broken.nii.gz").write_bytes(b"broken")
    for name, words in {"here": (), "there": ("--scheduler", scheduler)}.items():
        typed("cohort", tmp_path / "in", tmp_path / name, "-q", "--no-report", *words, code=1)
    assert results_of(tmp_path / "there") == results_of(tmp_path / "here")


@pytest.mark.slow
def test_a_worker_that_dies_costs_only_its_scan(scheduler: Path) -> None:
    def work(number: int) -> int:
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * number

    given = [Task(f"scan{number}", {"number": number}) for number in range(4)]
    outcomes = list(run_tasks(work, given, scheduler=str(scheduler)))
    assert [outcome.result for outcome in outcomes] == [0, None, 20, 30]
    failure = outcomes[1].failure
    assert failure is not None
    assert failure.message.startswith("scan1: its process was killed")


@pytest.mark.slow
def test_a_cluster_that_ends_is_reported(tmp_path: Path) -> None:
    import dask

    said: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = said.append  # type: ignore[method-assign]

    def work(seconds: int) -> int:
        time.sleep(seconds)
        return seconds

    given = [Task("now", {"seconds": 0}), Task("later", {"seconds": 600})]
    with (
        cluster(tmp_path, 1) as file,
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
    ):
        outcomes = run_tasks(work, given, scheduler=str(file))
        assert next(outcomes).result == 0
        logging.getLogger("distributed.client").addHandler(handler)
        connect(str(file)).shutdown()
        with pytest.raises(FileError, match="the cluster was lost") as caught:
            next(outcomes)
    assert caught.value.path == str(file)
    assert "again" in caught.value.hint
    assert not said  # by Dask, in many lines


def test_waiting_for_workers_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    there: list[dict[str, int]] = [{}, {}, {"worker": 1}, {}, {}]  # whenever somebody asks
    returned = threading.Event()

    class Client:
        close = returned.set

        def get_executor(self, *, pure: bool) -> ThreadPoolExecutor:
            return ThreadPoolExecutor(1)

        def nthreads(self) -> dict[str, int]:
            if len(there) == 1:
                returned.set()
            return there.pop(0) if there else {}

    monkeypatch.setattr(tasks, "connect", lambda scheduler: Client())
    monkeypatch.setattr(tasks._Cluster, "patience", 0.001)
    (outcome,) = run_tasks(returned.wait, [Task("scan", {"timeout": 60})], scheduler="tcp://there")
    assert outcome.result
    said = ["tcp://there: has no workers" in record.message for record in caplog.records]
    assert said == [True, True]  # and again when they have gone again


@pytest.mark.parametrize("content", ["[]", '{"address": 1}', "\xff", None])
def test_another_file_or_none_is_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "scheduler"
    if content is not None:
        file.write_text(content, "latin-1")
    with pytest.raises(FileError, match=r"not a scheduler file of Dask|no such file") as caught:
        connect(str(file))
    assert caught.value.path == str(file)
