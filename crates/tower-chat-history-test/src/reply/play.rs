//! The events of a stream, with their delays.

use futures_util::{Stream, stream::unfold};

use super::{End, Transcript};

/// The next item of a stream.
#[derive(Debug)]
pub(crate) enum Frame {
    /// The data of an event.
    Data(String),
    /// `[DONE]`.
    Done,
    /// The connection breaks. No item follows.
    Aborted,
}

/// Plays the transcript. After [`Frame::Done`] and [`Frame::Aborted`], the stream ends.
///
/// # Panics
///
/// Panics if the transcript ends with a panic.
pub(crate) fn play(transcript: Transcript) -> impl Stream<Item = Frame> + Send {
    let delay = transcript.delay;
    unfold(
        (transcript.events.into_iter(), Some(transcript.end), false),
        move |(mut events, mut end, started)| async move {
            if let Some(event) = events.next() {
                if started && !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                return Some((Frame::Data(event), (events, end, true)));
            }
            let last = match end.take()? {
                End::Done => Frame::Done,
                End::Closed => return None,
                End::Aborted => Frame::Aborted,
                End::Panic(message) => panic!("{message}"),
            };
            Some((last, (events, end, true)))
        },
    )
}
