# SPDX-License-Identifier: Apache-2.0
"""The ranks of a training: their order, and groups of them."""

from castor.cluster._coordinator import DistCoordinator
from castor.cluster._mesh import ProcessGroupMesh

__all__ = ["DistCoordinator", "ProcessGroupMesh"]
