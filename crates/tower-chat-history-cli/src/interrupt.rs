//! Ctrl-C during work that must say how far it came.

use std::{future, process};

use tokio::{signal, sync::watch, task::JoinHandle};

/// The exit code of a program that was ended by Ctrl-C, in shells.
const CODE: i32 = 130;

/// Listens for Ctrl-C until the end of the program. The first one is a request to stop. The second one ends the
/// program.
#[derive(Debug)]
pub(crate) struct Interrupt {
    is_requested: watch::Receiver<bool>,
    _listener: JoinHandle<()>,
}

impl Interrupt {
    pub(crate) fn listen() -> Self {
        let (request, is_requested) = watch::channel(false);
        let listener = tokio::spawn(async move {
            // If there are no signals, Ctrl-C ends the program as usual.
            while signal::ctrl_c().await.is_ok() {
                if request.send_replace(true) {
                    process::exit(CODE);
                }
            }
        });
        Self { is_requested, _listener: listener }
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.is_requested.borrow()
    }

    /// Waits for the first Ctrl-C.
    pub(crate) async fn requested(&mut self) {
        if self.is_requested.wait_for(|is_requested| *is_requested).await.is_err() {
            future::pending::<()>().await;
        }
    }
}
