//! The port on a real interface, and the programs in the kernel.
//!
//! One allocator counts what each thread asks for; [`kernel`] has its test.
mod kernel;
mod program;
