//! Options as data, for a configuration file.
//!
//! A program puts the groups that it needs into a struct of its own, reads it from a file, and builds the options:
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
//!     context.budget = { window_tokens = 16_000, reply_reserve_tokens = 2_000 }
//!     limits.all.calls_per_minute = 10
//!     retain_last_turns = 500
//!
//!     [memory]
//!     limit_bytes = 100_000_000
//! "#;
//! let settings: Settings = read(toml::from_str::<toml::Table>(text)?)?;
//! let store: MemoryStore = settings.memory.build().map_err(|error| error.within("memory"))?;
//! let built = settings.history.build(Parts::new()).map_err(|error| error.within("history"))?;
//! let adapter = Json::new().input_mode(built.input_mode);
//! let layer = ChatHistoryLayer::from_engine(built.engine(store), adapter);
//! # let _ = layer;
//! # Ok(())
//! # }
//! ```
//!
//! A setting that is missing has the default of the [option](crate::HistoryOptions). Names end in their unit. Unknown
//! names, values that cannot be used, and settings without an effect are errors with the path of the setting. The
//! stores in other crates have their own structs, behind their features `config`.
//!
//! Options that are code have no settings: adapters, hooks, counters, trimmers, recall, and the form of summaries.

mod budget;
mod context;
mod history;
mod limits;
mod number;
mod policies;
mod stores;
mod summaries;
mod telemetry;

#[doc(inline)]
pub use tower_chat_history_core::config::{ConfigError, Secret, read};

pub use self::{
    budget::{BudgetConfig, ModelConfig},
    context::{ClearResultsConfig, ContextConfig, LoadLimitConfig, WatermarkConfig, WatermarksConfig},
    history::{Built, HistoryConfig, InputModeConfig, Parts},
    limits::{LimitRulesConfig, LimitsConfig, QuotaConfig, RateConfig},
    number::OrNone,
    policies::{
        DetachConfig, OnConflictConfig, OnInterruptionConfig, OnLoadFailureConfig, OnOpenTurnConfig,
        OnOtherDialectConfig, OnSaveFailureConfig, OnTranscriptMismatchConfig, PoliciesConfig, QueueConfig,
    },
    stores::{CacheConfig, MemoryConfig},
    summaries::{SummariesConfig, WhenConfig},
    telemetry::{ConversationIdsConfig, TelemetryConfig},
};
