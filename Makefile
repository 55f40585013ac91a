# SPDX-License-Identifier: Apache-2.0
# The front door: set-up, build and run in one command. Plain Meson does the work (CONTRIBUTING.md).
#
#   make demo [DATA=FILE]    trains a small GPT through three memory tiers      make build    only builds: build/castor
#   make python              builds the Python package and installs it in .venv (python/README.md)
#   make install [PREFIX=DIR]  the command, libraries, headers (docs/library.md); /usr/local without PREFIX
#   make test                every test, sanitizer builds included              make clean    removes the build folders
#
#   OFFLINE=DIR        use no network and the host's own torch; DIR is a bundle made by scripts/offline_bundle
#   MESON_OPTIONS=…    more options for `meson setup build`: MESON_OPTIONS="-Dcuda=disabled"
#   BUILDS=…           the builds of `make test` beside build/, from: asan tsan clang
OFFLINE ?=
DATA ?=
MESON_OPTIONS ?=
BUILDS ?= asan tsan
PREFIX ?=
export OFFLINE DATA MESON_OPTIONS BUILDS PREFIX

.PHONY: build demo python install test clean
build:
	@scripts/setup
	@TARGETS=product scripts/compile build

demo: build
	@scripts/demo

python:
	@scripts/setup
	@scripts/python_package

install: build
	@scripts/install

test:
	@scripts/setup
	@scripts/run_tests

clean:
	rm -rf build build-asan build-tsan build-clang build-wheel
