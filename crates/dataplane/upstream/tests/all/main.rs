//! Threads that query other servers, over real sockets and in simulated time.
mod attacked;
mod client_thread;
mod commands;
mod faults;
mod peer_shards;
mod peer_threads;
mod scenarios;
mod simulation;
mod stream_server;
mod streams;
