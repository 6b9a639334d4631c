//! The place at which a prompt begins anew: a message that stands for everything before it.
//!
//! The newest such message is the first one of the prompt. If calls before it have no result yet, because it is between
//! the elements of their reply, the prompt begins with this reply. So no result is without its call.
//!
//! The start does not depend on the rounds that a cut leaves out. Otherwise prompts under one cut would not begin with
//! each other: the call that stores a cut knows the start before it.

use tower_chat_history_core::Message;

/// The start of a prompt, found by reading the messages in order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restart {
    /// The index of the first item of the prompt.
    pub(super) start: usize,
    /// The number of calls without a result.
    open: usize,
    /// The index of the first item of the reply with the first of these calls.
    opened: usize,
}

impl Restart {
    /// Reads the message of the item at index `at`, also if its round is left out. `reply` is the index of the first
    /// item of its reply. Returns `true` if the prompt begins anew.
    pub(super) fn read(&mut self, at: usize, reply: usize, message: &Message, is_sent: bool) -> bool {
        let before = self.start;
        if message.index().restarts && is_sent {
            self.start = self.start.max(if self.open == 0 { at } else { self.opened });
        }
        let open = (self.open + message.tool_calls().len()).saturating_sub(message.answers().len());
        if self.open == 0 && open > 0 {
            self.opened = reply.max(self.start);
        }
        self.open = open;
        self.start > before
    }
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::OpenAiResponses;

    use super::*;

    const USER: &str = r#"{"role":"user","content":"u"}"#;
    const CALL: &str = r#"{"type":"function_call","call_id":"x","name":"f","arguments":""}"#;
    const OUTPUT: &str = r#"{"type":"function_call_output","call_id":"x","output":"r"}"#;
    const COMPACTION: &str = r#"{"type":"compaction","encrypted_content":"s"}"#;
    const REASONING: &str = r#"{"type":"reasoning","summary":[]}"#;

    /// Returns the start after these items. Each list is a reply, or an item outside of replies.
    fn start(groups: &[&[&str]]) -> usize {
        let (mut restart, mut at) = (Restart::default(), 0);
        for group in groups {
            let reply = at;
            for json in *group {
                restart.read(at, reply, &Message::in_dialect(&OpenAiResponses, *json).unwrap(), true);
                at += 1;
            }
        }
        restart.start
    }

    #[test]
    fn the_prompt_begins_with_the_newest_compaction() {
        assert_eq!(start(&[&[USER], &[CALL], &[OUTPUT], &[USER]]), 0);
        assert_eq!(start(&[&[USER], &[REASONING, COMPACTION], &[USER]]), 2);
        assert_eq!(start(&[&[USER], &[COMPACTION], &[USER], &[CALL], &[OUTPUT], &[COMPACTION], &[USER]]), 5);
    }

    #[test]
    fn calls_of_the_same_reply_stay_before_their_results() {
        assert_eq!(start(&[&[USER], &[REASONING, CALL, COMPACTION, CALL], &[OUTPUT], &[OUTPUT]]), 1);
        assert_eq!(start(&[&[USER], &[COMPACTION, CALL, COMPACTION], &[OUTPUT]]), 1);
        assert_eq!(start(&[&[USER], &[CALL, COMPACTION], &[OUTPUT], &[COMPACTION]]), 4, "the call has its result");
    }
}
