//! Records and changes, and what makes them valid.
