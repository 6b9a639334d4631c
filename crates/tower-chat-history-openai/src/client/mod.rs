//! Conversation memory inside an async-openai client.
//!
//! This is the client integration. [`OpenAiHistory`] creates a client with history. Code that calls
//! `client.chat().create(..)` or `create_stream(..)` stays as it is, except that each call names its conversation in a
//! header.
//!
//! ```no_run
//! use async_openai::{
//!     config::OpenAIConfig,
//!     error::OpenAIError,
//!     traits::RequestOptionsBuilder,
//!     types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequest},
//! };
//! use tower_chat_history::MemoryStore;
//! use tower_chat_history_openai::client::{CONVERSATION_ID, OpenAiHistory};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), OpenAIError> {
//!     let client = OpenAiHistory::new(MemoryStore::new()).client(OpenAIConfig::new());
//!     for question in ["My name is Nemo.", "What is my name?"] {
//!         let messages = vec![ChatCompletionRequestUserMessage::from(question).into()];
//!         let request = CreateChatCompletionRequest {
//!             model: "gpt-4o-mini".into(),
//!             messages,
//!             ..Default::default()
//!         };
//!         let chat = client.chat().header(CONVERSATION_ID, "acme/user-42")?;
//!         let response = chat.create(request).await?;
//!         let text = response.choices[0].message.content.as_deref();
//!         println!("{}", text.unwrap_or_default());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The value of the header is the `Display` form of a [`ConversationId`](tower_chat_history::ConversationId).
//! Without the header, a call belongs to the conversation of the [running
//! task](tower_chat_history::in_conversation).
//!
//! | header | value | default |
//! |---|---|---|
//! | [`CONVERSATION_ID`] | a conversation id | that of the running task |
//! | [`EXCHANGE_ID`] | an exchange id | a generated one |
//! | [`STATELESS`] | `true`: nothing is loaded or stored | `false` |
//! | [`DONT_STORE`] | `true`: the history is sent, and nothing is stored | `false` |
//! | [`FEW_SHOT_MESSAGES`] | the number of few-shot messages | the client's |
//!
//! Set options with [`OpenAiHistory::with_options`]. Before the runtime ends, call
//! [`Engine::drain`](tower_chat_history::Engine::drain) on [`OpenAiHistory::engine`].
//!
//! # Pages
//!
//! | page | contents |
//! |---|---|
//! | [requests](crate::guide::client_requests) | the stack of services, headers, changes to the body |
//! | [responses](crate::guide::client_responses) | the rules for storing responses, and for passing them on |

mod adapter;
mod history;
mod request;
mod response;
mod service;

#[doc(inline)]
pub use tower_chat_history::http::{
    CONVERSATION_ID, CallError, DONT_STORE, EXCHANGE_ID, FEW_SHOT_MESSAGES, OnServerState, STATELESS,
};

pub use self::{adapter::OpenAiHttp, history::OpenAiHistory, request::HttpDraft, service::openai_error};
