//! The calls of one message that wait for results.

use crate::message::Message;

/// The calls of one assistant message that have no result yet, in order.
///
/// Providers reuse call ids, so ids are looked up here and never in the whole log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCalls(Vec<Box<str>>);

impl OpenCalls {
    /// The calls that a message opens. Each waits for a result of its own, also where two have the same id.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        Self(message.tool_calls().iter().map(|call| call.id().into()).collect())
    }

    /// Tells whether a tool message answers one of them; that one is then no longer open.
    pub fn answer(&mut self, result: &Message) -> bool {
        let answered = self.0.iter().position(|id| Some(&**id) == result.tool_call_id());
        answered.map(|position| self.0.remove(position)).is_some()
    }

    /// Tells whether each of these tool messages would answer one of them, one after the other.
    #[must_use]
    pub fn are_answered_by(&self, results: &[Message]) -> bool {
        let mut answered = vec![false; self.0.len()];
        results.iter().all(|result| {
            let mut calls = self.0.iter().zip(&mut answered);
            let call = calls.find(|(id, answered)| !**answered && Some(&***id) == result.tool_call_id());
            call.map(|(_, answered)| *answered = true).is_some()
        })
    }

    /// Tells whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Their ids.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|id| &**id)
    }
}
