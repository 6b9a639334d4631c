//! Conversations of other libraries.

mod damaged;
#[cfg(feature = "transfer-sqlite")]
mod python;
mod samples;
#[cfg(feature = "transfer-sqlite")]
mod sqlite;

use tower_chat_history::transfer::{
    ImportReport,
    foreign::{ForeignConversation, ForeignError, ForeignOptions, import_foreign},
};
use tower_chat_history_core::Timestamp;

use crate::support::{TestStore, prefix};

/// Returns the conversations as texts: the name, the messages, and the exchanges by their numbers of messages.
async fn stored(store: &TestStore) -> Vec<(String, Vec<String>)> {
    let logs = store.logs().into_iter();
    logs.map(|(id, log)| {
        let exchanges = log.exchanges.iter().map(|recorded| {
            let exchange = &recorded.exchange;
            let messages: Vec<_> = exchange.messages.iter().map(|message| message.json()).collect();
            let turn = if exchange.opens_turn() { "" } else { "continues " };
            format!("{turn}{}", messages.join(" "))
        });
        (id, exchanges.collect())
    })
    .collect()
}

async fn import(
    store: &TestStore,
    conversations: impl Iterator<Item = Result<ForeignConversation, ForeignError>> + Send,
) -> ImportReport {
    // A repeated import has another time.
    let now = Timestamp::from_unix_millis(store.logs().len() as u64);
    import_foreign(store, conversations, &ForeignOptions::new(prefix("in")).now(now)).await.unwrap()
}

/// Imports twice, and checks that the second time stores nothing.
async fn import_twice<I>(conversations: impl Fn() -> I) -> (TestStore, ImportReport)
where
    I: Iterator<Item = Result<ForeignConversation, ForeignError>> + Send,
{
    let store = TestStore::default();
    let report = import(&store, conversations()).await;
    let again = import(&store, conversations()).await;
    assert_eq!((again.stored, again.present, again.skipped), (0, report.stored, report.skipped));
    (store, report)
}
