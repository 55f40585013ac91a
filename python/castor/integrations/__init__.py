# SPDX-License-Identifier: Apache-2.0
"""Castor within the loops of other packages: each module needs the package that it is named after."""

RUN = "castor_run"  # the folder of what save_optimizer keeps, in a checkpoint of such a loop
