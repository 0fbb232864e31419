//! Conditions and operations of transactions that many users need.
use etcd_client::{Compare, CompareOp, DeleteOptions, PutOptions, TxnOp};

/// The key does not exist.
pub fn is_absent(key: impl Into<Vec<u8>>) -> Compare {
    Compare::create_revision(key, CompareOp::Equal, 0)
}

/// The key has this value; `None`: it does not exist.
pub fn has_value(key: impl Into<Vec<u8>>, value: Option<impl Into<Vec<u8>>>) -> Compare {
    match value {
        Some(value) => Compare::value(key, CompareOp::Equal, value),
        None => is_absent(key),
    }
}

/// Puts a key that ends with a lease.
pub fn put_under(lease: i64, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> TxnOp {
    TxnOp::put(key, value, Some(PutOptions::new().with_lease(lease)))
}

/// Deletes all keys with a prefix.
pub fn delete_all(prefix: impl Into<Vec<u8>>) -> TxnOp {
    TxnOp::delete(prefix, Some(DeleteOptions::new().with_prefix()))
}
