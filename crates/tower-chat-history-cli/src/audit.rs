//! The file in which `--audit` records what a command does.

use std::{
    error::Error,
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
    sync::{Mutex, PoisonError},
};

use serde::Serialize;
use tower_chat_history::audit::{Action, Audit, AuditEvent, Subject};
use tower_chat_history_core::Timestamp;

use crate::file;

/// A file to which lines of JSON are appended: one before the first call for a conversation or prefix with the same
/// action, and one for each call that fails. A call whose line cannot be written is not made, and no call after it.
#[derive(Debug)]
pub(crate) struct AuditFile(Mutex<Writer>);

#[derive(Debug)]
struct Writer {
    file: File,
    /// A line could not be written, so the file may end within one.
    is_broken: bool,
    /// The actions that have a line: those on prefixes, and those on the last conversation.
    written: Vec<(Subject, Action)>,
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'a> {
    at: Timestamp,
    actor: &'a str,
    command: Option<&'a str>,
    action: Action,
    #[serde(flatten)]
    subject: &'a Subject,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// Returns the name of the user who runs the program, as far as the environment has it.
pub(crate) fn user() -> String {
    let name = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    name("USER").or_else(|| name("LOGNAME")).unwrap_or_else(|| "unknown".into())
}

impl AuditFile {
    /// Opens the file, or creates it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        if file.metadata()?.len() > 0 {
            // A command that was killed may have left a part of a line.
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        Ok(Self(Mutex::new(Writer { file, is_broken: false, written: Vec::new() })))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Writer) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes everything to the disk.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.with(|writer| writer.whole().and_then(|()| file::sync(&writer.file)))
    }
}

impl Audit for AuditFile {
    fn admit(&self, event: &AuditEvent) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.with(|writer| {
            writer.whole()?;
            if writer.is_new(event) {
                writer.write(event)?;
            }
            Ok(())
        })
    }

    fn record(&self, event: &AuditEvent) {
        if event.error.is_some() {
            // If it cannot be written, no later call is admitted, and the command fails at its end.
            drop(self.with(|writer| writer.write(event)));
        }
    }
}

impl Writer {
    fn whole(&self) -> io::Result<()> {
        if self.is_broken { Err(io::Error::other("an earlier line could not be written")) } else { Ok(()) }
    }

    /// Returns `true` if no line has this action on these conversations, as far as is known.
    fn is_new(&mut self, event: &AuditEvent) -> bool {
        let is_same = |(subject, action): &(Subject, Action)| *action == event.action && *subject == event.subject;
        if self.written.iter().any(is_same) {
            return false;
        }
        if matches!(event.subject, Subject::Conversation(_)) {
            self.written.retain(|(subject, _)| matches!(subject, Subject::Under(_)) || *subject == event.subject);
        }
        self.written.push((event.subject.clone(), event.action));
        true
    }

    fn write(&mut self, event: &AuditEvent) -> io::Result<()> {
        let line = Line {
            at: event.at,
            actor: &event.actor,
            command: event.purpose.as_deref(),
            action: event.action,
            subject: &event.subject,
            error: event.error,
        };
        let mut line = serde_json::to_vec(&line)?;
        line.push(b'\n');
        // One call, so that several programs can append to the file.
        let mut written = self.file.write_all(&line);
        if matches!(event.subject, Subject::Under(_)) {
            // It may stand for an erasure of everything under the prefix. Syncing each conversation would take long.
            written = written.and_then(|()| file::sync(&self.file));
        }
        self.is_broken |= written.is_err();
        written
    }
}
