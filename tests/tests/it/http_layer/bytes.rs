//! Bytes on the wire: only the messages of a request change, and no other byte in either direction.

#[allow(dead_code)] // The suite of the client integration uses all of it.
#[path = "../../../../crates/tower-chat-history-openai/tests/it/client/wire/generate.rs"]
mod generate;
#[path = "../../../../crates/tower-chat-history-openai/tests/it/client/wire/server.rs"]
mod server;

use http::Request;
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    ChatHistoryLayer, ConversationId, HistoryStoreExt as _, MemoryStore, Message,
    http::{CONVERSATION_ID, FEW_SHOT_MESSAGES, HttpHistory},
};
use tower_chat_history_conformance::shorthand::cases;

use self::{
    generate::{Answer, Body, Logged, any_answer, any_body, any_log, sent},
    server::{answer_one, listen},
};
use super::HttpClient;

/// A call: the caller's request without the resent messages, the position in the log at which these begin, and the
/// server's response.
type Call = (Body, prop::sample::Index, Answer);

/// Checks that each call sends the log that the previous calls stored.
async fn check_calls(mut log: Vec<Logged>, calls: Vec<Call>) {
    let (store, id) = (MemoryStore::new(), ConversationId::new(["acme", "user 42"]).unwrap());
    let conversation = store.conversation(&id);
    conversation.import(log.iter().map(|logged| Message::from_json(logged.json.as_str()).unwrap())).await.unwrap();
    let chat = ChatHistoryLayer::new(store.clone(), HttpHistory::new()).layer(HttpClient::new());
    for (body, resent_from, answer) in calls {
        let resent = &log[resent_from.index(log.len() + 1)..];
        let resent: Vec<String> = resent.iter().map(|message| message.resent.clone()).collect();
        let (listener, url) = listen().await;
        let request = Request::post(url).header(CONVERSATION_ID, id.as_str()).header("x-other", "kept");
        let request = request.header(FEW_SHOT_MESSAGES, body.shots.len()).body(body.with(&resent)).unwrap();
        let call = async {
            let response = chat.clone().oneshot(request).await.unwrap();
            assert_eq!(response.headers()["x-request-id"], "r");
            response.into_body().collect().await.unwrap()
        };
        let (received, read) = tokio::join!(answer_one(&listener, &answer.kind, &answer.pieces), call);
        let window: Vec<&str> = log.iter().map(|logged| logged.sent.as_str()).collect();
        assert_eq!(received.body, body.sent(&resent, &window));
        assert!(received.headers.iter().all(|(name, _)| !name.starts_with("x-chat-history")), "{received:?}");
        for expected in [("x-other", "kept"), ("accept-encoding", "identity")] {
            assert!(received.headers.iter().any(|(name, value)| (name.as_str(), value.as_str()) == expected));
        }
        assert_eq!(read.trailers().map(|trailers| trailers["x-checksum"].as_bytes()), Some(&b"7"[..]));
        assert!(read.to_bytes() == answer.pieces.concat(), "{answer:?}");

        if let Some(reply) = answer.reply {
            log.extend(body.input.iter().map(|json| Logged {
                json: json.clone(),
                sent: sent(json),
                resent: json.clone(),
            }));
            log.push(reply);
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
        calls in prop::collection::vec((any_body(), any::<prop::sample::Index>(), any_answer()), 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_calls(log, calls));
    }
}
