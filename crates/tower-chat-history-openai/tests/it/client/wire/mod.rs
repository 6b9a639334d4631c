//! Requests and responses on the wire: only the messages change, and no other byte in either direction.

mod generate;
mod server;

use async_openai::middleware::{ReqwestService, retry::OpenAIRetryLayer};
use bytes::Bytes;
use proptest::prelude::*;
use reqwest::{Method, Request, header::HeaderName};
use tower::{ServiceBuilder, ServiceExt as _};
use tower_chat_history::{HistoryStoreExt as _, MemoryStore, Message};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_openai::client::{
    CONVERSATION_ID, DONT_STORE, EXCHANGE_ID, FEW_SHOT_MESSAGES, OpenAiHistory, STATELESS, openai_error,
};

use self::{
    generate::{Answer, Body, Logged, any_answer, any_body, any_log},
    server::{Received, answer_one, listen},
};
use super::{id, raw::factory};

/// A call: the caller's request without the resent messages, and the server's response.
#[derive(Clone, Debug)]
struct Call {
    body: Body,
    /// Headers that are unrelated to history.
    other_headers: Vec<(String, String)>,
    /// True if the call has an exchange id.
    named: bool,
    dont_store: Option<bool>,
    stateless: Option<bool>,
    /// The position in the log at which the resent messages begin.
    resent_from: prop::sample::Index,
    answer: Answer,
}

fn any_call() -> impl Strategy<Value = Call> {
    let other_headers = prop::collection::vec(("x-[a-z]{1,3}", "[!-~]([ -~]{0,8}[!-~])?"), 0..4);
    let flag = || prop::option::weighted(0.3, prop::bool::weighted(0.3));
    (any_body(), other_headers, any::<bool>(), flag(), flag(), any::<prop::sample::Index>(), any_answer()).prop_map(
        |(body, other_headers, named, dont_store, stateless, resent_from, answer)| Call {
            body,
            other_headers,
            named,
            dont_store,
            stateless,
            resent_from,
            answer,
        },
    )
}

impl Call {
    fn is_stateless(&self) -> bool {
        self.stateless == Some(true)
    }

    fn is_stored(&self) -> bool {
        !self.is_stateless() && self.dont_store != Some(true) && self.answer.reply.is_some()
    }

    fn request(&self, url: &str, number: usize, body: &str) -> Request {
        let mut request = Request::new(Method::POST, url.parse().unwrap());
        let headers = request.headers_mut();
        for (name, value) in &self.other_headers {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers.insert(CONVERSATION_ID, id().as_str().parse().unwrap());
        headers.insert(FEW_SHOT_MESSAGES, self.body.shots.len().into());
        if self.named {
            headers.insert(EXCHANGE_ID, format!("call-{number}").parse().unwrap());
        }
        for (name, value) in [(DONT_STORE, self.dont_store), (STATELESS, self.stateless)] {
            if let Some(value) = value {
                headers.insert(name, value.to_string().parse().unwrap());
            }
        }
        *request.body_mut() = Some(body.to_owned().into());
        request
    }
}

/// Returns the messages that the caller resends: the end of the log, without the fields that its types do not know.
fn resent(call: &Call, log: &[Logged]) -> Vec<String> {
    let from = call.resent_from.index(log.len() + 1);
    log[from..].iter().map(|message| message.resent.clone()).collect()
}

async fn sent_and_received(call: &Call, number: usize, store: &MemoryStore, body: &str) -> (Received, Bytes) {
    let (listener, url) = listen().await;
    let transport = ReqwestService::new(reqwest::Client::new());
    let layer = OpenAiHistory::new(store.clone()).layer();
    let stack = ServiceBuilder::new().map_err(openai_error).layer(layer);
    let service = stack.layer(OpenAIRetryLayer::default()).service(transport);
    let call_service = async {
        let response = service.oneshot(factory(call.request(&url, number, body))).await.unwrap();
        assert_eq!(response.headers()["x-request-id"], "r");
        response.bytes().await.unwrap()
    };
    tokio::join!(answer_one(&listener, &call.answer.kind, &call.answer.pieces), call_service)
}

fn check_headers(call: &Call, received: &Received) {
    assert!(received.headers.iter().all(|(name, _)| !name.starts_with("x-chat-history")), "{received:?}");
    let mut expected = call.other_headers.clone();
    let mut found = received.headers.clone();
    found.retain(|(name, _)| expected.iter().any(|(other, _)| other == name));
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

/// Checks that each call sends the log that the previous calls stored.
async fn check_calls(log: Vec<Logged>, calls: Vec<Call>) {
    let store = MemoryStore::new();
    let id = id();
    let conversation = store.conversation(&id);
    conversation.import(log.iter().map(|logged| Message::from_json(logged.json.as_str()).unwrap())).await.unwrap();
    let mut log = log;
    for (number, call) in calls.iter().enumerate() {
        let resent = resent(call, &log);
        let body = call.body.with(&resent);
        let (received, bytes) = sent_and_received(call, number, &store, &body).await;
        let window: Vec<&str> = log.iter().map(|logged| logged.sent.as_str()).collect();
        let expected = if call.is_stateless() { body.clone() } else { call.body.sent(&resent, &window) };
        assert_eq!(received.body, expected);
        check_headers(call, &received);
        assert!(bytes == call.answer.pieces.concat(), "{bytes:?} is not {:?}", call.answer);

        if call.is_stored() {
            log.extend(call.body.input.iter().map(|json| Logged {
                json: json.clone(),
                sent: generate::sent(json),
                resent: json.clone(),
            }));
            log.extend(call.answer.reply.clone());
        }
        let stored = conversation.messages().await.unwrap();
        let stored: Vec<&str> = stored.iter().map(Message::json).collect();
        assert_eq!(stored, log.iter().map(|logged| logged.json.as_str()).collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(128)))]

    #[test]
    fn only_bytes_of_the_messages_change_and_none_of_the_response(
        log in any_log(),
        calls in prop::collection::vec(any_call(), 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_calls(log, calls));
    }
}
