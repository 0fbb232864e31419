//! Reports, and how they are verified.
mod published;
mod verify;
