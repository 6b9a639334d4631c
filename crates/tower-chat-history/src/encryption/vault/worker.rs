//! A thread for calls that block.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
};

use futures_channel::oneshot;

use crate::encryption::key::KeyError;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs jobs one after the other, in their order. It ends with the last clone.
#[derive(Clone, Debug)]
pub(super) struct Worker(mpsc::Sender<Job>);

impl Worker {
    /// Starts a thread of this name.
    pub(super) fn start(name: &str) -> Result<Self, KeyError> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            for job in queue {
                job();
            }
        });
        thread.map_err(KeyError::unavailable)?;
        Ok(Self(jobs))
    }

    /// Runs a job after those before it. If the caller leaves before the job begins, it never does.
    ///
    /// A job that panics fails, and the thread goes on with the next one.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, KeyError> + Send + 'static,
    ) -> Result<T, KeyError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move || {
            if answer.is_canceled() {
                return;
            }
            // A job shares nothing with other jobs that a panic could leave half changed.
            let result = catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|_| Err(KeyError::failed(JobPanic)));
            // The caller may have left.
            let _ = answer.send(result);
        });

        self.0.send(job).map_err(|_| KeyError::unavailable(ThreadEnd))?;
        answered.await.unwrap_or_else(|_| Err(KeyError::unavailable(ThreadEnd)))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the thread of the vault has ended")]
struct ThreadEnd;

#[derive(Debug, thiserror::Error)]
#[error("a call of the vault panicked")]
struct JobPanic;

#[cfg(test)]
mod tests {
    use std::{pin::pin, thread::ThreadId};

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn jobs_run_on_one_thread_in_their_order_and_not_for_those_who_left() {
        let worker = Worker::start("test").unwrap();
        let (begin, begun) = mpsc::channel::<()>();
        let (ran, order) = mpsc::channel::<(usize, ThreadId)>();
        let job = |number: usize| {
            let ran = ran.clone();
            worker.run(move || ran.send((number, thread::current().id())).map_err(KeyError::failed))
        };
        let mut first = pin!(worker.run(move || begun.recv().map_err(KeyError::failed)));
        assert!(first.as_mut().now_or_never().is_none());
        let mut last = pin!(job(3));
        {
            let mut left = pin!(job(2));
            assert!(left.as_mut().now_or_never().is_none());
            assert!(last.as_mut().now_or_never().is_none());
        }
        begin.send(()).unwrap();
        first.await.unwrap();
        job(4).await.unwrap();
        last.await.unwrap();
        let ran: Vec<_> = order.try_iter().collect();
        assert_eq!(ran.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(ran[0].1, ran[1].1);
    }

    #[tokio::test]
    async fn a_job_that_panics_is_an_error_and_the_next_one_runs() {
        let worker = Worker::start("test").unwrap();
        let refused = worker.run(|| -> Result<(), KeyError> { panic!("a job panics") }).await.unwrap_err();
        assert!(matches!(&refused, KeyError::Failed { source } if source.is::<JobPanic>()), "{refused:?}");
        assert_eq!(worker.run(|| Ok(1)).await.unwrap(), 1);
    }
}
