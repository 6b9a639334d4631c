//! The conformance suite over encrypted stores in memory. The file `durable.rs` has the others. All of them refuse
//! exchanges that are sealed already.

use tower_chat_history_core::{conformance_tests, testing::SharedStore};

use crate::support::in_memory;

mod memory {
    use super::*;

    conformance_tests! {
        #[tokio::test]
        SharedStore(in_memory()),
        without: [durable, sealed]
    }
}

mod cached {
    use tower_chat_history::CachedStore;

    use super::*;

    conformance_tests! {
        #[tokio::test]
        SharedStore(CachedStore::new(in_memory())),
        without: [durable, sealed]
    }
}
