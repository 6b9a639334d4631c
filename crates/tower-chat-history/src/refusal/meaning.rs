//! The meanings of wordings, and what helps.

use tower_chat_history_core::{CallIdForm, Compat, ReasoningField, SystemMessages};

use super::{Remedy, TooLong, pattern::Match};

/// The sizes of prompts that are believed, in tokens.
const TOKENS: std::ops::RangeInclusive<u64> = 256..=100_000_000;
/// The number of images from which on Anthropic's stricter limit applies.
const MANY_IMAGES: u32 = 21;
/// The fields of a reply with its reasoning.
const REASONING: [&str; 5] = ["reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks"];

/// The meaning of a group's wordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The prompt is too long, in tokens.
    TooLong,
    /// The request is too large, in bytes, or has too many media.
    FewerBytes,
    /// Encrypted elements cannot be read, or belong to another caller or model.
    Unreadable,
    /// A message has a field that is not accepted: the last one of the path, or the name.
    Field,
    /// The value at the path is too long.
    LongValue,
    /// The value at the path must be a text.
    Text,
    NoSystem,
    SystemFirst,
    /// Also the wording for a second system message, because such templates only look at the position.
    AlternatesAfterSystem,
    Alternates,
    /// A role may not follow another one.
    Order,
    BeginsWithUser,
    NoDeveloper,
    SystemFirstNoDeveloper,
    ReasoningRequired,
    NoReasoning,
    PlainIds,
    AlphanumericIds,
    CallsNeedTools,
    SingleCalls,
    NoImages,
    /// No media but images.
    NoOtherMedia,
    /// At most this many images.
    Images,
    /// At most this many pixels a side.
    Pixels,
    /// At most this many pixels a side, if there are many images.
    ManyPixels,
}

impl Meaning {
    /// Returns what helps against a refusal of this meaning, if the parts of its message do not say something else.
    pub(super) fn remedy(self, found: &Match<'_>) -> Option<Remedy> {
        let mut compat = Compat::default();
        match self {
            Self::TooLong => {
                let sizes = TooLong { limit: tokens(found.limit), prompt: tokens(found.prompt) };
                return Some(Remedy::Shorten(sizes));
            }
            Self::FewerBytes => return Some(Remedy::FewerBytes),
            Self::Unreadable => return Some(Remedy::WithoutEncrypted),
            Self::LongValue if is_item_id(found.path?) => return Some(Remedy::WithoutEncrypted),
            Self::LongValue => {
                if !is_call_id(field(found.path?)) {
                    return None;
                }
                let short = found.limit.is_some_and(|limit| limit < 64);
                compat.call_ids = if short { CallIdForm::Plain40 } else { CallIdForm::AtMost64 };
            }
            Self::Field => {
                let name = found.name.or_else(|| found.path.map(field))?;
                compat.plain_fields = true;
                if REASONING.contains(&name) {
                    compat.reasoning = ReasoningField::Refused;
                }
            }
            Self::Text => {
                if found.path.is_some_and(|path| !is_message(path) && field(path) != "content") {
                    return None;
                }
                compat.text_content = true;
            }
            Self::NoSystem => compat.system = SystemMessages::Never,
            Self::SystemFirst => compat.system = SystemMessages::First,
            // Mistral's templates say so, and want alternating roles as well.
            Self::SystemFirstNoDeveloper => {
                compat.system = SystemMessages::First;
                compat.alternates = true;
                compat.no_developer = true;
            }
            Self::AlternatesAfterSystem => {
                compat.system = SystemMessages::First;
                compat.alternates = true;
            }
            Self::Order if found.name == Some("system") => compat.system = SystemMessages::First,
            Self::Alternates | Self::Order => compat.alternates = true,
            Self::BeginsWithUser => compat.begins_with_user = true,
            Self::NoDeveloper => compat.no_developer = true,
            Self::ReasoningRequired => compat.reasoning = ReasoningField::Required,
            Self::NoReasoning => compat.reasoning = ReasoningField::Refused,
            Self::PlainIds if !is_call_id(field(found.path?)) => return None,
            Self::PlainIds => compat.call_ids = CallIdForm::Plain64,
            Self::AlphanumericIds => compat.call_ids = CallIdForm::Alphanumeric9,
            Self::CallsNeedTools => compat.calls_need_tools = true,
            Self::SingleCalls => compat.single_calls = true,
            Self::NoImages => compat.media.images = Some(0),
            Self::NoOtherMedia => compat.media.only_images = true,
            Self::Images => compat.media.images = Some(u32::try_from(found.limit?).ok()?),
            Self::Pixels => compat.media.pixels = Some(pixels(found.limit?)?),
            Self::ManyPixels => {
                compat.media.pixels = Some(pixels(found.limit?)?);
                compat.media.many_images = Some(MANY_IMAGES);
            }
        }
        Some(Remedy::Adapt(Box::new(compat)))
    }
}

/// Returns a number of tokens that can be one of a prompt.
pub(super) fn tokens(number: Option<u64>) -> Option<u32> {
    number.filter(|number| TOKENS.contains(number)).and_then(|number| u32::try_from(number).ok())
}

fn pixels(number: u64) -> Option<u32> {
    u32::try_from(number).ok().filter(|number| (100..=100_000).contains(number))
}

/// Returns the last name of a path, without indexes.
fn field(path: &str) -> &str {
    path.split(['.', '[', ']']).rfind(|part| part.bytes().any(|byte| !byte.is_ascii_digit())).unwrap_or(path)
}

/// Returns `true` if the path is one of a whole message, such as `messages[1]`.
fn is_message(path: &str) -> bool {
    field(path) == "messages"
}

/// Returns `true` if a field of this name has the id of a call.
fn is_call_id(field: &str) -> bool {
    matches!(field, "id" | "call_id" | "tool_call_id" | "tool_use_id" | "toolUseId")
}

/// Returns `true` if the path is the id of an element of Responses, which its maker gave, such as `input[3].id`.
fn is_item_id(path: &str) -> bool {
    path.starts_with("input[") && field(path) == "id"
}
