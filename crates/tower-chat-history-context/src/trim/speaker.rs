//! Who speaks, where only known roles make sense.

use tower_chat_history_core::Role;

/// Who speaks, as a closed list: a name that matches nothing does not compile.
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
    /// Who speaks a message of that role; `None` for a role that this crate does not know.
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

/// Some of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Speakers(Vec<Speaker>);

impl Speakers {
    pub(super) fn new(speakers: impl IntoIterator<Item = Speaker>) -> Self {
        Self(speakers.into_iter().collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contain(&self, role: &Role) -> bool {
        Speaker::of(role).is_some_and(|speaker| self.0.contains(&speaker))
    }

    /// Returns whether a list may begin or end with a message of that role. None at all is no condition.
    pub(super) fn admit(&self, role: &Role) -> bool {
        self.is_empty() || self.contain(role)
    }
}
