//! The names of all exported spans, events, attributes and metrics.
//!
//! Names that OpenTelemetry's conventions define are those of one [revision](SEMANTIC_CONVENTIONS) of the
//! conventions. The names of all other attributes and metrics begin with `chat_history.`.

/// The revision of OpenTelemetry's conventions for generative AI from which the names are taken. These conventions
/// are still in development, so names may change with a minor version of this crate. The changelog lists such
/// changes.
pub const SEMANTIC_CONVENTIONS: &str = "open-telemetry/semantic-conventions-genai, main of 2026-10-06 (#521)";

/// Declares names, and a list of all names.
macro_rules! names {
    ($($(#[$doc:meta])* pub const $name:ident: &str = $text:literal;)+) => {
        $($(#[$doc])* pub const $name: &str = $text;)+

        /// All names of this module.
        pub const ALL: &[&str] = &[$($name),+];
    };
}

/// Names of spans.
pub mod spans {
    names! {
        /// One turn: from the call to the stored exchange.
        pub const CHAT_HISTORY: &str = "chat_history";
        /// Waiting for earlier work of the conversation: a call, a save or a summary.
        pub const WAIT: &str = "wait";
        /// Loading the window of the conversation.
        pub const LOAD: &str = "load";
        /// Counting the prompt, and planning which messages are sent.
        pub const TRIM: &str = "trim";
        /// Searching for messages to show again.
        pub const RECALL: &str = "recall";
        /// Preparing later searches, in the background.
        pub const PREPARE: &str = "prepare";
        /// Making and storing a summary.
        pub const SUMMARIZE: &str = "summarize";
        /// The model call. It is exported as `chat {model}` if the model is known.
        pub const CHAT: &str = "chat";
        /// Storing the exchange.
        pub const SAVE: &str = "save";
    }
}

/// Names of events.
pub mod events {
    names! {
        /// The messages and tool definitions of a model call, if content is captured as events.
        pub const OPERATION_DETAILS: &str = "gen_ai.client.inference.operation.details";
    }
}

/// Names of attributes.
pub mod attributes {
    names! {
        /// The kind of the error: a constant name or a status code.
        pub const ERROR_TYPE: &str = "error.type";
        /// The database system of the store.
        pub const DB_SYSTEM_NAME: &str = "db.system.name";
        /// The operation: `chat`, `search_memory` or `create_memory`.
        pub const OPERATION_NAME: &str = "gen_ai.operation.name";
        /// The model's provider.
        pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
        /// The conversation's id, hashed or raw, if the [options](crate::Telemetry) enable it.
        pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
        /// `true` if the prompt contains less than the whole conversation. Otherwise not set.
        pub const CONVERSATION_COMPACTED: &str = "gen_ai.conversation.compacted";
        /// The number of exchanges that the load returned, or that the save stored.
        pub const MEMORY_RECORD_COUNT: &str = "gen_ai.memory.record.count";
        /// The model that the request names.
        pub const REQUEST_MODEL: &str = "gen_ai.request.model";
        /// `true` if the reply is a stream. Otherwise not set.
        pub const REQUEST_STREAM: &str = "gen_ai.request.stream";
        /// The largest allowed number of tokens of the reply.
        pub const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
        /// The number of requested choices, if it is not one.
        pub const REQUEST_CHOICE_COUNT: &str = "gen_ai.request.choice.count";
        /// The request's temperature.
        pub const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
        /// The request's `top_p` (nucleus sampling).
        pub const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
        /// The model that answered.
        pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
        /// The finish reason of the choice that is stored.
        pub const RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
        /// The time until a stream's first item, in seconds.
        pub const RESPONSE_TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
        /// The number of tokens of the prompt, as the provider reported it.
        pub const USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
        /// The number of tokens of the reply, as the provider reported it.
        pub const USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
        /// The number of tokens of the prompt that were read from the provider's cache.
        pub const USAGE_CACHE_READ_INPUT_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
        /// The messages that were sent, if content is captured.
        pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
        /// The reply, if content is captured.
        pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
        /// The tools, if content is captured.
        pub const TOOL_DEFINITIONS: &str = "gen_ai.tool.definitions";

        /// The outcome of the turn.
        pub const OUTCOME: &str = "chat_history.outcome";
        /// The result of loading the history: `absent`, `loaded` or `unavailable`.
        pub const HISTORY: &str = "chat_history.history";
        /// `true` if the reply is a stream.
        pub const STREAMED: &str = "chat_history.streamed";
        /// The history, summary or trimmer that failed or did not fit, if the turn continued without it.
        pub const FALLBACK: &str = "chat_history.fallback";
        /// The source of the context window that limited the prompt.
        pub const WINDOW: &str = "chat_history.window";
        /// The name of the profile.
        pub const PROFILE: &str = "chat_history.profile";
        /// The version of the log: the position of its next exchange. For a log that was never pruned, this is the
        /// number of its exchanges.
        pub const VERSION: &str = "chat_history.version";
        /// The number of open tool calls that a new user message superseded.
        pub const SUPERSEDED_CALLS: &str = "chat_history.superseded_calls";
        /// The number of messages that the request's types could not represent without loss.
        pub const DOWNGRADED: &str = "chat_history.messages.downgraded";
        /// The number of messages whose reasoning was left out because it is not valid in this prompt.
        pub const REASONING_LEFT_OUT: &str = "chat_history.messages.reasoning_left_out";
        /// The number of exchanges that were sent in a translation, because they are stored in another dialect.
        pub const TRANSLATED: &str = "chat_history.exchanges.translated";
        /// `true` if the newest reasoning of the window that is bound to its prompt was made under another head.
        pub const HEAD_CHANGED: &str = "chat_history.head_changed";
        /// `true` if the prompt began with a compaction that the provider made.
        pub const BEGINS_WITH_COMPACTION: &str = "chat_history.prompt.begins_with_compaction";
        /// The cached prefix as a share of the prompt, from 0 to 1: the tokens at its beginning that also began the
        /// conversation's previous prompt.
        pub const CACHED_PREFIX_RATIO: &str = "chat_history.prompt.cached_prefix_ratio";
        /// The relative error of the prompt's token count: 0.1 means that the provider counted 10% more.
        pub const ESTIMATE_ERROR: &str = "chat_history.estimate.error";

        /// The reason for a wait: `queue`, `save` or `summary`.
        pub const WAIT_FOR: &str = "chat_history.wait.for";

        /// The name that the store returns: that of its database system, `memory` or `routed`.
        pub const STORE: &str = "chat_history.store";
        /// The number of messages that the load returned.
        pub const MESSAGES_LOADED: &str = "chat_history.messages.loaded";
        /// `true` if the load left out older exchanges because of the load limit.
        pub const LOAD_TRUNCATED: &str = "chat_history.load.truncated";

        /// The name of the token counter.
        pub const TOKENIZER: &str = "chat_history.tokenizer";
        /// The number of messages and schemas whose tokens had to be counted, because no count of them was known.
        pub const COUNT_TEXTS: &str = "chat_history.count.texts";
        /// The time of this count, in milliseconds.
        pub const COUNT_DURATION_MS: &str = "chat_history.count.duration_ms";
        /// The largest allowed size of the prompt, in tokens: the context window minus the reply reserve.
        pub const TOKENS_BUDGET: &str = "chat_history.tokens.budget";
        /// The size of the prompt before this turn left anything out, in tokens. For a summary: the size of the text
        /// that it replaces.
        pub const TOKENS_BEFORE: &str = "chat_history.tokens.before";
        /// The size of the prompt, in tokens. For a summary: its size.
        pub const TOKENS_AFTER: &str = "chat_history.tokens.after";
        /// The number of tokens that this turn left out.
        pub const TOKENS_EVICTED: &str = "chat_history.tokens.evicted";
        /// The size of the prompt's head, in tokens.
        pub const TOKENS_HEAD: &str = "chat_history.tokens.head";
        /// The size of the prompt's tools and response format, in tokens.
        pub const TOKENS_TOOLS: &str = "chat_history.tokens.tools";
        /// The size of the prompt's summary, in tokens.
        pub const TOKENS_SUMMARY: &str = "chat_history.tokens.summary";
        /// The size of the prompt's window, in tokens.
        pub const TOKENS_WINDOW: &str = "chat_history.tokens.window";
        /// The size of the prompt's input, in tokens.
        pub const TOKENS_INPUT: &str = "chat_history.tokens.input";
        /// The number of messages in summary, window and input before this turn left anything out.
        pub const MESSAGES_BEFORE: &str = "chat_history.messages.before";
        /// The number of messages in summary, window and input that are sent.
        pub const MESSAGES_AFTER: &str = "chat_history.messages.after";
        /// The number of messages that this turn left out.
        pub const MESSAGES_EVICTED: &str = "chat_history.messages.evicted";
        /// `true` if the prompt exceeded a limit, in tokens, messages or turns.
        pub const TRIM_NEEDED: &str = "chat_history.trim.needed";
        /// The limit that was exceeded: `tokens`, `messages` or `turns`.
        pub const TRIM_REASON: &str = "chat_history.trim.reason";
        /// The way in which the window was made smaller.
        pub const TRIM_STRATEGY: &str = "chat_history.trim.strategy";
        /// `true` if a part was left out of this prompt only: the compaction for later calls leaves out less.
        pub const TRIM_FOR_THIS_CALL: &str = "chat_history.trim.for_this_call";
        /// `true` if this turn planned a new compaction for later calls.
        pub const TRIM_COMPACTED: &str = "chat_history.trim.compacted";
        /// The value to which the request's reply limit was lowered, in tokens.
        pub const REPLY_LIMIT: &str = "chat_history.reply.limit";
        /// The calibration factor: provider tokens per counted token.
        pub const CALIBRATION: &str = "chat_history.calibration";

        /// The outcome of a search for messages to show again: `shown`, `nothing` or `failed`.
        pub const RECALL_OUTCOME: &str = "chat_history.recall.outcome";
        /// The number of exchanges of which messages were shown again.
        pub const RECALL_EXCHANGES: &str = "chat_history.recall.exchanges";
        /// The number of messages that were shown again.
        pub const RECALL_MESSAGES: &str = "chat_history.recall.messages";
        /// The largest allowed size of recalled messages, in tokens.
        pub const RECALL_ALLOWANCE: &str = "chat_history.recall.allowance";
        /// The number of conversations that were searched.
        pub const RECALL_CONVERSATIONS: &str = "chat_history.recall.conversations";
        /// The number of other conversations that could not be searched.
        pub const RECALL_FAILED_CONVERSATIONS: &str = "chat_history.recall.failed_conversations";
        /// `true` if there are so many other conversations that newer ones may have been left out.
        pub const RECALL_INCOMPLETE: &str = "chat_history.recall.incomplete";
        /// The score of the best message that was found.
        pub const RECALL_SCORE: &str = "chat_history.recall.score";
        /// The size of the recalled messages, in tokens.
        pub const TOKENS_RECALLED: &str = "chat_history.tokens.recalled";

        /// The outcome of a summary.
        pub const SUMMARY_OUTCOME: &str = "chat_history.summary.outcome";
        /// The position of the first exchange to summarize.
        pub const SUMMARY_FROM: &str = "chat_history.summary.from";
        /// The position after the last exchange that the summary covers.
        pub const SUMMARY_TO: &str = "chat_history.summary.to";
        /// `true` if a call waited for the summary.
        pub const SUMMARY_WAITED_FOR: &str = "chat_history.summary.waited_for";
        /// The number of messages that the summarizer received.
        pub const SUMMARY_MESSAGES: &str = "chat_history.summary.messages";
        /// The number of calls of the summarizer.
        pub const SUMMARY_CALLS: &str = "chat_history.summary.calls";
        /// The number of input tokens of the summarizer's successful calls.
        pub const SUMMARY_INPUT_TOKENS: &str = "chat_history.summary.input_tokens";
        /// The number of output tokens of the summarizer's successful calls.
        pub const SUMMARY_OUTPUT_TOKENS: &str = "chat_history.summary.output_tokens";

        /// The outcome of the model call: `complete`, `interrupted`, `cancelled` or `failed`.
        pub const CALL_OUTCOME: &str = "chat_history.call.outcome";

        /// The number of messages that were stored.
        pub const MESSAGES_SAVED: &str = "chat_history.messages.saved";
        /// The number of attempts to store the exchange.
        pub const SAVE_ATTEMPTS: &str = "chat_history.save.attempts";
        /// The outcome of a save with a conflict: the log changed between load and save. It is `rebased`, `rejected`
        /// or `duplicate`. Without a conflict, it is not set.
        pub const SAVE_CONFLICT: &str = "chat_history.save.conflict";
        /// The outcome of the compaction that was saved with the exchange: `stored` or `outdated`.
        pub const SAVE_COMPACTION: &str = "chat_history.save.compaction";
    }
}

/// Names of metrics.
#[cfg(feature = "otel")]
pub mod metrics {
    names! {
        /// Turns that ended, including those that never began (an error, or a caller that left). Counter, in turns.
        pub const TURNS: &str = "chat_history.turns";
        /// Sizes of prompts before their turn left anything out. Histogram, in tokens.
        pub const TOKENS_BEFORE: &str = "chat_history.tokens.before";
        /// Sizes of prompts as they were sent. Histogram, in tokens.
        pub const TOKENS_AFTER: &str = "chat_history.tokens.after";
        /// Tokens that were left out. Counter, in tokens.
        pub const TOKENS_EVICTED: &str = "chat_history.tokens.evicted";
        /// Messages that were left out. Counter, in messages.
        pub const MESSAGES_EVICTED: &str = "chat_history.messages.evicted";
        /// New compactions that turns planned. Counter, in compactions.
        pub const COMPACTIONS: &str = "chat_history.compactions";
        /// Durations of searches for messages to show again, by outcome. Histogram, in seconds.
        pub const RECALL_DURATION: &str = "chat_history.recall.duration";
        /// Numbers of conversations that were searched. Histogram.
        pub const RECALL_CONVERSATIONS: &str = "chat_history.recall.conversations";
        /// Sizes of recalled messages. Histogram, in tokens.
        pub const TOKENS_RECALLED: &str = "chat_history.tokens.recalled";
        /// Attempts to make a summary. Counter, in summaries.
        pub const SUMMARIES: &str = "chat_history.summaries";
        /// Calls of the summarizer. Counter, in calls.
        pub const SUMMARY_CALLS: &str = "chat_history.summary.calls";
        /// Durations of loads. Histogram, in seconds.
        pub const LOAD_DURATION: &str = "chat_history.load.duration";
        /// Durations of saves, with all their attempts. Histogram, in seconds.
        pub const SAVE_DURATION: &str = "chat_history.save.duration";
        /// Saves with a conflict: the log changed between load and save. Counter, in conflicts.
        pub const SAVE_CONFLICTS: &str = "chat_history.save.conflicts";
        /// Replies of this process that are complete and not stored yet. Up-down counter, in saves.
        pub const SAVES_PENDING: &str = "chat_history.saves.pending";
        /// Relative errors of token counts: 0.1 means that the provider counted 10% more. Histogram, without a unit.
        pub const ESTIMATE_ERROR: &str = "chat_history.estimate.error";
        /// Cached prefixes as shares of their prompts, from 0 to 1. Histogram, without a unit.
        pub const CACHED_PREFIX_RATIO: &str = "chat_history.prompt.cached_prefix_ratio";
    }
}
