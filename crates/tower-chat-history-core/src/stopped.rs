//! The error of long work that stopped before its end.

use std::{error::Error, fmt};

use crate::store::StoreError;

/// The error for work on many conversations that stopped: an [erasure](crate::EraseExt::erase_all), an
/// [erasure of quotes](crate::erase_quotes) or a run of the [expiry](crate::Expiry).
#[derive(Debug)]
#[non_exhaustive]
pub struct Stopped<R> {
    /// The numbers of what was done before, and for a run, the place at which to continue. If the outcome of the last
    /// call is unknown, for example because a connection broke, what that call removed is not in it: the numbers are
    /// then a lower bound.
    pub done: Box<R>,
    /// The cause.
    pub source: StoreError,
}

impl<R> Stopped<R> {
    pub(crate) fn after(done: R, source: StoreError) -> Self {
        Self { done: Box::new(done), source }
    }
}

impl<R: fmt::Debug> Error for Stopped<R>
where
    Self: fmt::Display,
{
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
