//! A log that is encrypted, in a store without the wrapper that decrypts it.

use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Exchange, ExchangeId, HistoryError, HistoryOptions, HistoryStore as _,
    HistoryStoreExt as _, MemoryStore, Message, StoreError,
    store::{Append, Expect, ForkError, Seq},
};

use crate::support::{Plain, Request, ask, id};

/// Returns a store whose log has a sealed exchange.
async fn sealed() -> MemoryStore {
    let store = MemoryStore::new();
    let exchange = Exchange::new(ExchangeId::generate(), [Message::user("u"), Message::assistant("a")]);
    let exchange = exchange.sealed_as("encrypted".repeat(20)).unwrap();
    store.append(&id(), Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    store
}

fn is_sealed(error: &StoreError) -> bool {
    matches!(error, StoreError::Sealed { seq } if *seq == Seq::FIRST) && error.kind() == "sealed"
}

#[tokio::test]
async fn a_call_fails_before_the_model_is_called() {
    let store = sealed().await;
    let llm = service_fn(|_: Request| async { panic!("the model is called without its history") });
    let llm = llm.map_response(|(): ()| Message::assistant("a")).map_err(|error: BoxError| error);
    let chat = ChatHistoryLayer::with_options(store.clone(), Plain, HistoryOptions::new()).layer(llm);
    let error = chat.oneshot(ask("u")).await.unwrap_err();
    let Some(HistoryError::Load(error)) = error.downcast_ref() else { panic!("{error:?}") };
    assert!(is_sealed(error), "{error:?}");
    assert_eq!(store.conversation(&id()).len().await.unwrap(), 1);
}

#[tokio::test]
async fn a_handle_returns_a_typed_error_and_no_empty_history() {
    let store = sealed().await;
    let id = id();
    let conversation = store.conversation(&id);
    for error in [
        conversation.messages().await.unwrap_err(),
        conversation.exchanges().await.unwrap_err(),
        conversation.newest_turn().await.unwrap_err(),
        conversation.open_calls().await.unwrap_err(),
        conversation.read_back(None, 1).await.unwrap_err(),
        conversation.take_last().await.unwrap_err(),
    ] {
        assert!(is_sealed(&error), "{error:?}");
    }
    let copy: ConversationId = "copy".parse().unwrap();
    let Err(ForkError::Store(source)) = conversation.fork(Seq::new(1), &copy).await else { panic!("it forks") };
    assert!(is_sealed(&source), "{source:?}");
    assert_eq!(conversation.len().await.unwrap(), 1, "nothing was removed");
}
