//! The files of a server: their form, and how they are opened, replaced and locked.
#![forbid(unsafe_code)]

pub mod data_folder;
pub mod files;
mod form;
pub mod lock;
mod old;

pub use form::FileForm;
pub use old::{OldForm, OldSum};
