//! A counter says whether its tables are there. In a process of its own, since tables are built once in a process.
#![cfg(all(feature = "tiktoken", feature = "bpe-openai"))]

use tower_chat_history::tokens::TokenCounter;
use tower_chat_history_openai::tokens::{BpeOpenai, Tiktoken};

/// It can count at once only when it has counted, and another encoding of it still cannot.
fn becomes_ready(counter: &dyn TokenCounter, other: &dyn TokenCounter) {
    assert!(!counter.is_ready() && !other.is_ready(), "{counter:?}");
    assert_eq!(counter.count_text("hello world"), 2);
    assert!(counter.is_ready() && !other.is_ready(), "{counter:?}");
}

#[test]
fn a_counter_is_ready_when_its_tables_are_built() {
    becomes_ready(&Tiktoken::o200k(), &Tiktoken::cl100k());
    becomes_ready(&BpeOpenai::o200k(), &BpeOpenai::cl100k());
    BpeOpenai::cl100k().warm_up();
    assert!(BpeOpenai::cl100k().is_ready() && !Tiktoken::cl100k().is_ready());
}
