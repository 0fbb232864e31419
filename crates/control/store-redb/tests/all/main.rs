//! The store on disks that fail, and in processes that are killed.
mod crash;
mod damage;
mod deleted;
mod disk;
mod kill;
#[expect(dead_code, reason = "no disk is full here")]
#[path = "../../../records/src/tests/memory.rs"]
mod memory;
mod planted;
mod salvage;
mod service;
mod upgrade;
