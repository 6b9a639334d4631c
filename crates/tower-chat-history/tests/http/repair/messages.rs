//! Thinking of the Messages API whose signature the provider cannot verify any more.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, MemoryStore,
    engine::InputMode,
    http::{CONVERSATION_ID, HistoryBody, HttpHistory},
};
use tower_chat_history_test::messages::{MessagesProvider, Say};

use super::super::{
    mock_messages::MockMessages,
    support::{JSON, id, text},
};

const ASK: &str = r#"{"model":"claude","max_tokens":99,"messages":[{"role":"user","content":"and?"}]}"#;

async fn respond(mock: MockMessages, request: Request<HistoryBody>) -> Result<Response<Full<Bytes>>, BoxError> {
    let body = String::from_utf8(request.into_body().collect().await?.to_bytes().to_vec())?;
    let (status, body) = match mock.answer(body) {
        Ok(made) => (200, made.body()),
        Err(refusal) => (refusal.status(), refusal.body()),
    };
    Ok(Response::builder().status(status).header("content-type", JSON).body(Full::from(body))?)
}

#[tokio::test]
async fn thinking_is_left_out_after_the_provider_could_not_verify_it() {
    let adapter = HttpHistory::new().input_mode(InputMode::New);
    let layer = ChatHistoryLayer::new(MemoryStore::new(), adapter);
    let thinking = [("one", 1, 0), ("one", 1, 1), ("two", 2, 0), ("two", 1, 1), ("two", 1, 2)];
    for (turn, (provider, requests, sent)) in thinking.into_iter().enumerate() {
        let mock = MockMessages::new(MessagesProvider::new(provider));
        // The mock may use up a reply for a refused request.
        for _ in 0..2 {
            mock.push(vec![Say::Thinking(format!("hm {turn}")), Say::Text(format!("so {turn}"))]);
        }
        let called = mock.clone();
        let service = service_fn(move |request| respond(called.clone(), request));
        let request = Request::post("https://api.anthropic.com/v1/messages").header(CONVERSATION_ID, id().as_str());
        let response = layer.layer(service).oneshot(request.body(ASK.to_owned()).unwrap()).await.unwrap();
        let (status, body) = (response.status(), text(response).await);
        assert_eq!((status.as_u16(), mock.requests().len()), (200, requests), "turn {turn}: {body}");
        let last = mock.requests().pop().unwrap();
        assert_eq!(last.matches(r#""type":"thinking""#).count(), sent, "turn {turn}: {last}");
    }
}
