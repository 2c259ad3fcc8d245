"""Ray with two nodes on this machine, and a library for it. Other processes find the package by PYTHONPATH."""

import os
import shutil

import pytest


def package_path():
    from building import PACKAGE

    return os.pathsep.join([str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])])


def start_cluster(folder):
    """Start Ray's head with the driver, and a second node. Return the cluster and the second node."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ.update(PYTHONPATH=package_path(), TENON_CACHE=str(folder), RAY_DEDUP_LOGS="0")
    node = {"num_cpus": 4, "object_store_memory": 100 * 1024 * 1024, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "resources": {"first": 100}})
    second = cluster.add_node(num_cpus=4, object_store_memory=node["object_store_memory"], resources={"second": 100})
    ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
    return cluster, second


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache") / "tenon"


@pytest.fixture(scope="session")
def cluster(cache):
    ray = pytest.importorskip("ray")
    cluster, _ = start_cluster(cache)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="session")
def library_file():
    from building import ROOT, build

    return build(ROOT / "python/tests/scaling/remote.c")


@pytest.fixture
def remote(library_file, tmp_path):
    """The library, loaded from a file that the test may delete."""
    import tenon

    return tenon.load(shutil.copy(library_file, tmp_path / "remote.so"))
