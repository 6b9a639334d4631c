//! The API's wording.

use super::{Reason, fields::TYPES};

/// Returns the message of the API's error.
pub(super) fn of(reason: &Reason) -> String {
    match reason {
        Reason::Unreadable => "The request body is not valid JSON.".into(),
        Reason::MissingField { name } => format!("{name}: Field required"),
        Reason::NoMessages => "messages: at least one message is required".into(),
        Reason::Role { message } => {
            format!("messages.{message}.role: Input should be 'user', 'assistant' or 'system'")
        }
        Reason::FirstMessage => "messages: first message must use the \"user\" role".into(),
        Reason::Prefill => {
            "This model does not support assistant message prefill. The conversation must end with a user message."
                .into()
        }
        Reason::SystemMessage { message: 0 } => "messages.0: use the top-level 'system' parameter for the initial \
             system prompt; the directive-only form (content: [] with output_config) is accepted at any position"
            .into(),
        Reason::SystemMessage { message } => format!(
            "messages.{message}: a `system` message must follow a `user` message, and must be the last message or be \
             followed by an `assistant` message"
        ),
        Reason::EmptyMessage { message } => format!(
            "messages.{message}: all messages must have non-empty content except for the optional final assistant \
             message"
        ),
        Reason::EmptyText { .. } => "messages: text content blocks must be non-empty".into(),
        Reason::BlankText { .. } => "messages: text content blocks must contain non-whitespace text".into(),
        Reason::EmptyError { message, block } => {
            format!("messages.{message}.content.{block}.tool_result: content cannot be empty if `is_error` is true")
        }
        Reason::WrongRole { message, block } => {
            format!("messages.{message}.content.{block}: a block of this type cannot have this role")
        }
        Reason::BlockField { message, block, name } => {
            format!("messages.{message}.content.{block}.{name}: Field required")
        }
        Reason::ExtraField { .. }
        | Reason::UnknownBlock { .. }
        | Reason::BlockValue { .. }
        | Reason::LongToolName { .. } => of_fields(reason),
        Reason::EmptySystem => "system: text content blocks must be non-empty".into(),
        Reason::RepeatedCall { message, block } => {
            format!("messages.{message}.content.{block}: `tool_use` ids must be unique")
        }
        Reason::CacheMarks { found } => {
            format!("A maximum of 4 blocks with cache_control may be provided. Found {found}.")
        }
        Reason::CacheOrder { place } => format!(
            "{place}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control \
             block. Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        ),
        Reason::MarkedEmptyText { message, block } => {
            format!("messages.{message}.content.{block}.text: cache_control cannot be set for empty text blocks")
        }
        Reason::UnansweredCalls { .. }
        | Reason::UnexpectedResult { .. }
        | Reason::RepeatedResult { .. }
        | Reason::UnansweredServerCall { .. }
        | Reason::UnexpectedServerResult { .. } => of_pairing(reason),
        Reason::LastThinking { .. }
        | Reason::InvalidSignature { .. }
        | Reason::OtherConversation { .. }
        | Reason::ChangedThinking { .. }
        | Reason::MissingThinking { .. } => of_thinking(reason),
    }
}

fn of_fields(reason: &Reason) -> String {
    match reason {
        Reason::ExtraField { message, block, name } => {
            let place = block.map(|block| format!(".content.{block}")).unwrap_or_default();
            format!("messages.{message}{place}.{name}: Extra inputs are not permitted")
        }
        Reason::UnknownBlock { message, block, kind } => format!(
            "messages.{message}.content.{block}: Input tag '{kind}' found using 'type' does not match any of the \
             expected tags: '{}'",
            TYPES.join("', '")
        ),
        Reason::BlockValue { message, block, name } => {
            let expected = match *name {
                "tool_use.name" => "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
                "tool_use.input" => "Input should be a valid dictionary",
                "image.source.base64.media_type" => {
                    "Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
                }
                "document.source.base64.media_type" => "Input should be 'application/pdf'",
                _ => "String should match pattern '^[a-zA-Z0-9_-]+$'",
            };
            format!("messages.{message}.content.{block}.{name}: {expected}")
        }
        Reason::LongToolName { message, block } => {
            format!("messages.{message}.content.{block}.tool_use.name: String should have at most 200 characters")
        }
        _ => String::new(),
    }
}

fn of_pairing(reason: &Reason) -> String {
    match reason {
        Reason::UnansweredCalls { message, ids } => format!(
            "messages.{message}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
             `tool_use` block must have a corresponding `tool_result` block in the next message.",
            ids.join(", ")
        ),
        Reason::UnexpectedResult { message, block, id } => format!(
            "messages.{message}.content.{block}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
             `tool_result` block must have a corresponding `tool_use` block in the previous message."
        ),
        Reason::RepeatedResult { message, block, id } => format!(
            "messages.{message}.content.{block}: each tool_use must have a single result. Found multiple `tool_result` \
             blocks with id: {id}"
        ),
        Reason::UnansweredServerCall { message, id } => {
            format!("messages.{message}: server tool use with id `{id}` was found without a corresponding result block")
        }
        Reason::UnexpectedServerResult { message, block, id } => format!(
            "messages.{message}.content.{block}: unexpected `tool_use_id` found in the result of a server tool: {id}. \
             Each such block must have a corresponding `server_tool_use` block before it."
        ),
        _ => String::new(),
    }
}

fn of_thinking(reason: &Reason) -> String {
    let invalid = |message: &usize, block: &usize| {
        format!("messages.{message}.content.{block}: Invalid `signature` in `thinking` block")
    };
    match reason {
        Reason::LastThinking { message } => {
            format!("messages.{message}: The final block in an assistant message cannot be `thinking`.")
        }
        Reason::InvalidSignature { message, block } => invalid(message, block),
        Reason::OtherConversation { message, block } => format!(
            "{}. The block is bound to a different conversation. Remove the block, or set \
             `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\". That setting requires the \
             `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header.",
            invalid(message, block)
        ),
        Reason::ChangedThinking { message } => format!(
            "messages.{message}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be \
             modified. These blocks must remain as they were in the original response."
        ),
        Reason::MissingThinking { message } => format!(
            "messages.{message}.content.0.type: Expected `thinking` or `redacted_thinking`, but found another block. \
             When `thinking` is enabled, a final `assistant` message must start with a thinking block. We recommend you \
             include thinking blocks from previous turns. To avoid this requirement, disable `thinking`."
        ),
        _ => String::new(),
    }
}
