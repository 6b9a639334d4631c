//! The service with whole responses.

use std::task::{Context, Poll};

use async_openai::{
    error::OpenAIError,
    types::chat::{CreateChatCompletionRequest, CreateChatCompletionResponse},
};
use tower_service::Service;

use super::{MockLlm, ReplyFuture, decode};

/// The service of a [`MockLlm`] that returns whole responses: see [`MockLlm::unary`].
#[derive(Clone, Debug)]
pub struct MockChat {
    llm: MockLlm,
}

impl MockChat {
    pub(super) const fn new(llm: MockLlm) -> Self {
        Self { llm }
    }
}

impl Service<CreateChatCompletionRequest> for MockChat {
    type Response = CreateChatCompletionResponse;
    type Error = OpenAIError;
    type Future = ReplyFuture<CreateChatCompletionResponse>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CreateChatCompletionRequest) -> Self::Future {
        // The request is received here and not in the future, so that replies of a script are used in the order of the
        // calls.
        let received = self.llm.receive(request, false);
        ReplyFuture::new(async move {
            let (reply, params) = received?;
            reply.wait().await;
            decode::decode(reply.completion(&params).map_err(decode::no_reply)?)
        })
    }
}
