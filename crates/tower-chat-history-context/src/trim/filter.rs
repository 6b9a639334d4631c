//! Filtering messages by speaker, name, id and tool calls.

use serde::Deserialize;
use serde_json::value::RawValue;
use tower_chat_history_core::{Content, Message};

use super::speaker::{Speaker, Speakers};

/// The rules by which [`filter_messages`] keeps messages. They are the rules of LangChain's function of that name.
///
/// First, all excluded messages are left out. If at least one of the `include` options is set, a remaining message
/// stays only if it meets one of them. Otherwise all remaining messages stay. An option that is set to an empty list
/// has no effect. A message's id is the value of its field `id`, which some programs add to their messages.
///
/// ```
/// use tower_chat_history_context::{
///     Message,
///     trim::{MessageFilter, Speaker, filter_messages},
/// };
///
/// let messages =
///     [Message::system("Be brief."), Message::user("Hi"), Message::assistant("Hello!")];
/// let kept = filter_messages(&messages, &MessageFilter::new().exclude([Speaker::System]));
/// assert_eq!(kept, messages[1..]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct MessageFilter {
    include: Matching,
    exclude: Matching,
    exclude_calls: Calls,
}

/// A set of conditions. A message matches if it meets one of them.
#[derive(Clone, Debug, Default)]
struct Matching {
    speakers: Speakers,
    names: Vec<String>,
    ids: Vec<String>,
}

#[derive(Clone, Debug, Default)]
enum Calls {
    #[default]
    None,
    All,
    Of(Vec<String>),
}

impl MessageFilter {
    /// Creates a filter that keeps all messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps messages by these speakers.
    #[must_use]
    pub fn include(mut self, speakers: impl IntoIterator<Item = Speaker>) -> Self {
        self.include.speakers = Speakers::new(speakers);
        self
    }

    /// Keeps messages with one of these names.
    #[must_use]
    pub fn include_names<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.include.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Keeps messages with one of these ids.
    #[must_use]
    pub fn include_ids<T: Into<String>>(mut self, ids: impl IntoIterator<Item = T>) -> Self {
        self.include.ids = ids.into_iter().map(Into::into).collect();
        self
    }

    /// Leaves out messages by these speakers. If these messages have tool calls, the results of the calls stay.
    #[must_use]
    pub fn exclude(mut self, speakers: impl IntoIterator<Item = Speaker>) -> Self {
        self.exclude.speakers = Speakers::new(speakers);
        self
    }

    /// Leaves out messages with one of these names.
    #[must_use]
    pub fn exclude_names<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.exclude.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Leaves out messages with one of these ids.
    #[must_use]
    pub fn exclude_ids<T: Into<String>>(mut self, ids: impl IntoIterator<Item = T>) -> Self {
        self.exclude.ids = ids.into_iter().map(Into::into).collect();
        self
    }

    /// Leaves out all messages with tool calls, and all tool results.
    #[must_use]
    pub fn exclude_tool_calls(mut self) -> Self {
        self.exclude_calls = Calls::All;
        self
    }

    /// Leaves out the tool calls with these ids, and their results. If a message loses all its calls, the whole message
    /// is left out, even if it has text.
    #[must_use]
    pub fn exclude_tool_call_ids<T: Into<String>>(mut self, ids: impl IntoIterator<Item = T>) -> Self {
        self.exclude_calls = Calls::Of(ids.into_iter().map(Into::into).collect());
        self
    }
}

/// Returns the messages that pass the filter.
#[must_use]
pub fn filter_messages(messages: &[Message], filter: &MessageFilter) -> Vec<Message> {
    let kept = messages.iter().filter(|message| !filter.exclude.matches(message));
    let kept = kept.filter_map(|message| filter.exclude_calls.without(message));
    kept.filter(|message| filter.include.is_empty() || filter.include.matches(message)).collect()
}

impl Matching {
    fn is_empty(&self) -> bool {
        self.speakers.is_empty() && self.names.is_empty() && self.ids.is_empty()
    }

    fn matches(&self, message: &Message) -> bool {
        self.speakers.contain(message.role())
            || message.name().is_some_and(|name| self.names.iter().any(|other| other == name))
            || (!self.ids.is_empty() && id(message).is_some_and(|id| self.ids.contains(&id)))
    }
}

impl Calls {
    /// Returns the message without the excluded calls, or `None` if the whole message is left out.
    fn without(&self, message: &Message) -> Option<Message> {
        let stays = match self {
            Self::All => message.tool_calls().is_empty() && !message.is_tool_result(),
            Self::Of(ids) if message.is_tool_result() => !is_one_of(message.tool_call_id(), ids),
            Self::Of(ids) if message.tool_calls().iter().any(|call| is_one_of(Some(call.id()), ids)) => {
                return without_calls(message, ids);
            }
            Self::None | Self::Of(_) => true,
        };
        stays.then(|| message.clone())
    }
}

fn is_one_of(id: Option<&str>, ids: &[String]) -> bool {
    id.is_some_and(|id| ids.iter().any(|other| other == id))
}

/// Returns the message without the calls that have these ids, or `None` if no call remains.
fn without_calls(message: &Message, ids: &[String]) -> Option<Message> {
    let fields = message.fields().ok()?;
    let calls: Vec<&RawValue> = serde_json::from_str(fields.get("tool_calls")?.get()).ok()?;
    let calls = calls.into_iter().zip(message.tool_calls());
    let stay: Vec<&RawValue> =
        calls.filter(|(_, call)| !is_one_of(Some(call.id()), ids)).map(|(json, _)| json).collect();
    if stay.is_empty() {
        return None;
    }
    let message = message.with_field("tool_calls", &serde_json::to_string(&stay).ok()?).ok()?;
    // Messages from Anthropic repeat their calls in the content.
    let Content::Parts(parts) = message.content() else { return Some(message) };
    let is_call = |part: &str| {
        let part = serde_json::from_str::<ToolUse>(part);
        part.is_ok_and(|part| part.r#type == "tool_use" && is_one_of(part.id.as_deref(), ids))
    };
    let stay: Vec<&str> = parts.iter().copied().filter(|part| !is_call(part)).collect();
    if stay.len() == parts.len() { Some(message) } else { message.with_parts(&stay).ok() }
}

#[derive(Deserialize)]
struct ToolUse {
    r#type: String,
    id: Option<String>,
}

fn id(message: &Message) -> Option<String> {
    serde_json::from_str(message.fields().ok()?.get("id")?.get()).ok()
}
