//! The numbers of what scripts count (see `scripts/counted.lua`).

use tower_chat_history_core::{Removed, StoreError};

use crate::error::UnexpectedReply;

/// Reads the numbers of one conversation.
pub(super) fn read(numbers: &str) -> Result<Removed, StoreError> {
    let mut removed = Removed::default();
    let mut parts = numbers.split(' ');
    let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or_else(UnexpectedReply::error);
    removed.conversations = 1;
    (removed.exchanges, removed.bytes, removed.exchange_ids) = (number()?, number()?, number()?);
    (removed.compactions, removed.summaries, removed.labels) = (number()?, number()?, number()?);
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read() {
        let removed = read("5 300 6 2 1 1").unwrap();
        assert_eq!((removed.conversations, removed.exchanges, removed.bytes, removed.exchange_ids), (1, 5, 300, 6));
        assert_eq!((removed.compactions, removed.summaries, removed.labels), (2, 1, 1));
        for wrong in ["", "5", "a b c d e f"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
