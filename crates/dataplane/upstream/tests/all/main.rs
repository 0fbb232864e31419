//! Threads that query other servers, over real sockets and in simulated time.
mod attacked;
mod commands;
mod ends;
mod faults;
mod peer_shards;
mod play;
mod scenarios;
mod scene;
mod streams;
mod street;
