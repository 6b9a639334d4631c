//! The closures of a [`Custom`] adapter that read responses.

use std::{fmt, future};

use futures_util::{StreamExt as _, stream::BoxStream};
use tower_chat_history_core::{ForeignShape, Message};

use super::Custom;
use crate::{
    adapt::{Asked, Read, ReadResponse},
    call::{Flow, FoldReply, Reply},
    error::{BoxError, StreamStalled},
    report::ResponseShape,
};

/// A closure that finds the reply in a whole response.
#[derive(Clone, Copy)]
pub struct Whole<F>(pub(super) F);

/// A closure that makes the fold of a stream's reply.
#[derive(Clone, Copy)]
pub struct Folded<F>(pub(super) F);

impl<R, S, X, F, Res, T> ReadResponse<Res> for Custom<R, S, Whole<F>, X>
where
    F: Fn(&Res) -> T,
    T: Into<Reply>,
    Res: Send + Sync + 'static,
{
    type Response = Res;

    fn pass(&self, response: Res) -> Res {
        response
    }

    fn read(&self, response: Res, _: Asked) -> impl Future<Output = Result<Read<Res>, BoxError>> + Send {
        let reply = checked((self.reply.0)(&response).into());
        future::ready(Ok(Read::whole(response, reply)))
    }
}

impl<R, S, X, F, W, T, E> ReadResponse<BoxStream<'static, Result<T, E>>> for Custom<R, S, Folded<F>, X>
where
    F: Fn(usize) -> W,
    W: FoldReply<T>,
    T: Send + 'static,
    E: From<StreamStalled> + Send + 'static,
{
    type Response = BoxStream<'static, Result<T, E>>;

    fn pass(&self, response: BoxStream<'static, Result<T, E>>) -> Self::Response {
        response
    }

    fn read(
        &self,
        response: BoxStream<'static, Result<T, E>>,
        asked: Asked,
    ) -> impl Future<Output = Result<Read<Self::Response>, BoxError>> + Send {
        let fold = Checked((self.reply.0)(asked.choices));
        future::ready(Ok(Read::stream(response, fold, E::from, |recorded| recorded.boxed())))
    }
}

/// Removes the reply's message if it is in another API's format. If it were stored, its tool calls would not be
/// found, and the input that answers these calls would be refused.
fn checked(mut reply: Reply) -> Reply {
    if let Some(shape) = reply.messages.iter().find_map(Message::foreign_shape) {
        reply.messages.clear();
        reply.unreadable = Some(match shape {
            ForeignShape::AnthropicBlock(_) => ResponseShape::AnthropicMessage,
            ForeignShape::ResponsesPart(_) => ResponseShape::OpenAiResponse,
            ForeignShape::ConverseBlock(_) => ResponseShape::BedrockConverse,
            ForeignShape::GeminiParts => ResponseShape::GeminiResponse,
            _ => ResponseShape::NoMessage,
        });
    }
    reply
}

/// A fold that applies [`checked`] to its replies.
struct Checked<W>(W);

impl<T, W: FoldReply<T>> FoldReply<T> for Checked<W> {
    fn push(&mut self, item: &T) -> Flow {
        self.0.push(item)
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    fn is_whole(&self) -> bool {
        self.0.is_whole()
    }

    fn reply(&self) -> Reply {
        checked(self.0.reply())
    }

    /// Returns `None` if `checked` removes the message.
    fn partial(&self) -> Option<Reply> {
        self.0.partial().map(checked).filter(|reply| !reply.messages.is_empty())
    }
}

impl From<Message> for Reply {
    fn from(message: Message) -> Self {
        Self::new(message)
    }
}

/// Makes an empty reply of `None`. Nothing is then stored, and the report has
/// [`NotStored::NoReply`](crate::report::NotStored::NoReply).
impl From<Option<Message>> for Reply {
    fn from(message: Option<Message>) -> Self {
        message.map_or_else(Self::default, Self::new)
    }
}

/// Makes an empty reply of `None`. Nothing is then stored.
impl From<Option<Self>> for Reply {
    fn from(reply: Option<Self>) -> Self {
        reply.unwrap_or_default()
    }
}

impl<F> fmt::Debug for Whole<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Whole").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for Folded<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folded").finish_non_exhaustive()
    }
}
