//! The parts of a request: its messages, which of them are new, and the other parts that count for a budget.

use std::{fmt, ops::Range};

use tower_chat_history_core::{ChatCompletions, Dialect as _, Digest, Message, Origin};

/// The parts of a request, other than its new messages, that count for the [budget](crate::context::budget) or that
/// spans report. Adapters set the fields. By default, all of them are unknown or empty.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RequestInfo {
    /// The name of the model.
    pub model: Option<String>,
    /// The provider that serves the model, as a value of OpenTelemetry's attribute `gen_ai.provider.name`, such as
    /// `openai`. It is used in spans only.
    pub provider: Option<&'static str>,
    /// The provider that is called, as far as the caller has told the adapter. It decides which
    /// [reasoning](tower_chat_history_core::Origin) is sent. An adapter's own guess does not belong here.
    pub origin: Origin,
    /// The host that the request goes to, if the adapter knows it. Together with the origin and the model, it decides
    /// what the reader of the prompt [accepts](crate::compat).
    pub host: Option<String>,
    /// The head: the leading system and developer messages, and the few-shot messages after them.
    pub head: Vec<Message>,
    /// The JSON of the request's tools.
    pub tools: Option<String>,
    /// The JSON of the request's response format.
    pub response_format: Option<String>,
    /// The request's own limit of the reply, in tokens.
    pub max_output: Option<u32>,
    /// True if the adapter cannot lower `max_output`. The budget then does not
    /// [shrink](crate::context::ContextBudget::shrink_reply_to) the reply.
    pub max_output_is_fixed: bool,
    /// True if the model thinks with a budget, and its provider refuses results of calls before which no thinking is,
    /// as Anthropic does (as of November 2026). A [`Trimmer`](crate::context::budget::Trimmer) then chooses no turns.
    pub thinks_with_budget: bool,
    /// True if the request lets the provider drop reasoning that is [bound](tower_chat_history_core::Bound) to another
    /// prompt, as `drop_block` of Anthropic does. A turn that exceeds the budget then loses its reasoning. By default,
    /// the call fails with [`DoesNotFit::turn_is_bound`](crate::context::budget::DoesNotFit::turn_is_bound).
    pub may_drop_reasoning: bool,
    /// The sampling temperature. It is used in spans only.
    pub temperature: Option<f64>,
    /// The nucleus sampling parameter. It is used in spans only.
    pub top_p: Option<f64>,
}

impl RequestInfo {
    /// Creates a value in which all parts are unknown or empty.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            model: None,
            provider: None,
            origin: Origin::UNKNOWN,
            host: None,
            head: Vec::new(),
            tools: None,
            response_format: None,
            max_output: None,
            max_output_is_fixed: false,
            thinks_with_budget: false,
            may_drop_reasoning: false,
            temperature: None,
            top_p: None,
        }
    }

    /// Returns the digest of the head, the tools and the response format: the parts of a request that providers put
    /// before its messages. Providers do not compare `cache_control`, so it does not count.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        for message in &self.head {
            digest = digest.then(message.digest());
        }
        for json in [&self.tools, &self.response_format] {
            digest = digest.then(ChatCompletions.digest(json.as_deref().unwrap_or_default()));
        }
        digest
    }
}

impl fmt::Debug for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestInfo")
            .field("model", &self.model)
            .field("provider", &self.provider)
            .field("origin", &self.origin)
            .field("host", &self.host)
            .field("head", &self.head.len())
            .field("tools", &self.tools.as_deref().map(str::len))
            .field("response_format", &self.response_format.as_deref().map(str::len))
            .field("max_output", &self.max_output)
            .finish_non_exhaustive()
    }
}

/// Decides which messages of a request are its input, that is, new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum InputMode {
    /// All messages after the head are input. If they contain a reply (an assistant message without tool calls), the
    /// caller probably resends messages of the log, and the call is refused with
    /// [`InputError::Resent`](crate::error::InputError::Resent).
    #[default]
    New,
    /// All messages after the last assistant message are input. This mode is for callers that keep their own list of
    /// messages and send all of it, such as code that was written without history. The messages between head and input
    /// (the transcript) are compared with the end of the log, and the window is sent in their place.
    ///
    /// The transcript must therefore equal the stored messages, apart from white space around texts, and the spelling
    /// of the arguments of calls. It may lack exchanges with a partial reply. If a reply was not saved, remove it from
    /// the list. Do not set `store_instead`, because the stored messages then differ from the list.
    /// `OnTranscriptMismatch` sets the policy for a transcript that differs.
    Transcript,
}

impl InputMode {
    /// Returns the index at which the input starts in the messages after the head. The messages before it are the
    /// transcript.
    ///
    /// ```
    /// use tower_chat_history::{Message, engine::InputMode};
    ///
    /// let messages = [Message::user("Hi"), Message::assistant("Hello!"), Message::user("And?")];
    /// assert_eq!(InputMode::New.input_start(&messages), 0);
    /// assert_eq!(InputMode::Transcript.input_start(&messages), 2);
    /// ```
    #[must_use]
    pub fn input_start(self, messages: &[Message]) -> usize {
        match self {
            Self::New => 0,
            Self::Transcript => messages.iter().rposition(Message::is_reply).map_or(0, |last| last + 1),
        }
    }
}

/// The messages of a request, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RequestMessages {
    /// The leading system and developer messages, and the few-shot messages after them. They are sent first and never
    /// stored.
    pub head: Vec<Message>,
    /// The part of the conversation that the caller resends. The window is sent in its place.
    pub transcript: Vec<Message>,
    /// The new messages.
    pub input: Vec<Message>,
}

impl RequestMessages {
    /// Splits a request's list of messages. The head is the leading system and developer messages, and
    /// `few_shot_messages` messages after them. `mode` decides where the input starts.
    ///
    /// ```
    /// use tower_chat_history::{Message, adapt::RequestMessages, engine::InputMode};
    ///
    /// let messages = vec![
    ///     Message::system("S"),
    ///     Message::user("Hi"),
    ///     Message::assistant("Hello!"),
    ///     Message::user("And?"),
    /// ];
    /// let split = RequestMessages::split(messages, 0, InputMode::Transcript);
    /// assert_eq!((split.head.len(), split.transcript.len(), split.input.len()), (1, 2, 1));
    /// assert_eq!(split.transcript_range(), 1..3);
    /// ```
    #[must_use]
    pub fn split(messages: Vec<Message>, few_shot_messages: usize, mode: InputMode) -> Self {
        let mut head = messages;
        let instructions = head.iter().take_while(|message| message.is_instruction()).count();
        let mut transcript = head.split_off(instructions.saturating_add(few_shot_messages).min(head.len()));
        let input = transcript.split_off(mode.input_start(&transcript));
        Self { head, transcript, input }
    }

    /// Creates messages that are all input.
    #[must_use]
    pub const fn new_input(input: Vec<Message>) -> Self {
        Self { head: Vec::new(), transcript: Vec::new(), input }
    }

    /// Returns the range of the transcript in the request's list. The window replaces it.
    #[must_use]
    pub fn transcript_range(&self) -> Range<usize> {
        self.head.len()..self.head.len() + self.transcript.len()
    }
}
