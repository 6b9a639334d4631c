//! Tool calls and their ids.

use std::{fmt, sync::Arc};

use crate::memory::{block, shared};

/// A space of call ids. Some dialects have several kinds of calls, and results are matched within one kind only: a
/// function call and a custom call may then have the same id. Each dialect numbers its spaces itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Space(pub u8);

impl Space {
    /// The only space of chat completions.
    pub const DEFAULT: Self = Self(0);
}

/// The id of a call within its [space](Space). Cloning only increments a reference count.
///
/// Providers reuse ids, so an id is unique only within its round.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CallId {
    space: Space,
    id: Arc<str>,
}

impl CallId {
    /// Creates the id of a call in this space.
    #[must_use]
    pub fn new(space: Space, id: impl Into<Arc<str>>) -> Self {
        Self { space, id: id.into() }
    }

    /// Returns the space.
    #[must_use]
    pub const fn space(&self) -> Space {
        self.space
    }

    /// Returns the id as the provider wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.id
    }

    pub(crate) fn memory(&self) -> usize {
        shared(self.id.len())
    }
}

impl AsRef<str> for CallId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.space {
            Space::DEFAULT => self.id.fmt(f),
            Space(space) => write!(f, "{space}/{:?}", self.id),
        }
    }
}

/// A call of a tool by the model, which waits for a result.
#[derive(Clone, PartialEq, Eq)]
pub struct ToolCall {
    id: CallId,
    name: Box<str>,
    arguments: Box<str>,
    custom: bool,
}

impl ToolCall {
    /// Creates a call of the function `name` with these arguments.
    #[must_use]
    pub fn new(id: CallId, name: impl Into<Box<str>>, arguments: impl Into<Box<str>>) -> Self {
        Self { id, name: name.into(), arguments: arguments.into(), custom: false }
    }

    /// Makes this the call of a custom tool, whose input is free text.
    #[must_use]
    pub const fn custom(mut self) -> Self {
        self.custom = true;
        self
    }

    /// Returns the id that the result must name. Providers reuse ids, so it is unique only within its message.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// Returns the id with its space.
    #[must_use]
    pub const fn call_id(&self) -> &CallId {
        &self.id
    }

    /// Returns the name of the function or custom tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the arguments as the model wrote them: usually, but not always, the text of a JSON object.
    #[must_use]
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Returns `true` if this calls a custom tool, whose input is free text, and `false` for a function.
    #[must_use]
    pub const fn is_custom(&self) -> bool {
        self.custom
    }

    pub(crate) fn memory(&self) -> usize {
        block(size_of::<Self>()) + self.id.memory() + block(self.name().len()) + block(self.arguments().len())
    }
}

impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}
