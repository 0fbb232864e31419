//! The source, from objects or a saved state to what is served.
#[path = "../../benches/filled/mod.rs"]
mod filled;

mod certified;
mod checked;
mod held;
mod peers;
mod refused;
mod shared;
mod world;
