//! The reasons why a file is refused, and their errors.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rusqlite::ErrorCode;

use super::files;
use crate::error::{OpenError, is_lock};

/// The reason why a file cannot be used: an [`OpenError`] without its path.
#[derive(Debug)]
pub(crate) enum Refusal {
    Foreign { application_id: i32 },
    NewerSchema { found: i32, known: i32 },
    NoWal { mode: String },
    ReadOnly,
    NotADatabase,
    ReservedName { real: PathBuf },
    TooLong,
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Refusal {
    /// Returns `true` if another process held a lock.
    pub(super) fn is_lock(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_lock(error))
    }

    /// Returns the error for the file at this path.
    pub(super) fn at(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        match self {
            Self::Foreign { application_id } => OpenError::Foreign { path, application_id },
            Self::NewerSchema { found, known } => OpenError::NewerSchema { path, found, known },
            Self::NoWal { mode } => OpenError::NoWal { path, mode },
            Self::ReadOnly => OpenError::ReadOnly { path },
            Self::NotADatabase => OpenError::NotADatabase { path },
            Self::ReservedName { real } => OpenError::ReservedName { path: real },
            Self::TooLong => OpenError::TooLong { path },
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path },
                Some(ErrorCode::ReadOnly) => OpenError::ReadOnly { path },
                Some(ErrorCode::CannotOpen) => cannot_open(&path, error),
                _ => OpenError::Sqlite { path, source: error.into() },
            },
        }
    }
}

/// Asks the file system for the reason: SQLite reports only that the file cannot be opened.
fn cannot_open(path: &Path, error: rusqlite::Error) -> OpenError {
    let is_directory = |path: &Path| fs::metadata(path).map(|metadata| metadata.is_dir());
    let path = path.to_owned();
    if is_directory(&path).unwrap_or(false) {
        return OpenError::Directory { path };
    }
    if files::is_too_long_for_sqlite(&path) {
        return OpenError::TooLong { path };
    }
    match path.parent().map(|directory| (directory, is_directory(directory))) {
        Some((directory, Ok(false))) => OpenError::NoDirectory { directory: directory.to_owned() },
        // Without permission to look, the directory may exist.
        Some((directory, Err(why))) if why.kind() != std::io::ErrorKind::PermissionDenied => {
            OpenError::NoDirectory { directory: directory.to_owned() }
        }
        _ => OpenError::CannotOpen { path, source: error.into() },
    }
}
