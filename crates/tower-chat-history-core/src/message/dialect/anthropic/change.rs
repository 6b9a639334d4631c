//! Changed messages. Blocks that are not changed stay as they are written.

use super::{
    super::{Bound, CallId},
    element::{Element, Kind},
    sent::{SentBlock, without_last_thinking},
    server_tools,
};
use crate::json::{Object, quoted};

/// Returns the message with this text as the content of those results for which `clears` returns `true`. Returns `None`
/// if there are none.
pub(super) fn cleared(json: &str, clears: &dyn Fn(&CallId) -> bool, placeholder: &str) -> Option<String> {
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
pub(super) fn answering(json: &str, kept: &[CallId]) -> Option<String> {
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
pub(super) fn without(json: &str, is_removed: impl Fn(Bound) -> bool) -> Option<String> {
    let element = Element::read(json).ok()?;
    let mut blocks = element.sent().blocks;
    blocks.retain(|sent| !is_removed(sent.block.kind.bound()));
    with(&element, blocks)
}

/// Returns the message with only these of the calls that the provider executes itself, and of their results, in the
/// form that the API accepts, or `None` if nothing is left.
pub(super) fn settled(json: &str, calls: &[CallId], results: &[CallId]) -> Option<String> {
    let element = Element::read(json).ok()?;
    with(&element, server_tools::settled(&element, calls, results))
}

/// Returns the message with these of its blocks, or `None` if it says nothing.
fn with(element: &Element<'_>, mut blocks: Vec<SentBlock<'_, '_>>) -> Option<String> {
    without_last_thinking(&mut blocks, element);
    if blocks.is_empty() {
        return None;
    }
    let changed = element.with_blocks(blocks.iter().map(|sent| &*sent.json));
    // A text of white space is left out if it is the only one.
    says_something(&changed).then_some(changed)
}

/// Returns the message in the form that the API accepts.
pub(super) fn sendable(json: &str) -> String {
    let Ok(element) = Element::read(json) else { return json.to_owned() };
    let sent = element.sent();
    if sent.is_changed { element.with_blocks(sent.blocks.iter().map(|sent| &*sent.json)) } else { json.to_owned() }
}

fn says_something(json: &str) -> bool {
    Element::read(json).is_ok_and(|element| !element.says_nothing(&element.sent()))
}
