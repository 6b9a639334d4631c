//! The service with streams.

use std::task::{Context, Poll};

use async_openai::{
    error::OpenAIError,
    types::chat::{ChatCompletionResponseStream, CreateChatCompletionRequest},
};
use futures_util::{StreamExt, future::ready};
use tower_service::Service;

use super::{MockLlm, ReplyFuture, decode};
use crate::reply::{Frame, play};

/// The service of a [`MockLlm`] that returns streams: see [`MockLlm::stream`].
///
/// As with async-openai, an error event is an item of the stream ([`OpenAIError::JSONDeserialize`]) and does not end
/// it. A stream that ended early without an error looks complete, except for the missing finish reason.
#[derive(Clone, Debug)]
pub struct MockChatStream {
    llm: MockLlm,
}

impl MockChatStream {
    pub(super) const fn new(llm: MockLlm) -> Self {
        Self { llm }
    }
}

impl Service<CreateChatCompletionRequest> for MockChatStream {
    type Response = ChatCompletionResponseStream;
    type Error = OpenAIError;
    type Future = ReplyFuture<ChatCompletionResponseStream>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CreateChatCompletionRequest) -> Self::Future {
        // Not in the future, so that a script is used in the order of the calls.
        let received = self.llm.receive(request, true);
        ReplyFuture::new(async move {
            let (reply, params) = received?;
            reply.wait().await;
            let chunks = play(reply.transcript(&params).map_err(decode::no_reply)?).filter_map(|frame| {
                ready(match frame {
                    Frame::Data(json) => Some(decode::decode(json)),
                    Frame::Done => None,
                    Frame::Aborted => Some(Err(decode::aborted())),
                })
            });
            // Fused, because async-openai returns a channel, which can be polled after its end.
            Ok(chunks.fuse().boxed() as ChatCompletionResponseStream)
        })
    }
}
