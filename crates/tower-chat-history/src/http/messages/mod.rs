//! The wire of Anthropic's Messages API.

mod body;
mod fold;
#[cfg(test)]
mod fold_tests;
mod marks;
mod reply;

use bytes::Bytes;
use http::Uri;
use serde_json::json;

use self::fold::MessagesFold;
use crate::{
    adapt::FoldReply,
    call::Reply,
    dialect::{AnthropicMessages, Dialect},
    engine::InputMode,
    http::{
        error::{CallError, Refusal},
        sse::Event,
        wire::{OpenedBody, Wire},
    },
};

/// The wire of Anthropic's Messages API, for Anthropic, Azure, and all providers with an endpoint of the same format.
///
/// The rules are those of the provider's documentation and SDKs, as of November 2026.
///
/// # Requests
///
/// `system`, `tools` and the format of the output are the caller's head. They are never stored, and stay as they are
/// written. The messages are the list `messages`. A list that ends with a reply continues this reply if it is the
/// newest one of the log, and the provider paused it. It is refused with
/// [`InputError::Empty`](crate::error::InputError::Empty) if the newest reply was not paused, and with
/// [`InputError::Prefill`](crate::error::InputError::Prefill) if the caller wrote the reply, because the
/// response has only the rest of the message.
///
/// The limit of the reply is `max_tokens`. It is not lowered if the request has a `budget_tokens` for its thinking,
/// because the API takes no limit below this budget. Vertex AI and Bedrock have the model in the address, so it is then
/// unknown.
///
/// If a tool loop whose thinking is bound to its prompt exceeds the budget, the call fails. With `drop_block` as the
/// request's `thinking.block_binding.prefix_mismatch_behavior`, earlier rounds and the thinking are left out instead.
///
/// A request may have four marks for the cache (`cache_control`). Messages are stored with the marks that they were
/// sent with. Of those in the window, the newest ones are sent for which the caller's own marks leave room, and which
/// do not live longer than a mark before them. With [`mark_history`](Self::mark_history), the wire places a mark itself.
///
/// # Replies
///
/// A reply is one message: the role `assistant`, and the `content` of the response, byte for byte. The tokens of the
/// prompt are the sum of `input_tokens`, `cache_read_input_tokens` and `cache_creation_input_tokens`. Every
/// `stop_reason` is stored as it is stated.
///
/// A reply that the provider has paused (`pause_turn`) is stored. A call with an empty list of messages continues it.
/// So does a list that ends with the paused reply. The rest of the reply is an exchange of its own. If a new question
/// follows instead, calls of server tools without a result are left out.
///
/// # Streams
///
/// The content has the blocks in the order in which they began. A block that has no deltas, such as the result of a
/// tool, is kept byte for byte. The other ones have no white space between their members, and their members are in the
/// order of `content_block_start`. A member that comes only in deltas is added at the end, as `citations` is. This is
/// the order of a whole response, as far as the provider's events begin with all members.
///
/// - The members of a delta are joined to those of the block with the same name, also those of unknown deltas. A text
///   is appended to the earlier text, so signatures may come in pieces. The entries of a list are appended. Of other
///   values, the last one counts.
/// - `partial_json` is the `input` of the block, as it is written. The input can break off at `max_tokens`, and with
///   `eager_input_streaming` the API does not check it. If the whole input is no JSON object, it is stored as
///   `{"INVALID_JSON":"..."}`, because the API takes only objects. The provider's documentation wraps such a text in
///   this way for the result of a call, and does not say how the call itself is sent again, as of November 2026.
/// - `citation` is added to the list `citations` of the block.
/// - Unknown events, and `ping`, change nothing.
///
/// The last event is `message_stop`. A stream that ends without it is complete if there is a `stop_reason`. Without a
/// `stop_reason`, it is complete if there is a `message_stop`, and all blocks are finished. An event `error`, or one
/// that cannot be read, interrupts the reply. Of an interrupted reply, these blocks can be kept:
/// finished ones up to the first call, and texts. Thinking and calls that are not finished are never kept.
///
/// # Refusals
///
/// A reply with the `stop_reason` `refusal` is stored like any other reply. As of November 2026, the provider refuses
/// further requests of a conversation until that turn is removed or changed. To continue, [truncate] the conversation
/// before the exchange.
///
/// [truncate]: crate::Conversation::truncate
///
/// # Signatures
///
/// Thinking is sent only where its signature is valid, so the provider refuses none. If it does so all the same, for
/// example after a change of the account, the call is
/// [repaired](crate::refusal::Remedy::WithoutEncrypted): it is repeated once, without the thinking of all
/// stored replies, and a reply is stored with a [cut](crate::store::Positions::encrypted_from). As of November
/// 2026, the messages of these errors (status 400) begin with the place of a block, and continue with ``Invalid
/// `signature` in `thinking` block`` or ``Invalid `data` in `redacted_thinking` block``. An event `error` within a
/// stream is not repaired.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessagesWire {
    marks_history: bool,
}

impl MessagesWire {
    /// Creates the wire.
    #[must_use]
    pub const fn new() -> Self {
        Self { marks_history: false }
    }

    /// Places a mark for the cache (`"cache_control":{"type":"ephemeral"}`) in the last message before the input. The
    /// default is none.
    ///
    /// The history and everything before it is then written to the provider's cache with each call. The next call of
    /// the conversation reads it, because the prompts begin with the same messages until a trim. As of November 2026, a
    /// write costs 1.25 times the price of the tokens that it adds to the cache, a read costs a tenth of it, and an
    /// entry lives for five minutes after its last use. So the mark saves costs if calls follow each other within five
    /// minutes. If they never do, it adds a quarter to the price of the prompt. Prompts below the minimum of the model
    /// (512 to 4,096 tokens) are not cached. If one turn adds more than 20 blocks, the next call does not find the
    /// entry.
    ///
    /// The mark is in the last block of a known type that is not thinking. If the content of the message is a text, it
    /// is sent as a list of one block. No mark is placed
    ///
    /// - if there is no history yet,
    /// - if this message has a mark of its own that is sent,
    /// - if the request has four marks of the caller outside of the history, because the API takes no more,
    /// - if a mark after the history lives longer than five minutes, because the API refuses this order.
    ///
    /// The mark is only in the request. It is not stored, and the provider does not compare it with signatures.
    ///
    /// ```
    /// use http::{Method, Uri};
    /// use tower_chat_history::http::{HttpHistory, MessagesWire, Routes};
    ///
    /// static MESSAGES: MessagesWire = MessagesWire::new().mark_history();
    /// let claude = |method: &Method, uri: &Uri| *method == Method::POST && uri.path() == "/v1/messages";
    /// let adapter = HttpHistory::new().routes(Routes::new().route(claude, &MESSAGES));
    /// ```
    #[must_use]
    pub const fn mark_history(mut self) -> Self {
        self.marks_history = true;
        self
    }
}

impl Wire for MessagesWire {
    fn dialect(&self) -> &'static dyn Dialect {
        &AnthropicMessages
    }

    /// Returns `aws.bedrock`, `gcp.vertex_ai` or `azure.ai.inference` for the hosts of these clouds, and `anthropic`
    /// for all others.
    fn provider(&self, uri: &Uri) -> &'static str {
        let host = uri.host().unwrap_or_default();
        if host.ends_with(".amazonaws.com") || host.ends_with(".api.aws") {
            "aws.bedrock"
        } else if host.ends_with("aiplatform.googleapis.com") {
            "gcp.vertex_ai"
        } else if host.ends_with(".azure.com") {
            "azure.ai.inference"
        } else {
            "anthropic"
        }
    }

    fn open(&self, body: Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError> {
        body::open(body, mode, few_shot_messages, self.marks_history)
    }

    fn reply(&self, body: &[u8]) -> Reply {
        reply::reply_of(body)
    }

    /// Returns the fold. The API has no choices, so their number is not used.
    fn fold(&self, _: usize) -> Box<dyn FoldReply<Event>> {
        Box::new(MessagesFold::default())
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        let kind = match refusal.status.as_u16() {
            413 => "request_too_large",
            429 => "rate_limit_error",
            504 => "timeout_error",
            400..500 => "invalid_request_error",
            _ => "api_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": refusal.text}}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clouds_are_recognized_by_their_hosts() {
        for (url, expected) in [
            ("https://api.anthropic.com/v1/messages", "anthropic"),
            ("https://mine.services.ai.azure.com/anthropic/v1/messages", "azure.ai.inference"),
            ("https://us-east5-aiplatform.googleapis.com/v1/projects/p/m:rawPredict", "gcp.vertex_ai"),
            ("https://aiplatform.googleapis.com/v1/projects/p/m:streamRawPredict", "gcp.vertex_ai"),
            ("https://bedrock-runtime.us-east-1.amazonaws.com/model/m/invoke", "aws.bedrock"),
            ("https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages", "aws.bedrock"),
            ("/v1/messages", "anthropic"),
        ] {
            assert_eq!(MessagesWire::new().provider(&url.parse().unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn a_refusal_has_the_form_of_the_apis_errors() {
        for (status, kind) in [
            (400, "invalid_request_error"),
            (409, "invalid_request_error"),
            (413, "request_too_large"),
            (429, "rate_limit_error"),
            (500, "api_error"),
            (503, "api_error"),
            (504, "timeout_error"),
        ] {
            let status = http::StatusCode::from_u16(status).unwrap();
            let json = MessagesWire::new().refusal(&Refusal {
                status,
                code: "body",
                text: "a \"b\"".into(),
                retry_after: None,
            });
            assert_eq!(json, format!(r#"{{"error":{{"message":"a \"b\"","type":"{kind}"}},"type":"error"}}"#));
        }
    }
}
