//! HTTP with the client of async-openai: effects that only the wire has, and others that must be the same
//! over the wire.

use std::time::Duration;

use async_openai::{Client, config::OpenAIConfig, error::OpenAIError, types::chat::ChatCompletionResponseStream};
use futures_util::StreamExt as _;
use tests::{
    Response, Storage, TypedCall, TypedRequest, exchanges, log, over_every_store, reply_text, request, response_text,
    short, user_call,
};
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, InConversation, Message, TurnReport,
    report::{NotStored, Outcome},
};
use tower_chat_history_openai::{ChatService, ChatStreamService, OpenAi};
use tower_chat_history_test::{ApiFailure, Choice, MockServer, Replies, Reply};

over_every_store! {
    #[tokio::test]
    a_message_of_1_mb,
    a_repeated_attempt_is_stored_once,
    an_error_event_within_the_stream,
    a_stream_that_is_cut_or_aborted,
    an_unknown_finish_reason,
    several_choices,
    a_refusal_and_a_filtered_reply,
    no_choices_and_an_empty_reply,
    parallel_calls_are_streamed_and_continued,
}

/// A server, and the layer around a client of it.
struct Http {
    server: MockServer,
    client: Client<OpenAIConfig>,
    layer: ChatHistoryLayer<OpenAi>,
}

impl Http {
    async fn new(storage: &Storage, replies: impl Into<Replies>) -> Self {
        let server = MockServer::start(replies).await.unwrap();
        let client = Client::with_config(OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test"));
        Self { server, client, layer: ChatHistoryLayer::new(storage.store.clone(), OpenAi::new()) }
    }

    async fn unary(&self, call: TypedCall) -> Result<Response, BoxError> {
        self.layer.layer(ChatService::new(self.client.clone())).oneshot(call).await
    }

    async fn stream(&self, call: TypedCall) -> Result<ChatCompletionResponseStream, BoxError> {
        self.layer.layer(ChatStreamService::new(self.client.clone())).oneshot(call).await
    }

    /// Returns every item of a stream, and the report of its turn.
    async fn streamed(&self, call: TypedCall) -> (Vec<Result<tests::Chunk, OpenAIError>>, std::sync::Arc<TurnReport>) {
        let (call, report) = call.with_report();
        let items = self.stream(call).await.unwrap().collect().await;
        (items, report.await.unwrap())
    }

    /// Returns the last prompt that the server received, in the short form.
    fn received(&self) -> Vec<String> {
        self.server.prompts().last().unwrap().iter().map(short).collect()
    }
}

fn text(items: &[Result<tests::Chunk, OpenAIError>]) -> String {
    reply_text(&items.iter().flatten().cloned().collect::<Vec<_>>())
}

fn is_interrupted(report: &TurnReport) -> bool {
    matches!(report.outcome, Outcome::NotStored(NotStored::Interrupted))
}

async fn a_message_of_1_mb(storage: Storage) {
    let large = "ä\u{1f41f}\"\\\u{0}".repeat(1_000_000 / 9);
    assert!(large.len() >= 999_000);
    let reply = || Reply::text(large.clone()).chunk_chars(100_000);
    let (chat, id) = (Http::new(&storage, [reply(), reply().wire_bytes(65_537)]).await, storage.conversation());
    assert_eq!(response_text(&chat.unary(user_call(&id, &large)).await.unwrap()), large);
    let (items, report) = chat.streamed(user_call(&id, "u")).await;
    assert!(text(&items) == large && matches!(report.outcome, Outcome::Stored { .. }));
    let received = chat.received();
    assert!(received == [format!("user: {large}"), format!("assistant: {large}"), "user: u".into()]);
    assert_eq!(log(&storage.store, &id).await.len(), 4);
}

async fn a_repeated_attempt_is_stored_once(storage: Storage) {
    let busy = || Reply::error(ApiFailure::rate_limited(Duration::ZERO));
    let replies = [busy(), Reply::text("a0"), busy(), busy(), Reply::text("a1")];
    let (chat, id) = (Http::new(&storage, replies).await, storage.conversation());
    assert_eq!(response_text(&chat.unary(user_call(&id, "u0")).await.unwrap()), "a0");
    assert_eq!(text(&chat.streamed(user_call(&id, "u1")).await.0), "a1");
    let requests = chat.server.requests();
    assert_eq!(requests.len(), 5);
    assert_eq!(requests[0].body(), requests[1].body(), "each attempt is the same request");
    assert_eq!(requests[2].body(), requests[4].body());
    assert_eq!(log(&storage.store, &id).await, ["user: u0", "assistant: a0", "user: u1", "assistant: a1"]);
}

async fn an_error_event_within_the_stream(storage: Storage) {
    let failure = || ApiFailure::new(503, "overloaded");
    let reply = || Reply::text("abc").chunk_chars(1);
    let replies = [reply().error_after(3, failure()), reply().passing_error_after(3, failure())];
    let (chat, id) = (Http::new(&storage, replies).await, storage.conversation());
    for expected in ["ab", "abc"] {
        let (items, report) = chat.streamed(user_call(&id, "u")).await;
        assert_eq!(text(&items), expected);
        assert!(matches!(items[3], Err(OpenAIError::JSONDeserialize(..))), "{:?}", items[3]);
        assert!(is_interrupted(&report));
    }
    assert!(log(&storage.store, &id).await.is_empty());
}

async fn a_stream_that_is_cut_or_aborted(storage: Storage) {
    let reply = || Reply::text("abc").chunk_chars(1);
    let replies = [reply().end_after(3), reply().abort_after(3), Reply::text("a")];
    let (chat, id) = (Http::new(&storage, replies).await, storage.conversation());
    let (cut, report) = chat.streamed(user_call(&id, "u")).await;
    assert!(text(&cut) == "ab" && cut.iter().all(Result::is_ok), "a clean cut looks like an end");
    assert!(is_interrupted(&report));
    let (aborted, report) = chat.streamed(user_call(&id, "u")).await;
    assert!(text(&aborted) == "ab" && aborted.iter().any(Result::is_err), "{aborted:?}");
    assert!(is_interrupted(&report));
    assert!(log(&storage.store, &id).await.is_empty());
    chat.unary(user_call(&id, "u")).await.unwrap();
    assert_eq!(chat.received(), ["user: u"]);
}

async fn an_unknown_finish_reason(storage: Storage) {
    let odd = || Reply::text("a").finish("end_turn");
    let (chat, id) = (Http::new(&storage, [odd(), odd()]).await, storage.conversation());
    let error = chat.unary(user_call(&id, "u")).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(OpenAIError::JSONDeserialize(..))));
    let (items, report) = chat.streamed(user_call(&id, "u")).await;
    assert!(matches!(items.last(), Some(Err(OpenAIError::JSONDeserialize(..)))));
    assert!(is_interrupted(&report));
    assert!(log(&storage.store, &id).await.is_empty());
}

async fn several_choices(storage: Storage) {
    let two = || Reply::choices([Choice::text("heads"), Choice::text("tails, and longer").finish("length")]);
    let (chat, id) = (Http::new(&storage, [two(), two()]).await, storage.conversation());
    let call = || {
        let asked = TypedRequest { n: Some(2), ..request([Message::user("u")]) };
        InConversation::new(id.clone(), asked)
    };
    assert_eq!(chat.unary(call()).await.unwrap().choices.len(), 2);
    let (items, _) = chat.streamed(call()).await;
    assert_eq!(
        items.iter().flatten().flat_map(|chunk| &chunk.choices).filter(|c| c.finish_reason.is_some()).count(),
        2
    );
    let turn = ["user: u", "assistant: heads"];
    assert_eq!(log(&storage.store, &id).await, [turn, turn].concat());
}

async fn a_refusal_and_a_filtered_reply(storage: Storage) {
    let refusal = || Reply::refusal("I can't.");
    let filtered = || Reply::text("a").finish("content_filter");
    let (chat, id) =
        (Http::new(&storage, [refusal(), refusal(), filtered(), filtered()]).await, storage.conversation());
    chat.unary(user_call(&id, "u")).await.unwrap();
    chat.streamed(user_call(&id, "u")).await;
    chat.unary(user_call(&id, "u")).await.unwrap();
    chat.streamed(user_call(&id, "u")).await;
    let stored = exchanges(&storage.store, &id).await;
    for recorded in &stored[..2] {
        assert!(recorded.exchange.messages[1].json().contains(r#""refusal":"I can't.""#));
    }
    for recorded in &stored[2..] {
        assert_eq!(recorded.exchange.finish_reason.as_deref(), Some("content_filter"));
    }
    let refused = r#""refusal":"I can't.""#;
    assert!(chat.server.requests()[3].body().contains(refused), "a refusal is sent as a refusal");
}

async fn no_choices_and_an_empty_reply(storage: Storage) {
    let replies = [Reply::no_choices(), Reply::no_choices(), Reply::empty(), Reply::empty(), Reply::text("a")];
    let (chat, id) = (Http::new(&storage, replies).await, storage.conversation());
    assert!(chat.unary(user_call(&id, "u")).await.unwrap().choices.is_empty());
    assert!(is_interrupted(&chat.streamed(user_call(&id, "u")).await.1));
    assert!(log(&storage.store, &id).await.is_empty());
    chat.unary(user_call(&id, "u0")).await.unwrap();
    chat.streamed(user_call(&id, "u1")).await;
    chat.unary(user_call(&id, "u2")).await.unwrap();
    assert_eq!(chat.received(), ["user: u0", "user: u1", "user: u2"]);
    let replies = ["user: u0", "assistant: ", "user: u1", "assistant: ", "user: u2", "assistant: a"];
    assert_eq!(log(&storage.store, &id).await, replies);
}

async fn parallel_calls_are_streamed_and_continued(storage: Storage) {
    let calls = Reply::calls([("x", "weather", r#"{"city":"Oslo"}"#), ("y", "time", "not JSON at all")]).chunk_chars(3);
    let (chat, id) = (Http::new(&storage, [calls.wire_bytes(7), Reply::text("a")]).await, storage.conversation());
    chat.streamed(user_call(&id, "u")).await;
    let results = request([Message::tool("y", "ry"), Message::tool("x", "rx")]);
    let (_, report) = chat.streamed(InConversation::new(id.clone(), results)).await;
    assert!(matches!(report.outcome, Outcome::Stored { moved: false, .. }));
    assert_eq!(chat.received(), ["user: u", "assistant calls x,y: ", "tool y: ry", "tool x: rx"]);
    let sent = &chat.server.prompts()[1][1];
    let arguments: Vec<_> = sent.tool_calls().iter().map(|call| (call.name(), call.arguments())).collect();
    assert_eq!(arguments, [("weather", r#"{"city":"Oslo"}"#), ("time", "not JSON at all")]);
    assert_eq!(
        exchanges(&storage.store, &id).await[1].exchange.continues.map(tower_chat_history::store::Seq::get),
        Some(0)
    );
}
