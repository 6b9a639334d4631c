//! The lists of LangChain's `RedisChatMessageHistory`, read from a server.

use std::{
    collections::VecDeque,
    io::{self, Read},
    time::Duration,
};

use redis::{Connection, RedisError, RedisResult};
use serde::Serialize;

/// The beginning of keys in dumps, for the reader of dumps.
const KEYS: &str = "message_store:";

/// The time limit of a connection, and of each answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of keys at which the server looks per call.
const SCANNED: usize = 500;

/// The lists of a server as a dump: one object in each line, with the key of a list and its values. It needs memory for
/// one list at a time.
///
/// Only lists are read. If the server changes during a scan, it may name a key twice.
pub(crate) struct Dump {
    connection: Connection,
    /// The beginning of the keys.
    prefix: Vec<u8>,
    /// The place at which the scan continues, or `None` at its end.
    scan: Option<u64>,
    keys: VecDeque<Vec<u8>>,
    line: io::Cursor<Vec<u8>>,
}

/// A line of a dump. A text that is not UTF-8 is `null`, which the reader of dumps reports.
#[derive(Serialize)]
struct Line<'a> {
    key: Option<String>,
    values: Vec<Option<&'a str>>,
}

impl Dump {
    /// Connects to the server at this URL. The keys begin with `prefix`.
    pub(crate) fn connect(url: &str, prefix: &str) -> RedisResult<Self> {
        let connection = redis::Client::open(url)?.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            connection,
            prefix: prefix.as_bytes().to_vec(),
            scan: Some(0),
            keys: VecDeque::new(),
            line: io::Cursor::default(),
        })
    }

    /// Returns the next line with its line break, or `None` at the end.
    fn next_line(&mut self) -> RedisResult<Option<Vec<u8>>> {
        loop {
            let Some(key) = self.keys.pop_front() else {
                let Some(place) = self.scan else { return Ok(None) };
                let mut scan = redis::cmd("SCAN");
                scan.arg(place).arg("MATCH").arg(pattern(&self.prefix)).arg("COUNT").arg(SCANNED);
                let (next, keys): (u64, Vec<Vec<u8>>) = scan.arg("TYPE").arg("list").query(&mut self.connection)?;
                self.scan = (next != 0).then_some(next);
                self.keys = keys.into();
                continue;
            };

            let values: Vec<Vec<u8>> = redis::cmd("LRANGE").arg(&key).arg(0).arg(-1).query(&mut self.connection)?;
            // A list that has expired since the scan is empty.
            if !values.is_empty() {
                return Ok(Some(line(key.strip_prefix(&*self.prefix).unwrap_or(&key), &values)?));
            }
        }
    }
}

impl Read for Dump {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.line.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match self.next_line().map_err(io::Error::other)? {
                Some(line) => self.line = io::Cursor::new(line),
                None => return Ok(0),
            }
        }
    }
}

/// Returns the line for a list.
fn line(name: &[u8], values: &[Vec<u8>]) -> RedisResult<Vec<u8>> {
    let key = std::str::from_utf8(name).ok().map(|name| format!("{KEYS}{name}"));
    let values = values.iter().map(|value| std::str::from_utf8(value).ok()).collect();
    let mut line =
        serde_json::to_vec(&Line { key, values }).map_err(|error| RedisError::from(io::Error::from(error)))?;
    line.push(b'\n');
    Ok(line)
}

/// Returns the pattern of all keys that begin with this text, in which no character is a wildcard.
fn pattern(prefix: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(prefix.len() + 1);
    for &byte in prefix {
        if b"*?[]\\^".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_in_a_prefix_are_ordinary_characters() {
        assert_eq!(pattern(b"message_store:"), b"message_store:*");
        assert_eq!(pattern(b"a*b?[c]\\"), br"a\*b\?\[c\]\\*");
    }

    #[test]
    fn texts_that_are_not_utf_8_are_not_changed_silently() {
        let text = |line: RedisResult<Vec<u8>>| String::from_utf8(line.unwrap()).unwrap();
        let values = [b"{\"a\":1}".to_vec(), vec![0xff]];
        assert_eq!(text(line(b"s", &values)), "{\"key\":\"message_store:s\",\"values\":[\"{\\\"a\\\":1}\",null]}\n");
        assert_eq!(text(line(&[0xff], &[])), "{\"key\":null,\"values\":[]}\n");
    }
}
