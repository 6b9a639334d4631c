//! Properties of all prompts and of the log, in random conversations of two engines with recalled messages.

mod conversation;
mod setup;

use proptest::prelude::*;
use tower_chat_history_conformance::shorthand::cases;

use self::{
    conversation::Conversation,
    setup::{Step, any_setup, any_step},
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(500)))]

    /// Each prompt is valid and within its budget. It begins with the previous prompt, unless a compaction was stored
    /// or messages were left out for one call. A search gets the citations that the prompt shows. The log has the
    /// messages of callers and model, and each exchange has the recalled messages that were sent, byte for byte.
    #[test]
    fn prompts_with_recalled_messages_are_valid_and_stable_and_the_log_is_complete(
        setup in any_setup(),
        steps in prop::collection::vec(any_step(), 1..18),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut conversation = Conversation::new(&setup);
            for step in &steps {
                match step {
                    Step::Turn(turn) => conversation.turn(turn).await?,
                    Step::Together(first, second) => conversation.together(*first, *second).await?,
                }
            }
            conversation.check_log().await
        })?;
    }
}
