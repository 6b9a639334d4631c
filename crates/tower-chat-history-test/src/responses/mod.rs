//! A provider of OpenAI's Responses API, without a network, for requests with `store: false`.
//!
//! [`ResponsesProvider`] checks the body of each request, and makes a response from a script. It needs no clock and no
//! randomness. A program that keeps a conversation passes if the provider never returns a [`Refusal`].
//!
//! # Rules
//!
//! The provider refuses, as of November 2026:
//!
//! | in `input` | status and code |
//! |---|---|
//! | a reasoning item without the item that followed it | 400 |
//! | an item whose `id` belongs to reasoning that is not before it | 400 |
//! | a reasoning item without `summary`, which may be empty | 400, `missing_required_parameter` |
//! | encrypted content of another origin or of an earlier [key](ResponsesProvider::rotate_key), or changed content | 400, `invalid_encrypted_content` |
//! | a reasoning item without encrypted content, or an `item_reference`: nothing is stored | 404 |
//! | a call without an output of its kind after it | 400 |
//! | an output without a call of its kind before it, or a second output of a call | 400 |
//! | a call or an output that names no call | 400, `missing_required_parameter` |
//! | a message in an unknown role | 400, `invalid_value` |
//! | an `id` that is empty or has other characters than letters, digits, `_` and `-` | 400, `invalid_value` |
//! | an `id` without the prefix of its type: `fc_` for functions, `ctc_` for custom tools, `msg_` for the model's messages | 400, `invalid_value` |
//! | two items with the same `id` | 400 |
//! | a `call_id` of more than 64 characters | 400, `string_above_max_length` |
//! | a function call without `name` or `arguments`, a custom call without `name` or `input`, an output without `output` | 400, `missing_required_parameter` |
//! | `arguments`, `input` or a name that is not a text | 400, `invalid_type` |
//! | the name of a function that does not match `^[a-zA-Z0-9_-]+$` | 400, `invalid_value` |
//! | a message without `content` | 400, `missing_required_parameter` |
//! | a message whose `content` is neither a text nor a list | 400, `invalid_type` |
//! | a part of the model's message other than `output_text` and `refusal` | 400, `invalid_value` |
//! | a part of another message whose type is unknown | 400, `invalid_value` |
//!
//! | in the request | status and code |
//! |---|---|
//! | `previous_response_id`: nothing is stored | 400, `previous_response_not_found` |
//! | `conversation`: nothing is stored | 404 |
//! | both | 400, `mutually_exclusive_parameters` |
//!
//! Items of unknown types are accepted, and requests without `model`. So are parts of the model, such as `output_text`,
//! in messages of other roles, because no source says that the API refuses them.
//!
//! Sources: OpenAI's guides to conversation state, reasoning and compaction, and the errors in public issues until
//! September 2026. Some of them are openhuman#3624 (parts of the model), PraisonAI#3934 (unknown parts),
//! continuedev/continue#10723 (two items), AnswerDotAI/fastllm#45 (long ids), openai/codex#33176, Wei-Shaw/sub2api#3785
//! and free-claude-code#1826 (prefixes). These are assumptions: the wordings for kinds of calls other than functions
//! and custom tools, the refusal of a second output, that an unanswered `mcp_approval_request` is refused, that its id
//! does not belong to reasoning, and the wording and the status of an unknown conversation.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower_chat_history_test::responses::{Reason, ResponsesProvider, Say};
//!
//! let provider = ResponsesProvider::new("acme");
//! let question = r#"{"role":"user","content":"Is it warm?"}"#;
//! let script = [Say::reasoning(), Say::call("call_1", "weather", "{}")];
//! let made = provider.reply(&format!(r#"{{"model":"gpt-5.5","store":false,"input":[{question}]}}"#), &script)?;
//!
//! // A program that loses the reasoning item.
//! let output = json!({"type": "function_call_output", "call_id": "call_1", "output": "12 degrees"});
//! let body = format!(r#"{{"model":"gpt-5.5","store":false,"input":[{question},{},{output}]}}"#, made.output[1]);
//! let refusal = provider.check(&body).unwrap_err();
//! assert_eq!(refusal.reason(), &Reason::MissingReasoning { position: 1 });
//! assert!(refusal.to_string().contains("of type 'function_call' was provided without its required 'reasoning' item"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod item;
mod provider;
mod reasoning;
mod refusal;
mod reply;

pub use self::{
    provider::ResponsesProvider,
    refusal::{Reason, Refusal},
    reply::{CallType, MadeResponse, Say},
};
