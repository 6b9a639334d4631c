//! Turns that are running while their conversation is erased.

use tests::{Storage, over_every_store};
use tower_chat_history::{
    Engine, Message, Reply, StoreError, TurnInput, Unsaved,
    error::SaveError,
    store::{Erase as _, EraseExt as _, Prefix, Timestamp},
};

use super::world::store;

over_every_store! {
    #[tokio::test]
    a_first_turn_cannot_bring_the_conversation_back,
    a_later_turn_cannot_bring_the_conversation_back,
    a_first_turn_of_somebody_else_is_stored,
}

/// Begins a turn, erases, completes the turn, and returns its outcome.
async fn complete_after_erasing(storage: &Storage, turn_in: &str, erased: &str) -> Result<(), Unsaved<Reply>> {
    let engine = Engine::new(storage.replica().await.store);
    let input = TurnInput::new(turn_in.parse().unwrap(), [Message::user("the secret")]);
    let turn = engine.begin(input).await.unwrap();
    let under: Prefix = erased.parse().unwrap();
    storage.store.erase_all(&under).await.unwrap();
    turn.commit(Reply::new(Message::assistant("a reply"))).await.map(drop)
}

fn assert_gone(stored: Result<(), Unsaved<Reply>>) {
    let unsaved = stored.unwrap_err();
    assert!(matches!(unsaved.reason(), SaveError::Store(StoreError::Gone)), "{unsaved:?}");
}

async fn a_first_turn_cannot_bring_the_conversation_back(storage: Storage) {
    let root = storage.conversation();
    for under in [format!("{root}/a/b"), format!("{root}/a"), root.to_string()] {
        let stored = complete_after_erasing(&storage, &format!("{root}/a/b"), &under).await;
        assert_gone(stored);
        assert!(storage.store.count(&Prefix::from(&root)).await.unwrap().total().is_nothing());
    }
}

async fn a_later_turn_cannot_bring_the_conversation_back(storage: Storage) {
    let root = storage.conversation();
    let id = format!("{root}/a");
    store(&storage, &id.parse().unwrap(), "secret", Timestamp::now()).await;
    let stored = complete_after_erasing(&storage, &id, root.as_str()).await;
    assert_gone(stored);
    assert!(storage.store.count(&Prefix::from(&root)).await.unwrap().total().is_nothing());
}

async fn a_first_turn_of_somebody_else_is_stored(storage: Storage) {
    let root = storage.conversation();
    complete_after_erasing(&storage, &format!("{root}/a-2"), &format!("{root}/a")).await.unwrap();
    let left = storage.store.count(&Prefix::from(&root)).await.unwrap().total();
    assert_eq!((left.conversations, left.exchanges), (1, 1));
}
