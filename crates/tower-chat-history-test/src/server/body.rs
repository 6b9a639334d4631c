//! The body of a stream.

use std::io;

use axum::body::Bytes;
use futures_util::{Stream, StreamExt, stream::unfold};

use crate::reply::{End, Frame, Transcript, play};

/// Writes the transcript as server-sent events. The body fails at the point where the connection is to break.
pub(super) fn server_sent_events(mut transcript: Transcript) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let write_bytes = transcript.wire_bytes;
    let is_framed = transcript.is_framed;
    if let End::Panic(_) = transcript.end {
        transcript.end = End::Aborted;
    }
    let writes = Writes {
        frames: play(transcript).boxed(),
        write_bytes,
        is_framed,
        buffer: Vec::new(),
        broken: false,
        over: false,
    };
    unfold(writes, |mut writes| async move { writes.next().await.map(|write| (write, writes)) })
}

/// The writes of a body.
struct Writes<S> {
    frames: S,
    /// The size of a write; `None` for one write per event.
    write_bytes: Option<usize>,
    /// `true` if the frames are whole events.
    is_framed: bool,
    buffer: Vec<u8>,
    broken: bool,
    over: bool,
}

impl<S: Stream<Item = Frame> + Unpin> Writes<S> {
    /// Returns the next write.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        // This lets hyper send the previous write before it gets the next one. Each write is therefore sent separately,
        // and the writes before the break of a connection arrive.
        tokio::task::yield_now().await;
        loop {
            let size = self.write_bytes.unwrap_or(usize::MAX).min(self.buffer.len());
            let enough = self.over || self.write_bytes.is_none_or(|bytes| size == bytes);
            if enough && size > 0 {
                return Some(Ok(self.buffer.drain(..size).collect()));
            }

            if self.over {
                let broken = std::mem::take(&mut self.broken);
                return broken.then(|| Err(io::Error::other("the mock aborted the connection")));
            }

            match self.frames.next().await {
                Some(Frame::Data(event)) if self.is_framed => self.buffer.extend(event.into_bytes()),
                Some(Frame::Data(data)) => self.buffer.extend(format!("data: {data}\n\n").into_bytes()),
                Some(Frame::Done) => self.buffer.extend(b"data: [DONE]\n\n"),
                Some(Frame::Aborted) => {
                    self.over = true;
                    self.broken = true;
                }
                None => self.over = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        provider::Signer,
        reply::{Reply, RequestParams},
    };

    async fn writes(reply: Reply) -> Vec<Option<Bytes>> {
        let params = RequestParams {
            number: 1,
            model: "mock".into(),
            n: 1,
            include_usage: false,
            prompt_bytes: 0,
            signer: Signer::default(),
        };
        server_sent_events(reply.transcript(&params).unwrap()).map(Result::ok).collect().await
    }

    #[tokio::test]
    async fn each_event_is_a_write_unless_the_size_of_writes_is_set() {
        let whole = writes(Reply::text("añb").chunk_chars(2)).await;
        assert_eq!(whole.len(), 5);
        assert_eq!(whole[4].as_deref(), Some(&b"data: [DONE]\n\n"[..]));
        let whole: Vec<u8> = whole.into_iter().flatten().flatten().collect();

        for size in [1, 7, 64, usize::MAX] {
            let cut = writes(Reply::text("añb").chunk_chars(2).wire_bytes(size)).await;
            assert!(cut[..cut.len() - 1].iter().flatten().all(|write| write.len() == size), "{size}");
            assert_eq!(cut.into_iter().flatten().flatten().collect::<Vec<u8>>(), whole, "{size}");
        }
    }

    #[tokio::test]
    async fn a_broken_body_has_the_events_before_the_break_and_then_fails_once() {
        for reply in [Reply::text("abc").abort_after(1), Reply::text("abc").panic_after(1, "p").wire_bytes(1_000)] {
            let writes = writes(reply).await;
            assert!(writes.len() == 2 && writes[0].is_some() && writes[1].is_none());
        }
    }
}
