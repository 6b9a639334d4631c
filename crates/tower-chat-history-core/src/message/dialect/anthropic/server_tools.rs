//! Calls that the provider executes itself, and their results.
//!
//! The provider makes the result in the same reply. There are two exceptions: it may pause the reply before it has the
//! result, and it executes no call as long as another call of the same reply waits for the program. The next reply then
//! begins with the result.

use std::{
    collections::{HashMap, HashSet},
    ptr,
};

use super::{
    element::{Block, Element, Kind},
    sent::SentBlock,
};
use crate::message::dialect::CallId;

/// The calls of a message without their results, and the results without their calls.
pub(super) struct ServerTools<'b> {
    /// The blocks, each with its index.
    calls: Vec<(usize, &'b CallId)>,
    results: Vec<(usize, &'b CallId)>,
}

impl<'b> ServerTools<'b> {
    /// Finds the calls and results of these blocks.
    pub(super) fn of(blocks: &'b [Block<'_>]) -> Self {
        let mut open: HashMap<&CallId, Vec<usize>> = HashMap::new();
        let mut results = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            match &block.kind {
                Kind::ServerCall(id) => open.entry(id).or_default().push(at),
                Kind::ServerResult(id) => {
                    let call = open.get_mut(id).and_then(Vec::pop);
                    if call.is_none() {
                        results.push((at, id));
                    }
                }
                _ => {}
            }
        }
        let calls = open.into_iter().flat_map(|(id, all)| all.into_iter().map(move |at| (at, id)));
        let mut calls: Vec<(usize, &CallId)> = calls.collect();
        calls.sort_unstable_by_key(|(at, _)| *at);
        Self { calls, results }
    }

    pub(super) fn calls(&self) -> Vec<CallId> {
        self.calls.iter().map(|(_, id)| (*id).clone()).collect()
    }

    pub(super) fn results(&self) -> Vec<CallId> {
        self.results.iter().map(|(_, id)| (*id).clone()).collect()
    }
}

/// Returns the indexes of the entries that are not kept. Both lists have the same order.
fn left_out(found: &[(usize, &CallId)], kept: &[CallId]) -> Vec<usize> {
    let mut kept = kept.iter().peekable();
    let is_left_out = |(_, id): &&(usize, &CallId)| kept.next_if(|kept| kept == id).is_none();
    found.iter().filter(is_left_out).map(|(at, _)| *at).collect()
}

/// Returns the blocks that are left with only these calls and results. Thinking after the first block that is left out
/// is left out, too: the provider compares what is before it.
pub(super) fn settled<'e, 'a>(
    element: &'e Element<'a>,
    calls: &[CallId],
    results: &[CallId],
) -> Vec<SentBlock<'e, 'a>> {
    let found = ServerTools::of(&element.blocks);
    let mut without = left_out(&found.calls, calls);
    without.extend(left_out(&found.results, results));
    let without: HashSet<*const Block<'_>> = without.into_iter().map(|at| ptr::from_ref(&element.blocks[at])).collect();
    let (mut is_changed, mut next) = (false, 0);
    let mut sent = element.sent().blocks;
    sent.retain(|sent| {
        // Blocks that are never sent count, too.
        let skipped = element.blocks[next..].iter().position(|block| ptr::eq(block, sent.block)).unwrap_or_default();
        next += skipped + 1;
        is_changed |= skipped > 0;
        let is_left_out = without.contains(&ptr::from_ref(sent.block));
        is_changed |= is_left_out;
        !(is_left_out || is_changed && sent.block.kind.bound().to_prefix)
    });
    sent
}
