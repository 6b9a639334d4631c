//! The events of a stream, in their time.

use futures_util::{Stream, stream::unfold};

use super::{End, Transcript};

/// What a stream gives next.
#[derive(Debug)]
pub(crate) enum Frame {
    /// The data of an event.
    Data(String),
    /// `[DONE]`.
    Done,
    /// The connection breaks; nothing follows.
    Lost,
}

/// Plays the transcript. After [`Frame::Done`] and [`Frame::Lost`] the stream is at its end.
///
/// # Panics
///
/// When the transcript ends with a panic.
#[allow(clippy::panic)] // It was asked for.
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
                End::Lost => Frame::Lost,
                End::Panic(message) => panic!("{message}"),
            };
            Some((last, (events, end, true)))
        },
    )
}
