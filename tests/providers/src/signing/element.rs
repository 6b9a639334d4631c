//! The elements of the format, as they are read from JSON.

use serde::Deserialize;
use tower_chat_history_core::{Bound, CallId, Closes, Index, MessageError, Role, Space, ToolCall};

/// An element of the list.
pub(super) struct Element {
    pub(super) speaker: Speaker,
    pub(super) known: Known,
}

/// The value of `from`.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Speaker {
    System,
    User,
    Model,
    Unknown(String),
}

/// All fields that a known speaker can have.
#[derive(Default, Deserialize)]
pub(super) struct Known {
    pub(super) text: Option<String>,
    pub(super) results: Option<Vec<Outcome>>,
    pub(super) call: Option<Asked>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) plan: Option<String>,
    #[serde(default)]
    pub(super) next: bool,
    pub(super) sealed: Option<String>,
    pub(super) by: Option<String>,
    #[serde(default)]
    pub(super) compacts: bool,
}

/// The result of a call.
#[derive(Deserialize)]
pub(super) struct Outcome {
    to: String,
    kind: Kind,
    pub(super) text: String,
}

/// A call.
#[derive(Deserialize)]
pub(super) struct Asked {
    id: String,
    kind: Kind,
    name: String,
    input: String,
}

/// A kind of calls. Each is a space of ids.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    F,
    G,
}

impl Kind {
    const fn space(self) -> Space {
        match self {
            Self::F => Space(0),
            Self::G => Space(1),
        }
    }
}

/// Returns the name of a space in JSON.
pub(super) const fn kind_of(space: Space) -> &'static str {
    match space {
        Space(1) => "g",
        Space(_) => "f",
    }
}

impl Outcome {
    pub(super) fn call(&self) -> CallId {
        CallId::new(self.kind.space(), self.to.as_str())
    }
}

impl Asked {
    pub(super) fn id(&self) -> CallId {
        CallId::new(self.kind.space(), self.id.as_str())
    }
}

impl Element {
    /// Reads an element.
    pub(super) fn read(json: &str) -> Result<Self, MessageError> {
        #[derive(Deserialize)]
        struct From {
            from: String,
        }
        let invalid = |reason| move |_| MessageError::new(reason);
        let From { from } = serde_json::from_str(json)
            .map_err(invalid("expected an object with a string `from`, which occurs once"))?;
        let speaker = match from.as_str() {
            "system" => Speaker::System,
            "user" => Speaker::User,
            "model" => Speaker::Model,
            _ => return Ok(Self { speaker: Speaker::Unknown(from), known: Known::default() }),
        };
        let known: Known =
            serde_json::from_str(json).map_err(invalid("a field has the wrong type, or occurs twice"))?;
        if known.fits(&speaker) {
            Ok(Self { speaker, known })
        } else {
            Err(MessageError::new("a field belongs to another speaker"))
        }
    }

    pub(super) const fn is_unknown(&self) -> bool {
        matches!(self.speaker, Speaker::Unknown(_))
    }

    /// Returns `true` if the element has nothing that a provider accepts.
    pub(super) fn says_nothing(&self) -> bool {
        let Known { call, thinking, plan, sealed, .. } = &self.known;
        !self.is_unknown()
            && self.text().is_none()
            && self.results().is_empty()
            && call.is_none()
            && thinking.is_none()
            && plan.is_none()
            && sealed.is_none()
    }

    /// Returns `true` if a field is empty that providers accept only with content.
    pub(super) fn has_empty_field(&self) -> bool {
        let Known { text, results, .. } = &self.known;
        text.as_ref().is_some_and(String::is_empty) || results.as_ref().is_some_and(Vec::is_empty)
    }

    /// Returns the text, unless it is empty.
    pub(super) fn text(&self) -> Option<&str> {
        self.known.text.as_deref().filter(|text| !text.is_empty())
    }

    /// Returns the results.
    pub(super) fn results(&self) -> &[Outcome] {
        self.known.results.as_deref().unwrap_or_default()
    }

    /// Returns the properties that history needs.
    pub(super) fn index(&self) -> Index {
        let only_results = self.text().is_none() && !self.results().is_empty();
        let (role, closes) = match &self.speaker {
            Speaker::System => (Role::System, Closes::Always),
            Speaker::User if only_results => (Role::Tool, Closes::Never),
            Speaker::User => (Role::User, Closes::Always),
            Speaker::Model => (Role::Assistant, Closes::AfterResult),
            Speaker::Unknown(from) => (Role::Other(from.as_str().into()), Closes::Never),
        };
        let mut index = Index::new(role);
        index.closes = closes;
        index.opens = self.known.call.iter().map(opened).collect();
        index.answers = self.results().iter().map(Outcome::call).collect();
        index.bound = self.bound();
        index.is_blank = self.says_nothing();
        index.is_rewritten = !index.is_blank && self.has_empty_field();
        index.restarts = self.known.compacts && self.known.sealed.is_some();
        index
    }

    fn bound(&self) -> Bound {
        let Known { thinking, sealed, next, .. } = &self.known;
        let bound = match (thinking, sealed) {
            (Some(_), _) => Bound::TO_PREFIX,
            (None, Some(_)) => Bound::TO_ORIGIN,
            (None, None) => Bound::NONE,
        };
        if *next { bound.and_next() } else { bound }
    }
}

fn opened(call: &Asked) -> ToolCall {
    let opened = ToolCall::new(call.id(), call.name.as_str(), call.input.as_str());
    match call.kind {
        Kind::F => opened,
        Kind::G => opened.custom(),
    }
}

impl Known {
    /// Returns `true` if the speaker may have these fields.
    const fn fits(&self, speaker: &Speaker) -> bool {
        let Self { results, call, thinking, signature, plan, next, sealed, by, compacts, text: _ } = self;
        let of_model = call.is_some()
            || thinking.is_some()
            || signature.is_some()
            || plan.is_some()
            || *next
            || sealed.is_some()
            || by.is_some()
            || *compacts;
        match speaker {
            Speaker::System => !of_model && results.is_none(),
            Speaker::User => !of_model,
            Speaker::Model => results.is_none(),
            Speaker::Unknown(_) => true,
        }
    }
}
