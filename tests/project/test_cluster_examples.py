"""The files of examples/cluster: Ray's launcher takes one, Kubernetes could take the other, and all name one Ray."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="comes with Ray (pip install 'tilesmith[ray]')")
FOLDER = Path(__file__).parents[2] / "examples" / "cluster"


def test_the_launcher_takes_the_cluster_file() -> None:
    util = pytest.importorskip("ray.autoscaler._private.util")
    config = util.prepare_config(yaml.safe_load((FOLDER / "cluster.yaml").read_text()))
    util.validate_config(config)
    with pytest.raises(Exception, match="worker_node_start"):
        util.validate_config({**config, "worker_node_start": []})  # the schema says no to what it does not know
    starts = [command for command in config["head_start_ray_commands"] if " start " in command]
    starts += [command for command in config["worker_start_ray_commands"] if " start " in command]
    assert len(starts) == 2 and all("RAY_AUTH_MODE=token" in command for command in starts)
    assert "--include-dashboard false" in starts[0]


@pytest.fixture(scope="module")
def manifest() -> dict[str, dict[str, Any]]:
    documents = yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text())
    return {document["kind"]: document for document in documents}


def test_the_manifest_has_what_the_operator_needs(manifest: dict[str, dict[str, Any]]) -> None:
    cluster = manifest["RayCluster"]
    assert cluster["apiVersion"] == "ray.io/v1" and cluster["metadata"]["name"]
    head, workers = cluster["spec"]["headGroupSpec"], cluster["spec"]["workerGroupSpecs"]
    assert head["serviceType"] == "ClusterIP" and head["rayStartParams"]["include-dashboard"] == "false"
    assert len({group["groupName"] for group in workers}) == len(workers) >= 1
    assert all(0 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"] for group in workers)
    for group in (head, *workers):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values()), "a map of strings"
        check_pod(group["template"]["spec"])


def check_pod(pod: dict[str, Any]) -> None:
    volumes = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        assert container["name"] and container["image"]
        resources = container["resources"]
        assert resources["requests"] == resources["limits"] and float(resources["limits"]["cpu"]).is_integer()
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts.keys() <= volumes.keys()
        environment = {entry["name"]: entry["value"] for entry in container["env"]}
        assert environment["RAY_AUTH_MODE"] == "token"
        assert environment["RAY_AUTH_TOKEN_PATH"] == f"{mounts['token']}/auth_token"


def test_the_policy_is_about_that_cluster(manifest: dict[str, dict[str, Any]]) -> None:
    policy, name = manifest["NetworkPolicy"], manifest["RayCluster"]["metadata"]["name"]
    assert policy["apiVersion"] == "networking.k8s.io/v1" and policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["podSelector"]["matchLabels"] == {"ray.io/cluster": name}
    assert all("podSelector" in source for rule in policy["spec"]["ingress"] for source in rule["from"])


def test_all_files_name_one_ray(manifest: dict[str, dict[str, Any]]) -> None:
    found = {
        *re.findall(r"ray\[client\]==([\d.]+)", (FOLDER / "cluster.yaml").read_text()),
        *re.findall(r"rayproject/ray:([\d.]+)-py311", (FOLDER / "Dockerfile").read_text()),
        manifest["RayCluster"]["spec"]["rayVersion"],
    }
    assert len(found) == 1
