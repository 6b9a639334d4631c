//! Rules of the order of roles.

use super::{
    Reason,
    request::{Group, Speaker},
};

/// Checks the order of messages.
pub(super) fn check(groups: &[Group<'_>]) -> Result<(), Reason> {
    let (Some(first), Some(last)) = (groups.first(), groups.last()) else { return Err(Reason::NoMessages) };
    let restarts = first.blocks.first().is_some_and(|block| block.kind() == "compaction");
    if first.speaker == Speaker::Assistant && !restarts {
        return Err(Reason::FirstMessage);
    }
    for (at, group) in groups.iter().enumerate().filter(|(_, group)| group.speaker == Speaker::System) {
        // A message with nothing but settings is accepted everywhere.
        let before = at.checked_sub(1).map(|before| groups[before].speaker);
        let after = groups.get(at + 1).map(|after| after.speaker);
        let is_placed = before == Some(Speaker::User) && matches!(after, None | Some(Speaker::Assistant));
        if !group.blocks.is_empty() && !is_placed {
            return Err(Reason::SystemMessage { message: group.first });
        }
    }
    // A paused reply may be continued.
    let pauses = last.blocks.last().is_some_and(|block| {
        let kind = block.kind();
        kind == "server_tool_use" || kind.ends_with("_tool_result")
    });
    if last.speaker == Speaker::Assistant && !pauses { Err(Reason::Prefill) } else { Ok(()) }
}
