//! The form of a message that the API accepts.

use std::borrow::Cow;

use super::{
    element::{Block, Element, Kind, Speaker},
    result,
};

/// The blocks of a message that are sent.
pub(super) struct Sent<'e, 'a> {
    pub(super) blocks: Vec<SentBlock<'e, 'a>>,
    /// `true` if these are not the message's own blocks.
    pub(super) is_changed: bool,
    /// `true` if a block that is left out has thinking after it that is sent.
    pub(super) changes_before_thinking: bool,
}

/// A block that is sent.
pub(super) struct SentBlock<'e, 'a> {
    pub(super) block: &'e Block<'a>,
    /// The JSON, as it is sent.
    pub(super) json: Cow<'a, str>,
}

/// Returns the blocks that the API accepts, in an order that it accepts.
pub(super) fn sent<'e, 'a>(element: &'e Element<'a>) -> Sent<'e, 'a> {
    let has_words = element.blocks.iter().any(|block| matches!(&block.kind, Kind::Text(text) if !is_blank(text)));
    let is_left_out = |kind: &Kind<'_>| match kind {
        Kind::Text(text) => text.is_empty() || !has_words && is_blank(text),
        Kind::UnsoundCall | Kind::Orphan => true,
        _ => false,
    };
    let mut sent = Sent { blocks: Vec::new(), is_changed: false, changes_before_thinking: false };
    let (mut has_more, mut results_are_last) = (false, false);
    // The number of blocks before the first one that is left out.
    let mut unchanged = None;
    for block in &element.blocks {
        if is_left_out(&block.kind) {
            unchanged = unchanged.or(Some(sent.blocks.len()));
            continue;
        }
        let json = match &block.kind {
            Kind::Result(_) => result::sendable(block.json),
            _ => Cow::Borrowed(block.json),
        };
        sent.is_changed |= matches!(json, Cow::Owned(_));
        results_are_last |= has_more && block.kind.is_result();
        has_more |= !block.kind.is_result();
        sent.blocks.push(SentBlock { block, json });
    }
    if results_are_last {
        sent.blocks.sort_by_key(|sent| !sent.block.kind.is_result());
    }
    let thinking = without_last_thinking(&mut sent.blocks, element);
    sent.is_changed |= unchanged.is_some() || results_are_last || thinking;
    let is_thinking = |sent: &SentBlock<'_, '_>| matches!(sent.block.kind, Kind::Thinking { .. });
    sent.changes_before_thinking = unchanged.is_some_and(|first| sent.blocks.iter().skip(first).any(is_thinking));
    sent
}

/// Removes the thinking at the end of a reply. Returns `true` if there was some.
pub(super) fn without_last_thinking(blocks: &mut Vec<SentBlock<'_, '_>>, element: &Element<'_>) -> bool {
    let is_last = |sent: &SentBlock<'_, '_>| !matches!(sent.block.kind, Kind::Thinking { .. });
    let kept = blocks.iter().rposition(is_last).map_or(0, |last| last + 1);
    let has_some = element.speaker == Speaker::Model && kept < blocks.len();
    if has_some {
        blocks.truncate(kept);
    }
    has_some
}

/// Returns `true` if the API does not count the text as one.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
