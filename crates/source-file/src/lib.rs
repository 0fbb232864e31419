//! Zone files as a source: loaded, watched, reloaded.
