//! Workers, one a core, and the streams beside them.
