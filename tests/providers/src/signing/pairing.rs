//! The structure of a prompt: the order of elements, and the results of calls.

use tower_chat_history_core::CallId;

use super::{
    element::{Element, Speaker},
    refusal::Refusal,
};

/// Checks the structure of a prompt.
pub(super) fn check(elements: &[Element]) -> Result<(), Refusal> {
    if elements.is_empty() {
        return Err(Refusal::Empty);
    }
    let mut reader = Reader::default();
    for (position, element) in elements.iter().enumerate() {
        if element.is_unknown() {
            reader.must_follow = None;
            continue;
        }
        check_contents(position, element)?;
        if let Some(position) = reader.must_follow.take_if(|_| element.speaker != Speaker::Model) {
            return Err(Refusal::MissingNext { position });
        }
        match element.speaker {
            Speaker::Model => reader.read_reply(position, element)?,
            Speaker::System if reader.has_begun => return Err(Refusal::MisplacedSystem { position }),
            Speaker::System => continue,
            Speaker::User | Speaker::Unknown(_) => reader.read_user(position, element, &elements[position + 1..])?,
        }
        reader.has_begun = true;
    }
    reader.must_follow.map_or(Ok(()), |position| Err(Refusal::MissingNext { position }))?;
    reader.all_answered(elements.len())
}

fn check_contents(position: usize, element: &Element) -> Result<(), Refusal> {
    if element.says_nothing() {
        return Err(Refusal::SaysNothing { position });
    }
    if element.has_empty_field() {
        return Err(Refusal::EmptyField { position });
    }
    Ok(())
}

/// The state after some elements.
#[derive(Default)]
struct Reader {
    has_begun: bool,
    /// The calls of the newest reply that have no result yet.
    open: Vec<CallId>,
    /// `true` after a result of the newest reply.
    is_answering: bool,
    /// The position of an element that must be followed by another one of its reply.
    must_follow: Option<usize>,
}

impl Reader {
    /// Reads an element of a reply. An element after a result begins another reply.
    fn read_reply(&mut self, position: usize, element: &Element) -> Result<(), Refusal> {
        if self.is_answering {
            self.all_answered(position)?;
            self.is_answering = false;
        }
        self.open.extend(element.known.call.iter().map(super::element::Asked::id));
        self.must_follow = element.known.next.then_some(position);
        Ok(())
    }

    /// Reads an element of the user. `rest` has the elements after it.
    fn read_user(&mut self, position: usize, element: &Element, rest: &[Element]) -> Result<(), Refusal> {
        for result in element.results() {
            let call = result.call();
            let Some(answered) = self.open.iter().position(|id| is_same(id, &call)) else {
                let has_other_kind = self.open.iter().any(|id| id.as_str() == call.as_str());
                return Err(if has_other_kind {
                    Refusal::WrongKind { position, call }
                } else {
                    Refusal::UnknownCall { position, call }
                });
            };
            self.open.remove(answered);
            self.is_answering = true;
        }
        if element.text().is_none() {
            return Ok(());
        }
        let is_of_user = |element: &&Element| element.speaker == Speaker::User || element.is_unknown();
        let mut later = rest.iter().take_while(is_of_user).flat_map(Element::results);
        if later.any(|result| self.open.iter().any(|id| is_same(id, &result.call()))) {
            return Err(Refusal::TextBeforeResults { position });
        }
        self.is_answering = false;
        self.all_answered(position)
    }

    fn all_answered(&self, position: usize) -> Result<(), Refusal> {
        let unanswered = self.open.first();
        unanswered.map_or(Ok(()), |call| Err(Refusal::UnansweredCall { position, call: call.clone() }))
    }
}

/// Compares two ids without the equality of [`CallId`], which is a part of the code that is tested.
fn is_same(a: &CallId, b: &CallId) -> bool {
    (a.space(), a.as_str()) == (b.space(), b.as_str())
}
