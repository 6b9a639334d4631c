//! Work that lets the other tasks of its runtime, and the timers, go first.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
    task::{Context, Wake, Waker},
};

use tokio::task::yield_now;

/// The work is not being polled.
const WAITS: u8 = 0;
/// The work is being polled.
const POLLED: u8 = 1;
/// The work is being polled, and was woken meanwhile.
const PAUSED: u8 = 2;

/// Wakes the task of the work, but not while the work is being polled.
#[derive(Debug)]
struct Alarm {
    state: AtomicU8,
    task: Waker,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken = self.state.fetch_update(SeqCst, SeqCst, |state| (state != WAITS).then_some(PAUSED));
        if woken.is_err() {
            self.task.wake_by_ref();
        }
    }
}

/// Runs work that pauses by waking itself, so that each pause lets all tasks that are ready go first.
///
/// Tokio polls a task that wakes itself again at once, and looks at its timers only after 61 polls of tasks. A task
/// that [yields](yield_now) goes on after these.
pub(super) async fn fairly<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    let mut alarm: Option<Arc<Alarm>> = None;
    poll_fn(|context| {
        let known = alarm.take().filter(|alarm| alarm.task.will_wake(context.waker()));
        let new = || Arc::new(Alarm { state: AtomicU8::new(WAITS), task: context.waker().clone() });
        let here = alarm.insert(known.unwrap_or_else(new));
        here.state.store(POLLED, SeqCst);
        let polled = work.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(here))));
        let paused = here.state.swap(WAITS, SeqCst) == PAUSED;
        if polled.is_pending() && paused && pin!(yield_now()).poll(context).is_ready() {
            context.waker().wake_by_ref();
        }
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicUsize, task::Poll};

    use super::*;

    /// Pauses so many times, by waking itself. Counts its polls.
    async fn pauses(times: usize, polls: &AtomicUsize) {
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if polls.fetch_add(1, SeqCst) < times { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    #[tokio::test]
    async fn tasks_that_are_ready_go_first_at_each_pause() {
        let polls = Arc::new([const { AtomicUsize::new(0) }; 2]);
        let (of_fair, of_other) = (Arc::clone(&polls), Arc::clone(&polls));
        let fair = tokio::spawn(async move { fairly(pauses(1000, &of_fair[0])).await });
        // Fewer than the 61 polls after which tokio looks at its timers and at tasks that yielded.
        let other = tokio::spawn(async move {
            pauses(40, &of_other[1]).await;
            of_other[0].load(SeqCst)
        });
        assert!(other.await.unwrap() <= 2, "the fair task waits for the other one");
        fair.await.unwrap();
        assert_eq!(polls[0].load(SeqCst), 1001);
    }

    #[tokio::test]
    async fn work_is_woken_by_other_tasks() {
        let (send, receive) = tokio::sync::oneshot::channel();
        let fair = tokio::spawn(fairly(receive));
        tokio::task::yield_now().await;
        send.send(7).unwrap();
        assert_eq!(fair.await.unwrap(), Ok(7));
    }

    #[test]
    fn work_that_pauses_ends_outside_of_a_runtime() {
        let polls = AtomicUsize::new(0);
        let woken = Arc::new(Alarm { state: AtomicU8::new(POLLED), task: Waker::noop().clone() });
        let waker = Waker::from(Arc::clone(&woken));
        let mut work = pin!(fairly(pauses(3, &polls)));
        let mut rounds = 0;
        while work.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            assert_eq!(woken.state.swap(POLLED, SeqCst), PAUSED, "the task is woken after each pause");
            rounds += 1;
        }
        assert_eq!(rounds, 3);
    }
}
