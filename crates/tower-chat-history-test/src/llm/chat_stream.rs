//! The face that answers in chunks.

use std::task::{Context, Poll};

use async_openai::{
    error::OpenAIError,
    types::chat::{ChatCompletionResponseStream, CreateChatCompletionRequest},
};
use futures_util::{StreamExt, future::ready};
use tower_service::Service;

use super::{MockLlm, ReplyFuture, decode};
use crate::reply::{Frame, play};

/// The face of a [`MockLlm`] that answers with a stream: see [`MockLlm::stream`].
///
/// As with async-openai, an error event is an item of the stream ([`OpenAIError::JSONDeserialize`]) and does not end it,
/// and a stream that was cut off cleanly looks like one that is complete, but for the finish reason.
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
        // Here and not in the future, so that a script is used up in the order of the calls.
        let received = self.llm.receive(request, true);
        ReplyFuture::new(async move {
            let (reply, asked) = received?;
            reply.wait().await;
            let chunks = play(reply.transcript(&asked).map_err(decode::stopped)?).filter_map(|frame| {
                ready(match frame {
                    Frame::Data(json) => Some(decode::decode(json)),
                    Frame::Done => None,
                    Frame::Lost => Some(Err(decode::lost())),
                })
            });
            // Fused, since this stands for a channel, which can be asked again after its end.
            Ok(chunks.fuse().boxed() as ChatCompletionResponseStream)
        })
    }
}
