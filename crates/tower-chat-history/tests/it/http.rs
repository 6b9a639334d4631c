//! Conversation ids of `http` requests: in their extensions, or in a header.

use std::error::Error as _;

use http::{HeaderName, HeaderValue, Request, Response};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn, util::BoxCloneService};
use tower_chat_history::{
    BoxError, CallOptions, ChatHistoryLayer, ConversationId, ExchangeId, HistoryError, HistoryStore,
    HistoryStoreExt as _, MemoryStore, Message, MissingConversation,
    adapt::{
        CallScope, Custom,
        extract::{ExtractScope, FromExtensions, FromHeader},
    },
    error::HeaderError,
    store::ConversationIdError,
};
use tower_chat_history_test::{Fault, FaultStore, Op};

type Ask = Request<Vec<Message>>;
type Chat = BoxCloneService<Ask, Response<String>, BoxError>;

const NAME: HeaderName = HeaderName::from_static("x-conversation");

fn id(part: &str) -> ConversationId {
    ConversationId::new(["tests", part]).unwrap()
}

/// A service whose response has the names of the received headers and the texts of the messages.
fn chat<X>(store: impl HistoryStore, extract: X) -> Chat
where
    X: ExtractScope<Ask, Call = Ask> + Clone + Send + Sync + 'static,
{
    let adapter = Custom::messages(|request: &mut Ask| request.body_mut())
        .reply(|response: &Response<String>| Message::assistant(response.body()))
        .extract_by(extract);
    let llm = service_fn(|request: Ask| async move {
        let headers = request.headers().keys().map(HeaderName::as_str).collect::<Vec<_>>().join(",");
        let texts = request.body().iter().map(Message::text).collect::<Vec<_>>().join("|");
        let mut response = Response::new(texts);
        response.headers_mut().insert("x-got", HeaderValue::from_str(&headers)?);
        *response.extensions_mut() = request.extensions().clone();
        Ok::<_, BoxError>(response)
    });
    BoxCloneService::new(ChatHistoryLayer::new(store, adapter).layer(llm))
}

fn ask(text: &str) -> Ask {
    Request::new(vec![Message::user(text)])
}

fn extended<T: Clone + Send + Sync + 'static>(mut request: Ask, extension: T) -> Ask {
    request.extensions_mut().insert(extension);
    request
}

fn named(mut request: Ask, value: &[u8]) -> Ask {
    request.headers_mut().append(NAME, HeaderValue::from_bytes(value).unwrap());
    request
}

async fn answer(chat: &mut Chat, request: Ask) -> String {
    chat.ready().await.unwrap().call(request).await.unwrap().into_body()
}

async fn error_of(chat: &mut Chat, request: Ask) -> BoxError {
    chat.ready().await.unwrap().call(request).await.unwrap_err()
}

/// Returns a store on which every call fails.
fn failing_store() -> FaultStore<MemoryStore> {
    let store = FaultStore::new(MemoryStore::new());
    store.fail(Op::Load, usize::MAX, Fault::Unavailable);
    store
}

#[tokio::test]
async fn an_id_in_the_extensions_names_the_conversation() {
    let store = MemoryStore::new();
    let mut chat = chat(store.clone(), FromExtensions::new());
    assert_eq!(answer(&mut chat, extended(ask("a"), id("one"))).await, "a");
    assert_eq!(answer(&mut chat, extended(ask("b"), id("one"))).await, "a|a|b");
    assert_eq!(answer(&mut chat, extended(ask("c"), id("two"))).await, "c");
    let response = chat.ready().await.unwrap().call(extended(ask("d"), id("two"))).await.unwrap();
    assert_eq!(response.extensions().get(), Some(&id("two")), "the extension is passed on to the inner service");
    assert_eq!(store.conversation(&id("one")).messages().await.unwrap().len(), 4);
}

#[tokio::test]
async fn options_in_the_extensions_apply_to_the_call() {
    let store = MemoryStore::new();
    let mut chat = chat(store.clone(), FromExtensions::new());
    let options = CallOptions::new().exchange(ExchangeId::new("fixed").unwrap()).few_shot_messages(1);
    let (options, report) = options.with_report();

    let request = Request::new(vec![Message::user("shown"), Message::user("a")]);
    // The scope takes precedence over the id that was there before.
    let scope = CallScope::Conversation(id("one"), options.clone());
    let repeated = extended(extended(request.clone(), id("two")), scope);
    assert_eq!(answer(&mut chat, repeated.clone()).await, "shown|a");
    assert_eq!(report.await.unwrap().exchange, ExchangeId::new("fixed").unwrap());
    let texts = store.conversation(&id("one")).messages().await.unwrap();
    assert_eq!(texts.iter().map(Message::text).collect::<Vec<_>>(), ["a", "shown|a"]);
    assert!(store.conversation(&id("two")).messages().await.unwrap().is_empty());

    let error = error_of(&mut chat, repeated).await;
    assert!(
        matches!(error.downcast_ref(), Some(HistoryError::AlreadyRecorded(_))),
        "a repeated request is the same call"
    );

    // Without a scope, the id is used with the options of the call.
    let without_scope = extended(extended(request, id("three")), options);
    assert_eq!(answer(&mut chat, without_scope.clone()).await, "shown|a");
    let error = error_of(&mut chat, without_scope).await;
    assert!(matches!(error.downcast_ref(), Some(HistoryError::AlreadyRecorded(_))), "{error}");
}

#[tokio::test]
async fn a_scope_in_the_extensions_precedes_the_id() {
    let store = MemoryStore::new();
    let mut chat = chat(store.clone(), FromExtensions::new());
    let request = || extended(extended(ask("a"), id("one")), CallScope::from(id("two")));
    answer(&mut chat, extended(request(), CallScope::Stateless)).await;
    answer(&mut chat, request()).await;
    for (part, stored) in [("one", 0), ("two", 2)] {
        assert_eq!(store.conversation(&id(part)).messages().await.unwrap().len(), stored, "{part}");
    }
    let mut without_store = self::chat(failing_store(), FromExtensions::new());
    assert_eq!(answer(&mut without_store, extended(request(), CallScope::Stateless)).await, "a");
}

#[tokio::test]
async fn a_header_names_the_conversation_and_is_removed() {
    let store = MemoryStore::new();
    let mut chat = chat(store.clone(), FromHeader::new(NAME));
    let request = |text: &str| {
        let mut request = named(ask(text), b"tests/user%2042");
        request.headers_mut().insert("x-other", HeaderValue::from_static("kept"));
        request
    };
    assert_eq!(answer(&mut chat, request("a")).await, "a");
    let response = chat.ready().await.unwrap().call(request("b")).await.unwrap();
    assert_eq!(response.headers()["x-got"], "x-other", "the provider does not get the id");
    assert_eq!(response.body(), "a|a|b");
    assert_eq!(store.conversation(&id("user 42")).messages().await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_request_that_names_no_conversation_reaches_neither_store_nor_model() {
    let mut by_extension = chat(failing_store(), FromExtensions::new());
    assert!(error_of(&mut by_extension, named(ask("a"), b"tests/one")).await.is::<MissingConversation>());
    let mut by_header = chat(failing_store(), FromHeader::new(NAME));
    assert!(error_of(&mut by_header, extended(ask("a"), id("one"))).await.is::<MissingConversation>());
}

#[tokio::test]
async fn an_ambiguous_or_invalid_header_is_refused() {
    use HeaderError::{ConversationId, NotAscii, Repeated};
    let mut chat = chat(failing_store(), FromHeader::new(NAME));
    let mut refused = async |request: Ask| {
        let error = error_of(&mut chat, request).await.downcast::<HeaderError>().unwrap();
        let shown = format!("{error} {error:?} {:?}", error.source());
        assert!(!shown.contains("secret"), "{shown}");
        *error
    };
    let repeated = refused(named(named(ask("a"), b"secret"), b"secret2")).await;
    assert_eq!(repeated, Repeated { name: NAME });
    assert_eq!(repeated.to_string(), "the header x-conversation is set more than once");
    assert_eq!(refused(named(named(ask("a"), b"secret"), b"secret")).await, Repeated { name: NAME });
    for value in ["secret ä".as_bytes(), b"secret\xff"] {
        assert_eq!(refused(named(ask("a"), value)).await, NotAscii { name: NAME });
    }
    let no_id = |source: ConversationIdError| ConversationId { name: NAME, source };
    assert_eq!(refused(named(ask("a"), b"")).await, no_id(ConversationIdError::Empty));
    assert_eq!(refused(named(ask("a"), b"secret//1")).await, no_id(ConversationIdError::EmptyPart { position: 1 }));
    // A proxy may join two values into one.
    for value in [&b"secret, secret2"[..], b"secret,secret2", b"%73ecret", b"secret%2f1"] {
        assert_eq!(refused(named(ask("a"), value)).await, no_id(ConversationIdError::NotCanonical));
    }
}
