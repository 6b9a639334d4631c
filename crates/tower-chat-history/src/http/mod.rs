//! Conversation memory for HTTP clients and proxies of LLM services, built on [`tower_chat_history`].
//!
//! [`HttpHistory`] adapts `http::Request<B>` and `http::Response<B>` for
//! [`ChatHistoryLayer`](crate::ChatHistoryLayer). The layer wraps any service that sends HTTP requests:
//! a client of hyper or reqwest, or the inner service of a proxy. Calls of [chat completions](ChatWire), of
//! [Anthropic's Messages API](MessagesWire) and of OpenAI's [Responses API](ResponsesWire) have history. All other
//! requests pass through untouched.
//!
//! # Example
//!
//! ```
//! use http::{Request, Response};
//! use http_body_util::BodyExt;
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//! use tower_chat_history::{ChatHistoryLayer, MemoryStore};
//! use tower_chat_history::http::{CONVERSATION_ID, HistoryBody, HttpHistory};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), BoxError> {
//!     // In place of an HTTP client: it answers with the number of messages that it receives.
//!     let client = service_fn(|request: Request<HistoryBody>| async move {
//!         let body = request.into_body().collect().await?.to_bytes();
//!         let body: serde_json::Value = serde_json::from_slice(&body)?;
//!         let count = body["messages"].as_array().map_or(0, Vec::len);
//!         let message = format!(r#"{{"role":"assistant","content":"{count} received"}}"#);
//!         let answer = format!(r#"{{"choices":[{{"message":{message},"finish_reason":"stop"}}]}}"#);
//!         Ok::<_, BoxError>(Response::new(answer))
//!     });
//!     let history = ChatHistoryLayer::new(MemoryStore::new(), HttpHistory::new());
//!     let chat = ServiceBuilder::new().layer(history).service(client);
//!
//!     for expected in ["1 received", "3 received"] {
//!         let request = Request::post("https://api.openai.com/v1/chat/completions")
//!             .header(CONVERSATION_ID, "acme/user-42")
//!             .body(r#"{"model":"gpt-5","messages":[{"role":"user","content":"Hi"}]}"#.to_owned())?;
//!         let response = chat.clone().oneshot(request).await?;
//!         let answer = response.into_body().collect().await?.to_bytes();
//!         assert!(std::str::from_utf8(&answer)?.contains(expected));
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The second request is sent with the first exchange before it, so the model receives three messages.
//!
//! The layered service takes requests with any type of body. With `oneshot`, the compiler knows the type from the
//! request. `ready` has no request, so it needs the type: `ServiceExt::<Request<String>>::ready(&mut chat)`.
//!
//! # Pages
//!
//! | I want to ... | use |
//! |---|---|
//! | name the conversation of a request | the [headers](FromHeaders), or another extractor: [`HttpHistory::extract_by`] |
//! | add history to other paths | [`Routes`] |
//! | limit the sizes of bodies | [`HttpLimits`] |
//! | answer errors in a proxy | [`error_response`] |
//! | know which bytes change | [requests](guide::requests) |
//! | know which responses are stored | [responses](guide::responses) |
//! | call Claude, also on Azure, Vertex AI and Bedrock | [`MessagesWire`] |
//! | support another format of bodies | [`Wire`] |
//! | adapt a client with request types of its own | [`parts`] |
#![cfg_attr(feature = "otel", doc = "| send the trace context to the provider | [`TraceContextLayer`] |")]
#![cfg_attr(
    not(feature = "otel"),
    doc = "| send the trace context to the provider | `TraceContextLayer` (feature `otel`) |"
)]
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `otel` | no | `TraceContextLayer`: the trace context in the headers of requests (`traceparent`), and [metrics](crate::telemetry) |
//!
//! # Next steps
//!
//! - [`HistoryOptions`](crate::HistoryOptions) has all options of the layer, such as budgets and
//!   summaries.
//! - [`Engine::drain`](crate::Engine::drain) waits for pending saves, summaries and detached streams. Call
//!   it before the runtime ends.
//! - [cases](crate::cases) lists the outcome of every case.

mod blocking;
mod body;
mod chat;
mod error;
mod error_response;
mod fold;
pub mod guide;
mod headers;
mod history;
mod kind;
mod limits;
mod list;
mod messages;
mod openai;
pub mod parts;
mod refusal;
mod request;
mod response;
mod responses;
mod routes;
mod server_state;
mod splice;
mod sse;
#[cfg(feature = "otel")]
mod trace_context;
mod wire;

#[cfg(feature = "otel")]
pub use self::trace_context::{TraceContext, TraceContextLayer};
pub use self::{
    body::HistoryBody,
    chat::ChatWire,
    error::CallError,
    error_response::error_response,
    headers::{CONVERSATION_ID, DONT_STORE, EXCHANGE_ID, FEW_SHOT_MESSAGES, FromHeaders, STATELESS},
    history::HttpHistory,
    limits::HttpLimits,
    messages::MessagesWire,
    refusal::Refusal,
    request::HttpDraft,
    responses::ResponsesWire,
    routes::Routes,
    server_state::OnServerState,
    splice::{Gap, Splice, SpliceError},
    sse::Event,
    wire::{OpenedBody, Wire},
};
