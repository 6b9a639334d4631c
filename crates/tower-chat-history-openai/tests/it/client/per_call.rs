//! Options of one call, by header.

use std::sync::{Arc, Mutex};

use async_openai::{error::OpenAIError, traits::RequestOptionsBuilder as _};
use futures_util::StreamExt as _;
use tower_chat_history::{
    HistoryOptions, MemoryStore,
    error::HeaderError,
    report::{NotStored, TurnOutcome},
};
use tower_chat_history_openai::client::{CONVERSATION_ID, DONT_STORE, EXCHANGE_ID, FEW_SHOT_MESSAGES, OpenAiHistory};
use tower_chat_history_test::{MockServer, Reply};

use super::{HEADERS, ask, config, id, log, prompt, request, start, user};

#[tokio::test]
async fn a_call_with_dont_store_sees_the_history_and_is_not_stored() {
    for streamed in [false, true] {
        let store = MemoryStore::new();
        let (server, client) = start(["a0", "a title", "a1"].map(Reply::text), store.clone()).await;
        ask(&client, streamed, "u0").await.unwrap();
        let chat = client.chat().header(CONVERSATION_ID, id().to_string()).unwrap().header(DONT_STORE, "true").unwrap();
        if streamed {
            let chunks: Vec<_> = chat.create_stream(request([user("a title?")])).await.unwrap().collect().await;
            assert!(chunks.iter().all(Result::is_ok));
        } else {
            chat.create(request([user("a title?")])).await.unwrap();
        }
        ask(&client, streamed, "u1").await.unwrap();
        assert_eq!(prompt(&server, 1), ["user: u0", "assistant: a0", "user: a title?"]);
        assert_eq!(prompt(&server, 2), ["user: u0", "assistant: a0", "user: u1"]);
        assert_eq!(log(&store).await, ["user: u0", "assistant: a0", "user: u1", "assistant: a1"]);
        assert!(server.requests().iter().all(|sent| HEADERS.iter().all(|name| sent.header(name).is_none())));
    }
}

#[tokio::test]
async fn the_few_shot_messages_of_a_call_replace_those_of_the_client() {
    let store = MemoryStore::new();
    let server = MockServer::start(["a0", "a1", "a2"].map(Reply::text)).await.unwrap();
    let client = OpenAiHistory::new(store.clone()).few_shot_messages(2).client(config(&server));
    let named = || client.chat().header(CONVERSATION_ID, id().to_string()).unwrap();
    let call = async |chat: async_openai::Chat<'_, _>, texts: &[&str]| {
        chat.create(request(texts.iter().map(|text| user(text)))).await.unwrap();
    };
    call(named(), &["x", "y", "u0"]).await;
    call(named().header(FEW_SHOT_MESSAGES, "1").unwrap(), &["z", "u1"]).await;
    call(named().header(FEW_SHOT_MESSAGES, "0").unwrap(), &["u2"]).await;
    assert_eq!(prompt(&server, 1), ["user: z", "user: u0", "assistant: a0", "user: u1"]);
    assert_eq!(prompt(&server, 2), ["user: u0", "assistant: a0", "user: u1", "assistant: a1", "user: u2"]);
    let stored = ["user: u0", "assistant: a0", "user: u1", "assistant: a1", "user: u2", "assistant: a2"];
    assert_eq!(log(&store).await, stored);
    assert!(server.requests().iter().all(|sent| HEADERS.iter().all(|name| sent.header(name).is_none())));
}

#[tokio::test]
async fn an_invalid_header_is_an_error_and_nothing_is_sent() {
    let store = MemoryStore::new();
    let (server, client) = start([], store.clone()).await;
    let header_error = async |name: &'static str, value: &str| {
        let chat = client.chat().header(CONVERSATION_ID, id().to_string()).unwrap().header(name, value).unwrap();
        let OpenAIError::Boxed(error) = chat.create(request([user("u")])).await.unwrap_err() else {
            panic!("not boxed")
        };
        *error.downcast::<HeaderError>().unwrap()
    };
    assert!(matches!(header_error(DONT_STORE, "yes").await, HeaderError::NotBoolean { .. }));
    assert!(matches!(header_error(FEW_SHOT_MESSAGES, "two").await, HeaderError::NotANumber { .. }));
    assert!(server.requests().is_empty());
    assert_eq!(log(&store).await, [""; 0]);
}

#[tokio::test]
async fn the_hook_gets_the_report_of_every_turn_with_its_ids() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let options = HistoryOptions::new().on_turn({
        let reports = Arc::clone(&reports);
        move |report| reports.lock().unwrap().push(report.clone())
    });
    let server = MockServer::start(["a0", "a1"].map(Reply::text)).await.unwrap();
    let client = OpenAiHistory::with_options(MemoryStore::new(), options).client(config(&server));
    for (exchange, dont_store) in [("m-0", "false"), ("m-1", "true")] {
        let chat = client.chat().header(CONVERSATION_ID, id().to_string()).unwrap();
        let chat = chat.header(EXCHANGE_ID, exchange).unwrap().header(DONT_STORE, dont_store).unwrap();
        chat.create(request([user("u")])).await.unwrap();
    }
    let reports = reports.lock().unwrap();
    let ids: Vec<_> = reports.iter().map(|report| (&report.conversation, report.exchange.as_str())).collect();
    assert_eq!(ids, [(&id(), "m-0"), (&id(), "m-1")]);
    assert!(matches!(reports[0].outcome, TurnOutcome::Stored { .. }));
    assert!(matches!(reports[1].outcome, TurnOutcome::NotStored(NotStored::Asked)));
}
