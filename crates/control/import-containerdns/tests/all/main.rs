//! INI files of `ContainerDNS` and the configs that they become.
mod cases;
