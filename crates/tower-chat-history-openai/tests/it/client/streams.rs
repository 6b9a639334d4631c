//! Streams: when they are stored, and the outcome of those that break off.

use async_openai::{Client, traits::RequestOptionsBuilder as _, types::chat::FinishReason};
use futures_util::StreamExt as _;
use tower_chat_history::{Engine, HistoryOptions, MemoryStore, Policies, policy::OnInterruption};
use tower_chat_history_openai::client::{CONVERSATION_ID, OpenAiHistory};
use tower_chat_history_test::{ApiFailure, FaultStore, MockServer, Op, Reply};

use super::{ask, config, exchanges, id, log, prompt, request, start, user};

#[tokio::test]
async fn a_stream_fails_as_it_would_without_history() {
    for broken in [
        Reply::text("a long answer").abort_after(2),
        Reply::text("a long answer").passing_error_after(2, ApiFailure::server_error()),
    ] {
        let (server, client) = start([broken.clone(), broken], MemoryStore::new()).await;
        let mut errors = Vec::new();
        for client in [client, Client::with_config(config(&server))] {
            let chat = client.chat().header(CONVERSATION_ID, id().to_string()).unwrap();
            let chunks: Vec<_> = chat.create_stream(request([user("u0")])).await.unwrap().collect().await;
            let chunks = chunks.iter().map(|chunk| chunk.as_ref().map_err(ToString::to_string).err());
            errors.push(chunks.collect::<Vec<_>>());
        }
        assert!(errors[0].iter().any(Option::is_some));
        assert_eq!(errors[0], errors[1]);
    }
}

#[tokio::test]
async fn the_end_of_a_stream_is_held_until_the_exchange_is_stored() {
    let store = FaultStore::new(MemoryStore::new());
    let (_server, client) = start([Reply::text("a0").wire_bytes(7), Reply::text("a1")], store.clone()).await;
    let hold = store.hold(Op::Append);
    let reading = tokio::spawn({
        let client = client.clone();
        async move { ask(&client, true, "u0").await }
    });
    hold.reached(1).await;
    assert!(!reading.is_finished());
    assert_eq!(log(store.get_ref()).await, [""; 0]);
    hold.release();
    reading.await.unwrap().unwrap();
    assert_eq!(log(store.get_ref()).await, ["user: u0", "assistant: a0"]);
}

#[tokio::test]
async fn a_stream_that_is_dropped_after_the_finish_reason_is_stored_before_the_next_call() {
    let store = MemoryStore::new();
    let (server, client) = start(["a0", "a1"].map(Reply::text), store.clone()).await;
    let chat = client.chat().header(CONVERSATION_ID, id().to_string()).unwrap();
    let mut stream = chat.create_stream(request([user("u0")])).await.unwrap();
    loop {
        let chunk = stream.next().await.unwrap().unwrap();
        if chunk.choices.iter().any(|choice| choice.finish_reason == Some(FinishReason::Stop)) {
            break;
        }
    }
    drop(stream);
    ask(&client, true, "u1").await.unwrap();
    assert_eq!(prompt(&server, 1), ["user: u0", "assistant: a0", "user: u1"]);
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_not_stored() {
    let failure = ApiFailure::server_error;
    for broken in [
        Reply::text("a long answer").end_after(2),
        Reply::text("a long answer").abort_after(2),
        Reply::text("a long answer").error_after(2, failure()),
        Reply::text("a long answer").passing_error_after(2, failure()),
    ] {
        let store = MemoryStore::new();
        let (_server, client) = start([broken, Reply::text("a")], store.clone()).await;
        let chat = client.chat().header(CONVERSATION_ID, id().to_string()).unwrap();
        let chunks: Vec<_> = chat.create_stream(request([user("u0")])).await.unwrap().collect().await;
        assert!(chunks.len() >= 2);
        assert_eq!(log(&store).await, [""; 0]);
        ask(&client, true, "u1").await.unwrap();
        assert_eq!(log(&store).await, ["user: u1", "assistant: a"]);
    }
}

#[tokio::test]
async fn options_and_the_http_client_of_the_caller_are_used() {
    let store = MemoryStore::new();
    let reply = Reply::text("a long answer").with_calls([("x", "f", "{}")]).chunk_chars(2).end_after(3);
    let server = MockServer::start([reply]).await.unwrap();
    let http = reqwest::Client::builder().user_agent("mine").build().unwrap();
    let options = HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::KeepText));
    let client = OpenAiHistory::with_options(store.clone(), options).http_client(http).client(config(&server));
    ask(&client, true, "u0").await.unwrap();
    assert_eq!(server.requests()[0].header("user-agent"), Some("mine"));
    assert_eq!(log(&store).await, ["user: u0", "assistant: a lo"]);
    let stored = exchanges(&store).await.remove(0).exchange;
    assert!(stored.incomplete && stored.messages[1].tool_calls().is_empty());
}

#[tokio::test]
async fn two_clients_of_one_engine_share_a_conversation() {
    let engine = Engine::new(MemoryStore::new());
    let server = MockServer::start(["a0", "a1"].map(Reply::text)).await.unwrap();
    for text in ["u0", "u1"] {
        let client = OpenAiHistory::from_engine(engine.clone()).client(config(&server));
        ask(&client, true, text).await.unwrap();
    }
    assert_eq!(prompt(&server, 1), ["user: u0", "assistant: a0", "user: u1"]);
    assert_eq!(engine.pending_saves(), 0);
}
