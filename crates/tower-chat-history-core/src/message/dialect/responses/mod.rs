//! The items of OpenAI's Responses API.

mod item;
mod parts;
#[cfg(test)]
mod tests;
mod written;

use super::{CallId, Dialect, Expressed, Index, LeftOut, Media, Part, Statement, chat::reads};
use crate::{
    compat::{Compat, MadeBy},
    message::{Message, MessageError, Role},
    provenance::Origin,
};

/// The items of OpenAI's Responses API, for requests that carry the whole conversation (`store: false`).
///
/// An element is one item of `input` or `output`. As of November 2026:
///
/// | item | role | calls and results | bound to |
/// |---|---|---|---|
/// | `message` of `user`, `developer`, `system`, also without `type` | its own | | |
/// | `message` of `assistant` | `Assistant` | | its origin, if it has an `id` |
/// | `reasoning` | `Assistant` | | its origin, and the next item of its reply |
/// | `function_call`, `custom_tool_call`, `tool_search_call`, `local_shell_call`, `shell_call`, `computer_call`, `apply_patch_call` | `Assistant` | opens a call | its origin, if it has an `id` |
/// | `mcp_approval_request` | `Assistant` | opens a call | |
/// | the outputs of these calls, `mcp_approval_response` | `Tool` | answers a call | |
/// | `web_search_call`, `file_search_call`, `code_interpreter_call`, `image_generation_call`, `mcp_call`, `mcp_list_tools`, `program`, `program_output`, a search of tools on the server | `Assistant` | | its origin, if it has an `id` |
/// | `compaction` | `Assistant` | | its origin |
/// | any other type or role | `Other` | | |
///
/// Each kind of calls has ids of its own. The items of a reply leave the calls before them open, until one of these
/// has a result.
///
/// # Reasoning
///
/// The API refuses a reasoning item without the item that followed it, and an item whose `id` belongs to reasoning that
/// is missing. Only the origin that made it can decrypt `encrypted_content`. For another origin, reasoning is therefore
/// left out, and so are the ids of all items of the reply. The items that the provider executed need their ids, so they
/// are left out as a whole. The id of an `mcp_approval_request` stays, because the response names it. All of this stays
/// as it is for the same origin, also an empty `summary` and a reply without text.
///
/// # Compaction
///
/// A `compaction` item [stands for](Index::restarts) everything before it. Items before it stay in the log, and are
/// sent to another origin. A `compaction_trigger` is stored, and sent only by the call that has it in its input.
///
/// # Limits
///
/// - `output` of a `local_shell_call` is read from `local_shell_call_output`, not from `function_call_output`.
/// - The constant result of an abandoned `computer_call` acknowledges no safety check.
/// - `item_reference` needs state on the server. It is sent as it is, as an item of an unknown kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenAiResponses;

impl OpenAiResponses {
    /// The name of this dialect.
    pub const NAME: &'static str = "openai_responses";
}

impl Dialect for OpenAiResponses {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        item::Item::read(json).map(|item| item.index())
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        parts::visit(message, visit);
    }

    fn compose(&self, role: &Role, text: &str) -> String {
        written::message(role, text)
    }

    /// Returns the output of the call's kind. It says that the call was abandoned. An MCP call is not approved, and the
    /// screenshot of a computer has one pixel.
    fn abandoned(&self, call: &CallId) -> String {
        written::abandoned(call)
    }

    /// Returns the output with `placeholder` in place of its text and its images. A screenshot becomes one of one
    /// pixel. Tools that were found and approvals stay, because later calls need them.
    fn cleared(&self, message: &Message, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String> {
        message
            .answers()
            .iter()
            .any(clears)
            .then_some(message.json())
            .and_then(|json| written::cleared(json, placeholder))
    }

    /// Returns the call of a function with an object as its arguments.
    fn sendable(&self, message: &Message) -> String {
        written::sendable(message.json())
    }

    /// Returns the item with a text in place of the media of a message or an output. A screenshot becomes one of one
    /// pixel. Images that the provider made stay.
    fn without_media(
        &self,
        message: &Message,
        leaves_out: &mut dyn FnMut(Media, Option<&str>) -> bool,
    ) -> Option<String> {
        written::without_media(message.json(), leaves_out)
    }

    /// Returns a message or a call without its `id`, and nothing for reasoning, compactions, and calls that the
    /// provider executed.
    fn unbound(&self, message: &Message) -> Option<String> {
        written::unbound(message.json())
    }

    /// Returns the item with another id of its call, without an id of its own that is too long, or with another role of
    /// an instruction.
    fn adapted(&self, message: &Message, compat: &Compat, _: MadeBy) -> Option<Vec<String>> {
        written::adapted(message, compat).map(|json| vec![json])
    }

    fn statements<'m>(&self, message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
        parts::statements(message, left_out)
    }

    fn express(&self, statements: &[Statement<'_>], expressed: &mut Expressed<'_>) -> Vec<String> {
        written::items(statements, expressed)
    }

    /// Returns `true` if provider, route and account are the same, as far as they are known, and the vendors in the
    /// names of the models, too.
    fn reads(&self, made_by: &Origin, reader: &Origin) -> bool {
        reads(made_by, reader)
    }
}
