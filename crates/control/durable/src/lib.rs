//! The files of a server: how they are opened, replaced and locked.
#![forbid(unsafe_code)]

pub mod data_folder;
pub mod files;
pub mod lock;
