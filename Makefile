# The front door. Each target sets up what it needs. `make help` prints the lines that begin with three spaces.
#
#   make demo                   calls one library from every installed framework; also `make` and `make all`
#   make test                   every suite once, style and documentation
#   make test-more              the suites again: sanitizers, valgrind, other Pythons and systems
#   make test-core              the tests of the core
#   make test-python            the tests of the CPython bridge
#   make test-elixir            the tests of the BEAM bridge
#   make test-lite              the tests that need only NumPy
#   make test-all               both, longer, with the fuzzers and other versions of the frameworks
#   make test-torch-versions    the torch bridge with each torch that can be installed
#   make check                  style, headers, symbols, English and documentation
#   make format                 clang-format in place
#   make fuzz                   every fuzz target; FUZZ_SECONDS=60
#   make soak                   random operations over everything, in Python and on the BEAM; MINUTES=10 each
#   make coverage               the lines and branches that the tests run, in one report
#   make mutants                breaks the core in 200 random places, and counts what its tests notice; MUTANTS=200
#   make bench                  measures beside every peer; BENCH=--quick is rough and short
#   make bench-check            the targets that are missed
#   make bundle                 build/bundle/tenon*.{h,c}; PREFIX=foo_ renames their symbols
#   make wheels                 every wheel, in dist/; WHEELS=native builds only the one for Linux x86_64
#   make check-wheels           what must be true of dist/; WHEELS=all requires every wheel
#   make try-wheels             installs and runs the wheel for this machine
#   make check-release          what must be true before a release; TAG=vVERSION
#   make docs                   the documentation site, in build/site
#   make docs-look              the same, looked at in a browser
#   make setup                  installs what the tests need
#   make clean                  removes build/
#   make help                   this list
#
#   PYTHON=… chooses the interpreter; without it the newest of python3.14 to python3.12 that runs, else python3.

SHELL := /bin/bash
PYTHON :=
PREFIX :=
FUZZ_SECONDS := 60
MINUTES := 10
MUTANTS := 200
BENCH :=
WHEELS :=
TAG := $(GITHUB_REF_NAME)
BUILD := build

python = $(or $(shell tools/python $(PYTHON)),$(error no Python to use))
export FUZZ_SECONDS
export TENON_BUILD := $(BUILD)

.PHONY: all test test-more test-core test-python test-elixir test-lite test-all test-torch-versions check setup soak coverage mutants bench bench-check \
	bundle wheels check-wheels try-wheels check-release fuzz demo docs docs-look format clean help

all: demo

test:
	@tools/test "$(python)" test

test-more test-core test-python test-elixir test-lite test-all test-torch-versions: test-%:
	@tools/test "$(python)" $*

check fuzz:
	@tools/test "$(python)" $@

soak: setup
	@tools/soak "$(python)" $(MINUTES)

coverage: setup
	@tools/coverage "$(python)"

mutants: setup
	@tools/mutants --count $(MUTANTS)

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

help:
	@sed -n 's/^#   //p' $(firstword $(MAKEFILE_LIST))
