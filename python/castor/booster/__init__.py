# SPDX-License-Identifier: Apache-2.0
from castor.booster._booster import Booster

__all__ = ["Booster"]
