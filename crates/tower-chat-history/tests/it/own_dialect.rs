//! The dialect of the guide "Writing a dialect": it keeps the contract of dialects, and passes the guide's own test.

use tower_chat_history_core::{dialect_tests, testing::dialect_contract::Samples};

include!("../../docs/writing_a_dialect.rs");
include!("../../docs/writing_a_dialect_test.rs");

mod contract {
    use super::*;

    dialect_tests! { samples() }
}
