//! The caller or its runtime ends. (Invariant 4 covers every await point.)

use std::{sync::Arc, time::Duration};

use tests::{BOTH_KINDS, Chat, Storage, log, over_every_store, prompts};
use tower_chat_history_test::{Fault, Op, Reply};

over_every_store! {
    #[tokio::test(start_paused = true)]
    before_the_load,
    during_the_load,
    during_the_model_call,
    during_the_save,
    the_runtime_is_shut_down_after_a_drain,
}

async fn nothing_is_stored(storage: &Storage, chat: &Chat, id: &tower_chat_history::ConversationId) {
    chat.engine().drain(Duration::from_secs(5)).await.unwrap();
    assert_eq!(storage.store.calls(Op::Append), 0);
    assert!(log(&storage.store, id).await.is_empty());
}

async fn before_the_load(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, []), storage.conversation());
        drop(chat.ask(kind, &id, "u"));
        nothing_is_stored(&storage, &chat, &id).await;
        assert_eq!(storage.store.calls(Op::Load), 0);
    }
}

async fn during_the_load(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, []), storage.conversation());
        let held = storage.store.hold(Op::Load);
        {
            let call = chat.ask(kind, &id, "u");
            tokio::select! {
                biased;
                _ = call => panic!("the load is held"),
                () = held.reached(1) => {}
            }
        }
        held.release();
        nothing_is_stored(&storage, &chat, &id).await;
        assert!(chat.llm.requests().is_empty());
    }
}

async fn during_the_model_call(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
        let _held = chat.hold_reply();
        tokio::select! {
            biased;
            _ = chat.ask(kind, &id, "u") => panic!("the answer is held"),
            () = chat.reached(1) => {}
        }
        nothing_is_stored(&storage, &chat, &id).await;
    }
}

async fn during_the_save(storage: Storage) {
    for kind in BOTH_KINDS {
        let replies = ["a0", "a1"].map(Reply::text);
        let (chat, id) = (Chat::new(&storage, replies), storage.conversation());
        let held = storage.store.hold(Op::Append);
        tokio::select! {
            biased;
            _ = chat.ask(kind, &id, "u0") => panic!("the save is held"),
            () = held.reached(1) => {}
        }
        assert_eq!(chat.engine().pending_saves(), 1);
        held.release();
        // No caller waits for the save, but the next call sees it.
        chat.ask(kind, &id, "u1").await.unwrap();
        assert_eq!(prompts(&chat.llm)[1], ["user: u0", "assistant: a0", "user: u1"]);
        assert_eq!(log(&storage.store, &id).await.len(), 4);
    }
}

async fn the_runtime_is_shut_down_after_a_drain(storage: Storage) {
    let storage = Arc::new(storage);
    for kind in BOTH_KINDS {
        // The save also waits for its next attempt.
        storage.store.fail(Op::Append, 1, Fault::Unavailable);
        let (place, id) = (Arc::clone(&storage), storage.conversation());
        let of = id.clone();
        let first = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let chat = Chat::new(&place, ["a0", "a1"].map(Reply::text));
                let held = place.store.hold(Op::Append);
                tokio::select! {
                    biased;
                    _ = chat.ask(kind, &of, "u0") => panic!("the save is held"),
                    () = held.reached(1) => {}
                }
                assert_eq!(chat.engine().pending_saves(), 1);
                held.release();
                chat.engine().drain(Duration::from_secs(60)).await.unwrap();
                chat
            })
        });
        let chat = tokio::task::spawn_blocking(|| first.join().unwrap()).await.unwrap();
        assert_eq!(log(&storage.store, &id).await, ["user: u0", "assistant: a0"]);
        chat.ask(kind, &id, "u1").await.unwrap();
        assert_eq!(prompts(&chat.llm)[1], ["user: u0", "assistant: a0", "user: u1"]);
    }
}
