//! The dialect of the guide "Writing a dialect": it keeps the contract of dialects, and passes the guide's own test.

use tower_chat_history_conformance::{dialect::Samples, dialect_tests};

include!("../../docs/writing_a_dialect.rs");
include!("../../docs/writing_a_dialect_test.rs");

mod contract {
    use super::*;

    dialect_tests! { samples() }
}
