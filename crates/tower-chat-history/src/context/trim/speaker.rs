//! The speakers by which lists are trimmed.

use tower_chat_history_core::Role;

/// The speaker of a message. It is an enum and not a string, so that a misspelled speaker does not compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Speaker {
    /// The operator: system and developer messages.
    System,
    /// The user.
    #[doc(alias = "human")]
    User,
    /// The model.
    #[doc(alias = "ai")]
    Assistant,
    /// The result of a tool call.
    Tool,
    /// The result of a function call, the older form of [`Tool`](Self::Tool).
    Function,
}

impl Speaker {
    /// Returns the speaker of messages with this role, or `None` if this crate does not know the role.
    #[must_use]
    pub const fn of(role: &Role) -> Option<Self> {
        match role {
            Role::System | Role::Developer => Some(Self::System),
            Role::User => Some(Self::User),
            Role::Assistant => Some(Self::Assistant),
            Role::Tool => Some(Self::Tool),
            Role::Function => Some(Self::Function),
            _ => None,
        }
    }
}

/// A set of speakers.
#[derive(Clone, Debug, Default)]
pub(super) struct Speakers(Vec<Speaker>);

impl Speakers {
    pub(super) fn new(speakers: impl IntoIterator<Item = Speaker>) -> Self {
        Self(speakers.into_iter().collect())
    }

    /// Returns `true` if a list may begin or end with a message of this role. An empty set admits all roles.
    pub(super) fn admit(&self, role: &Role) -> bool {
        self.0.is_empty() || Speaker::of(role).is_some_and(|speaker| self.0.contains(&speaker))
    }
}
