//! The store on disks that fail, and in processes that are killed.
mod crash;
mod damage;
mod deleted;
mod disk;
mod kill;
mod planted;
mod salvage;
mod service;
mod upgrade;
