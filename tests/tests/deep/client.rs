//! History in an async-openai client, with a transport in the test.

use std::sync::{Arc, Mutex};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use reqwest::{Method, Request, Response};
use tower::{ServiceBuilder, ServiceExt as _, service_fn};
use tower_chat_history::{MemoryStore, engine::InputMode};
use tower_chat_history_openai::client::{CONVERSATION_ID, OpenAiHistory, openai_error};

use super::{
    Case, block_on,
    texts::{LEVELS, deep_store, id, lists, texts},
};

pub(crate) const CASES: &[Case] =
    cases![bodies_are_read_and_spliced, invalid_bodies_are_refused, responses_are_read, streams_are_folded,];

/// Sends a body. Returns the sent body and the response.
async fn call(
    store: MemoryStore,
    mode: InputMode,
    body: String,
    kind: &str,
    answer: String,
) -> Result<(Vec<u8>, String), OpenAIError> {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let transport = service_fn({
        let (sent, kind) = (Arc::clone(&sent), kind.to_owned());
        move |factory: HttpRequestFactory| {
            let (sent, kind, answer) = (Arc::clone(&sent), kind.clone(), answer.clone());
            async move {
                let request = factory.build().await?;
                *sent.lock().unwrap() = request.body().unwrap().as_bytes().unwrap().to_vec();
                let response = http::Response::builder().header("content-type", kind).body(answer).unwrap();
                Ok::<Response, OpenAIError>(response.into())
            }
        }
    });
    let layer = OpenAiHistory::new(store).input_mode(mode).layer();
    let service = ServiceBuilder::new().map_err(openai_error).layer(layer).service(transport);
    let factory = HttpRequestFactory::new(move || {
        let mut request = Request::new(Method::POST, "http://llm.test/v1/chat/completions".parse().unwrap());
        request.headers_mut().insert(CONVERSATION_ID, id().to_string().parse().unwrap());
        request.headers_mut().insert("content-type", "application/json".parse().unwrap());
        *request.body_mut() = Some(body.clone().into());
        async move { Ok(request) }
    });
    let response = service.oneshot(factory).await?;
    let text = response.text().await.unwrap();
    let sent = std::mem::take(&mut *sent.lock().unwrap());
    Ok((sent, text))
}

fn response_with(message: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}]}}"#)
}

const OK: &str = r#"{"role":"assistant","content":"ok"}"#;
const JSON: &str = "application/json";

fn bodies_are_read_and_spliced() {
    block_on(async {
        for deep in texts() {
            let messages = format!(r#"[{{"role":"system","content":{deep}}},{{"role":"user","content":{deep}}}]"#);
            let body = format!(
                r#"{{"unknown":{deep},"model":"m","messages":{messages},"tools":{deep},"response_format":{deep}}}"#
            );
            for mode in [InputMode::New, InputMode::Transcript] {
                let (sent, _) = call(deep_store().await, mode, body.clone(), JSON, response_with(OK)).await.unwrap();
                assert!(sent.len() > body.len());
            }
        }
    });
}

fn invalid_bodies_are_refused() {
    block_on(async {
        for deep in texts() {
            for name in ["model", "messages", "n", "max_tokens", "temperature"] {
                let body = format!(r#"{{"{name}":{deep},"messages":[{{"role":"user","content":"a"}}]}}"#);
                let _ = call(MemoryStore::new(), InputMode::New, body, JSON, response_with(OK)).await;
            }
            assert!(call(MemoryStore::new(), InputMode::New, deep, JSON, response_with(OK)).await.is_err());
        }
    });
}

fn body() -> String {
    r#"{"model":"m","messages":[{"role":"user","content":"a"}]}"#.to_owned()
}

fn responses_are_read() {
    block_on(async {
        for deep in texts() {
            let messages = [
                format!(r#"{{"role":"assistant","content":{deep}}}"#),
                format!(r#"{{"role":"assistant","content":"a","unknown":{deep},"tool_calls":{deep}}}"#),
                format!(r#"{{"role":{deep},"content":"a"}}"#),
                deep.clone(),
            ];
            let answers = messages.iter().map(|message| response_with(message));
            let odd = [
                deep.clone(),
                format!(r#"{{"choices":{deep}}}"#),
                format!(r#"{{"usage":{deep},"error":{deep},"model":{deep},"choices":[{{"message":{OK}}}]}}"#),
            ];
            for answer in answers.chain(odd) {
                let (_, text) = call(MemoryStore::new(), InputMode::New, body(), JSON, answer.clone()).await.unwrap();
                assert_eq!(text, answer, "it is passed on unchanged");
            }
        }
    });
}

fn streams_are_folded() {
    block_on(async {
        for deep in texts() {
            let deltas = [
                format!(r#"{{"role":"assistant","content":"a","unknown":{deep}}}"#),
                format!(r#"{{"unknown":{deep},"reasoning_details":[{{"index":0,"x":{deep}}}]}}"#),
                format!(r#"{{"reasoning_details":[{{"index":0,"x":{deep}}}]}}"#),
                format!(r#"{{"content":{deep}}}"#),
                format!(
                    r#"{{"tool_calls":[{{"index":0,"id":"x","function":{{"name":"f","arguments":"{}"}}}}]}}"#,
                    lists(LEVELS)
                ),
                format!(r#"{{"tool_calls":[{{"index":0,"more":{deep},"function":{{"arguments":"[","x":{deep}}}}}]}}"#),
                format!(r#"{{"tool_calls":[{{"index":0,"more":{deep},"function":{{"arguments":"]","x":{deep}}}}}]}}"#),
                format!(r#"{{"tool_calls":{deep}}}"#),
                deep.clone(),
            ];
            let chunks = deltas.iter().map(|delta| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#));
            let odd = [format!(r#"{{"choices":{deep},"usage":{deep}}}"#), format!(r#"{{"error":null,"x":{deep}}}"#)];
            let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#.to_owned();
            for chunks in
                [chunks.clone().chain([end.clone()]).collect::<Vec<_>>(), chunks.chain(odd).chain([end]).collect()]
            {
                let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
                let events = events + "data: [DONE]\n\n";
                let kind = "text/event-stream";
                let (_, text) = call(MemoryStore::new(), InputMode::New, body(), kind, events.clone()).await.unwrap();
                assert_eq!(text, events, "it is passed on unchanged");
            }
        }
    });
}
