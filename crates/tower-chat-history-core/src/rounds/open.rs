//! The calls of one reply that wait for results.

use std::{collections::HashMap, fmt, sync::Arc};

use crate::{
    message::{CallId, Dialect, Message, Place},
    seq::Seq,
};

/// The calls of one reply that have no result yet, in order.
///
/// Providers reuse call ids, so an id is looked up here and never in the whole log.
#[derive(Clone, Default)]
pub struct OpenCalls {
    /// `None` if no call was added.
    calls: Option<Arc<Calls>>,
}

/// The calls of a reply. A result finds its call in constant time.
#[derive(Clone, Default)]
struct Calls {
    in_order: Vec<Call>,
    /// The position of the first open call with each id.
    first_open: HashMap<CallId, usize>,
    /// The position of the last call with each id.
    last: HashMap<CallId, usize>,
    /// The number of calls that are open.
    open: usize,
    /// The dialect of the reply.
    dialect: Option<&'static dyn Dialect>,
}

#[derive(Clone)]
struct Call {
    id: CallId,
    is_open: bool,
    /// The position of the next call with the same id.
    next: Option<usize>,
    /// The exchange of the call, if it is known.
    at: Option<Seq>,
    /// The number of earlier calls of this exchange with the same id.
    occurrence: usize,
}

impl OpenCalls {
    /// Returns the calls of a message. Each waits for its own result, even if two have the same id.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        let mut calls = Self::default();
        calls.add(message, None);
        calls
    }

    /// Adds the calls of another message of the same reply, which is in the exchange at this position. No call may be
    /// answered before.
    #[inline]
    pub(super) fn add(&mut self, message: &Message, at: Option<Seq>) {
        if !message.tool_calls().is_empty() {
            self.add_all(message, at);
        }
    }

    fn add_all(&mut self, message: &Message, at: Option<Seq>) {
        let added = message.tool_calls();
        let Calls { in_order, first_open, last, open, dialect } = Arc::make_mut(self.calls.get_or_insert_default());
        in_order.reserve(added.len());
        for call in added {
            let id = call.call_id();
            let position = in_order.len();
            let mut occurrence = 0;
            match last.insert(id.clone(), position) {
                Some(earlier) => {
                    let earlier = &mut in_order[earlier];
                    earlier.next = Some(position);
                    occurrence = if earlier.at == at { earlier.occurrence + 1 } else { 0 };
                }
                None => drop(first_open.insert(id.clone(), position)),
            }
            in_order.push(Call { id: id.clone(), is_open: true, next: None, at, occurrence });
        }
        *open += added.len();
        *dialect = message.dialect();
    }

    /// Returns `true` if the id is that of one of the calls, which is then no longer open. Of several calls with the
    /// same id, the first one is answered.
    pub(super) fn answer(&mut self, id: &CallId) -> bool {
        let Some(calls) = &mut self.calls else { return false };
        let Some(&position) = calls.first_open.get(id) else { return false };
        let Calls { in_order, first_open, open, .. } = Arc::make_mut(calls);
        in_order[position].is_open = false;
        match (in_order[position].next, first_open.get_mut(id)) {
            (Some(next), Some(first)) => *first = next,
            (_, _) => drop(first_open.remove(id)),
        }
        *open -= 1;
        true
    }

    /// Answers the calls that a message has results for.
    ///
    /// # Errors
    ///
    /// Returns the index of the first result that answers no call.
    pub fn answer_all(&mut self, message: &Message) -> Result<(), usize> {
        message.answers().iter().position(|id| !self.answer(id)).map_or(Ok(()), Err)
    }

    /// Returns `true` if these messages have results, and the results, one after the other, would each answer one of
    /// the calls.
    #[must_use]
    pub fn are_answered_by(&self, results: &[Message]) -> bool {
        let Some(calls) = &self.calls else { return results.is_empty() };
        let mut first_open = HashMap::with_capacity(results.len());
        results.iter().all(|result| {
            !result.answers().is_empty()
                && result.answers().iter().all(|id| {
                    let next = first_open.entry(id).or_insert_with(|| calls.first_open.get(id).copied());
                    next.map(|position| *next = calls.in_order[position].next).is_some()
                })
        })
    }

    /// Returns `true` if these messages have one result for each of the calls, and nothing is left.
    pub(super) fn are_all_answered_by(&self, results: &[Message]) -> bool {
        let answers: usize = results.iter().map(|message| message.answers().len()).sum();
        self.len() == answers && self.are_answered_by(results)
    }

    /// Returns the places of the calls that these results answer, one after the other. A result that answers no call
    /// has none.
    pub(crate) fn places_of<'m>(&self, results: impl IntoIterator<Item = &'m CallId>) -> Vec<Option<Place>> {
        let Some(calls) = &self.calls else { return results.into_iter().map(|_| None).collect() };
        let mut first_open = HashMap::new();
        let mut places = Vec::new();

        for id in results {
            let next = first_open.entry(id).or_insert_with(|| calls.first_open.get(id).copied());
            let Some(position) = *next else {
                places.push(None);
                continue;
            };
            let Call { at, occurrence, next: after, .. } = calls.in_order[position];
            *next = after;
            places.push(at.map(|asked| Place { asked, round: 0, occurrence }));
        }

        places
    }

    /// Returns `true` if there is no call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of calls.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.as_ref().map_or(0, |calls| calls.open)
    }

    /// Returns the constant results with which the calls are closed, in order.
    pub fn abandoned(&self) -> impl Iterator<Item = Message> {
        let dialect = self.calls.as_ref().and_then(|calls| calls.dialect);
        // A dialect reads what it writes. If it does not, the result is left out.
        self.ids().filter_map(move |id| Message::in_dialect(dialect?, dialect?.abandoned(id)).ok())
    }

    /// Returns the ids of the calls.
    pub fn ids(&self) -> impl Iterator<Item = &CallId> {
        let calls = self.calls.iter().flat_map(|calls| &calls.in_order);
        calls.filter(|call| call.is_open).map(|call| &call.id)
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
