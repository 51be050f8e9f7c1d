"""Ray: the only file that imports it. What the rest of this package wants of a cluster, in Ray's words.

    search process                 a child of it                              workers, anywhere
    RayRunner  <-- messages.py -->     service.py: Pool + hosts.py  <-- Ray -->     Host (an actor): runner, children

Ray ends the process that it runs in when its cluster goes away, starts threads and takes signals; a search must not suffer
that. So it lives in a child: `RayRunner` starts another one when it ends, and gives it again what was not answered.

Workers import the installed package; no code of the caller travels. A host is an actor that one node is asked for by its
id, that holds as many of the node's CPUs as it has cores, and that ends with the process that asked for it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import Any

import ray
import ray.exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ...common.errors import EnvironmentFailure, TilesmithError
from .host import Host, Order
from .messages import ConnectRequest
from .nodes import NodeFacts
from .status import RunStatus, StatusBoard

NAMESPACE = "tilesmith"
PROBE_SECONDS = 60.0
_STORE = 128 << 20  # bytes of the object store of a Ray on this machine: nothing large goes through it


@contextlib.contextmanager
def connected(call: ConnectRequest) -> Iterator[None]:
    """A connection to a cluster, or to a Ray that is started here. Errors: EnvironmentFailure."""
    options: dict[str, Any] = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": "error"}
    try:
        if call.address:
            _reach(call.address, call.wait)
            _check_token(call.address)
            ray.init(call.address, **options)
        else:
            ray.init(
                "local", num_cpus=call.local_processors, include_dashboard=False, object_store_memory=_STORE, **options
            )
    except TilesmithError:
        raise
    except Exception as error:
        raise EnvironmentFailure(
            f"Ray does not {'let us in' if call.address else 'start'}",
            found=f"{type(error).__name__}: {error}",
            advice="use the same versions of Ray and Python everywhere; see docs/cluster.md"
            if call.address
            else "look into the newest folder of /tmp/ray for its logs",
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _reach(address: str, wait: float) -> None:
    """Waits, for a bounded time, until somebody listens there."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    start, tried, why = monotonic(), 0, ""
    while True:
        tried += 1
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=max(0.5, min(3.0, wait))).close()
            return
        except (OSError, ValueError) as error:
            why = str(error)
        if monotonic() - start + 1.0 > wait:
            break
        threading.Event().wait(1.0)
    raise EnvironmentFailure(
        f"no Ray cluster answers at {address}",
        found=f"{why}, after {tried} tries in {monotonic() - start:.0f} s",
        advice="check host and port: ray:// takes the client port (10001), an address without it the head's (6379)",
    )


def _check_token(address: str) -> None:
    """Asks what needs nothing but to be let in: Ray itself tries for a minute or two, and does not say that it was this."""
    try:
        import grpc
        from ray._private.grpc_utils import init_grpc_channel
    except ImportError:  # a Ray without its client, or from before there were tokens
        return
    service = "RayletDriver/ClusterInfo" if address.startswith("ray://") else "NodeInfoGcsService/CheckAlive"
    try:
        with init_grpc_channel(address.removeprefix("ray://")) as channel:
            channel.unary_unary(f"/ray.rpc.{service}")(b"", timeout=3.0)
    except grpc.RpcError as error:  # whatever else it is, Ray will say it
        if error.code() is not grpc.StatusCode.UNAUTHENTICATED:
            return
        sent = "ours is another one" if os.environ.get("RAY_AUTH_MODE") == "token" else "we send none"
        why = f"{error.details()}: {sent}"
    except ray.exceptions.RayError as error:  # we have none
        why = first_line(error)
    else:
        return
    raise EnvironmentFailure(
        f"the cluster at {address} wants its token",
        found=why,
        advice="set RAY_AUTH_MODE=token, and keep the cluster's token in ~/.ray/auth_token or the file that "
        "RAY_AUTH_TOKEN_PATH names",
    )


# ---- what nodes say of themselves


def _probe_function() -> Callable[[str, int], dict[str, Any]]:
    """Returns what a node is asked. It travels by value and imports nothing of ours before it has looked whether that is
    there."""

    def probe(target: str, threads: int) -> dict[str, Any]:
        import platform
        from importlib import metadata

        facts: dict[str, Any] = {"host": platform.node(), "versions": {}}
        for package in ("tilesmith", "llvmlite"):
            try:
                facts["versions"][package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                facts["versions"][package] = ""
        try:
            from .about_node import node_report
        except ImportError as error:
            return facts if not facts["versions"]["tilesmith"] else {**facts, "problem": str(error)}
        return {**facts, **node_report(target, threads)}

    return probe


def _on_node(node: str) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node, soft=False)


def _nodes() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ray.nodes()
    return found


def alive_nodes() -> dict[str, dict[str, Any]]:
    """Node id -> what Ray says of it."""
    return {node["NodeID"]: node for node in _nodes() if node["Alive"]}


def probe_nodes(nodes: Mapping[str, dict[str, Any]], target: str, threads: int) -> list[NodeFacts]:
    """Asks nodes what they are; one that does not answer says so in `problem`."""
    task = ray.remote(num_cpus=0, max_retries=0)(_probe_function())
    asked = {n: task.options(scheduling_strategy=_on_node(n)).remote(target, threads) for n in nodes}
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=PROBE_SECONDS) if asked else None
    return [_facts(node, about, asked[node]) for node, about in nodes.items()]


def _facts(node: str, about: Mapping[str, Any], answer: Any) -> NodeFacts:
    host, lent = about["NodeManagerHostname"], about["Resources"]
    processors, gpus = lent.get("CPU", 0.0), lent.get("GPU", 0.0)
    try:
        found: dict[str, Any] = ray.get(answer, timeout=0.1)
    except ray.exceptions.GetTimeoutError:
        ray.cancel(answer)
        return NodeFacts(node, host, processors, gpus, problem=f"it did not answer within {PROBE_SECONDS:.0f} s")
    except Exception as error:
        return NodeFacts(node, host, processors, gpus, problem=f"it could not be asked: {first_line(error)}")
    return NodeFacts(node=node, processors=processors, gpus=gpus, **found)


def first_line(error: BaseException) -> str:
    """Returns what a person wants to know of an error that came from a worker."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, TilesmithError):
        return " ".join(str(cause).split())
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if isinstance(error, ray.exceptions.RayTaskError) else lines[0]}"


# ---- actors


def start_host(order: Order, node: str, cpus: float) -> Any:
    """A host on that node; returns its handle at once."""
    options = {"num_cpus": cpus, "num_gpus": int(order.gpu), "max_restarts": 0, "max_task_retries": 0}
    actor: Any = ray.remote(Host)
    return actor.options(**options, scheduling_strategy=_on_node(node)).remote(order)


def when_done(answer: Any, use: Callable[[Any], None], fail: Callable[[str], None]) -> None:
    """Calls `use` with the answer or `fail` with the reason, in a thread of Ray's."""

    def done(future: Any) -> None:
        error = future.exception()
        if error is None:
            use(future.result())
        else:
            fail(first_line(error))

    answer.future().add_done_callback(done)


def kill(handle: Any) -> None:
    """Ends an actor; it may wait for a dead node."""
    with contextlib.suppress(Exception):
        ray.kill(handle)


def start_board(name: str) -> Any:
    """An actor that keeps the status of a run."""
    actor: Any = ray.remote(num_cpus=0)(StatusBoard)
    return actor.options(name=name).remote()


def publish(board: Any, status: RunStatus) -> None:
    """Puts a status on a board."""
    ray.get(board.put.remote(status), timeout=5.0)


def read_boards() -> list[RunStatus]:
    """Returns what all runs on the cluster last said of themselves."""
    found = [_read_board(name) for name in ray.util.list_named_actors()]
    return [status for status in found if status is not None]


def _read_board(name: str) -> RunStatus | None:
    try:
        handle: Any = ray.get_actor(name)
        answer: Any = ray.get(handle.get.remote(), timeout=5.0)
    except (ray.exceptions.RayError, ValueError):  # a run that ends in this moment
        return None
    return answer if isinstance(answer, RunStatus) else None
