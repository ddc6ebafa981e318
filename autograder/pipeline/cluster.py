# pyright: basic, reportMissingImports=false
# Dask is an extra, which most environments lack.
"""Has many workers grade at once, by Dask: a cluster of its own on this machine, or any whose scheduler is named.

Each Dask worker keeps one process that grades (`worker.Grader`). A worker takes submissions only once that process is
up, has the coordinator's version of the course and can isolate students' code: until then it lacks the resource that
each of them asks for, so Dask hands it none. What a worker had when it died, Dask hands to another one.
"""

import asyncio
import logging
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any

import dask.config
from distributed import Client, Scheduler, SpecCluster, Worker, as_completed, get_worker
from distributed.client import ClosedClientError
from distributed.comm.core import CommClosedError
from distributed.core import Status
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.utils import silence_logging_cmgr

from autograder.pipeline.course import Failed
from autograder.pipeline.worker import Grader

RESOURCE = "autograder"  # of which a worker that may grade has one
AHEAD = 3  # submissions for each worker that are on their way
STARTING = "it is starting"


class WithoutPages:
    """For what of Dask runs in this process: it opens no port, not even for Dask's pages about itself."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Do nothing; Dask has no setting for it."""


class OwnScheduler(WithoutPages, Scheduler):
    """The scheduler of workers on this machine."""


class OwnWorker(WithoutPages, Worker):
    """One of them."""


class GraderPlugin(WorkerPlugin):
    """What makes a Dask worker grade.

    Args:
        versions: those of the coordinator, as of `worker.versions`.
        isolated: whether students' code is run in a sandbox.
    """

    name = RESOURCE

    def __init__(self, versions: dict[str, str], isolated: bool) -> None:
        self.versions, self.isolated = versions, isolated
        self.why_not = STARTING  # "" once it may grade
        self.weaker = ""  # why it isolates less well than it could, as a sentence

    def setup(self, worker: Any) -> None:
        """Start the process, without keeping the worker from answering meanwhile."""
        self._grader = Grader(self.versions, self.isolated)
        self._starting = asyncio.ensure_future(self._start(worker))

    async def _start(self, worker: Any) -> None:
        await worker.set_resources(**{RESOURCE: 0})  # it may have been there for an earlier run
        try:
            await asyncio.to_thread(self._grader.start)
        except Exception as problem:
            self.why_not = str(problem)
            return
        self.why_not, self.weaker = "", self._grader.weaker
        await worker.set_resources(**{RESOURCE: 1})
        # Only a worker that begins to run has the scheduler look again for what waits for its resources.
        worker.status = Status.paused
        worker.status = Status.running

    def grade(self, request: bytes) -> bytes:
        """The process's answer."""
        return self._grader.ask(request)

    async def teardown(self, worker: Any) -> None:
        """End the process with the worker."""
        await asyncio.to_thread(self._grader.close)


def _state(dask_worker: Any) -> tuple[str, str]:
    plugin = dask_worker.plugins[RESOURCE]
    return plugin.why_not, plugin.weaker


class Cluster:
    """Workers that grade, of a scheduler that runs.

    Args:
        client: connected to it.
        versions: those of the coordinator.
        isolated: whether students' code is run in a sandbox.
        say: called with a sentence for each worker that takes no work.

    Raises:
        Failed: no worker can grade.
    """

    def __init__(self, client: Client, versions: dict[str, str], isolated: bool, say: Callable[[str], None]) -> None:
        self._client, self._say = client, say
        self._warned: set[str] = set()
        self.workers = 0
        for attempts_left in (2, 1, 0):
            try:
                client.register_plugin(GraderPlugin(versions, isolated))
                break
            except OSError:  # a worker was lost just now, or cannot be reached any more, or else the scheduler
                if not attempts_left:
                    raise
                time.sleep(1)
        if not client.nthreads():
            say("The scheduler has no worker yet.")
        while not self.look():
            time.sleep(0.5)

    def look(self) -> int:
        """Count the workers that may grade, and say of others why they may not, and who isolates less well.

        Raises:
            Failed: there are some, and none may.
        """
        states: Any = self._client.run(_state, on_error="ignore")
        for address, (why, weaker) in sorted(states.items()):
            if why not in ("", STARTING) and address not in self._warned:
                self._warned.add(address)
                self._say(f"The worker {address} takes no work: {why.rstrip('.')}.")
            if weaker and weaker not in self._warned:  # which on one machine all of them say
                self._warned.add(weaker)
                self._say(f"WARNING: {weaker} (the worker {address}).")
        if states and not any(why in ("", STARTING) for why, _ in states.values()):
            raise Failed("No worker can grade; why, stands above.")
        self.workers = sum(not why for why, _ in states.values())
        return self.workers

    def graded(self, jobs: Iterator[tuple[Any, Callable[[], bytes]]]) -> Generator[tuple[Any, bytes | Exception]]:
        """Have all jobs done, each once.

        Args:
            jobs: each what it is known by, and what makes its request.

        Yields:
            what a job is known by, and its answer or what kept it from one, as they come.
        """

        def grade(request: bytes) -> bytes:  # of no module: the scheduler has to read it, and may lack the course
            plugin: Any = get_worker().plugins[RESOURCE]
            return plugin.grade(request)

        known: dict[Any, Any] = {}
        running = as_completed(loop=self._client.loop)

        def hand_out() -> None:
            # Also while there is no worker: what is on its way is answered before anybody looks how many came.
            while len(known) < AHEAD * max(self.workers, 1) and (job := next(jobs, None)) is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that a request is large
                    future = self._client.submit(grade, job[1](), pure=False, resources={RESOURCE: 1})
                known[future.key] = job[0]
                running.add(future)

        hand_out()
        while known:
            future = next(running)
            try:
                answer: bytes | Exception = future.result()
            except (CancelledError, CommClosedError):  # the scheduler is gone, which is nothing of the submission
                raise
            except Exception as problem:
                answer = problem
            known_by = known.pop(future.key)
            del future
            hand_out()
            yield known_by, answer


@contextmanager
def cluster(
    scheduler: str | None,
    workers: int,
    versions: dict[str, str],
    isolated: bool,
    say: Callable[[str], None],
    folder: str,
) -> Generator[Cluster]:
    """Workers that grade, for as long as the block runs.

    Args:
        scheduler: the address of a Dask scheduler; None has workers started on this machine.
        workers: how many are started.
        versions: those of the coordinator.
        isolated: whether students' code is run in a sandbox.
        say: called with a sentence for each worker that takes no work.
        folder: where Dask may keep files.

    Raises:
        Failed: there is no such scheduler, no worker can grade, or the connection is lost.
    """
    started: SpecCluster | None = None
    try:
        if scheduler is None:  # in threads of this process, for each worker's grader is a process anyway
            inside: Any = {"protocol": "inproc://", "dashboard": False}
            of_worker = inside | {"nthreads": 1, "memory_limit": None}
            level: Any = logging.ERROR
            with dask.config.set({"temporary-directory": folder}):
                started = SpecCluster(
                    scheduler={"cls": OwnScheduler, "options": inside},
                    workers={n: {"cls": OwnWorker, "options": of_worker} for n in range(workers)},
                    silence_logs=level,
                )
        client = Client(scheduler or started, timeout="20s")
    except OSError as problem:
        raise Failed(f"There is no Dask scheduler at {scheduler}: {problem}") from None
    # Of a connection that is lost, Dask logs tracebacks, also when it closes its client.
    with silence_logging_cmgr(logging.CRITICAL, "distributed.client"):
        try:
            yield Cluster(client, versions, isolated, say)
        # Cancelled, by nobody here, is all that a scheduler knew that is gone.
        except (CancelledError, ClosedClientError, CommClosedError) as problem:
            raise Failed("The connection to the scheduler is lost. The same command goes on from there.") from problem
        finally:
            with suppress(Exception):  # a scheduler or workers that are gone, or do not end in time
                client.unregister_worker_plugin(RESOURCE)
            for opened in (client, started):
                with suppress(TimeoutError):
                    if opened is not None:
                        opened.close()
