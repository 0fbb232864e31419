//! The loop every change goes through: mailbox, validation, compile, publish, status.
