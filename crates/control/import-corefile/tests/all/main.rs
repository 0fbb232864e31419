//! Corefiles and the configs that they become.
mod cases;
