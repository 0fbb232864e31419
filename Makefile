# What a person or CI types. All of it works from a clean clone; what is missing is installed by apt where
# we are root or have sudo, and named where we are not.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help run test test-cluster test-marked test-etcd test-kernels test-guests test-containers test-reports bench-nightly loom lint cluster fleet bpf bench-bypass bench-compare bench-cpus bench-echoes bench-forward bench-instructions bench-load bench-searches bench-sockets bench-whole \
  bench-kubernetes bench-kubernetes-memory bench-memory bench-publish bench-health bench-fleet \
  campaign-differential campaign-floods campaign-cache campaign-fuzz campaign-upstreams \
  campaign-attach campaign-soak campaign-kernels campaign-corefile campaign-kill campaign-fleet-kill campaign-fleet-counter campaign-fleet-writers campaign-fleet-faults campaign-upgrade campaign-verdict campaign-scale bench-etcd-coredns bench-records bench-scale deb

help: ## this list
	@sed -n 's/^\([a-z%-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 24

run: ## build, and serve the demo fleet on 127.0.0.1:5300; no root
	@scripts/require run
	@[ -e "$${CARGO_TARGET_DIR:-target}/release/dunlin" ] || echo "The first build takes some minutes; then the demo begins."
	@cargo build --release --package dunlin
	@sed -n 's/^# try: /  /p' examples/fleet/dunlin.toml
	@exec scripts/demo "$${CARGO_TARGET_DIR:-target}/release/dunlin"

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
	@cargo build --quiet --package dunlin --target $$(uname -m)-unknown-linux-musl
	@scripts/part "tests marked cluster and slow" env $(tests) cluster

test-etcd: ## the store of a fleet on the newest etcd; `make test` has Debian's
	@DUNLIN_ETCD=$$(realpath "$${CARGO_TARGET_DIR:-target}/cluster/etcd") DUNLIN_REQUIRE_ALL=1 \
	  scripts/part "fleet on the newest etcd" cargo test --package store-etcd --test all

# The tests of CPUs need a guest with more CPUs, which `make test-guests` and `make campaign-cpus` start.
test-kernels: ## the tests that this kernel lacks something for, on Linux 6.1 in a virtual machine
	@left=$${CARGO_TARGET_DIR:-target}/tests/left; [ -e "$$left" ] || env $(tests) quick; \
	names=$$(cut -f1 "$$left" | grep -vE 'cpus|manager|manual_changes'); [ -z "$$names" ] || \
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
	@cargo test --quiet --package xtask

deb: ## target/dunlin.deb and target/dunlin-lab.deb
	@scripts/require deb
	@cargo build --release --package dunlin --package dunlin-lab
	@packaging/deb/build target/release/dunlin target/dunlin.deb
	@packaging/deb/build target/release/dunlin-lab target/dunlin-lab.deb

cluster: ## a Kubernetes API server on loopback until it is interrupted; prints KUBECONFIG
	@scripts/require cluster
	@cargo run --quiet --package cluster

fleet: ## write examples/fleet again
	@cargo xtask demo examples/fleet

bpf: ## compile the XDP programs again; their objects are committed
	@scripts/require test
	@crates/dataplane/port-xdp/bpf/build crates/dataplane/port-xdp/bpf/filter.c crates/dataplane/port-xdp/bpf/filter.o
	@crates/dataplane/port-xdp/bpf/build lab/echo/bpf/echo.c lab/echo/bpf/echo.o
	@cd crates/dataplane/port-xdp/bpf && for protocol in 2 3; do \
	  ./build dispatcher.c dispatcher-$$protocol.o -DPROTOCOL=$$protocol && \
	  ./build dispatcher.c dispatcher-$$protocol-frags.o -DPROTOCOL=$$protocol -DFRAGS || exit 1; done

bench-instructions: ## instructions a query; more than the limit fails
	@scripts/require bench-instructions
	@scripts/part "instruction counts" cargo bench --package answer --bench instructions

bench-whole: ## user instructions of the whole server for each answer; more than the limit fails
	@scripts/require test
	@RUSTFLAGS="--cfg=rustix_use_libc" cargo build --quiet --release --package dunlin --target-dir $(or $(CARGO_TARGET_DIR),target)/libc
	@bench/whole

bench-echoes: ## what an echo answers by every model of the kernel's stack, beside one in C, ROUNDS=3; writes docs/echo.md; root
	@scripts/require bench-echoes
	@cargo build --quiet --release --package dunlin --package dunlin-lab
	@bench/echoes $(or $(ROUNDS),3) docs/echo.md

bench-forward: ## beside Unbound, BIND, dnsdist and CoreDNS, ROUNDS=3; writes docs/forwarding-performance.md; root
	@scripts/require bench-forward
	@cargo build --quiet --release --package dunlin --package dunlin-lab --package xtask
	@bench/forward $(or $(ROUNDS),3) docs/forwarding-performance.md

bench-compare: ## beside six other servers, ROUNDS=7; writes docs/performance.md; root
	@scripts/require bench-compare
	@cargo build --quiet --release --package dunlin --package dunlin-lab --package xtask
	@bench/compare $(or $(ROUNDS),7) docs/performance.md

bench-bypass: ## AF_XDP beside Knot's and an echo on the same rings, ROUNDS=5; writes docs/xdp-performance.md; root
	@scripts/require test
	@cargo build --quiet --release --package dunlin --package dunlin-lab --package xtask
	@bench/bypass $(or $(ROUNDS),5) docs/xdp-performance.md

bench-sockets: ## queries a second beside Knot and a bare echo, ROUNDS=3; root
	@scripts/require test
	@cargo build --quiet --release --package dunlin --package dunlin-lab --package xtask
	@bench/sockets $(or $(ROUNDS),3)

bench-load: ## the generator beside dnsperf, ROUNDS=5; writes docs/load.md; root
	@scripts/require test
	@cargo build --quiet --release --package dunlin --package dunlin-lab
	@bench/load $(or $(ROUNDS),5) docs/load.md

bench-memory: ## bytes a record, the peak of a reload, the time of a load; more than the limits fails
	@scripts/require run
	@cargo build --quiet --release --package dunlin --package xtask
	@bench/memory

bench-kubernetes: ## memory, first answers, latency and outages with 100,000 endpoints, changes for CHURN=300 s, beside CoreDNS
	@scripts/require bench-kubernetes
	@cargo build --quiet --release --package dunlin
	@DUNLIN_CHURN_SECONDS=$(or $(CHURN),300) DUNLIN_BIN=$$(realpath "$${CARGO_TARGET_DIR:-target}/release/dunlin") \
	  cargo run --quiet --package conformance --bin kubernetes-figures

bench-kubernetes-memory: ## where the bytes of 100,000 endpoints go
	@cargo bench --quiet --package source-kube --bench memory

bench-nightly: ## the same sweep each night, appended to HISTORY=bench-history.jsonl; fails on a lower level; root
	@scripts/require run
	@cargo build --quiet --release --package dunlin-lab
	@rm -f target/nightly.json; target/release/dunlin-lab sweep --pattern 'name-{i}.example' --model epoll,recvmmsg --threads 1,2 \
	  --runs 10 --bundle target/nightly.json
	@target/release/dunlin-lab history $(or $(HISTORY),bench-history.jsonl) --add target/nightly.json --fail

bench-searches: ## three searches of the same echo, through a link and without a limit: their intervals overlap, else it fails; root
	@scripts/require run
	@cargo build --quiet --release --package dunlin-lab
	@bench/searches

bench-publish: ## what a change costs at 10 k and 10 M names, and when it is live; more than the limits fails
	@cargo bench --package server --bench publish

bench-health: ## how fast dead addresses are out of answers, beside gdnsd (root), and what their probes cost; more than the limits fails
	@scripts/require bench-health
	@cargo bench --package health --bench health
	@cargo build --release --package dunlin
	@bench/health $(or $(CARGO_TARGET_DIR),target)/release/dunlin 7

bench-records: ## writes of records until durable and live, imports, starts with RECORDS=10000000; writes docs/records-performance.md
	@DUNLIN_BENCH_RECORDS=$(or $(RECORDS),10000000) DUNLIN_BENCH_REPORT=$(CURDIR)/docs/records-performance.md \
	  cargo bench --package store-redb --bench records

bench-scale: ## the mode load of `dunlin scale` beside tuned rivals on 1,200 courses; writes docs/scale.md and docs/scale.svg
	@DUNLIN_SCALE_PAGE=$(CURDIR)/docs/scale.md cargo test --package scale-rules --test all rivals:: -- --nocapture --ignored

campaign-scale: ## a step of the load on real replicas, quiet for SECONDS=720, and NODES=5000 in a real API server; root
	@scripts/require cluster
	@DUNLIN_REQUIRE_ALL=1 DUNLIN_SCALE_SECONDS=$(or $(SECONDS),720) $(if $(QPS),DUNLIN_SCALE_QPS=$(QPS)) \
	  DUNLIN_SCALE_NODES=$(or $(NODES),5000) cargo test --release --package dunlin --test all -- --nocapture --ignored \
	  --test-threads 1 scale_cluster::loaded:: scale_cluster::many_nodes::

campaign-differential: ## QUESTIONS=1000000 beside Knot, NSD and BIND, from SEED=1
	@scripts/require test
	@cargo build --release --package dunlin
	@PATH="$$PATH:/usr/sbin" DUNLIN_BIN=$$(realpath "$${CARGO_TARGET_DIR:-target}/release/dunlin") \
	  DUNLIN_REQUIRE_ALL=1 DUNLIN_QUESTIONS=$(or $(QUESTIONS),1000000) \
	  DUNLIN_SEED=$(or $(SEED),1) cargo test --package conformance --test all -- --nocapture differential::every_difference

campaign-attach: ## ATTACHES=100 times an XDP program comes and goes under load, KILLS=50 kills; root
	@scripts/require test
	@DUNLIN_REQUIRE_ALL=1 DUNLIN_ATTACHES=$(or $(ATTACHES),100) DUNLIN_KILLS=$(or $(KILLS),50) \
	  cargo test --package dunlin --test all -- --nocapture --include-ignored \
	  xdp::interface_is_attached xdp::passed_traffic

campaign-soak: ## SECONDS=3600 on AF_XDP at 80 % of its rate, or at RATE, while CHANGES=1000 records change a second; root
	@scripts/require test
	@DUNLIN_REQUIRE_ALL=1 DUNLIN_SOAK_SECONDS=$(or $(SECONDS),3600) $(if $(RATE),DUNLIN_SOAK_RATE=$(RATE)) \
	  DUNLIN_SOAK_CHANGES=$(or $(CHANGES),1000) cargo test --release --package dunlin --test all \
	  -- --nocapture --ignored soak::

campaign-kernels: ## what goes past the kernel's stack, tested on Debian's newest Linux VERSION=6.1 in a virtual machine
	@scripts/require campaign-kernels
	@bench/kernels $(or $(VERSION),6.1)

# One thread emulates all CPUs of the guest: where several do, a CPU now and then runs an instruction of the kernel
# that another one has just patched, and the kernel ends (int3).
cpu-guest = ACCEL=tcg,thread=single SMP=8,sockets=2,cores=2,threads=2 NUMA="-object memory-backend-ram,id=m0,size=1G \
  -object memory-backend-ram,id=m1,size=1G -numa node,nodeid=0,cpus=0-3,memdev=m0 -numa node,nodeid=1,cpus=4-7,memdev=m1"
guests = $(or $(GUESTS),1)

# Linux 6.12 has partitions, 6.1 has not: the rule file is tested on both, containers and experiments on the first.
campaign-cpus: ## CPU sets, experiments and CONTAINERS=500 containers in GUESTS=1 machines, on a kernel with 8 CPUs, 2 sockets and 2 NUMA nodes, from SEED=1
	@scripts/require campaign-kernels
	@cargo build --quiet --package dunlin
	@export $(cpu-guest) LIMIT=$(or $(LIMIT),43200); \
	groups="cpus_kernel::group_has_its_cpus_alone_and_uninstall_restores_all \
	  cpus_kernel::manual_changes_and_new_groups_are_repaired_within_a_second \
	  cpus_kernel::killed_manager_leaves_the_set_and_the_next_one_continues \
	  cpus_kernel::rule_for_more_cpus_than_exist_changes_nothing"; \
	TESTS="--package dunlin --test all" bench/kernels $(or $(VERSION),6.1) $$groups && \
	TESTS="--package dunlin --test all" bench/kernels $(or $(VERSION),6.12) \
	  followed_cpus::changed_cpuset_is_followed_without_losing_a_query && \
	TESTS="--package dunlin-lab --test all" bench/kernels $(or $(VERSION),6.12) \
	  cpus::cpus_experiments_restore_all_settings_and_their_report_verifies && \
	$(MAKE) --no-print-directory test-containers CONTAINERS=$(or $(CONTAINERS),500) PROFILE=--release

# Built of a clean commit, the page names that commit.
bench-cpus: ## experiments with CPUs of their own, RUNS=10 of each, in a virtual machine with 2 CPUs; writes docs/benchmarks/cpus.md
	@scripts/require campaign-kernels
	@cargo build --quiet --release --package dunlin --package dunlin-lab
	@LIMIT=$(or $(LIMIT),3600) RUN="PATH=$$(realpath "$${CARGO_TARGET_DIR:-target}/release"):\$$PATH; \
	  dunlin-lab cpus --quick --runs $(or $(RUNS),10) --bundle docs/reports/cpus.json --markdown docs/benchmarks/cpus.md \
	  --remark 'In a virtual machine with two emulated CPUs (QEMU, Linux 6.12), beside other work on the machine: caches are those of the emulator, and times are longer than without emulation' && \
	  cp docs/reports/cpus.json docs/benchmarks/cpus*.md docs/benchmarks/cpus*.svg /out/" bench/kernels $(or $(VERSION),6.12)
	@out=$$(realpath "$${CARGO_TARGET_DIR:-target}/kernels/out"); cp $$out/cpus.json docs/reports/; cp $$out/cpus*.md $$out/cpus*.svg docs/benchmarks/

test-containers: ## CONTAINERS=20 containers in GUESTS=1 virtual machines come and go while the manager of CPUs is killed, from SEED=1
	@scripts/require campaign-kernels
	@cargo test --quiet --no-run $(PROFILE) --package dunlin --test all
	@export $(cpu-guest) LIMIT=$(or $(LIMIT),43200) DUNLIN_CONTAINERS=$$((($(or $(CONTAINERS),20) + $(guests) - 1) / $(guests))); \
	export TESTS="$(PROFILE) --package dunlin --test all"; \
	seq $(guests) | xargs -P $(guests) -I{} bash -c 'MACHINE=guest-{} DUNLIN_SEED=$$(($(or $(SEED),1) + {} - 1)) bench/kernels "$$@"' - \
	  $(or $(VERSION),6.12) cpus_containers::page::commands_of_the_page_give_a_container_two_cpus_and_take_them_back \
	  cpus_containers::a_guaranteed_container_starts_alone_on_its_cpus \
	  cpus_containers::exclusive_cpus_stay_so_while_containers_come_and_go_and_the_manager_is_killed

campaign-floods: ## every flood for SECONDS=60 each, beside a polite client; root
	@scripts/require test
	@bench/floods $(or $(SECONDS),60)

campaign-cache: ## NAMES=10000000 through a cache of MIB=64; more memory than that fails
	@scripts/require run
	@bench/cache $(or $(NAMES),10000000) $(or $(MIB),64)

campaign-verdict: ## whether a verdict names what was broken, TRIES=10 each; writes docs/verdict.md; root
	@scripts/require test
	@DUNLIN_REQUIRE_ALL=1 DUNLIN_TRIES=$(or $(TRIES),10) DUNLIN_VERDICT_PAGE=$(CURDIR)/docs/verdict.md \
	  cargo test --package lab --test all verdict:: -- --nocapture --ignored

campaign-upstreams: ## every fault of other servers for SECONDS=20, every forger for FORGING=60; root
	@scripts/require test
	@bench/upstreams $(or $(SECONDS),20) $(or $(FORGING),60)

campaign-corefile: ## whether CoreDNS still says what is held against Dunlin with what is imported of its Corefile
	@scripts/require campaign-corefile
	@COREDNS=$$(realpath "$${CARGO_TARGET_DIR:-target}/go/bin/coredns") \
	  cargo test --package dunlin --test all corefile::

campaign-kill: ## a process killed KILLS=300 times while it writes records, and CRASHES=2000 disks that forget
	@DUNLIN_KILLS=$(or $(KILLS),300) DUNLIN_CRASHES=$(or $(CRASHES),2000) \
	  cargo test --release --package store-redb --test all -- --nocapture kill:: crash::

campaign-upgrade: ## upgrade, write, go back, with an OLDER=BINARY whose snapshots have the FORMAT=3
	@DUNLIN_OLDER=$(OLDER) DUNLIN_OLDER_FORMAT=$(or $(FORMAT),3) \
	  cargo test --package dunlin --test all -- --ignored --nocapture upgrade::

bench-fleet: ## costs of a fleet of three on etcd beside those of bare etcd, with SETS=100000
	@scripts/require test
	@SETS=$(or $(SETS),100000) cargo bench --package store-etcd --bench fleet

bench-etcd-coredns: ## Dunlin on etcd beside CoreDNS's plugin etcd, on the same NAMES=10000, also with etcd dead
	@scripts/require test
	@scripts/require bench-etcd-coredns
	@cargo build --quiet --release --package dunlin --package dunlin-lab
	@bench/etcd-coredns target/release/dunlin target/release/dunlin-lab target/go/bin/coredns $(or $(NAMES),10000)

campaign-fleet-kill: ## a server killed or stopped KILLS=200 times while it writes large batches into etcd
	@scripts/require test
	@DUNLIN_KILLS=$(or $(KILLS),200) cargo test --release --package store-etcd --test all kill:: -- --nocapture

campaign-fleet-counter: ## a counter that 64 writers on three servers of a fleet raise INCREMENTS=20000 times
	@scripts/require test
	@DUNLIN_INCREMENTS=$(or $(INCREMENTS),20000) \
	  cargo test --release --package store-etcd --test all no_increment -- --nocapture

campaign-fleet-writers: ## two writers of a cluster's objects, one of which is killed or stopped ROUNDS=200 times
	@scripts/require test
	@scripts/require cluster
	@DUNLIN_WRITER_ROUNDS=$(or $(ROUNDS),200) \
	  cargo test --package dunlin --test all -- --ignored --nocapture fleet_kubernetes::fleet_agrees

campaign-fleet-faults: ## three servers and three members of etcd under load while everything breaks, SECONDS=600; root
	@scripts/require test
	@scripts/require cluster
	@DUNLIN_ETCD=$$(realpath "$${CARGO_TARGET_DIR:-target}/cluster/etcd") \
	  DUNLIN_FAULTS_SECONDS=$(or $(SECONDS),600) \
	  cargo test --package dunlin --test all -- --ignored --nocapture fleet_faults::

campaign-fuzz: ## every fuzz target for SECONDS=600 each
	@scripts/require fuzz
	@testing/fuzz/campaign $(or $(SECONDS),600)
