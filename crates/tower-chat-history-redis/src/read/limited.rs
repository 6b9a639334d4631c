//! Scripts that take a limit for their answer.

use tower_chat_history_core::StoreError;

use crate::{
    call::{Call, Shared},
    large::AnswerLimit,
    reply::Reply,
};

impl Shared {
    /// Runs a script that takes a limit for its answer. If the answer is larger, the script runs again as a large call.
    pub(crate) async fn run_limited(&self, mut call: Call<'_>) -> Result<Reply, StoreError> {
        call.answer_limit = AnswerLimit::Small;
        let reply = self.run(&call).await?;
        if reply.word != "large" {
            return Ok(reply);
        }
        call.answer_limit = AnswerLimit::Unlimited;
        self.run(&call).await
    }
}
