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
//! | continue a conversation with another API | [`Policies::on_other_dialect`](crate::Policies::on_other_dialect), see below |
//!
//! # Translations
//!
//! By default, a conversation has one dialect, and a call in another one fails with
//! [`OtherDialect`](crate::HistoryError::OtherDialect). With
//! [`OnOtherDialect::Translate`](crate::policy::OnOtherDialect::Translate), the exchanges of other dialects are
//! translated into that of the call, for this call's prompt. The log is not changed: if a later call is in the first
//! dialect again, its exchanges are sent as they are, and those of the other dialect are translated.
//!
//! ```
//! use tower_chat_history::{
//!     ConversationId, Engine, HistoryOptions, MemoryStore, Message, Policies, Reply, TurnInput,
//!     dialect::AnthropicMessages, policy::OnOtherDialect,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policies = Policies::new().on_other_dialect(OnOtherDialect::Translate);
//! let engine = Engine::with_options(MemoryStore::new(), HistoryOptions::new().policies(policies));
//! let id = ConversationId::new(["acme", "42"])?;
//!
//! let turn = engine.begin(TurnInput::new(id.clone(), [Message::user("Hi!")])).await?;
//! turn.commit(Reply::new(Message::assistant("Hello!"))).await?;
//!
//! let question = Message::in_dialect(&AnthropicMessages, r#"{"role":"user","content":"And now?"}"#)?;
//! let turn = engine.begin(TurnInput::new(id, [question])).await?;
//! let reply = r#"{"role":"assistant","content":[{"type":"text","text":"Hello!"}]}"#;
//! assert_eq!(turn.context()[1].json(), reply);
//! # Ok(())
//! # }
//! ```
//!
//! A translation depends only on the exchange, its position, the calls that its results answer, the dialect and the
//! provider of the call. All replicas therefore send the same bytes, and prompts in one dialect begin with each other.
//! They are made anew for each call. Large windows are translated on a thread for blocking work.
//!
//! | in the log | in the other dialect |
//! |---|---|
//! | texts of the user and of the model, refusals | texts |
//! | instructions within the log | system messages; in the format of Anthropic, messages of the user |
//! | images, PDF documents and other files, by URL or as data | the same, where the format has a form for them; otherwise a short note in their place, which is counted |
//! | media that a provider keeps under an id, audio, video | a short note, which is counted |
//! | a document that is a text, a search result that the user sent | texts |
//! | calls of any kind | calls of a function. Arguments that are no JSON object, and inputs of custom tools, become `{"input":"…"}`. Other characters than letters, digits, `_` and `-` in a name become `_` |
//! | ids of calls | the same, if the format accepts them; otherwise an id that is made from them, the same for a call and its result |
//! | results, also several in one message | results |
//! | images and files in results | the same; in chat completions, a message of the user after the results |
//! | `is_error` of a result | the same in the format of Anthropic; otherwise nothing |
//! | several calls in one reply, several elements of one reply | one message in chat completions and in the format of Anthropic, and one item each in the Responses API |
//! | reasoning, readable or sealed | left out and counted |
//! | calls that the provider executed, and their results | left out and counted |
//! | compactions by the provider, also readable ones | left out and counted. What was before them is sent |
//! | names of participants, cache marks, citations, phases | left out. Names are counted |
//! | elements of unknown kinds, calls and results without an id | left out and counted |
//! | [recalled messages](crate::recall), summaries | messages in the dialect of the call |
//! | partial replies | as they are, with the same rules |
//!
//! Cuts name exchanges, not messages, so they hold in all dialects. DeepSeek and Moonshot refuse calls without
//! `reasoning_content` (as of November 2026): if the [origin](crate::HistoryOptions::origin) names one of them as the
//! provider, an empty one is added to translated calls. Anthropic refuses two calls with one id, and other providers
//! use ids again, so there the position of the call is added to its id (`x-4-0-0`). If several calls of a reply have
//! one id, each result gets the id of its own call, also if the results are stored one by one.
//!
//! Anthropic's models that think with a budget refuse results as the end of a turn if no thinking is before the calls
//! (as of November 2026). Calls of another dialect have none, and neither have calls whose thinking was left out after
//! a cut. If the model did not reply to such results before the next question, the constant reply before the question
//! ends their turn.
//!
//! A turn has one dialect. Results for calls of another dialect fail with
//! [`DialectPlace::OpenTurn`](crate::error::DialectPlace::OpenTurn), because providers refuse a tool loop without the
//! reasoning of its calls. A new question abandons these calls.
//!
//! A list that a caller resends ([`InputMode::Transcript`](crate::engine::InputMode::Transcript)) is in the caller's new
//! dialect. The caller has chosen the ids of the calls in it, and which texts are one message. An exchange of another
//! dialect is therefore compared by what is said: texts without white space, calls by name and arguments, and results
//! by text, all in order. Media and reasoning are not compared.

#[doc(inline)]
pub use tower_chat_history_core::{
    AnthropicMessages, Bound, CallId, ChatCompletions, Closes, Dialect, DialectName, DialectNameError, Digest,
    Expressed, Index, LeftOut, Media, MessageError, OpenAiResponses, Part, PartKinds, Source, Space, StatedCall,
    StatedContent, StatedId, Statement, ToolCall,
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
