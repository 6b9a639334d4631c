//! Errors of opening a store, and of its calls.

mod open;
mod postgres;

use tower_chat_history_core::StoreError;

pub use self::{open::OpenError, postgres::PostgresError};

/// The failure of a call: an error of the store contract, or one of the database.
#[derive(Debug)]
pub(crate) enum Failure {
    Store(StoreError),
    Postgres(PostgresError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<PostgresError> for Failure {
    fn from(error: PostgresError) -> Self {
        Self::Postgres(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error.into())
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error,
            Failure::Postgres(error) if error.is_retryable() => Self::unavailable(error),
            Failure::Postgres(error) => Self::backend(error),
        }
    }
}
