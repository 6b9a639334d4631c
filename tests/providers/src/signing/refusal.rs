//! The reasons why the provider refuses a prompt.

use tower_chat_history_core::CallId;

/// The reason why a [`SigningProvider`](super::SigningProvider) refuses a prompt. Positions are indexes of elements,
/// counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The prompt has no element.
    #[error("the prompt has no element")]
    Empty,
    /// An element is not in the [format](super#elements).
    #[error("element {position} is not in the format")]
    Unreadable {
        /// The position of the element.
        position: usize,
    },
    /// An element has no contents.
    #[error("element {position} says nothing")]
    SaysNothing {
        /// The position of the element.
        position: usize,
    },
    /// An element has an empty text or an empty list of results, next to other contents.
    #[error("element {position} has an empty field")]
    EmptyField {
        /// The position of the element.
        position: usize,
    },
    /// A system element is not at the beginning.
    #[error("element {position} is a system element, but not at the beginning")]
    MisplacedSystem {
        /// The position of the element.
        position: usize,
    },
    /// A call has no result before the next element that is not a result.
    #[error("the call {call:?} has no result before element {position}")]
    UnansweredCall {
        /// The position of the element before which the result is missing. It is the number of elements if the prompt
        /// ends without the result.
        position: usize,
        /// The call.
        call: CallId,
    },
    /// A result answers no open call: the call does not exist, is answered already, or is in an earlier reply.
    #[error("a result in element {position} answers no open call: {call:?}")]
    UnknownCall {
        /// The position of the element.
        position: usize,
        /// The call that the result names.
        call: CallId,
    },
    /// A result has the id of an open call, but another kind.
    #[error("a result in element {position} has the kind of another call: {call:?}")]
    WrongKind {
        /// The position of the element.
        position: usize,
        /// The call that the result names.
        call: CallId,
    },
    /// The user's text is before a result.
    #[error("element {position} has a text before the last result")]
    TextBeforeResults {
        /// The position of the element with the text.
        position: usize,
    },
    /// An element that must be followed by another one of the reply is not.
    #[error("element {position} is not followed by another element of its reply")]
    MissingNext {
        /// The position of the element.
        position: usize,
    },
    /// A signature was made for another prompt, for another text, or by somebody else, or is missing.
    #[error("the signature in element {position} is not that of the elements before it")]
    InvalidSignature {
        /// The position of the element.
        position: usize,
    },
    /// Sealed reasoning is that of another provider.
    #[error("element {position} was sealed by another provider")]
    ForeignSeal {
        /// The position of the element.
        position: usize,
    },
}
