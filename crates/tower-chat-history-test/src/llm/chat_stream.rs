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
/// As with async-openai, an error event becomes an item of the stream ([`OpenAIError::JSONDeserialize`]), and the
/// stream continues after it. If a stream ends early without an error, the only sign is the missing finish reason.
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
        // The request is received here and not in the future, so that replies of a script are used in the order of the
        // calls.
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
