//! The layer over HTTP requests, for clients and proxies of LLM services (feature `http`).
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
#![cfg_attr(
    feature = "otel",
    doc = "| send the trace context to the provider | [`inject_headers`](crate::telemetry::inject_headers) |"
)]
#![cfg_attr(
    not(feature = "otel"),
    doc = "| send the trace context to the provider | `telemetry::inject_headers` (feature `otel`) |"
)]
//!
//! # Next steps
//!
//! - [`HistoryOptions`](crate::HistoryOptions) has all options of the layer, such as budgets and
//!   summaries.
//! - [`Engine::drain`](crate::Engine::drain) waits for pending saves, summaries and detached streams. Call
//!   it before the runtime ends.
//! - [cases](crate::cases) lists the outcome of every case.

mod body;
mod chat;
mod error;
mod headers;
mod history;
mod messages;
mod request;
mod response;
mod responses;
mod routes;
mod splice;
mod sse;
mod wire;

pub use self::{
    body::{HistoryBody, HttpLimits},
    chat::ChatWire,
    error::{CallError, Refusal},
    headers::{CONVERSATION_ID, DONT_STORE, EXCHANGE_ID, FEW_SHOT_MESSAGES, FromHeaders, STATELESS},
    history::{HttpHistory, OnServerState},
    messages::MessagesWire,
    request::HttpDraft,
    responses::ResponsesWire,
    routes::Routes,
    splice::{Gap, Splice},
    sse::Event,
    wire::{OpenedBody, Wire, error_response},
};

pub mod guide {
    //! Documentation pages. These modules contain no code.

    #[doc = include_str!("../../docs/http/requests.md")]
    pub mod requests {}
    #[doc = include_str!("../../docs/http/responses.md")]
    pub mod responses {}
}

pub mod parts {
    //! The parts of [`HttpHistory`](super::HttpHistory), for adapters of HTTP clients with request types of their own.
    //!
    //! The async-openai integration is such an adapter: async-openai's requests are factories, which make a new request
    //! for each attempt.

    pub use super::{
        headers::{is_stateless, strip as strip_headers},
        request::{fit_headers, open_body},
        response::read_response,
        routes::warn_without_memory,
    };
}
