//! The blocks of a reply that broke off.

use std::collections::HashSet;

use super::block::Block;
use crate::dialect::AnthropicMessages;

/// Returns the blocks that can be sent again: the first ones, up to one that is not finished or is a call, and the
/// texts after them.
///
/// Thinking is bound to everything before it, so none is kept after a block that is left out. None is kept at the end
/// either, because the API refuses a reply that ends with thinking. A tool that the provider executes is kept together
/// with its result.
pub(super) fn kept(blocks: &[Block]) -> Vec<&Block> {
    let mut open = HashSet::new();
    let mut whole = 0;
    for (position, block) in blocks.iter().enumerate() {
        let is_text = block.kind == "text";
        if block.kind == "tool_use" || !block.is_finished && !is_text {
            break;
        }
        if AnthropicMessages::is_server_call(&block.kind) {
            open.insert(block.text("id").unwrap_or_default());
        } else if AnthropicMessages::is_server_result(&block.kind) {
            open.remove(&block.text("tool_use_id").unwrap_or_default());
        }
        if open.is_empty() {
            whole = position + 1;
        }
    }
    let (first, others) = blocks.split_at(whole);
    let mut kept: Vec<&Block> = first.iter().collect();
    kept.extend(others.iter().filter(|block| block.has_text()));
    let is_thinking = |block: &&Block| matches!(&*block.kind, "thinking" | "redacted_thinking");
    while kept.last().is_some_and(is_thinking) {
        kept.pop();
    }
    kept
}
