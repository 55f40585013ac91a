# SPDX-License-Identifier: Apache-2.0
"""Castor within the loops of other packages: each module needs the package that it is named after."""
