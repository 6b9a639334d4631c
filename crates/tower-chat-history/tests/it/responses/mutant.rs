//! The dialect without one of its rules.

use tower_chat_history::{
    Message,
    dialect::{CallId, Closes, Dialect, Digest, Index, MessageError, OpenAiResponses, Part, Space, ToolCall},
    store::{Origin, Role},
};

/// Reasoning need not be followed.
pub(super) const NOT_BOUND_TO_NEXT: u8 = 0;
/// Nothing is bound to its origin.
pub(super) const NOT_BOUND_TO_ORIGIN: u8 = 1;
/// Items keep their ids without their reasoning.
pub(super) const IDS_STAY: u8 = 2;
/// All kinds of calls have one space of ids.
pub(super) const ONE_SPACE: u8 = 3;
/// Calls need no output.
pub(super) const OPENS_NOTHING: u8 = 4;
/// Each item of a reply closes the calls before it.
pub(super) const CLOSES_ALWAYS: u8 = 5;

/// The dialect without a rule. Its name is another one, so that stored records are read by it.
#[derive(Debug)]
pub(super) struct Mutant<const WITHOUT: u8>;

impl<const WITHOUT: u8> Dialect for Mutant<WITHOUT> {
    fn name(&self) -> &'static str {
        ["mutant/next", "mutant/origin", "mutant/ids", "mutant/space", "mutant/opens", "mutant/closes"]
            [usize::from(WITHOUT)]
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        let mut index = OpenAiResponses.index(json)?;
        let moved = |id: &CallId| CallId::new(Space::DEFAULT, id.as_str());
        match WITHOUT {
            NOT_BOUND_TO_NEXT => index.bound.to_next = false,
            NOT_BOUND_TO_ORIGIN => index.bound.to_origin = false,
            ONE_SPACE => {
                index.answers = index.answers.iter().map(moved).collect();
                let opened = |call: &ToolCall| ToolCall::new(moved(call.call_id()), call.name(), call.arguments());
                index.opens = index.opens.iter().map(opened).collect();
            }
            OPENS_NOTHING => index.opens = Box::default(),
            CLOSES_ALWAYS if index.closes == Closes::AfterResult => index.closes = Closes::Always,
            _ => {}
        }
        Ok(index)
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        OpenAiResponses.parts(message, visit);
    }

    fn compose(&self, role: &Role, text: &str) -> String {
        OpenAiResponses.compose(role, text)
    }

    fn abandoned(&self, call: &CallId) -> String {
        OpenAiResponses.abandoned(call)
    }

    fn cleared(&self, message: &Message, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String> {
        OpenAiResponses.cleared(message, clears, placeholder)
    }

    fn unbound(&self, message: &Message) -> Option<String> {
        let unbound = OpenAiResponses.unbound(message);
        if WITHOUT == IDS_STAY { unbound.map(|_| message.json().to_owned()) } else { unbound }
    }

    fn digest(&self, json: &str) -> Digest {
        OpenAiResponses.digest(json)
    }

    fn reads(&self, made_by: &Origin, reader: &Origin) -> bool {
        OpenAiResponses.reads(made_by, reader)
    }
}
