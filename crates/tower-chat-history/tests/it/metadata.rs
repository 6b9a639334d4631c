//! The metadata that callers give to exchanges.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio_test::{assert_ready_ok, task};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    CallOptions, ChatHistoryLayer, Engine, ExchangeId, HistoryError, HistoryOptions, HistoryStoreExt as _,
    InConversation, MemoryStore, Message, Metadata, Policies, Reply, TurnInput, adapt::Json, engine::ToolResults,
    policy::OnInterruption,
};

use crate::support::{Piece, Pieces, ask, calls, id, streaming};

const JSON: &str = "{ \"asked_by\" : \"ann\",\n\"n\":1.0 }";

fn metadata(json: &str) -> Metadata {
    Metadata::new(json).unwrap()
}

/// Returns the metadata of each exchange of the log.
async fn stored(store: &MemoryStore) -> Vec<Option<Metadata>> {
    let log = store.conversation(&id()).exchanges().await.unwrap();
    log.iter().map(|recorded| recorded.exchange.metadata.clone()).collect()
}

/// Makes two calls, and returns the requests that the model got.
async fn requests(store: &MemoryStore, metadata: Option<&Metadata>) -> Vec<String> {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&sent);
    let llm = service_fn(move |request: Value| {
        requests.lock().unwrap().push(request.to_string());
        let message = json!({"role": "assistant", "content": "a"});
        async move { Ok::<_, Infallible>(json!({"choices": [{"message": message, "finish_reason": "stop"}]})) }
    });
    let chat = ChatHistoryLayer::new(store.clone(), Json::new()).layer(llm);
    for text in ["u0", "u1"] {
        let request = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": text}]});
        let mut call = InConversation::new(id(), request);
        if let Some(metadata) = metadata {
            call = call.metadata(metadata.clone());
        }
        chat.clone().oneshot(call).await.unwrap();
    }
    sent.lock().unwrap().clone()
}

#[tokio::test]
async fn it_is_stored_with_each_exchange_and_never_sent() {
    let (with, without) = (MemoryStore::new(), MemoryStore::new());
    let given = metadata(JSON);
    assert_eq!(requests(&with, Some(&given)).await, requests(&without, None).await);
    assert_eq!(stored(&with).await, [Some(given.clone()), Some(given)]);
    assert_eq!(stored(&without).await, [None, None]);
    let log = with.conversation(&id()).exchanges().await.unwrap();
    assert_eq!(log[0].exchange.metadata.as_ref().unwrap().json(), JSON);
}

#[tokio::test]
async fn it_makes_no_difference_to_token_counts() {
    let mut tokens = Vec::new();
    for options in [CallOptions::new(), CallOptions::new().metadata(metadata(JSON))] {
        let engine = Engine::new(MemoryStore::new());
        for text in ["u0", "u1"] {
            let input = TurnInput::new(id(), [Message::user(text)]).options(options.clone());
            let turn = engine.begin(input).await.unwrap();
            let report = turn.commit(Reply::new(Message::assistant("a"))).await.unwrap();
            tokens.push(report.tokens.map(|tokens| tokens.prompt));
        }
    }
    assert_eq!(tokens[..2], tokens[2..]);
}

#[tokio::test]
async fn it_is_stored_with_streams_also_if_they_break_off() {
    for items in [vec![Ok(Piece::Text("a")), Ok(Piece::Finish)], vec![Ok(Piece::Text("a")), Err("cut")]] {
        let store = MemoryStore::new();
        let options = HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::KeepText));
        let (mut chat, mut llm) = streaming(store.clone(), options);
        assert_ready_ok!(chat.poll_ready());
        let mut call = task::spawn(chat.call(ask("u").metadata(metadata(JSON))));
        assert!(call.poll().is_pending());
        let pieces: Pieces = stream::iter(items).boxed();
        llm.next_request().await.unwrap().1.send_response(pieces);
        call.await.unwrap().collect::<Vec<_>>().await;
        assert_eq!(stored(&store).await, [Some(metadata(JSON))]);
    }
}

#[tokio::test]
async fn a_repeated_call_keeps_the_stored_one() {
    let store = MemoryStore::new();
    let engine = Engine::new(store.clone());
    let input = |json| {
        let options = CallOptions::new().exchange(ExchangeId::new("m-1").unwrap()).metadata(metadata(json));
        TurnInput::new(id(), [Message::user("u")]).options(options)
    };
    let (first, second) = (engine.begin(input(JSON)).await.unwrap(), engine.begin(input("{}")).await.unwrap());
    for turn in [first, second] {
        turn.commit(Reply::new(Message::assistant("a"))).await.unwrap();
    }
    let Err(HistoryError::AlreadyRecorded(recorded)) = engine.begin(input("{}")).await else { panic!("it is called") };
    assert_eq!(recorded.exchange.metadata, Some(metadata(JSON)));
    assert_eq!(stored(&store).await, [Some(metadata(JSON))]);
}

#[tokio::test]
async fn it_is_stored_with_results_of_tools() {
    let store = MemoryStore::new();
    let engine = Engine::new(store.clone());
    let turn = engine.begin(TurnInput::new(id(), [Message::user("u")])).await.unwrap();
    turn.commit(Reply::new(calls(&["x"]))).await.unwrap();
    let results = ToolResults::new(id(), [Message::tool("x", "r")]).metadata(metadata(JSON));
    engine.store_results(results).await.unwrap();
    assert_eq!(stored(&store).await, [None, Some(metadata(JSON))]);
}
