//! Scripts that take a limit for their answer.

use tower_chat_history_core::StoreError;

use crate::{
    call::{Call, Shared},
    large::AnswerLimit,
    reply::Reply,
};

impl Shared {
    /// Runs a script that takes a limit for its answer. If the answer is larger, the script runs again as a large call.
    pub(crate) async fn run_limited(&self, call: Call<'_>) -> Result<Reply, StoreError> {
        self.run_limited_step(call, &mut false).await
    }

    /// Does the same for a step of a call. If `is_large`, because an earlier step was, the script runs as a large call
    /// at once.
    pub(crate) async fn run_limited_step(&self, mut call: Call<'_>, is_large: &mut bool) -> Result<Reply, StoreError> {
        if !*is_large {
            call.answer_limit = AnswerLimit::Small;
            let reply = self.run(&call).await?;
            if reply.word != "large" {
                return Ok(reply);
            }
            *is_large = true;
        }
        call.answer_limit = AnswerLimit::Unlimited;
        self.run(&call).await
    }
}
