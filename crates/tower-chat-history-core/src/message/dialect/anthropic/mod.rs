//! Anthropic Messages, the format of Anthropic's API, which other providers offer as well.

mod element;
mod express;
mod marks;
mod parts;
mod statements;
#[cfg(test)]
mod tests;

use self::element::{Element, Kind, SentBlock, settled_blocks, without_last_thinking};
use super::{Bound, CallId, Dialect, Expressed, Index, LeftOut, Media, Part, Statement, agree};
use crate::{
    compat::{CallIdForm, Compat, MadeBy, SystemMessages},
    digest::Digest,
    json::{Object, quoted},
    message::{Message, MessageError, Role},
    provenance::Origin,
};

/// The result of a call that was abandoned. It is constant, so that it never changes a part of a prompt that was
/// already sent.
const ABANDONED: &str = "[no result: this call was abandoned]";

/// The format of Anthropic's Messages API: messages of the roles `user`, `assistant` and `system`, whose content is a
/// text or a list of blocks.
///
/// The rules are those of the provider's documentation and of its errors in public issues, as of November 2026:
///
/// | block | meaning |
/// |---|---|
/// | `tool_use` in a reply | a call that waits for a result |
/// | `tool_result` of the user | the result of a call. A message of nothing but results has [`Role::Tool`] |
/// | `thinking` with a signature, `redacted_thinking` | [bound](Index::bound) to the prompt and the origin |
/// | `thinking` without a signature | bound to nothing. Other providers of this format require it |
/// | `compaction` | a summary by the provider. It is bound to its origin. What is before it is sent, too, because it shares a message with calls and thinking: the API does not read it |
/// | `server_tool_use`, `mcp_tool_use` and their results | calls that the provider executes itself (see below) |
/// | a block of another type | stays as it is written. In a reply, it is bound to its prompt if it has a `signature` |
///
/// The API refuses some messages that can be in a log. They are [sent](Dialect::sendable) in another form:
///
/// - An empty text is left out, also in the content of a result. Texts of white space are left out if the message has
///   no other text.
/// - Thinking at the end of a reply is left out, because a reply may not end with it.
/// - Results come before everything else in their message.
/// - A failed result (`is_error`) without content gets a constant text.
/// - The input of a `tool_use` is an object. Another value is wrapped in one.
/// - A `tool_use` without an id or a name, and a `tool_result` that names no call, are left out.
///
/// A message of which nothing is left [is blank](Index::is_blank).
///
/// # Tools of the provider
///
/// The provider executes the calls of its own tools and adds the results to the same reply. In two cases, the result is
/// at the beginning of the next reply: if the provider paused (`pause_turn`), or if the reply also has a `tool_use`,
/// which waits for the program. The API refuses such a call if anything but replies and results comes after it, and a
/// result without its call. Both are then [left out](Index::server_calls).
///
/// The API takes a system message within a conversation only after a message of the user, and as the last message or
/// before a reply. Such a message is therefore left out together with the reply that [follows](Bound::to_next)
/// it. A system message that has settings and no content is accepted everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnthropicMessages;

impl AnthropicMessages {
    /// The name of this dialect.
    pub const NAME: &'static str = "anthropic_messages";

    /// Returns `true` for the type of a block that is a call which the provider executes itself.
    #[must_use]
    pub fn is_server_call(kind: &str) -> bool {
        matches!(kind, "server_tool_use" | "mcp_tool_use")
    }

    /// Returns `true` for the type of a block in a reply that is the result of such a call.
    #[must_use]
    pub fn is_server_result(kind: &str) -> bool {
        kind.ends_with("_tool_result")
    }
}

impl Dialect for AnthropicMessages {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn index(&self, json: &str) -> Result<Index, MessageError> {
        Element::read(json).map(|element| element.index())
    }

    fn parts<'m>(&self, message: &'m Message, visit: &mut dyn FnMut(Part<'m>)) {
        parts::visit(message, visit);
    }

    /// A system message may stand only in few places of the list, so instructions are said by the user.
    fn compose(&self, role: &Role, text: &str) -> String {
        let role = if *role == Role::Assistant { "assistant" } else { "user" };
        format!(r#"{{"role":"{role}","content":{}}}"#, quoted(text))
    }

    fn abandoned(&self, call: &CallId) -> String {
        let id = quoted(call.as_str());
        let text = quoted(ABANDONED);
        let result = format!(r#"{{"type":"tool_result","tool_use_id":{id},"content":{text},"is_error":true}}"#);
        format!(r#"{{"role":"user","content":[{result}]}}"#)
    }

    fn cleared(&self, message: &Message, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String> {
        cleared(message.json(), clears, placeholder)
    }

    /// Returns the message with a text in place of images and documents, also of those in results.
    fn without_media(
        &self,
        message: &Message,
        leaves_out: &mut dyn FnMut(Media, Option<&str>) -> bool,
    ) -> Option<String> {
        parts::without_media(message.json(), leaves_out)
    }

    fn answering(&self, message: &Message, kept: &[CallId]) -> Option<String> {
        answering(message.json(), kept)
    }

    fn settled(&self, message: &Message, calls: &[CallId], results: &[CallId]) -> Option<String> {
        settled(message.json(), calls, results)
    }

    /// Returns `true` for `pause_turn`. The API continues a paused reply if the reply is the last message.
    fn resumes_without_input(&self, finish_reason: &str) -> bool {
        finish_reason == "pause_turn"
    }

    /// Returns `true`.
    fn begins_with_user(&self) -> bool {
        true
    }

    /// Returns the message without signed thinking, redacted thinking, compactions, and other signed blocks.
    fn unbound(&self, message: &Message) -> Option<String> {
        without(message.json(), Bound::can_be_removed)
    }

    /// Returns the message without signed thinking, redacted thinking, and other signed blocks. Compactions stay.
    fn unbound_from_prompt(&self, message: &Message) -> Option<String> {
        without(message.json(), |bound| bound.to_prefix)
    }

    /// Returns the message without the blocks that the API refuses.
    fn sendable(&self, message: &Message) -> String {
        sendable(message.json())
    }

    /// Returns the message with other ids of calls, or with a system message as one of the user.
    fn adapted(&self, message: &Message, compat: &Compat, _: MadeBy) -> Option<Vec<String>> {
        adapted(message, compat).map(|json| vec![json])
    }

    /// Returns the digest of the message without `cache_control`, because the provider does not compare it. The digest
    /// is that of the form in which the message is sent, unless thinking follows a block that is left out or
    /// changed: the provider may compare what is before its thinking.
    fn digest(&self, json: &str) -> Digest {
        Element::read(json).map_or_else(|_| Digest::of(json.as_bytes()), |element| element.digest())
    }

    fn statements<'m>(&self, message: &'m Message, left_out: &mut LeftOut) -> Vec<Statement<'m>> {
        statements::of(message, left_out)
    }

    fn express(&self, statements: &[Statement<'_>], expressed: &mut Expressed<'_>) -> Vec<String> {
        express::messages(statements, expressed)
    }

    /// Returns `true` if provider and account are the same, as far as they are known. Thinking is valid on all routes
    /// of a provider, and the API ignores that of other models.
    fn reads(&self, made_by: &Origin, reader: &Origin) -> bool {
        agree(made_by.provider.as_deref(), reader.provider.as_deref())
            && agree(made_by.account.as_deref(), reader.account.as_deref())
    }
}

/// Returns the message with this text as the content of those results for which `clears` returns `true`. Returns `None`
/// if there are none.
fn cleared(json: &str, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String> {
    let element = Element::read(json).ok()?;
    let placeholder = quoted(placeholder);
    let mut is_cleared = false;
    let blocks: Vec<String> = element
        .blocks
        .iter()
        .map(|block| match &block.kind {
            Kind::Result(call) if clears(call) => {
                is_cleared = true;
                Object::read(block.json).map_or_else(|| block.json.to_owned(), |it| it.with("content", &placeholder))
            }
            _ => block.json.to_owned(),
        })
        .collect();
    is_cleared.then(|| element.with_blocks(blocks.iter().map(String::as_str)))
}

/// Returns the message with only the results of these calls, or `None` if nothing is left.
fn answering(json: &str, kept: &[CallId]) -> Option<String> {
    let element = Element::read(json).ok()?;
    // Both lists have the same order. Of several results of one call, the first ones are kept.
    let mut kept = kept.iter().peekable();
    let blocks = element.blocks.iter().filter(|block| match &block.kind {
        Kind::Result(call) => kept.next_if(|id| *id == call).is_some(),
        _ => true,
    });
    let blocks: Vec<&str> = blocks.map(|block| block.json).collect();
    if blocks.len() == element.blocks.len() {
        return Some(json.to_owned());
    }
    let changed = element.with_blocks(blocks);
    says_something(&changed).then_some(changed)
}

/// Returns the message without the blocks that are bound so, in the form that the API accepts, or `None` if nothing is
/// left.
fn without(json: &str, is_removed: impl Fn(Bound) -> bool) -> Option<String> {
    let element = Element::read(json).ok()?;
    let mut blocks = element.sent().blocks;
    blocks.retain(|sent| !is_removed(sent.block.kind.bound()));
    sent_with(&element, blocks)
}

/// Returns the message with only these of the calls that the provider executes itself, and of their results, in the
/// form that the API accepts, or `None` if nothing is left.
fn settled(json: &str, calls: &[CallId], results: &[CallId]) -> Option<String> {
    let element = Element::read(json).ok()?;
    sent_with(&element, settled_blocks(&element, calls, results))
}

/// Returns the message with these of its blocks, or `None` if it says nothing.
fn sent_with(element: &Element<'_>, mut blocks: Vec<SentBlock<'_, '_>>) -> Option<String> {
    without_last_thinking(&mut blocks, element);
    if blocks.is_empty() {
        return None;
    }
    let changed = element.with_blocks(blocks.iter().map(|sent| &*sent.json));
    // A text of white space is left out if it is the only one.
    says_something(&changed).then_some(changed)
}

/// Returns the message in the form that the reader accepts, or `None` if it stays as it is.
fn adapted(message: &Message, compat: &Compat) -> Option<String> {
    let is_demoted = *message.role() == Role::System && compat.system != SystemMessages::Anywhere;
    if is_demoted {
        return Some(Object::read(message.json())?.with("role", "\"user\""));
    }

    let form = compat.call_ids;
    let calls = message.tool_calls().iter().map(|call| call.call_id());
    if calls.chain(message.answers()).all(|id| form.accepts(id.as_str())) {
        return None;
    }
    let element = Element::read(message.json()).ok()?;
    let blocks: Vec<String> = element
        .blocks
        .iter()
        .map(|block| match &block.kind {
            Kind::Call(call) => with_id(block.json, "id", call.call_id(), form),
            Kind::Result(call) => with_id(block.json, "tool_use_id", call, form),
            _ => block.json.to_owned(),
        })
        .collect();
    Some(element.with_blocks(blocks.iter().map(String::as_str)))
}

/// Returns the block with the id of its call in this form.
fn with_id(block: &str, name: &str, call: &CallId, form: CallIdForm) -> String {
    let id = quoted(&form.fit(call.as_str()));
    Object::read(block).map_or_else(|| block.to_owned(), |block| block.with(name, &id))
}

/// Returns the message in the form that the API accepts.
fn sendable(json: &str) -> String {
    let Ok(element) = Element::read(json) else { return json.to_owned() };
    let sent = element.sent();
    if sent.is_changed { element.with_blocks(sent.blocks.iter().map(|sent| &*sent.json)) } else { json.to_owned() }
}

fn says_something(json: &str) -> bool {
    Element::read(json).is_ok_and(|element| !element.is_blank(&element.sent()))
}
