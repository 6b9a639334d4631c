//! Conversations in one SQLite file: the store that needs no server.
//!
//! [`SqliteStore`] keeps any number of conversations in a single database file. It brings its own SQLite and its own
//! threads, so it works under every async runtime and blocks none: one thread writes, a few read, and calls only wait for
//! their answer.
//!
//! ```
//! use tower_chat_history_core::{ConversationId, HistoryStoreExt, Message};
//! use tower_chat_history_sqlite::SqliteStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("chat.db");
//! let store = SqliteStore::open(path).await?;
//! let id = ConversationId::new(["acme", "user-42"])?;
//! let conversation = store.conversation(&id);
//! conversation.import([Message::user("Hey there! I'm Nemo."), Message::assistant("Hello!")]).await?;
//! assert_eq!(conversation.messages().await?[1].text(), "Hello!");
//! store.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What an acknowledgement means
//!
//! An append that is answered with `Ok` is in the file:
//!
//! - with [`Synchronous::Full`], the default, it survives a crash of the process, of the system and a loss of power;
//! - with [`Synchronous::Normal`] it survives a crash of the process, but the last appends may be lost when the system
//!   crashes or loses power. The file stays whole either way.
//!
//! With `Full` each commit waits for the disk. Appends that come in meanwhile are committed together by the next one, so
//! the price of that wait is shared: many conversations at once cost little more than one.
//!
//! An append whose future is dropped before its turn comes is not stored; once it has begun it is stored whole.
//!
//! # Several processes
//!
//! Any number of processes on one machine may open the same file, also at the same moment when it does not exist yet. Each
//! append is checked and stored in one transaction, so they cannot overwrite one another. Three limits are SQLite's own:
//!
//! - **Not on a network file system.** The processes share memory beside the file, and locks over a network do not hold.
//! - **One name a file.** All processes must open the file by names in one directory. Under another hard link, or where a
//!   container mounts the single file and not its directory, SQLite looks for another `-wal`, and acknowledged appends
//!   are lost.
//! - **One SQLite a process.** Do not open the file in the same process through another copy of the SQLite library, nor with
//!   plain file functions: closing such a handle drops the locks that this store holds. A file must not be open across a
//!   `fork` either.
//!
//! A call that meets another process's lock waits for it up to the [busy timeout](SqliteOptions::busy_timeout), and
//! fails with [`Unavailable`](tower_chat_history_core::StoreError::Unavailable) after that. The timeout is for each
//! call, however many are queued.
//!
//! A process that is stopped in the middle of a read (by a debugger, or by SIGSTOP) keeps the write-ahead log from
//! being emptied: the log then grows by as much as is written, without bound, until that process goes on or ends. It is
//! emptied by the first [checkpoint](SqliteStore::checkpoint) after that. Nothing is lost by it but disk space.
//!
//! # The file
//!
//! The path that is given is always the name of a file: SQLite's URIs (`file:chat.db?mode=ro`) are not understood. Who
//! hands such a name to SQLite itself, as in `ATTACH` or `VACUUM INTO`, has to take care of that: a relative name that
//! begins with `file:` is a URI there.
//!
//! A file that cannot be written is refused when it is opened, and so is a file beside it that cannot be.
//!
//! Beside `chat.db` there are `chat.db-wal` and `chat.db-shm` while it is open; they belong to it. To copy a database that
//! is in use, run `VACUUM INTO 'copy.db'` on it with the `sqlite3` tool (3.51.3 or newer), or copy all files after
//! [`close`](SqliteStore::close).
//!
//! Do not delete, rename, replace or truncate the file or its `-wal` while it is open, and restore a backup only when all stores on
//! it are closed and `chat.db-wal` is gone: SQLite would go on with the file that it opened, and would write what is
//! left in an old `-wal` into the new file. On Unix the store compares the open file with the one at its path before
//! each call and after each commit, and fails with [`Replaced`] where they differ. A file whose content is exchanged in
//! place is not noticed by that.
//!
//! SQLite says "malformed" of a file that is damaged, and of a page that the disk failed to read once. So a call that
//! meets it is tried a second time at once, and fails with [`Backend`](tower_chat_history_core::StoreError::Backend) if
//! it meets it again.
//!
//! What the rows say is checked against the records in them: numbers that cannot be, and a record that belongs to
//! another exchange, are [`Corrupt`](tower_chat_history_core::StoreError::Corrupt) errors. Such a conversation can
//! still be deleted. There is no checksum: a message whose text was changed by somebody else is not noticed.
//!
//! Deleted text is overwritten in the database (`secure_delete`). The write-ahead log (`-wal`) may keep older pages until a
//! checkpoint: [`SqliteStore::checkpoint`] makes one now, and closing the last connection to the file does so too. What a
//! file system or a disk keeps of overwritten blocks is beyond a library's reach.
//!
//! The text is not encrypted: give the directory the permissions that its content deserves.

mod command;
mod connection;
mod error;
mod job;
mod open;
mod options;
mod read;
mod settings;
mod shared;
mod stats;
mod store;
mod wait;
mod write;

pub use self::{
    error::{Closed, OpenError, Replaced},
    options::SqliteOptions,
    settings::Synchronous,
    stats::Stats,
    store::SqliteStore,
};
