//! Calls that fail, are retried, or do not reach the model.

use std::time::Duration;

use async_openai::{config::OpenAIConfig, error::OpenAIError, traits::RequestOptionsBuilder as _};
use tokio::net::TcpSocket;
use tower_chat_history::{
    HistoryError, MemoryStore, MissingConversation, Unsaved, adapt::to_json_body, error::HeaderError,
};
use tower_chat_history_openai::{
    client::{CONVERSATION_ID, EXCHANGE_ID, OpenAiHistory, STATELESS},
    to_response,
};
use tower_chat_history_test::{ApiFailure, Fault, FaultStore, Op, Reply};

use super::{HEADERS, ask, history_error, id, log, request, start, user};

#[tokio::test]
async fn a_busy_answer_is_retried_and_the_turn_stored_once() {
    for streamed in [false, true] {
        let store = FaultStore::new(MemoryStore::new());
        let busy = || Reply::error(ApiFailure::rate_limited(Duration::ZERO));
        let (server, client) = start([busy(), busy(), Reply::text("a0")], store.clone()).await;
        ask(&client, streamed, "u0").await.unwrap();
        assert_eq!(server.requests().len(), 3);
        let bodies: Vec<String> = server.requests().iter().map(|request| request.body().to_owned()).collect();
        assert!(bodies.iter().all(|body| *body == bodies[0]));
        assert!(server.requests().iter().all(|request| request.header(CONVERSATION_ID).is_none()));
        assert_eq!((store.calls(Op::Load), store.calls(Op::Append)), (1, 1));
    }
}

#[tokio::test]
async fn errors_are_the_same_as_without_history_and_nothing_is_stored() {
    let store = MemoryStore::new();
    let replies = [
        Reply::error(ApiFailure::context_length_exceeded()),
        Reply::error(ApiFailure::insufficient_quota()),
        Reply::text("lost").abort_after(0),
    ];
    let (_server, client) = start(replies, store.clone()).await;
    for code in ["context_length_exceeded", "insufficient_quota"] {
        let error = ask(&client, false, "u").await.unwrap_err();
        assert!(matches!(&error, OpenAIError::ApiError(e) if e.api_error.code.as_deref() == Some(code)), "{error:?}");
    }
    let error = ask(&client, false, "u").await.unwrap_err();
    assert!(matches!(error, OpenAIError::Reqwest(_)), "{error:?}");
    // A port that refuses connections. No other server can get it, because it is bound.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let base = format!("http://{}/v1", closed.local_addr().unwrap());
    let client = OpenAiHistory::new(store.clone()).client(OpenAIConfig::new().with_api_base(base));
    let error = ask(&client, false, "u").await.unwrap_err();
    assert!(matches!(&error, OpenAIError::Reqwest(error) if error.is_connect()), "{error:?}");
    assert_eq!(log(&store).await, [""; 0]);
}

#[tokio::test]
async fn the_error_of_a_failed_save_contains_the_response() {
    let store = FaultStore::new(MemoryStore::new());
    let (_server, client) = start([Reply::text("a0")], store.clone()).await;
    store.fail(Op::Append, usize::MAX, Fault::Unavailable);
    let OpenAIError::Boxed(error) = ask(&client, false, "u0").await.unwrap_err() else { panic!("not boxed") };
    let failed = error.downcast::<Unsaved<reqwest::Response>>().unwrap();
    assert!(failed.into_response().text().await.unwrap().contains("a0"));
}

#[tokio::test]
async fn a_repeated_exchange_does_not_call_the_model_again() {
    let (server, client) = start([Reply::text("a0")], MemoryStore::new()).await;
    let call = || async {
        let chat = client.chat().header(CONVERSATION_ID, id().to_string())?.header(EXCHANGE_ID, "m-1")?;
        chat.create(request([user("u0")])).await
    };
    let first = call().await.unwrap();
    let error = call().await.unwrap_err();
    let Some(HistoryError::AlreadyRecorded(recorded)) = history_error(&error) else { panic!("{error:?}") };
    let again = to_response(recorded).unwrap();
    assert_eq!((again.id.as_str(), &again.choices, &again.model), ("m-1", &first.choices, &first.model));
    let body = to_json_body(recorded).unwrap();
    assert!(body.contains(recorded.exchange.messages[1].json()), "{body}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_call_without_a_conversation_fails_unless_it_is_stateless() {
    let store = MemoryStore::new();
    let (server, client) = start([Reply::text("a0")], store.clone()).await;
    let boxed = |error: OpenAIError| match error {
        OpenAIError::Boxed(error) => error,
        other => panic!("{other:?}"),
    };
    let error = client.chat().create(request([user("u")])).await.unwrap_err();
    let error = *boxed(error).downcast::<MissingConversation>().unwrap();
    assert!(error.to_string().contains("in_conversation (which a spawned task does not inherit)"), "{error}");
    let wrong = client.chat().header(CONVERSATION_ID, "a b").unwrap();
    let error = wrong.create_stream(request([user("u")])).await.err().unwrap();
    let error = *boxed(error).downcast::<HeaderError>().unwrap();
    assert!(matches!(error, HeaderError::ConversationId { name, .. } if name == CONVERSATION_ID));
    assert!(server.requests().is_empty());

    let named = client.chat().header(CONVERSATION_ID, id().to_string()).unwrap();
    named.header(STATELESS, "true").unwrap().create(request([user("u")])).await.unwrap();
    assert!(HEADERS.iter().all(|name| server.requests()[0].header(name).is_none()));
    assert_eq!(log(&store).await, [""; 0]);
}
