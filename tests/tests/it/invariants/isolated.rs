//! Invariant 8: conversations are isolated.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tests::{BOTH_KINDS, Chat, Storage, check, log, over_every_store, prompts};
use tower_chat_history::{ConversationId, HistoryStore as _};
use tower_chat_history_test::Reply;

over_every_store! {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    invariant_8_conversations_whose_ids_look_alike_are_isolated,
    invariant_8_conversations_with_any_ids_are_isolated,
}

/// Makes two calls in each conversation, and checks that each prompt has only messages of its own
/// conversation.
async fn are_isolated(storage: &Storage, ids: &[ConversationId]) {
    let chat = Chat::new(
        storage,
        tower_chat_history_test::Replies::rules(|messages| {
            Reply::text(format!("re {}", messages.last().unwrap().text()))
        }),
    );
    for kind in BOTH_KINDS {
        for (own, id) in ids.iter().enumerate() {
            chat.ask(kind, id, &format!("{own} {kind:?}")).await.unwrap();
        }
    }
    let asked = prompts(&chat.llm);
    for (own, id) in ids.iter().enumerate() {
        let all: Vec<String> = BOTH_KINDS
            .iter()
            .flat_map(|kind| [format!("user: {own} {kind:?}"), format!("assistant: re {own} {kind:?}")])
            .collect();
        assert_eq!(log(&storage.store, id).await, all, "{id}");
        assert_eq!(asked[ids.len() + own], all[..3], "{id}");
    }
    // Deleting a conversation does not affect the others.
    for (own, id) in ids.iter().enumerate() {
        storage.store.delete(id).await.unwrap();
        assert!(log(&storage.store, id).await.is_empty());
        if let Some(next) = ids.get(own + 1) {
            assert_eq!(log(&storage.store, next).await.len(), 4);
        }
    }
}

async fn invariant_8_conversations_whose_ids_look_alike_are_isolated(storage: Storage) {
    let ids: &[&[&str]] = &[
        &["a", "b", "c"],
        &["a/b", "c"],
        &["a", "b/c"],
        &["a/b/c"],
        &["a%2Fb", "c"],
        &["a:b", "c"],
        &["a", "b", "c", "0"],
        &["A", "b", "c"],
        &["a ", "b", "c"],
        &["a\0", "b", "c"],
        &["a%", "b", "c"],
        &["a_", "b", "c"],
        &["é"],
        &["e\u{301}"],
        &["É"],
        &["ｅ"],
        &["K"],
        &["\u{212a}"],
        &["'; DROP TABLE exchange; --"],
        &["*"],
        &["?"],
        &["[a]"],
        &["a", "b"],
        &["ab"],
    ];
    let ids: Vec<_> = ids.iter().map(|parts| ConversationId::new(*parts).unwrap()).collect();
    are_isolated(&storage, &ids).await;
}

async fn invariant_8_conversations_with_any_ids_are_isolated(storage: Storage) {
    let part = || prop_oneof![".{1,4}", "[aA/%2Fé:. ]{1,4}"];
    let ids = prop::collection::btree_set(prop::collection::vec(part(), 1..4), 2..6);
    check(16, ids, async |parts: BTreeSet<Vec<String>>| {
        let ids: Vec<_> = parts.iter().map(|parts| ConversationId::new(parts).unwrap()).collect();
        are_isolated(&storage, &ids).await;
    });
}
