//! A counter is ready after its tables are built. This test needs its own process, because tables are built once per
//! process.
#![cfg(all(feature = "tiktoken", feature = "bpe-openai"))]

use tower_chat_history::tokens::TokenCounter;
use tower_chat_history_openai::tokens::{BpeOpenai, Tiktoken};

/// Checks that a counter is ready after its first count, and that the same counter for another encoding is not.
fn becomes_ready(counter: &dyn TokenCounter, other: &dyn TokenCounter) {
    assert!(!counter.is_ready() && !other.is_ready(), "{counter:?}");
    assert_eq!(counter.count_text("hello world"), 2);
    assert!(counter.is_ready() && !other.is_ready(), "{counter:?}");
}

#[test]
fn a_counter_is_ready_after_its_tables_are_built() {
    becomes_ready(&Tiktoken::o200k(), &Tiktoken::cl100k());
    becomes_ready(&BpeOpenai::o200k(), &BpeOpenai::cl100k());
    BpeOpenai::cl100k().warm_up();
    assert!(BpeOpenai::cl100k().is_ready() && !Tiktoken::cl100k().is_ready());
    Tiktoken::cl100k().warm_up();
    assert!(Tiktoken::cl100k().is_ready());
}
