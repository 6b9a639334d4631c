//! The calls of one message that wait for results.

use crate::message::Message;

/// The calls of one assistant message that have no result yet, in order.
///
/// Providers reuse call ids, so an id is looked up here and never in the whole log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCalls(Vec<Box<str>>);

impl OpenCalls {
    /// Returns the calls of a message. Each waits for its own result, even if two have the same id.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        Self(message.tool_calls().iter().map(|call| call.id().into()).collect())
    }

    /// Returns `true` if a tool message answers one of the calls, which is then no longer open.
    pub fn answer(&mut self, result: &Message) -> bool {
        let answered = self.0.iter().position(|id| Some(&**id) == result.tool_call_id());
        answered.map(|position| self.0.remove(position)).is_some()
    }

    /// Returns `true` if these tool messages, one after the other, would each answer one of the calls.
    #[must_use]
    pub fn are_answered_by(&self, results: &[Message]) -> bool {
        let mut answered = vec![false; self.0.len()];
        results.iter().all(|result| {
            let mut calls = self.0.iter().zip(&mut answered);
            let call = calls.find(|(id, answered)| !**answered && Some(&***id) == result.tool_call_id());
            call.map(|(_, answered)| *answered = true).is_some()
        })
    }

    /// Returns `true` if there is no call.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the ids of the calls.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|id| &**id)
    }
}
