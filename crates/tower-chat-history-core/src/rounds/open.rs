//! The calls of one message that wait for results.

use std::{collections::HashMap, fmt, sync::Arc};

use crate::message::Message;

/// The calls of one assistant message that have no result yet, in order.
///
/// Providers reuse call ids, so an id is looked up here and never in the whole log.
#[derive(Clone, Default)]
pub struct OpenCalls {
    len: usize,
    /// All calls of the message. `None` if it has none.
    calls: Option<Arc<Calls>>,
}

/// The calls of a message. A result finds its call in constant time.
#[derive(Clone)]
struct Calls {
    in_order: Vec<Call>,
    /// The position of the first open call with each id.
    first_open: HashMap<Arc<str>, usize>,
}

#[derive(Clone)]
struct Call {
    id: Arc<str>,
    is_open: bool,
    /// The position of the next call with the same id.
    next: Option<usize>,
}

impl OpenCalls {
    /// Returns the calls of a message. Each waits for its own result, even if two have the same id.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        let calls = message.tool_calls();
        if calls.is_empty() {
            return Self::default();
        }
        let mut first_open = HashMap::with_capacity(calls.len());
        let from_last = calls.iter().enumerate().rev().map(|(position, call)| {
            let id: Arc<str> = call.id().into();
            let next = first_open.insert(Arc::clone(&id), position);
            Call { id, is_open: true, next }
        });
        let mut in_order: Vec<Call> = from_last.collect();
        in_order.reverse();
        Self { len: in_order.len(), calls: Some(Arc::new(Calls { in_order, first_open })) }
    }

    /// Returns `true` if a tool message answers one of the calls, which is then no longer open. Of several calls with
    /// the same id, the first one is answered.
    pub fn answer(&mut self, result: &Message) -> bool {
        let (Some(calls), Some(id)) = (&mut self.calls, result.tool_call_id()) else { return false };
        let Some(&position) = calls.first_open.get(id) else { return false };
        let Calls { in_order, first_open } = Arc::make_mut(calls);
        in_order[position].is_open = false;
        match (in_order[position].next, first_open.get_mut(id)) {
            (Some(next), Some(first)) => *first = next,
            (_, _) => drop(first_open.remove(id)),
        }
        self.len -= 1;
        true
    }

    /// Returns `true` if these tool messages, one after the other, would each answer one of the calls.
    #[must_use]
    pub fn are_answered_by(&self, results: &[Message]) -> bool {
        let Some(calls) = &self.calls else { return results.is_empty() };
        let mut first_open = HashMap::with_capacity(results.len());
        results.iter().all(|result| {
            let Some(id) = result.tool_call_id() else { return false };
            let next = first_open.entry(id).or_insert_with(|| calls.first_open.get(id).copied());
            next.map(|position| *next = calls.in_order[position].next).is_some()
        })
    }

    /// Returns `true` if there is no call.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of calls.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns the ids of the calls.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let calls = self.calls.iter().flat_map(|calls| &calls.in_order);
        calls.filter(|call| call.is_open).map(|call| &*call.id)
    }
}

impl PartialEq for OpenCalls {
    fn eq(&self, other: &Self) -> bool {
        self.ids().eq(other.ids())
    }
}

impl Eq for OpenCalls {}

impl fmt::Debug for OpenCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenCalls").field(&self.ids().collect::<Vec<_>>()).finish()
    }
}
