# SPDX-License-Identifier: Apache-2.0
# Sourced at the root of the tree by the scripts beside it: puts the Python in use first on PATH and defines
# `meson`, `n_jobs` and `configure_options`. Python is that of .venv, or, with OFFLINE=DIR, the host's
# python3.

if [ -n "${OFFLINE:-}" ]; then
  OFFLINE=$(cd "$OFFLINE" && pwd)
  export BOOST_ROOT=$OFFLINE  # where Meson looks for Boost first
  # Meson and Ninja may be installed beside that python3 while their folder is not on PATH.
  PATH="$(python3 -c 'import sys; print(sys.prefix)')/bin:$PATH"
else
  PATH="$PWD/.venv/bin:$PATH"
fi
export PATH="$PATH:/usr/local/cuda/bin"  # where NVIDIA's packages put nvcc without saying so

meson() {
  if type -P meson >/dev/null; then command meson "$@"; else python3 -m mesonbuild.mesonmain "$@"; fi
}

# As many compilers as processors, but no more than memory allows: one that reads LibTorch's headers takes up
# to 2 GiB.
n_jobs() {
  awk -v cpus="$(nproc)" '/^MemAvailable/ { n = int($2 / (2 * 1024 * 1024)); if (n > cpus) n = cpus; if (n < 1) n = 1; print n }' /proc/meminfo
}

# One option per line, with which Meson finds the libraries that the host lacks.
configure_options() {
  [ -n "${OFFLINE:-}" ] || return 0
  printf '%s\n' "-Dpkg_config_path=$OFFLINE/lib/pkgconfig" "-Dc_args=-isystem$OFFLINE/include" "-Dcpp_args=-isystem$OFFLINE/include" \
    "-Dtorch_root=$(python3 meson/find_torch.py | head -1)"
}
