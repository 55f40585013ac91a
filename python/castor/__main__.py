# SPDX-License-Identifier: Apache-2.0
"""`python -m castor`: the command."""

from castor_command import main

main()
