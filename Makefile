# Everything sets itself up: a virtual environment in .venv, from the packages that pyproject.toml names.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-all test-train check format approve readme bench-self bench-trust bench-faults tables software-gpu kotlin ssh-devices clean

# Into a new folder each time: nothing that was made before is overwritten.
demo: $(READY) ## tune the embedded model on its data, and say where the report is
	@folder="$$(mktemp -d ./demo-out.XXXXXX)" && \
	$(BIN)/hasten tune demo --data demo --calibration demo --budget 2m -o "$$folder"

# Files in their order: the slow ones come first, and both workers end at about the same time.
test: check software-gpu kotlin ssh-devices ## style, types, architecture and the test suite
	$(BIN)/pytest -m "not slow" -n 2 --dist loadfile --no-loadscope-reorder

test-all: check software-gpu kotlin ssh-devices ## the same with the slow tests
	$(BIN)/pytest

# In an environment of its own, as TensorFlow takes 2.4 GB and pins what others use. Where it cannot be installed, this
# says so and ends well: the other tests do not need it.
TRAIN := .venv-train
test-train: ## the tests of training with the real TensorFlow and Keras
	@test -e $(TRAIN)/.ready || { $(PYTHON) -m venv $(TRAIN) && \
	$(TRAIN)/bin/python -m pip install --quiet --upgrade "pip>=25.1" && \
	$(TRAIN)/bin/python -m pip install --quiet --editable ".[train,images,quantize]" pytest pytest-timeout hypothesis && \
	touch $(TRAIN)/.ready; } || { echo "TensorFlow could not be installed: tests of training are skipped"; rm -rf $(TRAIN); }
	@test ! -e $(TRAIN)/.ready || $(TRAIN)/bin/python -m pytest tests/train

check: $(READY) ## style, types, architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_words.py

# System packages that tests use. Where one cannot be installed, its tests are skipped and give the reason.
# chromium brings SwiftShader, a software Vulkan device, for machines without a GPU.
software-gpu:
	@test -e /usr/lib/chromium/vk_swiftshader_icd.json || test "$$(id -u)" != 0 || ! command -v apt-get > /dev/null || \
	{ echo "installing chromium, whose software GPU the tests use"; apt-get update -qq > /dev/null && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium > /dev/null; } || \
	echo "chromium could not be installed: tests of the GPU will be skipped"

# kotlinc type-checks the Kotlin that hasten generates.
kotlin:
	@command -v kotlinc > /dev/null || test "$$(id -u)" != 0 || ! command -v apt-get > /dev/null || \
	{ echo "installing kotlin, whose compiler the tests use"; apt-get update -qq > /dev/null && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends kotlin > /dev/null; } || \
	echo "kotlin could not be installed: the test of generated Kotlin will be skipped"

# An ssh server for loopback, and an ARM64 system behind it (qemu-user, proot): devices for the tests. RUNLEVEL keeps
# the package from starting a server of its own.
ssh-devices:
	@{ test -x /usr/sbin/sshd && command -v proot > /dev/null && command -v qemu-aarch64-static > /dev/null; } || \
	test "$$(id -u)" != 0 || ! command -v apt-get > /dev/null || \
	{ echo "installing openssh-server, proot and qemu-user-static, which the tests of devices use"; \
	apt-get update -qq > /dev/null && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
	--no-install-recommends openssh-server proot qemu-user-static > /dev/null; } || \
	echo "the packages could not be installed: tests of devices behind ssh will be skipped"

readme: $(READY) ## renew the outputs in README.md and docs/tour.md (on an idle machine; about six minutes)
	$(BIN)/python -m scripts.refresh_readme

format: $(READY) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

approve: $(READY) ## write the approved outputs anew; git diff shows what changed
	$(BIN)/python -m tests.approved

# ONLY="repeatable thin" runs those; a miss does not stop the others.
bench-self: $(READY) ## measure hasten itself (about 3.5 hours on an idle machine)
	$(BIN)/python -m benchmarks $(ONLY)

# Goes on where the last run of the same commit stopped; ONLY="compare equal.quiet" runs these parts.
bench-trust: $(READY) ## results on a quiet and on a busy machine, against the truth (about 80 minutes)
	$(BIN)/python -m benchmarks.trust $(foreach part,$(ONLY),--only $(part))

bench-faults: $(READY) ## planted problems and damaged files (as root, on an idle machine; about 30 minutes)
	$(BIN)/python -m benchmarks faults damaged_files robust

tables: $(READY) ## write the tables of README.md and docs/benchmarks.md from benchmarks/results, and docs/options.md
	$(BIN)/python -m scripts.refresh_tables

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	touch $(READY)

clean:
	rm -rf $(VENV) $(TRAIN) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
