//! The tests of the binary, a module for each subject: one binary, which is linked once.
//!
//! `cargo test -p dunlin --test all rest::` runs those of a module. All share a process: a test
//! changes neither variables, user, folder nor namespace of the process, but those of the servers
//! that it starts; a thread of a test may enter a network namespace. No test needs a binary of its
//! own.
mod anycast_bed;
mod clustered;
mod fleet_node;
#[path = "../../../dataplane/port-dpdk/tests/all/end.rs"]
mod memif_end;
mod operated;
#[path = "../../../dataplane/port-xdp/tests/all/kernel/wire.rs"]
mod pair;
mod served;

mod anycast;
mod anycast_campaign;
mod anycast_fleet;
mod anycast_upgrades;
mod check;
mod commands;
mod corefile;
mod cpus;
mod cpus_containers;
mod cpus_events;
mod cpus_kernel;
mod data_dir;
mod demo;
mod dpdk;
mod dpdk_devices;
mod dpdk_router;
mod dpdk_soak;
mod fabric;
mod fleet;
mod fleet_faults;
mod fleet_health;
mod fleet_kubernetes;
mod followed_cpus;
mod health;
mod held;
mod import;
mod import_follow;
mod journal;
mod kubernetes;
mod kubernetes_checks;
mod kubernetes_clients;
mod kubernetes_exports;
mod kubernetes_faults;
mod kubernetes_hints;
mod kubernetes_manifests;
mod kubernetes_names;
mod kubernetes_outages;
mod kubernetes_records;
mod kubernetes_shared;
mod look;
mod managed;
mod mistakes;
mod networks;
mod notify;
mod operate;
mod outage;
mod packaging;
mod pod;
mod privileges;
mod records;
mod rest;
mod salvage;
mod saved;
mod scale;
mod scale_cluster;
mod secondaries;
mod secondary;
mod serve;
mod sites;
mod sites_failures;
mod sites_shared;
mod soak;
mod systemd;
mod transfer;
mod transfer_tls;
mod update;
mod upgrade;
mod written;
mod xdp;
