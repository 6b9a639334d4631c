//! Bodies that stall, over a transport that the test implements.

use std::time::Duration;

use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use reqwest::Body;
use tower::{ServiceBuilder, ServiceExt as _, service_fn};
use tower_chat_history::{HistoryOptions, MemoryStore, error::StreamStalled};
use tower_chat_history_openai::client::{OpenAiHistory, openai_error};

use super::{
    log,
    raw::{factory, post},
};

/// Reads the answer to a streaming call whose body begins with `events` and then hangs.
async fn read(store: MemoryStore, events: &'static str) -> Vec<Result<Bytes, reqwest::Error>> {
    let transport = service_fn(move |_: HttpRequestFactory| async move {
        let body = stream::iter([Ok::<_, OpenAIError>(Bytes::from(events))]).chain(stream::pending());
        let response = http::Response::builder().header("content-type", "text/event-stream");
        Ok::<_, OpenAIError>(reqwest::Response::from(response.body(Body::wrap_stream(body)).unwrap()))
    });
    let options = HistoryOptions::new().stream_idle_timeout(Duration::from_secs(30));
    let layer = OpenAiHistory::with_options(store, options).layer();
    let service = ServiceBuilder::new().map_err(openai_error).layer(layer).service(transport);
    let request =
        post("/v1/chat/completions", r#"{"stream":true,"model":"m","messages":[{"role":"user","content":"u"}]}"#);
    let response = service.oneshot(factory(request)).await.unwrap();
    let reading = response.bytes_stream().take(5).collect();
    tokio::time::timeout(Duration::from_secs(1_000), reading).await.unwrap()
}

const PART: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"a\"}}]}\n\n";

const WHOLE: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"a\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
);

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_ends_with_an_error() {
    let store = MemoryStore::new();
    let read = read(store.clone(), PART).await;
    assert_eq!(read[0].as_ref().unwrap(), PART);
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(read[1].as_ref().unwrap_err());
    while let Some(error) = cause {
        if let Some(stalled) = error.downcast_ref::<StreamStalled>() {
            assert_eq!(stalled.after, Duration::from_secs(30));
            break;
        }
        cause = error.source();
    }
    assert!(cause.is_some(), "the error has a StreamStalled among its sources");
    assert_eq!(read.len(), 2);
    assert_eq!(log(&store).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_after_its_last_finish_reason_ends_and_is_stored() {
    let store = MemoryStore::new();
    let read = read(store.clone(), WHOLE).await;
    assert!(read.len() == 1 && read[0].is_ok());
    assert_eq!(log(&store).await, ["user: u", "assistant: a"]);
}
