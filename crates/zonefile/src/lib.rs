//! Master files: text in, records with their places out.
