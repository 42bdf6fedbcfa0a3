# Thin: every target calls cmake or a script. `make demo` and `make check` install what is missing.

BUILD ?= build
JOBS ?= $(shell nproc)
DEMO := $(BUILD)/demo
TYPE ?= RelWithDebInfo

.PHONY: all demo quick test check check-full windows driver driver-signed bench mutants evidence fuzz install tables docs \
	clean \
	deps-demo deps-check deps-windows deps-wine

all: $(BUILD)/release/kda

$(BUILD)/release/kda: FORCE
	@cmake -S . -B $(BUILD)/release -DCMAKE_BUILD_TYPE=$(TYPE) -DKDA_TESTS=OFF >/dev/null
	@cmake --build $(BUILD)/release -j $(JOBS) -- --no-print-directory -s

FORCE:

deps-demo:
	@sh tools/install-packages.sh demo

deps-check:
	@sh tools/install-packages.sh check

deps-windows:
	@sh tools/install-packages.sh windows

# What runs there is skipped, with a line that says so, where it cannot be had.
deps-wine:
	@sh tools/install-packages.sh windows || true
	@sh tools/install-packages.sh wine || true

# The tool for Windows on x64.
windows: deps-windows
	@cmake -S . -B $(BUILD)/windows -DCMAKE_TOOLCHAIN_FILE=cmake/mingw.cmake \
		-DCMAKE_BUILD_TYPE=$(TYPE) >/dev/null
	@cmake --build $(BUILD)/windows -j $(JOBS) -- --no-print-directory -s

# A sample Windows 11 image from the project's own generator, and what kda says about it; then a
# scripted activity through the driver on the simulated kernel, its log, and whether that is whole.
demo: deps-demo
	@$(MAKE) --no-print-directory all
	@mkdir -p $(DEMO)
	@$(BUILD)/release/kda-forge tests/images/scenarios/win11.txt -o $(DEMO)/win11.raw
	$(BUILD)/release/kda map $(DEMO)/win11.raw
	$(BUILD)/release/kda info $(DEMO)/win11.raw
	@$(BUILD)/release/kda-forge tests/images/scenarios/win11.txt -o $(DEMO)/tampered.raw \
		--add "poke session:17 WMI_LOGGER_CONTEXT.AcceptNewEvents 0xffffffff"
	$(BUILD)/release/kda audit $(DEMO)/tampered.raw --min-severity critical
	@rm -rf $(DEMO)/script
	$(BUILD)/release/kda-sim script tests/sim/scripts/demo.txt -o $(DEMO)/script
	$(BUILD)/release/kda log show $(DEMO)/script/log/*.jsonl
	$(BUILD)/release/kda log show -f jsonl --kind registry.value_set $(DEMO)/script/log/*.jsonl
	$(BUILD)/release/kda verify -v $(DEMO)/script/log/*.jsonl

# One build, its unit tests and the style: while you work.
quick: deps-check
	@python3 tests/run.py --build $(BUILD) --jobs $(JOBS) --only style,unit

# One test by its name: `make test T=forge` is test_forge, tests/integration/test_forge.py and both;
# P=sanitizers,fuzz chooses other parts of tests/run.py.
P ?= unit,integration
test: deps-check
	@python3 tests/run.py --build $(BUILD) --jobs $(JOBS) --only $(P) --test $(T)

check: deps-check deps-wine
	@python3 tests/run.py --build $(BUILD) --jobs $(JOBS)

# What takes hours: every sweep whole, every seeded mistake, clang without sanitizers, long fuzzing.
check-full: deps-check deps-wine
	@python3 tests/run.py --build $(BUILD) --jobs $(JOBS) --whole --fuzz-seconds 60
	@$(MAKE) --no-print-directory evidence

bench: deps-check
	@$(MAKE) --no-print-directory all
	@python3 tests/bench/bench.py --build $(BUILD)
	@$(BUILD)/release/kda-bench-queue
	@$(BUILD)/release/kda-bench-jsonl
	@$(BUILD)/release/kda-bench-whole $(BUILD)
	@$(BUILD)/release/kda-bench-sensor
	@mkdir -p $(BUILD)/bench
	@$(BUILD)/release/kda-bench-etl $(BUILD)/bench $(wildcard ../shared/data/etl/*net.4.5.2.x86.etl)
	@python3 tests/bench/bench_events.py --build $(BUILD)

# Every seeded mistake has to be caught by the tests; takes some minutes.
mutants: deps-check
	@python3 tests/mutants/run.py --jobs $(JOBS)

# Every kind of damage on every image of ../shared/data, judged against their truth; takes minutes.
# ARGS goes to tests/evidence/whole.py: one image, one kind, one seed, or --docs docs/evidence.md.
evidence: deps-check
	@cmake -S . -B $(BUILD)/evidence -DCMAKE_BUILD_TYPE=$(TYPE) >/dev/null
	@cmake --build $(BUILD)/evidence -j $(JOBS) --target kda-evidence -- --no-print-directory -s
	@KDA_TEST_BIN=$(BUILD)/evidence python3 tests/evidence/whole.py --jobs $(JOBS) $(ARGS)

# Long fuzzing: SECONDS per target (default ten minutes).
SECONDS ?= 600
fuzz: deps-check
	@python3 tests/run.py --build $(BUILD) --jobs $(JOBS) --only fuzz --fuzz-seconds $(SECONDS)

# Regenerates the built-in tables from ../shared/data; the result is committed.
tables:
	python3 tools/gen_profiles.py ../shared/data/layouts.tsv lib/tables/profiles_data.c
	python3 tools/gen_providers.py ../shared/data/providers.tsv lib/tables/providers_data.c
	python3 tools/gen_manifests.py ../shared/data/manifest-events.tsv lib/tables/manifests_data.c

# kdamonitor.sys for x64 and ARM64, checked (driver/CMakeLists.txt).
driver:
	@sh tools/install-packages.sh driver
	@cmake -S driver -B $(BUILD)/driver >/dev/null
	@cmake --build $(BUILD)/driver -j $(JOBS) -- --no-print-directory -s
	@ls -l $(BUILD)/driver/x64/kdamonitor.sys $(BUILD)/driver/arm64/kdamonitor.sys

# The same, signed with a certificate that is made for this folder and worth nothing elsewhere.
driver-signed: driver
	@cmake --build $(BUILD)/driver --target signed -- --no-print-directory -s
	@ls -l $(BUILD)/driver/signed

# Regenerates the pages that are made from tables of the code; the result is committed.
docs: all
	$(BUILD)/release/kda-events-doc > docs/events.md
	$(BUILD)/release/kda-checks-doc > docs/checks.md
	$(BUILD)/release/kda-rows-doc > docs/rows.md
	($(BUILD)/release/kda-rows-doc keys; $(BUILD)/release/kda-events-doc keys) > tests/golden/keys.txt

install: all
	cmake --install $(BUILD)/release

clean:
	rm -rf $(BUILD)
