"""Clusters on this machine for benchmarks: nodes side by side, or each in a network namespace of its own.

A namespace has its own addresses and its own loopback, so its node is reached as another machine's is: nothing goes by
127.0.0.1, and a node is lost by pulling its cable, while its processes live on. Needs root and `ip`. Only namespaces and
addresses made here are used, and all are taken away at the end.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilesmith.measure.cluster.host import Order
from tilesmith.measure.cluster.ray_runner import RayRunner
from tilesmith.measure.result import Job, Measurement, Status
from tilesmith.targets.target import parse_target

HOST = parse_target("host").text
SLEEP = 0.02
STORE = 100 << 20  # bytes of a node's object store
CLIENT_PORT = 10001


class Sleeper:
    """A host without a device: each job takes SLEEP seconds, one after the other."""

    capacity = 2

    def __init__(self) -> None:
        self._queue: deque[tuple[float, int]] = deque()

    def submit(self, job: Job, built: object = None) -> None:
        """Takes a job."""
        start = max(time.monotonic(), self._queue[-1][0] if self._queue else 0.0)
        self._queue.append((start + SLEEP, job.number))

    def collect(self, timeout: float | None = None) -> list[tuple[int, Measurement]]:
        """Jobs whose time is over."""
        if self._queue:
            wait = self._queue[0][0] - time.monotonic()
            time.sleep(max(0.0, wait if timeout is None else min(wait, timeout)))
        done = []
        while self._queue and self._queue[0][0] <= time.monotonic():
            done.append((self._queue.popleft()[1], Measurement(Status.OK, (1e-3,) * 3)))
        return done

    def close(self) -> None:
        """Does nothing: there is nothing to end."""


def sleeper(order: Order, speeds: Any) -> Sleeper:
    """The factory, called in the workers."""
    return Sleeper()


def sleepers(address: str, **options: Any) -> RayRunner:
    """A runner over hosts that sleep."""
    return RayRunner(address, HOST, 1, factory=f"{Path(__file__).stem}:sleeper", exclusive=False, **options)


@contextmanager
def beside(nodes: int, processors: int) -> Iterator[Any]:
    """A head without processors and so many nodes, which are in `all`, side by side (`ray.cluster_utils`)."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        made.all = [made.add_node(num_cpus=processors, object_store_memory=STORE) for _ in range(nodes)]
        yield made
    finally:
        made.shutdown()


def namespaces_missing() -> str:
    """Says why namespaces cannot be made here; "" when they can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    if shutil.which("ip") is None:
        return "there is no `ip` (iproute2) to make network namespaces"
    trial = subprocess.run(["ip", "link", "show", "type", "bridge"], capture_output=True, check=False)
    return trial.stderr.decode().strip() if trial.returncode else ""


@dataclass
class Namespaces:
    """Nodes in namespaces: `address` is for `RayRunner`; the node of a name is lost by `unplug`."""

    address: str
    names: Sequence[str]

    def unplug(self, place: int) -> None:
        """Pulls the cable of a node: nothing reaches it, and nobody tells it."""
        _ip("link", "set", _cable(self.names[place]), "down")


@contextmanager
def apart(nodes: int, processors: int) -> Iterator[Namespaces]:
    """A head without processors and so many nodes, each in a namespace; the caller's side is outside of all."""
    tag = f"ts{os.getpid() % 10000}"
    network = f"10.213.{os.getpid() % 200 + 20}"
    names = [f"{tag}n{number}" for number in range(nodes + 1)]
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ts", dir="/tmp"))  # Ray wants a short path
        stack.enter_context(_token(Path(folder) / "token"))
        _ip("link", "add", tag, "type", "bridge")
        stack.callback(_ip, "link", "del", tag)
        _ip("addr", "add", f"{network}.1/24", "dev", tag)
        _ip("link", "set", tag, "up")
        for number, name in enumerate(names):
            stack.callback(_plug(name, tag, f"{network}.{number + 10}"))
            _ip(
                "-n", name, "route", "add", "default", "via", f"{network}.1"
            )  # leads nowhere; Ray finds its address by it
        head = f"{network}.10"
        options = ["--head", "--port", "6379", "--ray-client-server-port", str(CLIENT_PORT), "--temp-dir", folder]
        words = Path(folder) / names[0]
        stack.callback(_start(names[0], [*options, "--include-dashboard", "false"], head, 0, words))
        _wait_for(words)
        for number, name in enumerate(names[1:], 1):
            words, address = Path(folder) / name, f"{network}.{number + 10}"
            stack.callback(_start(name, ["--address", f"{head}:6379"], address, processors, words))
            _wait_for(words)  # one after the other: they share a folder, and look there for free names of sockets
        yield Namespaces(f"ray://{head}:{CLIENT_PORT}", names[1:])


@contextmanager
def _token(file: Path) -> Iterator[None]:
    """Nodes and caller have one token, as they should."""
    before = dict(os.environ)
    file.write_text(secrets.token_hex(32))
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(file))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _plug(name: str, bridge: str, address: str) -> Callable[[], None]:
    """A namespace with a cable to the bridge; gives what takes it away."""
    _ip("netns", "add", name)
    _ip("link", "add", _cable(name), "type", "veth", "peer", "name", "eth0", "netns", name)
    _ip("link", "set", _cable(name), "master", bridge, "up")
    for words in (
        ("link", "set", "lo", "up"),
        ("addr", "add", f"{address}/24", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
    ):
        _ip("-n", name, *words)
    return lambda: _ip("netns", "del", name)


def _cable(name: str) -> str:
    return f"{name}v"


def _start(name: str, options: Sequence[str], address: str, processors: int, words: Path) -> Callable[[], None]:
    """`ray start` in a namespace, until what is given back is called; `words` is the file of what it says."""
    ray = Path(sys.executable).with_name("ray")
    command = ["ip", "netns", "exec", name, sys.executable, str(ray), "start", *options, "--node-ip-address", address]
    command += ["--num-cpus", str(processors), "--num-gpus", "0", "--object-store-memory", str(STORE), "--block"]
    with words.open("w") as file:
        node = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)

    def end() -> None:
        node.terminate()  # it ends the processes that it started
        try:
            node.wait(15)
        except subprocess.TimeoutExpired:
            node.kill()
        left = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True).stdout.split()
        for process in map(int, left):  # of this namespace alone
            os.kill(process, 9)

    return end


def _wait_for(words: Path) -> None:
    """Waits until `ray start` says that it runs. Errors: TimeoutError."""
    end = time.monotonic() + 60
    while "Ray runtime started" not in words.read_text():
        if time.monotonic() > end:
            raise TimeoutError(f"no Ray came up: {words.read_text()[-2000:]}")
        time.sleep(0.2)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
