//! Whole responses that are larger than the limit.

use std::sync::{Arc, Mutex};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use bytes::Bytes;
use reqwest::{Body, Response};
use tower::{ServiceExt as _, service_fn};
use tower_chat_history::{
    Engine, HistoryOptions, MemoryStore,
    report::{NotStored, ResponseShape, TurnOutcome},
};
use tower_chat_history_openai::client::OpenAiHistory;
use tower_layer::Layer as _;

use super::{
    log,
    raw::{ASK, WHOLE, factory, post},
};

#[tokio::test]
async fn a_whole_response_of_more_than_64_mib_is_passed_on_and_not_stored() {
    let (store, outcomes) = (MemoryStore::new(), Arc::new(Mutex::new(Vec::new())));
    let options = HistoryOptions::new().on_turn({
        let outcomes = Arc::clone(&outcomes);
        move |report| outcomes.lock().unwrap().push(report.outcome.clone())
    });
    let transport = service_fn(|_: HttpRequestFactory| async {
        let space = Bytes::from(vec![b' '; 1 << 20]);
        let pieces = std::iter::once(Bytes::from(WHOLE)).chain(std::iter::repeat_n(space, 65));
        let body = Body::wrap_stream(futures_util::stream::iter(pieces.map(Ok::<_, OpenAIError>)));
        let response = http::Response::builder().header("content-type", "application/json");
        Ok::<_, OpenAIError>(Response::from(response.body(body).unwrap()))
    });
    let layer = OpenAiHistory::from_engine(Engine::with_options(store.clone(), options)).layer();
    let response = layer.layer(transport).oneshot(factory(post("/v1/chat/completions", ASK))).await.unwrap();
    let bytes = response.bytes().await.unwrap();
    assert_eq!(bytes.len(), WHOLE.len() + (65 << 20));
    assert!(bytes.starts_with(WHOLE.as_bytes()));
    let outcome = outcomes.lock().unwrap().remove(0);
    let too_large = NotStored::UnreadableReply(ResponseShape::TooLarge);
    assert!(matches!(outcome, TurnOutcome::NotStored(why) if why == too_large), "{outcome:?}");
    assert_eq!(log(&store).await, [""; 0]);
}
