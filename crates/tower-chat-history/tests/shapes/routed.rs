//! A routed store keeps the contract that the stores behind it keep.

use std::sync::Arc;

use tower_chat_history::{ConversationId, HistoryStore, MemoryStore, RoutedStore};

/// Two stores, which share the conversations about evenly.
fn fixture() -> Arc<dyn HistoryStore> {
    let stores: [Arc<dyn HistoryStore>; 2] = [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())];
    Arc::new(RoutedStore::new(move |id: &ConversationId| {
        let sum: usize = id.as_str().bytes().map(usize::from).sum();
        Arc::clone(&stores[sum % stores.len()])
    }))
}

tower_chat_history_core::conformance_tests! {
    #[tokio::test]
    fixture()
}
