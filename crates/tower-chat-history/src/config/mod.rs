//! Options as data, for a configuration file.
//!
//! With the feature `config`, options are data of serde. A program puts the groups that it needs into a struct of its
//! own, reads it from a file, and builds the options:
//!
//! ```
//! use serde::Deserialize;
//! use tower_chat_history::{
//!     BoxError, ChatHistoryLayer, MemoryStore,
//!     adapt::Json,
//!     config::{HistoryConfig, MemoryConfig, Parts, read},
//! };
//!
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Settings {
//!     history: HistoryConfig,
//!     memory: MemoryConfig,
//! }
//!
//! # fn main() -> Result<(), BoxError> {
//! let text = r#"
//!     [history]
//!     store_timeout_ms = 2_000
//!     context.budget = { window.tokens = 16_000, reply_reserve_tokens = 2_000 }
//!     limits.all.calls_per_minute = 10
//!     retain_last_turns = 500
//!
//!     [memory]
//!     limit_bytes = 100_000_000
//! "#;
//! let settings: Settings = read(toml::from_str::<toml::Table>(text)?)?;
//! let store: MemoryStore = settings.memory.build();
//! let built = settings.history.build(Parts::new()).map_err(|error| error.within("history"))?;
//! let adapter = Json::new().input_mode(built.input_mode);
//! let layer = ChatHistoryLayer::from_engine(built.engine(store), adapter);
//! # let _ = layer;
//! # Ok(())
//! # }
//! ```
//!
//! A setting that is missing has the default of the [option](crate::HistoryOptions). Unknown names and values out of
//! range are errors when settings are read. Settings that contradict each other or have no effect are errors when the
//! options are built. Each error has the path of the setting, and no value of it. The options of the stores in other
//! crates are data too, behind their features `config`.
//!
//! # Settings
//!
//! A setting has the name of its option. The name ends in the unit, if there is one. These settings are groups, or have
//! names or values of their own:
//!
//! | setting | option and values |
//! |---|---|
//! | `context` | [`ContextOptions`](crate::ContextOptions) |
//! | `context.budget` | [`ContextBudget`](crate::ContextBudget): also `calibrate`, and in tokens `reply_reserve_tokens`, `shrink_reply_to_tokens` |
//! | `context.budget.window` | `"by_model"`, `"unlimited"`, `{ tokens = 16_000 }` or `{ of_model = "gpt-4o" }` |
//! | `context.budget.models.NAME`, `context.budget.unknown` | [`ModelLimits`](crate::budget::ModelLimits): `context_tokens`, `prompt_tokens`, `reply_tokens` |
//! | `context.watermarks` | [`Watermarks`](crate::budget::Watermarks): `high` and `low`, each `{ percent = 75 }`, `{ messages = 40 }` or `{ turns = 20 }` |
//! | `context.load_limit` | [`LoadLimit`](crate::store::LoadLimit): `messages`, `bytes` |
//! | `context.clear_results` | [`ClearResults`](crate::budget::ClearResults): `keep`, `clear_at_least_tokens`, `exclude_tools`, `placeholder`. Without this group, no results are cleared. |
//! | `policies` | [`Policies`](crate::Policies), each with the name of its variant, such as `"keep_text"` |
//! | `policies.on_conflict` | `"rebase"`, `"reject"`, or `{ serialize = { max_waiting = 16, timeout_ms = 60_000 } }` |
//! | `policies.detach_limits` | [`DetachLimits`](crate::policy::DetachLimits): `max_streams`, `max_per_conversation`, `timeout_ms` (or `"none"`) |
//! | `summaries` | [`Summaries`](crate::Summaries): `max_tokens`, `least_room_tokens`, `chunk_tokens`, `timeout_ms`. Without this group, there are no summaries. With it, a [summarizer](Parts::summarizer) is needed. |
//! | `summaries.when` | `{ after_reply_at_percent = 95 }`, `"before_call"` or `"before_every_call"` |
//! | `limits.all`, `limits.under.PREFIX` | [`Limits`](crate::limits::Limits). Those of the longest prefix apply, and no others. |
//! | `limits.all.calls_per_minute_under` | a list of `{ parts = 1, calls = 600 }` |
//! | `limits.conversations` | [`ConversationQuota`](crate::limits::ConversationQuota): a list of `{ prefix = "acme", parts = 2, max = 100 }`, by default for all prefixes. It needs a [store](Parts::store). |
//! | `telemetry` | [`Telemetry`](crate::Telemetry): `spans`, `chat_span` |
//! | `telemetry.conversation_ids` | `"off"`, `"raw"` or `{ hashed_with_key = "a secret" }` |
//! | `telemetry.content` | [`CaptureContent`](crate::telemetry::CaptureContent) by its name in OpenTelemetry's conventions, such as `"NO_CONTENT"` |
//! | `store_timeout_ms`, `stream_idle_timeout_ms` | a number, or `"none"` |
//! | `retain_last_turns` | [`Retention::LastTurns`](crate::Retention::LastTurns). By default, all turns stay stored. Each `max_exchanges` must be more than 5/4 of it, because a conversation at its limit is not pruned. Turns with calls of tools have several exchanges, so set it to a multiple of that. |
//! | `input_mode` | the mode of the adapter: `"new"` or `"transcript"` ([`InputMode`](crate::engine::InputMode)) |
//!
//! Options that are not data are set in code. A trimmer, a counter and the form of summaries are set on
//! [`HistoryConfig::context`], a meter on [`HistoryConfig::telemetry`], and the others on [`Built::options`]: a hook,
//! recall, dialects and the provider.

mod context;
mod history;
mod limits;
mod stores;

#[doc(inline)]
pub use tower_chat_history_core::config::{ConfigError, Secret, field, read};

pub use self::{
    history::{Built, HistoryConfig, Parts},
    stores::{CacheConfig, MemoryConfig},
};
