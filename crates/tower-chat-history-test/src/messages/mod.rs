//! Anthropic's Messages API: a provider that signs its thinking, and refuses what the API refuses.
//!
//! [`MessagesProvider`] checks the body of each request, and makes the body of the response. It needs no network, no
//! clock and no randomness.
//!
//! # Rules
//!
//! A [`Refusal`] has the API's status, type and wording. The rules are as of November 2026. The wordings are those of
//! errors in public issues, or if there is none, in the same style.
//!
//! | refused | source |
//! |---|---|
//! | calls without results at the beginning of the next message, results without a call, several results of a call | documentation of tools, anthropics/claude-code#8210 and #13460 |
//! | empty contents, empty texts, contents whose texts have only white space | LibreChat-AI/agents#124, with a table of live requests |
//! | failed results without content | jlevy/markform#153 |
//! | a reply that ends with thinking, or is thinking alone | tailcallhq/forgecode#2107 and #3073 |
//! | more than four marks for the cache, marks of empty texts and of thinking | documentation of prompt caching, NousResearch/hermes-agent#1216, Wei-Shaw/sub2api#225 |
//! | a mark of one hour after a mark of five minutes, in the order `tools`, `system`, `messages` | documentation of prompt caching, headroomlabs-ai/headroom#2939 |
//! | ids of calls that do not match `^[a-zA-Z0-9_-]+$`, also in results | QwenLM/qwen-code#8160, with live requests |
//! | names of called tools with other characters, empty names, and names of more than 200 characters | langchain-ai/langsmith-sdk#899, anthropics/claude-code#23681 |
//! | `input` that is missing or is not an object | reference of the Messages API |
//! | other fields of a message than `role` and `content`, unknown fields of thinking | microsoft/autogen#3034, RooCodeInc/Roo-Code#11429 |
//! | blocks without a type or of an unknown type, except the types that the provider's own replies have had, and [those of the test](MessagesProvider::with_block_type) | reference of the Messages API |
//! | images and documents without a source, images as data other than JPEG, PNG, GIF and WebP, documents as data other than PDF | documentation of vision and of PDF support |
//! | empty texts in `system` | reference of the Messages API |
//! | system messages at other places than after the user, at the end or before a reply | documentation of mid-conversation system messages, LeenHawk/gproxy#209 |
//! | calls of server tools without a result, and the reverse: the result is in the same reply, or in the next one if only results of the program are between them, or if the provider paused | documentation of server tools, anthropics/claude-code#65726, anthropics/anthropic-sdk-typescript#1090 |
//! | thinking without a signature, with a changed text, or after another prompt | documentation of preserved thinking, anomalyco/opencode#48637 |
//! | thinking that was left out or moved between other thinking | documentation of prefix checks |
//! | a part of the thinking of the last reply is missing | NousResearch/hermes-agent#26959 |
//! | a tool round at the end without thinking, if the request enables thinking with a budget: it was left out, or another provider made the calls | documentation of extended thinking, n8n-io/n8n#22550 |
//!
//! Messages of one role that follow each other are one message. A signature covers `system`, `tools`, and all blocks
//! before the thinking, except other thinking and `cache_control`. It also names the thinking directly before it. So
//! the first thinking of a request is accepted without the earlier thinking, as after a cut, and later thinking is
//! accepted only after the same thinking as when it was made.
//!
//! System messages have settings and blocks of their own, of which only texts are checked. `max_tokens` may be 0, which
//! fills the cache.
//!
//! # Example
//!
//! ```
//! use serde_json::{Value, json};
//! use tower_chat_history_test::messages::{MessagesProvider, Reason, Say};
//!
//! let provider = MessagesProvider::new("acme");
//! let request = |messages: &Value| json!({"model": "claude", "max_tokens": 9, "messages": messages}).to_string();
//! let mut messages = json!([{"role": "user", "content": "Hi!"}]);
//! let says = [Say::thinking("A greeting."), Say::text("Hello!")];
//! let response: Value = serde_json::from_str(&provider.reply(&request(&messages), &says)?.body())?;
//!
//! let more = [json!({"role": "assistant", "content": response["content"]}), json!({"role": "user", "content": "And?"})];
//! messages.as_array_mut().unwrap().extend(more);
//! assert_eq!(provider.check(&request(&messages)), Ok(()));
//!
//! // After another message, the signature no longer fits.
//! messages[0]["content"] = "Hello!".into();
//! let refusal = provider.check(&request(&messages)).unwrap_err();
//! assert_eq!((refusal.status(), refusal.reason()), (400, &Reason::OtherConversation { message: 1, block: 0 }));
//! assert!(refusal.to_string().contains("The block is bound to a different conversation."));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod content;
mod order;
mod provider;
mod refusal;
mod reply;
mod request;
#[cfg(test)]
mod tests;
mod thinking;

pub use self::{
    provider::{MessagesProvider, ThinkingCounts},
    refusal::{Reason, Refusal},
    reply::{MadeMessage, Say},
};
