//! Dialects: the message formats of providers' APIs.
//!
//! A conversation is stored in the format of the API with which it is held. Most programs need nothing of this module,
//! because they use [`ChatCompletions`].
//!
//! | to | use |
//! |---|---|
//! | hold conversations in the format of Anthropic's Messages API | [`AnthropicMessages`], with the [`Engine`](crate::Engine) or over HTTP |
//! | read the parts of messages in any format | [`Message::parts`](crate::Message::parts), [`Part`] |
//! | hold a conversation in the items of OpenAI's Responses API | [`OpenAiResponses`] |
//! | support another format | [the guide](writing_a_dialect), and the trait [`Dialect`] |

#[doc(inline)]
pub use tower_chat_history_core::{
    AnthropicMessages, Bound, CallId, ChatCompletions, Closes, Dialect, DialectName, DialectNameError, Digest,
    Expressed, Index, LeftOut, Media, MessageError, OpenAiResponses, Part, Source, Space, StatedCall, StatedContent,
    StatedId, Statement, ToolCall,
};

#[doc = include_str!("../docs/writing-a-dialect.md")]
#[doc = "```"]
#[doc = include_str!("../docs/writing_a_dialect.rs")]
#[doc = "```"]
#[doc = include_str!("../docs/writing-a-dialect-steps.md")]
#[doc = "```rust,ignore"]
#[doc = include_str!("../docs/writing_a_dialect_test.rs")]
#[doc = "```"]
pub mod writing_a_dialect {}
