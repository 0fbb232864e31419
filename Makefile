# What a person or CI types. All of it works from a clean clone; what is missing is installed by apt where
# we are root or have sudo, and named where we are not.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help run test test-cluster test-marked test-etcd test-kernels test-guests test-reports test-containers test-kubelet test-release loom lint cluster fleet bpf release package-dpdk

# What is built, for the programs of these targets to say. A source archive has neither: they say "unknown".
commit = $(shell [ ! -e .git ] || git describe --always --abbrev=12 --dirty=+)
committed = $(shell [ ! -e .git ] || git log -1 --format=%ct)
bench-% campaign-% test-reports release: export DUNLIN_COMMIT ?= $(commit)

help: ## this list
	@sed -n 's/^\([a-z%-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 24
	@echo "Long ones, which docs/campaigns.md describes:"
	@sed -n 's/^\(\(bench\|campaign\)-[a-z]*\):.*/\1/p' $(MAKEFILE_LIST) | paste -sd' ' | fold -sw 90 | sed 's/^/  /'

# `make bench-build` measures it, and fails above the limit.
FIRST_BUILD_LIMIT = 300
run: ## build the demo (docs/install.md#features), and serve a fleet on 127.0.0.1:5300; no root
	@scripts/require demo
	@[ -e "$${CARGO_TARGET_DIR:-target}/demo/dunlin" ] || \
	  echo "The first build takes up to $(FIRST_BUILD_LIMIT) seconds of CPU time, which all cores share: two or three minutes on two cores. Then the demo begins, and says what to try. Ctrl-C ends both."
	@scripts/build-demo
	@sed -n 's/^# try: /  /p' examples/fleet/dunlin.toml
	@exec scripts/demo "$${CARGO_TARGET_DIR:-target}/demo/dunlin"

# A tool that is missing is a failure, not a reason to skip a test. Debian keeps servers in /usr/sbin.
tests = DUNLIN_REQUIRE_ALL=1 DUNLIN_MLRSEARCH_PYTHON=$(CURDIR)/target/mlrsearch/bin/python \
  PATH="$$PATH:/usr/sbin:/sbin" cargo xtask test

test: ## every test that needs neither a Go build nor minutes; installs what it needs
	@scripts/part "tools of make test" scripts/require test
	@scripts/part "tests" env $(tests) quick

# Every part runs even if another one fails, two side by side: a virtual machine uses one CPU.
test-cluster: ## tests with Kubernetes, etcd, containerd, CoreDNS, other kernels; loom; instruction counts
	@scripts/part "tools of make test-cluster, Go builds" scripts/require test-cluster
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target \
	  test-marked test-kernels test-guests bench-instructions loom test-etcd

test-marked: ## the tests marked `cluster` and `slow`
	@scripts/part "tests marked cluster and slow" env $(tests) cluster

test-etcd: ## the store of a fleet on the newest etcd; `make test` has Debian's
	@DUNLIN_ETCD=$$(realpath "$${CARGO_TARGET_DIR:-target}/cluster/etcd") \
	  scripts/part "fleet on the newest etcd" env $(tests) quick crates/control/store-etcd

# The tests of CPUs need a guest with more CPUs, which `make test-guests` and `make campaign-cpus` start.
test-kernels: ## the tests that this kernel lacks something for, on Linux 6.1 in a virtual machine
	@left=$${CARGO_TARGET_DIR:-target}/tests/left; [ -e "$$left" ] || env $(tests) quick; \
	names=$$(cut -f1 "$$left" | grep -v '^cpus'); [ -z "$$names" ] || \
	  scripts/part "tests on Linux 6.1" bench/kernels 6.1 $$names

test-guests:
	@scripts/part "containers in a virtual machine" $(MAKE) --no-print-directory test-containers CONTAINERS=4 LIMIT=1500

test-reports: ## the bundles in docs/reports verify, and their reports have no accessibility violation
	@scripts/require test-reports
	@cargo build --quiet --release --package dunlin-lab
	@mkdir -p target/reports; for bundle in docs/reports/*.json; do \
	  target/release/dunlin-lab report "$$bundle" --out "target/reports/$$(basename "$$bundle" .json).html" || exit 1; done
	@AXE=target/axe/node_modules/axe-core/axe.min.js lab/report/tests/axe.sh target/reports/*.html

loom: ## the snapshot pointer and the event rings in every interleaving of their threads
	@RUSTFLAGS="--cfg loom" scripts/part "loom" cargo test --release --target-dir target/loom --package sync --test loom

lint: ## formatting, clippy, and the layers and promises of the crates
	@cargo fmt --all --check
	@cargo clippy --quiet --workspace --all-targets -- -D warnings -D clippy::too_many_lines
	@RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --quiet --workspace --no-deps --document-private-items
	@cargo clippy --quiet --package dunlin --no-default-features --features demo -- -D warnings -D clippy::too_many_lines
	@cargo test --quiet --package xtask

# A comma in `or` would end an argument.
architectures = amd64,arm64
release: ## image, chart, Debian packages, bills of materials and checksums in OUT=target/packages for ARCHES=amd64,arm64, signed by KEY, named IMAGE
	@scripts/require release $(or $(ARCHES),$(architectures))
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$(committed)} DUNLIN_IMAGE=$(IMAGE) \
	  cargo xtask release $(or $(OUT),target/packages) $(or $(ARCHES),$(architectures)) $(KEY)

package-dpdk: ## the Debian package of the library for DPDK, for the DPDK of this machine, in OUT=target/packages
	@packaging/dpdk/build $(or $(OUT),target/packages)

# Each clone compiles by itself: a shared folder would have what the first one built.
test-release: ## a release of the last commit, for ARCHES, is the same bytes when it is built in two folders
	@mkdir -p target; folder=$$(mktemp -d target/equal.XXXXXX); trap 'rm -rf "$$folder"' EXIT; unset CARGO_TARGET_DIR; \
	for clone in one in/another; do \
	  git clone --quiet . "$$folder/$$clone" && $(MAKE) -C "$$folder/$$clone" release OUT=target/packages KEY= || exit 1; \
	done; diff --recursive --brief "$$folder"/{one,in/another}/target/packages && echo "two builds are equal"

cluster: ## a Kubernetes API server on loopback until it is interrupted; prints KUBECONFIG
	@scripts/require cluster
	@cargo run --quiet --package cluster

fleet: ## write examples/fleet again
	@cargo xtask demo examples/fleet

bpf: ## compile the programs of the kernel again; their objects are committed
	@scripts/require test
	@crates/kernel/bpf/bpf/build crates/dataplane/port-xdp/bpf/filter.c crates/dataplane/port-xdp/bpf/filter.o
	@crates/kernel/bpf/bpf/build crates/node/fabric/bpf/fabric.c crates/node/fabric/bpf/fabric.o
	@crates/kernel/bpf/bpf/build lab/echo/bpf/echo.c lab/echo/bpf/echo.o
	@cd crates/kernel/bpf/bpf && for protocol in 2 3; do \
	  ./build dispatcher.c dispatcher-$$protocol.o -DPROTOCOL=$$protocol && \
	  ./build dispatcher.c dispatcher-$$protocol-frags.o -DPROTOCOL=$$protocol -DFRAGS || exit 1; done

# What the long targets share. Bundles and pages of comparisons go to target/bench; a page that is published is
# written of its bundle in docs/reports (decision 0041).
release = $(or $(CARGO_TARGET_DIR),target)/release
lab = $(release)/dunlin-lab
coredns = $(or $(CARGO_TARGET_DIR),target)/go/bin/coredns
out = target/bench
names = --pattern 'svc-{i}.ns-{i%100}.svc.cluster.local'
# One at a time: two would measure each other.
alone = flock --nonblock --conflict-exit-code 75 /run/lock/dunlin-bench
# compare NAME,TITLE: what follows are servers and options
compare = $(lab) compare --rounds $(or $(ROUNDS),7) $(if $(LENGTH),--length $(LENGTH)) --zone cluster.local=$(out)/zone \
  $(names) --binary coredns=$(coredns) --title '$(2)' --bundle $(out)/$(1).json --markdown $(out)/$(1).md

.PHONY: lab-tools
lab-tools:
	@cargo build --quiet --release --package dunlin --package dunlin-lab
	@mkdir -p $(out)

# 10,000 names, which are valid for longer than a measurement takes, and a wildcard for names that are new to a cache.
$(out)/zone:
	@mkdir -p $(out)
	@cargo run --quiet --package xtask -- fleet 10000 | sed 's/^\$$TTL .*/$$TTL 86400/' >$@.part
	@echo '*.new A 192.0.2.1' >>$@.part && mv $@.part $@

# Each long target runs its parts; a part is a target, too. docs/campaigns.md has the table of all: what each answers
# and in how many minutes.
bench-compare: bench-compare-zone bench-compare-sockets bench-compare-xdp bench-compare-dpdk bench-compare-idle

bench-compare-zone: lab-tools $(out)/zone
	@scripts/require bench-compare
	@$(call compare,compare,Performance beside other servers) --order uniform

bench-compare-sockets: lab-tools $(out)/zone
	@scripts/require bench-compare
	@$(call compare,sockets,Sockets beside Knot and an echo) dunlin knot --order uniform --path af_xdp \
	  --limit 'best dunlin/knot >= 1.25' --limit 'most dunlin/echo >= 0.85' --limit 'kept dunlin/knot >= 1'

bench-compare-xdp: lab-tools $(out)/zone
	@scripts/require bench-compare
	@$(call compare,xdp,AF_XDP beside Knot and an echo) dunlin-xdp knot-xdp dunlin --order uniform --path af_xdp --highest 2M \
	  --limit 'best dunlin-xdp/knot-xdp >= 1.4' --limit 'best dunlin-xdp/echo >= 0.9' --limit 'kept dunlin-xdp >= 0.8' \
	  --limit 'cpu dunlin-xdp/knot-xdp <= 0.75' --limit 'p50 dunlin-xdp/knot-xdp <= 1' --limit 'p99 dunlin-xdp/knot-xdp <= 1' \
	  --limit 'p50 dunlin-xdp/dunlin <= 1' --limit 'p99 dunlin-xdp/dunlin <= 1'

bench-compare-dpdk: lab-tools
	@scripts/require test
	@crates/dataplane/port-dpdk/native/build $(out)
	@bench/table docs/dpdk.md memif bench/dpdk $(release)/dunlin $(out)/libdunlin-dpdk.so $(or $(SECONDS),5) $(or $(ROUNDS),5)

bench-compare-idle: lab-tools
	@scripts/require test
	@crates/dataplane/port-dpdk/native/build $(out)
	@bench/table docs/dpdk.md idle bench/dpdk-idle $(release)/dunlin $(lab) $(out)/libdunlin-dpdk.so $(or $(PAUSE),2) $(or $(QUERIES),100)

bench-forward: bench-forward-hits bench-forward-unique bench-forward-zipf

forwarders = dunlin unbound bind dnsdist coredns
bench-forward-hits: lab-tools $(out)/zone
	@scripts/require bench-forward
	@$(call compare,forward-hits,Forwarding: cached names) $(forwarders) dunlin-zone --forward --order uniform \
	  --limit 'best dunlin/others >= 1.5' --limit 'best dunlin/dunlin-zone >= 0.85'

bench-forward-unique: lab-tools $(out)/zone
	@scripts/require bench-forward
	@$(call compare,forward-unique,Forwarding: new names) $(forwarders) --forward --unique 1 --under new.cluster.local \
	  --limit 'best dunlin/others >= 1'

bench-forward-zipf: lab-tools $(out)/zone
	@scripts/require bench-forward
	@$(call compare,forward-zipf,Forwarding: 90 % of the names cached) $(forwarders) --forward --order zipf:1 --unique 0.1 \
	  --under new.cluster.local --limit 'best dunlin/others >= 1' --limit 'upstream all >= 0.09' --limit 'upstream all <= 0.11'

bench-lab: bench-lab-echo bench-lab-generator bench-lab-search bench-lab-verdict

bench-lab-echo: lab-tools
	@scripts/require bench-lab
	@$(lab) sweep $(names) --costs --runs $(or $(RUNS),6) --bundle $(out)/echo.json --yes \
	  --model blocking,spin,recvmmsg,poll,select,epoll,io_uring,packet,worker
	@DUNLIN_REQUIRE_ALL=1 cargo test --quiet --release --package lab --test all -- --nocapture --ignored reference::recvmmsg

bench-lab-generator:
	@scripts/require bench-lab
	@DUNLIN_REQUIRE_ALL=1 cargo test --quiet --release --package lab --test all -- --nocapture --ignored reference::generator

# The link holds 20 ms in its queue: a short pause of the generator is no loss. A longer queue would hide loss in trials of 1 s.
bench-lab-search: lab-tools
	@$(lab) hosts up --name search --layout steered; trap '$(lab) hosts down --end --name search' EXIT; \
	on() { $(lab) hosts exec --name search "$$@"; }; \
	on server -- $(lab) echo --listen 10.99.0.1:5300 --model recvmmsg >/dev/null & \
	device() { on client -- tc qdisc "$$1" dev search-gen root $${2:+tbf rate "$$2" burst 32k limit 100k}; }; \
	search() { on client -- $(lab) search -s 10.99.0.1 -p 5300 --pattern 'name-{i}.example' -c 64 --max "$$2" --repeat 3 \
	  $(OPTIONS) --bundle $(out)/search-$$1.json; }; failed=; \
	device add $(or $(LINK),40mbit) && search link 400k || failed=1; device del; \
	search free $(or $(MAX),1000k) || failed=1; [ -z "$$failed" ]

bench-lab-verdict:
	@scripts/require test
	@DUNLIN_REQUIRE_ALL=1 DUNLIN_TRIES=$(or $(TRIES),10) DUNLIN_VERDICT_PAGE=$(CURDIR)/docs/verdict.md \
	  cargo test --package lab --test all verdict:: -- --nocapture --ignored

bench-lab-nightly: lab-tools
	@rm -f $(out)/nightly.json; $(lab) sweep --pattern 'name-{i}.example' --model epoll,recvmmsg --threads 1,2 \
	  --runs 10 --bundle $(out)/nightly.json
	@$(lab) history $(or $(HISTORY),bench-history.jsonl) --add $(out)/nightly.json --fail

bench-instructions: bench-instructions-answer

bench-instructions-answer:
	@scripts/require bench-instructions
	@scripts/part "instruction counts" cargo bench --package answer --bench instructions

bench-instructions-whole:
	@scripts/require test
	@RUSTFLAGS="--cfg=rustix_use_libc" cargo build --quiet --release --package dunlin --target-dir $(or $(CARGO_TARGET_DIR),target)/libc
	@bench/whole

bench-build:
	@scripts/require demo
	@scripts/first-answer $(or $(LIMIT),$(FIRST_BUILD_LIMIT))

bench-publish: bench-publish-memory bench-publish-changes

bench-publish-memory: lab-tools
	@bench/memory

bench-publish-changes:
	@cargo bench --package server --bench publish

bench-records:
	@DUNLIN_BENCH_RECORDS=$(or $(RECORDS),10000000) DUNLIN_BENCH_REPORT=$(CURDIR)/docs/records-performance.md \
	  cargo bench --package store-redb --bench records

bench-kubernetes: bench-kubernetes-figures bench-kubernetes-memory

bench-kubernetes-figures: lab-tools
	@scripts/require bench-kubernetes
	@DUNLIN_CHURN_SECONDS=$(or $(CHURN),300) DUNLIN_BIN=$$(realpath $(release)/dunlin) \
	  cargo run --quiet --package conformance --bin kubernetes-figures

bench-kubernetes-memory:
	@cargo bench --quiet --package source-kube --bench memory

# By glibc and by musl: each looks names up in its own way. Port 53 of 127.0.0.153 and 127.0.0.154.
bench-pod:
	@scripts/require bench-kubernetes
	@mkdir -p $(out); for libc in gnu musl; do \
	  rustc --edition 2024 -O --target $$(uname -m)-unknown-linux-$$libc bench/lookups.rs -o $(out)/lookups-$$libc || exit 1; done
	@DUNLIN_REQUIRE_ALL=1 DUNLIN_LOOKUPS="$(abspath $(out))/lookups-gnu $(abspath $(out))/lookups-musl" \
	  bench/table docs/kubernetes.md lookups \
	  cargo test --quiet --package dunlin --test all -- --nocapture --ignored pod::lookups

bench-health: bench-health-probes bench-health-answers bench-health-fleet

bench-health-probes:
	@cargo bench --package health --bench health

bench-health-answers: lab-tools
	@scripts/require bench-health
	@bench/health $(release)/dunlin $(or $(ROUNDS),7)

bench-health-fleet: lab-tools
	@scripts/require test
	@DUNLIN_BIN=$$(realpath $(release)/dunlin) DUNLIN_CHECKED_NAMES=$(or $(NAMES),2000) \
	  cargo test --package dunlin --test all -- --ignored --nocapture fleet_health::dead_addresses

bench-fleet: bench-fleet-costs bench-fleet-coredns

bench-fleet-costs:
	@scripts/require test
	@SETS=$(or $(SETS),100000) cargo bench --package store-etcd --bench fleet

bench-fleet-coredns: lab-tools
	@scripts/require test
	@scripts/require bench-fleet-coredns
	@bench/etcd-coredns $(release)/dunlin $(lab) $(coredns) $(or $(NAMES),10000)

bench-scale: bench-scale-rules bench-scale-replicas

bench-scale-rules:
	@DUNLIN_SCALE_PAGE=$(CURDIR)/docs/scale.md cargo test --package scale-rules --test all rivals:: -- --nocapture --ignored

bench-scale-replicas:
	@scripts/require cluster
	@DUNLIN_REQUIRE_ALL=1 DUNLIN_SCALE_SECONDS=$(or $(SECONDS),720) $(if $(QPS),DUNLIN_SCALE_QPS=$(QPS)) \
	  DUNLIN_SCALE_NODES=$(or $(NODES),5000) cargo test --release --package dunlin --test all -- --nocapture --ignored \
	  --test-threads 1 scale_cluster::loaded:: scale_cluster::many_nodes::

campaign-fuzz:
	@scripts/require fuzz
	@testing/fuzz/campaign $(or $(SECONDS),600)

campaign-differential: campaign-differential-servers campaign-differential-corefile

campaign-differential-servers:
	@scripts/require test
	@cargo build --release --package dunlin
	@PATH="$$PATH:/usr/sbin" DUNLIN_BIN=$$(realpath "$${CARGO_TARGET_DIR:-target}/release/dunlin") \
	  DUNLIN_REQUIRE_ALL=1 DUNLIN_QUESTIONS=$(or $(QUESTIONS),1000000) \
	  DUNLIN_SEED=$(or $(SEED),1) cargo test --package conformance --test all -- --nocapture differential::every_difference

campaign-differential-corefile:
	@scripts/require campaign-differential-corefile
	@COREDNS=$$(realpath $(coredns)) cargo test --package dunlin --test all corefile::

campaign-floods: campaign-floods-attacks campaign-floods-upstreams campaign-floods-cache

# These threads run deferred work of the network stacks; otherwise they take turns with the server and the flood,
# some milliseconds each: on two machines they would not.
campaign-floods-attacks: lab-tools
	@scripts/require test
	@receivers() { for thread in $$(pgrep -x 'ksoftirqd/[01]'); do chrt "$$@" "$$thread"; done; }; \
	trap 'receivers --other --pid 0' EXIT; receivers --fifo --pid 60; \
	DUNLIN_BIN=$$(realpath $(release)/dunlin) DUNLIN_REQUIRE_ALL=1 DUNLIN_FLOOD_SECONDS=$(or $(SECONDS),60) \
	  DUNLIN_FLOOD_RATE=$(or $(RATE),50000) DUNLIN_FLOOD_SLACK=0 DUNLIN_FLOOD_PRIORITY=$(or $(PRIORITY),0) \
	  $(alone) cargo test --quiet --release --package conformance --test all -- --nocapture --ignored floods::

campaign-floods-upstreams: lab-tools
	@scripts/require test
	@export DUNLIN_BIN=$$(realpath $(release)/dunlin) DUNLIN_REQUIRE_ALL=1 DUNLIN_UPSTREAMS_SECONDS=$(or $(SECONDS),20) \
	  DUNLIN_UPSTREAMS_SLACK=0 DUNLIN_UPSTREAMS_RATE=$(or $(RATE),200) DUNLIN_UPSTREAMS_AT_ONCE=1 \
	  DUNLIN_SPOOFING_SECONDS=$(or $(FORGING),60) DUNLIN_SPOOFING_RATE=$(or $(FORGED),100000); failed=; \
	for trial in faults=upstreams:: forged=spoofing::off_path entropy=spoofing::ids_ports_and_case_are_random; do \
	  bench/table docs/reliability.md "$${trial%%=*}" $(alone) cargo test --quiet --release --package conformance --test all -- \
	    --nocapture --include-ignored --test-threads=1 "$${trial#*=}" || failed+=" $${trial%%=*}"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

campaign-floods-cache: lab-tools
	@DUNLIN_BIN=$$(realpath $(release)/dunlin) DUNLIN_CACHE_NAMES=$(or $(NAMES),10000000) DUNLIN_CACHE_MIB=$(or $(MIB),64) \
	  cargo test --quiet --release --package conformance --test all -- --nocapture memory::

campaign-kill: campaign-kill-crash campaign-kill-secondary

campaign-kill-crash:
	@DUNLIN_KILLS=$(or $(KILLS),300) DUNLIN_CRASHES=$(or $(CRASHES),2000) \
	  cargo test --release --package store-redb --test all -- --nocapture kill:: crash::

campaign-kill-secondary:
	@scripts/require test
	@cargo test --package dunlin --test all -- --ignored --nocapture secondary::

# The last release, and a build whose form number is one higher, share what they compile.
campaign-upgrade:
	@scripts/require test
	@older=$$(scripts/last-release) && export DUNLIN_OLDER=$$older CARGO_TARGET_DIR=$(upgrades) DUNLIN_NEXT_FORM=1 && \
	  cargo build --quiet --package dunlin --bin dunlin && cp $(upgrades)/debug/dunlin $(upgrades)/next && \
	  DUNLIN_NEWER=$(upgrades)/next cargo test --quiet --package dunlin --test all -- --ignored --nocapture upgrade:: && \
	  cargo test --quiet --package store-redb --package store-etcd --test all -- --include-ignored upgrade::

upgrades = $(abspath $(or $(CARGO_TARGET_DIR),target))/upgrades

campaign-anycast: campaign-anycast-ends campaign-anycast-left campaign-anycast-flood campaign-anycast-upgrades

anycast_campaign = cargo test --package dunlin --test all -- --ignored --nocapture anycast_campaign::

campaign-anycast-ends:
	@scripts/require test
	@DUNLIN_KILLS=$(or $(KILLS),50) DUNLIN_HANGS=$(or $(HANGS),20) $(anycast_campaign)servers_that_end

campaign-anycast-left:
	@scripts/require test
	@DUNLIN_KILLS=$(or $(KILLS),100) $(anycast_campaign)nothing_is_left

campaign-anycast-flood:
	@scripts/require test
	@DUNLIN_SECONDS=$(or $(SECONDS),60) $(anycast_campaign)flood

# Between the last release and this build.
campaign-anycast-upgrades:
	@scripts/require test
	@older=$$(scripts/last-release) && DUNLIN_OLDER=$$older DUNLIN_UPGRADES=$(or $(UPGRADES),50) DUNLIN_RATE=$(or $(RATE),20000) \
	  cargo test --package dunlin --test all -- --ignored --nocapture anycast_upgrades::

campaign-fleet: campaign-fleet-kill campaign-fleet-counter campaign-fleet-writers \
  campaign-fleet-faults campaign-fleet-histories

campaign-fleet-kill:
	@scripts/require test
	@DUNLIN_KILLS=$(or $(KILLS),200) cargo test --release --package store-etcd --test all kill:: -- --nocapture

campaign-fleet-counter:
	@scripts/require test
	@DUNLIN_INCREMENTS=$(or $(INCREMENTS),20000) \
	  cargo test --release --package store-etcd --test all no_increment -- --nocapture

campaign-fleet-writers:
	@scripts/require test
	@scripts/require cluster
	@DUNLIN_WRITER_ROUNDS=$(or $(ROUNDS),200) \
	  cargo test --package dunlin --test all -- --ignored --nocapture fleet_kubernetes::fleet_agrees

campaign-fleet-faults:
	@scripts/require test
	@scripts/require cluster
	@DUNLIN_ETCD=$$(realpath "$${CARGO_TARGET_DIR:-target}/cluster/etcd") \
	  DUNLIN_FAULTS_SECONDS=$(or $(SECONDS),600) \
	  cargo test --package dunlin --test all -- --ignored --nocapture fleet_faults::

campaign-fleet-histories:
	@scripts/require test
	@DUNLIN_FAULTS=$(or $(FAULTS),1000) \
	  cargo test --package store-etcd --test all -- --ignored --nocapture faults::

campaign-clients:
	@scripts/require campaign-clients
	@cargo build --quiet --package dunlin
	@target=$${CARGO_TARGET_DIR:-target}; testing/clients/campaign "$$target/debug/dunlin" "$$target/clients"

campaign-xdp: campaign-xdp-soak campaign-xdp-attach campaign-xdp-kernels campaign-xdp-memif campaign-xdp-pci

campaign-xdp-soak:
	@scripts/require test
	@DUNLIN_REQUIRE_ALL=1 DUNLIN_SOAK_SECONDS=$(or $(SECONDS),3600) $(if $(RATE),DUNLIN_SOAK_RATE=$(RATE)) \
	  DUNLIN_SOAK_CHANGES=$(or $(CHANGES),1000) cargo test --release --package dunlin --test all \
	  -- --nocapture --ignored soak::

campaign-xdp-attach:
	@scripts/require test
	@DUNLIN_REQUIRE_ALL=1 DUNLIN_ATTACHES=$(or $(ATTACHES),100) DUNLIN_KILLS=$(or $(KILLS),50) \
	  cargo test --package dunlin --test all -- --nocapture --include-ignored \
	  xdp::interface_is_attached xdp::passed_traffic

# By DPDK: the peer of a memif is killed in a flood, then 20 minutes of load.
campaign-xdp-memif:
	@scripts/require test
	@DUNLIN_REQUIRE_ALL=1 DUNLIN_KILLS=$(or $(KILLS),50) DUNLIN_SOAK_SECONDS=$(or $(SECONDS),1200) \
	  $(if $(RATE),DUNLIN_SOAK_RATE=$(RATE)) cargo test --release --package dunlin --test all \
	  -- --nocapture --include-ignored --test-threads 1 peers_that_are_killed dpdk_soak::

campaign-xdp-pci:
	@scripts/require campaign-kernels
	@scripts/require test
	@cargo build --quiet --package dunlin
	@crates/dataplane/port-dpdk/native/build
	@target=$${CARGO_TARGET_DIR:-target}; bench/dpdk-pci "$$target/debug/dunlin" "$$target/dpdk/libdunlin-dpdk.so" $(VERSION)

campaign-xdp-kernels:
	@scripts/require campaign-kernels
	@bench/kernels $(or $(VERSION),6.1)

# One thread emulates all CPUs of the guest: where several do, a CPU now and then runs an instruction of the kernel
# that another one has just patched, and the kernel ends (int3).
cpu-guest = ACCEL=tcg,thread=single SMP=8,sockets=2,cores=2,threads=2 NUMA="-object memory-backend-ram,id=m0,size=1G \
  -object memory-backend-ram,id=m1,size=1G -numa node,nodeid=0,cpus=0-3,memdev=m0 -numa node,nodeid=1,cpus=4-7,memdev=m1"
guests = $(or $(GUESTS),1)

campaign-cpus: campaign-cpus-sets campaign-cpus-figures campaign-cpus-fabric

# Linux 6.12 has partitions, 6.1 has not: the rule file is tested on both, containers and experiments on the first.
campaign-cpus-sets:
	@scripts/require campaign-kernels
	@DUNLIN_PLANS=100000 cargo test --release --package cpu-planner --test all random::
	@cargo build --quiet --package dunlin
	@export $(cpu-guest) LIMIT=$(or $(LIMIT),43200); \
	groups="cpus_kernel::group_has_its_cpus_alone_and_uninstall_restores_all \
	  cpus_kernel::manual_changes_and_new_groups_are_repaired \
	  cpus_kernel::killed_manager_leaves_the_set_and_the_next_one_continues \
	  cpus_kernel::rule_for_more_cpus_than_exist_changes_nothing"; \
	TESTS=dunlin bench/kernels $(or $(VERSION),6.1) $$groups && \
	TESTS=dunlin bench/kernels $(or $(VERSION),6.12) \
	  followed_cpus::changed_cpuset_is_followed_without_losing_a_query && \
	TESTS=dunlin-lab bench/kernels $(or $(VERSION),6.12) \
	  cpus::cpus_experiments_restore_all_settings_and_their_report_verifies && \
	$(MAKE) --no-print-directory test-containers CONTAINERS=$(or $(CONTAINERS),500) PROFILE=--release

# Built of a clean commit, the page names that commit.
campaign-cpus-figures:
	@scripts/require campaign-kernels
	@cargo build --quiet --release --package dunlin --package dunlin-lab
	@LIMIT=$(or $(LIMIT),3600) RUN="PATH=$$(realpath "$${CARGO_TARGET_DIR:-target}/release"):\$$PATH; \
	  dunlin-lab cpus --quick --runs $(or $(RUNS),10) --bundle docs/reports/cpus.json --markdown docs/benchmarks/cpus.md \
	  --remark 'In a virtual machine with two emulated CPUs (QEMU, Linux 6.12), beside other work on the machine: caches are those of the emulator, and times are longer than without emulation' && \
	  cp docs/reports/cpus.json docs/benchmarks/cpus*.md docs/benchmarks/cpus*.svg /out/" bench/kernels $(or $(VERSION),6.12)
	@out=$$(realpath "$${CARGO_TARGET_DIR:-target}/kernels/out"); cp $$out/cpus.json docs/reports/; cp $$out/cpus*.md $$out/cpus*.svg docs/benchmarks/

campaign-cpus-fabric:
	@cargo test --quiet --package fabric --test all -- --nocapture --ignored --test-threads 1

test-containers: ## CONTAINERS=20 containers in GUESTS=1 virtual machines come and go while the manager of CPUs is killed, from SEED=1
	@scripts/require campaign-kernels
	@export $(cpu-guest) LIMIT=$(or $(LIMIT),43200) DUNLIN_CONTAINERS=$$((($(or $(CONTAINERS),20) + $(guests) - 1) / $(guests))); \
	export TESTS=dunlin PROFILE=$(PROFILE); \
	seq $(guests) | xargs -P $(guests) -I{} bash -c 'MACHINE=guest-{} DUNLIN_SEED=$$(($(or $(SEED),1) + {} - 1)) bench/kernels "$$@"' - \
	  $(or $(VERSION),6.12) cpus_containers::page::commands_of_the_page_give_a_container_two_cpus_and_take_them_back \
	  cpus_containers::a_guaranteed_container_starts_alone_on_its_cpus \
	  cpus_containers::exclusive_cpus_stay_so_while_containers_come_and_go_and_the_manager_is_killed

# The image is that of this build; IMAGE=FILE is an archive of another one, such as that of a release.
test-kubelet: ## the manifests and the chart beside a real kubelet, in a virtual machine; IMAGE=FILE is that of a release
	@scripts/require test-kubelet
	@DUNLIN_REQUIRE_ALL=1 $(if $(IMAGE),DUNLIN_IMAGE=$(abspath $(IMAGE))) \
	  cargo test --package dunlin --test all -- --ignored --nocapture kubernetes_manifests::kubelet::
