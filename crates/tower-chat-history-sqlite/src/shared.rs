//! The state that all handles of one store share.

use std::{path::PathBuf, sync::Arc};

use crossbeam_channel::Sender;

use crate::{
    command::{ReaderCommand, WriterCommand},
    stats::Counters,
};

/// Holds the only senders of both queues: the threads end when it is dropped.
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    pub(crate) readers: usize,
    pub(crate) reads: Sender<ReaderCommand>,
    pub(crate) writes: Sender<WriterCommand>,
    pub(crate) counters: Arc<Counters>,
}
