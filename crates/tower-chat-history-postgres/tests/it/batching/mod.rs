//! Batching: calls that wait for a connection are sent together, with the same results as alone.

mod answers;
mod failures;
mod waiting;

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use libtest_mimic::Trial;
use tower_chat_history_core::ConversationId;
use tower_chat_history_postgres::PostgresStore;

use crate::support::conversation;

pub(crate) fn tests() -> Vec<Trial> {
    [answers::tests(), failures::tests(), waiting::tests()].into_iter().flatten().collect()
}

/// Makes these calls wait for the only connection, and then lets them have it.
async fn at_once<'a, T>(store: &PostgresStore, calls: impl IntoIterator<Item = BoxFuture<'a, T>>) -> Vec<T> {
    let held = store.pool().get().await.unwrap();
    let mut calls: Vec<_> = calls.into_iter().collect();
    for call in &mut calls {
        assert!(call.now_or_never().is_none(), "the connection is held");
    }
    drop(held);
    join_all(calls).await
}

fn conversations(count: usize) -> Vec<ConversationId> {
    (0..count).map(|number| conversation(&format!("c{number}"))).collect()
}
