//! Test doubles for services with conversation memory: a mock LLM, and a store whose calls fail on demand. The mock LLM
//! is available as a tower service and as an HTTP server.
//!
//! | double | replaces | checks |
//! |---|---|---|
//! | [`MockLlm`] | the model at the bottom of a tower stack, unary or streaming | each prompt obeys the chat rules, and those of a [provider](#providers) |
//! | [`MockServer`] | the APIs of OpenAI and Anthropic over HTTP, with server-sent events | each prompt obeys the rules of its API, and those of a [provider](#providers) |
//! | [`FaultStore`] | the store: calls fail, lose their answers, are slow or hang, as the test determines | nothing, but counts the calls of each operation |
//! | [`MessagesProvider`](messages::MessagesProvider) | Anthropic's Messages API, without a network | each request obeys the [rules](messages#rules), and each signature fits |
//! | [`ResponsesProvider`](responses::ResponsesProvider) | OpenAI's Responses API, without a network | each request obeys the [rules](responses#rules) of items |
//!
//! `MockLlm` and `MockServer` answer with [`Reply`]s, from a script or by a rule ([`Replies`]), and record the requests
//! that they receive. The rule [`rules::remembering`] shows that memory works: it answers questions about the user's
//! name. [`check_chat_rules`] checks any prompt. The server also answers requests for embeddings, with vectors that
//! count words ([`MockEmbeddings`]).
//!
//! # Example
//!
//! ```
//! use async_openai::{Client, config::OpenAIConfig, types::chat::*};
//! use tower_chat_history_test::{MockServer, Reply};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = MockServer::start([Reply::text("Hello!")]).await?;
//!     let config = OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test");
//!
//!     let request = CreateChatCompletionRequestArgs::default()
//!         .model("mock")
//!         .messages(vec![ChatCompletionRequestUserMessage::from("Hi!").into()])
//!         .build()?;
//!     let response = Client::with_config(config).chat().create(request).await?;
//!
//!     assert_eq!(response.choices[0].message.content.as_deref(), Some("Hello!"));
//!     assert_eq!(server.prompts()[0][0].text(), "Hi!");
//!     server.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! # Anthropic Messages and OpenAI Responses
//!
//! [`MockServer`] also serves `/v1/messages` and `/v1/responses`, whole and as a stream. Its replies are the same
//! [`Reply`]s, in the format of the request: [`Reply::thinking`] becomes a signed block, or an encrypted item. A
//! request that the API would refuse is refused, with the API's status, type and wording. So a test of your program
//! finds a lost result, a changed block, or a signature after another prompt:
//!
//! ```
//! use serde_json::{Value, json};
//! use tower_chat_history_test::{MockServer, Reply};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let call = Reply::calls([("call_1", "weather", r#"{"city":"Oslo"}"#)]).thinking("Which city?");
//!     let server = MockServer::start([call, Reply::text("It is warm.")]).await?;
//!     let client = reqwest::Client::builder().no_proxy().build()?;
//!     let ask = |messages: &Value| {
//!         let body = json!({ "model": "claude-opus-5-5", "max_tokens": 99, "messages": messages });
//!         client.post(format!("{}/messages", server.base_url())).header("anthropic-version", "2023-06-01").json(&body)
//!     };
//!
//!     let mut messages = json!([{ "role": "user", "content": "Is it warm in Oslo?" }]);
//!     let reply: Value = ask(&messages).send().await?.json().await?;
//!     assert_eq!(reply["content"][0]["type"], "thinking");
//!
//!     // The program trims its history: the question is gone, and the signature no longer fits.
//!     let result = json!([{ "type": "tool_result", "tool_use_id": "call_1", "content": "20 degrees" }]);
//!     messages = json!([
//!         { "role": "user", "content": "(earlier messages left out)" },
//!         { "role": "assistant", "content": reply["content"] },
//!         { "role": "user", "content": result },
//!     ]);
//!     let refused = ask(&messages).send().await?;
//!     assert_eq!(refused.status(), 400);
//!     assert!(refused.text().await?.contains("The block is bound to a different conversation."));
//!     Ok(())
//! }
//! ```
//!
//! The modules [`messages`] and [`responses`] list the rules and their sources. They also have the providers without a
//! server, for tests of single requests. Both have the same parts:
//!
//! | part | Messages | Responses |
//! |---|---|---|
//! | the provider: `check` a body, `reply` to it | [`MessagesProvider`](messages::MessagesProvider) | [`ResponsesProvider`](responses::ResponsesProvider) |
//! | a part of a scripted reply | [`messages::Say`] | [`responses::Say`] |
//! | a reply: its `body`, its `events`, `answers` to its calls | [`MadeMessage`](messages::MadeMessage) | [`MadeResponse`](responses::MadeResponse) |
//! | a refused request: its `reason`, `status`, `kind` and `body` | [`messages::Refusal`] | [`responses::Refusal`] |
//!
//! # Providers
//!
//! Some providers add rules to those of chat completions: reasoning has to be sent back, unchanged or together with the
//! prompt that it was made under. [`Replies::provider`] sets a [`ChatProvider`], and both mocks then refuse what this
//! provider refuses, with its status, its body and its wording. Their replies have the provider's fields, with
//! signatures that the mock accepts later. [`Reply::thinking`] adds reasoning to a reply.
//!
//! | provider | refuses, as of November 2026 | since |
//! |---|---|---|
//! | [`OpenAi`](ChatProvider::OpenAi) (the default) | violations of the [chat rules](check_chat_rules), as do all others | |
//! | | ids of calls with more than 64 characters, one id for two calls of a message | |
//! | [`DeepSeek`](ChatProvider::DeepSeek) | tool calls without `reasoning_content`, in all later requests | V4, April 2026 |
//! | [`Gemini`](ChatProvider::Gemini) | calls of the current turn without `extra_content.google.thought_signature`, or with another one | Gemini 3, November 2025 |
//! | [`OpenRouter`](ChatProvider::OpenRouter) with Claude | `reasoning_details` whose text has changed | October 2025 |
//! | | `reasoning_details` after other messages, tools or thinking than those that they were made after | Claude Fable 5.1, August 2026 |
//! | | the results of calls whose message lacks its `reasoning_details` | 2025 |
//! | [`LiteLlm`](ChatProvider::LiteLlm) with Claude | the same for `thinking_blocks` | as above |
//!
//! The months are those of the providers' documentation and of the first reports. The page of each provider has its
//! sources. [`ChatProvider::check`] checks the body of a request without a mock.
//!
//! [`Replies::compat`] adds the rules of a reader that accepts less, as `Compat` of `tower-chat-history` describes it:
//! the rules of the table of readers for one provider, or those of a chat template. [`check_compat`] checks messages
//! without a mock.
//!
//! The next test finds that a program loses DeepSeek's reasoning, because async-openai's types have no field for it:
//!
//! ```
//! use async_openai::{Client, config::OpenAIConfig, types::chat::*};
//! use tower_chat_history_test::{ChatProvider, MockServer, Replies, Reply};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let call = Reply::calls([("call_1", "weather", "{}")]).thinking("The user asks about the weather.");
//!     let script = Replies::script([call, Reply::text("It is warm.")]);
//!     let server = MockServer::start(script.provider(ChatProvider::DeepSeek)).await?;
//!     let client = Client::with_config(OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test"));
//!
//!     let mut request = CreateChatCompletionRequest {
//!         model: "deepseek-v4-pro".into(),
//!         messages: vec![ChatCompletionRequestUserMessage::from("Is it warm?").into()],
//!         ..Default::default()
//!     };
//!     let calls = client.chat().create(request.clone()).await?.choices.remove(0).message.tool_calls;
//!     let reply = ChatCompletionRequestAssistantMessage { tool_calls: calls, ..Default::default() };
//!     let result = ChatCompletionRequestToolMessage { content: "20 degrees".into(), tool_call_id: "call_1".into() };
//!     request.messages.extend([reply.into(), result.into()]);
//!
//!     let error = client.chat().create(request).await.unwrap_err();
//!     assert!(error.to_string().contains("`reasoning_content` in the thinking mode must be passed back"), "{error}");
//!     Ok(())
//! }
//! ```
//!
//! [`MockLlm`] has the same rules. Its types always lose the fields. Where a provider accepts this, the conversation
//! continues:
//!
//! ```
//! use async_openai::types::chat::*;
//! use tower::ServiceExt;
//! use tower_chat_history_test::{ChatProvider, MockLlm, Reply};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let replies = [Reply::text("Hello!").thinking("A greeting."), Reply::text("Bye!")];
//! let llm = MockLlm::script(replies).provider(ChatProvider::OpenRouter);
//! let mut messages = vec![ChatCompletionRequestUserMessage::from("Hi!").into()];
//! let request = |messages| CreateChatCompletionRequest { model: "mock".into(), messages, ..Default::default() };
//! llm.unary().oneshot(request(messages.clone())).await?;
//!
//! // Without tool calls, OpenRouter accepts a reply without its reasoning.
//! messages.push(ChatCompletionRequestAssistantMessage::from("Hello!").into());
//! messages.push(ChatCompletionRequestUserMessage::from("Bye!").into());
//! llm.unary().oneshot(request(messages)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Time
//!
//! Delays use tokio's timer, so a paused clock makes tests of them fast: `#[tokio::test(start_paused = true)]`. The
//! paused clock needs tokio's feature `test-util`, which this crate does not enable: run `cargo add --dev tokio
//! --features macros,rt,test-util`.
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `openai` | yes | [`MockLlm`], with the types of async-openai |
//! | `server` | yes | [`MockServer`], with axum |
//!
//! [`FaultStore`], [`check_chat_rules`], [`check_compat`], [`ChatProvider::check`], [`messages`] and [`responses`] need
//! no feature.

#![cfg_attr(docsrs, feature(doc_cfg))]
// The documentation is published with all features. Without some of them, links to their items are broken.
#![cfg_attr(not(all(feature = "openai", feature = "server")), allow(rustdoc::broken_intra_doc_links))]

mod chat_rules;
mod compat_rules;
mod fault;
#[cfg(feature = "openai")]
mod llm;
pub mod messages;
mod provider;
#[cfg(any(feature = "openai", feature = "server"))]
mod replies;
#[cfg(any(feature = "openai", feature = "server"))]
mod reply;
pub mod responses;
#[cfg(any(feature = "openai", feature = "server"))]
pub mod rules;
#[cfg(feature = "server")]
mod server;
mod signature;
mod util;

#[cfg(feature = "openai")]
pub use self::llm::{MockChat, MockChatStream, MockLlm};
#[cfg(feature = "server")]
pub use self::server::{MockEmbeddings, MockServer, RecordedRequest};
pub use self::{
    chat_rules::{RuleViolation, check_chat_rules},
    compat_rules::{CompatViolation, check_compat},
    fault::{Fault, FaultStore, Hold, Op},
    provider::{ChatProvider, ProviderRefusal, RefusalReason},
};
#[cfg(any(feature = "openai", feature = "server"))]
pub use self::{
    replies::Replies,
    reply::{ApiFailure, Call, Choice, Reply},
};

/// Compiles the example of the README.
#[cfg(all(doctest, feature = "openai"))]
#[doc = include_str!("../README.md")]
mod readme {}
