# The front door. Each target sets up what it needs.
#
#   make test        every test            make bundle [PREFIX=foo_]   build/bundle/tenon*.{h,c}
#   make test-core   the core's            make demo                   one library, every installed framework
#   make test-python the CPython bridge's  make bench [BENCH=--quick]  measure, beside every peer
#   make test-elixir the BEAM bridge's     make bench-check            the targets that are missed
#   make test-lite   with NumPy only       make fuzz [FUZZ_SECONDS=60] every fuzz target
#   make test-all    longer, with fuzzers  make docs                   the documentation site, in build/site
#   make check       style and headers     make format                 clang-format in place
#   make wheels [WHEELS=native]  dist/     make check-wheels           what must be true of dist/
#   make clean       remove build/         make try-wheels             install and run the one for this machine
#
# PYTHON=… chooses the interpreter; without it the newest of python3.14 to python3.12 that runs, else python3.

SHELL := /bin/bash
PYTHON :=
PREFIX :=
FUZZ_SECONDS := 60
BENCH :=
WHEELS :=
TAG := $(GITHUB_REF_NAME)
BUILD := build

python = $(or $(shell tools/python $(PYTHON)),$(error no Python to use))
export FUZZ_SECONDS
export TENON_BUILD := $(BUILD)

.PHONY: all test test-core test-python test-elixir test-lite test-all test-torch-versions check setup bench bench-check \
	bundle wheels check-wheels try-wheels check-release fuzz demo docs docs-look format clean

all: demo

test:
	@tools/test "$(python)" test

test-core test-python test-elixir test-lite test-all test-torch-versions: test-%:
	@tools/test "$(python)" $*

check fuzz:
	@tools/test "$(python)" $@

setup:
	@tools/setup "$(python)"

bundle:
	@"$(python)" tools/bundle --prefix "$(PREFIX)" --output $(BUILD)/bundle

wheels:
	@tools/check-wheels "$(python)" build $(WHEELS)

check-wheels:
	@tools/check-wheels "$(python)" check $(WHEELS)

try-wheels:
	@"$(python)" tools/try-wheels

check-release:
	@"$(python)" tools/check-release "$(TAG)"

bench: setup
	@tools/setup "$(python)" venv .venv-bench bench/requirements.txt
	@.venv-bench/bin/python bench/run.py $(BENCH)

bench-check:
	@$(or $(wildcard .venv-bench/bin/python),"$(python)") bench/check.py

demo:
	@tools/demo "$(python)"

docs:
	@tools/build-site "$(python)"

docs-look: docs
	@"$(python)" tools/look-site $(BUILD)/site --keep

format:
	@find core python frameworks elixir/c_src elixir/include examples -name '*.[ch]' -not -path '*/corpus/*' -not -path '*/abi/*' -not -path '*/vendor/*' 2>/dev/null | xargs clang-format -i

clean:
	rm -rf $(BUILD)
