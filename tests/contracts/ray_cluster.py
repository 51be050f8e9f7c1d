"""Clusters of several nodes on this machine, for tests."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from contracts.ray_hosts import FAKE, FAKE_BUILDERS
from tilesmith.measure.cluster.ray_runner import RayRunner
from tilesmith.measure.result import Measurement
from tilesmith.targets.target import parse_target

HOST = parse_target("host").text
MEMORY = 100 << 20

# Looked for, not imported: that takes a second, in each process that collects tests.
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (pip install 'tilesmith[ray]')")


class Cluster:
    """A head without processors, and nodes that are added and taken away."""

    def __init__(self, nodes: int, processors: int = 2) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        self.ray: Any = RayCluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "num_gpus": 0,
                "include_dashboard": False,
                "object_store_memory": MEMORY,
                "no_monitor": True,
            },
        )
        self.processors = processors
        self.nodes = [self.add() for _ in range(nodes)]

    def add(self, gpus: int = 0, env_vars: Mapping[str, str] | None = None) -> Any:
        """One more node."""
        return self.ray.add_node(
            num_cpus=self.processors, num_gpus=gpus, object_store_memory=MEMORY, env_vars=dict(env_vars or {})
        )

    def runner(self, factory: str = FAKE, target: str = HOST, **options: Any) -> RayRunner:
        """A runner over hosts that are fakes."""
        return RayRunner(
            self.ray.address, target, 1, factory=factory, build_factory=FAKE_BUILDERS, exclusive=False, **options
        )


def pid_of(measurement: Measurement) -> int:
    """The process of the `Sleeper` that made it."""
    return int(measurement.device.split()[1])


DRIVER = r"""
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
/* As much of NVIDIA's driver as tells what is there. FAKE_GPUS: "9.0/132 8.0/108"; CUDA_VISIBLE_DEVICES as usual. */
static int count, major[16], minor[16], units[16];
static int all_count, all[16][3];
int cuInit(unsigned flags) {
    const char *text = getenv("FAKE_GPUS"), *visible = getenv("CUDA_VISIBLE_DEVICES");
    int used, *next = all[0];
    for (; text && sscanf(text, " %d.%d/%d%n", next, next + 1, next + 2, &used) == 3; text += used) next += 3;
    all_count = (int)(next - all[0]) / 3;
    count = 0;
    for (int place = 0; place < all_count; place++) {
        char digit[2] = {(char)('0' + place), 0};
        if (visible && !strstr(visible, digit)) continue;
        major[count] = all[place][0]; minor[count] = all[place][1]; units[count++] = all[place][2];
    }
    return count ? 0 : 100;
}
int cuDeviceGetCount(int *found) { *found = count; return 0; }
int cuDeviceGet(int *device, int place) { *device = place; return 0; }
int cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "fake of %d", units[device]); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)80 << 30; return 0; }
int cuDeviceGetAttribute(int *value, int number, int device) {
    *value = number == 16 ? units[device] : number == 38 ? 50 << 20 : number == 75 ? major[device] : minor[device];
    return 0;
}
"""


def fake_driver(folder: Path) -> Path:
    """A folder with a libcuda.so.1 that says what FAKE_GPUS says; for LD_LIBRARY_PATH."""
    compiler = which("cc") or pytest.skip("no C compiler makes the driver")
    (folder / "driver.c").write_text(DRIVER)
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(folder / "driver.c")]
    subprocess.run(command, check=True)
    return folder
