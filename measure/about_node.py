"""What a node of a cluster says of itself when it is asked: see `nodes.NodeFacts`."""

from __future__ import annotations

from typing import Any

from ..common.errors import TilesmithError
from ..targets.host import missing_here, usable_cores
from ..targets.target import parse_target
from .cores import core_sets, domains, usable_cpus
from .machine import machine_identity


def node_report(target: str, threads: int) -> dict[str, Any]:
    """The fields of `NodeFacts` that a node knows; `target` and `threads` are what it may be used for."""
    try:
        return {
            "target": parse_target("host").text,
            "missing": missing_here(parse_target(target)),
            "machine": machine_identity(),
            "cores": usable_cores(),
            "sets": len(core_sets(domains(usable_cpus()), threads)),
        }
    except TilesmithError as error:
        return {"problem": " ".join(str(error).split())}
