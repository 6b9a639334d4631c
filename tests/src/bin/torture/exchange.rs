//! The exchanges that the workers store.

use std::{fmt, str::FromStr};

use tower_chat_history::{
    ConversationId, ExchangeId,
    store::{ConversationIdError, InvalidValue, Prefix},
};

/// The number of a conversation.
pub(crate) type Conversation = u32;

/// Returns true if a conversation is held in the [signing dialect](crate::signed). The others are chat completions.
pub(crate) const fn is_signed(conversation: Conversation) -> bool {
    conversation % 2 == 1
}

/// The first part of the ids of all conversations.
const ALL: &str = "torture";

/// Returns the prefix of all conversations.
pub(crate) fn all_conversations() -> Result<Prefix, ConversationIdError> {
    Prefix::new([ALL])
}

/// Returns the id of a conversation.
pub(crate) fn conversation_id(conversation: Conversation) -> Result<ConversationId, ConversationIdError> {
    ConversationId::new([ALL, &format!("c{conversation}")])
}

/// The unique name of an exchange: `w<worker>-<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    pub(crate) worker: u32,
    pub(crate) number: u32,
}

impl Name {
    pub(crate) fn exchange_id(self) -> Result<ExchangeId, InvalidValue> {
        ExchangeId::new(self.to_string())
    }

    /// Returns the name of the exchange before it by the same worker. A tool result answers the call of that
    /// exchange.
    pub(crate) const fn before(self) -> Self {
        Self { worker: self.worker, number: self.number.saturating_sub(1) }
    }

    /// Returns the id of the call that this exchange makes.
    pub(crate) fn call_id(self) -> String {
        format!("call-{self}")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}-{}", self.worker, self.number)
    }
}

impl FromStr for Name {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (worker, number) = text.strip_prefix('w').and_then(|rest| rest.split_once('-')).ok_or(())?;
        let name = Self { worker: worker.parse().map_err(drop)?, number: number.parse().map_err(drop)? };
        if name.to_string() == text { Ok(name) } else { Err(()) }
    }
}

/// The kind of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A question and its reply.
    Plain,
    /// A question that is answered by a tool call.
    Call,
    /// The result of the call in the exchange [before](Name::before), and another call.
    Step,
    /// The result of the call in the exchange [before](Name::before), and the final reply.
    Result,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Plain, Self::Call, Self::Step, Self::Result];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Call => "call",
            Self::Step => "step",
            Self::Result => "result",
        }
    }

    /// Returns true if its input is the result of a call.
    pub(crate) const fn continues(self) -> bool {
        matches!(self, Self::Step | Self::Result)
    }

    /// Returns true if its reply is a call.
    pub(crate) const fn calls(self) -> bool {
        matches!(self, Self::Call | Self::Step)
    }
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(())
    }
}

/// An exchange to be stored. It determines its [texts](crate::text).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) name: Name,
    pub(crate) conversation: Conversation,
    pub(crate) kind: Kind,
}

impl FromStr for Task {
    type Err = ();

    /// Parses a line between the processes: `<name> <conversation> <kind>`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let mut word = || words.next().ok_or(());
        let (name, conversation, kind) = (word()?.parse()?, word()?.parse().map_err(drop)?, word()?.parse()?);
        if words.next().is_some() { Err(()) } else { Ok(Self { name, conversation, kind }) }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, self.conversation, self.kind.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(kind: Kind) -> Task {
        Task { name: Name { worker: 3, number: 17 }, conversation: 5, kind }
    }

    #[test]
    fn a_task_round_trips_as_one_line() {
        assert_eq!(task(Kind::Call).to_string(), "w3-17 5 call");
        assert_eq!("w3-17 5 call".parse(), Ok(task(Kind::Call)));
        for wrong in ["", "w3-17 5", "w3-17 5 call x", "w03-17 5 call", "3-17 5 call"] {
            assert_eq!(wrong.parse::<Task>(), Err(()), "{wrong}");
        }
    }
}
