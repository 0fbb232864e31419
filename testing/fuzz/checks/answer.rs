//! What must hold for the answer to any message.
use crate::asking::{Way, check_question};
use crate::world::WORLD;

/// Asks the message behind the first byte, which says how it comes. No reply is ever given to a
/// reply.
pub fn check(bytes: &[u8]) {
    let Some((&first, message)) = bytes.split_first() else { return };
    let way = Way::new(first);
    if let Some(reply) = check_question(&WORLD, &way, message) {
        assert_eq!(check_question(&WORLD, &way, &reply), None);
    }
}
