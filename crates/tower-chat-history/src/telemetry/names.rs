//! Every name that is exported, in one place.
//!
//! Names that OpenTelemetry has are its own, at one stated [revision](SEMANTIC_CONVENTIONS); everything else stands under
//! `chat_history.`.

/// The revision of OpenTelemetry's conventions for generative AI that the names are taken from. They are still in development
/// there: names may change with a minor version of this crate, and the changelog says so.
pub const SEMANTIC_CONVENTIONS: &str = "open-telemetry/semantic-conventions-genai, main of 2026-10-06 (#521)";

/// Declares names, and the list of them.
macro_rules! names {
    ($($(#[$doc:meta])* pub const $name:ident: &str = $text:literal;)+) => {
        $($(#[$doc])* pub const $name: &str = $text;)+

        /// All of them.
        pub const ALL: &[&str] = &[$($name),+];
    };
}

/// Names of spans.
pub mod spans {
    names! {
        /// One turn: from the call to the stored exchange.
        pub const CHAT_HISTORY: &str = "chat_history";
        /// Waiting for another call's save, turn or summary.
        pub const WAIT: &str = "wait";
        /// Reading the conversation.
        pub const LOAD: &str = "load";
        /// Counting, and deciding what is sent.
        pub const TRIM: &str = "trim";
        /// Making and storing a summary.
        pub const SUMMARIZE: &str = "summarize";
        /// The model's call. It is exported as `chat {model}` where the model is known.
        pub const CHAT: &str = "chat";
        /// Storing the exchange.
        pub const SAVE: &str = "save";
    }
}

/// Names of events.
pub mod events {
    names! {
        /// A call with its content, where that is captured as an event.
        pub const OPERATION_DETAILS: &str = "gen_ai.client.inference.operation.details";
    }
}

/// Names of attributes.
pub mod attributes {
    names! {
        /// What failed, by a constant name or a status code.
        pub const ERROR_TYPE: &str = "error.type";
        /// The database that a store stands on.
        pub const DB_SYSTEM_NAME: &str = "db.system.name";
        /// The operation: `chat`, `search_memory` or `create_memory`.
        pub const OPERATION_NAME: &str = "gen_ai.operation.name";
        /// The model's provider.
        pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
        /// The conversation, where that is asked for.
        pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
        /// Whether the model sees a compacted view of the conversation. Set to `true` or not at all.
        pub const CONVERSATION_COMPACTED: &str = "gen_ai.conversation.compacted";
        /// How many exchanges were loaded or stored.
        pub const MEMORY_RECORD_COUNT: &str = "gen_ai.memory.record.count";
        /// The model that the request names.
        pub const REQUEST_MODEL: &str = "gen_ai.request.model";
        /// Whether the reply is a stream. Set to `true` or not at all.
        pub const REQUEST_STREAM: &str = "gen_ai.request.stream";
        /// How many tokens the reply may have.
        pub const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
        /// How many replies are asked for, if not one.
        pub const REQUEST_CHOICE_COUNT: &str = "gen_ai.request.choice.count";
        /// The request's temperature.
        pub const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
        /// The request's nucleus sampling.
        pub const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
        /// The model that answered.
        pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
        /// Why the choice that is stored ended.
        pub const RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
        /// Seconds until a stream's first item.
        pub const RESPONSE_TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
        /// Tokens of the prompt, as the provider reported them.
        pub const USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
        /// Tokens of the reply, as the provider reported them.
        pub const USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
        /// Tokens of the prompt that came from the provider's cache.
        pub const USAGE_CACHE_READ_INPUT_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
        /// What was sent, where content is captured.
        pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
        /// What was answered, where content is captured.
        pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
        /// The tools, where content is captured.
        pub const TOOL_DEFINITIONS: &str = "gen_ai.tool.definitions";

        /// What became of the turn.
        pub const OUTCOME: &str = "chat_history.outcome";
        /// What there was to load: `absent`, `loaded` or `unavailable`.
        pub const HISTORY: &str = "chat_history.history";
        /// Whether the reply is a stream.
        pub const STREAMED: &str = "chat_history.streamed";
        /// The turn went on with less than it was set up for: why.
        pub const FALLBACK: &str = "chat_history.fallback";
        /// Where the context window came from that the prompt had to fit.
        pub const WINDOW: &str = "chat_history.window";
        /// Whose compactions apply.
        pub const PROFILE: &str = "chat_history.profile";
        /// The version of the log: the number of its exchanges.
        pub const VERSION: &str = "chat_history.version";
        /// Unanswered calls that a new question replaced.
        pub const SUPERSEDED_CALLS: &str = "chat_history.superseded_calls";
        /// Messages that the request's types could not carry whole.
        pub const DOWNGRADED: &str = "chat_history.messages.downgraded";
        /// Share of the prompt's tokens that the conversation's prompt before began with too.
        pub const CACHED_PREFIX_RATIO: &str = "chat_history.prompt.cached_prefix_ratio";
        /// By what share the count was wrong.
        pub const ESTIMATE_ERROR: &str = "chat_history.estimate.error";

        /// What a call waited for: `queue`, `save` or `summary`.
        pub const WAIT_FOR: &str = "chat_history.wait.for";

        /// The store, by the name that it gives itself: a database, `memory` or `routed`.
        pub const STORE: &str = "chat_history.store";
        /// Messages that were loaded.
        pub const MESSAGES_LOADED: &str = "chat_history.messages.loaded";
        /// Whether the load limit cut off exchanges.
        pub const LOAD_TRUNCATED: &str = "chat_history.load.truncated";

        /// What counted: the counter's name.
        pub const TOKENIZER: &str = "chat_history.tokenizer";
        /// What may be sent, in tokens.
        pub const TOKENS_BUDGET: &str = "chat_history.tokens.budget";
        /// The prompt before anything was left out, in tokens.
        pub const TOKENS_BEFORE: &str = "chat_history.tokens.before";
        /// The prompt, in tokens.
        pub const TOKENS_AFTER: &str = "chat_history.tokens.after";
        /// What was left out, in tokens.
        pub const TOKENS_EVICTED: &str = "chat_history.tokens.evicted";
        /// Of the prompt: the caller's own head.
        pub const TOKENS_HEAD: &str = "chat_history.tokens.head";
        /// Of the prompt: tools and response format.
        pub const TOKENS_TOOLS: &str = "chat_history.tokens.tools";
        /// Of the prompt: the summary.
        pub const TOKENS_SUMMARY: &str = "chat_history.tokens.summary";
        /// Of the prompt: the window.
        pub const TOKENS_WINDOW: &str = "chat_history.tokens.window";
        /// Of the prompt: the input.
        pub const TOKENS_INPUT: &str = "chat_history.tokens.input";
        /// Messages of window and input before anything was left out.
        pub const MESSAGES_BEFORE: &str = "chat_history.messages.before";
        /// Messages of window and input that are sent.
        pub const MESSAGES_AFTER: &str = "chat_history.messages.after";
        /// Messages that were left out.
        pub const MESSAGES_EVICTED: &str = "chat_history.messages.evicted";
        /// Whether the window had to be made smaller.
        pub const TRIM_NEEDED: &str = "chat_history.trim.needed";
        /// What there was too much of: `tokens`, `messages` or `turns`.
        pub const TRIM_REASON: &str = "chat_history.trim.reason";
        /// What was done about it.
        pub const TRIM_STRATEGY: &str = "chat_history.trim.strategy";
        /// Whether more was left out than the next calls will leave out.
        pub const TRIM_FOR_THIS_CALL: &str = "chat_history.trim.for_this_call";
        /// Whether a compaction was decided on, which the next calls begin with.
        pub const TRIM_COMPACTED: &str = "chat_history.trim.compacted";
        /// What the reply was limited to, in tokens.
        pub const REPLY_LIMIT: &str = "chat_history.reply.limit";
        /// How many of the provider's tokens a counted one is taken for.
        pub const CALIBRATION: &str = "chat_history.calibration";

        /// What became of a summary.
        pub const SUMMARY_OUTCOME: &str = "chat_history.summary.outcome";
        /// The first exchange that it was to cover.
        pub const SUMMARY_FROM: &str = "chat_history.summary.from";
        /// The first exchange that it does not cover.
        pub const SUMMARY_TO: &str = "chat_history.summary.to";
        /// Whether a call waited for it.
        pub const SUMMARY_WAITED_FOR: &str = "chat_history.summary.waited_for";
        /// Messages that were summarized.
        pub const SUMMARY_MESSAGES: &str = "chat_history.summary.messages";
        /// How often the summarizer was called.
        pub const SUMMARY_CALLS: &str = "chat_history.summary.calls";
        /// Tokens that the summarizer read.
        pub const SUMMARY_INPUT_TOKENS: &str = "chat_history.summary.input_tokens";
        /// Tokens that the summarizer wrote.
        pub const SUMMARY_OUTPUT_TOKENS: &str = "chat_history.summary.output_tokens";

        /// How the model's call ended: `complete`, `interrupted`, `cancelled` or `failed`.
        pub const CALL_OUTCOME: &str = "chat_history.call.outcome";

        /// Messages that were stored.
        pub const MESSAGES_SAVED: &str = "chat_history.messages.saved";
        /// How often it was tried.
        pub const SAVE_ATTEMPTS: &str = "chat_history.save.attempts";
        /// Another exchange came first, and what then became of this one: `rebased`, `rejected` or `duplicate`. Not set
        /// otherwise.
        pub const SAVE_CONFLICT: &str = "chat_history.save.conflict";
        /// What became of the compaction that came with the exchange: `stored` or `outdated`.
        pub const SAVE_COMPACTION: &str = "chat_history.save.compaction";
    }
}

/// Names of metrics.
#[cfg(feature = "otel")]
pub mod metrics {
    names! {
        /// Turns that ended. Counter, in turns.
        pub const TURNS: &str = "chat_history.turns";
        /// Prompts before anything was left out. Histogram, in tokens.
        pub const TOKENS_BEFORE: &str = "chat_history.tokens.before";
        /// Prompts as they were sent. Histogram, in tokens.
        pub const TOKENS_AFTER: &str = "chat_history.tokens.after";
        /// What was left out. Counter, in tokens.
        pub const TOKENS_EVICTED: &str = "chat_history.tokens.evicted";
        /// What was left out. Counter, in messages.
        pub const MESSAGES_EVICTED: &str = "chat_history.messages.evicted";
        /// Compactions that were decided on. Counter.
        pub const COMPACTIONS: &str = "chat_history.compactions";
        /// Summaries that were tried. Counter.
        pub const SUMMARIES: &str = "chat_history.summaries";
        /// Calls of the summarizer. Counter.
        pub const SUMMARY_CALLS: &str = "chat_history.summary.calls";
        /// How long loads took. Histogram, in seconds.
        pub const LOAD_DURATION: &str = "chat_history.load.duration";
        /// How long saves took, with all their attempts. Histogram, in seconds.
        pub const SAVE_DURATION: &str = "chat_history.save.duration";
        /// Saves that another exchange was ahead of. Counter.
        pub const SAVE_CONFLICTS: &str = "chat_history.save.conflicts";
        /// Replies that are complete and not stored yet, in this process. Up-down counter.
        pub const SAVES_PENDING: &str = "chat_history.saves.pending";
        /// By what share the counts were wrong. Histogram.
        pub const ESTIMATE_ERROR: &str = "chat_history.estimate.error";
        /// Shares of prompts that the prompt before began with too. Histogram.
        pub const CACHED_PREFIX_RATIO: &str = "chat_history.prompt.cached_prefix_ratio";
    }
}
