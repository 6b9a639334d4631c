//! Where history is kept, as the command line says it.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

use tower_chat_history::{HistoryStore, MemoryStore};
use tower_chat_history_sqlite::{OpenError, SqliteStore};

/// `sqlite:PATH` or `memory:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// In this process only.
    Memory,
    /// In an SQLite file.
    Sqlite(PathBuf),
}

impl StoreUrl {
    /// Opens the store.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub async fn open(&self) -> Result<Arc<dyn HistoryStore>, OpenError> {
        Ok(match self {
            Self::Memory => Arc::new(MemoryStore::new()),
            Self::Sqlite(path) => Arc::new(SqliteStore::open(path).await?),
        })
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        match url.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            _ => Err(StoreUrlError),
        }
    }
}

/// A text that names no store.
#[derive(Debug, PartialEq, Eq)]
pub struct StoreUrlError;

impl fmt::Display for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected sqlite:PATH or memory:")
    }
}

impl std::error::Error for StoreUrlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_stores() {
        assert_eq!("memory:".parse(), Ok(StoreUrl::Memory));
        assert_eq!("sqlite:a/b.db".parse(), Ok(StoreUrl::Sqlite("a/b.db".into())));
        for wrong in ["", "memory", "memory:x", "sqlite:", "redis://x"] {
            assert_eq!(wrong.parse::<StoreUrl>(), Err(StoreUrlError), "{wrong}");
        }
    }
}
